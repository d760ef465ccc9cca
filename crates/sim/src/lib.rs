//! The core outside the daemon.
//!
//! A [`Cycle`] is the exact input of one planning round with the plan that came out of it, as a
//! file. Planning is a pure function of that input, so [`Cycle::replay`] must give the same plan
//! byte for byte on any machine; where it does not, the file is the report. [`whatif`] tries changes on
//! a copy of the state and says whose start they move. [`run_scenario`] runs a story in text against
//! the planner and compares it with its transcript. [`twin`] replays the past that
//! a [`trace`] holds. [`placement`] fills a cluster and says how much of its GPUs is given out. [`generate`] makes up traces. [`confidence`] says
//! how far a replay's figures can be trusted.

pub mod confidence;
mod cycle;
mod draw;
pub mod generate;
mod openb;
pub mod placement;
mod rename;
pub mod report;
pub mod rows;
mod scenario;
pub mod trace;
pub mod twin;
mod whatif;

pub use cycle::{Cycle, CycleError, FORMAT, Replayed};
pub use muster_scenario::{Difference, Ran, ScenarioError};
pub use scenario::run_scenario;
pub use whatif::{Moved, Outlook, Preempted, WhatIf, outlook, whatif};
