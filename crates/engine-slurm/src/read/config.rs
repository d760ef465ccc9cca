//! What of Slurm's configuration decides how its records are to be read.

use super::order;
use muster_model::Timestamp;
use muster_model::priority::PriorityPolicy;

/// Settings of a Slurm (`scontrol show config`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `ClusterName`.
    pub cluster: String,
    /// `SLURM_VERSION`.
    pub version: String,
    /// `BOOT_TIME`: when this slurmctld began.
    pub booted: Option<Timestamp>,
    /// `PriorityType`.
    pub priority: String,
    /// `SchedulerParameters`.
    pub scheduler: String,
    /// Memory is given out (`SelectTypeParameters` names it): else jobs only say what they use.
    pub counts_memory: bool,
    /// Nodes are given out as wholes (`SelectType=select/linear`).
    pub whole_nodes: bool,
    /// `TopologyPlugin`.
    pub topology: String,
    /// Jobs may span switches that nothing joins (`TopologyParam=TopoOptional`).
    pub topology_optional: bool,
    /// Limits of associations and QOS hold (`AccountingStorageEnforce` names them).
    pub enforces_limits: bool,
    /// What makes a job important (`Priority*`).
    pub weighing: PriorityPolicy,
}

impl Config {
    /// Reads `Key = value` lines. What is not there stays empty.
    pub fn of(text: &str) -> Self {
        let mut config = Self::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            let value = value.trim();
            match key.trim() {
                "ClusterName" => value.clone_into(&mut config.cluster),
                "SLURM_VERSION" => value.clone_into(&mut config.version),
                "BOOT_TIME" => config.booted = value.parse().ok().map(Timestamp::from_secs),
                "PriorityType" => value.clone_into(&mut config.priority),
                "SchedulerParameters" => value.clone_into(&mut config.scheduler),
                "SelectTypeParameters" => {
                    config.counts_memory = value.to_ascii_uppercase().contains("MEMORY");
                }
                "TopologyPlugin" => value.clone_into(&mut config.topology),
                "TopologyParam" => {
                    config.topology_optional = value.to_ascii_lowercase().contains("topooptional");
                }
                "AccountingStorageEnforce" => {
                    let mut words = value.split(',').map(str::trim);
                    config.enforces_limits = words.any(|word| ["limits", "all"].contains(&word));
                }
                "SelectType" => config.whole_nodes = value == "select/linear",
                key => order::take(&mut config.weighing, key, value),
            }
        }
        config
    }
}
