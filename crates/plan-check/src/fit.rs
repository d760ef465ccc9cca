//! A simple, slow answer to "could this job lie on exactly these nodes?".

use crate::devices::{self, PartRoom};
use crate::layout::{fixed_gpus, required};
use muster_model::{
    DevicePolicy, Exclusive, GpuScope, Job, Node, NodeId, Partition, Placement, Request, State,
    Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A job past its latest end still holds what it has; it counts as gone this much after now.
pub(crate) const OVERDUE_MS: i64 = 1000;

/// A start that the plan makes, with its latest end.
pub(crate) struct New<'a> {
    pub(crate) job: &'a Job,
    pub(crate) placement: &'a Placement,
    pub(crate) end: Timestamp,
}

/// What is left on a node.
pub(crate) struct Room<'a> {
    pub(crate) node: &'a Node,
    cpus: u32,
    memory: u64,
    devices: Vec<u32>,
    parts: Vec<PartRoom>,
    policy: &'a DevicePolicy,
    gres: BTreeMap<String, u64>,
    others: Vec<(Exclusive, u32)>,
}

/// The instant at which room is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Now,
    At(Timestamp),
    /// As if nothing ran.
    Empty,
}

/// True where something with this latest end is still there.
pub(crate) fn still_there(when: When, now: Timestamp, end: Timestamp, new: bool) -> bool {
    match when {
        When::Now => true,
        When::Empty => false,
        When::At(at) if new && end == Timestamp::NEVER => at <= end,
        When::At(at) => {
            end.max(Timestamp::from_millis(now.millis().saturating_add(OVERDUE_MS))) > at
        }
    }
}

pub(crate) fn room<'a>(
    state: &'a State,
    now: Timestamp,
    new: &[New<'_>],
    id: NodeId,
    when: When,
) -> Option<Room<'a>> {
    let node: &Arc<Node> = state.nodes.get(&id)?;
    let mut cpus = node.cpus.clone();
    let mut pool = node.cpu_pool;
    let mut memory = node.memory.0;
    for foreign in &node.foreign {
        cpus.remove_all(&foreign.cpus);
        if foreign.device.is_none() {
            memory = memory.saturating_sub(foreign.memory.0);
        }
    }
    let mut devices: Vec<u32> =
        node.devices.iter().map(|d| d.index).filter(|i| node.device_is_usable(*i)).collect();
    let mut parts = devices::part_rooms(node);
    let mut gres = node.gres.clone();
    let mut others = Vec::new();
    let running = state
        .index
        .on_node
        .get(&id)
        .into_iter()
        .flatten()
        .filter_map(|job| state.jobs.get(job))
        .filter_map(|job| {
            Some((job.as_ref(), job.placement.as_deref()?, state.expected_end(job, now)?))
        })
        .filter(|(_, _, end)| still_there(when, now, *end, false));
    let starting = new
        .iter()
        .filter(|n| still_there(when, now, n.end, true))
        .map(|n| (n.job, n.placement, n.end));
    for (job, placement, _) in running.chain(starting) {
        for share in placement.nodes.iter().filter(|s| s.node == id) {
            // What stands still by hand has lent its CPUs; nobody knows when it goes on.
            if !job.lends || (job.resumes && when == When::Now) {
                cpus.remove_all(&share.cpus);
            }
            pool = pool.saturating_sub(share.cpu_pool);
            memory = memory.saturating_sub(share.memory.0);
            for part in &mut parts {
                part.take(&share.devices, job.spec.owner.uid);
            }
            devices.retain(|i| share.devices.iter().all(|d| d.index != *i));
            for (name, count) in &share.gres {
                if let Some(left) = gres.get_mut(name) {
                    *left = left.saturating_sub(*count);
                }
            }
            let kind = if share.exclusive { Exclusive::Node } else { job.spec.request.exclusive };
            others.push((kind, job.spec.owner.uid));
        }
    }
    let policy = &state.policy.devices;
    let cpus = cpus.len().saturating_add(pool);
    Some(Room { node, cpus, memory, devices, parts, policy, gres, others })
}

/// Whether the job can lie on all of these nodes together, each with at least one task.
///
/// `None` where this simple way cannot tell: several GPU totals over the job at once.
pub(crate) fn lies_on(job: &Job, partition: &Partition, rooms: &[&Room<'_>]) -> Option<bool> {
    let found = lies_there(job, partition, rooms);
    // Which CPUs are beside which GPUs is not known here.
    let near = job.spec.request.cpus_near_gpus && job.spec.request.wants_gpus();
    found.filter(|lies| if *lies { !near } else { !several_profiles(&job.spec.request) })
}

fn lies_there(job: &Job, partition: &Partition, rooms: &[&Room<'_>]) -> Option<bool> {
    let request = &job.spec.request;
    let totals: Vec<_> =
        request.gpus.iter().filter(|g| g.scope == GpuScope::Job && g.count > 0).collect();
    if totals.len() > 1 {
        return None;
    }
    let total = totals.first().copied();
    let tasks = u64::from(request.tasks_on(rooms.len() as u32));
    let (mut most_tasks, mut most_gpus) = (0u64, 0u64);
    for room in rooms {
        if !tolerated(request.exclusive, job.spec.owner.uid, &room.others) {
            return Some(false);
        }
        let gpus_least = u32::from(total.is_some());
        let fits = |t: u32, g: u32| one_fits(request, partition, room, job.spec.owner.uid, t, g);
        if let Some(each) = tasks_each(request) {
            if !fits(each, gpus_least) {
                return Some(false);
            }
            most_tasks += u64::from(each);
        } else if request.tasks.is_some() {
            let bound = request.tasks_per_node.unwrap_or(u32::MAX).min(room.cpus);
            let most = (1..=bound).take_while(|t| fits(*t, gpus_least)).last();
            let Some(most) = most else { return Some(false) };
            most_tasks += u64::from(most);
        }
        if let Some(total) = total {
            let least_tasks = tasks_each(request).unwrap_or(1);
            let bound = total.count.min((room.devices.len() + room.parts.len() * 8) as u32);
            let Some(most) = (1..=bound).take_while(|g| fits(least_tasks, *g)).last() else {
                return Some(false);
            };
            most_gpus += u64::from(most);
        }
        if total.is_none() && tasks_each(request).is_none() && request.tasks.is_none() {
            // Tasks follow the node's own GPUs.
            let gpus: u32 = crate::total(fixed_gpus(request, room.node, 1).into_values());
            let t = request.tasks_per_gpu.unwrap_or(1).saturating_mul(gpus).max(1);
            if !fits(t, 0) {
                return Some(false);
            }
            most_tasks += u64::from(t);
        }
    }
    let follows_gpus = total.is_some() && tasks_each(request).is_none() && request.tasks.is_none();
    let enough_gpus = total.is_none_or(|g| {
        most_gpus >= u64::from(g.count) && u64::from(g.count) >= rooms.len() as u64
    });
    Some(enough_gpus && (follows_gpus || most_tasks >= tasks) && tasks >= rooms.len() as u64)
}

/// True where instances of several MIG profiles are asked for: then a search that finds no places
/// may have been too short.
fn several_profiles(request: &Request) -> bool {
    let kinds = request.gpus.iter().filter(|g| g.count > 0).filter_map(|g| g.model.as_deref());
    let profiles: BTreeSet<&str> =
        kinds.filter(|k| muster_model::mig::split_type(k).1.is_some()).collect();
    profiles.len() > 1
}

/// Tasks on each node where they are the same whatever else is asked.
fn tasks_each(request: &Request) -> Option<u32> {
    if request.tasks.is_some() {
        return None;
    }
    if let Some(each) = request.tasks_per_node {
        return Some(each.max(1));
    }
    let follows = request.tasks_per_gpu.is_some_and(|n| n > 0)
        && request.gpus_in_total(1).is_some_and(|n| n > 0);
    (!follows).then_some(1)
}

fn tolerated(kind: Exclusive, uid: u32, others: &[(Exclusive, u32)]) -> bool {
    others.iter().all(|(other, owner)| match (kind, other) {
        (Exclusive::Node, _) | (_, Exclusive::Node) => false,
        (Exclusive::User, _) | (_, Exclusive::User) => *owner == uid,
        _ => true,
    })
}

/// So many tasks and so many GPUs of the job's total on one node.
fn one_fits(
    request: &Request,
    partition: &Partition,
    room: &Room<'_>,
    uid: u32,
    t: u32,
    g: u32,
) -> bool {
    let node = room.node;
    let t = match request.tasks_per_gpu {
        Some(per_gpu) if tasks_each(request).is_none() && request.tasks.is_none() => {
            let fixed: u32 = crate::total(fixed_gpus(request, node, 1).into_values());
            per_gpu.saturating_mul(fixed.saturating_add(g)).max(1)
        }
        _ => t,
    };
    let cores = node.cpu_count() / node.threads_per_core.max(1);
    let blind = node.topology_uncertain && request.cpus_near_gpus && request.wants_gpus();
    if blind
        || request.sockets_per_node.is_some_and(|n| n > node.sockets())
        || request.tasks_per_socket.is_some_and(|n| t > n.saturating_mul(node.sockets()))
        || request.tasks_per_core.is_some_and(|n| t > n.saturating_mul(cores))
    {
        return false;
    }
    let wanted = devices::wanted_on(request, node, t, g);
    let count = crate::total(wanted.values().copied());
    let (cpus, memory) = required(request, partition, node, t, count);
    cpus <= room.cpus
        && memory <= room.memory
        && gpus_fit(request, room, &wanted, uid) == Some(true)
        && request.gres.iter().all(|(name, n)| room.gres.get(name).copied().unwrap_or(0) >= *n)
}

fn gpus_fit(
    request: &Request,
    room: &Room<'_>,
    wanted: &devices::Wanted,
    uid: u32,
) -> Option<bool> {
    let gpus = devices::GpuRoom {
        node: room.node,
        policy: room.policy,
        whole: &room.devices,
        parts: &room.parts,
    };
    let all = devices::gpus_fit(request, &gpus, wanted, uid)?;
    Some(all && devices::sockets_fit(request, &gpus, uid)?)
}
