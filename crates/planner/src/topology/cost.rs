//! What a placement costs: the speed of a ring over its nodes, and what is in the way.
//!
//! The model is a ring all-reduce over the job's nodes in rank order, both directions of a link
//! apart, and inside each node over its GPUs ([`muster_model::links::ring`]). Each step between nodes goes up to the lowest domain that its two nodes share and down
//! again; it is as fast as the slowest of: the links of that domain, and its part of the links out
//! of every domain that it leaves. The ring is as fast as its slowest step. Sources: the ring's
//! volume, `2(n-1)/n` of the data on every link (Patarasuk and Yuan, JPDC 2009); a step's part of an
//! uplink is one over the ring's steps through it.

use muster_model::{LinkSpeed, Node, NodeId, NodeShare, Placement, State, links};
use std::collections::{BTreeMap, BTreeSet};

/// All sets of so many devices of a node are tried for the ideal.
const DEVICES_EXACT: usize = 8;

/// The predicted speed of a ring over a placement's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// By level, the nearest first: its name, and how many of its domains the nodes are in.
    pub domains: Vec<(String, u32)>,
    /// The lowest level whose one domain holds all nodes; `None` where there is none.
    pub meets_at: Option<String>,
    /// The speed of the slowest step; zero where no link speed is known.
    pub ring: LinkSpeed,
    /// What makes it no faster.
    pub bottleneck: Option<Bottleneck>,
    /// The speed on the nearest nodes of an empty cluster, by the same model.
    pub ideal: LinkSpeed,
}

/// The slowest link of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bottleneck {
    /// The level of the link.
    pub level: String,
    /// The domain.
    pub domain: String,
    /// The ring's steps that share it in one direction.
    pub steps: u32,
}

/// What a placement costs on this cluster, and what the nearest nodes would have cost if nothing
/// ran.
///
/// Work: the nodes of the placement for each level, and one look at all nodes for the ideal.
pub fn cost(state: &State, placement: &Placement) -> Cost {
    let inner = |share: &NodeShare| {
        let devices: Vec<u32> = share.devices.iter().map(|d| d.index).collect();
        state.nodes.get(&share.node).map_or(LinkSpeed(0), |node| inside(node, &devices))
    };
    let parts = placement.nodes.iter().map(|share| (share.node, inner(share))).collect();
    cost_of(state, placement, parts)
}

/// What the placement would cost with another node in the place of one of its own, and there the
/// best devices of an empty node.
pub fn cost_instead(state: &State, placement: &Placement, own: NodeId, other: NodeId) -> Cost {
    let part = |share: &NodeShare| {
        let replaced = share.node == own;
        let id = if replaced { other } else { share.node };
        let Some(node) = state.nodes.get(&id) else { return (id, LinkSpeed(0)) };
        let devices: Vec<u32> = share.devices.iter().map(|d| d.index).collect();
        let inner =
            if replaced { best_inside(node, devices.len()) } else { inside(node, &devices) };
        (id, inner)
    };
    cost_of(state, placement, placement.nodes.iter().map(part).collect())
}

/// The cost of nodes in rank order with the rings inside each.
fn cost_of(state: &State, placement: &Placement, parts: Vec<(NodeId, LinkSpeed)>) -> Cost {
    let rank_order: Vec<NodeId> = parts.iter().map(|part| part.0).collect();
    let site = Site::new(state);
    let (mut ring, mut bottleneck) = site.ring(&rank_order);
    for (id, inner) in parts {
        let Some(node) = state.nodes.get(&id) else { continue };
        if inner.0 > 0 && inner.slower(ring) == inner && inner != ring {
            let (level, domain) = ("node".to_owned(), node.name.clone());
            (ring, bottleneck) = (inner, Some(Bottleneck { level, domain, steps: 1 }));
        }
    }
    let domains = site.domains(&rank_order);
    let meets_at = domains.iter().find(|(_, n)| *n == 1).map(|(name, _)| name.clone());
    let nearest = site.nearest(state, placement);
    let count = placement.nodes.iter().map(|s| s.devices.len()).max().unwrap_or(0);
    let best = |id: &NodeId| state.nodes.get(id).map_or(LinkSpeed(0), |n| best_inside(n, count));
    let ideal = nearest.iter().map(best).fold(site.ring(&nearest).0, LinkSpeed::slower);
    let ideal = if ideal < ring { ring } else { ideal };
    Cost { domains, meets_at, ring, bottleneck, ideal }
}

/// The ring over some devices of a node; zero for fewer than two.
fn inside(node: &Node, devices: &[u32]) -> LinkSpeed {
    LinkSpeed(u64::from(links::ring(node, devices).1) * 1000)
}

/// The fastest ring that so many devices of an empty node can make; all sets of up to eight devices
/// are tried.
fn best_inside(node: &Node, count: usize) -> LinkSpeed {
    let total = node.devices.len().min(DEVICES_EXACT);
    if count < 2 || count > total {
        return LinkSpeed(0);
    }
    let sets = (0u32..1 << total).filter(|set| set.count_ones() as usize == count);
    sets.map(|set| {
        let devices: Vec<u32> = (0..total as u32).filter(|i| set & (1 << i) != 0).collect();
        inside(node, &devices)
    })
    .max()
    .unwrap_or_default()
}

/// The predicted ring speed over these nodes in this order.
pub fn ring(state: &State, rank_order: &[NodeId]) -> LinkSpeed {
    Site::new(state).ring(rank_order).0
}

/// The topology of a state, worked out once.
struct Site<'a> {
    state: &'a State,
    levels: usize,
    paths: BTreeMap<NodeId, Vec<Option<&'a str>>>,
}

impl<'a> Site<'a> {
    fn new(state: &'a State) -> Self {
        let nodes: Vec<&muster_model::Node> = state.nodes.values().map(AsRef::as_ref).collect();
        Self {
            state,
            levels: state.topology.level_count(nodes.iter().copied()),
            paths: state.topology.paths(&nodes),
        }
    }

    fn domain(&self, node: NodeId, level: usize) -> Option<&'a str> {
        self.paths.get(&node).and_then(|path| path.get(level).copied().flatten())
    }

    fn domains(&self, nodes: &[NodeId]) -> Vec<(String, u32)> {
        let used = |level: usize| {
            let named: BTreeSet<&str> =
                nodes.iter().filter_map(|node| self.domain(*node, level)).collect();
            let alone = nodes.iter().filter(|node| self.domain(**node, level).is_none()).count();
            (self.state.topology.level_name(level), (named.len() + alone) as u32)
        };
        (0..self.levels).map(used).collect()
    }

    /// The speed of the ring, and its slowest link.
    fn ring(&self, nodes: &[NodeId]) -> (LinkSpeed, Option<Bottleneck>) {
        let steps: Vec<(NodeId, NodeId)> = match nodes {
            [] | [_] => Vec::new(),
            [a, b] => vec![(*a, *b)],
            many => {
                let next = many.iter().skip(1).chain(many.first());
                many.iter().copied().zip(next.copied()).collect()
            }
        };
        // How many steps leave a domain.
        let mut leaving: BTreeMap<(usize, &str), u32> = BTreeMap::new();
        for (from, to) in &steps {
            for level in 0..self.meeting(*from, *to) {
                if let Some(domain) = self.domain(*from, level) {
                    *leaving.entry((level, domain)).or_default() += 1;
                }
            }
        }
        let mut slowest = (LinkSpeed::default(), None);
        let mut note = |speed: LinkSpeed, level: usize, domain: &str, steps: u32| {
            if speed.0 > 0 && (slowest.0.0 == 0 || speed < slowest.0) {
                let level = self.state.topology.level_name(level);
                let domain = domain.to_owned();
                slowest = (speed, Some(Bottleneck { level, domain, steps }));
            }
        };
        for (from, to) in &steps {
            let level = self.meeting(*from, *to);
            match self.domain(*from, level) {
                Some(domain) => note(self.state.topology.link(level, domain), level, domain, 1),
                // Nodes that meet nowhere are as far apart as the highest level has it.
                None => {
                    let top = self.levels.saturating_sub(1);
                    note(self.state.topology.link(top, ""), top, "", 1);
                }
            }
        }
        for ((level, domain), steps) in leaving {
            let uplink = self.state.topology.levels.get(level).map_or(0, |l| l.uplink.0);
            note(LinkSpeed(uplink / u64::from(steps)), level, domain, steps);
        }
        slowest
    }

    /// The lowest level at which two nodes meet; the number of levels where they never do.
    fn meeting(&self, a: NodeId, b: NodeId) -> usize {
        (0..self.levels)
            .find(|level| {
                let domain = self.domain(a, *level);
                domain.is_some() && domain == self.domain(b, *level)
            })
            .unwrap_or(self.levels)
    }

    /// As many nodes with as many devices, as near to each other as the cluster has them: the
    /// lowest domain with enough of them, filled in order.
    fn nearest(&self, state: &State, placement: &Placement) -> Vec<NodeId> {
        let count = placement.nodes.len();
        let least = placement.nodes.iter().map(|s| s.devices.len()).max().unwrap_or(0);
        let partition = state.partitions.get(&placement.partition);
        let mut like: Vec<NodeId> = partition
            .into_iter()
            .flat_map(|p| state.partition_nodes(p))
            .filter(|node| node.devices.len() >= least)
            .map(|node| node.id)
            .collect();
        let path = |id: &NodeId| -> Vec<Option<&str>> {
            (0..self.levels).rev().map(|level| self.domain(*id, level)).collect()
        };
        like.sort_by_cached_key(|id| (path(id), *id));
        for level in 0..self.levels {
            let mut inside: BTreeMap<&str, Vec<NodeId>> = BTreeMap::new();
            for id in &like {
                if let Some(domain) = self.domain(*id, level) {
                    inside.entry(domain).or_default().push(*id);
                }
            }
            let best = inside
                .into_values()
                .filter(|nodes| nodes.len() >= count)
                .map(|mut nodes| {
                    nodes.truncate(count);
                    nodes
                })
                .max_by_key(|nodes| self.ring(nodes).0);
            if let Some(nodes) = best {
                return nodes;
            }
        }
        like.truncate(count);
        like
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::{Event, EventKind, Node, NodeShare, Timestamp, Topology, TopologyLevel};

    /// Two leaves of two nodes with 50 GB/s inside and one uplink of 60 GB/s each.
    fn state() -> State {
        let mut state = State::default();
        let mut apply = |kind| {
            state.apply(&Event { at: Timestamp::from_secs(0), kind }).unwrap();
        };
        for id in 0..4 {
            let leaf = if id < 2 { "l1" } else { "l2" };
            let node = Node {
                id: NodeId(id),
                name: format!("n{id}"),
                labels: [("leaf", leaf), ("spine", "s")]
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .into(),
                ..Node::default()
            };
            apply(EventKind::NodeSet { node: Box::new(node) });
        }
        let level = |name: &str, link: u64, uplink: u64| TopologyLevel {
            name: name.to_owned(),
            label: Some(name.to_owned()),
            link: LinkSpeed(link),
            uplink: LinkSpeed(uplink),
            size: 0,
        };
        let levels = vec![level("leaf", 50_000, 60_000), level("spine", 40_000, 0)];
        let topology = Topology { levels, ..Topology::default() };
        apply(EventKind::TopologySet { topology: Box::new(topology) });
        state
    }

    #[test]
    fn a_ring_is_as_fast_as_its_slowest_step() {
        let state = state();
        let speed = |ids: &[u32]| {
            let nodes: Vec<NodeId> = ids.iter().copied().map(NodeId).collect();
            ring(&state, &nodes).0
        };
        assert_eq!(speed(&[0]), 0);
        assert_eq!(speed(&[0, 1]), 50_000);
        assert_eq!(speed(&[0, 2]), 40_000);
        // One step leaves each leaf: the spine's links are the slowest.
        assert_eq!(speed(&[0, 1, 2, 3]), 40_000);
        // Two steps leave each leaf: they share its uplink.
        assert_eq!(speed(&[0, 2, 1, 3]), 30_000);
    }

    #[test]
    fn the_cost_says_what_is_in_the_way_and_what_was_possible() {
        let state = state();
        let nodes = [0, 2].map(|id| NodeShare { node: NodeId(id), ..NodeShare::default() });
        let partition = muster_model::Partition {
            name: "main".to_owned(),
            nodes: (0..4).map(|n| format!("n{n}")).collect(),
            ..muster_model::Partition::default()
        };
        let mut state = state;
        let kind = EventKind::PartitionSet { partition: Box::new(partition) };
        state.apply(&Event { at: Timestamp::from_secs(0), kind }).unwrap();
        let placement = Placement {
            partition: "main".to_owned(),
            nodes: nodes.to_vec(),
            ..Placement::default()
        };
        let cost = cost(&state, &placement);
        assert_eq!(cost.domains, [("leaf".to_owned(), 2), ("spine".to_owned(), 1)]);
        assert_eq!(cost.meets_at.as_deref(), Some("spine"));
        assert_eq!((cost.ring, cost.ideal), (LinkSpeed(40_000), LinkSpeed(50_000)));
        let bottleneck = cost.bottleneck.unwrap();
        assert_eq!((bottleneck.level.as_str(), bottleneck.steps), ("spine", 1));
        // With the second node of the first leaf in place of that of the other.
        let instead = cost_instead(&state, &placement, NodeId(2), NodeId(1));
        assert_eq!((instead.ring, instead.ideal), (LinkSpeed(50_000), LinkSpeed(50_000)));
        assert_eq!(instead.meets_at.as_deref(), Some("leaf"));
    }
}
