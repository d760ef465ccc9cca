use super::*;

fn node(id: u32, state: NodeState) -> NodeView {
    NodeView {
        id,
        name: format!("n{id}"),
        state,
        cpus: 8,
        cpus_used: match state {
            NodeState::Allocated => 8,
            NodeState::Mixed => 4,
            _ => 0,
        },
        sockets: 1,
        cores_per_socket: 8,
        threads_per_core: 1,
        memory_mib: 16_000,
        weight: 1,
        ..NodeView::default()
    }
}

/// n1 and n2 half used, n3 full, n4 drained; `short` has the first two.
fn bed() -> (Vec<PartitionView>, Vec<NodeView>) {
    let drained = NodeView {
        drain: true,
        reason: "test".into(),
        reason_by: "root".into(),
        ..node(4, NodeState::Idle)
    };
    let nodes = vec![
        node(1, NodeState::Mixed),
        node(2, NodeState::Mixed),
        node(3, NodeState::Allocated),
        drained,
    ];
    let partition = |name: &str, default, count: usize, max_time_s| PartitionView {
        name: name.to_owned(),
        default,
        state: "up".into(),
        nodes: nodes.iter().take(count).map(|node| node.name.clone()).collect(),
        max_time_s,
        tier: 1,
        ..PartitionView::default()
    };
    (vec![partition("main", true, 4, None), partition("short", false, 2, Some(1800))], nodes)
}

fn shown(args: &[&str]) -> String {
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let parsed = getopt::parse("sinfo", TABLE, &args, Order::Mixed).expect("read");
    let (partitions, nodes) = bed();
    let nodes = wanted(&parsed, nodes).unwrap_or_else(|f| panic!("{}", f.text));
    let layout = layout(&parsed, &nodes).unwrap_or_else(|f| panic!("{}", f.text));
    table(
        &layout,
        &groups(&layout, &partitions, &nodes, parsed.has("Node")),
        parsed.has("noheader"),
    )
}

#[test]
fn the_default_table_is_slurms() {
    assert_eq!(
        shown(&[]),
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
main*        up   infinite      1  drain n4
main*        up   infinite      2    mix n[1-2]
main*        up   infinite      1  alloc n3
short        up      30:00      2    mix n[1-2]
"
    );
    assert_eq!(
        shown(&["-s"]),
        "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST
main*        up   infinite          3/0/1/4 n[1-4]
short        up      30:00          2/0/0/2 n[1-2]
"
    );
    assert_eq!(
        shown(&["-l"]),
        "PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE NODELIST
main*        up   infinite 1-infinite   no       NO        all      1     drained n4
main*        up   infinite 1-infinite   no       NO        all      2       mixed n[1-2]
main*        up   infinite 1-infinite   no       NO        all      1   allocated n3
short        up      30:00 1-infinite   no       NO        all      2       mixed n[1-2]
"
    );
}

#[test]
fn one_line_a_node_is_slurms() {
    assert_eq!(
        shown(&["-N"]),
        "NODELIST   NODES PARTITION STATE 
n1             1     main* mix   
n1             1     short mix   
n2             1     main* mix   
n2             1     short mix   
n3             1     main* alloc 
n4             1     main* drain 
"
    );
}

#[test]
fn columns_decide_what_shares_a_line() {
    assert_eq!(
        shown(&["-h", "-o", "%P %a %l %D %t %N"]),
        "main* up infinite 1 drain n4\nmain* up infinite 2 mix n[1-2]\nmain* up infinite 1 alloc n3\nshort up 30:00 2 mix n[1-2]\n"
    );
    assert_eq!(shown(&["-h", "-o", "%t %C"]), "drain 0/0/8/8\nmix 8/8/0/16\nalloc 8/0/0/8\n");
    assert_eq!(shown(&["-h", "-t", "alloc", "-o", "%N"]), "n3\n");
    assert_eq!(shown(&["-R", "-h", "-o", "%E %u %N"]), "test root n4\n");
    assert_eq!(
        shown(&["-O", "NodeList:10,StateLong,CPUsState"]),
        "NODELIST  STATE               CPUS(A/I/O/T)       
n4        drained             0/0/8/8             
n[1-2]    mixed               8/8/0/16            
n3        allocated           8/0/0/8             
"
    );
    assert_eq!(shown(&["-n", "n1", "-h", "-o", "%R %N"]), "main n1\nshort n1\n");
}
