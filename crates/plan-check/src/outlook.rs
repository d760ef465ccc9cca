//! Is a whole outlook possible? Its starts packed on the timeline again, with the room that the
//! round makes and who makes it, the throttles of arrays, and what is reserved.

use crate::{Rule, Violation, packed, preempt, reservation, starts};
use muster_model::{
    Event, EventKind, Job, JobId, JobUpdate, Plan, PreemptMode, Promise, State, Timestamp,
};
use std::collections::BTreeMap;

pub(crate) fn check(state: &State, plan: &Plan, promised: &[Promise], found: &mut Vec<Violation>) {
    let after = told(state, plan);
    packed::check(&after, plan.now, &[], promised, found);
    room_made(&after, plan, promised, found);
    throttles(&after, plan.now, promised, found);
    for promise in promised {
        let Some(job) = after.jobs.get(&promise.job) else { continue };
        let nodes = &promise.nodes;
        if let Some(why) = reservation::promise_in_the_way(&after, job, promise.start, nodes) {
            found.push(Violation::of(Rule::PromiseDelayed, job.id, why));
        }
    }
}

/// The state once everybody who makes room was told so, with the limits that the round starts jobs
/// with.
fn told(state: &State, plan: &Plan) -> State {
    let mut after = state.clone();
    for start in starts(plan) {
        let update = JobUpdate { time_limit: Some(start.time_limit), ..JobUpdate::default() };
        let kind = EventKind::JobUpdated { job: start.job, update: Box::new(update) };
        // A job that is not there is told by a rule of its own, as is a victim.
        let _ = after.apply(&Event { at: plan.now, kind });
    }
    for kind in preempt::preempts(plan).flat_map(|preempt| preempt.events(plan.now)) {
        let _ = after.apply(&Event { at: plan.now, kind });
    }
    after
}

/// When a job that makes room and goes back to the queue waits again; `None` for all others.
pub(crate) fn waits_again(job: &Job) -> Option<Timestamp> {
    let eviction = job.eviction.as_ref()?;
    let back = matches!(eviction.mode, PreemptMode::Requeue | PreemptMode::Checkpoint);
    (back && job.state.holds_resources()).then_some(eviction.until)
}

/// Whoever room is made for starts as soon as it is there, and nowhere else.
fn room_made(after: &State, plan: &Plan, promised: &[Promise], found: &mut Vec<Violation>) {
    let by_job: BTreeMap<JobId, &Promise> = promised.iter().map(|p| (p.job, p)).collect();
    let soon = packed::soon(plan.now);
    let now = starts(plan);
    for (start, _) in preempt::live_claims(after, plan) {
        let Some(until) = after.jobs.get(&start.job).and_then(|j| Some(j.claim.as_ref()?.until))
        else {
            continue;
        };
        if now.iter().any(|other| other.job == start.job) {
            continue;
        }
        let nodes: Vec<_> = start.placement.nodes.iter().map(|share| share.node).collect();
        let holds = by_job
            .get(&start.job)
            .is_some_and(|promise| promise.start == until.max(soon) && promise.nodes == nodes);
        if !holds {
            let detail = "does not start in the room that is made for it as soon as it is there";
            found.push(Violation::of(Rule::ClaimTaken, start.job, detail));
        }
    }
}

/// At no start of a task more tasks of its array run than its throttle allows.
fn throttles(after: &State, now: Timestamp, promised: &[Promise], found: &mut Vec<Violation>) {
    let soon = packed::soon(now);
    let mut stays: BTreeMap<JobId, Vec<(Timestamp, Timestamp, Option<JobId>)>> = BTreeMap::new();
    let throttled = |job: &Job| {
        let array = job.array?.array;
        after.index.arrays.get(&array)?.throttle.map(|most| (array, most as usize))
    };
    for promise in promised {
        let Some(job) = after.jobs.get(&promise.job) else { continue };
        if let Some((array, _)) = throttled(job) {
            let end = promise.start.plus_limit(packed::limit_of(after, job, &promise.partition));
            stays.entry(array).or_default().push((promise.start, end, Some(job.id)));
        }
    }
    for (array, stays) in &mut stays {
        let running = after.family(*array).into_iter().filter_map(|id| after.jobs.get(&id));
        let running = running.filter_map(|job| Some((now, job.ends_at_latest()?.max(soon), None)));
        stays.extend(running);
        let throttle = after.index.arrays.get(array).and_then(|record| record.throttle);
        let Some(most) = throttle.map(|most| most as usize) else { continue };
        let new = stays.iter().filter_map(|(from, _, job)| Some((*from, (*job)?)));
        for (at, job) in new {
            let beside = |(from, to, _): &&(Timestamp, Timestamp, Option<JobId>)| {
                *from <= at && (at < *to || *to == Timestamp::NEVER)
            };
            let tasks = stays.iter().filter(beside).count();
            if tasks > most {
                let detail = format!("would be one of {tasks} tasks of its array; {most} may run");
                found.push(Violation::of(Rule::ArrayThrottle, job, detail));
            }
        }
    }
}
