//! The nodes that are offered, with what others run on them.
//!
//! Slurm picks the cores and GPUs of every job by itself, so numbers mean little: what counts is how
//! many are left. What others have is therefore told as numbers that muster's own jobs were not
//! counted on.

use crate::read::{Cluster, JobRecord};
use muster_engine::book::{Attempt, Book};
use muster_model::{Availability, CpuSet, EngineName, ForeignUse, Mib, Node, NodeId, Placement};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What of a node is spoken for.
#[derive(Default)]
struct Spoken {
    cpus: CpuSet,
    devices: BTreeSet<u32>,
}

/// The nodes of the offered partitions of Slurm (of all where none is named), as muster has them.
pub(super) fn nodes(
    present: &Cluster,
    book: &Book,
    engine: &EngineName,
    offered: &BTreeSet<&str>,
) -> Vec<Node> {
    let names: BTreeSet<&str> = present
        .partitions
        .iter()
        .map(|record| &record.partition)
        .filter(|partition| offered.is_empty() || offered.contains(partition.name.as_str()))
        .flat_map(|partition| partition.nodes.iter().map(String::as_str))
        .collect();
    let open: Vec<&Attempt> = book.iter().map(|(_, a)| a).filter(|a| a.is_open()).collect();
    let own: BTreeSet<u32> =
        open.iter().filter(|a| !a.spots.is_empty()).filter_map(|a| a.id).collect();
    let mut spoken: BTreeMap<&str, Spoken> = BTreeMap::new();
    for spot in open.iter().flat_map(|attempt| &attempt.spots) {
        let of = spoken.entry(spot.node.as_str()).or_default();
        of.cpus.add_all(&spot.cpus);
        of.devices.extend(spot.devices.iter().copied());
    }
    let mut used = present.used(|job| !own.contains(&job.id().0));
    used.sort_by_key(|(job, _)| job.id());
    let mut nodes = Vec::new();
    for node in present.nodes.iter().filter(|node| names.contains(node.name.as_str())) {
        let mut node = standing(node, engine);
        let mut of = spoken.remove(node.name.as_str()).unwrap_or_default();
        let foreign = used.iter().flat_map(|used| of_job(&node, used, &mut of)).collect();
        node.foreign = foreign;
        nodes.push(Node { id: NodeId(0), ..node });
    }
    nodes
}

/// A node that Slurm drains takes nothing from muster either; muster's own drain is another matter.
fn standing(node: &Node, engine: &EngineName) -> Node {
    let mut node = Node { engine: engine.clone(), counts_only: true, ..node.clone() };
    if let (Some(drain), Availability::Up) = (node.drain.take(), &node.availability) {
        let reason = format!("drained in Slurm: {}", drain.reason);
        node.availability = Availability::Down { reason, since: drain.since };
    }
    node
}

/// What a job of somebody else has on a node.
fn of_job(
    node: &Node,
    (job, placement): &(&JobRecord, Arc<Placement>),
    spoken: &mut Spoken,
) -> Vec<ForeignUse> {
    let shares = placement.nodes.iter().filter(|share| share.node == node.id);
    let mut found = Vec::new();
    for share in shares {
        let owner = job.user().to_owned();
        let what = format!("Slurm job {}", job.name());
        let mut free = node.cpus.clone();
        free.remove_all(&spoken.cpus);
        let free: Vec<u32> = free.iter().collect();
        let count = share.cpus.len() as usize;
        let cpus: CpuSet = free.iter().rev().take(count).copied().collect();
        spoken.cpus.add_all(&cpus);
        found.push(ForeignUse {
            device: None,
            cpus,
            memory: share.memory,
            owner: owner.clone(),
            what: what.clone(),
        });
        for grant in &share.devices {
            let model = node.devices.get(grant.index as usize).map(|d| d.model.as_str());
            let like = |index: &u32| {
                node.devices.get(*index as usize).map(|d| d.model.as_str()) == model
                    && !spoken.devices.contains(index)
            };
            let Some(index) = (0..node.devices.len() as u32).rev().find(like) else { continue };
            spoken.devices.insert(index);
            found.push(ForeignUse {
                device: Some(index),
                cpus: CpuSet::new(),
                memory: Mib::ZERO,
                owner: owner.clone(),
                what: what.clone(),
            });
        }
    }
    found
}
