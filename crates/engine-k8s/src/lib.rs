//! An existing Kubernetes cluster: its nodes and pods in muster's words, and what is written back.

pub mod mirror;
pub mod quantity;
pub mod read;
