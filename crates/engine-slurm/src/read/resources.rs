//! What a job has on its nodes.

use super::jobs::JobRecord;
use super::json::{Number, Words};
use super::nodes::entries;
use muster_model::{
    CpuSet, DeviceGrant, DeviceMilli, Exclusive, JobSpec, Mib, Node, NodeId, NodeShare, Placement,
};
use muster_slurm_syntax::{hostlist, tres};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// `job_resources`: to 23.02 with `allocated_nodes`, later with `nodes.allocation`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resources {
    allocated_nodes: Option<Vec<OneNode>>,
    nodes: Option<Nodes>,
}

/// A host list, or an object that holds one.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Nodes {
    Detailed {
        #[serde(default)]
        allocation: Vec<OneNode>,
    },
    Other(serde::de::IgnoredAny),
}

/// One node of a job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OneNode {
    nodename: Words,
    name: Words,
    memory_allocated: Number,
    memory: Option<Memory>,
    sockets: Option<Sockets>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Memory {
    allocated: Number,
}

/// By number, or as a list of objects with an `index`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Sockets {
    ByNumber(BTreeMap<String, Socket>),
    List(Vec<Socket>),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Socket {
    index: u32,
    cores: Option<Cores>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Cores {
    ByNumber(BTreeMap<String, Words>),
    List(Vec<Core>),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Core {
    index: u32,
    status: Words,
}

/// Members whose names are numbers.
fn numbered<T>(members: &BTreeMap<String, T>) -> impl Iterator<Item = (u32, &T)> {
    members.iter().filter_map(|(name, member)| Some((name.parse().ok()?, member)))
}

impl Sockets {
    /// The cores that the job has, as (socket, core of it).
    fn cores(&self) -> Vec<(u32, u32)> {
        let sockets: Vec<(u32, &Socket)> = match self {
            Self::ByNumber(sockets) => numbered(sockets).collect(),
            Self::List(sockets) => sockets.iter().map(|socket| (socket.index, socket)).collect(),
        };
        let mut found = Vec::new();
        for (at, socket) in sockets {
            let has = |status: &Words| status.has("allocated");
            match &socket.cores {
                Some(Cores::ByNumber(cores)) => {
                    found.extend(numbered(cores).filter(|c| has(c.1)).map(|(core, _)| (at, core)));
                }
                Some(Cores::List(cores)) => {
                    found.extend(cores.iter().filter(|c| has(&c.status)).map(|c| (at, c.index)));
                }
                None => {}
            }
        }
        found
    }
}

/// The nodes that jobs are put on, with what of their CPUs is taken so far.
pub(super) struct Taken<'a> {
    nodes: BTreeMap<&'a str, &'a Node>,
    cpus: BTreeMap<NodeId, CpuSet>,
    devices: BTreeMap<NodeId, u128>,
}

impl<'a> Taken<'a> {
    pub(super) fn of(nodes: &'a [Node]) -> Self {
        let nodes = nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        Self { nodes, cpus: BTreeMap::new(), devices: BTreeMap::new() }
    }

    /// Where a job runs. What Slurm does not tell (the cores, without detail; which GPUs) is taken
    /// from what is free, in order.
    pub(super) fn placement(
        &mut self,
        job: &JobRecord,
        spec: &JobSpec,
    ) -> Result<Arc<Placement>, String> {
        let names = hostlist::expand(&job.nodes.joined(), hostlist::HOSTS_MAX);
        let names = names.map_err(|problem| problem.what)?;
        let count = names.len().max(1) as u64;
        let detail: Vec<OneNode> = match &job.job_resources {
            Some(Resources { allocated_nodes: Some(nodes), .. }) => nodes.clone(),
            Some(Resources { nodes: Some(Nodes::Detailed { allocation }), .. }) => {
                allocation.clone()
            }
            _ => Vec::new(),
        };
        let whole = spec.request.exclusive == Exclusive::Node;
        let mut shares = Vec::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            let Some(node) = self.nodes.get(name.as_str()).copied() else {
                return Err(format!("it runs on {name}, which is no node"));
            };
            let told = detail.iter().find(|n| n.nodename.has(name) || n.name.has(name));
            let each = job.cpus.get().unwrap_or(count).div_ceil(count) as u32;
            let cpus = match told.and_then(|n| n.sockets.as_ref()) {
                _ if whole => node.cpus.clone(),
                Some(sockets) => cpus_of(node, &sockets.cores()),
                None => self.free_cpus(node, each),
            };
            let memory = told.and_then(|n| {
                n.memory_allocated.get().or_else(|| n.memory.as_ref()?.allocated.get())
            });
            let memory = memory.or_else(|| Some(memory_asked(job)? / count)).unwrap_or(0);
            let devices = self.devices(node, job.gres_detail.0.get(at).map(String::as_str));
            self.cpus.entry(node.id).or_default().add_all(&cpus);
            shares.push(NodeShare {
                node: node.id,
                tasks: (job.tasks.get().unwrap_or(count) / count).max(1) as u32,
                cpus,
                memory: Mib(memory),
                devices,
                exclusive: whole,
                ..NodeShare::default()
            });
        }
        let licences = spec.request.licences.iter().map(|l| (l.name.clone(), l.count)).collect();
        Ok(Arc::new(Placement {
            partition: spec.partitions.first().cloned().unwrap_or_default(),
            nodes: shares,
            licences,
            reservation: spec.request.reservation.clone(),
        }))
    }

    fn free_cpus(&self, node: &Node, count: u32) -> CpuSet {
        let mut free = node.cpus.clone();
        if let Some(taken) = self.cpus.get(&node.id) {
            free.remove_all(taken);
        }
        free.iter().take(count as usize).collect()
    }

    /// `gpu:h100:2(IDX:0-1)`, or without the indices.
    fn devices(&mut self, node: &Node, detail: Option<&str>) -> Vec<DeviceGrant> {
        let taken = self.devices.entry(node.id).or_default();
        let mut chosen: Vec<u32> = Vec::new();
        for entry in entries(detail.unwrap_or_default()) {
            let (what, indices) = entry.split_once("(IDX:").unwrap_or((entry, ""));
            let parts: Vec<&str> = what.split(':').collect();
            if parts.first() != Some(&"gpu") {
                continue;
            }
            let of_model = |index: &u32| {
                let model = node.devices.get(*index as usize).map(|d| d.model.as_str());
                parts.len() < 3 || model.is_some_and(|m| m.eq_ignore_ascii_case(parts[1]))
            };
            let listed = CpuSet::parse(indices.trim_end_matches(')')).unwrap_or_default();
            if listed.is_empty() {
                let wanted: usize = parts.last().and_then(|n| n.parse().ok()).unwrap_or(0);
                let free = |index: &u32| *taken & (1 << index) == 0;
                let all = (0..node.devices.len().min(128) as u32).filter(of_model);
                chosen.extend(all.filter(free).take(wanted));
            } else {
                chosen
                    .extend(listed.iter().filter(|i| (*i as usize) < node.devices.len().min(128)));
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        *taken |= chosen.iter().fold(0, |mask, index| mask | 1 << index);
        let grant = |index: u32| {
            let memory = node.devices.get(index as usize).map_or(Mib::ZERO, |d| d.memory);
            DeviceGrant { index, share: DeviceMilli::WHOLE, memory, mig: None }
        };
        chosen.into_iter().map(grant).collect()
    }
}

/// All hardware threads of some cores, as Slurm numbers them: socket by socket, core by core.
fn cpus_of(node: &Node, cores: &[(u32, u32)]) -> CpuSet {
    let threads = node.threads_per_core.max(1);
    let sockets = node.sockets();
    // Cores kept for the system are the last ones, so a socket's share comes from the first.
    let per_socket =
        node.numa.first().map_or(node.cpus.len() / sockets, |n| n.cpus.len()) / threads;
    let first = |(socket, core): &(u32, u32)| (socket * per_socket + core) * threads;
    let cpus = cores.iter().flat_map(|core| (0..threads).map(move |t| first(core) + t));
    cpus.filter(|cpu| node.cpus.contains(*cpu)).collect()
}

/// Memory of the whole job, where Slurm says so.
fn memory_asked(job: &JobRecord) -> Option<u64> {
    let list = tres::parse(&job.tres_req_str.joined()).ok()?;
    list.iter().find(|t| t.kind == "mem").map(|t| t.amount)
}
