//! Why jobs wait and when they may start, as the rest of the daemon asks for it.

use muster_model::{Hold, Job, JobId, NodeId, Reason, State, Timestamp};
use std::collections::BTreeMap;

/// What is known of a waiting job's future.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// Everything that blocks it, the binding reason first; empty where it could start now.
    pub(crate) reasons: Vec<Reason>,
    /// Its expected start, if every running job takes its whole limit.
    pub(crate) start: Option<Timestamp>,
    /// The nodes it would start on.
    pub(crate) nodes: Vec<NodeId>,
    /// Waiting jobs before it.
    pub(crate) ahead: Option<u32>,
    /// Changes that were tried and would help.
    pub(crate) suggestions: Vec<Suggested>,
}

/// A change that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suggested {
    /// What to change: `--gpus=4`.
    pub(crate) change: String,
    /// What it would do.
    pub(crate) text: String,
    /// When the job would start with it.
    pub(crate) start: Option<Timestamp>,
}

/// The binding reason of every waiting job.
pub(crate) fn reasons(state: &State, _now: Timestamp) -> BTreeMap<JobId, Reason> {
    let waiting = state.index.pending.iter().filter_map(|id| state.job(*id));
    waiting.map(|job| (job.id, own_reason(job).unwrap_or(Reason::NotPlannedYet))).collect()
}

/// Everything about one waiting job.
pub(crate) fn explain(state: &State, now: Timestamp, job: JobId) -> Outlook {
    let reasons = reasons(state, now).remove(&job).into_iter().collect();
    Outlook { reasons, ..Outlook::default() }
}

/// What a job says of itself: who holds it.
pub(crate) fn own_reason(job: &Job) -> Option<Reason> {
    match job.hold.as_ref()? {
        Hold::User => Some(Reason::HeldByUser),
        Hold::Admin => Some(Reason::HeldByAdmin),
        Hold::System(reason) => Some(reason.clone()),
    }
}
