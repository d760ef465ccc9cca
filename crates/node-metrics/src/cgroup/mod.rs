//! What jobs and their steps use, by their cgroups.

pub mod paths;
pub mod usage;
mod v1;
mod v2;
