//! Which jobs are released before there is room for them.

use muster_engine_slurm::read::{AHEAD_MAX, Driven};
use muster_model::{Exclusive, Job, JobId, State};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The jobs that are to start next whatever happens: those at the head of each partition's queue
/// behind the ones that start now, as far as each fits on any node that has room for it.
///
/// Released before there is room, they start in the queue's order in the moment in which a job
/// ends, and not a turn later.
pub(crate) fn ahead(driven: &Driven, state: &State, starting: &BTreeSet<JobId>) -> BTreeSet<JobId> {
    let mut queues: BTreeMap<&str, Vec<&Job>> = BTreeMap::new();
    for (id, target) in &driven.targets {
        if let Some(job) = state.jobs.get(id)
            && !starting.contains(id)
        {
            queues.entry(&target.partition).or_default().push(job);
        }
    }
    let mut ahead = BTreeSet::new();
    for (_, mut queue) in queues {
        queue.sort_by_key(|job| (Reverse(job.spec.priority), job.submitted, job.id));
        let head = queue.iter().take_while(|job| is_small(job)).take(AHEAD_MAX);
        ahead.extend(head.map(|job| job.id));
    }
    ahead
}

/// True for a job that starts on any one node with room, as soon as there is one.
fn is_small(job: &Job) -> bool {
    let (spec, request) = (&job.spec, &job.spec.request);
    request.nodes_min() == 1
        && request.exclusive == Exclusive::No
        && request.node_list.is_empty()
        && request.licences.is_empty()
        && job.het.is_none()
        && job.hold.is_none()
        && spec.dependency.is_none()
        && spec.begin.is_none()
}
