//! A running Slurm: read by its own commands, and an engine that runs jobs there.
//!
//! [`Commands`] finds `squeue` and `scontrol` by absolute path and runs them, each bounded in time
//! and in what it may say. [`read::read`] makes a [`read::Cluster`] of what they tell: one file for
//! each kind of record. [`read::Cluster::state`] is that as muster's state, to plan on.
//!
//! Only [`act`] and [`SlurmEngine`] change anything in Slurm. The first decides for partitions of
//! Slurm's own jobs; the second submits jobs by `sbatch` as the users whose they are, ends them by
//! `scancel`, and learns by `squeue` and `sacct` what becomes of them.

pub mod act;
mod commands;
mod engine;
mod error;
pub mod init;
mod pace;
mod past;
pub mod read;
mod rest;

pub use commands::Commands;
pub use engine::{SlurmConfig, SlurmEngine};
pub use error::SlurmError;
pub use pace::Pace;
pub use past::Past;
pub use rest::Rest;
