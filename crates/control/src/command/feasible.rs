//! Whether any nodes could ever run a request: upper bounds only, so that nothing possible is
//! refused. What is refused here Slurm refuses with "Requested node configuration is not available".

use super::shapes::{Kind, Shapes};
use super::{CommandError, gpus};
use muster_model::{
    Device, DeviceMode, DevicePolicy, GpuCount, GpuScope, JobSpec, MemoryRequest, Mib, Node,
    NodeCount, Partition, Request,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Checks that at least one of the partitions could run the job if all its nodes were empty and up.
pub(super) fn check(
    shapes: &mut Shapes,
    spec: &JobSpec,
    policy: &DevicePolicy,
    partitions: &[Arc<Partition>],
) -> Result<(), CommandError> {
    let Some((partition, lacking)) = refusal(shapes, &spec.request, policy, partitions) else {
        return Ok(());
    };
    let would_do = |change: &&(&'static str, fn(&mut Request))| {
        let mut request = spec.request.clone();
        (change.1)(&mut request);
        request != spec.request && refusal(shapes, &request, policy, partitions).is_none()
    };
    let change = CHANGES.iter().find(would_do).map(|(clause, _)| *clause);
    Err(CommandError::NeverFits { partition, lacking, change })
}

/// A change to a request: as a clause, and what it does.
type Change = (&'static str, fn(&mut Request));

/// The changes to a request that are tried for one that no nodes could run, each by itself.
const CHANGES: &[Change] = &[
    ("without --gres-flags=enforce-binding", |r| r.cpus_near_gpus = false),
    ("without --nodelist", |r| r.node_list.clear()),
    ("without --exclude", |r| r.exclude.clear()),
    ("without --constraint", |r| r.constraint = None),
    ("without --contiguous", |r| r.contiguous = false),
    ("on one node", |r| r.nodes = Some(NodeCount::exactly(1))),
    ("without a number of nodes", |r| r.nodes = None),
    ("without --ntasks-per-node", |r| r.tasks_per_node = None),
    ("with one CPU a task", |r| r.cpus_per_task = None),
    ("without a size of memory", |r| r.memory = MemoryRequest::Default),
    ("without --tmp", |r| r.scratch = Mib::ZERO),
    ("without a model of GPUs", |r| r.gpus.iter_mut().for_each(|g| g.model = None)),
    ("without --gpu-memory", |r| r.gpu_memory = None),
    ("without GPUs", |r| r.gpus.clear()),
    ("without its other --gres", |r| r.gres.clear()),
];

/// The last of the partitions with what it lacks; `None` where one of them could run the request.
fn refusal(
    shapes: &mut Shapes,
    request: &Request,
    policy: &DevicePolicy,
    partitions: &[Arc<Partition>],
) -> Option<(String, String)> {
    let mut refusal = None;
    for partition in partitions {
        let lacking = lacking(shapes, request, partition, policy)?;
        refusal = Some((partition.name.clone(), lacking));
    }
    refusal
}

/// What the partition lacks for the request, as a clause; `None` where nothing is known to lack.
/// Costs as much as there are kinds of nodes and names in the request.
fn lacking(
    shapes: &mut Shapes,
    request: &Request,
    partition: &Arc<Partition>,
    policy: &DevicePolicy,
) -> Option<String> {
    let (registered, _) = shapes.in_partition(partition, &BTreeSet::new());
    if registered < partition.nodes.len() {
        // Nodes are still to come, and what they have is not known.
        return None;
    }
    if let Some(outside) = request.node_list.iter().find(|name| !partition.nodes.contains(*name)) {
        return Some(format!("node {outside} is not in it"));
    }
    let named = request.node_list.iter().filter_map(|name| Some((name, shapes.named(name)?)));
    let unfit = named.into_iter().find_map(|(name, node)| {
        super::nearness::barred(request, name, node).or_else(|| {
            let short =
                |bound: &&Bound| (bound.has)(node, request, policy) < (bound.needs)(request);
            let bound = BOUNDS.iter().find(short)?;
            let needs =
                if bound.counted { format!("{} ", (bound.needs)(request)) } else { String::new() };
            Some(format!(
                "names node {name}, which has not the {needs}{} that it needs",
                bound.what
            ))
        })
    });
    if unfit.is_some() {
        return unfit;
    }
    let (_, all) = shapes.in_partition(partition, &BTreeSet::new());
    let all: Vec<&Node> = all.into_iter().map(|(node, _)| node).collect();
    if let Some(lacking) = gpus::lacking(&all, request, policy) {
        return Some(lacking);
    }
    let (_, mut left) = shapes.in_partition(partition, &request.exclude);
    let wanted = request.nodes_min().max(request.node_list.len() as u32);
    if (registered as u32) < wanted {
        return Some(format!("needs {}; it has {registered}", nodes(wanted)));
    }
    let found = count(&left);
    if found < wanted {
        let needs = nodes(wanted);
        return Some(format!("needs {needs} that it does not exclude; there are {found}"));
    }
    if let Some(lacking) = super::nearness::unsuited(request, &left, wanted) {
        return Some(lacking);
    }
    for bound in BOUNDS {
        let best =
            left.iter().map(|(node, _)| (bound.has)(node, request, policy)).max().unwrap_or(0);
        left.retain(|(node, _)| (bound.has)(node, request, policy) >= (bound.needs)(request));
        let found = count(&left);
        if found < wanted {
            let needs = (bound.needs)(request);
            let what = bound.what;
            return Some(match (bound.counted, wanted) {
                (false, _) => format!("needs {} {what}; there are {found}", nodes(wanted)),
                (true, 1) => {
                    format!("needs {needs} {what} on one node; the most there is on one is {best}")
                }
                (true, _) => format!("needs {wanted} nodes with {needs} {what}; there are {found}"),
            });
        }
    }
    in_total(request, &left, policy)
}

fn count(kinds: &[Kind<'_>]) -> u32 {
    kinds.iter().map(|(_, count)| count).sum()
}

fn nodes(count: u32) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

/// A bound on each node: what a node has, and what a request needs of it at the least.
struct Bound {
    what: &'static str,
    /// Amounts that a person counts; else a node either is fine or is not.
    counted: bool,
    has: fn(&Node, &Request, &DevicePolicy) -> u64,
    needs: fn(&Request) -> u64,
}

const BOUNDS: &[Bound] = &[
    Bound {
        what: "with the features that it asks for",
        counted: false,
        has: |n, r, _| u64::from(r.constraint.as_ref().is_none_or(|c| c.holds_on(&n.features))),
        needs: |r| u64::from(r.constraint.is_some()),
    },
    Bound {
        what: "where it is certain which CPUs are beside the GPUs",
        counted: false,
        has: |n, _, _| u64::from(!n.topology_uncertain),
        needs: |r| u64::from(r.cpus_near_gpus && r.wants_gpus()),
    },
    Bound { what: "CPUs", counted: true, has: |n, _, _| u64::from(n.cpus.len()), needs: cpus_each },
    Bound {
        what: "CPUs on the sockets of the GPUs that it has there",
        counted: true,
        has: |n, r, _| u64::from(cpus_near(n, r)),
        needs: |r| if r.cpus_near_gpus && gpus_each(r) > 0 { cpus_each(r) } else { 0 },
    },
    Bound { what: "MiB of memory", counted: true, has: |n, _, _| n.memory.0, needs: memory_each },
    Bound {
        what: "MiB of scratch disk",
        counted: true,
        has: |n, _, _| n.scratch.0,
        needs: |r| r.scratch.0,
    },
    Bound {
        what: "fitting GPUs",
        counted: true,
        has: |n, r, p| match gpus_spare(n, r, p) {
            Some(spare) => spare + gpus_each(r),
            // Too few: what there is, and never as much as is needed.
            None => gpus_fitting(n, r, p).min(gpus_each(r).saturating_sub(1)),
        },
        needs: gpus_each,
    },
    Bound {
        what: "with the gres that it asks for",
        counted: false,
        has: |n, r, _| {
            let enough =
                |(name, count): (&String, &u64)| n.gres.get(name).is_some_and(|has| has >= count);
            u64::from(r.gres.iter().all(enough))
        },
        needs: |r| u64::from(!r.gres.is_empty()),
    },
];

/// Tasks that every node must run at the least.
fn tasks_each(r: &Request) -> u32 {
    if r.tasks.is_some() { 1 } else { r.tasks_per_node.unwrap_or(1).max(1) }
}

fn cpus_each(r: &Request) -> u64 {
    let by_tasks = u64::from(tasks_each(r)) * u64::from(r.cpus_per_task());
    let by_gpus = gpus_each(r) * u64::from(r.cpus_per_gpu.unwrap_or(0));
    by_tasks.max(by_gpus).max(u64::from(r.cpus_per_node_min.unwrap_or(0)))
}

fn memory_each(r: &Request) -> u64 {
    match r.memory {
        MemoryRequest::Default | MemoryRequest::WholeNode => 0,
        MemoryRequest::PerNode(Mib(mib)) => mib,
        MemoryRequest::PerCpu(Mib(mib)) => mib.saturating_mul(cpus_each(r)),
        MemoryRequest::PerGpu(Mib(mib)) => mib.saturating_mul(gpus_each(r)),
    }
}

/// GPUs that every node must give at the least, all models together.
fn gpus_each(r: &Request) -> u64 {
    r.gpus.iter().map(|g| gpus_of(r, g)).sum()
}

fn gpus_of(r: &Request, gpus: &muster_model::GpuCount) -> u64 {
    let count = u64::from(gpus.count);
    match gpus.scope {
        GpuScope::Node => count,
        GpuScope::Task => count * u64::from(tasks_each(r)),
        GpuScope::Job | GpuScope::Socket => u64::from(gpus.count > 0),
    }
}

/// GPUs of the node beyond what each part of the request needs of it; `None` where a part lacks.
fn gpus_spare(node: &Node, r: &Request, policy: &DevicePolicy) -> Option<u64> {
    let mut spare = u64::MAX;
    let mut whole = node.devices.iter().filter(|d| any_units(d, r, policy)).count() as u64;
    for gpus in r.gpus.iter().filter(|g| g.count > 0) {
        let needs = gpus_of(r, gpus);
        let has = units(node, r, policy, gpus);
        spare = spare.min(has.checked_sub(needs)?);
        // Whole devices go to one count only; of one cut into instances several counts have some.
        let cut = |d: &Device| matches!(d.mode, DeviceMode::Mig(_));
        if !node.devices.iter().any(cut) {
            whole = whole.checked_sub(needs)?;
            spare = spare.min(whole);
        }
    }
    Some(if spare == u64::MAX { whole } else { spare })
}

fn any_units(device: &Device, r: &Request, policy: &DevicePolicy) -> bool {
    r.gpus.iter().any(|gpus| gpus::units(device, r, policy, gpus) > 0)
}

/// What the node, empty, could give to one count.
fn units(node: &Node, r: &Request, policy: &DevicePolicy, gpus: &GpuCount) -> u64 {
    node.devices.iter().map(|d| gpus::units(d, r, policy, gpus)).sum()
}

/// GPUs of the node that some part of the request could use.
fn gpus_fitting(node: &Node, r: &Request, policy: &DevicePolicy) -> u64 {
    let most = |d: &Device| r.gpus.iter().map(|gpus| gpus::units(d, r, policy, gpus)).max();
    node.devices.iter().filter_map(most).sum()
}

/// Bounds over all nodes of the job together: as many as it may have, the largest first.
fn in_total(request: &Request, nodes: &[Kind<'_>], policy: &DevicePolicy) -> Option<String> {
    let most = request.nodes.as_ref().map_or(u32::MAX, muster_model::NodeCount::most);
    let best = |has: &dyn Fn(&Node) -> u64| -> u64 {
        let mut amounts: Vec<(u64, u32)> =
            nodes.iter().map(|(node, count)| (has(node), *count)).collect();
        amounts.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = most;
        let mut sum = 0_u64;
        for (amount, count) in amounts {
            let taken = count.min(left);
            left -= taken;
            sum = sum.saturating_add(amount.saturating_mul(u64::from(taken)));
        }
        sum
    };
    if let Some(tasks) = request.tasks {
        let room = best(&|n| tasks_room(n, request, policy));
        if room < u64::from(tasks) {
            return Some(format!(
                "needs room for {tasks} tasks of {} CPUs; there is room for {room}",
                request.cpus_per_task()
            ));
        }
    }
    for gpus in request.gpus.iter().filter(|g| g.scope == GpuScope::Job) {
        let room = best(&|n| units(n, request, policy, gpus));
        if room < u64::from(gpus.count) {
            let count = gpus.count;
            return Some(format!("needs {count} fitting GPUs in total; there are {room}"));
        }
    }
    None
}

/// The most CPUs of a node that are on the sockets of GPUs that the request could have there.
fn cpus_near(node: &Node, r: &Request) -> u32 {
    let most = r.gpus.iter().map(|g| match g.scope {
        GpuScope::Job | GpuScope::Node => g.count as usize,
        GpuScope::Task | GpuScope::Socket => node.devices.len(),
    });
    let most = most.fold(0, usize::saturating_add);
    let socket = |device: &Device| {
        let domain = node.numa.iter().find(|domain| Some(domain.id) == device.numa)?;
        Some(domain.socket)
    };
    let sockets: Option<BTreeSet<u32>> = node.devices.iter().map(socket).collect();
    // Where a GPU's place is not known, it is near to all.
    let Some(sockets) = sockets.filter(|sockets| !sockets.is_empty()) else {
        return node.cpus.len();
    };
    let cpus = |socket: &u32| -> u32 {
        node.numa.iter().filter(|d| d.socket == *socket).map(|d| d.cpus.len()).sum()
    };
    let mut cpus: Vec<u32> = sockets.iter().map(cpus).collect();
    cpus.sort_unstable_by(|a, b| b.cmp(a));
    cpus.into_iter().take(most).sum()
}

/// How many tasks an empty node could run, by CPUs, memory for each CPU and GPUs for each task.
fn tasks_room(node: &Node, r: &Request, policy: &DevicePolicy) -> u64 {
    let cpus = match r.cpus_near_gpus && r.gpus.iter().any(|g| g.count > 0) {
        true => cpus_near(node, r),
        false => node.cpus.len(),
    };
    let by_cpus = cpus.checked_div(r.cpus_per_task()).map_or(u64::MAX, u64::from);
    let by_memory = match r.memory {
        MemoryRequest::PerCpu(Mib(mib)) if mib > 0 => {
            node.memory.0 / mib.saturating_mul(u64::from(r.cpus_per_task().max(1)))
        }
        _ => u64::MAX,
    };
    let by_node = r.tasks_per_node.map_or(u64::MAX, u64::from);
    let by_gpus = r
        .gpus
        .iter()
        .filter(|g| g.scope == GpuScope::Task && g.count > 0)
        .map(|g| units(node, r, policy, g) / u64::from(g.count))
        .min()
        .unwrap_or(u64::MAX);
    by_cpus.min(by_memory).min(by_node).min(by_gpus)
}
