//! May these jobs be decided on at all?

use crate::{Rule, Violation};
use muster_model::{
    Decision, DependencyKind, Gang, GateStatus, Job, JobId, Joiner, Plan, Reason, Seconds, Start,
    State, TimeLimit, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let mut seen = BTreeSet::new();
    let mut tasks: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
    for decision in &plan.decisions {
        match decision {
            Decision::Start(_) | Decision::Preempt(_) => {
                let starts = match decision {
                    Decision::Preempt(preempt) => &preempt.starts,
                    _ => decision.starts(),
                };
                whole(state, starts, found);
                for start in starts {
                    once(&mut seen, start.job, found);
                    let Some(job) = waiting(state, start.job, found) else { continue };
                    may_start(state, plan, job, start, found);
                    if let Some(task) = job.array {
                        tasks.entry(task.array).or_default().push(job.id);
                    }
                }
            }
            Decision::Reject { job, reason } => {
                once(&mut seen, *job, found);
                let Some(record) = waiting(state, *job, found) else { continue };
                if !rejection_has_cause(state, plan, record, reason) {
                    let detail = format!("rejected with {} without cause", reason.code());
                    found.push(Violation::of(Rule::GroundlessReject, *job, detail));
                }
            }
            Decision::Grow(_)
            | Decision::Resume { .. }
            | Decision::Evict { .. }
            | Decision::Turns(_) => {}
        }
    }
    for (array, started) in tasks {
        throttle(state, array, started, found);
    }
}

fn once(seen: &mut BTreeSet<JobId>, job: JobId, found: &mut Vec<Violation>) {
    if !seen.insert(job) {
        found.push(Violation::of(Rule::DecidedTwice, job, "has two decisions"));
    }
}

fn waiting<'a>(state: &'a State, id: JobId, found: &mut Vec<Violation>) -> Option<&'a Job> {
    match state.jobs.get(&id) {
        Some(job) if job.is_pending() => Some(job),
        Some(job) => {
            let detail = format!("is {:?}, not waiting", job.state);
            found.push(Violation::of(Rule::NotWaiting, id, detail));
            None
        }
        None => {
            found.push(Violation::of(Rule::NotWaiting, id, "is not there"));
            None
        }
    }
}

fn may_start(state: &State, plan: &Plan, job: &Job, start: &Start, found: &mut Vec<Violation>) {
    if start.attempt != job.attempt.saturating_add(1) {
        let detail = format!("attempt {} after attempt {}", start.attempt, job.attempt);
        found.push(Violation::of(Rule::WrongAttempt, job.id, detail));
    }
    if let Some(why) = not_eligible(state, plan.now, job) {
        found.push(Violation::of(Rule::NotEligible, job.id, why));
    }
    if let Some(why) = bad_limit(plan.now, job, start.time_limit) {
        found.push(Violation::of(Rule::TimeLimit, job.id, why));
    }
}

/// Judged from hold, begin time and gates, not from the eligible time that the state keeps.
pub(crate) fn not_eligible(state: &State, now: Timestamp, job: &Job) -> Option<String> {
    if job.hold.is_some() {
        return Some("is held".to_owned());
    }
    if job.spec.begin.is_some_and(|begin| begin > now) {
        return Some("its begin time has not come".to_owned());
    }
    let met = |gate: &muster_model::Gate| match (gate.kind, gate.status) {
        (DependencyKind::Singleton, _) => !blocked_by_namesake(state, job),
        (_, GateStatus::Met(at)) => at <= now,
        _ => false,
    };
    let open = job.gates.is_empty()
        || match job.joiner() {
            Joiner::All => job.gates.iter().all(met),
            Joiner::Any => job.gates.iter().any(met),
        };
    (!open).then(|| "its dependency is not met".to_owned())
}

/// True where an earlier unfinished job has the same user and name.
fn blocked_by_namesake(state: &State, job: &Job) -> bool {
    let namesakes = state.index.unfinished.get(&(job.spec.owner.uid, job.spec.name.clone()));
    namesakes
        .into_iter()
        .flatten()
        .take_while(|id| **id < job.id)
        .filter_map(|id| state.jobs.get(id))
        .any(|other| !other.state.is_over())
}

fn bad_limit(now: Timestamp, job: &Job, given: TimeLimit) -> Option<String> {
    let seconds = |limit: TimeLimit| limit.seconds().map_or(u64::MAX, |s| s.0);
    let (asked, given) = (seconds(job.time_limit), seconds(given));
    if given > asked {
        return Some(format!("gets {given} s, more than the {asked} s asked for"));
    }
    let may_shrink = job.spec.time_min.map_or(asked, |least| least.0.min(asked));
    let by_deadline = asked == u64::MAX && job.spec.deadline.is_some();
    if given < may_shrink && !by_deadline {
        return Some(format!("gets {given} s, less than its least {may_shrink} s"));
    }
    let end = if given == u64::MAX { Timestamp::NEVER } else { now.plus(Seconds(given)) };
    job.spec
        .deadline
        .filter(|deadline| end > *deadline)
        .map(|_| "could end after its deadline".to_owned())
}

/// All components of a heterogeneous job start in one decision, and nothing else is in it.
fn whole(state: &State, starts: &[Start], found: &mut Vec<Violation>) {
    let Some(first) = starts.first() else { return };
    let mut expected = vec![first.job];
    if let Some(part) = state.jobs.get(&first.job).and_then(|j| j.het) {
        expected = (0..part.size).map(|o| JobId(part.leader.0.saturating_add(o))).collect();
    }
    if let Some(job) = state.jobs.get(&first.job)
        && let Some(gang) = &job.spec.gang
    {
        expected = gang_of(state, job, gang);
    }
    let mut present: Vec<JobId> = starts.iter().map(|s| s.job).collect();
    present.sort_unstable();
    if present != expected {
        found.push(Violation {
            rule: Rule::HetNotWhole,
            jobs: present,
            node: None,
            detail: format!("should start together: {expected:?}"),
        });
    }
}

/// The first of those that a waiting job starts with: all of them have its place in the queue.
pub(crate) fn first<'a>(state: &'a State, job: &'a Job) -> &'a Job {
    let first = match (job.het, &job.spec.gang) {
        (Some(part), _) => Some(part.leader),
        (None, Some(gang)) => gang_of(state, job, gang).first().copied(),
        (None, None) => None,
    };
    first.and_then(|id| state.jobs.get(&id)).map_or(job, AsRef::as_ref)
}

/// The waiting members of a gang that start with one: all that went back to the queue, else so
/// many of those that never began, in order of number.
fn gang_of(state: &State, job: &Job, gang: &Gang) -> Vec<JobId> {
    let alike = |other: &&std::sync::Arc<Job>| {
        other.is_pending()
            && other.spec.gang.as_ref() == Some(gang)
            && (other.attempt > 0) == (job.attempt > 0)
    };
    let named = state.index.gangs.get(&(job.spec.owner.uid, gang.name.clone()));
    let named = named.into_iter().flatten().filter_map(|id| state.jobs.get(id));
    let all: Vec<JobId> = named.filter(alike).map(|other| other.id).collect();
    if job.attempt > 0 {
        return all;
    }
    let mut chunks = all.chunks(gang.size.max(1) as usize);
    let own = chunks.find(|chunk| chunk.contains(&job.id)).map(<[_]>::to_vec);
    own.filter(|chunk| chunk.len() == gang.size as usize).unwrap_or_default()
}

fn throttle(state: &State, array: JobId, started: Vec<JobId>, found: &mut Vec<Violation>) {
    let Some(throttle) = state.index.arrays.get(&array).and_then(|a| a.throttle) else { return };
    let running = state
        .family(array)
        .iter()
        .filter(|id| state.jobs.get(*id).is_some_and(|j| j.state.holds_resources()))
        .count();
    if running + started.len() > throttle as usize {
        found.push(Violation {
            rule: Rule::ArrayThrottle,
            jobs: started,
            node: None,
            detail: format!("beside {running} running tasks; the array may run {throttle}"),
        });
    }
}

fn rejection_has_cause(state: &State, plan: &Plan, job: &Job, reason: &Reason) -> bool {
    match reason {
        Reason::Deadline { .. } => job.spec.deadline.is_some_and(|deadline| {
            let least = job.spec.time_min.or(job.time_limit.seconds()).unwrap_or(Seconds(1));
            plan.now.plus(least) > deadline
        }),
        Reason::DependencyNeverSatisfied { .. } => {
            let asked = job.spec.kill_on_invalid_dependency;
            let failed = |g: &muster_model::Gate| g.status == GateStatus::Failed;
            asked.unwrap_or(state.policy.kill_invalid_dependency)
                && match job.joiner() {
                    Joiner::All => job.gates.iter().any(failed),
                    Joiner::Any => job.gates.iter().all(failed) && !job.gates.is_empty(),
                }
        }
        Reason::HetPeer { peer } => {
            plan.decisions.iter().any(|d| matches!(d, Decision::Reject { job, .. } if job == peer))
        }
        _ => false,
    }
}
