//! Placement inside a node on real machine layouts: the cases T-01 to T-27 that the core decides,
//! and the choice of devices against brute force.

use muster_model::{
    CpuSet, DeviceLink, EventKind, ForeignUse, LinkKind, Mib, Node, NodeId, NodeShare, Timestamp,
    links,
};
use muster_scenario::machines::{machine, names};
use muster_test_kit::{Lab, placement, proved};
use proptest::prelude::*;

/// A laboratory with one machine of which some GPUs and CPUs are busy.
fn lab(layout: &str, busy: &[u32], busy_cpus: &str) -> Lab {
    let mut lab = Lab::new(&format!("node n1 machine={layout}"));
    busy_now(&mut lab, busy, busy_cpus);
    lab
}

fn busy_now(lab: &mut Lab, busy: &[u32], cpus: &str) {
    let one = |device| ForeignUse { device, memory: Mib(1), ..ForeignUse::default() };
    let mut foreign: Vec<ForeignUse> = busy.iter().map(|i| one(Some(*i))).collect();
    if !cpus.is_empty() {
        foreign.push(ForeignUse { cpus: CpuSet::parse(cpus).expect("cpus"), ..one(None) });
    }
    lab.event(EventKind::NodeForeign { node: NodeId(0), foreign });
}

/// What the job gets of the machine.
fn share(lab: &mut Lab, job: &str) -> Option<NodeShare> {
    let id = lab.submit(&format!("j {job} mem=1G time=10"));
    placement(&lab.plan(), id).map(|placement| placement.nodes[0].clone())
}

/// The GPUs that a job gets on the machine where some are busy.
fn gpus(layout: &str, busy: &[u32], job: &str) -> Vec<u32> {
    let share = share(&mut lab(layout, busy, ""), job);
    share.map_or_else(Vec::new, |s| s.devices.iter().map(|d| d.index).collect())
}

fn want(count: u32) -> String {
    format!("nodes=1 gpus-per-node={count}")
}

fn is_one_of(got: &[u32], sets: &[&[u32]]) {
    assert!(sets.contains(&got), "{got:?} is none of {sets:?}");
}

#[test]
fn t01_a_pair_on_an_empty_cube_mesh() {
    assert_eq!(gpus("M01", &[], &want(2)), [0, 3]);
    assert_eq!(gpus("M02", &[], &want(2)).len(), 2);
}

#[test]
fn t02_neighbours_by_number_are_not_neighbours_by_link() {
    assert_eq!(gpus("M01", &[2, 3, 5, 7], &want(2)), [0, 4]);
    is_one_of(&gpus("M01", &[0, 2, 5, 7], &want(2)), &[&[1, 3], &[4, 6]]);
    is_one_of(&gpus("M01", &[0, 3, 4, 7], &want(2)), &[&[1, 2], &[5, 6]]);
}

#[test]
fn t03_four_on_a_cube_mesh() {
    is_one_of(&gpus("M01", &[], &want(4)), &[&[0, 1, 2, 3], &[4, 5, 6, 7]]);
    assert_eq!(gpus("M01", &[2], &want(4)), [4, 5, 6, 7]);
    assert_eq!(gpus("M01", &[0, 7], &want(4)), [1, 2, 5, 6]);
    assert_eq!(gpus("M01", &[1, 6], &want(4)), [0, 3, 4, 7]);
}

#[test]
fn t04_the_slowest_edge_comes_before_the_sum() {
    let picked = gpus("M01", &[3, 5], &want(4));
    assert_eq!(picked, [0, 2, 4, 6]);
    let node = machine(NodeId(0), "n1", "M01").unwrap();
    assert_eq!(links::ring(&node, &picked), (vec![0, 2, 6, 4], 25));
}

#[test]
fn t05_three_of_eight() {
    is_one_of(&gpus("M01", &[], &want(3)), &[&[0, 2, 3], &[1, 2, 3], &[4, 6, 7], &[5, 6, 7]]);
    assert_eq!(gpus("M01", &[3], &want(3)), [5, 6, 7]);
    assert_eq!(gpus("M01", &[0, 6], &want(3)), [1, 2, 3]);
}

#[test]
fn t06_one_gpu_next_to_a_broken_clique() {
    is_one_of(&gpus("M01", &[0], &want(1)), &[&[1], &[3]]);
}

#[test]
fn t07_one_gpu_does_not_break_a_bridge_pair() {
    assert_eq!(gpus("M08", &[0], &want(1)), [1]);
    is_one_of(&gpus("M08", &[0, 6], &want(1)), &[&[1], &[7]]);
}

#[test]
fn t08_two_on_a_bridge_machine() {
    assert_eq!(gpus("M08", &[0, 3, 4], &want(2)), [6, 7]);
    is_one_of(&gpus("M08", &[0, 2, 5, 7], &want(2)), &[&[1, 3], &[4, 6]]);
    assert_eq!(gpus("M08", &[1, 2, 6], &want(2)), [4, 5]);
}

#[test]
fn t09_three_on_a_bridge_machine_use_an_orphan() {
    is_one_of(&gpus("M08", &[3, 5], &want(3)), &[&[0, 1, 2], &[4, 6, 7]]);
}

#[test]
fn t10_t11_rank_order_for_a_ring() {
    let all: Vec<u32> = (0..8).collect();
    let node = machine(NodeId(0), "n1", "M01").unwrap();
    assert_eq!(links::ring(&node, &all), (vec![0, 3, 2, 1, 5, 6, 7, 4], 50));
    let node = machine(NodeId(0), "n1", "M19").unwrap();
    assert_eq!(links::ring(&node, &all).1, 100);
    assert_eq!(links::ring(&node, &[0, 1, 2, 3]).0, [0, 1, 3, 2]);
    is_one_of(&gpus("M19", &[], &want(4)), &[&[0, 1, 2, 3], &[4, 5, 6, 7]]);
    assert_eq!(gpus("M19", &[1, 3, 4, 5, 7], &want(2)), [0, 6]);
}

#[test]
fn t12_bridges_that_cross_sockets() {
    is_one_of(&gpus("M14", &[], "nodes=1 gpus-per-node=2 tasks=2"), &[&[0, 3], &[1, 2]]);
    let two = share(&mut lab("M14", &[], ""), "nodes=1 gpus-per-node=2 tasks=2 cpus=4");
    assert_eq!(two.map(|s| s.cpus.to_string()).as_deref(), Some("0-3,16-19"));
}

#[test]
fn t12_t15_enforced_binding_follows_the_socket() {
    let job = "nodes=1 gpus-per-node=2 cpus=1 enforce-binding";
    is_one_of(&gpus("M14", &[], job), &[&[0, 1], &[2, 3]]);
    let busy_cpus = "0-59,128-191,64-87,192-255";
    let job = "nodes=1 gpus-per-node=2 cpus=16 enforce-binding";
    assert!(share(&mut lab("M09", &[4, 5, 6, 7], busy_cpus), job).is_none());
    let near = share(&mut lab("M09", &[6, 7], busy_cpus), job).expect("starts");
    assert!(near.cpus.is_subset(&CpuSet::parse("64-127").expect("cpus")));
}

#[test]
fn t13_gpu_0_is_not_next_to_core_0() {
    let got = share(&mut lab("M04", &[], ""), "nodes=1 gpus-per-node=2 cpus=16").expect("starts");
    let picked: Vec<u32> = got.devices.iter().map(|d| d.index).collect();
    let beside = match picked[..] {
        [0, 1] => "48-63",
        [2, 3] => "16-31",
        [4, 5] => "112-127",
        [6, 7] => "80-95",
        _ => panic!("{picked:?} is no pair of one domain"),
    };
    assert_eq!(got.cpus.to_string(), beside);
}

#[test]
fn t14_partners_on_different_numa_nodes() {
    let two = share(&mut lab("M15", &[], ""), "nodes=1 gpus-per-node=2 tasks=2 cpus=8");
    assert_eq!(two.map(|s| s.cpus.to_string()).as_deref(), Some("0-7,24-31"));
    let one = share(&mut lab("M15", &[], ""), "nodes=1 gpus-per-node=2 cpus=8").expect("starts");
    assert_eq!(one.devices.iter().map(|d| d.index).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(one.cpus.to_string(), "0-7");
}

#[test]
fn t15_cores_used_up_beside_the_gpu() {
    let busy_cpus = "0-59,128-191,64-87,192-255";
    let job = "nodes=1 gpus-per-node=2 cpus=16";
    let near = share(&mut lab("M09", &[6, 7], busy_cpus), job).expect("starts");
    assert_eq!(near.devices.iter().map(|d| d.index).collect::<Vec<_>>(), [4, 5]);
    assert!(near.cpus.is_subset(&CpuSet::parse("64-127").expect("cpus")));
    let far = share(&mut lab("M09", &[4, 5, 6, 7], busy_cpus), job).expect("starts");
    assert_eq!(far.cpus.to_string(), "60-63,88-99");
    // Those that are far are told as such.
    let node = machine(NodeId(0), "n1", "M09").expect("known");
    assert_eq!(links::far_cpus(&node, &far).to_string(), "88-99");
    assert!(links::far_cpus(&node, &near).is_empty());
}

#[test]
fn t16_three_of_five_and_three() {
    assert_eq!(gpus("M11", &[], &want(3)), [5, 6, 7]);
    let four = gpus("M11", &[], &want(4));
    assert!(four.iter().all(|i| *i < 5), "{four:?}");
    // (b) and (d): the same on each of two such nodes.
    for (count, is_right) in [(3, (|i| i >= 5) as fn(u32) -> bool), (4, |i| i < 5)] {
        let mut lab = Lab::new("node n[1-2] machine=M11");
        let id = lab.submit(&format!("j nodes=2 gpus-per-node={count} mem=1G time=10"));
        let plan = lab.plan();
        let nodes = &placement(&plan, id).expect("it starts").nodes;
        assert_eq!(nodes.len(), 2);
        for share in nodes {
            let own: Vec<u32> = share.devices.iter().map(|d| d.index).collect();
            assert!(own.len() == count && own.iter().all(|i| is_right(*i)), "{own:?}");
        }
    }
}

#[test]
fn t18_uneven_numa_groups() {
    let got = share(&mut lab("M07", &[], ""), "nodes=1 gpus-per-node=4 tasks=4 cpus=6");
    let got = got.expect("starts");
    assert_eq!(got.devices.iter().map(|d| d.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(got.cpus.to_string(), "0-17,24-29");
}

#[test]
fn t19_a_weakened_nvlink() {
    let weaken = |lab: &mut Lab| {
        let mut node = Node::clone(&lab.state.nodes[&NodeId(0)]);
        for (of, peer) in [(0, 3), (3, 0)] {
            let links = &mut node.devices[of].links;
            links.retain(|l| l.peer != peer || !matches!(l.kind, LinkKind::NvLink(_)));
            links.push(DeviceLink { peer, kind: LinkKind::NvLink(1) });
        }
        lab.event(EventKind::NodeSet { node: Box::new(node) });
    };
    let got = |count: u32| {
        let mut lab = lab("M01", &[], "");
        weaken(&mut lab);
        let share = share(&mut lab, &want(count)).expect("starts");
        let devices: Vec<u32> = share.devices.iter().map(|d| d.index).collect();
        let ring = links::ring(&lab.state.nodes[&NodeId(0)], &devices).1;
        (devices, ring)
    };
    assert_eq!(got(2).0, [2, 3]);
    assert_eq!(got(4).0, [4, 5, 6, 7]);
    assert_eq!(got(8).1, 25);
}

#[test]
fn t20_a_gpu_that_lost_nvlink_on_a_switched_machine() {
    assert!(!gpus("M06-hurt", &[], &want(4)).contains(&5));
    assert_eq!(gpus("M06-hurt", &[], &want(7)), [0, 1, 2, 3, 4, 6, 7]);
    let node = machine(NodeId(0), "n1", "M06-hurt").unwrap();
    assert_eq!(links::all_reduce_speed(&node, &(0..8).collect::<Vec<_>>()), 36);
    assert_eq!(gpus("M06-hurt", &[], &want(1)), [5]);
}

#[test]
fn t21_unequal_cards() {
    assert_eq!(gpus("M21", &[], &want(2)), [1, 2]);
    assert_eq!(gpus("M21", &[], "nodes=1 gpus-per-node=1 gpu-memory=20G"), [0]);
    assert_eq!(gpus("M21", &[], "nodes=1 gpus-per-node=2 gpu-memory=11G"), [1, 2]);
    assert_eq!(gpus("M21", &[], &want(1)), [3]);
    assert!(gpus("M21", &[], "nodes=1 gpus-per-node=2 gpu-memory=16G").is_empty());
}

#[test]
fn t22_memory_only_numa_nodes_are_no_sockets() {
    let node = machine(NodeId(0), "n1", "M17").unwrap();
    assert_eq!(node.sockets(), 4);
    let got = share(&mut lab("M17", &[0, 1, 3], ""), "nodes=1 gpus-per-node=1 cpus=4");
    assert_eq!(got.map(|s| s.cpus.to_string()).as_deref(), Some("144-147"));
}

#[test]
fn t17_each_gpu_comes_with_its_card() {
    // GPU 1 goes with k3, not with k1, which is nobody's.
    let cards = |lab: &Lab, picked: &[u32]| -> Vec<String> {
        let node = &lab.state.nodes[&NodeId(0)];
        picked.iter().filter_map(|i| node.devices[*i as usize].nic.clone()).collect()
    };
    let mut lab = lab("M06", &[0, 1], "");
    let picked = share(&mut lab, &want(2)).expect("starts");
    let picked: Vec<u32> = picked.devices.iter().map(|d| d.index).collect();
    assert!(picked.iter().all(|i| *i < 4) || picked.iter().all(|i| *i >= 4), "{picked:?}");
    assert_eq!(cards(&lab, &picked).len(), 2);
    assert_eq!(cards(&lab, &[2, 3]), ["k4", "k5"]);
    let all: Vec<u32> = (0..8).collect();
    assert_eq!(cards(&lab, &all), ["k0", "k3", "k4", "k5", "k6", "k9", "k10", "k11"]);
    // Two GPUs below one switch, one card: they share it.
    let node = machine(NodeId(0), "n1", "M01").expect("known");
    assert_eq!(node.devices[0].nic, node.devices[1].nic);
}

#[test]
fn t23_affinity_that_lies_is_no_ground_for_a_requirement() {
    let unsure = || {
        let mut lab = lab("M09", &[], "");
        let mut node = Node::clone(&lab.state.nodes[&NodeId(0)]);
        node.topology_uncertain = true;
        lab.event(EventKind::NodeSet { node: Box::new(node) });
        lab
    };
    let required = "nodes=1 gpus-per-node=2 cpus=4 enforce-binding";
    assert!(share(&mut lab("M09", &[], ""), required).is_some());
    assert!(share(&mut unsure(), required).is_none());
    let preferred = share(&mut unsure(), "nodes=1 gpus-per-node=2 cpus=4").expect("starts");
    assert!(preferred.cpus.is_subset(&CpuSet::parse("0-63").expect("cpus")));
}

#[test]
fn t26_more_links_win() {
    let two = gpus("M01", &[], "nodes=1 gpus-per-socket=2 sockets=1");
    is_one_of(&two, &[&[0, 3], &[1, 2], &[2, 3], &[4, 7], &[5, 6], &[6, 7]]);
}

#[test]
fn t27_gpus_of_each_socket() {
    let four = gpus("M11", &[], "nodes=1 gpus-per-socket=2 sockets=2");
    assert_eq!(four.iter().filter(|i| **i < 5).count(), 2, "{four:?}");
    assert_eq!(four.len(), 4);
    assert!(gpus("M11", &[], "nodes=1 gpus-per-socket=4 sockets=2").is_empty());
}

#[test]
fn c30_more_cpus_than_one_domain_has_free_are_not_beside_a_gpu() {
    // Eight CPUs are free on each of two domains: ten are, but not in one.
    let job = "nodes=1 gpus-per-node=1 cpus=10";
    let required = format!("{job} enforce-binding");
    assert!(share(&mut lab("M14", &[], "0-7,16-23"), &required).is_none());
    assert!(share(&mut lab("M14", &[], "0-5,16-23"), &required).is_some());
    assert!(share(&mut lab("M14", &[], "0-7,16-23"), job).is_some());
}

#[test]
fn c29_singles_fill_pairs_so_that_pairs_stay() {
    let mut lab = Lab::new("node n1 cpus=8 gpus=8xa100 mem=64G");
    let mut node = Node::clone(&lab.state.nodes[&NodeId(0)]);
    for (a, b) in [(0, 2), (1, 3), (4, 5), (6, 7)] {
        for (of, peer) in [(a, b), (b, a)] {
            node.devices[of as usize].links = vec![DeviceLink { peer, kind: LinkKind::NvLink(12) }];
        }
    }
    lab.event(EventKind::NodeSet { node: Box::new(node) });
    let taken = |lab: &mut Lab, count: u32| -> Vec<u32> {
        let id = lab.submit(&format!("j nodes=1 gpus-per-node={count} mem=1G time=10"));
        let plan = lab.unchecked_plan();
        lab.carry_out(&plan);
        let placement = lab.state.jobs[&id].placement.clone().expect("runs");
        placement.nodes[0].devices.iter().map(|d| d.index).collect()
    };
    let singles: Vec<u32> = (0..4).flat_map(|_| taken(&mut lab, 1)).collect();
    let pairs = [[0, 2], [1, 3], [4, 5], [6, 7]];
    assert_eq!(pairs.iter().filter(|p| p.iter().any(|i| singles.contains(i))).count(), 2);
    for _ in 0..2 {
        let two = taken(&mut lab, 2);
        assert!(pairs.iter().any(|p| p[..] == two[..]), "{two:?}");
    }
}

#[test]
fn every_machine_takes_jobs_of_every_size() {
    for name in names() {
        let all = machine(NodeId(0), "n1", name).unwrap().devices.len() as u32;
        for count in 1..=all {
            assert_eq!(gpus(name, &[], &want(count)).len() as u32, count, "{name} {count}");
        }
    }
}

/// The best ring over a set, by trying every order.
fn best_ring(node: &Node, set: &[u32]) -> u32 {
    fn go(node: &Node, ring: &mut Vec<u32>, left: &mut Vec<u32>, slowest: u32) -> u32 {
        let last = ring[ring.len() - 1];
        if left.is_empty() {
            return slowest.min(links::speed(node, last, ring[0]));
        }
        let mut best = 0;
        for at in 0..left.len() {
            let next = left.remove(at);
            ring.push(next);
            let edge = links::speed(node, last, next);
            best = best.max(go(node, ring, left, slowest.min(edge)));
            ring.pop();
            left.insert(at, next);
        }
        best
    }
    match set {
        [] | [_] => 0,
        [first, rest @ ..] => go(node, &mut vec![*first], &mut rest.to_vec(), u32::MAX),
    }
}

fn pair_sum(node: &Node, set: &[u32]) -> u64 {
    let pairs =
        set.iter().enumerate().flat_map(|(at, a)| set[at + 1..].iter().map(move |b| (a, b)));
    pairs.map(|(a, b)| u64::from(links::speed(node, *a, *b))).sum()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(100),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// No set has a better ring, or as good a ring and a greater sum.
    #[test]
    fn the_chosen_set_is_the_best_of_all(
        kinds in prop::collection::vec(0usize..7, 21),
        n in 2u32..=7,
        count in 1u32..=7,
        busy in 0u32..64,
    ) {
        let count = count.min(n);
        let mut lab = Lab::new(&format!("node n1 cpus=8 gpus={n}xa100 mem=64G"));
        proved(&mut lab, |lab| {
            let mut node = Node::clone(&lab.state.nodes[&NodeId(0)]);
            let mut next = kinds.iter().cycle();
            for a in 0..n {
                for b in a + 1..n {
                    let kind = match next.next() {
                        Some(0) => LinkKind::NvLink(12),
                        Some(1) => LinkKind::NvLink(4),
                        Some(2) => LinkKind::PcieSwitch,
                        Some(3) => LinkKind::PcieSwitches,
                        Some(4) => LinkKind::HostBridge,
                        Some(5) => LinkKind::Numa,
                        _ => LinkKind::Socket,
                    };
                    node.devices[a as usize].links.push(DeviceLink { peer: b, kind });
                }
            }
            lab.event(EventKind::NodeSet { node: Box::new(node.clone()) });
            let busy: Vec<u32> = (0..n).filter(|i| busy & (1 << i) != 0).collect();
            busy_now(lab, &busy, "");
            let free: Vec<u32> = (0..n).filter(|i| !busy.contains(i)).collect();
            let got = share(lab, &want(count));
            prop_assert_eq!(got.is_some(), free.len() >= count as usize);
            let Some(got) = got else { return Ok(()) };
            let got: Vec<u32> = got.devices.iter().map(|d| d.index).collect();
            let score = |set: &[u32]| (best_ring(&node, set), pair_sum(&node, set));
            let sets = (0u32..1 << free.len()).filter(|set| set.count_ones() == count);
            let best = sets
                .map(|set| {
                    let of = (0..free.len()).filter(|at| set & (1 << at) != 0).map(|at| free[at]);
                    score(&of.collect::<Vec<_>>())
                })
                .max();
            prop_assert_eq!(Some(score(&got)), best);
            prop_assert_eq!(links::ring(&node, &got).1, best_ring(&node, &got));
            prop_assert_eq!(lab.now, Timestamp::from_secs(0));
            Ok(())
        })?;
    }
}
