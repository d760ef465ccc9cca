//! Which devices of a Kubernetes node meet which claims (`resource.k8s.io`).
//!
//! An [`Offer`] is what a node can reach, a [`Claim`] what is asked, [`Selectors`] decide which device
//! may serve which request, and [`allocate`] finds devices for all claims of a pod together, or says
//! that there are none. The same input gives the same devices. No clock, no I/O.

mod claim;
mod device;
mod order;
pub mod quantity;
mod search;
mod select;

pub use claim::{Alternative, Claim, Constraint, Mode, RESULTS_MAX, Request, Rule};
pub use device::{Attribute, Consumption, Device, DeviceId, Effect, Offer, Taint, Toleration};
pub use search::{Grant, Refusal, allocate, capacity};
pub use select::{Fit, SelectorError, Selectors};
