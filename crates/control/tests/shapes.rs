//! What checking a submission costs on a large cluster, and that kinds of nodes say what nodes do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod support;

use muster_control::command::{Command, CommandError, Shapes, meaning};
use muster_model::{
    Account, CpuSet, Device, Event, EventKind, GpuCount, GpuScope, Mib, Node, NodeCount, NodeId,
    NumaDomain, Partition, Qos, Request, State, Taint, Timestamp,
};
use support::{job, root, user};

const NODES: u32 = 10_000;

/// A cluster of two kinds of nodes: every fourth has 64 CPUs, the others 8.
fn cluster() -> State {
    let mut state = State::default();
    let mut apply = |kind| state.apply(&Event { at: Timestamp::from_secs(1), kind }).unwrap();
    for id in 0..NODES {
        let node = Node {
            id: NodeId(id),
            name: format!("n{id}"),
            cpus: CpuSet::first(if id % 4 == 0 { 64 } else { 8 }),
            memory: Mib(64_000),
            boot: format!("boot {id}"),
            ..Node::default()
        };
        apply(EventKind::NodeSet { node: Box::new(node) });
    }
    apply(EventKind::AccountSet {
        account: Account { name: "default".into(), ..Account::default() },
    });
    apply(EventKind::QosSet { qos: Qos { name: "normal".into(), ..Qos::default() } });
    let names = (0..NODES).map(|id| format!("n{id}")).collect();
    let main =
        Partition { name: "main".into(), nodes: names, default: true, ..Partition::default() };
    apply(EventKind::PartitionSet { partition: Box::new(main) });
    state
}

/// Asks for nodes with CPUs, without those named; what is lacking where it is refused.
fn ask(state: &State, shapes: &mut Shapes, nodes: u32, cpus: u32, without: &[u32]) -> String {
    let mut submission = job(&user(1000), "exit 0");
    let request = &mut submission.specs[0].request;
    request.nodes = Some(NodeCount::exactly(nodes));
    request.tasks = None;
    request.tasks_per_node = Some(1);
    request.cpus_per_task = Some(cpus);
    request.exclude = without.iter().map(|id| format!("n{id}")).collect();
    let command = Command::Submit(Box::new(submission));
    match meaning(state, shapes, Timestamp::from_secs(2), &root(), command) {
        Ok(_) => String::new(),
        Err(CommandError::NeverFits { lacking, .. }) => lacking,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn ten_thousand_nodes_are_looked_at_once_for_a_thousand_submissions() {
    let state = cluster();
    let mut shapes = Shapes::default();
    for _ in 0..1_000 {
        assert_eq!(ask(&state, &mut shapes, 2_500, 64, &[]), "");
    }
    // Once for their kinds, and once for those of the partition.
    assert_eq!(shapes.looked_at(), 2 * u64::from(NODES));
}

#[test]
fn a_change_of_the_nodes_is_seen() {
    let mut state = cluster();
    let mut shapes = Shapes::default();
    let lacking = ask(&state, &mut shapes, 2_501, 64, &[]);
    assert_eq!(lacking, "needs 2501 nodes with 64 CPUs; there are 2500");
    let larger = Node { cpus: CpuSet::first(64), ..Node::clone(&state.nodes[&NodeId(1)]) };
    let kind = EventKind::NodeSet { node: Box::new(larger) };
    state.apply(&Event { at: Timestamp::from_secs(2), kind }).unwrap();
    assert_eq!(ask(&state, &mut shapes, 2_501, 64, &[]), "");
}

#[test]
fn what_a_job_excludes_is_not_counted() {
    let state = cluster();
    let mut shapes = Shapes::default();
    assert_eq!(ask(&state, &mut shapes, 2_500, 64, &[1, 2]), "");
    let lacking = ask(&state, &mut shapes, 2_500, 64, &[4]);
    assert_eq!(lacking, "needs 2500 nodes with 64 CPUs; there are 2499");
    let lacking = ask(&state, &mut shapes, 10_000, 1, &[1, 4]);
    assert_eq!(lacking, "needs 10000 nodes that it does not exclude; there are 9998");
    // What was excluded once is there for the next.
    assert_eq!(ask(&state, &mut shapes, 10_000, 1, &[]), "");
}

/// Two nodes of two sockets with four CPUs each and a GPU on the first; the second has a taint.
fn sockets() -> State {
    let mut state = cluster();
    let half = |from: u32| -> CpuSet { (from..from + 4).collect() };
    let mut apply = |kind| state.apply(&Event { at: Timestamp::from_secs(1), kind }).unwrap();
    for id in 0..NODES {
        apply(EventKind::NodeRemoved { node: NodeId(id) });
    }
    let taint = Taint {
        key: "broken".to_owned(),
        value: String::new(),
        effect: muster_model::TaintEffect::NoSchedule,
    };
    for id in 0..2 {
        let domain = |socket: u32| NumaDomain {
            id: socket,
            socket,
            cpus: half(socket * 4),
            memory: Mib(4096),
        };
        let node = Node {
            id: NodeId(id),
            name: format!("n{id}"),
            cpus: CpuSet::first(8),
            threads_per_core: 1,
            memory: Mib(8192),
            numa: vec![domain(0), domain(1)],
            devices: vec![Device { numa: Some(0), memory: Mib(40_960), ..Device::default() }],
            taints: (id == 1).then(|| taint.clone()).into_iter().collect(),
            ..Node::default()
        };
        apply(EventKind::NodeSet { node: Box::new(node) });
    }
    let nodes = ["n0".to_owned(), "n1".to_owned()].into_iter().collect();
    let main = Partition { name: "main".into(), nodes, default: true, ..Partition::default() };
    apply(EventKind::PartitionSet { partition: Box::new(main) });
    state
}

/// What is lacking for a request, and the change that would do.
fn refused(state: &State, change: impl FnOnce(&mut Request)) -> (String, Option<&'static str>) {
    let mut submission = job(&user(1000), "exit 0");
    change(&mut submission.specs[0].request);
    let command = Command::Submit(Box::new(submission));
    let mut shapes = Shapes::default();
    match meaning(state, &mut shapes, Timestamp::from_secs(2), &root(), command) {
        Ok(_) => (String::new(), None),
        Err(CommandError::NeverFits { lacking, change, .. }) => (lacking, change),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_named_node_that_is_not_for_the_job_is_told_with_what_would_do() {
    let state = sockets();
    let named = |name: &'static str| {
        move |r: &mut Request| r.node_list = std::iter::once(name.to_owned()).collect()
    };
    assert_eq!(refused(&state, named("n0")), (String::new(), None));
    let (lacking, change) = refused(&state, named("n1"));
    let text = "names node n1, whose taints broken:NoSchedule it does not tolerate (with \
                --toleration=broken:NoSchedule it would)";
    assert_eq!((lacking.as_str(), change), (text, Some("without --nodelist")));
}

#[test]
fn cpus_beside_the_gpus_are_as_many_as_their_sockets_have() {
    let state = sockets();
    let bound = |cpus: u32| {
        move |r: &mut Request| {
            r.gpus = vec![GpuCount { model: None, count: 1, scope: GpuScope::Node }];
            r.cpus_per_task = Some(cpus);
            r.cpus_near_gpus = true;
        }
    };
    assert_eq!(refused(&state, bound(4)), (String::new(), None));
    let (lacking, change) = refused(&state, bound(5));
    let text = "needs 5 CPUs on the sockets of the GPUs that it has there on one node; the most \
                there is on one is 4";
    assert_eq!(lacking, text);
    assert_eq!(change, Some("without --gres-flags=enforce-binding"));
    // Tasks together, too.
    let (lacking, change) = refused(&state, |r| {
        bound(1)(r);
        r.tasks = Some(5);
        r.nodes = Some(NodeCount::exactly(1));
    });
    assert_eq!(lacking, "needs room for 5 tasks of 1 CPUs; there is room for 4");
    assert_eq!(change, Some("without --gres-flags=enforce-binding"));
}
