//! How nodes are joined: levels of switches, blocks or racks above them, with link speeds.
//!
//! A level names domains that part the nodes: every node is under at most one domain of a level.
//! Levels are listed from the nodes up (`leaf`, `spine`, `core`, or `block`, `block8`). A topology
//! without levels is what the nodes say themselves ([`Node::switches`]): levels `leaf`, `spine`,
//! `core`, then `level4` and so on.

use crate::{Node, NodeId, is_default};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The names of the levels of a topology that only the nodes describe.
const IMPLIED: [&str; 3] = ["leaf", "spine", "core"];

/// The speed of a link in one direction, in MB/s (10^6 bytes a second); zero is not known.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct LinkSpeed(pub u64);

/// The switches, blocks or racks of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Topology {
    /// The levels, the nearest to the nodes first.
    pub levels: Vec<TopologyLevel>,
    /// The domains that are listed, by name.
    pub domains: BTreeMap<String, TopologyDomain>,
    /// How far apart the nodes of one job may be where it does not say.
    pub span: Span,
}

/// One level of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopologyLevel {
    /// What users call it: `leaf`, `rack`, `block`.
    pub name: String,
    /// The node label whose value is the node's domain; `None` where the domains are listed.
    #[serde(skip_serializing_if = "is_default")]
    pub label: Option<String>,
    /// The speed between two nodes that meet in a domain of this level.
    #[serde(skip_serializing_if = "is_default")]
    pub link: LinkSpeed,
    /// The speed of all links out of one domain together; zero is enough for all its nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub uplink: LinkSpeed,
    /// The nodes planned for a domain (Slurm's `BlockSizes`); zero is not planned.
    #[serde(skip_serializing_if = "is_default")]
    pub size: u32,
}

/// A switch, block or rack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopologyDomain {
    /// Its level, counted from the nodes up.
    pub level: u32,
    /// The domain above it.
    #[serde(skip_serializing_if = "is_default")]
    pub parent: Option<String>,
    /// The names of nodes directly under it.
    #[serde(skip_serializing_if = "is_default")]
    pub nodes: BTreeSet<String>,
    /// Its own link speed, in place of its level's.
    #[serde(skip_serializing_if = "is_default")]
    pub link: LinkSpeed,
    /// Its nodes, in the order of their names, are joined to a ring: the last is the first one's
    /// neighbour, and `--contiguous` goes on over it.
    #[serde(skip_serializing_if = "is_default")]
    pub ring: bool,
}

/// How far apart the nodes of one job may be.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// Anywhere.
    #[default]
    Anywhere,
    /// Under one domain of the highest level: there is no path to others (Slurm's tree without
    /// `TopoOptional`).
    Connected,
    /// In one domain of the lowest level whose planned size holds the job (Slurm's blocks).
    SmallestBlock,
}

/// The domains above a node, the nearest first; `None` where it is under none of a level.
pub type Path<'a> = Vec<Option<&'a str>>;

impl Topology {
    /// The number of levels, with those that only the nodes describe.
    pub fn level_count<'a>(&self, nodes: impl Iterator<Item = &'a Node>) -> usize {
        if self.levels.is_empty() {
            nodes.map(|n| n.switches.len()).max().unwrap_or(0)
        } else {
            self.levels.len()
        }
    }

    /// The name of a level.
    pub fn level_name(&self, level: usize) -> String {
        match (self.levels.get(level), IMPLIED.get(level)) {
            (Some(own), _) => own.name.clone(),
            (None, Some(name)) if self.levels.is_empty() => (*name).to_owned(),
            _ => format!("level{}", level + 1),
        }
    }

    /// The level of this name among so many.
    pub fn level_named(&self, name: &str, count: usize) -> Option<usize> {
        (0..count).find(|level| self.level_name(*level).eq_ignore_ascii_case(name))
    }

    /// The domains above each node.
    ///
    /// Work: each of the nodes once for each level, and each listed domain with the fewer of its
    /// nodes and these.
    pub fn paths<'a>(&'a self, nodes: &[&'a Node]) -> BTreeMap<NodeId, Path<'a>> {
        let count = self.level_count(nodes.iter().copied());
        let mut listed: BTreeMap<&'a str, Path<'a>> = BTreeMap::new();
        let wanted: BTreeSet<&'a str> = nodes.iter().map(|n| n.name.as_str()).collect();
        for (name, domain) in &self.domains {
            let inside: Vec<&'a str> = if domain.nodes.len() <= wanted.len() {
                let all = domain.nodes.iter().map(String::as_str);
                all.filter(|node| wanted.contains(node)).collect()
            } else {
                wanted.iter().copied().filter(|node| domain.nodes.contains(*node)).collect()
            };
            if inside.is_empty() {
                continue;
            }
            let mut path: Path<'a> = vec![None; count];
            self.climb(name, &mut path);
            for node in inside {
                let known = listed.entry(node).or_insert_with(|| vec![None; count]);
                for (level, above) in path.iter().enumerate() {
                    known[level] = known[level].or(*above);
                }
            }
        }
        nodes
            .iter()
            .map(|node| {
                let mut path =
                    listed.get(node.name.as_str()).cloned().unwrap_or_else(|| vec![None; count]);
                for (level, place) in path.iter_mut().enumerate() {
                    *place = place.or_else(|| self.own_domain(node, level));
                }
                (node.id, path)
            })
            .collect()
    }

    /// Notes a domain and those above it; a circle ends where it closes.
    fn climb<'a>(&'a self, name: &'a str, path: &mut Path<'a>) {
        let mut at = Some(name);
        while let Some(name) = at {
            let Some(domain) = self.domains.get(name) else { break };
            let Some(place) = path.get_mut(domain.level as usize) else { break };
            if place.is_some() {
                break;
            }
            *place = Some(name);
            at = domain.parent.as_deref();
        }
    }

    /// The domain that a node says by itself: by its label, or its switches where no level is given.
    fn own_domain<'a>(&self, node: &'a Node, level: usize) -> Option<&'a str> {
        let label = match self.levels.get(level) {
            None => return node.switches.get(level).map(String::as_str),
            Some(level) => level.label.as_ref()?,
        };
        node.labels.get(label).map(String::as_str)
    }

    /// The level whose domains `--switches` counts: that named `leaf`, else the lowest.
    pub fn switch_level(&self, count: usize) -> usize {
        self.level_named(IMPLIED[0], count).unwrap_or(0)
    }

    /// The speed between two nodes that meet in this domain of this level.
    pub fn link(&self, level: usize, domain: &str) -> LinkSpeed {
        let own = self.domains.get(domain).map(|d| d.link).filter(|link| link.0 > 0);
        own.or(self.levels.get(level).map(|l| l.link)).unwrap_or_default()
    }
}

impl LinkSpeed {
    /// The slower of two, as far as they are known.
    #[must_use]
    pub fn slower(self, other: Self) -> Self {
        match (self.0, other.0) {
            (0, _) => other,
            (_, 0) => self,
            (a, b) => Self(a.min(b)),
        }
    }
}

impl fmt::Display for LinkSpeed {
    /// `50 GB/s`, `12.5 GB/s`, `800 MB/s`; `unknown` for zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("unknown"),
            n if n < 1000 => write!(f, "{n} MB/s"),
            n if n % 1000 < 50 => write!(f, "{} GB/s", n / 1000),
            n => write!(f, "{}.{} GB/s", n / 1000, n % 1000 / 100),
        }
    }
}

/// What a job asks of the distance between its nodes (`#MUSTER --topology`, `--segment`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct TopologyRequest {
    /// All nodes in one domain of this level; without one that is large enough the job waits.
    #[serde(skip_serializing_if = "is_default")]
    pub required: Option<String>,
    /// In as few domains of this level as can be.
    #[serde(skip_serializing_if = "is_default")]
    pub preferred: Option<String>,
    /// The nodes come in groups of so many, each group in one domain of the lowest level.
    #[serde(skip_serializing_if = "is_default")]
    pub segment: Option<u32>,
    /// Where the groups lie to each other.
    #[serde(skip_serializing_if = "is_default")]
    pub segments: Segments,
}

/// Where the segments of a job lie to each other (sbatch manual, `--spread-segments`,
/// `--consolidate-segments`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Segments {
    /// Anywhere; several may share a domain.
    #[default]
    Anywhere,
    /// Each in another domain of the lowest level.
    Spread,
    /// All in one domain of the lowest level whose planned size holds the job.
    Consolidate,
}

impl TopologyRequest {
    /// The segment size where it means something for so many nodes: a job that is no larger than
    /// one segment has none (Slurm's rule).
    pub fn segment_for(&self, nodes: u32) -> Option<u32> {
        self.segment.filter(|segment| *segment > 0 && *segment < nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32, name: &str, switches: &[&str]) -> Node {
        Node {
            id: NodeId(id),
            name: name.to_owned(),
            switches: switches.iter().map(|s| (*s).to_owned()).collect(),
            ..Node::default()
        }
    }

    #[test]
    fn nodes_describe_themselves_where_nothing_is_listed() {
        let nodes = [node(0, "n1", &["s1", "top"]), node(1, "n2", &["s2"])];
        let topology = Topology::default();
        let paths = topology.paths(&nodes.each_ref());
        assert_eq!(paths[&NodeId(0)], [Some("s1"), Some("top")]);
        assert_eq!(paths[&NodeId(1)], [Some("s2"), None]);
        assert_eq!(topology.level_named("Spine", 2), Some(1));
        assert_eq!(topology.level_name(3), "level4");
    }

    #[test]
    fn listed_domains_and_labels_make_paths() {
        let mut nodes = [node(0, "n1", &["ignored"]), node(1, "n2", &[])];
        nodes[0].labels.insert("clique".to_owned(), "c7".to_owned());
        let level = |name: &str, label: Option<&str>| TopologyLevel {
            name: name.to_owned(),
            label: label.map(str::to_owned),
            ..TopologyLevel::default()
        };
        let domain = |level, parent: Option<&str>, nodes: &[&str]| TopologyDomain {
            level,
            parent: parent.map(str::to_owned),
            nodes: nodes.iter().map(|n| (*n).to_owned()).collect(),
            ..TopologyDomain::default()
        };
        let topology = Topology {
            levels: vec![
                level("nvlink", Some("clique")),
                level("leaf", None),
                level("spine", None),
            ],
            domains: BTreeMap::from([
                ("l1".to_owned(), domain(1, Some("s"), &["n1", "n2"])),
                ("s".to_owned(), domain(2, Some("l1"), &[])),
            ]),
            ..Topology::default()
        };
        let paths = topology.paths(&nodes.each_ref());
        assert_eq!(paths[&NodeId(0)], [Some("c7"), Some("l1"), Some("s")]);
        assert_eq!(paths[&NodeId(1)], [None, Some("l1"), Some("s")]);
    }

    #[test]
    fn speeds_print_in_the_unit_people_use() {
        let text = |n| LinkSpeed(n).to_string();
        assert_eq!(
            [text(0), text(800), text(50_000), text(12_500)],
            ["unknown", "800 MB/s", "50 GB/s", "12.5 GB/s"]
        );
        assert_eq!(LinkSpeed(5).slower(LinkSpeed(0)), LinkSpeed(5));
    }
}
