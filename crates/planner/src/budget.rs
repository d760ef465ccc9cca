//! What one round may do.

use muster_model::Resume;
#[cfg(doc)]
use muster_model::{Plan, Work};

/// How much work a round may do, in counted steps ([`Work::total`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// At most so many steps; the step under way when they are used up is finished.
    pub steps: u64,
    /// Where the last round ended for want of steps ([`Plan::resume`]): jobs up to there are
    /// walked only as far as promises need it.
    pub resume: Option<Resume>,
}

impl Budget {
    /// No bound.
    pub const UNLIMITED: Self = Self { steps: u64::MAX, resume: None };

    /// So many steps, from the start of the queue.
    pub const fn steps(steps: u64) -> Self {
        Self { steps, resume: None }
    }
}
