//! When every waiting job would start, if nobody else came and every job took its whole limit.
//!
//! The queue is laid out on the timeline in order, as under conservative backfill without a bound:
//! each job at the earliest instant that delays none before it. A job costs one walk over the
//! stretches that its shape has not been refused yet.

use crate::cache::Cache;
use crate::order::OrderKey;
use crate::queue::group;
use crate::round::{Outcome, promise_of};
use crate::timeline;
use muster_model::{Decision, JobId, NodeId, Promise, State, Timestamp, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the queue comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The start of each waiting job that has one, with its nodes. Jobs that are not free to start,
    /// those that can never start, and tasks that a throttle holds back have none.
    pub starts: BTreeMap<JobId, Promise>,
    /// The work it took.
    pub work: Work,
}

/// Lays the whole queue out. The cache is left as it was.
pub(crate) fn outlook(cache: &Cache, state: &State, now: Timestamp, outcome: &Outcome) -> Outlook {
    let mut world = cache.world.clone();
    let mut found = Outlook::default();
    let mut settled: BTreeSet<JobId> = BTreeSet::new();
    for decision in &outcome.plan.decisions {
        match decision {
            Decision::Reject { job, .. } => {
                settled.insert(*job);
            }
            // Their starts come with the ends of their victims: the queue tells those.
            Decision::Preempt(_) | Decision::Resume { .. } => {}
            Decision::Start(starts) => {
                for start in starts {
                    settled.insert(start.job);
                    let Some(job) = state.jobs.get(&start.job) else { continue };
                    let end = now.plus_limit(start.time_limit);
                    world.occupy(job, &start.placement, end, false);
                    found.starts.insert(start.job, started(start, now));
                }
            }
        }
    }
    let mut queued: Vec<(OrderKey, usize)> = Vec::new();
    for (at, shape) in cache.queue.shapes.iter().enumerate() {
        queued.extend(shape.iter().flat_map(|s| s.waiting.iter().map(move |key| (*key, at))));
    }
    queued.sort_unstable();
    // The earliest start that a shape may still have; `None` where it has none.
    let mut not_before: Vec<Option<Timestamp>> = vec![Some(now); cache.queue.shapes.len()];
    for (key, at) in queued {
        let Some(from) = not_before[at] else { continue };
        let throttled = cache.queue.shapes[at].as_ref().is_some_and(|s| s.array.is_some());
        if throttled || settled.contains(&key.3) {
            continue;
        }
        found.work.jobs += 1;
        let Some(job) = state.jobs.get(&key.3) else { continue };
        let Some(group) = group(state, job) else { continue };
        let asks = cache.queue.shapes[at].as_ref().map(|s| Arc::clone(&s.asks)).unwrap_or_default();
        let parts: Vec<Vec<_>> = asks.iter().map(|part| part.iter().collect()).collect();
        if parts.is_empty() || parts.iter().any(Vec::is_empty) {
            continue;
        }
        let start = timeline::earliest(&mut world, &parts, from, &mut found.work);
        let Some((start, places)) = start else {
            not_before[at] = None;
            continue;
        };
        not_before[at] = Some(start);
        for (job, (ask, picks)) in group.iter().zip(&places) {
            found.starts.insert(job.id, promise_of(&world, start, job.id, ask, picks));
        }
    }
    found
}

/// A start of the round as a promise for now.
fn started(start: &muster_model::Start, now: Timestamp) -> Promise {
    let placement = &start.placement;
    let nodes: Vec<NodeId> = placement.nodes.iter().map(|share| share.node).collect();
    let shares = placement.nodes.iter().map(|share| muster_model::PromisedShare {
        tasks: share.tasks,
        cpus: share.cpu_count(),
        memory: share.memory,
        gpus: share.devices.iter().filter(|d| d.is_whole()).count() as u32,
    });
    let shares = shares.collect();
    Promise { job: start.job, start: now, nodes, shares, partition: placement.partition.clone() }
}
