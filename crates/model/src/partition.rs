//! Partitions: sets of nodes with limits of their own.

use crate::{BillingWeights, Mib, PreemptRules, Seconds, TimeLimit, is_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A set of nodes that jobs are submitted to (slurm.conf manual, `PartitionName`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Partition {
    /// Its name, unique.
    pub name: String,
    /// Names of its nodes; a name that is not registered yet is simply not there.
    pub nodes: BTreeSet<String>,
    /// Jobs that name no partition go here.
    #[serde(skip_serializing_if = "is_default")]
    pub default: bool,
    /// Whether it takes and starts jobs.
    #[serde(skip_serializing_if = "is_default")]
    pub state: PartitionState,
    /// No job may ask for more.
    pub max_time: TimeLimit,
    /// For jobs that name no limit; `None` is `max_time`.
    #[serde(skip_serializing_if = "is_default")]
    pub default_time: Option<TimeLimit>,
    /// At most so many nodes a job.
    #[serde(skip_serializing_if = "is_default")]
    pub max_nodes: Option<u32>,
    /// At least so many nodes a job.
    #[serde(skip_serializing_if = "is_default")]
    pub min_nodes: u32,
    /// Memory for each CPU where a job names none; `None` with `default_memory_per_node` `None`
    /// gives a job its share of the node's memory by CPUs.
    #[serde(skip_serializing_if = "is_default")]
    pub default_memory_per_cpu: Option<Mib>,
    /// Memory for each node where a job names none.
    #[serde(skip_serializing_if = "is_default")]
    pub default_memory_per_node: Option<Mib>,
    /// A job that asks for more memory a CPU gets more CPUs instead (sbatch manual, `--mem-per-cpu`).
    #[serde(skip_serializing_if = "is_default")]
    pub max_memory_per_cpu: Option<Mib>,
    /// Higher tiers are considered first.
    #[serde(skip_serializing_if = "is_default")]
    pub tier: u32,
    /// Added to the priority of its jobs.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: u32,
    /// Only these accounts may use it; empty is all.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_accounts: BTreeSet<String>,
    /// Time between the polite and the final signal of a preempted job (Slurm's `GraceTime`);
    /// `None` is the policy's, as for every other end.
    #[serde(skip_serializing_if = "is_default")]
    pub grace: Option<Seconds>,
    /// The QOS whose limits hold for its jobs too (partition QOS).
    #[serde(skip_serializing_if = "is_default")]
    pub qos: Option<String>,
    /// What its jobs are billed for.
    #[serde(skip_serializing_if = "is_default")]
    pub billing: BillingWeights,
    /// How its jobs make room for others.
    #[serde(skip_serializing_if = "is_default")]
    pub preempt: PreemptRules,
    /// So many of its jobs may have the same CPU or GPU and take turns on it (Slurm's
    /// `OverSubscribe=FORCE:n`); with 0 or 1 nobody shares.
    #[serde(skip_serializing_if = "is_default")]
    pub sharers: u32,
}

/// Whether a partition takes and starts jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionState {
    /// Takes and starts jobs.
    #[default]
    Up,
    /// Takes jobs, starts none.
    Down,
    /// Starts jobs, takes none.
    Drain,
    /// Neither.
    Inactive,
}

impl Default for Partition {
    fn default() -> Self {
        Self {
            name: String::new(),
            nodes: BTreeSet::new(),
            default: false,
            state: PartitionState::Up,
            max_time: TimeLimit::Unlimited,
            default_time: None,
            max_nodes: None,
            min_nodes: 0,
            default_memory_per_cpu: None,
            default_memory_per_node: None,
            max_memory_per_cpu: None,
            tier: 1,
            priority: 0,
            allow_accounts: BTreeSet::new(),
            grace: None,
            qos: None,
            billing: BillingWeights::default(),
            preempt: PreemptRules::default(),
            sharers: 0,
        }
    }
}

impl PartitionState {
    /// True where new jobs are taken.
    pub const fn takes_jobs(self) -> bool {
        matches!(self, Self::Up | Self::Down)
    }

    /// True where waiting jobs are started.
    pub const fn starts_jobs(self) -> bool {
        matches!(self, Self::Up | Self::Drain)
    }
}

impl Partition {
    /// The limit of a job that names none.
    pub fn default_time(&self) -> TimeLimit {
        self.default_time.unwrap_or(self.max_time)
    }
}
