//! The core outside the daemon.
//!
//! A [`Cycle`] is the exact input of one planning round with the plan that came out of it, as a
//! file. Planning is a pure function of that input, so [`Cycle::replay`] must give the same plan
//! byte for byte on any machine; where it does not, the file is the report. [`whatif`] tries changes on
//! a copy of the state and says whose start they move.

mod cycle;
mod rename;
mod whatif;

pub use cycle::{Cycle, CycleError, FORMAT, Replayed};
pub use whatif::{Moved, Outlook, WhatIf, outlook, whatif};
