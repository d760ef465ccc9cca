//! A running Slurm, read by its own commands.
//!
//! [`Commands`] finds `squeue` and `scontrol` by absolute path and runs them, each bounded in time
//! and in what it may say. [`read::read`] makes a [`read::Cluster`] of what they tell: one file for
//! each kind of record. [`read::Cluster::state`] is that as muster's state, to plan on.
//!
//! Only [`act`] changes anything in Slurm.

pub mod act;
mod commands;
mod error;
mod pace;
pub mod read;

pub use commands::Commands;
pub use error::SlurmError;
pub use pace::Pace;
