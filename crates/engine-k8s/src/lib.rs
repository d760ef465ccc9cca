//! An existing Kubernetes cluster: its nodes and pods in muster's words, and what is written back.
//!
//! [`read`] turns single objects into values of the core, [`mirror::Mirror`] keeps a whole cluster
//! as a state. [`Cluster`] is the way there: it watches, binds, tells, and holds the lease. [`run`] is
//! the engine that runs jobs there.

mod connect;
pub mod dra;
mod error;
pub mod lease;
pub mod mirror;
pub mod read;
pub mod run;
mod watch;
pub mod write;

pub use connect::Cluster;
pub use error::K8sError;
pub use muster_devices::quantity;
