//! What a job lacks, in numbers: now, and on an empty cluster.

use crate::ask::{Ask, Tasks};
use crate::free::{NodeView, Span, bits, effective_end};
use crate::world::World;
use muster_model::{Exclusive, JobId, Mib, NodeId, Reason, Timestamp};
use std::collections::BTreeSet;

/// At most so many jobs or nodes are named in a reason.
pub(crate) const NAMED_MAX: usize = 8;

/// What the least part of a job needs on one node: with all tasks where it is to be on one.
struct Least {
    cpus: u32,
    memory: u64,
    gpus: u32,
}

fn least_on(ask: &Ask, view: &NodeView, whole: bool) -> Least {
    let (tasks, share) = match (whole, ask.tasks) {
        (true, Tasks::Total(total)) => (total, ask.job_gpus.iter().map(|g| g.1).collect()),
        (true, _) => (1, ask.job_gpus.iter().map(|g| g.1).collect()),
        (false, _) => (1, ask.least_gpus()),
    };
    let need = ask.need(view, tasks, &share);
    let gpus = need.gpus.iter().map(|g| g.1).fold(0, u32::saturating_add);
    Least { cpus: need.cpus, memory: need.memory, gpus }
}

/// Devices of a mask that the job could use: of its models, with enough memory.
fn usable_gpus(ask: &Ask, view: &NodeView, mask: u128) -> u32 {
    let models = ask.models();
    let fits_model = |index: u32| {
        models.is_empty()
            || view
                .models
                .iter()
                .any(|(m, mask)| mask & crate::free::bit(index) != 0 && models.contains(m.as_str()))
    };
    bits(ask.big_enough(view, mask)).filter(|i| fits_model(*i)).count() as u32
}

/// The nodes of the partition that the request does not rule out by name or feature.
fn nodes_for<'a>(world: &'a World, ask: &'a Ask) -> impl Iterator<Item = &'a NodeView> {
    let members = world.members(&ask.partition.name);
    let list: &[usize] = members.map_or(&[], |m| m.list());
    list.iter().map(|at| world.view(*at)).filter(|view| {
        let named = &ask.request.node_list;
        // A job on one named node can only go there.
        let on_named = named.len() != 1 || ask.can_be_spread() || named.contains(&view.node.name);
        on_named
            && ask.may_use(view)
            && ask.alternatives.iter().any(|a| a.admits(&view.node.features))
    })
}

/// What is in use of what the job needs, where it could go, and by whom.
///
/// `nodes` is how many nodes it would take; `start` and `promised` are those of its promise.
pub(crate) fn in_use(
    world: &World,
    ask: &Ask,
    now: Timestamp,
    nodes: u32,
    start: Option<Timestamp>,
    promised: &[NodeId],
) -> Reason {
    let span = Span::of(now, now, ask.limit);
    let mut best = (0u64, 0u64, 0u64);
    let mut short = (0u32, 0u32, 0u32);
    let mut fitting = 0u32;
    // Some node would do but is another's alone.
    let mut closed = false;
    let mut wanted = Least { cpus: 0, memory: 0, gpus: 0 };
    for view in nodes_for(world, ask) {
        let avail = view.avail(span);
        let least = least_on(ask, view, nodes == 1);
        let gpus = usable_gpus(ask, view, avail.devices);
        let lacks = (least.gpus > gpus, least.cpus > avail.cpus, least.memory > avail.memory);
        short.0 += u32::from(lacks.0);
        short.1 += u32::from(lacks.1);
        short.2 += u32::from(lacks.2);
        best.0 = best.0.max(u64::from(gpus));
        best.1 = best.1.max(u64::from(avail.cpus));
        best.2 = best.2.max(avail.memory);
        let admitted = view.admits(span, ask.kind(), ask.uid);
        let has_all = lacks == (false, false, false);
        fitting += u32::from(admitted && has_all);
        closed |= has_all && !admitted;
        wanted = Least {
            cpus: wanted.cpus.max(least.cpus),
            memory: wanted.memory.max(least.memory),
            gpus: wanted.gpus.max(least.gpus),
        };
    }
    let (resource, wanted, free) = if nodes > 1 || closed || ask.kind() != Exclusive::No {
        ("nodes", u64::from(nodes), u64::from(fitting))
    } else if short.0 > 0 && short.0 >= short.1.max(short.2) {
        ("gpus", u64::from(wanted.gpus), best.0)
    } else if short.1 > 0 && short.1 >= short.2 {
        ("cpus", u64::from(wanted.cpus), best.1)
    } else if short.2 > 0 {
        ("memory", wanted.memory, best.2)
    } else {
        ("nodes", u64::from(nodes), u64::from(fitting))
    };
    Reason::Resources {
        resource: resource.to_owned(),
        wanted,
        free,
        nodes,
        held_by: held_by(world, ask, now, start, promised),
        start: start.filter(|at| *at != Timestamp::NEVER),
    }
}

/// The jobs on the promised nodes (or on all that it could use), soonest end first.
fn held_by(
    world: &World,
    ask: &Ask,
    now: Timestamp,
    start: Option<Timestamp>,
    promised: &[NodeId],
) -> Vec<JobId> {
    let mut holders: BTreeSet<(Timestamp, JobId)> = BTreeSet::new();
    for view in nodes_for(world, ask) {
        if !promised.is_empty() && !promised.contains(&view.node.id) {
            continue;
        }
        for held in &view.holdings {
            let end = effective_end(held.end, now);
            if start.is_none_or(|at| end <= at) {
                holders.insert((end, held.job));
                if holders.len() > NAMED_MAX {
                    holders.pop_last();
                }
            }
        }
    }
    // One job may be on several nodes.
    holders.into_iter().map(|(_, job)| job).collect()
}

/// Why no node of the partition could ever do, even if all were up and empty. `bare` is the world
/// with nothing on it.
pub(crate) fn never(bare: &World, ask: &Ask) -> Reason {
    let partition = ask.partition.name.clone();
    let wanted = ask.node_bounds().map_or(1, |b| b.0);
    let largest_gpu = bare
        .members(&partition)
        .map_or(&[][..], |m| m.list())
        .iter()
        .flat_map(|at| &bare.view(*at).node.devices)
        .map(|d| d.memory)
        .max();
    if let (Some(least), Some(largest)) = (ask.request.gpu_memory, largest_gpu)
        && least > largest
    {
        return Reason::GpuMemory { wanted: least, largest };
    }
    let found = nodes_for(bare, ask).count() as u32;
    let lacking = lacking(bare, ask, wanted, found);
    Reason::NoNodeFits { partition, wanted, found, lacking }
}

fn lacking(bare: &World, ask: &Ask, wanted: u32, found: u32) -> String {
    let absent: Vec<&String> =
        ask.request.node_list.iter().filter(|name| bare.node_named(name).is_none()).collect();
    if let Some(name) = absent.first() {
        return format!("there is no node {name}");
    }
    if found == 0 {
        return match &ask.request.constraint {
            Some(constraint) => format!("no node satisfies the constraint {constraint}"),
            None => "no node is left by the names and disk it asks for".to_owned(),
        };
    }
    let whole = ask.node_bounds().is_some_and(|b| b.1 == 1);
    let mut most = Least { cpus: 0, memory: 0, gpus: 0 };
    let mut least = Least { cpus: u32::MAX, memory: u64::MAX, gpus: u32::MAX };
    for view in nodes_for(bare, ask) {
        let need = least_on(ask, view, whole);
        least = Least {
            cpus: least.cpus.min(need.cpus),
            memory: least.memory.min(need.memory),
            gpus: least.gpus.min(need.gpus),
        };
        most = Least {
            cpus: most.cpus.max(view.base_cpu_count),
            memory: most.memory.max(view.base_memory),
            gpus: most.gpus.max(usable_gpus(ask, view, view.base_devices)),
        };
    }
    if least.gpus > most.gpus {
        let models = ask.models();
        let there: BTreeSet<&str> =
            nodes_for(bare, ask).flat_map(|v| v.models.iter().map(|m| m.0.as_str())).collect();
        if let Some(absent) = models.iter().find(|m| !there.contains(*m)) {
            let list = there.into_iter().collect::<Vec<_>>().join(", ");
            let list = if list.is_empty() { "none".to_owned() } else { list };
            return format!("needs GPUs of model {absent}; its nodes have {list}");
        }
        let gpus = if least.gpus == 1 { "GPU" } else { "GPUs" };
        return format!(
            "needs {} {gpus} on one node; the largest node has {}",
            least.gpus, most.gpus
        );
    }
    if least.cpus > most.cpus {
        return format!(
            "needs {} CPUs on one node; the largest node has {}",
            least.cpus, most.cpus
        );
    }
    if least.memory > most.memory {
        return format!(
            "needs {} of memory on one node; the largest node has {}",
            Mib(least.memory),
            Mib(most.memory)
        );
    }
    if let Some((name, count)) = ask.request.gres.iter().find(|(name, count)| {
        nodes_for(bare, ask).all(|v| v.node.gres.get(*name).copied().unwrap_or(0) < **count)
    }) {
        return format!("needs {count} of {name} on one node; no node has so many");
    }
    if wanted > found {
        return format!("needs {wanted} nodes; there are {found}");
    }
    "no set of its nodes gives all that it asks for together".to_owned()
}

/// The nodes that would do but are down or drained, by name.
pub(crate) fn unavailable(world: &World, bare: &World, ask: &Ask) -> Vec<String> {
    nodes_for(bare, ask)
        .filter(|view| {
            let at = world.node_named(&view.node.name);
            at.is_some_and(|at| !world.view(at).usable)
        })
        .filter(|view| {
            let named = &ask.request.node_list;
            named.is_empty() || named.contains(&view.node.name)
        })
        .take(NAMED_MAX)
        .map(|view| view.node.name.clone())
        .collect()
}
