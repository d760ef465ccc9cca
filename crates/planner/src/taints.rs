//! Taints that end running jobs (`NoExecute`): which jobs they end, and when.
//!
//! Kubernetes' rules (its page on taints and tolerations): a job that does not tolerate such a taint
//! of one of its nodes is ended at once, one whose toleration names no time stays, and one whose
//! toleration names a time stays so long after the taint came, or after it began there. Of several
//! tolerations that fit a taint the first counts; of several taints the one that ends it first. A
//! taint that goes meanwhile ends nobody.
//!
//! Cost: nothing where no node has such a taint; else a look at the jobs on those that have.

use muster_model::{Decision, Job, JobId, JobState, NodeId, State, Taint, Timestamp};
use std::collections::BTreeMap;

/// The end that taints have for a job.
type Leave<'a> = (Timestamp, NodeId, &'a Taint);

/// When each job on tainted nodes has to leave, for those that have to.
fn leaves(state: &State) -> BTreeMap<JobId, Leave<'_>> {
    let mut leaves: BTreeMap<JobId, Leave<'_>> = BTreeMap::new();
    for ((node, taint), since) in &state.tainted {
        let here = state.index.on_node.get(node).into_iter().flatten();
        for job in here.filter_map(|id| state.jobs.get(id)).filter(|job| stays(job)) {
            let Some(at) = leaves_at(job, taint, *since) else { continue };
            let leave = (at, *node, taint);
            leaves.entry(job.id).and_modify(|first| *first = leave.min(*first)).or_insert(leave);
        }
    }
    leaves
}

/// True for one that nobody ended yet.
fn stays(job: &Job) -> bool {
    matches!(job.state, JobState::Starting | JobState::Running | JobState::Suspended)
        && job.stop.is_none()
}

/// When a taint ends a job; `None` where it tolerates it for good.
fn leaves_at(job: &Job, taint: &Taint, since: Timestamp) -> Option<Timestamp> {
    let affinity = job.spec.request.affinity.as_ref();
    let tolerations = affinity.map_or(&[][..], |affinity| &affinity.tolerations);
    let since = since.max(job.placed.unwrap_or(since));
    match tolerations.iter().find(|toleration| toleration.tolerates(taint)) {
        None => Some(since),
        Some(toleration) => Some(since.plus(toleration.seconds?)),
    }
}

/// The decisions to end those whose time is over.
pub(crate) fn evictions(state: &State, now: Timestamp) -> Vec<Decision> {
    let due = leaves(state).into_iter().filter(|(_, (at, ..))| *at <= now);
    due.filter_map(|(id, (_, node, taint))| {
        let attempt = state.jobs.get(&id)?.attempt;
        Some(Decision::Evict { job: id, attempt, node, taint: taint.to_string() })
    })
    .collect()
}

/// The next instant after `now` at which a taint ends a job.
pub fn next_eviction(state: &State, now: Timestamp) -> Option<Timestamp> {
    if state.tainted.is_empty() {
        return None;
    }
    leaves(state).into_values().map(|(at, ..)| at).filter(|at| *at > now).min()
}
