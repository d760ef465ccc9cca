//! The cases of `cases/topology.md` across nodes, by their numbers, and the optimum for small gangs.

use muster_model::{JobId, NodeId};
use muster_test_kit::{Lab, placement, proved};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Submits jobs that take the nodes named, and starts them.
fn occupy(lab: &mut Lab, nodes: &[&str]) {
    for node in nodes {
        lab.submit(&format!("busy nodelist={node} exclusive time=600"));
    }
    lab.round();
}

const LEAVES: &str = "
    node a[1-3] cpus=1
    node b[1-5] cpus=1
    node c[1-4] cpus=1
    level leaf
    level spine
    domain L1 level=leaf nodes=a[1-3] in=S
    domain L2 level=leaf nodes=b[1-5] in=S
    domain L3 level=leaf nodes=c[1-4] in=S
    domain S level=spine
";

#[test]
fn t40_the_tightest_leaf_and_else_the_fewest() {
    let mut lab = Lab::new(LEAVES);
    assert_eq!(lab.placed("four nodes=4"), "c[1-4]");
    assert_eq!(lab.placed("six nodes=6"), "a1,b[1-5]");
    assert_eq!(lab.placed("three nodes=3"), "a[1-3]");
}

/// The case's leaves, with eight nodes under the second, three of which are free at minute 8.
fn t41() -> Lab {
    let mut lab = Lab::new(LEAVES);
    for line in
        ["node b[6-8] cpus=1", "domain L2 level=leaf nodes=b[1-8] in=S", "policy max-switch-wait=5"]
    {
        lab.set_up(line);
    }
    for node in ["b6", "b7", "b8"] {
        lab.submit(&format!("busy nodelist={node} time=8"));
    }
    lab.round();
    lab
}

/// The minute at which the job starts, and where.
fn start_of(lab: &mut Lab, job: &str) -> (u64, String) {
    let id = lab.submit(job);
    for minute in 0..30 {
        lab.at_minute(minute);
        let plan = lab.round();
        if let Some(p) = placement(&plan, id) {
            return (minute, lab.nodes_of(p));
        }
    }
    panic!("{job} did not start");
}

#[test]
fn t41_the_wait_for_few_switches_is_cut_to_the_sites() {
    let job = |wish: &str| format!("near nodes=6 switches={wish} time=60");
    let two_leaves = (5, "a1,b[1-5]".to_owned());
    assert_eq!(start_of(&mut t41(), &job("1@10")), two_leaves);
    assert_eq!(start_of(&mut t41(), &job("1")), two_leaves);
    let mut lab = t41();
    lab.set_up("policy max-switch-wait=15");
    assert_eq!(start_of(&mut lab, &job("1@10")), (8, "b[1-6]".to_owned()));
}

#[test]
fn t42_a_wish_ends_and_a_requirement_does_not() {
    let mut lab = Lab::new(LEAVES);
    assert_eq!(start_of(&mut lab, "wish nodes=9 switches=1 time=60").0, 5);
    let mut lab = Lab::new(LEAVES);
    lab.submit("must nodes=9 topology=required:leaf time=60");
    lab.at_minute(60);
    assert!(lab.plan().decisions.is_empty());
    assert_eq!(
        lab.reasons()[&JobId(1)].to_string(),
        "can never run in partition main: needs 9 nodes in one leaf; at most 5 are so"
    );
    assert_eq!(lab.placed("fits nodes=5 topology=required:leaf"), "b[1-5]");
}

const BLOCKS_AND_RACKS: &str = "
    node a[1-5] cpus=1
    node b[1-6] cpus=1
    level rack
    level block
    domain a-r1 level=rack nodes=a[1-2] in=A
    domain a-r2 level=rack nodes=a3 in=A
    domain a-r3 level=rack nodes=a4 in=A
    domain a-r4 level=rack nodes=a5 in=A
    domain b-r1 level=rack nodes=b[1-2] in=B
    domain b-r2 level=rack nodes=b[3-4] in=B
    domain b-r3 level=rack nodes=b[5-6] in=B
    domain A level=block
    domain B level=block
";

#[test]
fn t43_required_and_preferred_together() {
    let mut lab = Lab::new(BLOCKS_AND_RACKS);
    let both = "a nodes=4 topology=required:block,preferred:rack";
    assert_eq!(lab.placed(both), "b[1-4]");
    assert_eq!(lab.placed("b nodes=4 topology=required:rack"), "");
    assert_eq!(lab.placed("c nodes=4 topology=preferred:rack"), "b[1-4]");
}

#[test]
fn t44_a_contiguous_job_goes_on_over_the_end_of_a_ring() {
    let ring = "
        node n[0-7] cpus=1
        node z1 cpus=1
        level loop
        domain r level=loop nodes=n[0-7] ring
    ";
    let mut lab = Lab::new(ring);
    occupy(&mut lab, &["n2", "n3", "n4", "n5", "z1"]);
    assert_eq!(lab.placed("four nodes=4 contiguous"), "n[6-7,0-1]");
    assert_eq!(lab.placed("five nodes=5 contiguous"), "");
    // What stands side by side by name comes first, and without the ring nothing wraps.
    assert_eq!(lab.placed("two nodes=2 contiguous"), "n[0-1]");
    let mut flat = Lab::new("node n[0-7] cpus=1");
    occupy(&mut flat, &["n2", "n3", "n4", "n5"]);
    assert_eq!(flat.placed("four nodes=4 contiguous"), "");
}

#[test]
fn t45_ranks_follow_the_topology() {
    let mut lab = Lab::new(
        "
        node node[1-8] cpus=1
        level block
        domain b1 level=block nodes=node[1,3,5,7]
        domain b2 level=block nodes=node[2,4,6,8]
        ",
    );
    assert_eq!(lab.placed("all nodes=8 tasks=8"), "node[1,3,5,7,2,4,6,8]");
}

const TWO_BLOCKS: &str = "
    node n[1-8] cpus=1
    level block size=4
    level block8 size=8
    domain b1 level=block nodes=n[1-4] in=bb1
    domain b2 level=block nodes=n[5-8] in=bb1
    domain bb1 level=block8
    topology span=blocks
";

#[test]
fn t47_a_job_waits_beside_free_nodes_for_its_block() {
    let mut lab = Lab::new(TWO_BLOCKS);
    occupy(&mut lab, &["n1", "n2", "n5", "n6", "n7"]);
    let id = lab.submit("three nodes=3 time=60");
    assert!(lab.plan().decisions.is_empty());
    assert_eq!(
        lab.reasons()[&id].to_string(),
        "needs 3 nodes in one block; at most 2 are free so (b1), 3 in all"
    );
    let mut lab = Lab::new(TWO_BLOCKS);
    occupy(&mut lab, &["n1", "n2", "n3"]);
    assert_eq!(lab.placed("five nodes=5"), "n[4-8]");
}

const FOUR_BLOCKS: &str = "
    node n[1-16] cpus=1
    level block size=4
    level block8 size=8
    domain b1 level=block nodes=n[1-4] in=bb1
    domain b2 level=block nodes=n[5-8] in=bb1
    domain b3 level=block nodes=n[9-12] in=bb2
    domain b4 level=block nodes=n[13-16] in=bb2
    domain bb1 level=block8
    domain bb2 level=block8
    topology span=blocks
";

#[test]
fn t48_aggregated_blocks_are_fixed_pairs() {
    let mut lab = Lab::new(FOUR_BLOCKS);
    occupy(&mut lab, &["n1", "n2", "n3", "n5", "n9", "n10", "n13"]);
    // Free: 1, 3, 2, 3.
    assert_eq!(lab.placed("five nodes=5"), "n[11-12,14-16]");
    assert_eq!(lab.placed("six nodes=6"), "");
}

const RACKS_OF_17: &str = "
    node n[1-51] cpus=1
    level rack size=17
    domain r1 level=rack nodes=n[1-17]
    domain r2 level=rack nodes=n[18-34]
    domain r3 level=rack nodes=n[35-51]
    topology span=blocks
";

#[test]
fn t49_segments() {
    let mut lab = Lab::new(RACKS_OF_17);
    let found = lab.placed("a nodes=36 segment=12");
    assert_eq!(found, "n[1-12,18-29,35-46]");
    assert_eq!(lab.placed("b nodes=5 segment=2"), "");
    assert_eq!(lab.placed("c nodes=4 segment=8"), "n[1-4]");
    let mut lab = Lab::new(TWO_BLOCKS);
    assert_eq!(lab.placed("d nodes=6 segment=3 nodelist=n[1-6]"), "");
    assert_eq!(lab.placed("e nodes=6 segment=3 nodelist=n[1-3,5-7]"), "n[1-3,5-7]");
    // An update of a node that changes nothing takes it out of no block.
    let mut lab = Lab::new(RACKS_OF_17);
    let nodes: Vec<_> = lab.state.nodes.values().cloned().collect();
    for node in nodes {
        lab.event(muster_model::EventKind::NodeSet { node: Box::new(node.as_ref().clone()) });
    }
    assert_eq!(lab.placed("f nodes=36 segment=12"), "n[1-12,18-29,35-46]");
}

#[test]
fn t50_spread_and_consolidate() {
    let blocks_of_8 = "
        node n[1-32] cpus=1
        level block size=8
        level block16 size=16
        domain b1 level=block nodes=n[1-8] in=bb1
        domain b2 level=block nodes=n[9-16] in=bb1
        domain b3 level=block nodes=n[17-24] in=bb2
        domain b4 level=block nodes=n[25-32] in=bb2
        domain bb1 level=block16
        domain bb2 level=block16
        topology span=blocks
    ";
    let mut lab = Lab::new(blocks_of_8);
    assert_eq!(lab.placed("a nodes=8 segment=4"), "n[1-8]");
    assert_eq!(lab.placed("b nodes=8 segment=4 segments=spread"), "n[1-4,9-12]");
    let mut lab = Lab::new(FOUR_BLOCKS);
    // Free: 4, 0, 4, 2.
    occupy(&mut lab, &["n5", "n6", "n7", "n8", "n13", "n14"]);
    assert_eq!(lab.placed("c nodes=8 segment=4 segments=consolidate"), "");
    assert_eq!(lab.placed("d nodes=8 segment=4"), "n[1-4,9-12]");
}

/// Two racks of 18 trays with four GPUs each.
fn nvl72() -> Lab {
    Lab::new(
        "
        node a[1-18] cpus=4 gpus=4xgb200
        node b[1-18] cpus=4 gpus=4xgb200
        level nvlink link=900000
        domain A level=nvlink nodes=a[1-18]
        domain B level=nvlink nodes=b[1-18]
        ",
    )
}

#[test]
fn t51_racks_of_72_gpus() {
    let mut lab = nvl72();
    occupy(&mut lab, &["a18", "b18"]);
    let required = "topology=required:nvlink gpus-per-node=4";
    assert_eq!(lab.placed(&format!("a nodes=18 {required}")), "");
    let mut lab = nvl72();
    occupy(&mut lab, &["b1", "b2"]);
    assert_eq!(lab.placed(&format!("b nodes=16 {required}")), "b[3-18]");
    assert_eq!(lab.placed(&format!("c nodes=20 {required}")), "");
    let preferred = "topology=preferred:nvlink gpus-per-node=4";
    assert_eq!(lab.placed(&format!("c nodes=20 {preferred}")), "a[1-18],b[3-4]");
    assert_eq!(lab.placed("d nodes=20 segment=10 gpus-per-node=4"), "a[1-10],b[3-12]");
    assert_eq!(lab.placed("e gpus=4"), "b3");
}

#[test]
fn t52_the_domain_is_what_the_fabric_says() {
    let mut lab = Lab::new(
        "
        node t[1-16] cpus=1 labels=clique:7
        node t[17-18] cpus=1 labels=clique:8
        node t19 cpus=1
        level nvlink label=clique
        ",
    );
    assert_eq!(lab.placed("a nodes=17 topology=required:nvlink"), "");
    assert_eq!(lab.placed("b nodes=2 topology=required:nvlink"), "t[17-18]");
    assert_eq!(lab.placed("c nodes=1 topology=required:nvlink nodelist=t19"), "");
    assert_eq!(lab.placed("d nodes=1 nodelist=t19"), "t19");
}

#[test]
fn t53_light_nodes_come_first_where_no_level_is_asked() {
    let mut lab = Lab::new(
        "
        node a[1-4] cpus=1 weight=10
        node b[1-3] cpus=1 weight=1
        node c1 cpus=1 weight=1
        level leaf
        level spine
        domain A level=leaf nodes=a[1-4] in=S
        domain B level=leaf nodes=b[1-3] in=S
        domain C level=leaf nodes=c1 in=S
        domain S level=spine
        ",
    );
    assert_eq!(lab.placed("plain nodes=4"), "b[1-3],c1");
    assert_eq!(lab.placed("asked nodes=4 topology=preferred:leaf"), "a[1-4]");
}

#[test]
fn t54_no_path_no_job() {
    let leaves = "
        node a[1-4] cpus=1
        node b[1-4] cpus=1
        level leaf
        domain A level=leaf nodes=a[1-4]
        domain B level=leaf nodes=b[1-4]
        topology span=connected
    ";
    let mut lab = Lab::new(leaves);
    assert_eq!(lab.placed("six nodes=6"), "");
    lab.set_up("topology span=anywhere");
    assert_eq!(lab.placed("six nodes=6"), "a[1-4],b[1-2]");
}

/// How good a set of nodes is, said anew: by hand, from the words of the docs.
fn worth(
    lab: &Lab,
    free: &[NodeId],
    set: &[NodeId],
    preferred: Option<usize>,
) -> (usize, usize, Vec<usize>, std::cmp::Reverse<usize>, Vec<usize>) {
    let nodes: Vec<_> = lab.state.nodes.values().map(AsRef::as_ref).collect();
    let levels = lab.state.topology.levels.len();
    let paths = lab.state.topology.paths(&nodes);
    let groups = |level: usize, of: &[NodeId]| -> BTreeMap<String, usize> {
        let mut groups = BTreeMap::new();
        for id in of {
            // Where a level is missing, what is below it stands for itself.
            let below = (0..=level).rev().find_map(|l| paths[id][l].map(|name| (l, name)));
            let name = below.map_or(format!("alone {id}"), |(l, name)| format!("{l} {name}"));
            *groups.entry(name).or_default() += 1;
        }
        groups
    };
    let used: Vec<_> = (0..levels).map(|level| groups(level, set)).collect();
    let height = used.iter().position(|g| g.len() == 1).unwrap_or(levels);
    let left = |level: usize| {
        let all = groups(level, free);
        used[level].iter().map(|(name, n)| all[name] - n).sum::<usize>()
    };
    (
        preferred.map_or(0, |level| used[level].len()),
        height,
        used[..height].iter().rev().map(BTreeMap::len).collect(),
        std::cmp::Reverse(used[0].values().map(|n| n * (n - 1) / 2).sum()),
        (0..levels.min(height + 1)).rev().chain(height + 1..levels).map(left).collect(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(400),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A small gang gets the best of all sets of nodes that could take it.
    #[test]
    fn small_gangs_get_the_best_nodes_there_are(
        leaves in prop::collection::vec((1usize..=4, 0usize..3), 1..=5),
        busy in prop::collection::btree_set(0usize..20, 0..6),
        count in 2u32..=6,
        wish in 0usize..3,
    ) {
        let mut fixture = String::from("level leaf\nlevel spine\n");
        let mut next = 1;
        for (at, (size, spine)) in leaves.iter().enumerate() {
            let nodes = format!("n[{next}-{}]", next + size - 1);
            let line = format!("node {nodes} cpus=1\n");
            fixture += &line;
            // Some leaves are under no spine.
            let above = if *spine == 2 { String::new() } else { format!(" in=s{spine}") };
            let line = format!("domain l{at} level=leaf nodes={nodes}{above}\n");
            fixture += &line;
            next += size;
        }
        fixture.push_str("domain s0 level=spine\ndomain s1 level=spine\n");
        let mut lab = Lab::new(&fixture);
        proved(&mut lab, |lab| {
            let names: Vec<String> =
                busy.iter().filter(|n| **n < next - 1).map(|n| format!("n{}", n + 1)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            occupy(lab, &names);
            let taken: Vec<NodeId> = lab.state.index.on_node.keys().copied().collect();
            let free: Vec<NodeId> =
                lab.state.nodes.keys().copied().filter(|id| !taken.contains(id)).collect();
            let (word, preferred) = [
                ("", None),
                (" topology=preferred:leaf", Some(0)),
                (" topology=preferred:spine", Some(1)),
            ][wish];
            let id = lab.submit(&format!("gang nodes={count}{word} time=60"));
            let plan = lab.plan();
            let got = placement(&plan, id);
            prop_assert_eq!(got.is_some(), free.len() >= count as usize);
            let Some(got) = got else { return Ok(()) };
            let set: Vec<NodeId> = got.nodes.iter().map(|n| n.node).collect();
            let own = worth(lab, &free, &set, preferred);
            let best = (0u32..1 << free.len())
                .filter(|mask| mask.count_ones() == count)
                .map(|mask| {
                    let set: Vec<NodeId> =
                        (0..free.len()).filter(|i| mask & (1 << i) != 0).map(|i| free[i]).collect();
                    worth(lab, &free, &set, preferred)
                })
                .min();
            prop_assert_eq!(Some(own), best);
            Ok(())
        })?;
    }
}

/// A node that the job names is among its nodes also where it is heavier than others that would do.
#[test]
fn a_named_node_is_taken_whatever_its_weight_is() {
    let mut lab = Lab::new(
        "node n1 cpus=1 switch=s0 weight=5\nnode n2 cpus=1 switch=s0\nnode n3 cpus=1 switch=s1",
    );
    lab.submit("j nodes=2 nodelist=n1 time=10");
    let plan = lab.plan();
    let nodes: Vec<_> = plan.decisions[0].starts()[0].placement.nodes.iter().collect();
    let names: Vec<String> = nodes.iter().map(|share| lab.state.node_name(share.node)).collect();
    assert_eq!(names, ["n1", "n2"]);
}
