//! Nearness across nodes: the levels of the topology, which sets of nodes are near, and what a
//! placement costs.

mod choose;
mod cost;
mod joint;
mod leaf;
mod map;
mod reason;
mod score;

pub(crate) use choose::choose;
pub use cost::{Bottleneck, Cost, cost, cost_instead, ring};
pub(crate) use joint::Joint;
pub(crate) use leaf::Leaves;
pub(crate) use map::{Map, NONE};
pub(crate) use reason::shortage;
