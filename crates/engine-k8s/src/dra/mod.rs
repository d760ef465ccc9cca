//! Devices and claims of a cluster (`resource.k8s.io/v1`): what is told of them, what pods with claims
//! need of a node, and which devices they get.
//!
//! [`Ledger`] holds it. The core counts, for each *shape* of claims that pods wait with, how often a
//! node has devices for it; which devices they are is decided when the core has chosen the node, by
//! [`muster_devices`], and held until the API server tells of them.

mod ledger;
mod pods;
mod pools;
mod read;
mod result;
mod write;

pub use ledger::{Ledger, Written};
pub use pods::{Overlay, Shape, ShapeId};
pub use read::{
    Allocated, ClaimKey, ClaimRecord, Class, FINALIZER, Reach, Slice, class, resource_claim, slice,
};
pub use write::{Release, Reserve};

/// What is told of devices and claims.
#[derive(Clone, Debug)]
pub enum Told {
    /// A slice is there, or is another than before.
    Slice(Box<Slice>),
    /// A class is there, or is another than before.
    Class(String, Box<Class>),
    /// A claim is there, or is another than before.
    Claim(Box<ClaimRecord>),
}

/// The countable resource of nodes that says how often there are devices for a shape.
const COUNTED: &str = ".claims/";

/// True for the name of a countable resource that stands for devices of claims.
pub fn is_counted(resource: &str) -> bool {
    resource.starts_with(COUNTED)
}
