//! Where a job may be, seen from the jobs beside it.

use super::even::Even;
use super::keys::{NONE, Places};
use super::{apart, selects};
use crate::ask::Ask;
use crate::free::Span;
use crate::world::World;
use muster_model::{JobId, JobSpec, JobTerm};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What running and promised jobs leave of the nodes to one job, over one span.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence {
    /// Nodes that it has to keep away from; none where the list is empty.
    barred: Vec<bool>,
    /// The jobs because of which.
    pub(crate) because: Vec<JobId>,
    /// For each place: only these.
    near: Vec<(Arc<Places>, BTreeSet<u32>)>,
    /// It is the first of its kind: all its nodes are in one of each of these places.
    pub(crate) first: Vec<Arc<Places>>,
    /// Even spreading that must hold.
    pub(crate) even: Vec<Even>,
}

/// True where a job has to be near others, and none of those is anywhere.
pub(crate) fn is_near_nobody(world: &World, ask: &Ask, span: Span) -> bool {
    ask.affinity().is_some_and(|affinity| !affinity.near.required.is_empty())
        && Fence::of(world, ask, span).near.iter().any(|(_, there)| there.is_empty())
}

impl Fence {
    pub(crate) fn of(world: &World, ask: &Ask, span: Span) -> Self {
        let mut fence = Self::default();
        let Some(who) = ask.who.as_ref().filter(|_| !ask.alone) else { return fence };
        if !ask.beside_all {
            fence.keep_apart(world, who, span);
        }
        let Some(affinity) = ask.affinity() else { return fence };
        if !affinity.near.required.is_empty() {
            fence.keep_near(world, who, &affinity.near.required, span);
        }
        fence.even = Even::all(world, ask, who, false, span);
        fence
    }

    fn bar(&mut self, world: &World, key: &str, nodes: &[usize]) {
        let places = world.places(key);
        let there: BTreeSet<u32> =
            nodes.iter().map(|node| places[*node]).filter(|n| *n != NONE).collect();
        self.barred.resize(places.len(), false);
        for node in there.iter().flat_map(|place| places.nodes_of(*place)) {
            self.barred[*node] = true;
        }
    }

    /// Required anti-affinity, its own and that of others.
    fn keep_apart(&mut self, world: &World, who: &JobSpec, span: Span) {
        let social = world.social();
        let mut bars: Vec<(&str, &[usize])> = Vec::new();
        for (term, id, there) in social.keeping_away(who, span) {
            bars.push((&term.key, &there.nodes));
            self.because.push(id);
        }
        let own = &apart(who).required;
        for term in own {
            for (id, there) in social.picked(&term.selector, span) {
                bars.push((&term.key, &there.nodes));
                self.because.push(id);
            }
        }
        for there in social.promised_apart_in(span) {
            let theirs = apart(&there.spec).required.iter();
            let theirs = theirs.filter(|t| selects(&t.selector, who));
            bars.extend(theirs.map(|t| (t.key.as_str(), there.nodes.as_slice())));
        }
        if !own.is_empty() {
            for there in social.promised_in(span) {
                let ours = own.iter().filter(|t| selects(&t.selector, &there.spec));
                bars.extend(ours.map(|t| (t.key.as_str(), there.nodes.as_slice())));
            }
        }
        // One pass for each key.
        bars.sort_unstable();
        for group in bars.chunk_by(|a, b| a.0 == b.0) {
            let nodes: Vec<usize> =
                group.iter().flat_map(|(_, nodes)| nodes.iter().copied()).collect();
            self.bar(world, group[0].0, &nodes);
        }
        self.because.sort_unstable();
        self.because.dedup();
    }

    /// Required affinity: a job counts where every term selects it. The first of a kind, which
    /// selects itself, may be anywhere that has the places.
    fn keep_near(&mut self, world: &World, who: &JobSpec, terms: &[JobTerm], span: Span) {
        let all = |spec: &JobSpec| terms.iter().all(|t| selects(&t.selector, spec));
        let Some(first) = terms.first() else { return };
        let nodes: Vec<usize> = world
            .social()
            .picked(&first.selector, span)
            .filter(|(_, there)| all(&there.spec))
            .flat_map(|(_, there)| there.nodes.iter().copied())
            .collect();
        let keys: Vec<Arc<Places>> = terms.iter().map(|t| world.places(&t.key)).collect();
        let there: Vec<BTreeSet<u32>> = keys
            .iter()
            .map(|key| nodes.iter().map(|n| key[*n]).filter(|n| *n != NONE).collect())
            .collect();
        if there.iter().all(BTreeSet::is_empty) && all(who) {
            self.first = keys;
            return;
        }
        self.near = keys.into_iter().zip(there).collect();
    }

    /// True where it says nothing.
    pub(crate) fn is_open(&self) -> bool {
        self.barred.is_empty()
            && self.near.is_empty()
            && self.first.is_empty()
            && self.even.is_empty()
    }

    /// True where the rules let a part of the job be on the node, whatever its other nodes are.
    pub(crate) fn admits(&self, node: usize) -> bool {
        !self.bars(node)
            && self.is_near(node)
            && self.first.iter().all(|key| key[node] != NONE)
            && self.even.iter().all(|even| even.counts_at(node))
    }

    pub(crate) fn bars(&self, node: usize) -> bool {
        self.barred.get(node).copied().unwrap_or(false)
    }

    pub(crate) fn is_near(&self, node: usize) -> bool {
        self.near.iter().all(|(key, there)| there.contains(&key[node]))
            && self.first.iter().all(|key| key[node] != NONE)
    }

    /// True where these nodes together keep the rules.
    pub(crate) fn allows(&self, nodes: &[usize]) -> bool {
        let one = |key: &Arc<Places>| nodes.windows(2).all(|two| key[two[0]] == key[two[1]]);
        nodes.iter().all(|node| self.admits(*node))
            && self.first.iter().all(one)
            && self.even.iter().all(|even| even.allows(nodes))
    }
}
