//! Builders, cluster fixtures in text, a small laboratory and generators; a dev-dependency only.
//!
//! Text comes first: a test that says `node n[1-4] cpus=8 gpus=4xa100` is read by people who never
//! saw the types. Everything here panics with a sentence where a text is wrong: it is for tests.
//!
//! ```
//! use muster_test_kit::Lab;
//! let mut lab = Lab::new("node n[1-4] cpus=8 gpus=4xa100 mem=64G");
//! let job = lab.submit("train nodes=2 gpus-per-node=4 time=60");
//! assert!(lab.state.jobs[&job].is_pending());
//! ```

mod accounts_text;
mod affinity_text;
pub mod arbitrary;
pub mod fixture;
pub mod job_text;
pub mod lab;
pub mod machines;
mod preempt_text;
pub mod reservation_text;
pub mod scenario;
pub mod text;
mod topology_text;

pub use lab::Lab;
pub use scenario::{Scheduler, run_scenario};
