//! Labels, taints and the jobs beside a job: are the rules kept?
//!
//! Written from Kubernetes' words: it compares names and values and asks nobody else.

use crate::fit::New;
use crate::{Rule, Violation};
use muster_model::affinity::BARRING;
use muster_model::{
    Affinity, Heed, Job, JobSpec, Node, NodeId, Placement, SpreadRule, Start, State, Term,
};
use std::collections::BTreeMap;

/// A job with the nodes that it is on.
type There<'a> = (&'a JobSpec, Vec<&'a Node>);

/// Each start against what runs and what starts before it.
pub(crate) fn check(state: &State, starts: &[&Start], found: &mut Vec<Violation>) {
    let rules = |job: &Job| job.spec.request.affinity.is_some();
    let active = || state.index.active.iter().filter_map(|id| state.jobs.get(id));
    let starting = || starts.iter().filter_map(|s| state.jobs.get(&s.job));
    let tainted = || {
        let ids = starts.iter().flat_map(|s| &s.placement.nodes).map(|share| share.node);
        ids.filter_map(|id| state.nodes.get(&id)).any(|node| !node.taints.is_empty())
    };
    if !active().chain(starting()).any(|job| rules(job)) && !tainted() {
        return;
    }
    let mut there: Vec<There<'_>> = active()
        .filter_map(|job| Some((job.spec.as_ref(), on(state, job.placement.as_deref()?))))
        .collect();
    for (at, start) in starts.iter().enumerate() {
        let Some(job) = state.jobs.get(&start.job) else { continue };
        let nodes = on(state, &start.placement);
        let partition = &start.placement.partition;
        let wrong_now = wrong(state, partition, &job.spec, &nodes, &there);
        // Components start together: one may stand by those that are written after it.
        let before = there.len();
        if !wrong_now.is_empty() && job.het.is_some() {
            there.extend(starts[at + 1..].iter().filter_map(|other| {
                let peer = state.jobs.get(&other.job)?;
                let of_job = peer.het.map(|part| part.leader) == job.het.map(|part| part.leader);
                of_job.then(|| (peer.spec.as_ref(), on(state, &other.placement)))
            }));
        }
        let beside_all =
            there.len() > before && wrong(state, partition, &job.spec, &nodes, &there).is_empty();
        there.truncate(before);
        for (rule, detail) in wrong_now.into_iter().filter(|_| !beside_all) {
            found.push(Violation::of(rule, job.id, detail));
        }
        there.push((&job.spec, nodes));
    }
}

/// All that runs and all that the plan starts.
pub(crate) struct Beside<'a> {
    there: Vec<There<'a>>,
}

impl<'a> Beside<'a> {
    pub(crate) fn of(state: &'a State, new: &[New<'a>]) -> Self {
        let running = state.index.active.iter().filter_map(|id| state.jobs.get(id));
        let running =
            running.filter_map(|j| Some((j.spec.as_ref(), on(state, j.placement.as_deref()?))));
        let new = new.iter().map(|n| (n.job.spec.as_ref(), on(state, n.placement)));
        Self { there: running.chain(new).collect() }
    }

    /// True where a job may be on these nodes beside all of those.
    pub(crate) fn allows(
        &self,
        state: &State,
        partition: &str,
        job: &Job,
        nodes: &[&Node],
    ) -> bool {
        wrong(state, partition, &job.spec, nodes, &self.there).is_empty()
    }
}

/// True where labels and taints let the job be on the node at all.
pub(crate) fn suits(job: &Job, node: &Node) -> bool {
    let none = Affinity::default();
    let own = job.spec.request.affinity.as_deref().unwrap_or(&none);
    barring(node, own).is_none() && wanted(node, own) && can_be_had(node, own)
}

/// True where the job says something about other jobs.
pub(crate) fn looks_at_jobs(job: &Job) -> bool {
    job.spec.request.affinity.as_ref().is_some_and(|a| a.looks_at_jobs())
}

fn on<'a>(state: &'a State, placement: &Placement) -> Vec<&'a Node> {
    let ids = placement.nodes.iter().map(|share| share.node);
    ids.filter_map(|id| state.nodes.get(&id)).map(AsRef::as_ref).collect()
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

/// The name of a node's place under a key.
fn place(state: &State, key: &str, node: &Node) -> Option<String> {
    if key == "node" {
        return Some(node.name.clone());
    }
    let levels = state.topology.level_count(state.nodes.values().map(AsRef::as_ref));
    match state.topology.level_named(key, levels) {
        Some(level) => {
            let paths = state.topology.paths(&[node]);
            paths.get(&node.id)?.get(level).copied().flatten().map(str::to_owned)
        }
        None => node.labels.get(key).cloned(),
    }
}

fn wrong(
    state: &State,
    partition: &str,
    spec: &JobSpec,
    nodes: &[&Node],
    there: &[There<'_>],
) -> Vec<(Rule, String)> {
    let none = Affinity::default();
    let own = spec.request.affinity.as_deref().unwrap_or(&none);
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
    let meet = |key: &str, a: &[&Node], b: &[&Node]| {
        let places = |nodes: &[&Node]| -> Vec<String> {
            nodes.iter().filter_map(|n| place(state, key, n)).collect()
        };
        let (a, b) = (places(a), places(b));
        a.iter().any(|place| b.contains(place))
    };
    for (other, at) in there {
        let theirs = other.request.affinity.iter().flat_map(|a| &a.apart.required);
        let theirs = theirs.filter(|t| picks(&t.selector, spec));
        let ours = own.apart.required.iter().filter(|t| picks(&t.selector, other));
        if let Some(term) = theirs.chain(ours).find(|t| meet(&t.key, nodes, at)) {
            let detail = format!("is beside job {}, against apart({term})", other.name);
            found.push((Rule::AntiAffinity, detail));
            break;
        }
    }
    if let Some(detail) = not_near(state, spec, own, nodes, there) {
        found.push((Rule::JobAffinity, detail));
    }
    let hard = own.spread.iter().filter(|rule| !rule.soft);
    for rule in hard.filter(|rule| !even(state, partition, spec, own, rule, nodes, there)) {
        found.push((Rule::Spread, format!("makes the jobs uneven over {}", rule.key)));
    }
    found
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

fn not_near(
    state: &State,
    spec: &JobSpec,
    own: &Affinity,
    nodes: &[&Node],
    there: &[There<'_>],
) -> Option<String> {
    let terms = &own.near.required;
    if terms.is_empty() {
        return None;
    }
    let all = |spec: &JobSpec| terms.iter().all(|t| picks(&t.selector, spec));
    let like: Vec<&Node> = there.iter().filter(|(s, _)| all(s)).flat_map(|t| t.1.clone()).collect();
    let known = |key: &str| -> Vec<String> {
        like.iter().filter_map(|node| place(state, key, node)).collect()
    };
    let first = terms.iter().all(|t| known(&t.key).is_empty()) && all(spec);
    for term in terms {
        let mine: Vec<Option<String>> = nodes.iter().map(|n| place(state, &term.key, n)).collect();
        let good = if first {
            mine.iter().all(|p| p.is_some() && *p == mine[0])
        } else {
            let known = known(&term.key);
            mine.iter().all(|p| p.as_ref().is_some_and(|p| known.contains(p)))
        };
        if !good {
            return Some(format!("is not near({term})"));
        }
    }
    None
}

fn even(
    state: &State,
    partition: &str,
    spec: &JobSpec,
    own: &Affinity,
    rule: &SpreadRule,
    nodes: &[&Node],
    there: &[There<'_>],
) -> bool {
    let counts = |node: &Node| {
        // A node without a place under one of the rules counts for none of them.
        let mut hard = own.spread.iter().filter(|rule| !rule.soft);
        let labels = rule.node_affinity == Heed::Ignore || wanted(node, own);
        labels
            && hard.all(|rule| place(state, &rule.key, node).is_some())
            && (rule.taints == Heed::Ignore || barring(node, own).is_none())
    };
    let members = state.partitions.get(partition);
    let eligible: BTreeMap<NodeId, String> = members
        .into_iter()
        .flat_map(|p| state.partition_nodes(p))
        .filter(|node| counts(node))
        .filter_map(|node| Some((node.id, place(state, &rule.key, node)?)))
        .collect();
    let mut numbers: BTreeMap<&String, u32> = eligible.values().map(|p| (p, 0)).collect();
    let selected = there.iter().filter(|(s, _)| picks(&rule.selector, s));
    let mut all: Vec<&Node> = selected.flat_map(|(_, at)| at.iter().copied()).collect();
    if picks(&rule.selector, spec) {
        all.extend(nodes);
    }
    for node in all {
        if let Some(place) = eligible.get(&node.id) {
            *numbers.entry(place).or_default() += 1;
        }
    }
    let few = rule.min_domains.is_some_and(|least| numbers.len() < least as usize);
    let least = if few { 0 } else { numbers.values().copied().min().unwrap_or(0) };
    nodes.iter().all(|node| {
        let number = eligible.get(&node.id).and_then(|place| numbers.get(place));
        number.is_some_and(|n| n.saturating_sub(least) <= rule.max_skew.max(1))
    })
}
