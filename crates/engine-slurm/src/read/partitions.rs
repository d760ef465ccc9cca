//! Partitions.

use super::record::Record;
use muster_model::{Mib, Partition, PartitionState, Seconds, TimeLimit};
use muster_slurm_syntax::{duration, hostlist};

/// A partition, with what muster's has no field for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRecord {
    /// As muster has it.
    pub partition: Partition,
    /// Its nodes go to one job at a time (`OverSubscribe=EXCLUSIVE`).
    pub exclusive: bool,
    /// Its nodes go to one user at a time (`ExclusiveUser=YES`).
    pub by_user: bool,
    /// It is not shown to those who may not use it.
    pub hidden: bool,
}

/// The partitions of `scontrol -o show partition`.
pub(super) fn all(text: &str) -> Result<Vec<PartitionRecord>, String> {
    Record::all(text).map(|record| partition(&record)).collect()
}

fn limit(record: &Record, key: &str) -> Result<Option<TimeLimit>, String> {
    let text = record.get(key);
    text.map(|text| duration::parse_limit(text).map_err(|p| format!("{key}: {}", p.what)))
        .transpose()
}

fn partition(record: &Record) -> Result<PartitionRecord, String> {
    let name = record.need("PartitionName")?.to_owned();
    let of = |why: String| format!("partition {name}: {why}");
    let nodes = hostlist::expand(record.get("Nodes").unwrap_or_default(), hostlist::HOSTS_MAX);
    let mib = |key: &str| record.number(key).map(|n| n.filter(|n| *n > 0).map(Mib)).map_err(of);
    let partition = Partition {
        nodes: nodes.map_err(|p| of(p.what))?.into_iter().filter(|n| !n.is_empty()).collect(),
        default: record.is_yes("Default"),
        state: match record.get("State") {
            Some("DOWN") => PartitionState::Down,
            Some("DRAIN") => PartitionState::Drain,
            Some("INACTIVE") => PartitionState::Inactive,
            _ => PartitionState::Up,
        },
        max_time: limit(record, "MaxTime").map_err(of)?.unwrap_or(TimeLimit::Unlimited),
        default_time: limit(record, "DefaultTime").map_err(of)?,
        max_nodes: record.number("MaxNodes").map_err(of)?,
        min_nodes: record.number("MinNodes").map_err(of)?.unwrap_or(0),
        default_memory_per_cpu: mib("DefMemPerCPU")?,
        default_memory_per_node: mib("DefMemPerNode")?,
        max_memory_per_cpu: mib("MaxMemPerCPU")?,
        tier: record.number("PriorityTier").map_err(of)?.unwrap_or(1),
        priority: record.number("PriorityJobFactor").map_err(of)?.unwrap_or(0),
        allow_accounts: record.words("AllowAccounts").map(str::to_owned).collect(),
        grace: record.number("GraceTime").map_err(of)?.filter(|n| *n > 0).map(Seconds),
        qos: record.get("QoS").map(str::to_owned),
        name: name.clone(),
        ..Partition::default()
    };
    Ok(PartitionRecord {
        partition,
        exclusive: record.get("OverSubscribe") == Some("EXCLUSIVE"),
        by_user: record.is_yes("ExclusiveUser"),
        hidden: record.is_yes("Hidden"),
    })
}
