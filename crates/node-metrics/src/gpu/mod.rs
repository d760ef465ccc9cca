//! GPUs: what they are, and what they do.

pub mod amd;
pub mod catalogue;
pub mod dcgm;
pub(crate) mod mig;
// A static program cannot load a library that brings a C library of its own.
#[cfg(all(feature = "nvml", not(target_feature = "crt-static")))]
pub(crate) mod nvml;
#[cfg(all(feature = "nvml", not(target_feature = "crt-static")))]
pub(crate) mod nvml_state;
pub(crate) mod paths;
pub(crate) mod pci;
pub(crate) mod processes;
pub mod smi_csv;
pub mod smi_xml;
pub mod source;
pub mod state;
pub mod xid;
