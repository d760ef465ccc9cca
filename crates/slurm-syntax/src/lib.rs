//! The text Slurm users and tools write: scripts, durations, host lists, GRES.

pub mod array;
mod codes;
pub mod constraint;
pub mod count;
pub mod dependency;
pub mod duration;
pub mod exit_code;
pub mod export;
pub mod gres;
pub mod hostlist;
pub mod license;
pub mod memory;
pub mod nearest;
pub mod pattern;
pub mod problem;
pub mod repeat;
mod scan;
pub mod signal;
pub mod state;
pub mod tres;
pub mod when;
