//! Which jobs are released before there is room for them.

use muster_engine_slurm::read::{AHEAD_MAX, Driven, Target};
use muster_model::{Exclusive, Job, JobId, State};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What is released without nodes, for Slurm to start in its turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// The jobs.
    pub(crate) jobs: BTreeSet<JobId>,
    /// Arrays among them whose waiting tasks stay one record.
    pub(crate) whole: BTreeSet<u32>,
}

/// The jobs that are to start next whatever happens: those at the head of each partition's queue
/// behind the ones that start now, as far as each fits on any node that has room for it.
///
/// Released before there is room, they start in the queue's order in the moment in which a job
/// ends, and not a turn later. An array of which more waits than starts now is released as the one
/// record that it is: its tasks fill what is free, wherever each of them goes.
pub(crate) fn ahead(driven: &Driven, state: &State, starting: &BTreeSet<JobId>) -> Ahead {
    let mut queues: BTreeMap<&str, Vec<(&Job, &Target)>> = BTreeMap::new();
    for (id, target) in &driven.targets {
        if let Some(job) = state.jobs.get(id) {
            queues.entry(&target.partition).or_default().push((job, target));
        }
    }
    let arrays = whole_arrays(driven, starting);
    let mut ahead = Ahead::default();
    for (_, mut queue) in queues {
        // Of equals those first that were released before: nothing is gained by a change. The
        // tasks of a record stand together.
        queue.sort_by_key(|(job, target)| {
            let record = target.rest.as_ref().map_or(job.id, |rest| JobId(rest.array));
            (Reverse(job.spec.priority), job.submitted, !target.released, record, job.id)
        });
        let mut count = 0;
        for (job, target) in queue {
            let whole = target.rest.as_ref().map(|rest| rest.array);
            let whole = whole.filter(|array| arrays.contains(array));
            let begun = whole.is_some_and(|array| ahead.whole.contains(&array));
            let starts = starting.contains(&job.id);
            // Only backfill starts a heterogeneous job: until it has, others would take its room.
            if job.het.is_some() || (!starts && !is_small(job)) || (count >= AHEAD_MAX && !begun) {
                break;
            }
            if starts && whole.is_none() {
                continue;
            }
            ahead.jobs.insert(job.id);
            ahead.whole.extend(whole);
            count += 1;
        }
    }
    ahead
}

/// The arrays whose waiting tasks are or may be released as one record.
fn whole_arrays(driven: &Driven, starting: &BTreeSet<JobId>) -> BTreeSet<u32> {
    let whole = driven.targets.iter().filter_map(|(id, target)| {
        let rest = target.rest.as_ref()?;
        let more = !rest.throttled && !starting.contains(id);
        (target.released || more).then_some(rest.array)
    });
    whole.collect()
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
