//! A scheduler for pods: what the API server tells becomes a state of the core, the core plans, and
//! what it decides is bound.
//!
//! [`Scheduler`] is the pure part: changes in, [`Turn`]s out. [`run`] is the loop around it. Nothing
//! is kept on disk: the state is filled anew from the API server at the start of each term.

mod message;
mod run;
mod scheduler;

pub use run::{Happened, Settings, run};
pub use scheduler::{Bind, Scheduler, Tell, Turn};
