//! Where a job runs: on which nodes, CPUs and devices.

use crate::{CpuSet, DeviceMilli, Mib, MigSlot, NodeId, is_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The resources of one job. Node order is rank order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The partition it runs in.
    pub partition: String,
    /// What it has on each node, in rank order; no node twice.
    pub nodes: Vec<NodeShare>,
    /// Licences it holds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub licences: BTreeMap<String, u32>,
    /// The reservation that it runs in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reservation: Option<String>,
}

/// What a job has on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node.
    pub node: NodeId,
    /// How many of its tasks run there.
    pub tasks: u32,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// CPUs that it has of the node's pool.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpu_pool: u32,
    /// Its memory.
    pub memory: Mib,
    /// Its devices, by ascending index; of one cut into instances perhaps several.
    #[serde(default, skip_serializing_if = "is_default")]
    pub devices: Vec<DeviceGrant>,
    /// Other countable resources.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gres: BTreeMap<String, u64>,
    /// Nobody else may be on the node.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exclusive: bool,
}

/// A device, or a share of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceGrant {
    /// The device's index on its node.
    pub index: u32,
    /// How much of it.
    pub share: DeviceMilli,
    /// How much of its memory.
    pub memory: Mib,
    /// The instance, where the device is cut into such.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mig: Option<MigSlot>,
}

impl DeviceGrant {
    /// True where nobody else may have a part of the device.
    pub fn is_whole(&self) -> bool {
        self.share >= DeviceMilli::WHOLE && self.mig.is_none()
    }
}

impl NodeShare {
    /// How many CPUs it has, numbered or not.
    pub fn cpu_count(&self) -> u32 {
        self.cpus.len().saturating_add(self.cpu_pool)
    }

    /// True where both have a CPU, or a GPU as a whole, of one node.
    pub fn meets(&self, other: &Self) -> bool {
        let gpu = |index: u32| other.devices.iter().any(|d| d.index == index && d.is_whole());
        self.node == other.node
            && (self.cpus.intersects(&other.cpus)
                || self.devices.iter().any(|d| d.is_whole() && gpu(d.index)))
    }
}

impl Placement {
    /// What is left on some of its nodes, in the same order.
    #[must_use]
    pub fn on_nodes(&self, keep: impl Fn(NodeId) -> bool) -> Self {
        let nodes = self.nodes.iter().filter(|share| keep(share.node)).cloned().collect();
        Self { nodes, ..self.clone() }
    }

    /// Tasks on all nodes.
    pub fn tasks(&self) -> u32 {
        self.nodes.iter().map(|n| n.tasks).sum()
    }

    /// CPUs on all nodes.
    pub fn cpus(&self) -> u32 {
        self.nodes.iter().map(NodeShare::cpu_count).sum()
    }

    /// Memory on all nodes.
    pub fn memory(&self) -> Mib {
        self.nodes.iter().fold(Mib::ZERO, |sum, n| sum.plus(n.memory))
    }

    /// Devices on all nodes.
    pub fn devices(&self) -> u32 {
        self.nodes.iter().map(|n| n.devices.len() as u32).sum()
    }
}
