//! Even numbers of jobs over places.

use super::keys::{NONE, Places};
use super::selects;
use crate::ask::Ask;
use crate::free::Span;
use crate::world::World;
use muster_model::affinity::{BARRING, untolerated};
use muster_model::{Heed, JobSpec, SpreadRule};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A rule of even spreading with the numbers as they are.
#[derive(Clone, Debug)]
pub(crate) struct Even {
    places: Arc<Places>,
    /// Jobs selected by place, over the places that count.
    counts: BTreeMap<u32, u32>,
    /// The job itself is counted.
    counts_itself: bool,
    max_skew: u32,
    min_domains: u32,
}

impl Even {
    /// The rules of an ask that must hold, or those that are only wishes. Nodes that lack a place of
    /// one of them count for none.
    pub(crate) fn all(
        world: &World,
        ask: &Ask,
        who: &JobSpec,
        soft: bool,
        span: Span,
    ) -> Vec<Self> {
        let rules = ask.affinity().into_iter().flat_map(|affinity| &affinity.spread);
        let rules: Vec<(&SpreadRule, Arc<Places>)> = rules
            .filter(|rule| rule.soft == soft)
            .map(|rule| (rule, world.places(&rule.key)))
            .collect();
        let has_all = |node: usize| rules.iter().all(|(_, places)| places[node] != NONE);
        let one = |(rule, places): &(&SpreadRule, Arc<Places>)| {
            Self::of(world, ask, who, rule, places.clone(), &has_all, span)
        };
        rules.iter().map(one).collect()
    }

    fn of(
        world: &World,
        ask: &Ask,
        who: &JobSpec,
        rule: &SpreadRule,
        places: Arc<Places>,
        has_all: &dyn Fn(usize) -> bool,
        span: Span,
    ) -> Self {
        let members = world.members(&ask.partition.name);
        let counts = |node: &usize| {
            if !members.is_some_and(|members| members.contains(*node)) {
                return false;
            }
            let view = world.view(*node);
            let affinity = ask.affinity();
            let by_affinity =
                rule.node_affinity == Heed::Ignore || affinity.is_none_or(|a| a.wants(&view.node));
            let tolerations = affinity.map_or(&[][..], |a| &a.tolerations);
            let by_taints = rule.taints == Heed::Ignore
                || untolerated(&view.node, tolerations, &BARRING).next().is_none();
            has_all(*node) && by_affinity && by_taints
        };
        let counted = places.each().filter(|(_, nodes)| nodes.iter().any(counts));
        let mut numbers: BTreeMap<u32, u32> = counted.map(|(place, _)| (place, 0)).collect();
        let jobs = world.social().picked(&rule.selector, span);
        for node in jobs.flat_map(|(_, there)| &there.nodes) {
            if let Some(number) = numbers.get_mut(&places[*node]).filter(|_| counts(node)) {
                *number += 1;
            }
        }
        Self {
            places,
            counts: numbers,
            counts_itself: selects(&rule.selector, who),
            max_skew: rule.max_skew.max(1),
            min_domains: rule.min_domains.unwrap_or(0),
        }
    }

    /// True where the node is in a place that counts.
    pub(crate) fn counts_at(&self, node: usize) -> bool {
        self.counts.contains_key(&self.places[node])
    }

    /// How many of the jobs are at the node's place.
    pub(crate) fn count_at(&self, node: usize) -> u32 {
        self.counts.get(&self.places[node]).copied().unwrap_or(0)
    }

    /// The place of a node.
    pub(crate) fn place(&self, node: usize) -> u32 {
        self.places[node]
    }

    /// True where the numbers are even enough with the job on these nodes, at their places.
    pub(crate) fn allows(&self, nodes: &[usize]) -> bool {
        let mut after = self.counts.clone();
        if self.counts_itself {
            for node in nodes {
                if let Some(number) = after.get_mut(&self.places[*node]) {
                    *number += 1;
                }
            }
        }
        let few = (self.counts.len() as u32) < self.min_domains;
        let least = if few { 0 } else { after.values().copied().min().unwrap_or(0) };
        nodes.iter().all(|node| {
            // With the job, whether or not it is counted itself: Kubernetes' `selfMatch`.
            after.get(&self.places[*node]).is_some_and(|n| n - least.min(*n) <= self.max_skew)
        })
    }
}
