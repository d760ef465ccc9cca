//! What checking a submission costs on a large cluster, and that kinds of nodes say what nodes do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod support;

use muster_control::command::{Command, CommandError, Shapes, meaning};
use muster_model::{
    Account, CpuSet, Event, EventKind, Mib, Node, NodeCount, NodeId, Partition, Qos, State,
    Timestamp,
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
