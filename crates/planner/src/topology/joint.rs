//! What the nodes of one job have to be to each other.

use super::map::{Map, NONE};
use crate::affinity::Fence;
use crate::ask::Ask;
use crate::free::Span as Stretch;
use crate::world::World;
use muster_model::{Segments, Span, TopologyRequest};
use std::collections::{BTreeMap, BTreeSet};

/// A request that asks for no distance.
static ANYWHERE: TopologyRequest = TopologyRequest {
    required: None,
    preferred: None,
    segment: None,
    segments: Segments::Anywhere,
};

/// The rules on the nodes of one job together, with levels as numbers.
#[derive(Clone, Debug)]
pub(crate) struct Joint<'a> {
    pub(crate) map: &'a Map,
    /// What other jobs leave to it.
    pub(crate) fence: Fence,
    request: &'a TopologyRequest,
    span: Span,
    /// All nodes are in one domain of this level.
    required: Option<usize>,
    /// In as few domains of this level as can be.
    pub(crate) preferred: Option<usize>,
    /// At most so many domains of the leaf level.
    switches: Option<u32>,
    leaf: usize,
}

impl<'a> Joint<'a> {
    /// The rules of a request; `None` where it requires a level that there is not.
    pub(crate) fn of(world: &'a World, ask: &'a Ask, over: Stretch) -> Option<Self> {
        let map = world.map();
        let request = if ask.anywhere { &ANYWHERE } else { &ask.request.topology };
        let span = if ask.anywhere { Span::Anywhere } else { map.span() };
        let required = match &request.required {
            Some(name) => Some(map.level(name)?),
            None => None,
        };
        let leaf = map.level("leaf").unwrap_or(0);
        let wished = ask.switches.filter(|_| map.levels() > 0).map(|_| leaf);
        let preferred = request.preferred.as_ref().and_then(|name| map.level(name)).or(wished);
        let fence = Fence::of(world, ask, over);
        Some(Self { map, fence, request, span, required, preferred, switches: ask.switches, leaf })
    }

    /// True where the job itself says something about the distance between its nodes.
    pub(crate) fn is_asked(&self) -> bool {
        *self.request != TopologyRequest::default() || self.switches.is_some()
    }

    /// True where every node is like every other: the first ones found will do.
    pub(crate) fn is_void(&self) -> bool {
        self.map.levels() == 0 && !self.is_asked() && self.fence.is_open()
    }

    /// False where the node is in no domain of the level that the job requires.
    pub(crate) fn admits(&self, node: usize) -> bool {
        self.required.is_none_or(|level| self.map.domains_of(level)[node] != NONE)
            && (self.fence.is_open() || self.fence.admits(node))
    }

    /// So many nodes come in groups of this size, each in one domain of the lowest level; 1 where
    /// they do not.
    pub(crate) fn unit(&self, count: u32) -> u32 {
        self.request.segment_for(count).unwrap_or(1)
    }

    /// True where so many nodes come in segments.
    pub(crate) fn is_segmented(&self, count: u32) -> bool {
        self.request.segment_for(count).is_some()
    }

    /// True where so many nodes can be parted into whole segments.
    pub(crate) fn parts(&self, count: u32) -> bool {
        count.is_multiple_of(self.unit(count))
    }

    /// True where each segment has to be in another domain.
    pub(crate) fn spreads(&self, count: u32) -> bool {
        self.is_segmented(count) && self.request.segments == Segments::Spread
    }

    /// For each list, by node: numbers that all of so many nodes have to share.
    pub(crate) fn within(&self, count: u32) -> Vec<&[u32]> {
        let mut keys: Vec<&[u32]> =
            self.required.map(|level| self.map.domains_of(level)).into_iter().collect();
        keys.extend(self.by_size(count).map(|level| self.map.domains_of(level)));
        if self.must_connect(count) {
            keys.push(self.map.roots());
        }
        keys.extend(self.fence.first.iter().map(|places| &places[..]));
        keys
    }

    /// For each list of [`Self::within`]: what it asks in words, and its level where it is of one.
    pub(crate) fn within_names(&self, count: u32) -> Vec<(String, Option<usize>)> {
        let named =
            |level: usize| (format!("in one {}", self.map.level_names()[level]), Some(level));
        let levels = [self.required, self.by_size(count)];
        let mut names: Vec<_> = levels.into_iter().flatten().map(named).collect();
        if self.must_connect(count) {
            names.push(("with a path between them".to_owned(), None));
        }
        names
    }

    /// The level whose planned size says that one domain of it has to hold so many nodes.
    fn by_size(&self, count: u32) -> Option<usize> {
        let bound = match self.is_segmented(count) {
            true => self.request.segments == Segments::Consolidate,
            false => self.span == Span::SmallestBlock,
        };
        if bound && count > 1 { self.map.smallest_for(count) } else { None }
    }

    fn must_connect(&self, count: u32) -> bool {
        count > 1 && self.span == Span::Connected && self.map.levels() > 0
    }

    /// True where these nodes may be one job's.
    pub(crate) fn allows(&self, nodes: &[usize]) -> bool {
        let count = nodes.len() as u32;
        let alike = |key: &&[u32]| {
            let mut numbers = nodes.iter().map(|node| key[*node]);
            let first = numbers.next().unwrap_or(NONE);
            first != NONE && numbers.all(|number| number == first)
        };
        self.within(count).iter().all(alike)
            && self.whole_segments(nodes)
            && self.few(nodes)
            && (self.fence.is_open() || self.fence.allows(nodes))
    }

    fn whole_segments(&self, nodes: &[usize]) -> bool {
        let count = nodes.len() as u32;
        let Some(unit) = self.request.segment_for(count) else { return true };
        if self.map.levels() == 0 {
            return false;
        }
        let lowest = self.map.domains_of(0);
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for node in nodes {
            *counts.entry(lowest[*node]).or_default() += 1;
        }
        let spread = self.spreads(count);
        counts.iter().all(|(domain, count)| {
            *domain != NONE && count.is_multiple_of(unit) && (!spread || *count == unit)
        })
    }

    /// Nodes without a switch count as under one.
    fn few(&self, nodes: &[usize]) -> bool {
        let Some(most) = self.switches.filter(|_| self.map.levels() > 0) else { return true };
        let leaf = self.map.domains_of(self.leaf);
        let leaves: BTreeSet<u32> = nodes.iter().map(|node| leaf[*node]).collect();
        leaves.len() <= most as usize
    }

    /// The level that `--switches` counts.
    pub(crate) fn leaf(&self) -> usize {
        self.leaf
    }
}
