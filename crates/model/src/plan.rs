//! A plan: decisions as values, the promises they rest on, and the work they took.

use crate::{JobId, NodeId, Placement, Reason, TimeLimit, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a planning round decided. A plan changes nothing by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The instant it was made for.
    pub now: Timestamp,
    /// The state's sequence number it was made from.
    pub seq: u64,
    /// What to do, in order.
    pub decisions: Vec<Decision>,
    /// The reserved starts that backfill worked around, the most important first.
    pub promises: Vec<Promise>,
    /// The work it took.
    pub work: Work,
    /// The work it was allowed, in steps ([`Work::total`]).
    #[serde(default)]
    pub steps_max: u64,
    /// From where it went on, where an earlier round had ended for want of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Resume>,
    /// False where this round did not look at every job: its budget ended, or it went on where
    /// an earlier round had ended.
    pub complete: bool,
    /// Where the next round has to go on, where the budget ended this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
}

/// Where a round ended for want of steps.
///
/// A round that goes on from there walks the queue as if it had never ended: what the rounds before
/// started on the same walk counts only from its place in the queue on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The last job that was looked at.
    pub after: JobId,
    /// The jobs that were started on this walk so far.
    pub started: Vec<JobId>,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Starts these jobs, all or none: one job, or all components of a heterogeneous job.
    Start(Vec<Start>),
    /// Ends a waiting job that can never run any more (a missed deadline, a dependency that can
    /// never be met where the policy cancels those).
    Reject {
        /// The job.
        job: JobId,
        /// Why.
        reason: Reason,
    },
}

/// The start of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The job.
    pub job: JobId,
    /// Which attempt this is: one more than the job's.
    pub attempt: u32,
    /// Where.
    pub placement: Arc<Placement>,
    /// Its limit from now, perhaps cut down as far as its `time_min`.
    pub time_limit: TimeLimit,
}

/// A reserved start: backfill may not delay it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// The job.
    pub job: JobId,
    /// Its expected start, if every running job takes its whole limit.
    pub start: Timestamp,
    /// The nodes it would start on, in rank order.
    pub nodes: Vec<NodeId>,
}

impl Work {
    /// All steps, the unit of budgets.
    pub const fn total(self) -> u64 {
        self.jobs.saturating_add(self.fits).saturating_add(self.slots)
    }
}

/// Counted work: the unit of budgets and of benches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Jobs looked at.
    pub jobs: u64,
    /// Requests tried against nodes.
    pub fits: u64,
    /// Points of a timeline walked.
    pub slots: u64,
}
