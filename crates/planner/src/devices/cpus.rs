//! Which CPUs of a node a job gets: near its devices, in few pieces, by number where all is equal.
//!
//! A job of several tasks with devices on several NUMA domains gets CPUs in each of them, as many
//! as its devices there are of all, so that every rank finds its cores beside its device. A job of
//! one task gets its CPUs in one domain where one beside its devices has enough.

use crate::free::{DeviceMask, NodeView, bits};
use muster_model::CpuSet;
use std::collections::BTreeMap;

/// A NUMA domain with what is free of it.
struct Domain {
    /// How many of the job's devices are in it.
    devices: u32,
    /// Some of them are on its socket.
    socket_near: bool,
    id: u32,
    free: CpuSet,
    count: u32,
}

/// So many CPUs of the free ones for so many tasks.
pub(crate) fn choose(
    view: &NodeView,
    devices: DeviceMask,
    count: u32,
    tasks: u32,
) -> Option<CpuSet> {
    if view.free_cpu_count < count {
        return None;
    }
    let mut domains = domains(view, devices);
    let mut chosen = CpuSet::new();
    let beside = domains.iter().filter(|d| d.devices > 0).count();
    if tasks > 1 && beside > 1 {
        for (domain, quota) in quotas(&domains, count, tasks) {
            take(&mut chosen, &domains[domain].free, quota);
        }
    }
    let left = count - chosen.len();
    // A domain that holds the rest: the tightest. Else the fullest first, for few pieces.
    domains.sort_by_key(|d| {
        let short = d.count < left;
        let room = if short { u32::MAX - d.count } else { d.count };
        (d.devices == 0, !d.socket_near, short, room, d.id)
    });
    for free in domains.iter().map(|d| &d.free).chain(std::iter::once(&view.free_cpus)) {
        let left = count - chosen.len();
        take(&mut chosen, free, left);
    }
    (chosen.len() == count).then_some(chosen)
}

fn domains(view: &NodeView, devices: DeviceMask) -> Vec<Domain> {
    let mut in_domain: BTreeMap<u32, u32> = BTreeMap::new();
    for device in bits(devices).filter_map(|i| view.node.devices.get(i as usize)) {
        if let Some(numa) = device.numa {
            *in_domain.entry(numa).or_default() += 1;
        }
    }
    let near = |socket: u32| {
        view.node.numa.iter().any(|n| n.socket == socket && in_domain.contains_key(&n.id))
    };
    let of = |numa: &muster_model::NumaDomain| {
        let free = numa.cpus.intersection(&view.free_cpus);
        Domain {
            devices: in_domain.get(&numa.id).copied().unwrap_or(0),
            socket_near: near(numa.socket),
            id: numa.id,
            count: free.len(),
            free,
        }
    };
    view.node.numa.iter().map(of).collect()
}

/// How many CPUs each domain with devices is to give: by its part of the devices, in whole tasks
/// where the tasks have equally many CPUs, the rest to the first.
fn quotas(domains: &[Domain], count: u32, tasks: u32) -> Vec<(usize, u32)> {
    let unit = if count.is_multiple_of(tasks) { count / tasks } else { 1 };
    let units = count / unit.max(1);
    let all: u32 = domains.iter().map(|d| d.devices).sum();
    let mut quotas: Vec<(usize, u32)> = domains
        .iter()
        .enumerate()
        .filter(|(_, d)| d.devices > 0)
        .map(|(at, d)| (at, units * d.devices / all.max(1)))
        .collect();
    let mut rest = units.saturating_sub(quotas.iter().map(|q| q.1).sum());
    for quota in &mut quotas {
        let more = rest.min(1);
        quota.1 += more;
        rest -= more;
    }
    quotas.into_iter().map(|(at, n)| (at, n * unit)).collect()
}

/// Takes up to so many of `free`, the lowest first.
fn take(chosen: &mut CpuSet, free: &CpuSet, count: u32) {
    let mut left = count;
    for cpu in free.iter() {
        if left == 0 {
            break;
        }
        if !chosen.contains(cpu) {
            chosen.insert(cpu);
            left -= 1;
        }
    }
}
