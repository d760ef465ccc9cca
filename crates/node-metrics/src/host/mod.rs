//! The machine as a whole: CPU time, memory, load, pressure.

pub(crate) mod cpu;
pub mod load;
pub mod memory;
pub mod pressure;
pub mod stat;
