//! Promised starts: on the nodes, and as a plan tells them.

use crate::ask::Ask;
use crate::gang::{Pick, Picks};
use crate::world::World;
use muster_model::{JobId, Mib, Promise, PromisedShare, Timestamp};

/// A promise on the nodes.
pub(crate) struct Promised {
    pub(crate) jobs: Vec<(JobId, (Ask, Picks))>,
    pub(crate) start: Timestamp,
}

/// A promise as the plan tells it.
pub(crate) fn promise_of(
    world: &World,
    start: Timestamp,
    job: JobId,
    ask: &Ask,
    picks: &Picks,
) -> Promise {
    let share = |pick: &Pick| {
        let need = ask.need(world.view(pick.node), pick.tasks, &pick.share);
        let gpus = if ask.is_plain() { need.gpu_total() } else { 0 };
        PromisedShare { tasks: pick.tasks, cpus: need.cpus, memory: Mib(need.memory), gpus }
    };
    Promise {
        job,
        start,
        nodes: picks.iter().map(|p| world.view(p.node).node.id).collect(),
        shares: picks.iter().map(share).collect(),
        partition: ask.partition.name.clone(),
    }
}

/// Takes promises off the world, the last first.
pub(crate) fn take_off(world: &mut World, promises: &[Promised]) {
    for (_, (ask, picks)) in promises.iter().rev().flat_map(|p| p.jobs.iter().rev()) {
        world.unreserve(ask, picks);
    }
}
