//! Nodes, partitions and who may use them.

use super::limit_s;
use crate::step::fold_hosts;
use crate::{
    DeviceView, ForeignView, LicenceHeldView, LicenceView, NodeJob, NodeState, NodeView,
    PartitionView, SwitchView,
};
use muster_model::placement::DeviceGrant;
use muster_model::sharing::DeviceMode;
use muster_model::{
    Availability, CpuSet, Job, LinkKind, Mib, Node, NodeShare, Partition, PartitionState,
    Reservation, ReservationFlag, State,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl NodeView {
    /// A node with the jobs on it.
    pub fn of(state: &State, node: &Node) -> Self {
        let on_node: Vec<_> = state.shares_on(node.id).collect();
        let mut cpus = CpuSet::new();
        let mut memory = Mib::ZERO;
        for (_, share) in &on_node {
            cpus.add_all(&share.cpus);
            memory = memory.plus(share.memory);
        }
        let devices = devices(node, &on_node);
        let whole = on_node.iter().any(|(_, share)| share.exclusive);
        let (reason, since) = why(node);
        let reserved = reserved(state, node);
        let sockets = node.sockets();
        let threads = node.threads_per_core.max(1);
        Self {
            id: node.id.0,
            name: node.name.clone(),
            engine: node.engine.to_string(),
            state: match node.availability {
                Availability::Down { .. } => NodeState::Down,
                Availability::Up if on_node.is_empty() => NodeState::Idle,
                Availability::Up if whole || cpus.len() >= node.cpus.len() => NodeState::Allocated,
                Availability::Up => NodeState::Mixed,
            },
            drain: node.drain.is_some(),
            maintenance: reserved.is_some_and(|r| r.has(ReservationFlag::Maint)),
            reservation: reserved.map(|r| r.name.clone()),
            reason,
            reason_by: node.drain.as_ref().map(|d| d.by.clone()).unwrap_or_default(),
            reason_since_ms: since,
            partitions: partitions_of(state, node),
            cpus: node.cpus.len(),
            cpus_used: cpus.len(),
            sockets,
            cores_per_socket: (node.cpus.len() / threads / sockets).max(1),
            threads_per_core: threads,
            memory_mib: node.memory.0,
            memory_used_mib: memory.0,
            scratch_mib: node.scratch.0,
            gpus_used: devices.iter().filter(|d| !d.jobs.is_empty()).count() as u32,
            devices,
            gres: node.gres.clone(),
            features: node.features.clone(),
            weight: node.weight,
            practice: node.practice,
            foreign: node.foreign.iter().map(Into::into).collect(),
            jobs: on_node.iter().map(|(job, _)| NodeJob::from(job.as_ref())).collect(),
            boot: node.boot.clone(),
        }
    }
}

/// The reservation that has all of a node now: one for maintenance where there is one, whichever is
/// looked at first (case S-29).
fn reserved<'a>(state: &'a State, node: &Node) -> Option<&'a Reservation> {
    let here = state.reservations.values().map(AsRef::as_ref).filter(|r: &&Reservation| {
        r.is_active(state.now) && r.on(node.id).is_some_and(|n| n.part.is_none())
    });
    here.min_by_key(|r| (!r.has(ReservationFlag::Maint), &r.name))
}

fn devices(node: &Node, on_node: &[(&Arc<Job>, &NodeShare)]) -> Vec<DeviceView> {
    let mut holders: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut grants: BTreeMap<u32, Vec<DeviceGrant>> = BTreeMap::new();
    for (job, share) in on_node {
        for grant in &share.devices {
            let jobs = holders.entry(grant.index).or_default();
            if jobs.last() != Some(&job.id.0) {
                jobs.push(job.id.0);
            }
            grants.entry(grant.index).or_default().push(*grant);
        }
    }
    let of = |d: &muster_model::Device| grants.get(&d.index).map(Vec::as_slice).unwrap_or_default();
    let instance = |d: &muster_model::Device, grant: &DeviceGrant| {
        let slot = grant.mig?;
        Some(format!("{} at {}", d.profile_name(slot).unwrap_or("instance"), slot.start))
    };
    let view = |d: &muster_model::Device| DeviceView {
        index: d.index,
        model: d.model.clone(),
        product: d.product.clone(),
        uuid: d.uuid.clone(),
        memory_mib: d.memory.0,
        jobs: holders.remove(&d.index).unwrap_or_default(),
        mode: match &d.mode {
            DeviceMode::Whole => String::new(),
            DeviceMode::Shared(sharing) => sharing.isolation.to_string(),
            DeviceMode::Mig(_) => "mig".to_owned(),
        },
        pieces: match &d.mode {
            DeviceMode::Shared(sharing) => sharing.pieces,
            DeviceMode::Whole | DeviceMode::Mig(_) => 0,
        },
        share_used: of(d).iter().map(|g| g.share.0).sum(),
        memory_used_mib: of(d).iter().map(|g| g.memory.0).sum(),
        instances: of(d).iter().filter_map(|grant| instance(d, grant)).collect(),
        unhealthy: d.unhealthy.clone().unwrap_or_default(),
        numa: d.numa,
        joined: d.links.iter().filter(|l| joins(l.kind)).map(|l| l.peer).collect(),
    };
    node.devices.iter().map(view).collect()
}

fn joins(kind: LinkKind) -> bool {
    matches!(kind, LinkKind::NvLink(_))
}

fn why(node: &Node) -> (String, Option<muster_model::Timestamp>) {
    match (&node.availability, &node.drain) {
        (Availability::Down { reason, since }, _) => (reason.clone(), Some(*since)),
        (Availability::Up, Some(drain)) => (drain.reason.clone(), Some(drain.since)),
        (Availability::Up, None) => (String::new(), None),
    }
}

fn partitions_of(state: &State, node: &Node) -> Vec<String> {
    let inside = state.partitions.values().filter(|p| p.nodes.contains(&node.name));
    inside.map(|p| p.name.clone()).collect()
}

impl From<&muster_model::ForeignUse> for ForeignView {
    fn from(foreign: &muster_model::ForeignUse) -> Self {
        Self {
            device: foreign.device,
            memory_mib: foreign.memory.0,
            owner: foreign.owner.clone(),
            what: foreign.what.clone(),
        }
    }
}

impl From<&Job> for NodeJob {
    fn from(job: &Job) -> Self {
        Self { id: job.id.0, job: job.display_id(), user: job.spec.owner.user.clone() }
    }
}

impl PartitionView {
    /// A partition with what its registered nodes have in total.
    pub fn of(state: &State, partition: &Partition) -> Self {
        let nodes: Vec<&Arc<Node>> = state.partition_nodes(partition).collect();
        let names: Vec<String> = nodes.iter().map(|n| n.name.clone()).collect();
        Self {
            name: partition.name.clone(),
            default: partition.default,
            state: match partition.state {
                PartitionState::Up => "up",
                PartitionState::Down => "down",
                PartitionState::Drain => "drain",
                PartitionState::Inactive => "inactive",
            }
            .to_owned(),
            node_list: fold_hosts(&names),
            nodes: names,
            cpus: nodes.iter().map(|n| n.cpus.len()).sum(),
            gpus: nodes.iter().map(|n| n.devices.len() as u32).sum(),
            max_time_s: limit_s(partition.max_time),
            default_time_s: limit_s(partition.default_time()),
            max_nodes: partition.max_nodes,
            min_nodes: partition.min_nodes,
            default_memory_per_cpu_mib: partition.default_memory_per_cpu.map(|m| m.0),
            default_memory_per_node_mib: partition.default_memory_per_node.map(|m| m.0),
            max_memory_per_cpu_mib: partition.max_memory_per_cpu.map(|m| m.0),
            tier: partition.tier,
            sharers: partition.sharers,
            priority: partition.priority,
            allow_accounts: partition.allow_accounts.clone(),
        }
    }
}

impl LicenceView {
    /// Every licence with what running jobs hold of it.
    pub fn all(state: &State) -> Vec<Self> {
        let mut used: BTreeMap<&str, u32> = BTreeMap::new();
        for job in state.index.active.iter().filter_map(|id| state.job(*id)) {
            for (name, count) in job.placement.iter().flat_map(|p| &p.licences) {
                *used.entry(name).or_default() += count;
            }
        }
        let view = |l: &muster_model::Licence| Self {
            name: l.name.clone(),
            total: l.total,
            used: used.get(l.name.as_str()).copied().unwrap_or(0),
            held: l.hold.as_ref().map(|hold| LicenceHeldView {
                filesystem: hold.filesystem.clone(),
                figure: hold.figure.clone(),
                since_ms: hold.since,
            }),
        };
        state.licences.values().map(view).collect()
    }
}

impl SwitchView {
    /// Every switch, rack or block with nodes, the lowest level first.
    pub fn all(state: &State) -> Vec<Self> {
        let nodes: Vec<&Node> = state.nodes.values().map(AsRef::as_ref).collect();
        let paths = state.topology.paths(&nodes);
        let mut below: BTreeMap<(u32, &str), BTreeSet<&str>> = BTreeMap::new();
        for node in &nodes {
            let path = paths.get(&node.id).into_iter().flatten();
            for (level, name) in path.enumerate().filter_map(|(l, name)| Some((l, (*name)?))) {
                below.entry((level as u32, name)).or_default().insert(&node.name);
            }
        }
        let view = |((level, name), nodes): ((u32, &str), BTreeSet<&str>)| Self {
            name: name.to_owned(),
            level,
            level_name: state.topology.level_name(level as usize),
            link_mbs: state.topology.link(level as usize, name).0,
            node_list: fold_hosts(&nodes.into_iter().collect::<Vec<_>>()),
        };
        below.into_iter().map(view).collect()
    }
}
