//! Turns: jobs of a partition that have the same CPUs or GPUs, of which one runs at a time.
//!
//! As Slurm's gang scheduler (gang_scheduling page), by partition: at each slice end the jobs that
//! stand still go first, the one that waited longest before all others, then those that ran, each
//! as far as its CPUs and GPUs are not taken by one before it; the others stand still. Between slice
//! ends a job only goes on where nobody runs on what it has. So nobody waits for more slices than
//! jobs share with it. A job stands still, and goes on, on all of its nodes at once.
//!
//! A waiting job that finds no room of its own may join (module [`join`]) where memory, GPU memory,
//! licences and everything else but CPUs and GPUs is there for all at once, where no CPU or GPU gets
//! more jobs than the partition says, and where the longer time that all of them then take delays
//! no promise.
//!
//! On the world each CPU and GPU is held once: by the job that is over last of those that have it.
//!
//! Cost: nothing where no partition has turns. Else a look at each running job of such a partition,
//! and for each job that joins, or tries to, two changes of the world for each of them.

mod join;
mod rotate;

pub(crate) use join::Joined;
pub use rotate::TurnView;
pub(crate) use rotate::{changes, view};

use muster_model::{Job, NodeId, NodeShare, Placement, State};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// CPUs and GPUs by node.
#[derive(Clone, Debug, Default)]
struct Taken {
    cpus: BTreeMap<NodeId, muster_model::CpuSet>,
    devices: BTreeSet<(NodeId, u32)>,
}

/// The GPUs of a share that it has as a whole: what turns are taken on beside CPUs.
fn whole(share: &NodeShare) -> impl Iterator<Item = u32> {
    share.devices.iter().filter(|grant| grant.is_whole()).map(|grant| grant.index)
}

impl Taken {
    fn add(&mut self, placement: &Placement) {
        for share in &placement.nodes {
            self.cpus.entry(share.node).or_default().add_all(&share.cpus);
            self.devices.extend(whole(share).map(|index| (share.node, index)));
        }
    }

    fn meets(&self, placement: &Placement) -> bool {
        placement.nodes.iter().any(|share| {
            self.cpus.get(&share.node).is_some_and(|cpus| cpus.intersects(&share.cpus))
                || whole(share).any(|index| self.devices.contains(&(share.node, index)))
        })
    }
}

/// Takes off a placement what another one has too.
fn take_off(placement: &mut Placement, other: &Placement) {
    for share in &mut placement.nodes {
        for theirs in other.nodes.iter().filter(|theirs| theirs.node == share.node) {
            share.cpus.remove_all(&theirs.cpus);
            let taken: BTreeSet<u32> = whole(theirs).collect();
            share.devices.retain(|grant| !taken.contains(&grant.index));
        }
    }
}

/// Leaves a job that takes turns what nobody holds for longer on the world.
pub(crate) fn less_shared(state: &State, job: &Job, placement: &mut Placement) {
    if job.turn.is_none() {
        return;
    }
    let end = (job.ends_at_latest(), job.id);
    for other in fellows_on_nodes(state, job) {
        if let Some(theirs) = other.placement.as_ref()
            && (other.ends_at_latest(), other.id) > end
            && !other.yields_cpus()
        {
            take_off(placement, theirs);
        }
    }
}

/// The jobs that take turns on the nodes of a job, itself left out.
pub(crate) fn fellows_on_nodes<'a>(state: &'a State, job: &Job) -> Vec<&'a Arc<Job>> {
    if state.index.turns.is_empty() {
        return Vec::new();
    }
    let shares = job.placement.iter().flat_map(|p| &p.nodes);
    let there = shares.filter_map(|share| state.index.on_node.get(&share.node)).flatten();
    let ids: BTreeSet<_> = there.filter(|id| **id != job.id).collect();
    let jobs = ids.into_iter().filter_map(|id| state.jobs.get(id));
    jobs.filter(|other| other.turn.is_some()).collect()
}
