//! Why a job is not even free to start: holds, begin time, dependencies.

use crate::reject::{failed_term, gate_text};
use muster_model::{DependencyKind, Gate, GateStatus, Hold, Job, Joiner, Reason, State, Timestamp};

/// At most so many unmet terms are listed.
const TERMS_MAX: usize = 8;

/// What holds the job back before resources are looked at, the binding cause first.
pub(crate) fn gate_reasons(state: &State, job: &Job, now: Timestamp) -> Vec<Reason> {
    let mut reasons = Vec::new();
    match &job.hold {
        Some(Hold::User) => reasons.push(Reason::HeldByUser),
        Some(Hold::Admin) => reasons.push(Reason::HeldByAdmin),
        Some(Hold::System(reason)) => reasons.push(reason.clone()),
        None => {}
    }
    if job.dependency_is_hopeless() {
        reasons.push(Reason::DependencyNeverSatisfied { term: failed_term(job) });
    } else if !dependency_open(state, job, now) {
        let waiting_for = unmet(state, job, now);
        reasons.push(Reason::Dependency { waiting_for });
    }
    if let Some(at) = job.spec.begin.filter(|at| *at > now) {
        reasons.push(Reason::BeginTime { at });
    }
    if reasons.is_empty()
        && let Some(until) = job.eligible.filter(|at| *at > now)
    {
        reasons.push(Reason::Requeued { until });
    }
    reasons
}

fn is_met(state: &State, job: &Job, gate: &Gate, now: Timestamp) -> bool {
    match (gate.kind, gate.status) {
        (DependencyKind::Singleton, _) => !state.singleton_waits(job),
        (_, GateStatus::Met(at)) => at <= now,
        _ => false,
    }
}

fn dependency_open(state: &State, job: &Job, now: Timestamp) -> bool {
    let mut met = job.gates.iter().map(|gate| is_met(state, job, gate, now));
    job.gates.is_empty()
        || match job.joiner() {
            Joiner::All => met.all(|m| m),
            Joiner::Any => met.any(|m| m),
        }
}

fn unmet(state: &State, job: &Job, now: Timestamp) -> Vec<String> {
    job.gates
        .iter()
        .filter(|gate| !is_met(state, job, gate, now))
        .take(TERMS_MAX)
        .map(gate_text)
        .collect()
}
