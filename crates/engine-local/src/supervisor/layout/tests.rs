//! Layouts of steps.

use super::{Allocation, Busy, Layout, NoLayout, lay_out};
use crate::spec::{CpuPlace, GpuShare, NodeShare, TaskLayout};
use muster_api::step::{CpuBind, Distribution, GpuBind, StepGpus, StepSpec};
use muster_model::{CpuBindKind, CpuOrder, GpuBindKind, NodeOrder};

fn nodes(cpus: &[u32], gpus: usize) -> Vec<NodeShare> {
    cpus.iter()
        .enumerate()
        .map(|(at, cpus)| NodeShare {
            name: format!("n{}", at + 1),
            cpus: *cpus,
            gpus: (0..gpus).map(|i| GpuShare { index: i as u32, ..GpuShare::default() }).collect(),
            ..NodeShare::default()
        })
        .collect()
}

fn split(layout: &Layout) -> Vec<u32> {
    layout.parts.iter().map(|p| p.tasks).collect()
}

fn lay_beside(
    spec: &StepSpec,
    nodes: &[NodeShare],
    job: &TaskLayout,
    busy: &Busy,
) -> Result<Layout, NoLayout> {
    lay_out(spec, Allocation { nodes, job, gpus_fenced: true }, busy)
}

fn lay(spec: &StepSpec, nodes: &[NodeShare]) -> Result<Layout, NoLayout> {
    lay_beside(spec, nodes, &TaskLayout::default(), &Busy::none(nodes))
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
    let layout = lay_beside(&spec, &two, &job, &Busy::none(&two)).expect("layout");
    assert_eq!(split(&layout), [1, 3]);
}

#[test]
fn cyclic_deals_tasks_out() {
    let distribution = Distribution { nodes: NodeOrder::Cyclic, ..Distribution::default() };
    let spec = StepSpec { tasks: Some(5), distribution, ..StepSpec::default() };
    let layout = lay(&spec, &nodes(&[4, 4], 0)).expect("layout");
    assert_eq!(split(&layout), [3, 2]);
    assert_eq!(layout.places, [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]);
}

#[test]
fn exact_steps_run_side_by_side_and_others_wait() {
    let one = nodes(&[4], 0);
    let mut busy = Busy::none(&one);
    let exact = StepSpec { tasks: Some(3), exact: true, ..StepSpec::default() };
    let first = lay_beside(&exact, &one, &TaskLayout::default(), &busy).expect("first");
    assert_eq!(first.parts[0].cpus, [0, 1, 2]);
    busy.mark(&first, true);
    let again = lay_beside(&exact, &one, &TaskLayout::default(), &busy);
    assert!(matches!(again, Err(NoLayout::Wait { .. })), "{again:?}");
    let small = StepSpec { tasks: Some(1), exact: true, ..StepSpec::default() };
    let second = lay_beside(&small, &one, &TaskLayout::default(), &busy).expect("beside");
    assert_eq!(second.parts[0].cpus, [3]);
    let whole = StepSpec { tasks: Some(1), ..StepSpec::default() };
    assert!(matches!(
        lay_beside(&whole, &one, &TaskLayout::default(), &busy),
        Err(NoLayout::Wait { .. })
    ));
    let over = StepSpec { tasks: Some(1), overlap: true, ..StepSpec::default() };
    let layout = lay_beside(&over, &one, &TaskLayout::default(), &busy).expect("overlaps");
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
    assert_eq!(count(&gpus(StepGpus::Task(1), 4)), [2, 2]);
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
        (StepSpec { nodelist: vec!["n9".to_owned()], ..StepSpec::default() }, "step.unknown_node"),
        (StepSpec { exclude: vec!["n1".to_owned()], ..StepSpec::default() }, "step.no_nodes"),
    ] {
        match lay(&spec, &one) {
            Err(NoLayout::Refused { code: found, .. }) => assert_eq!(found, code),
            other => panic!("{code}: {other:?}"),
        }
    }
}

/// A node of two sockets with four CPUs and two GPUs each; the GPUs' ranks alternate sockets.
fn wide() -> Vec<NodeShare> {
    let place = |id| CpuPlace { id, core: id, socket: id / 4, numa: id / 4 };
    let gpu = |index: u32| GpuShare { index, numa: Some(index / 2), ..GpuShare::default() };
    vec![NodeShare {
        name: "n1".to_owned(),
        cpus: 8,
        places: (0..8).map(place).collect(),
        gpus: [0, 2, 1, 3].into_iter().map(gpu).collect(),
        ..NodeShare::default()
    }]
}

#[test]
fn cpus_are_dealt_over_sockets_and_follow_the_gpus_of_their_task() {
    let node = wide();
    let spec = StepSpec { tasks: Some(2), cpus_per_task: Some(2), ..StepSpec::default() };
    let cpus = |spec: &StepSpec| lay(spec, &node).expect("layout").parts[0].task_cpus.clone();
    assert_eq!(cpus(&spec), [[0, 1], [4, 5]]);
    let sockets = Some(CpuOrder::Block);
    let distribution = Distribution { sockets, ..Distribution::default() };
    let blocks = StepSpec { distribution, ..spec.clone() };
    assert_eq!(cpus(&blocks), [[0, 1], [2, 3]]);
    // Task 1 has the second GPU in rank order, which is on the other socket.
    let gpus = StepSpec { tasks: Some(4), gpus: Some(StepGpus::Task(1)), ..spec };
    assert_eq!(cpus(&gpus), [[0, 1], [4, 5], [2, 3], [6, 7]]);
    // With an order over sockets the GPUs go after the CPUs.
    let both = StepSpec { distribution, ..gpus };
    let part = lay(&both, &node).expect("layout").parts.remove(0);
    assert_eq!(part.task_cpus, [[0, 1], [2, 3], [4, 5], [6, 7]]);
    assert_eq!(part.task_gpus, [[0], [2], [1], [3]]);
}

#[test]
fn tasks_are_bounded_and_bound_by_sockets_and_cores() {
    let node = wide();
    let per_socket = StepSpec { tasks_per_socket: Some(1), ..StepSpec::default() };
    let two = StepSpec { tasks: Some(2), ..per_socket.clone() };
    let part = lay(&two, &node).expect("layout").parts.remove(0);
    assert_eq!(part.task_cpus, [[0, 1, 2, 3], [4, 5, 6, 7]]);
    let three = StepSpec { tasks: Some(3), ..per_socket };
    assert!(matches!(lay(&three, &node), Err(NoLayout::Refused { .. })));
    let free = CpuBind { kind: CpuBindKind::None, verbose: false };
    let none = StepSpec { cpu_bind: Some(free), ..two };
    assert_eq!(lay(&none, &node).expect("layout").parts[0].task_cpus[1].len(), 8);
    let per_core = StepSpec { tasks_per_core: Some(1), tasks: Some(9), ..StepSpec::default() };
    assert!(matches!(lay(&per_core, &node), Err(NoLayout::Refused { .. })));
}

#[test]
fn tasks_by_gpus_are_two_on_each() {
    let node = wide();
    let spec = StepSpec { tasks_per_gpu: Some(2), ..StepSpec::default() };
    let part = lay(&spec, &node).expect("layout").parts.remove(0);
    assert_eq!((part.tasks, part.gpus.len()), (8, 4));
    // So many tasks need so many GPUs, and no more are taken.
    let three = StepSpec { tasks: Some(3), exact: true, ..spec };
    let part = lay(&three, &node).expect("layout").parts.remove(0);
    assert_eq!(part.gpus, [0, 1]);
    assert!(part.task_gpus.iter().all(|own| own.len() == 1), "{:?}", part.task_gpus);
    let all = GpuBind { kind: GpuBindKind::None, verbose: false };
    let free = StepSpec { gpu_bind: Some(all), ..three };
    assert_eq!(lay(&free, &node).expect("layout").parts[0].task_gpus[0], [0, 1]);
}

#[test]
fn t28_bindings_that_cannot_be_are_refused() {
    let node = wide();
    let kind = GpuBindKind::Map(vec![4]);
    let spec = StepSpec {
        tasks: Some(1),
        gpu_bind: Some(GpuBind { kind, verbose: false }),
        ..StepSpec::default()
    };
    match lay(&spec, &node) {
        Err(NoLayout::Refused { code: "step.gpu_bind", message }) => {
            assert_eq!(message, "n1: GPU 4, counted inside the job, is not the step's");
        }
        other => panic!("{other:?}"),
    }
    let five = StepSpec { tasks: Some(5), gpus: Some(StepGpus::Task(1)), ..StepSpec::default() };
    assert!(matches!(lay(&five, &node), Err(NoLayout::Refused { .. })));
}

#[test]
fn tasks_lie_as_a_list_of_hosts_says() {
    let two = nodes(&[4, 4], 0);
    let distribution = Distribution { nodes: NodeOrder::Arbitrary, ..Distribution::default() };
    let hosts: Vec<String> = ["n2", "n1", "n2"].map(str::to_owned).into();
    let spec = StepSpec { distribution, hosts, ..StepSpec::default() };
    let layout = lay(&spec, &two).expect("layout");
    assert_eq!(layout.places, [(1, 0), (0, 0), (1, 1)]);
    let fewer = StepSpec { tasks: Some(1), ..spec.clone() };
    assert_eq!(lay(&fewer, &two).expect("layout").parts[0].share, 1);
    let more = StepSpec { tasks: Some(4), ..spec };
    assert!(matches!(lay(&more, &two), Err(NoLayout::Refused { code: "step.hosts", .. })));
}
