//! What of a job can be changed after its submission (`scontrol update job`).

use muster_model::{
    Constraint, Dependency, LicenceRequest, MemoryRequest, NodeCount, Seconds, TimeLimit, Timestamp,
};
use std::collections::BTreeSet;

/// A change to a job. `None` leaves a field as it is; the inner `None` of a double option clears it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobChange {
    /// Its name.
    pub name: Option<String>,
    /// The partitions it may run in.
    pub partitions: Option<Vec<String>>,
    /// The quality of service.
    pub qos: Option<String>,
    /// The account.
    pub account: Option<String>,
    /// The time limit. A running job's is raised by admins only.
    pub time_limit: Option<TimeLimit>,
    /// How far the limit may be cut down.
    pub time_min: Option<Option<Seconds>>,
    /// Nice. Lowered by admins only.
    pub nice: Option<i64>,
    /// A priority set by hand. Admins only.
    pub priority: Option<Option<u32>>,
    /// The dependency.
    pub dependency: Option<Option<Dependency>>,
    /// Not before.
    pub begin: Option<Option<Timestamp>>,
    /// To end by.
    pub deadline: Option<Option<Timestamp>>,
    /// How many nodes.
    pub nodes: Option<NodeCount>,
    /// How many tasks.
    pub tasks: Option<u32>,
    /// CPUs a task.
    pub cpus_per_task: Option<u32>,
    /// Memory.
    pub memory: Option<MemoryRequest>,
    /// Features.
    pub constraint: Option<Option<Constraint>>,
    /// Nodes that must be part of it.
    pub node_list: Option<BTreeSet<String>>,
    /// Nodes that must not.
    pub exclude: Option<BTreeSet<String>>,
    /// Licences.
    pub licences: Option<Vec<LicenceRequest>>,
    /// May be put back in the queue.
    pub requeue: Option<bool>,
    /// Its array's throttle; the inner `None` is no bound.
    pub array_throttle: Option<Option<u32>>,
    /// Free text.
    pub comment: Option<String>,
}
