//! Who is where: the jobs that run and those of the plan, by the places of their nodes.

use crate::affinity::affinity;
use crate::fit::New;
use muster_model::{Affinity, JobSpec, Node, NodeId, Placement, SpreadRule, State, Term};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A job with the nodes that it is on.
type There<'a> = (&'a JobSpec, Vec<&'a Node>);

/// The jobs in each place under one key.
type Places<'a> = BTreeMap<&'a str, Vec<usize>>;

/// All that runs, and all that is added to it.
#[derive(Clone)]
pub(crate) struct Beside<'a> {
    state: &'a State,
    /// Levels of the topology.
    levels: usize,
    there: Vec<There<'a>>,
    /// Keys under which some of them keep others away.
    apart: BTreeSet<&'a str>,
    /// Each key that was asked for, with how many of `there` are in it.
    by_key: RefCell<BTreeMap<String, (usize, Places<'a>)>>,
    spreads: RefCell<BTreeMap<Spread, Numbers<'a>>>,
}

/// A spread rule of jobs that ask the same of nodes, in a partition.
type Spread = (String, Affinity, SpreadRule);

/// How many jobs a spread rule counts in each place.
#[derive(Clone)]
pub(crate) struct Numbers<'a> {
    /// The nodes that count, with their places.
    pub(crate) places: Arc<BTreeMap<NodeId, &'a str>>,
    /// Jobs by place; one counts for each of its nodes.
    pub(crate) of: BTreeMap<&'a str, u32>,
    /// So many of those that are there are counted.
    counted: usize,
}

impl<'a> Beside<'a> {
    /// Nobody.
    pub(crate) fn nobody(state: &'a State) -> Self {
        Self {
            state,
            levels: state.topology.level_count(state.nodes.values().map(AsRef::as_ref)),
            there: Vec::new(),
            apart: BTreeSet::new(),
            by_key: RefCell::default(),
            spreads: RefCell::default(),
        }
    }

    /// What runs.
    pub(crate) fn what_runs(state: &'a State) -> Self {
        let mut beside = Self::nobody(state);
        for job in state.index.active.iter().filter_map(|id| state.jobs.get(id)) {
            if let Some(placement) = job.placement.as_deref() {
                beside.add(&job.spec, beside.nodes(placement));
            }
        }
        beside
    }

    /// What runs, and what is new.
    pub(crate) fn of(state: &'a State, new: &[New<'a>]) -> Self {
        let mut beside = Self::what_runs(state);
        for one in new {
            beside.add(&one.job.spec, beside.nodes(one.placement));
        }
        beside
    }

    /// The nodes of a placement that are there.
    pub(crate) fn nodes(&self, placement: &Placement) -> Vec<&'a Node> {
        let ids = placement.nodes.iter().map(|share| share.node);
        ids.filter_map(|id| self.state.nodes.get(&id)).map(AsRef::as_ref).collect()
    }

    /// One more is there.
    pub(crate) fn add(&mut self, spec: &'a JobSpec, nodes: Vec<&'a Node>) {
        self.apart.extend(affinity(spec).apart.required.iter().map(|term| term.key.as_str()));
        self.there.push((spec, nodes));
    }

    /// How many are there.
    pub(crate) fn len(&self) -> usize {
        self.there.len()
    }

    /// All that are there, with their nodes.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'a JobSpec, &[&'a Node])> {
        self.there.iter().map(|(spec, nodes)| (*spec, nodes.as_slice()))
    }

    /// The keys under which some of those that are there keep others away.
    pub(crate) fn kept_apart_by(&self) -> impl Iterator<Item = &'a str> {
        self.apart.iter().copied()
    }

    /// The name of a node's place under a key.
    pub(crate) fn place(&self, key: &str, node: &'a Node) -> Option<&'a str> {
        if key == "node" {
            return Some(&node.name);
        }
        match self.state.topology.level_named(key, self.levels) {
            Some(level) => {
                let paths = self.state.topology.paths(&[node]);
                paths.get(&node.id)?.get(level).copied().flatten()
            }
            None => node.labels.get(key).map(String::as_str),
        }
    }

    /// Those that have a node in the same place as one of these, under a key.
    pub(crate) fn in_places_of(&self, key: &str, nodes: &[&'a Node]) -> Vec<&'a JobSpec> {
        let mine: BTreeSet<&str> = nodes.iter().filter_map(|node| self.place(key, node)).collect();
        let mut by_key = self.by_key.borrow_mut();
        if !by_key.contains_key(key) {
            by_key.insert(key.to_owned(), Default::default());
        }
        let Some((known, places)) = by_key.get_mut(key) else { return Vec::new() };
        for (at, (_, nodes)) in self.there.iter().enumerate().skip(*known) {
            for place in nodes.iter().filter_map(|node| self.place(key, node)) {
                places.entry(place).or_default().push(at);
            }
        }
        *known = self.there.len();
        let there = mine.iter().filter_map(|place| places.get(place)).flatten();
        there.filter_map(|at| self.there.get(*at)).map(|(spec, _)| *spec).collect()
    }

    /// What a spread rule of a job that asks this of nodes counts in a partition. `counts` tells
    /// whether a node does, and `picks` whether a selector picks a job.
    pub(crate) fn numbers(
        &self,
        partition: &str,
        (own, rule): (&Affinity, &SpreadRule),
        counts: impl Fn(&'a Node) -> bool,
        picks: impl Fn(&Term, &JobSpec) -> bool,
    ) -> Numbers<'a> {
        let key = (partition.to_owned(), own.clone(), rule.clone());
        let mut spreads = self.spreads.borrow_mut();
        let numbers = spreads.entry(key).or_insert_with(|| self.none_yet(partition, rule, counts));
        for (spec, nodes) in self.there.iter().skip(numbers.counted) {
            if !picks(&rule.selector, spec) {
                continue;
            }
            for place in nodes.iter().filter_map(|node| numbers.places.get(&node.id)) {
                *numbers.of.entry(place).or_default() += 1;
            }
        }
        numbers.counted = self.there.len();
        numbers.clone()
    }

    fn none_yet(
        &self,
        partition: &str,
        rule: &SpreadRule,
        counts: impl Fn(&'a Node) -> bool,
    ) -> Numbers<'a> {
        let state = self.state;
        let members = state.partitions.get(partition);
        let places: BTreeMap<NodeId, &'a str> = members
            .into_iter()
            .flat_map(|partition| state.partition_nodes(partition))
            .filter(|node| counts(node))
            .filter_map(|node| Some((node.id, self.place(&rule.key, node)?)))
            .collect();
        let of = places.values().map(|place| (*place, 0)).collect();
        Numbers { places: Arc::new(places), of, counted: 0 }
    }
}
