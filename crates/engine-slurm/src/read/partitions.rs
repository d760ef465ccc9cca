//! Partitions.

use super::record::Record;
use muster_model::{Mib, Partition, PartitionState, Seconds, TimeLimit};
use muster_slurm_syntax::{duration, hostlist};
use std::collections::BTreeSet;

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
    /// Only jobs of these QOS may run in it; of all where there are none (`AllowQos`).
    pub allow_qos: BTreeSet<String>,
    /// No jobs of these (`DenyQos`).
    pub deny_qos: BTreeSet<String>,
    /// No jobs of these accounts (`DenyAccounts`).
    pub deny_accounts: BTreeSet<String>,
}

impl PartitionRecord {
    /// Why a job of this account and QOS may not run in it; `None` where it may. Accounts that are
    /// let in alone are muster's own rule. Slurm tells no groups of users, so `AllowGroups` is its
    /// own: it looks at that when a job is submitted.
    pub(super) fn forbids(&self, account: &str, qos: &str) -> Option<String> {
        let name = &self.partition.name;
        let kept_out = !self.allow_qos.is_empty() && !self.allow_qos.contains(qos);
        if kept_out || self.deny_qos.contains(qos) {
            return Some(format!("partition {name} is not for QOS {qos}"));
        }
        let denied = self.deny_accounts.contains(account);
        denied.then(|| format!("partition {name} is not for account {account}"))
    }
}

/// `FORCE:4`: so many jobs share what they have. Under `YES` they share only where they ask for it,
/// which Slurm does not tell of a job that waits.
fn sharers(over_subscribe: &str) -> u32 {
    let (word, number) = over_subscribe.split_once(':').unwrap_or((over_subscribe, ""));
    match word {
        // Without a number it is four (slurm.conf manual).
        "FORCE" => number.parse().unwrap_or(4),
        _ => 0,
    }
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
    // One without nodes is a partition too.
    let nodes = record.get("Nodes").filter(|nodes| !nodes.is_empty());
    let nodes = nodes.map_or(Ok(Vec::new()), |nodes| hostlist::expand(nodes, hostlist::HOSTS_MAX));
    let mib = |key: &str| record.number(key).map(|n| n.filter(|n| *n > 0).map(Mib)).map_err(of);
    let names = |key: &str| record.words(key).map(str::to_owned).collect::<BTreeSet<String>>();
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
        sharers: record.get("OverSubscribe").map_or(0, sharers),
        name: name.clone(),
        ..Partition::default()
    };
    Ok(PartitionRecord {
        partition,
        exclusive: record.get("OverSubscribe") == Some("EXCLUSIVE"),
        by_user: record.is_yes("ExclusiveUser"),
        hidden: record.is_yes("Hidden"),
        allow_qos: names("AllowQos"),
        deny_qos: names("DenyQos"),
        deny_accounts: names("DenyAccounts"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a site leaves one that it is about to delete: the others are read as ever.
    #[test]
    fn a_partition_without_nodes_is_read() {
        for nodes in ["Nodes=(null)", "Nodes=", ""] {
            let told = all(&format!("PartitionName=p {nodes} State=UP")).expect("a partition");
            assert!(told[0].partition.nodes.is_empty(), "{nodes}");
        }
    }

    fn one(more: &str) -> PartitionRecord {
        all(&format!("PartitionName=p Nodes=n1 State=UP {more}")).expect("a partition").remove(0)
    }

    #[test]
    fn qos_and_accounts_that_may_not_are_told() {
        let open = one("AllowQos=ALL AllowAccounts=ALL");
        assert_eq!(open.forbids("ml", "normal"), None);
        let some = one("AllowQos=high,gpu DenyAccounts=guests");
        assert_eq!(some.forbids("ml", "high"), None);
        let why = some.forbids("ml", "normal");
        assert_eq!(why.as_deref(), Some("partition p is not for QOS normal"));
        let why = some.forbids("guests", "gpu");
        assert_eq!(why.as_deref(), Some("partition p is not for account guests"));
        let denied = one("AllowAccounts=ALL DenyQos=low");
        assert!(denied.forbids("ml", "low").is_some() && denied.forbids("ml", "high").is_none());
    }

    #[test]
    fn jobs_share_by_force_alone() {
        let of = |word: &str| one(&format!("OverSubscribe={word}")).partition.sharers;
        assert_eq!((of("NO"), of("EXCLUSIVE"), of("YES:4")), (0, 0, 0));
        assert_eq!((of("FORCE:2"), of("FORCE"), of("FORCE:1")), (2, 4, 1));
    }
}
