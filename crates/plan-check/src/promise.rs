//! Promised starts hold: at its instant, each has its nodes with room for all of it.

use crate::fit::{New, When, lies_on, room, still_there};
use crate::keys::Keys;
use crate::{Rule, Violation};
use muster_model::{JobId, Plan, Promise, Start, State, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn new_starts<'a>(state: &'a State, plan: &Plan, starts: &[&'a Start]) -> Vec<New<'a>> {
    starts
        .iter()
        .filter_map(|start| {
            let job = state.jobs.get(&start.job)?.as_ref();
            let end = match start.turn {
                Some(turn) => turn.until,
                None => plan.now.plus_limit(state.expected_run(job, start.time_limit)),
            };
            Some(New { job, placement: start.placement.as_ref(), end })
        })
        .collect()
}

pub(crate) fn check(state: &State, plan: &Plan, starts: &[&Start], found: &mut Vec<Violation>) {
    if plan.promises.is_empty() {
        return;
    }
    let new = new_starts(state, plan, starts);
    crate::packed::check(state, plan.now, &new, &plan.promises, found);
    let keys = Keys::new(state, plan.now);
    for promise in &plan.promises {
        if let Some(why) = broken(state, plan, &new, promise, &keys) {
            // What stands in the way is what the plan starts there; else the promise itself is bad.
            let nodes: BTreeSet<_> = promise.nodes.iter().collect();
            let mut jobs: Vec<JobId> = new
                .iter()
                .filter(|n| n.placement.nodes.iter().any(|s| nodes.contains(&s.node)))
                .map(|n| n.job.id)
                .collect();
            if jobs.is_empty() {
                jobs.push(promise.job);
            }
            let detail = format!("the promised start of job {} does not hold: {why}", promise.job);
            found.push(Violation { rule: Rule::PromiseDelayed, jobs, node: None, detail });
        }
    }
}

fn broken(
    state: &State,
    plan: &Plan,
    new: &[New<'_>],
    promise: &Promise,
    keys: &Keys<'_>,
) -> Option<String> {
    let Some(job) = state.jobs.get(&promise.job) else { return Some("it is not there".to_owned()) };
    if !job.is_pending() || new.iter().any(|n| n.job.id == promise.job) {
        return Some("it does not wait".to_owned());
    }
    if promise.start < plan.now {
        return Some("its start is past".to_owned());
    }
    // Where the start is not known, only what starts behind it without an end stands in its way.
    let own = keys.together(job);
    let behind: Vec<New<'_>> = new
        .iter()
        .filter(|n| promise.start != Timestamp::NEVER || keys.together(n.job) > own)
        .map(|n| New { job: n.job, placement: n.placement, end: n.end })
        .collect();
    let new = behind.as_slice();
    let when = When::At(promise.start);
    let rooms: Option<Vec<_>> =
        promise.nodes.iter().map(|id| room(state, plan.now, new, *id, when)).collect();
    let Some(rooms) = rooms else { return Some("a node of it is not there".to_owned()) };
    let nodes: Vec<_> = rooms.iter().map(|r| r.node).collect();
    if let Some(wrong) = crate::topology::wrong(state, job, &nodes) {
        return Some(wrong);
    }
    if rooms.iter().any(|r| !r.node.is_usable()) {
        return Some("a node of it is down or drained".to_owned());
    }
    let rooms: Vec<_> = rooms.iter().collect();
    let partitions = job.spec.partitions.iter().filter_map(|name| state.partitions.get(name));
    let mut holding = partitions
        .filter(|p| rooms.iter().all(|r| p.nodes.contains(&r.node.name)))
        .map(|p| lies_on(job, p, &rooms));
    if !holding.any(|holds| holds.is_none_or(|yes| yes)) {
        return Some("its nodes have too little room then".to_owned());
    }
    let reserved =
        crate::reservation::promise_in_the_way(state, job, promise.start, &promise.nodes);
    reserved.or_else(|| {
        licence_short(state, plan, new, promise).map(|name| format!("too few licences {name} then"))
    })
}

fn licence_short(state: &State, plan: &Plan, new: &[New<'_>], promise: &Promise) -> Option<String> {
    let job = state.jobs.get(&promise.job)?;
    let mut wanted: BTreeMap<&String, u32> = BTreeMap::new();
    for licence in &job.spec.request.licences {
        let sum = wanted.entry(&licence.name).or_default();
        *sum = sum.saturating_add(licence.count);
    }
    let when = When::At(promise.start);
    for (name, count) in wanted {
        let total = state.licences.get(name).map_or(0, |l| l.total);
        let running = state
            .index
            .active
            .iter()
            .filter_map(|id| state.jobs.get(id))
            .filter(|j| {
                state
                    .expected_end(j, plan.now)
                    .is_some_and(|end| still_there(when, plan.now, end, false))
            })
            .filter_map(|j| j.placement.as_ref()?.licences.get(name));
        let starting = new
            .iter()
            .filter(|n| still_there(when, plan.now, n.end, true))
            .filter_map(|n| n.placement.licences.get(name));
        let taken = crate::total(running.chain(starting).copied());
        if taken.saturating_add(count) > total {
            return Some(name.clone());
        }
    }
    None
}
