//! Decisions of a plan, validated on the newest state: stale ones drop, the others are applied.

use crate::round::Breach;
use crate::turn::Turn;
use muster_model::placement::{DeviceGrant, NodeShare};
use muster_model::{
    ApplyError, Decision, EventKind, Hold, Job, JobId, Node, Placement, Plan, Reason, Start, State,
    StopCause, Victim,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What became of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Decisions that were applied.
    pub applied: u32,
    /// Decisions that did not fit any more.
    pub stale: u32,
}

/// Applies what of the plan still holds. `base` is the state that it was made from.
pub(crate) fn apply(turn: &mut Turn, base: &State, plan: &Plan) -> Result<Outcome, ApplyError> {
    let mut outcome = Outcome::default();
    for decision in &plan.decisions {
        if !still_holds(&turn.state, base, decision) {
            outcome.stale += 1;
            continue;
        }
        if outcome.applied == 0 {
            turn.apply(EventKind::Round)?;
        }
        outcome.applied += 1;
        match decision {
            Decision::Start(starts) => start_all(turn, starts)?,
            Decision::Reject { job, reason } => {
                turn.apply(EventKind::JobRejected { job: *job, reason: reason.clone() })?;
            }
            Decision::Preempt(preempt) => crate::preempt::apply(turn, preempt)?,
            Decision::Grow(victim) => {
                let (victim, by) = (Victim::clone(victim), victim.job);
                turn.apply(EventKind::JobPreempted { victim, by })?;
            }
            Decision::Turns(changes) => {
                for change in changes {
                    let (job, attempt) = (change.job, change.attempt);
                    turn.apply(EventKind::JobTurn { job, attempt, turn: change.turn })?;
                }
            }
            Decision::Resume { job } => {
                turn.apply(EventKind::JobSuspend { job: *job, suspend: false })?;
            }
            Decision::Evict { job, taint, .. } => {
                let cause = StopCause::Taint(taint.clone());
                turn.apply(EventKind::JobStop { job: *job, cause, hurry: false })?;
            }
        }
    }
    Ok(outcome)
}

/// Starts all or none.
fn start_all(turn: &mut Turn, starts: &[Start]) -> Result<(), ApplyError> {
    // One event is applied whole or not at all by itself.
    let several = starts.len() > 1 || starts.iter().any(|start| start.turn.is_some());
    let savepoint = several.then(|| turn.savepoint());
    for event in starts.iter().flat_map(Start::events) {
        if let Err(error) = turn.apply(event) {
            if let Some(savepoint) = savepoint {
                turn.go_back(savepoint);
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Holds the jobs that a refused plan's breaches name; where they name none that waits, those of
/// all its decisions. Returns whom.
pub(crate) fn hold_named(
    turn: &mut Turn,
    plan: &Plan,
    breaches: &[Breach],
) -> Result<BTreeSet<JobId>, ApplyError> {
    let mut held = BTreeSet::new();
    for breach in breaches {
        let reason = Reason::PlanRefused { rule: breach.rule.clone() };
        for job in &breach.jobs {
            hold(turn, *job, &reason, &mut held)?;
        }
    }
    if held.is_empty() {
        let rule = breaches.first().map_or_else(String::new, |b| b.rule.clone());
        let reason = Reason::PlanRefused { rule };
        for job in plan.decisions.iter().flat_map(jobs_of) {
            hold(turn, job, &reason, &mut held)?;
        }
    }
    Ok(held)
}

fn hold(
    turn: &mut Turn,
    job: JobId,
    reason: &Reason,
    held: &mut BTreeSet<JobId>,
) -> Result<(), ApplyError> {
    let waits = turn.state.jobs.get(&job).is_some_and(|j| j.is_pending() && j.hold.is_none());
    if waits && held.insert(job) {
        turn.apply(EventKind::JobHeld { job, hold: Hold::System(reason.clone()) })?;
    }
    Ok(())
}

fn jobs_of(decision: &Decision) -> Vec<JobId> {
    match decision {
        Decision::Start(starts) => starts.iter().map(|s| s.job).collect(),
        Decision::Reject { job, .. } | Decision::Resume { job } => vec![*job],
        Decision::Preempt(preempt) => preempt.starts.iter().map(|s| s.job).collect(),
        // A running job cannot be held.
        Decision::Grow(_) | Decision::Evict { .. } => Vec::new(),
        Decision::Turns(changes) => changes.iter().map(|change| change.job).collect(),
    }
}

/// True where everything that the decision rests on is as it was when the plan was made.
///
/// Resources are only taken by plans, and plans come one at a time, so what was free still is:
/// what can have changed are the job, the nodes, the rules and the array's throttle.
fn still_holds(state: &State, base: &State, decision: &Decision) -> bool {
    match decision {
        Decision::Start(starts) => {
            !starts.is_empty() && starts.iter().all(|start| start_holds(state, base, start))
        }
        Decision::Reject { job, .. } => {
            unchanged(state, base, *job).is_some_and(|job| job.is_pending())
        }
        Decision::Preempt(preempt) => {
            preempt.starts.iter().all(|start| start_holds(state, base, start))
                && crate::preempt::still_holds(state, base, preempt)
        }
        Decision::Grow(victim) => grows_still(state, base, victim),
        Decision::Resume { job } => {
            unchanged(state, base, *job).is_some_and(|job| job.yields_cpus() || job.resumes)
        }
        Decision::Evict { job, attempt, .. } => {
            let runs = |job: &Arc<Job>| job.attempt == *attempt && job.state.holds_resources();
            unchanged(state, base, *job).is_some_and(runs) && state.tainted == base.tainted
        }
        Decision::Turns(changes) => changes.iter().all(|change| {
            unchanged(state, base, change.job).is_some_and(|job| job.attempt == change.attempt)
        }),
    }
}

/// As [`start_holds`], for one that starts again where more nodes are held for it; nobody came
/// meanwhile who could use them.
fn grows_still(state: &State, base: &State, victim: &Victim) -> bool {
    let Some(placement) = &victim.keeps else { return false };
    unchanged(state, base, victim.job).is_some_and(|job| job.attempt == victim.attempt)
        && (state.index.pending.ptr_eq(&base.index.pending)
            || state.index.pending == base.index.pending)
        && state.reservations == base.reservations
        && shares_hold(state, base, placement)
        && rules_hold(state, base, &placement.partition)
}

fn start_holds(state: &State, base: &State, start: &Start) -> bool {
    let Some(job) = unchanged(state, base, start.job) else { return false };
    job.is_pending()
        && job.hold.is_none()
        // What was reserved meanwhile, the plan did not know.
        && state.reservations == base.reservations
        && start.attempt == job.attempt + 1
        && shares_hold(state, base, &start.placement)
        && rules_hold(state, base, &start.placement.partition)
        && throttle_holds(state, job)
}

pub(crate) fn unchanged<'a>(state: &'a State, base: &State, job: JobId) -> Option<&'a Arc<Job>> {
    let now = state.jobs.get(&job)?;
    let then = base.jobs.get(&job)?;
    Arc::ptr_eq(now, then).then_some(now)
}

fn shares_hold(state: &State, base: &State, placement: &Placement) -> bool {
    placement.nodes.iter().all(|share| {
        match (state.nodes.get(&share.node), base.nodes.get(&share.node)) {
            (Some(now), Some(then)) => Arc::ptr_eq(now, then) || node_holds(now, then, share),
            _ => false,
        }
    })
}

/// True where the node differs at most in use by others, and that leaves the share alone. Such
/// use comes and goes all the time: were every change of it to count, a busy machine's decisions
/// would all be stale.
fn node_holds(now: &Node, then: &Node, share: &NodeShare) -> bool {
    let memory = |node: &Node| -> u64 {
        node.foreign.iter().filter(|f| f.device.is_none()).map(|f| f.memory.0).sum()
    };
    let cpu_is_free = |cpu: u32| !now.foreign.iter().any(|f| f.cpus.contains(cpu));
    let same = Node { foreign: then.foreign.clone(), ..now.clone() } == *then;
    same && memory(now) <= memory(then)
        && share.cpus.iter().all(cpu_is_free)
        && share.devices.iter().all(|grant| device_holds(now, then, grant))
}

/// True where a device can still be given: as a whole while nobody else uses it, in part while
/// others use no more of its memory than they did.
fn device_holds(now: &Node, then: &Node, grant: &DeviceGrant) -> bool {
    let index = grant.index;
    if grant.is_whole() {
        return now.device_is_usable(index);
    }
    now.device_is_partible(index)
        && now.foreign_device_memory(index) <= then.foreign_device_memory(index)
}

fn rules_hold(state: &State, base: &State, partition: &str) -> bool {
    let partition_holds = match (state.partitions.get(partition), base.partitions.get(partition)) {
        (Some(now), Some(then)) => Arc::ptr_eq(now, then) || now == then,
        _ => false,
    };
    // Limits stand with accounts and QOS; what runs only grows by plans.
    let limits_hold = (state.accounts.ptr_eq(&base.accounts) || state.accounts == base.accounts)
        && (state.qos.ptr_eq(&base.qos) || state.qos == base.qos);
    partition_holds
        && limits_hold
        && (state.licences.ptr_eq(&base.licences) || state.licences == base.licences)
}

fn throttle_holds(state: &State, job: &Job) -> bool {
    job.array
        .and_then(|task| state.index.arrays.get(&task.array))
        .and_then(|record| record.throttle.map(|throttle| record.active < throttle))
        .unwrap_or(true)
}
