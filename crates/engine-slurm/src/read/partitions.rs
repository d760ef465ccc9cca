//! Partitions.

use super::record::Record;
use muster_model::{
    BillingWeight, BillingWeights, Mib, Partition, PartitionState, Seconds, TimeLimit, TresKind,
};
use muster_slurm_syntax::{duration, hostlist};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Only users of these groups may run jobs in it; all where there are none (`AllowGroups`).
    pub allow_groups: BTreeSet<String>,
}

/// Who is in a group, as this machine knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Its number: users whose first group it is are in it too.
    pub gid: u32,
    /// Those that it lists.
    pub users: BTreeSet<String>,
}

/// Who wants a job run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asker<'a> {
    pub(super) account: &'a str,
    pub(super) qos: &'a str,
    pub(super) user: &'a str,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

impl PartitionRecord {
    /// Why this one's job may not run in it; `None` where it may. Accounts that are let in alone are
    /// muster's own rule. A group that this machine does not know keeps nobody out here: Slurm looks
    /// at that when a job is submitted.
    pub(super) fn forbids(
        &self,
        asker: &Asker<'_>,
        groups: &BTreeMap<String, Members>,
    ) -> Option<String> {
        let name = &self.partition.name;
        let Asker { account, qos, user, .. } = asker;
        let kept_out = !self.allow_qos.is_empty() && !self.allow_qos.contains(*qos);
        if kept_out || self.deny_qos.contains(*qos) {
            return Some(format!("partition {name} is not for QOS {qos}"));
        }
        // Slurm passes over who is kept out where it is said who is let in (slurm.conf manual).
        if self.partition.allow_accounts.is_empty() && self.deny_accounts.contains(*account) {
            return Some(format!("partition {name} is not for account {account}"));
        }
        let lets_in = |group: &String| {
            groups.get(group).is_none_or(|members| {
                members.users.contains(*user) || asker.gid == Some(members.gid)
            })
        };
        // Root is in every group.
        let groups_fit = self.allow_groups.is_empty() || self.allow_groups.iter().any(lets_in);
        let kept_out = asker.uid != Some(0) && !groups_fit;
        let list = || self.allow_groups.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        kept_out
            .then(|| format!("partition {name} is for the groups {} only, not for {user}", list()))
    }
}

/// The groups that partitions are for, as this machine knows them.
pub(super) fn groups(text: &str) -> BTreeMap<String, Members> {
    let records: Vec<Record> = Record::all(text).collect();
    let names: BTreeSet<&str> = records.iter().flat_map(|r| r.words("AllowGroups")).collect();
    let one = |name: &str| {
        let group = nix::unistd::Group::from_name(name).ok().flatten()?;
        let (gid, users) = (group.gid.as_raw(), group.mem.into_iter().collect());
        Some((name.to_owned(), Members { gid, users }))
    };
    names.into_iter().filter_map(one).collect()
}

/// `CPU=1.0,Mem=0.25G,GRES/gpu=2.0`; of what muster does not count nothing is billed.
fn billing(record: &Record) -> BillingWeights {
    let one = |entry: &str| {
        let (kind, weight) = entry.split_once('=')?;
        let kind = kind.parse::<TresKind>().ok()?;
        let weight = BillingWeight::read(&kind, weight)?;
        Some((kind, weight))
    };
    BillingWeights(record.words("TRESBillingWeights").filter_map(one).collect())
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
        billing: billing(record),
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
        allow_groups: names("AllowGroups"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::{BillingMode, Tres};

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

    fn forbids(partition: &PartitionRecord, account: &str, qos: &str) -> Option<String> {
        partition.forbids(&Asker { account, qos, ..Asker::default() }, &BTreeMap::new())
    }

    #[test]
    fn qos_and_accounts_that_may_not_are_told() {
        let open = one("AllowQos=ALL AllowAccounts=ALL AllowGroups=ALL");
        assert_eq!(forbids(&open, "ml", "normal"), None);
        let some = one("AllowQos=high,gpu DenyAccounts=guests");
        assert_eq!(forbids(&some, "ml", "high"), None);
        let why = forbids(&some, "ml", "normal");
        assert_eq!(why.as_deref(), Some("partition p is not for QOS normal"));
        let why = forbids(&some, "guests", "gpu");
        assert_eq!(why.as_deref(), Some("partition p is not for account guests"));
        let denied = one("AllowAccounts=ALL DenyQos=low");
        assert!(forbids(&denied, "ml", "low").is_some());
        assert!(forbids(&denied, "ml", "high").is_none());
    }

    #[test]
    fn only_users_of_its_groups_may() {
        let some = one("AllowGroups=staff,lab");
        let members = |gid: u32, users: &[&str]| Members {
            gid,
            users: users.iter().map(ToString::to_string).collect(),
        };
        let mut groups = BTreeMap::from([("staff".to_owned(), members(50, &["ada"]))]);
        let why = |user: &str, uid: u32, gid: u32, groups: &BTreeMap<String, Members>| {
            let (uid, gid) = (Some(uid), Some(gid));
            some.forbids(&Asker { user, uid, gid, ..Asker::default() }, groups)
        };
        assert_eq!(why("bob", 8, 8, &groups), None, "whether bob is in lab is not known");
        groups.insert("lab".to_owned(), members(60, &[]));
        let told = why("bob", 8, 8, &groups);
        let right = "partition p is for the groups lab,staff only, not for bob";
        assert_eq!(told.as_deref(), Some(right));
        assert_eq!(why("ada", 7, 7, &groups), None);
        assert_eq!(why("bob", 8, 60, &groups), None, "his first group");
        assert_eq!(why("root", 0, 0, &groups), None);
    }

    #[test]
    fn what_is_billed_is_read() {
        let told = one("TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2.5,fs/disk=3 AllowQos=ALL");
        let job = Tres(BTreeMap::from([
            (TresKind::Cpu, 2),
            (TresKind::Mem, 4096),
            (TresKind::Gpu(None), 2),
        ]));
        let weights = told.partition.billing;
        assert_eq!(weights.bill(&job, BillingMode::Sum), 8);
        assert_eq!(weights.bill(&job, BillingMode::Max), 5);
    }

    #[test]
    fn jobs_share_by_force_alone() {
        let of = |word: &str| one(&format!("OverSubscribe={word}")).partition.sharers;
        assert_eq!((of("NO"), of("EXCLUSIVE"), of("YES:4")), (0, 0, 0));
        assert_eq!((of("FORCE:2"), of("FORCE"), of("FORCE:1")), (2, 4, 1));
    }
}
