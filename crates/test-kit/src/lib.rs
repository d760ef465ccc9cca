//! A small laboratory and generators for tests; a dev-dependency only.
//!
//! Text comes first: a test that says `node n[1-4] cpus=8 gpus=4xa100` is read by people who never
//! saw the types. The words are those of scenarios (`muster_scenario`); here they panic with a
//! sentence where a text is wrong.
//!
//! ```
//! use muster_test_kit::Lab;
//! let mut lab = Lab::new("node n[1-4] cpus=8 gpus=4xa100 mem=64G");
//! let job = lab.submit("train nodes=2 gpus-per-node=4 time=60");
//! assert!(lab.state.jobs[&job].is_pending());
//! assert_eq!(muster_test_kit::started(&lab.round()), [job]);
//! ```

pub mod arbitrary;
pub mod lab;
pub mod proved;
pub mod traces;

pub use lab::{Lab, placement, started};
pub use proved::proved;
pub use traces::trace;
