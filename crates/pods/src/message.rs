//! Why a pod waits, as its condition says it.
//!
//! First the counts by reason in the words of the default scheduler, which node autoscalers and
//! people know; then what muster adds: when it is expected to start, and the smallest changes that
//! would start it now.

use muster_engine_k8s::dra::is_counted;
use muster_engine_k8s::mirror::Mirror;
use muster_engine_k8s::read::is_port;
use muster_model::{Job, NodeCause, NodeTally, Request, RuleKind, Timestamp};
use muster_planner::{Change, Explanation, Planner};
use std::collections::BTreeMap;

/// So many changes are told at most.
const CHANGES_MAX: usize = 2;

/// Pods that are named at most.
const NAMED_MAX: usize = 3;

/// The message of a waiting job; empty where nothing keeps it from starting.
pub(crate) fn of(planner: &mut Planner, mirror: &Mirror, job: &Job, now: Timestamp) -> String {
    let explanation = planner.explain(mirror.state(), job.id, now);
    if explanation.tally.is_empty() {
        return explanation.reasons.first().map_or_else(String::new, ToString::to_string);
    }
    let mut text = counts(&job.spec.request, &explanation.tally);
    for more in [start(mirror, &explanation), changes(&explanation, &job.spec.request)] {
        text.extend(more.map(|more| format!(" {more}.")));
    }
    text
}

/// `0/5 nodes are available: 3 Insufficient cpu, 2 node(s) ...`.
fn counts(request: &Request, tally: &[NodeTally]) -> String {
    let mut all = 0u32;
    let mut words: BTreeMap<String, u32> = BTreeMap::new();
    for part in tally {
        all = all.saturating_add(part.count);
        *words.entry(word(request, &part.cause)).or_default() += part.count;
    }
    let mut parts: Vec<String> =
        words.iter().map(|(word, count)| format!("{count} {word}")).collect();
    // The default scheduler orders them as texts.
    parts.sort();
    format!("0/{all} nodes are available: {}.", parts.join(", "))
}

/// A cause in the default scheduler's words where it has any.
fn word(request: &Request, cause: &NodeCause) -> String {
    let short = |resource: &str| match resource {
        claims if is_counted(claims) => "cannot allocate all claims".to_owned(),
        "cpus" => "Insufficient cpu".to_owned(),
        "pods" => "Too many pods".to_owned(),
        "gpus" => {
            let model = request.gpus.first().and_then(|gpus| gpus.model.as_deref());
            format!("Insufficient {}", model.unwrap_or("GPUs"))
        }
        "nodes" => "node(s) were used by others".to_owned(),
        other => format!("Insufficient {other}"),
    };
    match cause {
        NodeCause::TooSmall { resource, .. } | NodeCause::Busy { resource, .. } => short(resource),
        NodeCause::GpuModel { needs } => format!("Insufficient {needs}"),
        NodeCause::Taint { taint } => format!("node(s) had untolerated taint {{{taint}}}"),
        NodeCause::Labels => "node(s) didn't match Pod's node affinity/selector".to_owned(),
        NodeCause::Rule { kind: RuleKind::JobAffinity } => {
            "node(s) didn't match pod affinity rules".to_owned()
        }
        NodeCause::Rule { kind: RuleKind::AntiAffinity } => {
            let apart = request.affinity.as_ref().map(|a| a.apart.required.as_slice());
            match apart.is_some_and(|terms| !terms.is_empty() && terms.iter().all(is_port)) {
                true => "node(s) didn't have free ports for the requested pod ports".to_owned(),
                false => "node(s) didn't match pod anti-affinity rules".to_owned(),
            }
        }
        NodeCause::Rule { kind: RuleKind::Spread } => {
            "node(s) didn't match pod topology spread constraints".to_owned()
        }
        NodeCause::Reserved { name, .. } => format!("node(s) were reserved ({name})"),
        NodeCause::Kept { .. } => "node(s) are kept for pods that come first".to_owned(),
        NodeCause::Taken { .. } => "node(s) go to pods that come first".to_owned(),
        NodeCause::Free => "node(s) have room for it, but not for all of its gang".to_owned(),
        NodeCause::Down { .. } => "node(s) were not ready".to_owned(),
        NodeCause::Drained { .. } => "node(s) were unschedulable".to_owned(),
        NodeCause::Unfit => "node(s) don't have all of it together".to_owned(),
        NodeCause::Level => "node(s) are in no domain of the required topology".to_owned(),
        other => format!("{other}"),
    }
}

/// When it is expected to start, and whose ends make that so.
fn start(mirror: &Mirror, explanation: &Explanation) -> Option<String> {
    let ends = explanation.tally.iter().filter_map(|part| match &part.cause {
        NodeCause::Busy { until, held_by, .. } if *until != Timestamp::NEVER => Some(held_by),
        _ => None,
    });
    let mut names: Vec<String> = ends
        .flatten()
        .filter_map(|job| mirror.pod(*job))
        .map(|pod| pod.key.to_string())
        .take(NAMED_MAX)
        .collect();
    names.dedup();
    let window = explanation.start.as_ref()?;
    let at = window.expected?;
    let by = if names.is_empty() { String::new() } else { format!(" ({} end)", names.join(", ")) };
    Some(format!("Expected to start by {}{by}", instant(at)))
}

/// An instant as RFC 3339 has it, to the second.
fn instant(at: Timestamp) -> String {
    muster_engine_k8s::write::rfc3339(at)
}

/// The smallest changes that would start it now.
fn changes(explanation: &Explanation, request: &Request) -> Option<String> {
    let texts: Vec<String> = explanation
        .suggestions
        .iter()
        .filter_map(|suggestion| change(&suggestion.change, request))
        .take(CHANGES_MAX)
        .collect();
    (!texts.is_empty()).then(|| format!("It would start now with {}", texts.join(", or with ")))
}

/// A change in the words of a pod's manifest; `None` where it is none that a pod can make.
fn change(change: &Change, request: &Request) -> Option<String> {
    match change {
        Change::TimeLimit(limit) => Some(format!("activeDeadlineSeconds: {}", limit.0)),
        Change::CpusPerTask(millis) => Some(format!("requests of cpu: {millis}m")),
        Change::Memory(memory) => Some(format!("requests of memory: {}Mi", memory.0)),
        Change::Gpus { model, to, .. } => {
            let model = model.as_deref().or_else(|| request.gpus.first()?.model.as_deref())?;
            Some(format!("limits of {model}: {to}"))
        }
        Change::Both(a, b) => {
            Some(format!("{} and {}", self::change(a, request)?, self::change(b, request)?))
        }
        _ => None,
    }
}
