//! Scenarios: a cluster, jobs and what happens to them as text, with the transcript that must come
//! out.
//!
//! A line such as `node n[1-4] cpus=8 gpus=4xa100` is read by people who never saw the types. The
//! same words describe the site in a scenario file and in a test. What is wrong with a text is a
//! [`ScenarioError`] with its line, column, code and hint; nothing panics, whatever the text.
//!
//! This crate reads, keeps the clock and compares. Who plans is given to it as a [`Scheduler`].
//!
//! ```
//! use muster_scenario::Lab;
//! let mut lab = Lab::default();
//! lab.set_up("node n[1-4] cpus=8 gpus=4xa100 mem=64G")?;
//! let job = lab.submit("train nodes=2 gpus-per-node=4 time=60")?;
//! assert!(lab.job(job)?.is_pending());
//!
//! let error = lab.submit("train gpu-per-node=4").unwrap_err();
//! assert_eq!(error.fault.code(), "E_SCENARIO_OPTION");
//! assert_eq!(error.hint.as_deref(), Some("did you mean gpus-per-node?"));
//! # Ok::<(), muster_scenario::ScenarioError>(())
//! ```

mod accounts;
mod affinity;
mod ask;
mod carry;
mod command;
mod dependency;
mod error;
mod fixture;
mod job;
mod lab;
pub mod machines;
mod node;
mod preempt;
mod print;
mod request;
mod reservation;
mod script;
mod tell;
pub mod text;
mod topology;

pub use carry::{Stage, carry_out, end};
pub use command::{COMMANDS, Moved, Replayed, Scheduler, obey};
pub use error::{Fault, Read, ScenarioError};
pub use fixture::WORDS;
pub use lab::Lab;
pub use script::{Difference, Ran, run};
