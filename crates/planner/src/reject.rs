//! Jobs that can never run any more.

use crate::cache::Cache;
use muster_model::{GateStatus, Job, JobId, Reason, State, Timestamp};
use std::collections::BTreeMap;

/// Jobs past their deadline, and jobs that wait for what cannot come where the rules end those.
/// The other components of a heterogeneous job go with one.
pub(crate) fn rejections(cache: &Cache, state: &State, now: Timestamp) -> BTreeMap<JobId, Reason> {
    let mut reasons: BTreeMap<JobId, Reason> = BTreeMap::new();
    for (_, id) in cache.queue.deadlines.iter().take_while(|(at, _)| *at < now) {
        if let Some(at) = state.jobs.get(id).and_then(|j| j.spec.deadline) {
            reasons.insert(*id, Reason::Deadline { at });
        }
    }
    for id in &cache.queue.hopeless {
        let term = state.jobs.get(id).map_or_else(String::new, |job| failed_term(job));
        reasons.insert(*id, Reason::DependencyNeverSatisfied { term });
    }
    let causes: Vec<JobId> = reasons.keys().copied().collect();
    for id in causes {
        let Some(part) = state.jobs.get(&id).and_then(|j| j.het) else { continue };
        for peer in (0..part.size).map(|offset| JobId(part.leader.0.saturating_add(offset))) {
            if state.jobs.get(&peer).is_some_and(|j| j.is_pending()) {
                reasons.entry(peer).or_insert(Reason::HetPeer { peer: id });
            }
        }
    }
    reasons
}

/// The first term of a job's dependency that can never be met, as text.
pub(crate) fn failed_term(job: &Job) -> String {
    job.gates.iter().find(|g| g.status == GateStatus::Failed).map_or_else(String::new, gate_text)
}

/// A gate as users write the term: `afterok:12`.
pub(crate) fn gate_text(gate: &muster_model::Gate) -> String {
    use muster_model::GateTarget;
    match gate.target {
        None => gate.kind.to_string(),
        Some(GateTarget::Job(JobId(u32::MAX))) => format!("{}:unknown", gate.kind),
        Some(GateTarget::Job(id) | GateTarget::Array(id)) => format!("{}:{id}", gate.kind),
    }
}
