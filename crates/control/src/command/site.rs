//! The configuration as the writer takes it.

use muster_model::{
    Account, CpuSet, DeviceMode, Labels, Licence, Partition, Policy, Qos, Taint, Topology,
};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that a configuration says about nodes, partitions, people and policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// What the configuration adds to nodes, by name.
    pub nodes: BTreeMap<String, NodeOverlay>,
    /// All partitions.
    pub partitions: Vec<Partition>,
    /// All accounts; `default` is added where it is absent.
    pub accounts: Vec<Account>,
    /// All qualities of service; `normal` is added where it is absent.
    pub qos: Vec<Qos>,
    /// All licences.
    pub licences: Vec<Licence>,
    /// How the nodes are joined.
    pub topology: Topology,
    /// The policy.
    pub policy: Policy,
    /// The daemon starts: what unfinished jobs still name stays, in place of a refusal.
    pub starting: bool,
}

/// What a configuration adds to what an engine says of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeOverlay {
    /// More features.
    pub features: BTreeSet<String>,
    /// Lower is chosen first.
    pub weight: u32,
    /// Names of the switches above it, leaf first.
    pub switches: Vec<String>,
    /// Labels.
    pub labels: Labels,
    /// Marks that keep jobs away.
    pub taints: BTreeSet<Taint>,
    /// Other countable resources.
    pub gres: BTreeMap<String, u64>,
    /// How devices may be given out, `None` for all of the node; the last that names one counts.
    pub devices: Vec<(Option<CpuSet>, DeviceMode)>,
    /// What is said of devices one by one.
    pub described: Vec<DeviceOverlay>,
}

/// What a configuration says of one device in place of what an engine found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceOverlay {
    /// Its index.
    pub index: u32,
    /// Its model.
    pub model: Option<String>,
    /// The NUMA domain it is next to.
    pub numa: Option<u32>,
    /// Its links to each device of the node, in lanes.
    pub lanes: Option<Vec<u32>>,
}
