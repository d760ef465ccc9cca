//! Labels, taints and the jobs beside a job: are the rules kept?
//!
//! Written from Kubernetes' words: it compares names and values and asks nobody else.

use crate::beside::Beside;
use crate::{Rule, Violation};
use muster_model::affinity::BARRING;
use muster_model::{Affinity, Heed, Job, JobSpec, Node, SpreadRule, Start, State, Term};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Each start against what runs and what starts before it.
pub(crate) fn check(state: &State, starts: &[&Start], found: &mut Vec<Violation>) {
    if starts.is_empty() {
        return;
    }
    // Who is where matters only to those that look at others, and to those whom others keep away.
    let starting = || starts.iter().filter_map(|start| state.jobs.get(&start.job));
    let mut running = state.index.active.iter().filter_map(|id| state.jobs.get(id));
    let matters = starting().any(|job| looks_at_jobs(job))
        || running.any(|job| !affinity(&job.spec).apart.required.is_empty());
    let mut beside = if matters { Beside::what_runs(state) } else { Beside::nobody(state) };
    for (at, start) in starts.iter().enumerate() {
        let Some(job) = state.jobs.get(&start.job) else { continue };
        let nodes = beside.nodes(&start.placement);
        let partition = &start.placement.partition;
        let wrong_now = wrong(&beside, partition, &job.spec, &nodes);
        // Components start together: one may stand by those that are written after it.
        if !wrong_now.is_empty() && job.het.is_some() {
            let mut with_peers = beside.clone();
            for other in &starts[at + 1..] {
                let Some(peer) = state.jobs.get(&other.job) else { continue };
                if peer.het.map(|part| part.leader) == job.het.map(|part| part.leader) {
                    with_peers.add(&peer.spec, with_peers.nodes(&other.placement));
                }
            }
            if with_peers.len() > beside.len()
                && wrong(&with_peers, partition, &job.spec, &nodes).is_empty()
            {
                beside.add(&job.spec, nodes);
                continue;
            }
        }
        for (rule, detail) in wrong_now {
            found.push(Violation::of(rule, job.id, detail));
        }
        beside.add(&job.spec, nodes);
    }
}

/// True where a job may be on these nodes of the partition beside all of those.
pub(crate) fn allows<'a>(
    beside: &Beside<'a>,
    partition: &str,
    job: &Job,
    nodes: &[&'a Node],
) -> bool {
    wrong(beside, partition, &job.spec, nodes).is_empty()
}

/// True where labels and taints let the job be on the node at all.
pub(crate) fn suits(job: &Job, node: &Node) -> bool {
    let own = affinity(&job.spec);
    barring(node, own).is_none() && wanted(node, own) && can_be_had(node, own)
}

/// True where the job says something about other jobs.
pub(crate) fn looks_at_jobs(job: &Job) -> bool {
    job.spec.request.affinity.as_ref().is_some_and(|a| a.looks_at_jobs())
}

fn picks(selector: &Term, spec: &JobSpec) -> bool {
    selector.all.iter().all(|e| {
        let own = spec.labels.get(&e.key).map(String::as_str);
        e.holds(own.or(match e.key.as_str() {
            "name" => Some(&spec.name),
            "user" => Some(&spec.owner.user),
            "account" => Some(&spec.account),
            _ => None,
        }))
    })
}

fn wrong<'a>(
    beside: &Beside<'a>,
    partition: &str,
    spec: &JobSpec,
    nodes: &[&'a Node],
) -> Vec<(Rule, String)> {
    let own = affinity(spec);
    let mut found = Vec::new();
    for node in nodes {
        if let Some(taint) = barring(node, own) {
            found.push((Rule::Taint, format!("does not tolerate {taint} of node {}", node.name)));
        }
        if !wanted(node, own) {
            found.push((Rule::NodeAffinity, format!("node {} has other labels", node.name)));
        }
        if !can_be_had(node, own) {
            found.push((Rule::NodeAffinity, format!("its volumes are not on node {}", node.name)));
        }
    }
    if let Some(detail) = together(beside, spec, own, nodes) {
        found.push((Rule::AntiAffinity, detail));
    }
    if let Some(detail) = not_near(beside, spec, own, nodes) {
        found.push((Rule::JobAffinity, detail));
    }
    let hard = own.spread.iter().filter(|rule| !rule.soft);
    for rule in hard.filter(|rule| !even(beside, partition, spec, own, rule, nodes)) {
        found.push((Rule::Spread, format!("makes the jobs uneven over {}", rule.key)));
    }
    found
}

/// What a job asks of what is around it.
pub(crate) fn affinity(spec: &JobSpec) -> &Affinity {
    static NONE: LazyLock<Affinity> = LazyLock::new(Affinity::default);
    spec.request.affinity.as_deref().unwrap_or(&NONE)
}

/// A job in the same place that one of the two keeps away from.
fn together<'a>(
    beside: &Beside<'a>,
    spec: &JobSpec,
    own: &Affinity,
    nodes: &[&'a Node],
) -> Option<String> {
    let against = |other: &JobSpec, term| {
        Some(format!("is beside job {}, against apart({term})", other.name))
    };
    for term in &own.apart.required {
        let there = beside.in_places_of(&term.key, nodes);
        if let Some(other) = there.into_iter().find(|other| picks(&term.selector, other)) {
            return against(other, term);
        }
    }
    for key in beside.kept_apart_by() {
        for other in beside.in_places_of(key, nodes) {
            let mut theirs = affinity(other).apart.required.iter().filter(|t| t.key == key);
            if let Some(term) = theirs.find(|term| picks(&term.selector, spec)) {
                return against(other, term);
            }
        }
    }
    None
}

/// True where one of the required terms holds, if there are any.
fn wanted(node: &Node, own: &Affinity) -> bool {
    let required = &own.node.required;
    required.is_empty() || required.iter().any(|term| term.holds_on(node))
}

/// True where each volume can be had.
fn can_be_had(node: &Node, own: &Affinity) -> bool {
    own.volumes.iter().all(|places| places.iter().any(|term| term.holds_on(node)))
}

fn barring(node: &Node, own: &Affinity) -> Option<String> {
    let tolerated = |taint: &muster_model::Taint| {
        own.tolerations.iter().any(|t| {
            t.key.as_ref().is_none_or(|k| *k == taint.key)
                && t.value.as_ref().is_none_or(|v| *v == taint.value)
                && t.effect.is_none_or(|e| e == taint.effect)
        })
    };
    let bad = |t: &&muster_model::Taint| BARRING.contains(&t.effect) && !tolerated(t);
    node.taints.iter().find(bad).map(ToString::to_string)
}

fn not_near<'a>(
    beside: &Beside<'a>,
    spec: &JobSpec,
    own: &Affinity,
    nodes: &[&'a Node],
) -> Option<String> {
    let terms = &own.near.required;
    if terms.is_empty() {
        return None;
    }
    let all = |spec: &JobSpec| terms.iter().all(|t| picks(&t.selector, spec));
    let like: Vec<&Node> =
        beside.all().filter(|(s, _)| all(s)).flat_map(|(_, at)| at.iter().copied()).collect();
    let known = |key: &str| -> BTreeSet<&str> {
        like.iter().filter_map(|node| beside.place(key, node)).collect()
    };
    let first = terms.iter().all(|t| known(&t.key).is_empty()) && all(spec);
    for term in terms {
        let mine: Vec<Option<&str>> = nodes.iter().map(|n| beside.place(&term.key, n)).collect();
        let good = if first {
            mine.iter().all(|p| p.is_some() && *p == mine[0])
        } else {
            let known = known(&term.key);
            mine.iter().all(|p| p.is_some_and(|p| known.contains(p)))
        };
        if !good {
            return Some(format!("is not near({term})"));
        }
    }
    None
}

/// True where the job on these nodes leaves the places under the rule's key even enough.
fn even<'a>(
    beside: &Beside<'a>,
    partition: &str,
    spec: &JobSpec,
    own: &Affinity,
    rule: &SpreadRule,
    nodes: &[&'a Node],
) -> bool {
    let counts = |node: &'a Node| {
        // A node without a place under one of the rules counts for none of them.
        let mut hard = own.spread.iter().filter(|rule| !rule.soft);
        let labels = rule.node_affinity == Heed::Ignore || wanted(node, own);
        labels
            && hard.all(|rule| beside.place(&rule.key, node).is_some())
            && (rule.taints == Heed::Ignore || barring(node, own).is_none())
    };
    let mut numbers = beside.numbers(partition, (own, rule), counts, picks);
    if picks(&rule.selector, spec) {
        for node in nodes {
            if let Some(place) = numbers.places.get(&node.id) {
                *numbers.of.entry(place).or_default() += 1;
            }
        }
    }
    let few = rule.min_domains.is_some_and(|least| numbers.of.len() < least as usize);
    let least = if few { 0 } else { numbers.of.values().copied().min().unwrap_or(0) };
    nodes.iter().all(|node| {
        let number = numbers.places.get(&node.id).and_then(|place| numbers.of.get(place));
        number.is_some_and(|n| n.saturating_sub(least) <= rule.max_skew.max(1))
    })
}
