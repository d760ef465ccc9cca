//! No job that may start now is left waiting.
//!
//! A bounded search that finds less than everything but nothing that is not there: jobs that fit
//! now on nodes without a promise, or that end before any promise begins.

use crate::beside::Beside;
use crate::fit::{New, Room, When, lies_on, room};
use crate::keys::Keys;
use crate::layout::{neighbours, satisfied};
use crate::{
    Rule, Violation, affinity, decided, eligible, limits, order, preempt, promise, reservation,
    starts, topology,
};
use muster_model::{
    BackfillMode, Job, JobId, Node, NodeId, Partition, Plan, Promise, State, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

/// At most so many waiting jobs are looked at.
const JOBS_MAX: usize = 200;
/// All sets of nodes are tried up to so many nodes; beyond, only the roomiest first.
const NODES_FOR_ALL_SETS: usize = 9;

pub(crate) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let starts = starts(plan);
    let new = promise::new_starts(state, plan, &starts);
    let beside = Beside::of(state, &new);
    // What is free where room is made may be spoken for.
    let spoken_for = preempt::touched(state, plan);
    let promised_rules = plan
        .promises
        .iter()
        .any(|p| state.jobs.get(&p.job).is_some_and(|job| affinity::looks_at_jobs(job)));
    let decided = decided(state, plan);
    let order = Keys::new(state, plan.now);
    let keys: Vec<_> =
        plan.promises.iter().map(|p| state.jobs.get(&p.job).map(|j| order.together(j))).collect();
    let waiting = state
        .index
        .pending
        .iter()
        .filter(|id| !decided.contains(id))
        .filter_map(|id| state.jobs.get(id))
        .filter(|job| job.het.is_none() && job.spec.gang.is_none())
        .filter(|job| eligible::not_eligible(state, plan.now, job).is_none())
        .filter(|job| !throttled(state, job, &new))
        .take(JOBS_MAX);
    for job in waiting {
        // Only what was promised to jobs before it stands in its way; all that was promised where
        // jobs are tried shortest first.
        let shortest = state.policy.backfills_shortest_first();
        let own = order.of(job);
        let before: Vec<&Promise> = plan
            .promises
            .iter()
            .zip(&keys)
            .filter(|(_, key)| shortest || key.as_ref().is_none_or(|key| *key < own))
            .map(|(promise, _)| promise)
            .collect();
        let promised: BTreeSet<NodeId> = before.iter().flat_map(|p| p.nodes.clone()).collect();
        let end = plan.now.plus_limit(state.expected_run(job, job.time_limit));
        let harmless = before.iter().all(|p| end <= p.start && end != Timestamp::NEVER);
        for partition in job.spec.partitions.iter().filter_map(|p| state.partitions.get(p)) {
            if !order::may_use(state, plan, job, partition)
                || limits::may_hold(state, plan, job, partition, &order)
            {
                continue;
            }
            // Without backfill a promise closes the partition for all behind it.
            if state.policy.backfill == BackfillMode::None && !before.is_empty() {
                continue;
            }
            // Who keeps apart from a promised job is not told from the promise's nodes.
            let keeps_apart = affinity::looks_at_jobs(job) && !plan.promises.is_empty();
            let licensed = !job.spec.request.licences.is_empty();
            if promised_rules || keeps_apart || (licensed && !spoken_for.is_empty()) {
                continue;
            }
            if !licences_left(state, &before, job, &new, harmless) {
                continue;
            }
            let fits = some_set(
                state,
                job,
                partition,
                |id| {
                    let open = (harmless || !promised.contains(&id))
                        && !spoken_for.contains(&id)
                        && reservation::is_free_of(state, id, plan.now, end);
                    if open { room(state, plan.now, &new, id, When::Now) } else { None }
                },
                |rooms| {
                    let nodes: Vec<&Node> = rooms.iter().map(|r| r.node).collect();
                    topology::few_switches(state, job, plan.now, &nodes)
                        && affinity::allows(&beside, &partition.name, job, &nodes)
                        && lies_on(job, partition, rooms) == Some(true)
                },
            );
            if fits {
                let detail = format!("fits in partition {} now", partition.name);
                found.push(Violation::of(Rule::LeftWaiting, job.id, detail));
                break;
            }
        }
    }
}

fn throttled(state: &State, job: &Job, new: &[New<'_>]) -> bool {
    let Some(array) = job.array.map(|task| task.array) else { return false };
    let Some(throttle) = state.index.arrays.get(&array).and_then(|a| a.throttle) else {
        return false;
    };
    let of_array = |j: &Job| j.array.is_some_and(|task| task.array == array);
    let running = state
        .family(array)
        .iter()
        .filter(|id| state.jobs.get(*id).is_some_and(|j| j.state.holds_resources()))
        .count();
    running + new.iter().filter(|n| of_array(n.job)).count() >= throttle as usize
}

fn licences_left(
    state: &State,
    before: &[&Promise],
    job: &Job,
    new: &[New<'_>],
    harmless: bool,
) -> bool {
    let mut wanted: BTreeMap<&String, u32> = BTreeMap::new();
    for licence in &job.spec.request.licences {
        let sum = wanted.entry(&licence.name).or_default();
        *sum = sum.saturating_add(licence.count);
    }
    let of = |name: &String, id: JobId| -> u32 {
        let request = state.jobs.get(&id).map(|j| &j.spec.request);
        request.map_or(0, |r| {
            crate::total(r.licences.iter().filter(|l| l.name == *name).map(|l| l.count))
        })
    };
    wanted.iter().all(|(name, count)| {
        let held = state.licences.get(*name).is_some_and(|licence| licence.hold.is_some());
        if held || !reservation::licence_is_free(state, name) {
            return false;
        }
        let total = state.licences.get(*name).map_or(0, |l| l.total);
        let running: u32 = state
            .index
            .active
            .iter()
            .filter_map(|id| state.jobs.get(id)?.placement.as_ref()?.licences.get(*name))
            .sum();
        let starting =
            crate::total(new.iter().filter_map(|n| n.placement.licences.get(*name)).copied());
        let promised = crate::total(before.iter().map(|p| of(name, p.job)));
        let reserve = if harmless { 0 } else { promised };
        crate::total([running, starting, *count, reserve]) <= total
    })
}

/// True where some allowed set of the partition's usable nodes passes `fits`.
pub(crate) fn some_set<'a>(
    state: &'a State,
    job: &Job,
    partition: &Partition,
    room_of: impl Fn(NodeId) -> Option<Room<'a>>,
    fits: impl Fn(&[&Room<'a>]) -> bool,
) -> bool {
    let request = &job.spec.request;
    let rooms: Vec<Room<'a>> = state
        .partition_nodes(partition)
        .filter(|n| n.is_usable() && !request.exclude.contains(&n.name))
        .filter(|n| n.scratch >= request.scratch && affinity::suits(job, n))
        .filter_map(|n| room_of(n.id))
        .collect();
    let allowed = |set: &[&Room<'a>]| {
        let count = set.len() as u32;
        let names: BTreeSet<&String> = set.iter().map(|r| &r.node.name).collect();
        let features: Vec<_> = set.iter().map(|r| &r.node.features).collect();
        count > 0
            && request.nodes.as_ref().is_none_or(|n| n.allows(count))
            && count >= partition.min_nodes
            && partition.max_nodes.is_none_or(|most| count <= most)
            && request.node_list.iter().all(|name| names.contains(name))
            && request.constraint.as_ref().is_none_or(|c| satisfied(c, &features))
            && (!request.contiguous || neighbours(state, &names))
            && {
                let nodes: Vec<&Node> = set.iter().map(|r| r.node).collect();
                topology::wrong(state, job, &nodes).is_none()
            }
            && fits(set)
    };
    if rooms.len() <= NODES_FOR_ALL_SETS {
        return (1u32..1 << rooms.len()).any(|set| {
            let chosen: Vec<&Room<'a>> =
                (0..rooms.len()).filter(|i| set & (1 << i) != 0).map(|i| &rooms[i]).collect();
            allowed(&chosen)
        });
    }
    let alone: Vec<&Room<'a>> = rooms.iter().filter(|r| lies_alone(job, partition, r)).collect();
    let least = (request.nodes_min() as usize).max(1);
    (least..=alone.len().min(least + 64)).any(|count| allowed(&alone[..count]))
        || alone.iter().any(|r| allowed(&[r]))
}

/// A quick sieve for large partitions: the node could take a part of the job.
fn lies_alone(job: &Job, partition: &Partition, room: &Room<'_>) -> bool {
    let mut part = job.clone();
    let mut spec = job.spec.as_ref().clone();
    spec.request.tasks = spec.request.tasks.map(|_| 1);
    for gpus in &mut spec.request.gpus {
        if gpus.scope == muster_model::GpuScope::Job {
            gpus.count = gpus.count.min(1);
        }
    }
    part.spec = std::sync::Arc::new(spec);
    lies_on(&part, partition, &[room]) == Some(true)
}
