//! A cluster's objects in muster's words. Pure: what is read goes in, values come out.

mod affinity;
mod budget;
mod gang;
mod node;
mod pod;
mod ports;
mod requests;
mod selector;
mod volumes;

pub(crate) use affinity::node_term;
pub use budget::{budget, budget_name};
pub use gang::{GangName, Group, GroupKind, group};
pub use node::{is_gpu, node};
pub use pod::{Ask, PARTITION, PodKey, PodRecord, pod, priority_of};
pub use ports::is_port;
pub use requests::{Amounts, amounts, requests};
pub use selector::{EVERYWHERE, NAMESPACE};
pub use volumes::{Claim, Places, StorageClass, claim, storage_class, volume};

use muster_model::Labels;
use std::collections::BTreeMap;

/// The engine's name on nodes.
pub const KUBERNETES: &str = "kubernetes";

/// The countable resource that is the pods of a node.
pub const PODS: &str = "pods";

/// What beside a pod itself decides where it may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The labels of namespaces.
    pub namespaces: BTreeMap<String, Labels>,
    /// Claims of volumes, by namespace and name.
    pub claims: BTreeMap<(String, String), Claim>,
    /// Where volumes can be had.
    pub volumes: BTreeMap<String, Places>,
    /// Storage classes by name.
    pub classes: BTreeMap<String, StorageClass>,
}

/// Something that muster cannot say in its own words; whatever has it is not scheduled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("muster does not understand {what}")]
pub struct Refusal {
    /// What.
    pub what: String,
}

#[cfg(test)]
mod tests;
