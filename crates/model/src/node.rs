//! Nodes: what a machine has, and whether it may be used.

use crate::{CpuSet, DeviceMode, EngineName, Labels, Mib, NodeId, Taint, Timestamp, is_default};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A machine, or a part of one, that runs jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its index.
    pub id: NodeId,
    /// Its name, unique.
    pub name: String,
    /// Who runs its work.
    pub engine: EngineName,
    /// Its CPUs, numbered as Slurm numbers them (one number a hardware thread).
    pub cpus: CpuSet,
    /// CPUs beside those that are given out by number and not one by one: of an engine that pins
    /// nothing, or of a whole machine seen as one pool of processors.
    #[serde(skip_serializing_if = "is_default")]
    pub cpu_pool: u32,
    /// Hardware threads on a core, at least 1.
    pub threads_per_core: u32,
    /// Its engine picks CPUs and devices on it by itself: of the numbers in a placement only how
    /// many there are is meant.
    #[serde(skip_serializing_if = "is_default")]
    pub counts_only: bool,
    /// NUMA domains in order; their CPU sets are disjoint.
    pub numa: Vec<NumaDomain>,
    /// Memory that jobs may have.
    pub memory: Mib,
    /// Local scratch disk that jobs may ask for (`TmpDisk`).
    #[serde(skip_serializing_if = "is_default")]
    pub scratch: Mib,
    /// GPUs, ordered by index; `devices[i].index == i`.
    pub devices: Vec<Device>,
    /// How its GPUs lie to each other and to its CPUs is not known for certain: it takes no job that
    /// has to have CPUs beside its GPUs.
    #[serde(skip_serializing_if = "is_default")]
    pub topology_uncertain: bool,
    /// Other countable resources by name.
    #[serde(skip_serializing_if = "is_default")]
    pub gres: BTreeMap<String, u64>,
    /// Feature names (`--constraint`).
    pub features: BTreeSet<String>,
    /// Labels (`#MUSTER --affinity`).
    #[serde(skip_serializing_if = "is_default")]
    pub labels: Labels,
    /// Marks that keep jobs away.
    #[serde(skip_serializing_if = "is_default")]
    pub taints: BTreeSet<Taint>,
    /// Lower is chosen first (Slurm's `Weight`).
    #[serde(skip_serializing_if = "is_default")]
    pub weight: u32,
    /// Names of the switches above it, leaf first.
    #[serde(skip_serializing_if = "is_default")]
    pub switches: Vec<String>,
    /// Invented, to learn and to test with: its CPUs and GPUs are not real.
    #[serde(skip_serializing_if = "is_default")]
    pub practice: bool,
    /// Whether its engine can reach it.
    #[serde(skip_serializing_if = "is_default")]
    pub availability: Availability,
    /// No new work, and why.
    #[serde(skip_serializing_if = "is_default")]
    pub drain: Option<Drain>,
    /// Use that is not muster's.
    #[serde(skip_serializing_if = "is_default")]
    pub foreign: Vec<ForeignUse>,
    /// Names this start of the machine; changes when it starts again.
    #[serde(skip_serializing_if = "is_default")]
    pub boot: String,
}

/// A NUMA domain of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaDomain {
    /// The operating system's number of it.
    pub id: u32,
    /// Which socket it is on.
    pub socket: u32,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Its memory.
    pub memory: Mib,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Its index on the node, as `nvidia-smi` numbers it.
    pub index: u32,
    /// Its model as users ask for it, lower case without blanks: `a100`, `h100`.
    pub model: String,
    /// The vendor's full name.
    #[serde(skip_serializing_if = "is_default")]
    pub product: String,
    /// The vendor's unique id.
    #[serde(skip_serializing_if = "is_default")]
    pub uuid: String,
    /// Its memory.
    pub memory: Mib,
    /// The NUMA domain it is next to.
    #[serde(skip_serializing_if = "is_default")]
    pub numa: Option<u32>,
    /// Not to be used, and why.
    #[serde(skip_serializing_if = "is_default")]
    pub unhealthy: Option<String>,
    /// Direct links to other devices of the node.
    #[serde(skip_serializing_if = "is_default")]
    pub links: Vec<DeviceLink>,
    /// The device files that open it.
    #[serde(skip_serializing_if = "is_default")]
    pub files: Vec<String>,
    /// The network card that it sends through: the one below the same PCIe switches.
    #[serde(skip_serializing_if = "is_default")]
    pub nic: Option<String>,
    /// How it may be given out.
    #[serde(skip_serializing_if = "is_default")]
    pub mode: DeviceMode,
}

/// A connection from one device to another of the same node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceLink {
    /// The other device's index.
    pub peer: u32,
    /// What joins them.
    pub kind: LinkKind,
}

/// What joins two devices, the nearest first. `muster-node-metrics` has a word of its own for the
/// same, as it sees no other crate; the engine turns that into this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// So many NVLink (or xGMI) lanes, directly or through a switch.
    NvLink(u32),
    /// One PCIe switch (`PIX`).
    PcieSwitch,
    /// Several PCIe switches (`PXB`).
    PcieSwitches,
    /// A PCIe host bridge (`PHB`).
    HostBridge,
    /// The same NUMA domain (`NODE`).
    Numa,
    /// The link between sockets (`SYS`).
    Socket,
}

/// Whether a node can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// It answers.
    #[default]
    Up,
    /// It does not, and since when and why.
    Down {
        /// A sentence.
        reason: String,
        /// Since when.
        since: Timestamp,
    },
}

/// An order to give a node no new work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Drain {
    /// A sentence.
    pub reason: String,
    /// Who ordered it.
    pub by: String,
    /// Since when.
    pub since: Timestamp,
}

/// Something that muster did not start and that takes a node's resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ForeignUse {
    /// The device, where it is one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub device: Option<u32>,
    /// CPUs it is known to hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpus: CpuSet,
    /// Memory it holds (of the device where there is one, else of the node).
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: Mib,
    /// Whose it is.
    pub owner: String,
    /// What it is: a process id and a name.
    pub what: String,
}

impl Node {
    /// How many CPUs it has, numbered or not.
    pub fn cpu_count(&self) -> u32 {
        self.cpus.len().saturating_add(self.cpu_pool)
    }

    /// True where new work may start on it.
    pub fn is_usable(&self) -> bool {
        self.availability == Availability::Up && self.drain.is_none()
    }

    /// True where the device may be given to a job as a whole: healthy, not cut into instances,
    /// and free of use that is not ours.
    pub fn device_is_usable(&self, index: u32) -> bool {
        let fits = |d: &Device| d.unhealthy.is_none() && !matches!(d.mode, DeviceMode::Mig(_));
        self.devices.get(index as usize).is_some_and(fits)
            && !self.foreign.iter().any(|f| f.device == Some(index))
    }

    /// Memory of a device that is used by what muster did not start.
    pub fn foreign_device_memory(&self, index: u32) -> Mib {
        let of = self.foreign.iter().filter(|f| f.device == Some(index));
        of.fold(Mib::ZERO, |sum, f| sum.plus(f.memory))
    }

    /// True where the device may be given in parts: healthy, not in whole mode, and, where it is
    /// cut into instances, free of use that is not ours (nobody says in which instance that is).
    pub fn device_is_partible(&self, index: u32) -> bool {
        let Some(device) = self.devices.get(index as usize) else { return false };
        let foreign = || self.foreign.iter().any(|f| f.device == Some(index));
        device.unhealthy.is_none()
            && match device.mode {
                DeviceMode::Whole => false,
                DeviceMode::Shared(_) => true,
                DeviceMode::Mig(_) => !foreign(),
            }
    }

    /// How many sockets its CPUs are on, at least one.
    pub fn sockets(&self) -> u32 {
        (self.numa.iter().map(|n| n.socket).collect::<BTreeSet<_>>().len() as u32).max(1)
    }
}
