//! The request shape: the part of a job that decides where it fits.
//!
//! # How amounts become a layout
//! Every rule here is Slurm's (sbatch manual) unless it says otherwise. `T` is the number of tasks,
//! `N` the number of nodes.
//!
//! - `T` = [`Request::tasks`]; else `N × tasks_per_node`; else, with `tasks_per_gpu` and a total GPU
//!   count, their product; else one task a node.
//! - Every node of the job runs at least one task. `tasks_per_node` is exact where `tasks` is absent,
//!   the most a node may run where both are given.
//! - A node's CPUs are the largest of: its tasks × `cpus_per_task`, its GPUs × `cpus_per_gpu`, and
//!   `cpus_per_node_min`. With [`Exclusive::Node`] they are all of the node's.
//! - A node's memory follows [`MemoryRequest`].
//! - GPUs: each [`GpuCount`] is met on its own scope; `Job` counts are spread over the nodes with at
//!   least one on each.

use crate::{
    Affinity, Constraint, Distribution, GpuShare, Isolation, Mib, Seconds, TopologyRequest,
    is_default,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a job needs to run, without who asks, how it is called and how old it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// How many nodes; `None` is "as few as hold the tasks".
    #[serde(skip_serializing_if = "is_default")]
    pub nodes: Option<NodeCount>,
    /// How many tasks in total.
    #[serde(skip_serializing_if = "is_default")]
    pub tasks: Option<u32>,
    /// Tasks a node: exact, or the most where `tasks` is given too.
    #[serde(skip_serializing_if = "is_default")]
    pub tasks_per_node: Option<u32>,
    /// Tasks for every GPU (`--ntasks-per-gpu`).
    #[serde(skip_serializing_if = "is_default")]
    pub tasks_per_gpu: Option<u32>,
    /// At most so many tasks on a socket.
    #[serde(skip_serializing_if = "is_default")]
    pub tasks_per_socket: Option<u32>,
    /// At most so many tasks on a core.
    #[serde(skip_serializing_if = "is_default")]
    pub tasks_per_core: Option<u32>,
    /// How tasks lie over nodes and their CPUs; `None` is evenly over the nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub distribution: Option<Distribution>,
    /// CPUs a task; `None` is one, and 0 is none: of a pod that asks for no CPU.
    #[serde(skip_serializing_if = "is_default")]
    pub cpus_per_task: Option<u32>,
    /// CPUs for every GPU.
    #[serde(skip_serializing_if = "is_default")]
    pub cpus_per_gpu: Option<u32>,
    /// At least so many CPUs on each node (`--mincpus`).
    #[serde(skip_serializing_if = "is_default")]
    pub cpus_per_node_min: Option<u32>,
    /// Memory.
    #[serde(skip_serializing_if = "is_default")]
    pub memory: MemoryRequest,
    /// Local scratch disk a node in MiB (`--tmp`).
    #[serde(skip_serializing_if = "is_default")]
    pub scratch: Mib,
    /// GPUs, by model and scope.
    #[serde(skip_serializing_if = "is_default")]
    pub gpus: Vec<GpuCount>,
    /// Memory that each GPU must have free for this job (`#MUSTER --gpu-memory`).
    #[serde(skip_serializing_if = "is_default")]
    pub gpu_memory: Option<Mib>,
    /// The part of each GPU that it asks for (`#MUSTER --gpu-share`, `--gres=shard:`, `mps:`);
    /// `None` is the whole, or what the memory comes to. Rules: `muster_model::sharing`.
    #[serde(skip_serializing_if = "is_default")]
    pub gpu_share: Option<GpuShare>,
    /// How well others on the same GPU must be kept apart, at the least
    /// (`#MUSTER --gpu-isolation`).
    #[serde(skip_serializing_if = "is_default")]
    pub gpu_isolation: Option<Isolation>,
    /// How many sockets of a node count for [`GpuScope::Socket`] (`--sockets-per-node`); `None` is
    /// all of them.
    #[serde(skip_serializing_if = "is_default")]
    pub sockets_per_node: Option<u32>,
    /// Only CPUs of the sockets that its GPUs are on (`--gres-flags=enforce-binding`).
    #[serde(skip_serializing_if = "is_default")]
    pub cpus_near_gpus: bool,
    /// Other countable resources a node, by name (`--gres=NAME:COUNT`).
    #[serde(skip_serializing_if = "is_default")]
    pub gres: BTreeMap<String, u64>,
    /// Features that the nodes must have.
    #[serde(skip_serializing_if = "is_default")]
    pub constraint: Option<Constraint>,
    /// Node names that must be part of the allocation (`--nodelist`).
    #[serde(skip_serializing_if = "is_default")]
    pub node_list: BTreeSet<String>,
    /// Node names that must not be part of it.
    #[serde(skip_serializing_if = "is_default")]
    pub exclude: BTreeSet<String>,
    /// Whether the nodes may be shared.
    #[serde(skip_serializing_if = "is_default")]
    pub exclusive: Exclusive,
    /// The nodes must be neighbours in name order.
    #[serde(skip_serializing_if = "is_default")]
    pub contiguous: bool,
    /// At most so many leaf switches.
    #[serde(skip_serializing_if = "is_default")]
    pub switches: Option<SwitchWish>,
    /// How near the nodes are to each other.
    #[serde(skip_serializing_if = "is_default")]
    pub topology: TopologyRequest,
    /// What the nodes' labels and the jobs beside it have to be like.
    #[serde(skip_serializing_if = "is_default")]
    pub affinity: Option<Arc<Affinity>>,
    /// Licences, all of them at once.
    #[serde(skip_serializing_if = "is_default")]
    pub licences: Vec<LicenceRequest>,
    /// The reservation to run in, or several by preference, parted by commas.
    #[serde(skip_serializing_if = "is_default")]
    pub reservation: Option<String>,
}

/// How many nodes (`--nodes`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeCount {
    /// Any count from `min` to `max`, as many as can start without delay.
    Range {
        /// At least one.
        min: u32,
        /// At least `min`.
        max: u32,
    },
    /// One of these counts; never empty.
    OneOf(BTreeSet<u32>),
}

/// Memory of a job's nodes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum MemoryRequest {
    /// What the partition gives by default.
    #[default]
    Default,
    /// So much on each node (`--mem`).
    PerNode(Mib),
    /// All memory of each node (`--mem=0`).
    WholeNode,
    /// So much for each allocated CPU (`--mem-per-cpu`).
    PerCpu(Mib),
    /// So much for each allocated GPU (`--mem-per-gpu`).
    PerGpu(Mib),
}

/// A number of GPUs of one model on one scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GpuCount {
    /// The model, compared without case; `None` is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many; zero asks for none.
    pub count: u32,
    /// Counted over what.
    pub scope: GpuScope,
}

/// What a GPU count is counted over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuScope {
    /// The whole job (`--gpus`), at least one on each node.
    Job,
    /// Each node (`--gpus-per-node`, `--gres=gpu`).
    Node,
    /// Each task (`--gpus-per-task`).
    Task,
    /// Each socket with tasks (`--gpus-per-socket`).
    Socket,
}

/// Whether a job shares its nodes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Exclusive {
    /// Others may be beside it.
    #[default]
    No,
    /// The nodes are its own; it gets all their CPUs and is charged for them.
    Node,
    /// Only jobs of the same user may be beside it.
    User,
}

/// A wish for few switches (`--switches=COUNT[@WAIT]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SwitchWish {
    /// At most so many leaf switches.
    pub count: u32,
    /// Wait at most so long for it; `None` is the policy's bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Seconds>,
}

/// A number of licences.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LicenceRequest {
    /// The licence's name.
    pub name: String,
    /// How many, at least one.
    pub count: u32,
}

impl NodeCount {
    /// Exactly so many.
    pub const fn exactly(n: u32) -> Self {
        Self::Range { min: n, max: n }
    }

    /// The smallest count allowed.
    pub fn least(&self) -> u32 {
        match self {
            Self::Range { min, .. } => *min,
            Self::OneOf(set) => set.first().copied().unwrap_or(1),
        }
    }

    /// The largest count allowed.
    pub fn most(&self) -> u32 {
        match self {
            Self::Range { max, .. } => *max,
            Self::OneOf(set) => set.last().copied().unwrap_or(1),
        }
    }

    /// True where the count is allowed.
    pub fn allows(&self, n: u32) -> bool {
        match self {
            Self::Range { min, max } => (*min..=*max).contains(&n),
            Self::OneOf(set) => set.contains(&n),
        }
    }
}

impl Request {
    /// CPUs a task, one where nothing is asked. None at all only where that is asked for: a
    /// Kubernetes pod without a request.
    pub fn cpus_per_task(&self) -> u32 {
        self.cpus_per_task.unwrap_or(1)
    }

    /// The CPUs that every node of the job has at least.
    pub fn cpus_least(&self) -> u32 {
        u32::from(self.cpus_per_task != Some(0))
    }

    /// The smallest number of nodes that the request allows.
    pub fn nodes_min(&self) -> u32 {
        self.nodes.as_ref().map_or(1, NodeCount::least).max(1)
    }

    /// The number of tasks where the job has so many nodes (rules in the module's text).
    pub fn tasks_on(&self, nodes: u32) -> u32 {
        if let Some(tasks) = self.tasks {
            return tasks.max(1);
        }
        if let Some(per_node) = self.tasks_per_node {
            return nodes.saturating_mul(per_node).max(1);
        }
        match (self.tasks_per_gpu, self.gpus_in_total(nodes)) {
            (Some(per_gpu), Some(gpus)) if gpus > 0 => per_gpu.saturating_mul(gpus),
            _ => nodes.max(1),
        }
    }

    /// True where any GPU is asked for.
    pub fn wants_gpus(&self) -> bool {
        self.gpus.iter().any(|g| g.count > 0)
    }

    /// How many GPUs the job gets on so many nodes, where that follows from counts by job and node.
    pub fn gpus_in_total(&self, nodes: u32) -> Option<u32> {
        let mut total = 0u32;
        for gpus in &self.gpus {
            total = total.saturating_add(match gpus.scope {
                GpuScope::Job => gpus.count,
                GpuScope::Node => gpus.count.saturating_mul(nodes),
                GpuScope::Task | GpuScope::Socket => return None,
            });
        }
        Some(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_number_is_minimum_and_maximum() {
        let three = NodeCount::exactly(3);
        assert!(three.allows(3) && !three.allows(2) && !three.allows(4));
        let steps = NodeCount::OneOf(BTreeSet::from([1, 5, 9, 13]));
        assert!(steps.allows(5) && !steps.allows(4));
        assert_eq!((steps.least(), steps.most()), (1, 13));
    }

    #[test]
    fn tasks_follow_the_first_rule_that_says_something() {
        let mut r = Request { tasks_per_node: Some(4), ..Request::default() };
        assert_eq!(r.tasks_on(2), 8);
        r.tasks = Some(6);
        assert_eq!(r.tasks_on(2), 6);
        assert_eq!(Request::default().tasks_on(3), 3);
    }
}
