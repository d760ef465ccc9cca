//! A scheduler for pods: what the API server tells becomes a state of the core, the core plans, and
//! what it decides is bound.
//!
//! [`Scheduler`] is the pure part: changes in, [`Turn`]s out. [`run`] is the loop around it. Nothing
//! is kept on disk: the state is filled anew from the API server at the start of each term.

mod health;
mod message;
mod metrics;
mod run;
mod scheduler;

pub use health::Health;
pub use metrics::Metrics;
pub use run::{Happened, Seen, Settings, run};
pub use scheduler::{Bind, Evict, Nominate, Scheduler, Tell, Turn};
