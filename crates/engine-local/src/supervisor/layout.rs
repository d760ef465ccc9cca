//! Where a step's tasks go inside the allocation. Pure: a request and what is busy, in; a layout, a
//! wait or a refusal, out.

use std::borrow::Cow;
use std::collections::BTreeSet;

use muster_api::step::{CpuBind, StepGpus, StepSpec, TASKS_MAX};
use muster_model::{CpuBindKind, GpuBindKind, NodeOrder};

use crate::spec::{CpuPlace, NodeShare, TaskLayout};

mod cpus;
mod gpus;
mod order;

/// What a step is laid out in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocation<'a> {
    /// The job's nodes.
    pub(super) nodes: &'a [NodeShare],
    /// How its tasks lie on them.
    pub(super) job: &'a TaskLayout,
    /// It can open its own GPUs only, which are then counted from 0.
    pub(super) gpus_fenced: bool,
}

/// Which CPUs and GPUs of the allocation steps hold now, by position in each node's share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Busy {
    pub(super) nodes: Vec<BusyNode>,
}

/// One node's part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BusyNode {
    pub(super) cpus: Vec<bool>,
    pub(super) gpus: Vec<bool>,
    /// The job is giving it up: no step gets anything there.
    pub(super) given_up: bool,
}

impl Busy {
    /// Nothing is held.
    pub(super) fn none(nodes: &[NodeShare]) -> Self {
        let node = |n: &NodeShare| BusyNode {
            cpus: vec![false; n.cpus as usize],
            gpus: vec![false; n.gpus.len()],
            given_up: false,
        };
        Self { nodes: nodes.iter().map(node).collect() }
    }

    /// Marks what a step takes or gives back.
    pub(super) fn mark(&mut self, layout: &Layout, busy: bool) {
        if layout.overlap {
            return;
        }
        for part in &layout.parts {
            let node = &mut self.nodes[part.share];
            for cpu in &part.cpus {
                node.cpus[*cpu] = busy;
            }
            for gpu in &part.gpus {
                node.gpus[*gpu] = busy;
            }
        }
    }
}

/// A step's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Its nodes in the allocation's order.
    pub(super) parts: Vec<Part>,
    /// For each task: the position of its node in `parts` and its number there.
    pub(super) places: Vec<(usize, u32)>,
    /// It shares what it has and so holds nothing.
    pub(super) overlap: bool,
}

/// A step's part on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The node's position in the allocation.
    pub(super) share: usize,
    /// Tasks there.
    pub(super) tasks: u32,
    /// Positions of its CPUs.
    pub(super) cpus: Vec<usize>,
    /// Positions of its GPUs.
    pub(super) gpus: Vec<usize>,
    /// The CPUs that each task may run on, by its number there.
    pub(super) task_cpus: Vec<Vec<usize>>,
    /// The GPUs that each task sees.
    pub(super) task_gpus: Vec<Vec<usize>>,
}

/// Why there is no layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoLayout {
    /// Never in this allocation.
    Refused { code: &'static str, message: String },
    /// Not while other steps hold what it needs.
    Wait { reason: String },
}

/// Lays a step out, now or later or never.
pub(super) fn lay_out(
    spec: &StepSpec,
    allocation: Allocation<'_>,
    busy: &Busy,
) -> Result<Layout, NoLayout> {
    let none = Busy::none(allocation.nodes);
    let seen = if spec.overlap { &none } else { busy };
    let spec = &*settled(spec);
    match place(spec, allocation, seen) {
        Err(NoLayout::Refused { .. }) if place(spec, allocation, &none).is_ok() => {
            Err(NoLayout::Wait { reason: "the job's other steps hold its CPUs or GPUs".to_owned() })
        }
        other => other,
    }
}

fn refused(code: &'static str, message: String) -> NoLayout {
    NoLayout::Refused { code, message }
}

/// What follows from several options together: GPUs from tasks (`--ntasks-per-gpu` with a number of
/// tasks, srun manual), and a task for each host of a list.
fn settled(spec: &StepSpec) -> Cow<'_, StepSpec> {
    let mut spec = Cow::Borrowed(spec);
    if let (Some(per_gpu), Some(tasks), None) = (spec.tasks_per_gpu, spec.tasks, spec.gpus) {
        spec.to_mut().gpus = Some(StepGpus::Step(tasks.div_ceil(per_gpu.max(1))));
    }
    if spec.distribution.nodes == NodeOrder::Arbitrary && !spec.hosts.is_empty() {
        let count = spec.hosts.len() as u32;
        let spec = spec.to_mut();
        let tasks = *spec.tasks.get_or_insert(count);
        spec.hosts.truncate(tasks as usize);
        spec.nodelist.clone_from(&spec.hosts);
        (spec.nodes_min, spec.nodes_max) = (None, None);
    }
    spec
}

fn place(spec: &StepSpec, allocation: Allocation<'_>, busy: &Busy) -> Result<Layout, NoLayout> {
    let nodes = allocation.nodes;
    let candidates = candidates(spec, nodes)?;
    let own_cpus = spec.exact || spec.cpus_per_task.is_some();
    let per_task = spec.cpus_per_task.unwrap_or(1).max(1);
    let usable: Vec<Room> = candidates
        .iter()
        .filter_map(|at| room(*at, &nodes[*at], &busy.nodes[*at], spec, (own_cpus, per_task)))
        .collect();
    let (node_count, tasks) = counts(spec, &candidates, &usable, nodes)?;
    if usable.len() < node_count {
        let message = format!("the step wants {node_count} nodes, {} can take tasks", usable.len());
        return Err(refused("step.too_many_nodes", message));
    }
    let chosen = choose(&usable, node_count, tasks);
    let (split, places) = lay_tasks(spec, allocation, &chosen, tasks)?;
    let gpus = gpus::split(spec, nodes, &chosen, &split)?;
    let mut parts = Vec::new();
    for ((room, tasks), gpus) in chosen.iter().zip(&split).zip(gpus) {
        let share = &nodes[room.share];
        let places = cpus::places(share);
        let node = Laid { spec, share, places: &places, tasks: *tasks, own_cpus, per_task };
        parts.push(node.part(room, gpus, allocation.gpus_fenced)?);
    }
    Ok(Layout { parts, places, overlap: spec.overlap })
}

/// How many tasks each chosen node takes, and which.
fn lay_tasks(
    spec: &StepSpec,
    allocation: Allocation<'_>,
    chosen: &[Room],
    tasks: u32,
) -> Result<(Vec<u32>, order::Places), NoLayout> {
    let nodes = allocation.nodes;
    let most: u32 = chosen.iter().fold(0, |sum, r| sum.saturating_add(r.tasks));
    if tasks > most {
        let message = format!("the step wants {tasks} tasks, its nodes can take {most}");
        return Err(refused("step.too_many_tasks", message));
    }
    if spec.distribution.nodes == NodeOrder::Arbitrary && !spec.hosts.is_empty() {
        let names: Vec<&str> = chosen.iter().map(|r| nodes[r.share].name.as_str()).collect();
        let (split, places) = order::by_hosts(&spec.hosts, &names);
        if places.len() != tasks as usize {
            let message = format!("{tasks} tasks are asked for, and {} hosts listed", places.len());
            return Err(refused("step.hosts", message));
        }
        if let Some((room, count)) = chosen.iter().zip(&split).find(|(r, n)| **n > r.tasks) {
            let (name, most) = (&nodes[room.share].name, room.tasks);
            let message = format!("{count} tasks are listed for {name}, which can take {most}");
            return Err(refused("step.too_many_tasks", message));
        }
        return Ok((split, places));
    }
    let job = &allocation.job.per_node;
    let is_job_whole = chosen.len() == nodes.len() && job.len() == nodes.len();
    let job_fits = job.iter().zip(chosen).all(|(t, r)| *t <= r.tasks && *t > 0);
    let as_job = spec.distribution.pack.is_none()
        && is_job_whole
        && job_fits
        && job.iter().sum::<u32>() == tasks;
    let split = if as_job {
        job.clone()
    } else {
        let room: Vec<u32> = chosen.iter().map(|r| r.tasks).collect();
        order::split(spec.distribution, &room, tasks)
    };
    let places = order::number(spec.distribution, &split);
    Ok((split, places))
}

/// One node of a step with its tasks.
struct Laid<'a> {
    spec: &'a StepSpec,
    share: &'a NodeShare,
    places: &'a [CpuPlace],
    tasks: u32,
    /// The step counts CPUs by task.
    own_cpus: bool,
    per_task: u32,
}

impl Laid<'_> {
    /// The node's part: CPUs dealt to tasks by the distribution, or, where each task has GPUs of its
    /// own and no order over sockets is asked for, near those.
    fn part(&self, room: &Room, gpus: Vec<usize>, fenced: bool) -> Result<Part, NoLayout> {
        let gpu_bind = gpus::bind(self.spec);
        let followed = self.followed(&gpu_bind.kind, &gpus);
        let own = match &followed {
            Some(task_gpus) => {
                let domain = |at: &usize| self.share.gpus[*at].numa;
                let of_task = |own: &Vec<usize>| own.iter().filter_map(domain).collect();
                let domains: Vec<BTreeSet<u32>> = task_gpus.iter().map(of_task).collect();
                cpus::deal_near(self.places, &room.free_cpus, self.per_task, &domains)
            }
            None => {
                let (tasks, per_task) = (self.tasks, self.per_task);
                let distribution = self.spec.distribution;
                cpus::deal(self.places, &room.free_cpus, tasks, per_task, distribution)
            }
        };
        let cpus: Vec<usize> = if self.own_cpus {
            own.iter().flatten().copied().collect::<BTreeSet<usize>>().into_iter().collect()
        } else {
            room.free_cpus.clone()
        };
        let binding =
            cpus::Binding { places: self.places, step: &cpus, own: &own, counted: self.own_cpus };
        let task_cpus = binding
            .of_tasks(&cpu_bind(self.spec))
            .map_err(|why| refused("step.cpu_bind", format!("{}: {why}", self.share.name)))?;
        let domains: Vec<BTreeSet<u32>> = task_cpus
            .iter()
            .map(|own| own.iter().map(|cpu| self.places[*cpu].numa).collect())
            .collect();
        let sight = gpus::Sight { share: self.share, step: &gpus, domains: &domains, fenced };
        let task_gpus = match followed {
            Some(task_gpus) => task_gpus,
            None => sight
                .of_tasks(&gpu_bind.kind)
                .map_err(|why| refused("step.gpu_bind", format!("{}: {why}", self.share.name)))?,
        };
        Ok(Part { share: room.share, tasks: self.tasks, cpus, gpus, task_cpus, task_gpus })
    }

    /// Each task's own GPUs in the order of ranks, where CPUs go after them and not the other way.
    fn followed(&self, kind: &GpuBindKind, gpus: &[usize]) -> Option<Vec<Vec<usize>>> {
        let GpuBindKind::PerTask(count) = kind else { return None };
        let (count, tasks) = (*count as usize, self.tasks as usize);
        let follows = self.own_cpus && self.spec.distribution.sockets.is_none();
        (follows && count.saturating_mul(tasks) <= gpus.len())
            .then(|| gpus.chunks(count).take(tasks).map(<[usize]>::to_vec).collect())
    }
}

/// How the tasks of a step are bound to its CPUs: as asked, else as the counts imply (srun manual,
/// `--ntasks-per-core` and `--ntasks-per-socket`).
pub(super) fn cpu_bind(spec: &StepSpec) -> CpuBind {
    let asked = spec.cpu_bind.clone().unwrap_or_default();
    if asked.kind != CpuBindKind::Auto {
        return asked;
    }
    let kind = match (spec.tasks_per_core, spec.tasks_per_socket) {
        (Some(_), _) => CpuBindKind::Cores,
        (None, Some(_)) => CpuBindKind::Sockets,
        (None, None) => CpuBindKind::Auto,
    };
    CpuBind { kind, ..asked }
}

/// As it binds the tasks of a step to its GPUs.
pub(super) use gpus::bind as gpu_bind;

/// Room on one node.
#[derive(Clone, Debug)]
struct Room {
    share: usize,
    free_cpus: Vec<usize>,
    free_gpus: Vec<usize>,
    /// The most tasks it can take.
    tasks: u32,
}

/// What a node can give, or `None` when it can take no task now; `own` is whether tasks have CPUs of
/// their own, and how many.
fn room(
    at: usize,
    share: &NodeShare,
    busy: &BusyNode,
    spec: &StepSpec,
    own: (bool, u32),
) -> Option<Room> {
    if busy.given_up {
        return None;
    }
    let free = |taken: &[bool]| -> Vec<usize> {
        taken.iter().enumerate().filter(|(_, t)| !**t).map(|(at, _)| at).collect()
    };
    let (free_cpus, free_gpus) = (free(&busy.cpus), free(&busy.gpus));
    let (own, per_task) = own;
    if !own && free_cpus.len() < busy.cpus.len() {
        return None;
    }
    let mut tasks = free_cpus.len() as u32 / per_task;
    tasks = tasks.min(spec.tasks_per_node.unwrap_or(u32::MAX));
    if spec.tasks_per_core.is_some() || spec.tasks_per_socket.is_some() {
        let places = cpus::places(share);
        let count = |key: fn(&CpuPlace) -> u32| {
            free_cpus.iter().map(|cpu| key(&places[*cpu])).collect::<BTreeSet<u32>>().len() as u32
        };
        let bound =
            |each: Option<u32>, count: u32| each.map_or(u32::MAX, |n| n.saturating_mul(count));
        tasks = tasks.min(bound(spec.tasks_per_core, count(|place| place.core)));
        tasks = tasks.min(bound(spec.tasks_per_socket, count(|place| place.socket)));
    }
    match spec.gpus {
        None if free_gpus.len() < busy.gpus.len() => return None,
        Some(StepGpus::Node(count)) if free_gpus.len() < count as usize => return None,
        Some(StepGpus::Task(count)) if count > 0 => {
            tasks = tasks.min(free_gpus.len() as u32 / count);
        }
        _ => {}
    }
    (tasks > 0).then_some(Room { share: at, free_cpus, free_gpus, tasks })
}

/// Positions of the nodes the step may use.
fn candidates(spec: &StepSpec, nodes: &[NodeShare]) -> Result<Vec<usize>, NoLayout> {
    for name in &spec.nodelist {
        if !nodes.iter().any(|n| n.name == *name) {
            let message = format!("node {name} is not in the allocation");
            return Err(refused("step.unknown_node", message));
        }
    }
    let from = spec.relative.unwrap_or(0) as usize;
    let chosen: Vec<usize> = (0..nodes.len())
        .filter(|at| *at >= from)
        .filter(|at| spec.nodelist.is_empty() || spec.nodelist.contains(&nodes[*at].name))
        .filter(|at| !spec.exclude.contains(&nodes[*at].name))
        .collect();
    if chosen.is_empty() {
        return Err(refused(
            "step.no_nodes",
            "no node of the allocation is left for the step".to_owned(),
        ));
    }
    Ok(chosen)
}

/// How many nodes and tasks, by what is given and Slurm's defaults for the rest.
fn counts(
    spec: &StepSpec,
    candidates: &[usize],
    usable: &[Room],
    nodes: &[NodeShare],
) -> Result<(usize, u32), NoLayout> {
    let all = candidates.len();
    let wanted = match (spec.nodes_min, spec.nodes_max) {
        (Some(min), max) => {
            let most = max.unwrap_or(min).max(min) as usize;
            most.min(usable.len().max(1)).max(min as usize)
        }
        (None, Some(max)) => all.min(max.max(1) as usize),
        (None, None) => all,
    };
    let tasks = match (spec.tasks, spec.tasks_per_node) {
        (Some(tasks), _) => tasks,
        (None, Some(per_node)) => (wanted as u32).saturating_mul(per_node),
        (None, None) => match spec.tasks_per_gpu {
            Some(per_gpu) => per_gpu.saturating_mul(gpus_of(spec, candidates, wanted, nodes)),
            None => wanted as u32,
        },
    };
    if tasks == 0 || tasks > TASKS_MAX {
        return Err(refused(
            "step.task_count",
            format!("a step has 1 to {TASKS_MAX} tasks, not {tasks}"),
        ));
    }
    // Fewer tasks than nodes: Slurm uses as many nodes as there are tasks.
    Ok((wanted.min(tasks as usize), tasks))
}

/// How many GPUs a step on so many nodes has, for tasks that are counted by them.
fn gpus_of(spec: &StepSpec, candidates: &[usize], wanted: usize, nodes: &[NodeShare]) -> u32 {
    match spec.gpus {
        Some(StepGpus::Step(count)) => count,
        Some(StepGpus::Node(count)) => count.saturating_mul(wanted as u32),
        Some(StepGpus::Task(_)) => 0,
        None => candidates.iter().take(wanted).map(|at| nodes[*at].gpus.len() as u32).sum(),
    }
}

/// The first nodes that can take the tasks together; more than wanted are never used.
fn choose(usable: &[Room], count: usize, tasks: u32) -> Vec<Room> {
    let enough =
        |rooms: &[Room]| rooms.iter().map(|r| u64::from(r.tasks)).sum::<u64>() >= u64::from(tasks);
    let first = &usable[..count];
    if enough(first) {
        return first.to_vec();
    }
    // The roomiest instead, in the allocation's order again.
    let mut by_room = usable.to_vec();
    by_room.sort_by_key(|r| (std::cmp::Reverse(r.tasks), r.share));
    by_room.truncate(count);
    by_room.sort_by_key(|r| r.share);
    by_room
}

#[cfg(test)]
mod tests;
