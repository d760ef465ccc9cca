//! Are jobs ended for the taints of their nodes, those that have to go and nobody else?
//!
//! Kubernetes' rules (its page on taints and tolerations), worked out node by node.

use crate::{Rule, Violation};
use muster_model::{
    Decision, Job, JobId, JobState, Node, NodeId, Plan, State, TaintEffect, Timestamp,
};
use std::collections::BTreeSet;

pub(crate) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let mut ended: BTreeSet<JobId> = BTreeSet::new();
    for decision in &plan.decisions {
        let Decision::Evict { job: id, attempt, node, taint } = decision else { continue };
        ended.insert(*id);
        let grounds = state.jobs.get(id).is_some_and(|job| {
            job.attempt == *attempt
                && runs(job)
                && has_to_leave(state, plan.now, job)
                    .iter()
                    .any(|(other, text)| other == node && text == taint)
        });
        if !grounds {
            let detail = format!("is ended for taint {taint}, which does not ask for that");
            found.push(Violation::of(Rule::GroundlessEviction, *id, detail));
        }
    }
    let ends_jobs = |node: &Node| node.taints.iter().any(|t| t.effect == TaintEffect::NoExecute);
    let there: BTreeSet<JobId> = state
        .nodes
        .values()
        .filter(|node| ends_jobs(node))
        .filter_map(|node| state.index.on_node.get(&node.id))
        .flatten()
        .copied()
        .collect();
    for id in there.difference(&ended) {
        let Some(job) = state.jobs.get(id).filter(|job| runs(job)) else { continue };
        if let Some((_, taint)) = has_to_leave(state, plan.now, job).first() {
            let detail = format!("stays on a node with taint {taint}");
            found.push(Violation::of(Rule::TaintIgnored, *id, detail));
        }
    }
}

fn runs(job: &Job) -> bool {
    let there = [JobState::Starting, JobState::Running, JobState::Suspended];
    there.contains(&job.state) && job.stop.is_none()
}

/// The taints for which the job has to leave by now, with their nodes.
fn has_to_leave(state: &State, now: Timestamp, job: &Job) -> Vec<(NodeId, String)> {
    let mut taints = Vec::new();
    let affinity = job.spec.request.affinity.as_deref();
    let began = job.placed.unwrap_or_default();
    for share in job.placement.iter().flat_map(|placement| &placement.nodes) {
        let Some(node) = state.nodes.get(&share.node) else { continue };
        for taint in node.taints.iter().filter(|t| t.effect == TaintEffect::NoExecute) {
            let mut tolerations = affinity.iter().flat_map(|a| &a.tolerations);
            let first = tolerations.find(|t| t.tolerates(taint));
            let since = state.tainted.get(&(share.node, taint.clone())).copied();
            let from = since.unwrap_or(began).max(began);
            let until = match first {
                None => Some(from),
                Some(toleration) => toleration.seconds.map(|seconds| from.plus(seconds)),
            };
            if until.is_some_and(|until| until <= now) {
                taints.push((share.node, taint.to_string()));
            }
        }
    }
    taints
}
