//! The topology with dense numbers: which domain of each level a node is under.

use crate::natural::natural;
use muster_model::{Node, Span, Topology, TopologyDomain};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The domain of a node that is under none.
pub(crate) const NONE: u32 = u32::MAX;

/// The levels above the nodes, the nearest first. Nodes have the dense indices of the world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    names: Vec<String>,
    sizes: Vec<u32>,
    span: Span,
    /// By level and node: the domain, [`NONE`] for none.
    above: Vec<Vec<u32>>,
    /// By level and domain: its name. Domains are numbered in the order of their names.
    domains: Vec<Vec<String>>,
    /// By node: the highest domain above it, over all levels; [`NONE`] for none.
    roots: Vec<u32>,
    /// The nodes of each ring, in its order.
    rings: Vec<Vec<usize>>,
    /// By node: its place in the order that follows the topology from the top down.
    places: Vec<usize>,
    /// By node: the number of its path. Nodes of one number are under the same domains at every
    /// level.
    cells: Vec<u32>,
    /// By that number: the path, the nearest domain first; a node under none is under its own. They
    /// are numbered in the order of their paths from the top down.
    paths: Vec<Arc<[u64]>>,
    /// Each domain of the lowest level is under one domain at every level.
    whole_leaves: bool,
}

impl Map {
    /// Work: the nodes once for each level, and one sort of them.
    pub(crate) fn new(topology: &Topology, nodes: &[&Node]) -> Self {
        let count = topology.level_count(nodes.iter().copied());
        let mut map = Self {
            names: (0..count).map(|level| topology.level_name(level)).collect(),
            sizes: (0..count)
                .map(|level| topology.levels.get(level).map_or(0, |l| l.size))
                .collect(),
            span: topology.span,
            places: (0..nodes.len()).collect(),
            ..Self::default()
        };
        if count == 0 {
            return map;
        }
        map.rings = rings(topology, nodes);
        let paths = topology.paths(nodes);
        for level in 0..count {
            let names: BTreeSet<&str> = paths.values().filter_map(|path| path[level]).collect();
            let mut names: Vec<&str> = names.into_iter().collect();
            names.sort_by_cached_key(|name| natural(name));
            let numbers: BTreeMap<&str, u32> =
                names.iter().enumerate().map(|(at, name)| (*name, at as u32)).collect();
            let of = |node: &&Node| {
                let name = paths.get(&node.id).and_then(|path| path[level]);
                name.and_then(|name| numbers.get(name).copied()).unwrap_or(NONE)
            };
            map.above.push(nodes.iter().map(of).collect());
            map.domains.push(names.into_iter().map(str::to_owned).collect());
        }
        map.find_roots(nodes.len());
        map.find_places(nodes);
        map.find_cells(nodes.len());
        map
    }

    /// The nodes of each ring, in its order.
    pub(crate) fn rings(&self) -> &[Vec<usize>] {
        &self.rings
    }

    fn find_cells(&mut self, nodes: usize) {
        let mut by_path: BTreeMap<Vec<u64>, Vec<usize>> = BTreeMap::new();
        for node in 0..nodes {
            let mut path = self.path_of(node);
            path.reverse();
            by_path.entry(path).or_default().push(node);
        }
        self.cells = vec![0; nodes];
        for (mut path, members) in by_path {
            for node in members {
                self.cells[node] = self.paths.len() as u32;
            }
            path.reverse();
            self.paths.push(path.into());
        }
        let leaves: BTreeSet<u64> = self.paths.iter().filter_map(|p| p.first().copied()).collect();
        self.whole_leaves = leaves.len() == self.paths.len();
    }

    /// By level: the domain of a node. Where a level is missing, what is below it stands for itself.
    fn path_of(&self, node: usize) -> Vec<u64> {
        let mut path: Vec<u64> = Vec::with_capacity(self.levels());
        for (level, domains) in self.above.iter().enumerate() {
            let below = path.last().copied().unwrap_or(node as u64);
            path.push(match domains[node] {
                NONE if level > 0 => below | 1 << 48,
                NONE => below | 1 << 47,
                domain => u64::from(domain),
            });
        }
        path
    }

    /// The number of a node's path.
    pub(crate) fn cell(&self, node: usize) -> usize {
        self.cells.get(node).map_or(0, |cell| *cell as usize)
    }

    /// True where there are levels, and each domain of the lowest is all of one path.
    pub(crate) fn has_whole_leaves(&self) -> bool {
        self.whole_leaves && self.levels() > 0
    }

    /// The paths, by number; none where there is no level.
    pub(crate) fn paths(&self) -> &[Arc<[u64]>] {
        &self.paths
    }

    fn find_roots(&mut self, nodes: usize) {
        let mut first = 0;
        self.roots = vec![NONE; nodes];
        for (level, above) in self.above.iter().enumerate() {
            for (root, domain) in self.roots.iter_mut().zip(above) {
                if *domain != NONE {
                    *root = first + domain;
                }
            }
            first += self.domains[level].len() as u32;
        }
    }

    fn find_places(&mut self, nodes: &[&Node]) {
        let key = |at: &usize| {
            let path: Vec<u32> = self.above.iter().rev().map(|level| level[*at]).collect();
            (path, natural(&nodes[*at].name))
        };
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by_cached_key(key);
        for (place, node) in order.into_iter().enumerate() {
            self.places[node] = place;
        }
    }

    /// How many levels there are.
    pub(crate) fn levels(&self) -> usize {
        self.above.len()
    }

    /// The level of this name.
    pub(crate) fn level(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n.eq_ignore_ascii_case(name))
    }

    /// The names of the levels, the nearest first.
    pub(crate) fn level_names(&self) -> &[String] {
        &self.names
    }

    /// By node: its domain of the level.
    pub(crate) fn domains_of(&self, level: usize) -> &[u32] {
        &self.above[level]
    }

    /// The name of a domain.
    pub(crate) fn domain_name(&self, level: usize, domain: u32) -> &str {
        self.domains[level].get(domain as usize).map_or("none", String::as_str)
    }

    /// By node: the highest domain above it.
    pub(crate) fn roots(&self) -> &[u32] {
        &self.roots
    }

    /// A node's place in rank order.
    pub(crate) fn place(&self, node: usize) -> usize {
        self.places[node]
    }

    pub(crate) fn span(&self) -> Span {
        self.span
    }

    /// The lowest level whose planned size holds so many nodes.
    pub(crate) fn smallest_for(&self, nodes: u32) -> Option<usize> {
        self.sizes.iter().position(|size| *size >= nodes)
    }

    /// By node: how many nodes that `idle` says yes to are in its domain of the lowest level.
    pub(crate) fn idle_beside(&self, idle: impl Fn(usize) -> bool) -> Vec<u32> {
        let Some(lowest) = self.above.first() else { return vec![0; self.places.len()] };
        let mut counts = vec![0u32; self.domains[0].len()];
        for (node, domain) in lowest.iter().enumerate() {
            if *domain != NONE && idle(node) {
                counts[*domain as usize] += 1;
            }
        }
        lowest.iter().map(|d| counts.get(*d as usize).copied().unwrap_or(0)).collect()
    }
}

/// The nodes of each domain that is a ring, in the order of their names.
fn rings(topology: &Topology, nodes: &[&Node]) -> Vec<Vec<usize>> {
    let members = |domain: &TopologyDomain| {
        let inside = |at: &usize| domain.nodes.contains(&nodes[*at].name);
        let mut ring: Vec<usize> = (0..nodes.len()).filter(inside).collect();
        ring.sort_by_cached_key(|at| natural(&nodes[*at].name));
        ring
    };
    topology.domains.values().filter(|domain| domain.ring).map(members).collect()
}
