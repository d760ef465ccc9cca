//! Nodes by what they have, so that checking a submission costs as much as there are kinds of
//! nodes, not as there are nodes.
//!
//! The table is made anew, in one walk, when the nodes or a partition changed since it was made:
//! both are persistent values that can be told apart without looking into them.

use muster_model::{Node, NodeId, NodeMap, Partition, State};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The kinds of nodes of a state.
#[derive(Default)]
pub struct Shapes {
    /// The nodes that it was made of.
    nodes: NodeMap,
    kinds: Vec<Arc<Node>>,
    /// The kind of each node, by name.
    of: BTreeMap<String, usize>,
    partitions: BTreeMap<String, (Arc<Partition>, Counts)>,
    looked_at: u64,
}

/// How many nodes of each kind a partition has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Nodes of the partition that are registered.
    pub(super) registered: usize,
    kinds: BTreeMap<usize, u32>,
}

/// A kind of node, by one of them, and how many there are.
pub(super) type Kind<'a> = (&'a Node, u32);

impl Shapes {
    /// How many nodes were looked at since it was made: for tests of its cost.
    pub const fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// Makes the table anew where the nodes of the state are others.
    pub(super) fn refresh(&mut self, state: &State) {
        if self.nodes.ptr_eq(&state.nodes) {
            return;
        }
        self.kinds.clear();
        self.of.clear();
        self.partitions.clear();
        // Few kinds have the same amounts, so that few are compared in full.
        let mut by_amounts: BTreeMap<(u32, u64, usize), Vec<(Node, usize)>> = BTreeMap::new();
        for node in state.nodes.values() {
            self.looked_at += 1;
            let shape = shape(node);
            let amounts = (node.cpus.len(), node.memory.0, node.devices.len());
            let alike = by_amounts.entry(amounts).or_default();
            let kind = match alike.iter().find(|(known, _)| *known == shape) {
                Some((_, kind)) => *kind,
                None => {
                    self.kinds.push(Arc::clone(node));
                    alike.push((shape, self.kinds.len() - 1));
                    self.kinds.len() - 1
                }
            };
            self.of.insert(node.name.clone(), kind);
        }
        self.nodes = state.nodes.clone();
    }

    /// One node of each kind.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &Node> + Clone {
        self.kinds.iter().map(Arc::as_ref)
    }

    /// A node of the same kind as the one of this name.
    pub(super) fn named(&self, name: &str) -> Option<&Node> {
        self.kinds.get(*self.of.get(name)?).map(Arc::as_ref)
    }

    /// How many nodes of each kind a partition has, without those named.
    pub(super) fn in_partition(
        &mut self,
        partition: &Arc<Partition>,
        without: &BTreeSet<String>,
    ) -> (usize, Vec<Kind<'_>>) {
        let known = self.partitions.get(&partition.name);
        if known.is_none_or(|(made_of, _)| !Arc::ptr_eq(made_of, partition)) {
            let counts = self.count(partition);
            self.partitions.insert(partition.name.clone(), (Arc::clone(partition), counts));
        }
        let mut counts = match self.partitions.get(&partition.name) {
            Some((_, counts)) => counts.clone(),
            None => Counts::default(),
        };
        for name in without.iter().filter(|name| partition.nodes.contains(*name)) {
            if let Some(count) = self.of.get(name).and_then(|kind| counts.kinds.get_mut(kind)) {
                *count -= 1;
            }
        }
        let kinds = counts.kinds.iter().filter(|(_, count)| **count > 0);
        let kinds = kinds.map(|(kind, count)| (self.kinds[*kind].as_ref(), *count)).collect();
        (counts.registered, kinds)
    }

    fn count(&mut self, partition: &Partition) -> Counts {
        let mut counts = Counts::default();
        for kind in partition.nodes.iter().filter_map(|name| self.of.get(name)) {
            self.looked_at += 1;
            counts.registered += 1;
            *counts.kinds.entry(*kind).or_default() += 1;
        }
        counts
    }
}

/// A node without what makes it itself and without what comes and goes.
fn shape(node: &Node) -> Node {
    let mut shape = Node {
        id: NodeId(0),
        name: String::new(),
        switches: Vec::new(),
        drain: None,
        foreign: Vec::new(),
        boot: String::new(),
        ..node.clone()
    };
    shape.availability = muster_model::Availability::default();
    for device in &mut shape.devices {
        device.uuid.clear();
        device.files.clear();
        device.unhealthy = None;
    }
    shape
}
