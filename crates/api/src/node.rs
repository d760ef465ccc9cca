//! Nodes, partitions and who may use them.

use crate::is_default;
use muster_model::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// One page of nodes, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodePage {
    /// The nodes.
    pub nodes: Vec<NodeView>,
    /// `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// The daemon's clock.
    #[schema(value_type = i64)]
    pub now_ms: Timestamp,
}

/// A node with what is used of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeView {
    /// Its index.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Who runs its work.
    pub engine: String,
    /// Where it stands.
    pub state: NodeState,
    /// It gets no new work.
    #[serde(default, skip_serializing_if = "is_default")]
    pub drain: bool,
    /// The reservation that has all of it now; one for maintenance before others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// That reservation is for maintenance.
    #[serde(default, skip_serializing_if = "is_default")]
    pub maintenance: bool,
    /// Why it is down or drained.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Who drained it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason_by: String,
    /// Since when it is down or drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub reason_since_ms: Option<Timestamp>,
    /// The partitions it is in.
    pub partitions: Vec<String>,
    /// CPUs.
    pub cpus: u32,
    /// CPUs that jobs hold.
    pub cpus_used: u32,
    /// Sockets.
    pub sockets: u32,
    /// Cores of a socket.
    pub cores_per_socket: u32,
    /// Hardware threads of a core.
    pub threads_per_core: u32,
    /// Memory that jobs may have.
    pub memory_mib: u64,
    /// Memory that jobs hold.
    pub memory_used_mib: u64,
    /// Local scratch disk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scratch_mib: u64,
    /// GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceView>,
    /// GPUs that jobs hold, in whole or in part.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpus_used: u32,
    /// Other countable resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gres: BTreeMap<String, u64>,
    /// Feature names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub features: BTreeSet<String>,
    /// Lower is chosen first.
    pub weight: u32,
    /// Invented, to learn and to test with.
    #[serde(default, skip_serializing_if = "is_default")]
    pub practice: bool,
    /// Use that is not muster's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<ForeignView>,
    /// The jobs on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<NodeJob>,
    /// When it was started, as its engine names it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot: String,
}

/// Where a node stands; drain is told beside it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Nothing runs on it.
    #[default]
    Idle,
    /// Some of it is used.
    Mixed,
    /// All of its CPUs are used, or a job has it for itself.
    Allocated,
    /// It cannot be reached.
    Down,
}

/// A GPU of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceView {
    /// Its number.
    pub index: u32,
    /// Its model as users ask for it.
    pub model: String,
    /// The vendor's full name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub product: String,
    /// The vendor's unique id, by which `/v1/metrics` tells of it; empty for invented ones.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    /// Its memory.
    pub memory_mib: u64,
    /// The jobs that hold it, as raw numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<u32>,
    /// How it is given out, where not as a whole: `time-slice`, `mps` and the like where it is
    /// shared, `mig` where it is cut into instances.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// Into how many pieces `--gres=shard:` counts it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pieces: u32,
    /// Thousandths of it that jobs hold; 1000 where one has all of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub share_used: u32,
    /// Its memory that jobs hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_used_mib: u64,
    /// The instances that jobs hold: `3g.40gb at 4`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<String>,
    /// Not to be used, and why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unhealthy: String,
    /// The NUMA domain it is next to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<u32>,
    /// The GPUs of the node that NVLink (or xGMI) joins it to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<u32>,
}

/// Use that is not muster's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForeignView {
    /// The GPU, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// Memory it holds.
    pub memory_mib: u64,
    /// Whose it is.
    pub owner: String,
    /// A process id and a name.
    pub what: String,
}

/// A job on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeJob {
    /// The raw number.
    pub id: u32,
    /// The number users see.
    pub job: String,
    /// Its user.
    pub user: String,
}

/// Why a node is to be drained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// A sentence.
    pub reason: String,
}

/// A partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartitionView {
    /// Its name.
    pub name: String,
    /// Jobs that name no partition go here.
    pub default: bool,
    /// `up`, `down`, `drain` or `inactive`.
    pub state: String,
    /// Names of its registered nodes, in order.
    pub nodes: Vec<String>,
    /// The same, folded.
    pub node_list: String,
    /// CPUs of all its nodes.
    pub cpus: u32,
    /// GPUs of all its nodes.
    pub gpus: u32,
    /// The largest limit; absent is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_s: Option<u64>,
    /// The limit of jobs that name none; absent is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_time_s: Option<u64>,
    /// At most so many nodes a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<u32>,
    /// At least so many nodes a job.
    pub min_nodes: u32,
    /// Memory for each CPU where a job names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_memory_per_cpu_mib: Option<u64>,
    /// Memory for each node where a job names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_memory_per_node_mib: Option<u64>,
    /// Memory for each CPU at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_memory_per_cpu_mib: Option<u64>,
    /// Higher tiers are considered first.
    pub tier: u32,
    /// So many of its jobs may take turns on one CPU or GPU; absent: nobody shares.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sharers: u32,
    /// Added to the priority of its jobs.
    pub priority: u32,
    /// Only these accounts; empty is all.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub allow_accounts: BTreeSet<String>,
}

/// A licence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LicenceView {
    /// Its name.
    pub name: String,
    /// How many there are.
    pub total: u32,
    /// How many jobs hold.
    pub used: u32,
    /// Why none of it is given out; absent where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<LicenceHeldView>,
}

/// Why a licence is not given out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LicenceHeldView {
    /// The filesystem that is saturated.
    pub filesystem: String,
    /// By which figure, in words.
    pub figure: String,
    /// Since when.
    #[schema(value_type = i64)]
    pub since_ms: Timestamp,
}

/// A switch of the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SwitchView {
    /// Its name.
    pub name: String,
    /// Its level: 0 for a leaf.
    pub level: u32,
    /// What users call the level: `leaf`, `rack`.
    #[serde(default)]
    pub level_name: String,
    /// The speed between two nodes that meet there, MB/s in one direction; 0 is not known.
    #[serde(default)]
    pub link_mbs: u64,
    /// The nodes below it, folded.
    pub node_list: String,
}
