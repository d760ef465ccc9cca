//! Where a step's tasks go inside the allocation. Pure: a request and what is busy, in; a layout, a
//! wait or a refusal, out.

use muster_api::step::{Distribution, StepGpus, StepSpec, TASKS_MAX};

use crate::spec::{NodeShare, TaskLayout};

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
}

impl Busy {
    /// Nothing is held.
    pub(super) fn none(nodes: &[NodeShare]) -> Self {
        let node = |n: &NodeShare| BusyNode {
            cpus: vec![false; n.cpus as usize],
            gpus: vec![false; n.gpus.len()],
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
    /// CPUs of each task where it has its own.
    pub(super) cpus_per_task: Option<u32>,
    /// GPUs of each task where it has its own.
    pub(super) gpus_per_task: Option<u32>,
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
    nodes: &[NodeShare],
    job: &TaskLayout,
    busy: &Busy,
) -> Result<Layout, NoLayout> {
    let none = Busy::none(nodes);
    let seen = if spec.overlap { &none } else { busy };
    match place(spec, nodes, job, seen) {
        Err(NoLayout::Refused { .. }) if place(spec, nodes, job, &none).is_ok() => {
            Err(NoLayout::Wait { reason: "the job's other steps hold its CPUs or GPUs".to_owned() })
        }
        other => other,
    }
}

fn refused(code: &'static str, message: String) -> NoLayout {
    NoLayout::Refused { code, message }
}

fn place(
    spec: &StepSpec,
    nodes: &[NodeShare],
    job: &TaskLayout,
    busy: &Busy,
) -> Result<Layout, NoLayout> {
    let candidates = candidates(spec, nodes)?;
    let own_cpus = spec.exact || spec.cpus_per_task.is_some();
    let per_task = spec.cpus_per_task.unwrap_or(1).max(1);
    let usable: Vec<Room> = candidates
        .iter()
        .filter_map(|share| room(*share, &busy.nodes[*share], spec, own_cpus, per_task))
        .collect();
    let (node_count, tasks) = counts(spec, &candidates, usable.len())?;
    if usable.len() < node_count {
        let message = format!("the step wants {node_count} nodes, {} can take tasks", usable.len());
        return Err(refused("step.too_many_nodes", message));
    }
    let chosen = choose(&usable, node_count, tasks);
    let split = split_tasks(spec, job, &chosen, nodes.len(), tasks)?;
    let mut parts = Vec::new();
    let gpus = split_gpus(spec, nodes, &chosen, &split)?;
    for ((room, tasks), gpus) in chosen.iter().zip(&split).zip(gpus) {
        let cpus = if own_cpus {
            room.free_cpus.iter().copied().take((tasks * per_task) as usize).collect()
        } else {
            room.free_cpus.clone()
        };
        parts.push(Part { share: room.share, tasks: *tasks, cpus, gpus });
    }
    let places = order_tasks(spec.distribution, &split);
    let gpus_per_task = match spec.gpus {
        Some(StepGpus::Task(count)) => Some(count),
        _ => None,
    };
    let cpus_per_task = own_cpus.then_some(per_task);
    Ok(Layout { parts, places, overlap: spec.overlap, cpus_per_task, gpus_per_task })
}

/// Room on one node.
#[derive(Clone, Debug)]
struct Room {
    share: usize,
    free_cpus: Vec<usize>,
    free_gpus: Vec<usize>,
    /// The most tasks it can take.
    tasks: u32,
}

/// What a node can give, or `None` when it can take no task now.
fn room(share: usize, busy: &BusyNode, spec: &StepSpec, own: bool, per_task: u32) -> Option<Room> {
    let free = |taken: &[bool]| -> Vec<usize> {
        taken.iter().enumerate().filter(|(_, t)| !**t).map(|(at, _)| at).collect()
    };
    let (free_cpus, free_gpus) = (free(&busy.cpus), free(&busy.gpus));
    if !own && free_cpus.len() < busy.cpus.len() {
        return None;
    }
    let mut tasks = free_cpus.len() as u32 / per_task;
    tasks = tasks.min(spec.tasks_per_node.unwrap_or(u32::MAX));
    match spec.gpus {
        None if free_gpus.len() < busy.gpus.len() => return None,
        Some(StepGpus::Node(count)) if free_gpus.len() < count as usize => return None,
        Some(StepGpus::Task(count)) if count > 0 => {
            tasks = tasks.min(free_gpus.len() as u32 / count);
        }
        _ => {}
    }
    (tasks > 0).then_some(Room { share, free_cpus, free_gpus, tasks })
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
fn counts(spec: &StepSpec, candidates: &[usize], usable: usize) -> Result<(usize, u32), NoLayout> {
    let all = candidates.len();
    let wanted = match (spec.nodes_min, spec.nodes_max) {
        (Some(min), max) => {
            let most = max.unwrap_or(min).max(min) as usize;
            most.min(usable.max(1)).max(min as usize)
        }
        (None, Some(max)) => all.min(max.max(1) as usize),
        (None, None) => all,
    };
    let tasks = match (spec.tasks, spec.tasks_per_node) {
        (Some(tasks), _) => tasks,
        (None, Some(per_node)) => (wanted as u32).saturating_mul(per_node),
        (None, None) => wanted as u32,
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

/// Tasks on each chosen node.
fn split_tasks(
    spec: &StepSpec,
    job: &TaskLayout,
    chosen: &[Room],
    node_count: usize,
    tasks: u32,
) -> Result<Vec<u32>, NoLayout> {
    let most: u32 = chosen.iter().fold(0, |sum, r| sum.saturating_add(r.tasks));
    if tasks > most {
        let message = format!("the step wants {tasks} tasks, its nodes can take {most}");
        return Err(refused("step.too_many_tasks", message));
    }
    let is_job_whole = chosen.len() == node_count && job.per_node.len() == node_count;
    let job_fits = job.per_node.iter().zip(chosen).all(|(t, r)| *t <= r.tasks && *t > 0);
    if is_job_whole && job_fits && job.per_node.iter().sum::<u32>() == tasks {
        return Ok(job.per_node.clone());
    }
    let mut split = vec![1_u32; chosen.len()];
    let mut left = tasks - chosen.len() as u32;
    match spec.distribution {
        Distribution::Block => {
            for (count, room) in split.iter_mut().zip(chosen) {
                let more = left.min(room.tasks - 1);
                *count += more;
                left -= more;
            }
        }
        Distribution::Cyclic => {
            while left > 0 {
                for (count, room) in split.iter_mut().zip(chosen) {
                    if left > 0 && *count < room.tasks {
                        *count += 1;
                        left -= 1;
                    }
                }
            }
        }
    }
    Ok(split)
}

/// GPUs of the step on each chosen node.
fn split_gpus(
    spec: &StepSpec,
    nodes: &[NodeShare],
    chosen: &[Room],
    tasks: &[u32],
) -> Result<Vec<Vec<usize>>, NoLayout> {
    let wanted: Vec<usize> = match spec.gpus {
        None => chosen.iter().map(|r| nodes[r.share].gpus.len()).collect(),
        Some(StepGpus::Node(count)) => vec![count as usize; chosen.len()],
        Some(StepGpus::Task(count)) => tasks.iter().map(|t| (t * count) as usize).collect(),
        Some(StepGpus::Step(count)) => {
            let mut left = count as usize;
            let mut split = vec![0; chosen.len()];
            // At least one on each node, then as many as the first ones have.
            for fair in [true, false] {
                for (have, room) in split.iter_mut().zip(chosen) {
                    let most = if fair { 1 } else { room.free_gpus.len() };
                    let more = most.min(room.free_gpus.len()).saturating_sub(*have).min(left);
                    *have += more;
                    left -= more;
                }
            }
            if left > 0 {
                let message = format!(
                    "the step wants {count} GPUs, its nodes have {}",
                    count as usize - left
                );
                return Err(refused("step.too_many_gpus", message));
            }
            split
        }
    };
    let mut taken = Vec::new();
    for (count, room) in wanted.iter().zip(chosen) {
        if room.free_gpus.len() < *count {
            let name = &nodes[room.share].name;
            let message = format!(
                "the step wants {count} GPUs on {name}, {} are there",
                room.free_gpus.len()
            );
            return Err(refused("step.too_many_gpus", message));
        }
        taken.push(room.free_gpus[..*count].to_vec());
    }
    Ok(taken)
}

/// Numbers the tasks: node after node, or one on each node in turn.
fn order_tasks(distribution: Distribution, split: &[u32]) -> Vec<(usize, u32)> {
    match distribution {
        Distribution::Block => split
            .iter()
            .enumerate()
            .flat_map(|(node, count)| (0..*count).map(move |local| (node, local)))
            .collect(),
        Distribution::Cyclic => {
            let rounds = split.iter().copied().max().unwrap_or(0);
            (0..rounds)
                .flat_map(|round| {
                    split
                        .iter()
                        .enumerate()
                        .filter(move |(_, count)| round < **count)
                        .map(move |(node, _)| (node, round))
                })
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Busy, Layout, NoLayout, lay_out};
    use crate::spec::{GpuShare, NodeShare, TaskLayout};
    use muster_api::step::{Distribution, StepGpus, StepSpec};

    fn nodes(cpus: &[u32], gpus: usize) -> Vec<NodeShare> {
        cpus.iter()
            .enumerate()
            .map(|(at, cpus)| NodeShare {
                name: format!("n{}", at + 1),
                cpus: *cpus,
                gpus: (0..gpus)
                    .map(|i| GpuShare { index: i as u32, ..GpuShare::default() })
                    .collect(),
                ..NodeShare::default()
            })
            .collect()
    }

    fn split(layout: &Layout) -> Vec<u32> {
        layout.parts.iter().map(|p| p.tasks).collect()
    }

    fn lay(spec: &StepSpec, nodes: &[NodeShare]) -> Result<Layout, NoLayout> {
        lay_out(spec, nodes, &TaskLayout::default(), &Busy::none(nodes))
    }

    #[test]
    fn defaults_are_slurms() {
        let three = nodes(&[2, 2, 2], 0);
        let layout = lay(&StepSpec::default(), &three).expect("one task a node");
        assert_eq!(split(&layout), [1, 1, 1]);
        let four = StepSpec { tasks: Some(4), ..StepSpec::default() };
        assert_eq!(split(&lay(&four, &three).expect("block")), [2, 1, 1]);
        let one = StepSpec { tasks: Some(1), ..StepSpec::default() };
        assert_eq!(split(&lay(&one, &three).expect("one node")), [1]);
        let per_node = StepSpec { tasks_per_node: Some(2), ..StepSpec::default() };
        assert_eq!(split(&lay(&per_node, &three).expect("two a node")), [2, 2, 2]);
    }

    #[test]
    fn the_jobs_own_layout_is_kept() {
        let job = TaskLayout { per_node: vec![1, 3], ..TaskLayout::default() };
        let two = nodes(&[4, 4], 0);
        let spec = StepSpec { tasks: Some(4), ..StepSpec::default() };
        let layout = lay_out(&spec, &two, &job, &Busy::none(&two)).expect("layout");
        assert_eq!(split(&layout), [1, 3]);
    }

    #[test]
    fn cyclic_deals_tasks_out() {
        let spec =
            StepSpec { tasks: Some(5), distribution: Distribution::Cyclic, ..StepSpec::default() };
        let layout = lay(&spec, &nodes(&[4, 4], 0)).expect("layout");
        assert_eq!(split(&layout), [3, 2]);
        assert_eq!(layout.places, [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]);
    }

    #[test]
    fn exact_steps_run_side_by_side_and_others_wait() {
        let one = nodes(&[4], 0);
        let mut busy = Busy::none(&one);
        let exact = StepSpec { tasks: Some(3), exact: true, ..StepSpec::default() };
        let first = lay_out(&exact, &one, &TaskLayout::default(), &busy).expect("first");
        assert_eq!(first.parts[0].cpus, [0, 1, 2]);
        busy.mark(&first, true);
        let again = lay_out(&exact, &one, &TaskLayout::default(), &busy);
        assert!(matches!(again, Err(NoLayout::Wait { .. })), "{again:?}");
        let small = StepSpec { tasks: Some(1), exact: true, ..StepSpec::default() };
        let second = lay_out(&small, &one, &TaskLayout::default(), &busy).expect("beside");
        assert_eq!(second.parts[0].cpus, [3]);
        let whole = StepSpec { tasks: Some(1), ..StepSpec::default() };
        assert!(matches!(
            lay_out(&whole, &one, &TaskLayout::default(), &busy),
            Err(NoLayout::Wait { .. })
        ));
        let over = StepSpec { tasks: Some(1), overlap: true, ..StepSpec::default() };
        let layout = lay_out(&over, &one, &TaskLayout::default(), &busy).expect("overlaps");
        busy.mark(&layout, true);
        busy.mark(&first, false);
        assert_eq!(busy, Busy::none(&one));
    }

    #[test]
    fn gpus_go_by_task_node_and_step() {
        let two = nodes(&[4, 4], 4);
        let gpus = |gpus, tasks| StepSpec {
            gpus: Some(gpus),
            tasks: Some(tasks),
            exact: true,
            ..StepSpec::default()
        };
        let count = |spec: &StepSpec| -> Vec<usize> {
            lay(spec, &two).expect("layout").parts.iter().map(|p| p.gpus.len()).collect()
        };
        assert_eq!(count(&gpus(StepGpus::Task(1), 4)), [3, 1]);
        assert_eq!(count(&gpus(StepGpus::Node(2), 2)), [2, 2]);
        assert_eq!(count(&gpus(StepGpus::Step(5), 2)), [4, 1]);
        assert_eq!(count(&gpus(StepGpus::Step(0), 2)), [0, 0]);
        assert_eq!(count(&StepSpec::default()), [4, 4]);
        assert!(matches!(
            lay(&gpus(StepGpus::Step(9), 2), &two),
            Err(NoLayout::Refused { code: "step.too_many_gpus", .. })
        ));
    }

    #[test]
    fn what_can_never_fit_is_refused() {
        let one = nodes(&[2], 0);
        for (spec, code) in [
            (StepSpec { tasks: Some(3), ..StepSpec::default() }, "step.too_many_tasks"),
            (StepSpec { tasks: Some(0), ..StepSpec::default() }, "step.task_count"),
            (
                StepSpec { nodes_min: Some(2), tasks: Some(2), ..StepSpec::default() },
                "step.too_many_nodes",
            ),
            (
                StepSpec { nodelist: vec!["n9".to_owned()], ..StepSpec::default() },
                "step.unknown_node",
            ),
            (StepSpec { exclude: vec!["n1".to_owned()], ..StepSpec::default() }, "step.no_nodes"),
        ] {
            match lay(&spec, &one) {
                Err(NoLayout::Refused { code: found, .. }) => assert_eq!(found, code),
                other => panic!("{code}: {other:?}"),
            }
        }
    }
}
