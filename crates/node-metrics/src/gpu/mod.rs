//! GPUs: what they are, and what they do.

pub(crate) mod mig;
// A static program cannot load a library that brings a C library of its own.
#[cfg(all(feature = "nvml", not(target_feature = "crt-static")))]
pub(crate) mod nvml;
pub(crate) mod paths;
pub(crate) mod pci;
pub(crate) mod processes;
