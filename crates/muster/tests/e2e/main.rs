//! The whole program from outside: the real binary, real jobs, real kills.

// A test that cannot go on says where.
#![allow(clippy::unwrap_used)]

mod access;
mod admin;
mod again;
mod binding;
mod cli;
mod clients;
mod drive;
mod elsewhere;
mod gpus;
mod jobs;
mod keep;
mod kill;
mod mpi;
mod net;
mod newcomer;
mod otlp;
mod place;
mod preempt;
mod remedy;
mod replay;
mod report;
mod resize;
mod screen;
mod slurm;
mod slurm_init;
mod starts;
mod still;
mod terminal;
mod through_kubernetes;
mod through_slurm;
#[cfg(feature = "top")]
mod top;
mod turns;
mod web;
