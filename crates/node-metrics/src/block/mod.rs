//! Disks, and what each process reads and writes.

pub mod disks;
pub mod processes;
