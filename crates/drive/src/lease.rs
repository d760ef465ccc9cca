//! Leases: which stand, whether they may be taken, and how they are given back.

use crate::{DriveError, Happened};
use muster_engine_slurm::Commands;
use muster_engine_slurm::act::{self, Lease};
use muster_engine_slurm::read::{Cluster, LEASE_PREFIX, Target, lease_name, read};
use muster_model::Timestamp;
use muster_slurm_syntax::hostlist;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Somebody who is in the midst of a turn has ended it after so long.
const MIDST: Duration = Duration::from_secs(2);

/// What comes back after so many looks is left: it is told as refused, or somebody insists.
const LOOKS: u32 = 5;

/// A lease as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lapse {
    /// The partition.
    pub partition: String,
    /// When Slurm schedules by itself, unless it is extended; milliseconds since 1970.
    pub until_ms: Timestamp,
    /// Jobs that wait in it: released, and not started yet.
    pub released: Vec<String>,
}

/// The partitions are there, and their nodes are theirs alone.
pub(crate) fn check(cluster: &Cluster, partitions: &BTreeSet<String>) -> Result<(), DriveError> {
    let list = |names: &BTreeSet<&String>| {
        names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let all: BTreeSet<&String> = cluster.partitions.iter().map(|p| &p.partition.name).collect();
    if let Some(partition) = partitions.iter().find(|name| !all.contains(name)) {
        return Err(DriveError::Unknown { partition: partition.clone(), has: list(&all) });
    }
    for own in cluster.partitions.iter().filter(|p| partitions.contains(&p.partition.name)) {
        let (mut nodes, mut others) = (BTreeSet::new(), BTreeSet::new());
        for other in cluster.partitions.iter().filter(|p| !partitions.contains(&p.partition.name)) {
            let theirs: BTreeSet<&String> = other.partition.nodes.iter().collect();
            let both = own.partition.nodes.iter().filter(|node| theirs.contains(node));
            let before = nodes.len();
            nodes.extend(both);
            if nodes.len() > before {
                others.insert(&other.partition.name);
            }
        }
        if !nodes.is_empty() {
            return Err(DriveError::Shared {
                partition: own.partition.name.clone(),
                nodes: hostlist::fold(&nodes.iter().collect::<Vec<_>>()),
                others: list(&others),
            });
        }
    }
    Ok(())
}

/// The ends of the leases of partitions.
pub(crate) fn ends(
    cluster: &Cluster,
    partitions: &BTreeSet<String>,
) -> BTreeMap<String, Timestamp> {
    let one = |partition: &String| {
        let name = lease_name(partition);
        let lease = cluster.reservations.iter().find(|r| r.reservation.name == name)?;
        Some((partition.clone(), lease.reservation.window.end))
    };
    partitions.iter().filter_map(one).collect()
}

/// Who is let into the lease of a partition.
pub(crate) fn users(cluster: &Cluster, partition: &str) -> BTreeSet<String> {
    let name = lease_name(partition);
    let lease = cluster.reservations.iter().find(|r| r.reservation.name == name);
    lease.map(|lease| lease.reservation.access.users.names.clone()).unwrap_or_default()
}

/// The leases that stand in a Slurm.
pub fn leases(cluster: &Cluster) -> Vec<Lapse> {
    let names = cluster.reservations.iter().map(|r| &r.reservation);
    let leases = names.filter_map(|r| Some((r.name.strip_prefix(LEASE_PREFIX)?, r.window.end)));
    let leases = leases.filter(|(_, end)| *end > cluster.now);
    let one = |(partition, until_ms): (&str, Timestamp)| {
        let driven = cluster.driven(&BTreeSet::from([partition.to_owned()]), &BTreeSet::new());
        let released = driven.targets.values().filter(|target| target.released);
        let released: BTreeSet<String> = released.map(|target| target.whole().name).collect();
        let released = released.into_iter().collect();
        Lapse { partition: partition.to_owned(), until_ms, released }
    };
    leases.map(one).collect()
}

/// Gives partitions back, whoever drives them: jobs that wait get back what they asked for, the
/// leases end. Running jobs go on.
///
/// Whoever drives them sees that in their next turn, but may be in the midst of one and extend a
/// lease once more: after a `pause` it is looked at again, until everything stays as it was left.
///
/// # Errors
/// [`DriveError::Slurm`] where Slurm cannot be asked.
pub fn hand_back(
    commands: &Commands,
    partitions: &BTreeSet<String>,
    clock: &dyn Fn() -> Timestamp,
    pause: &dyn Fn(Duration),
) -> Result<Vec<Happened>, DriveError> {
    let mut happened = Vec::new();
    for _ in 0..LOOKS {
        let Some(more) = tidied(commands, partitions, clock())? else { break };
        happened.extend(more);
        pause(MIDST);
    }
    Ok(happened)
}

/// Does it once; what came of it, or `None` where nothing was left to do.
///
/// # Errors
/// [`DriveError::Slurm`] where Slurm cannot be asked.
pub(crate) fn tidied(
    commands: &Commands,
    partitions: &BTreeSet<String>,
    now: Timestamp,
) -> Result<Option<Vec<Happened>>, DriveError> {
    let cluster = read(commands, now)?;
    let mut acts = cuts(&cluster, partitions);
    let driven = cluster.driven(partitions, &BTreeSet::new());
    let marked = driven.targets.values().filter(|target| target.marked);
    let back: BTreeMap<String, Target> =
        marked.chain(&driven.left).map(|target| (target.whole().name, target.whole())).collect();
    acts.extend(back.values().map(act::give_back));
    if acts.is_empty() {
        return Ok(None);
    }
    let told = back.into_keys().map(|job| Happened::TakenBack { job });
    let mut happened: Vec<Happened> = told.collect();
    let refused = act::carry_out(commands, &act::together(acts))?;
    happened.extend(refused.into_iter().map(|said| Happened::Refused { said }));
    Ok(Some(happened))
}

/// Ends the leases that stand.
pub(crate) fn cuts(cluster: &Cluster, partitions: &BTreeSet<String>) -> Vec<Vec<String>> {
    let standing = ends(cluster, partitions).into_iter().filter(|(_, end)| *end > cluster.now);
    standing.map(|(partition, _)| Lease { partition, seconds: 0 }.cut()).collect()
}
