//! Leases: which stand, whether they may be taken, and how they are given back.

use crate::{DriveError, Happened};
use muster_engine_slurm::Commands;
use muster_engine_slurm::act::{self, Lease};
use muster_engine_slurm::read::{Cluster, LEASE_PREFIX, Target, lease_name, read, without};
use muster_model::Timestamp;
use muster_slurm_syntax::hostlist;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Somebody who is in the midst of a turn has ended it after so long.
const MIDST: Duration = Duration::from_secs(2);

/// What comes back after so many looks is left: it is told as refused, or somebody insists.
const LOOKS: u32 = 5;

/// How a partition is handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Behind a reservation: jobs wait until they are moved into it.
    #[default]
    Lease,
    /// Each waiting job is held until it is to start; a stamp stands for the reservation.
    Hold,
}

/// A lease as it stands, or the stamp in place of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lapse {
    /// The partition.
    pub partition: String,
    /// How it is handed over.
    pub by: By,
    /// When Slurm schedules by itself, unless it is extended; milliseconds since 1970.
    pub until_ms: Timestamp,
    /// Jobs that were released and have not started yet.
    pub released: Vec<String>,
}

/// The partitions are there, and behind a lease their nodes are theirs alone.
pub(crate) fn check(
    cluster: &Cluster,
    partitions: &BTreeSet<String>,
    by: By,
) -> Result<(), DriveError> {
    let list = |names: &BTreeSet<&String>| {
        names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let all: BTreeSet<&String> = cluster.partitions.iter().map(|p| &p.partition.name).collect();
    if let Some(partition) = partitions.iter().find(|name| !all.contains(name)) {
        return Err(DriveError::Unknown { partition: partition.clone(), has: list(&all) });
    }
    if by == By::Hold {
        return Ok(());
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

/// The ends of the leases of partitions, or of the stamps in their place.
pub(crate) fn ends(
    cluster: &Cluster,
    partitions: &BTreeSet<String>,
    by: By,
) -> BTreeMap<String, Timestamp> {
    let all = standing(cluster)
        .into_iter()
        .filter(|(partition, kind, _)| *kind == by && partitions.contains(partition));
    all.map(|(partition, _, until)| (partition, until)).collect()
}

/// All leases and stamps, be they over.
fn standing(cluster: &Cluster) -> Vec<(String, By, Timestamp)> {
    let leases = cluster.reservations.iter().filter_map(|r| {
        let partition = r.reservation.name.strip_prefix(LEASE_PREFIX)?.to_owned();
        Some((partition, By::Lease, r.reservation.window.end))
    });
    let stamps = cluster.stamps().into_iter();
    leases.chain(stamps.map(|stamp| (stamp.partition, By::Hold, stamp.until))).collect()
}

/// Who is let into the lease of a partition.
pub(crate) fn users(cluster: &Cluster, partition: &str) -> BTreeSet<String> {
    let name = lease_name(partition);
    let lease = cluster.reservations.iter().find(|r| r.reservation.name == name);
    lease.map(|lease| lease.reservation.access.users.names.clone()).unwrap_or_default()
}

/// The leases that stand in a Slurm, and all stamps: behind one that is over jobs are held until
/// somebody releases them.
pub fn leases(cluster: &Cluster) -> Vec<Lapse> {
    let leases = standing(cluster).into_iter();
    let leases = leases.filter(|(_, by, end)| *by == By::Hold || *end > cluster.now);
    let one = |(partition, by, until_ms): (String, By, Timestamp)| {
        let driven = cluster.driven(&BTreeSet::from([partition.clone()]), &BTreeSet::new());
        let released = driven.targets.values().filter(|target| target.released);
        let released: BTreeSet<String> = released.map(|target| target.whole().name).collect();
        let released = released.into_iter().collect();
        Lapse { partition, by, until_ms, released }
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
        let cluster = read(commands, clock())?;
        let Some(more) = tidied(commands, &cluster, partitions)? else { break };
        happened.extend(more);
        pause(MIDST);
    }
    Ok(happened)
}

/// Does it once; what came of it, or `None` where nothing was left to do.
///
/// # Errors
/// [`DriveError::Slurm`] where Slurm cannot be told.
pub(crate) fn tidied(
    commands: &Commands,
    cluster: &Cluster,
    partitions: &BTreeSet<String>,
) -> Result<Option<Vec<Happened>>, DriveError> {
    let mut acts = cuts(cluster, partitions);
    let driven = cluster.driven(partitions, &BTreeSet::new());
    let marked = driven.targets.values().filter(|target| target.marked);
    let back: BTreeMap<String, Target> =
        marked.chain(&driven.left).map(|target| (target.whole().name, target.whole())).collect();
    acts.extend(back.values().map(act::give_back));
    acts.extend(back.values().filter(|target| target.held).map(act::let_go));
    if acts.is_empty() {
        return Ok(None);
    }
    let told = back.into_keys().map(|job| Happened::TakenBack { job });
    let mut happened: Vec<Happened> = told.collect();
    let refused = act::carry_out(commands, &act::together(acts))?;
    happened.extend(refused.into_iter().map(|said| Happened::Refused { said }));
    Ok(Some(happened))
}

/// Ends the leases that stand, and takes the stamps away.
fn cuts(cluster: &Cluster, partitions: &BTreeSet<String>) -> Vec<Vec<String>> {
    let leases = ends(cluster, partitions, By::Lease).into_iter();
    let leases = leases.filter(|(_, end)| *end > cluster.now);
    let leases = leases.map(|(partition, _)| Lease { partition, seconds: 0 }.cut());
    // Several may stand on one node: each is taken from what the one before left.
    let mut comments: BTreeMap<String, String> = BTreeMap::new();
    for stamp in cluster.stamps().iter().filter(|stamp| partitions.contains(&stamp.partition)) {
        let own = || cluster.comments.get(&stamp.node).cloned().unwrap_or_default();
        let comment = comments.entry(stamp.node.clone()).or_insert_with(own);
        *comment = without(comment, &stamp.partition);
    }
    leases.chain(comments.iter().map(|(node, text)| act::comment(node, text))).collect()
}

/// Waits until nobody drives partitions that are handed over by holds, and gives them back then. It
/// ends without that where they were given back already, or somebody else has taken them over.
pub fn give_back_lapsed(
    commands: &Commands,
    partitions: &BTreeSet<String>,
    clock: &dyn Fn() -> Timestamp,
    pause: &dyn Fn(Duration),
) -> Vec<Happened> {
    let mut first: Option<BTreeMap<String, Timestamp>> = None;
    let mut happened = Vec::new();
    loop {
        // A Slurm that does not answer is waited for.
        if let Ok(cluster) = read(commands, clock()) {
            let ends = ends(&cluster, partitions, By::Hold);
            let first = first.get_or_insert_with(|| ends.clone());
            let taken = |(partition, end): (&String, &Timestamp)| {
                first.get(partition).is_none_or(|before| end > before)
            };
            if ends.is_empty() || ends.iter().any(taken) {
                return happened;
            }
            // By what was just read: whoever takes over next is not to lose what is theirs.
            let over = |(_, end): &(&String, &Timestamp)| **end <= cluster.now;
            let lapsed = ends.iter().filter(over).map(|(partition, _)| partition.clone()).collect();
            happened.extend(tidied(commands, &cluster, &lapsed).ok().flatten().unwrap_or_default());
        }
        pause(MIDST);
    }
}
