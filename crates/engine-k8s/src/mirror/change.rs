//! What the API server tells, one change at a time.

use crate::dra;
use crate::read::{Claim, Context, GangName, Group, GroupKind, Places, StorageClass};
use k8s_openapi::api::core::v1::{Node, Pod};
use muster_model::{DisruptionBudget, Labels};
use std::collections::BTreeSet;

/// The kinds of objects that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nodes.
    Node,
    /// Pods.
    Pod,
    /// Groups of pods.
    Group(GroupKind),
    /// Namespaces.
    Namespace,
    /// Budgets of disruption.
    Budget,
    /// Claims of volumes.
    Claim,
    /// Volumes.
    Volume,
    /// Storage classes.
    Class,
    /// Slices of devices.
    Slice,
    /// Classes of devices.
    DeviceClass,
    /// Claims of devices.
    ResourceClaim,
}

/// One change.
#[derive(Clone, Debug)]
pub enum Change {
    /// A node is there, or is another than before.
    Node(Box<Node>),
    /// A pod is there, or is another than before.
    Pod(Box<Pod>),
    /// A group is there, or is another than before.
    Group(GangName, Group),
    /// A group is gone.
    GroupGone(GangName),
    /// A budget of disruption is there, or is another than before.
    Budget(DisruptionBudget),
    /// A namespace with its labels.
    Namespace(String, Labels),
    /// A claim of a volume, by namespace and name.
    Claim(String, String, Claim),
    /// Where a volume can be had.
    Volume(String, Places),
    /// A storage class.
    Class(String, StorageClass),
    /// Devices and claims of them.
    Devices(dra::Told),
    /// An object is gone: its kind, namespace (empty where it has none) and name.
    Gone(Kind, String, String),
    /// A listing is complete: these, by namespace and name, are all that there are.
    Listed(Kind, BTreeSet<(String, String)>),
}

/// Takes what concerns namespaces and volumes; true where anything is another than before.
pub(super) fn settle(context: &mut Context, change: Change) -> bool {
    match change {
        Change::Namespace(name, labels) => {
            context.namespaces.insert(name, labels.clone()) != Some(labels)
        }
        Change::Claim(namespace, name, claim) => {
            context.claims.insert((namespace, name), claim.clone()) != Some(claim)
        }
        Change::Volume(name, places) => {
            context.volumes.insert(name, places.clone()) != Some(places)
        }
        Change::Class(name, class) => context.classes.insert(name, class) != Some(class),
        Change::Gone(Kind::Namespace, _, name) => context.namespaces.remove(&name).is_some(),
        Change::Gone(Kind::Claim, namespace, name) => {
            context.claims.remove(&(namespace, name)).is_some()
        }
        Change::Gone(Kind::Volume, _, name) => context.volumes.remove(&name).is_some(),
        Change::Gone(Kind::Class, _, name) => context.classes.remove(&name).is_some(),
        _ => false,
    }
}

/// Drops what a listing lacks; true where there was any.
pub(super) fn only(context: &mut Context, kind: Kind, names: &BTreeSet<(String, String)>) -> bool {
    let before = sizes(context);
    let has = |name: &String| names.contains(&(String::new(), name.clone()));
    match kind {
        Kind::Namespace => context.namespaces.retain(|name, _| has(name)),
        Kind::Volume => context.volumes.retain(|name, _| has(name)),
        Kind::Class => context.classes.retain(|name, _| has(name)),
        Kind::Claim => context.claims.retain(|name, _| names.contains(name)),
        Kind::Node | Kind::Pod | Kind::Budget | Kind::Group(_) => {}
        Kind::Slice | Kind::DeviceClass | Kind::ResourceClaim => {}
    }
    sizes(context) != before
}

fn sizes(context: &Context) -> [usize; 4] {
    let Context { namespaces, claims, volumes, classes } = context;
    [namespaces.len(), claims.len(), volumes.len(), classes.len()]
}
