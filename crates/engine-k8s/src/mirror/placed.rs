//! What a pod that is bound has of its node.
//!
//! Kubernetes tells how many devices of a resource a pod has, not which: the lowest that nobody has
//! yet are taken for them, so that as many are left as there are.

use muster_model::placement::{DeviceGrant, NodeShare};
use muster_model::{DeviceMilli, JobId, MemoryRequest, Mib, NodeId, Request, State};
use std::collections::BTreeSet;

/// The share of a node that a pod with this request has.
pub(super) fn share(state: &State, node: NodeId, request: &Request) -> NodeShare {
    let memory = match request.memory {
        MemoryRequest::PerNode(memory) => memory,
        _ => Mib::ZERO,
    };
    NodeShare {
        node,
        tasks: 1,
        cpu_pool: request.cpus_per_task.unwrap_or(0),
        memory,
        devices: devices(state, node, request),
        gres: request.gres.clone(),
        ..NodeShare::default()
    }
}

/// The jobs on a node that have not all the devices they ask for: it has fewer than others have given
/// out, or other ones than before.
pub(super) fn lacking(state: &State, id: NodeId) -> Vec<JobId> {
    let Some(node) = state.nodes.get(&id) else { return Vec::new() };
    let lacks = |job: &&JobId| {
        let Some(job) = state.jobs.get(*job) else { return false };
        let shares = job.placement.iter().flat_map(|placement| &placement.nodes);
        let granted: Vec<u32> = shares
            .filter(|share| share.node == id)
            .flat_map(|share| share.devices.iter().map(|device| device.index))
            .collect();
        job.spec.request.gpus.iter().any(|wanted| {
            let of = node.devices.iter().filter(|d| wanted.model.as_deref() == Some(&d.model));
            let has = of.filter(|device| granted.contains(&device.index)).count();
            has < wanted.count as usize
        })
    };
    state.index.on_node.get(&id).into_iter().flatten().filter(lacks).copied().collect()
}

fn devices(state: &State, id: NodeId, request: &Request) -> Vec<DeviceGrant> {
    let Some(node) = state.nodes.get(&id).filter(|_| !request.gpus.is_empty()) else {
        return Vec::new();
    };
    let mut taken: BTreeSet<u32> = state
        .shares_on(id)
        .flat_map(|(_, share)| share.devices.iter().map(|device| device.index))
        .collect();
    let mut grants = Vec::new();
    for wanted in &request.gpus {
        let of = node.devices.iter().filter(|d| wanted.model.as_deref() == Some(&d.model));
        let free: Vec<u32> = of.map(|d| d.index).filter(|index| !taken.contains(index)).collect();
        for index in free.into_iter().take(wanted.count as usize) {
            taken.insert(index);
            let share = DeviceMilli::WHOLE;
            grants.push(DeviceGrant { index, share, ..DeviceGrant::default() });
        }
    }
    grants.sort_unstable();
    grants
}
