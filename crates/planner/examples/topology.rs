//! A bench of placement across nodes: ring all-reduce over modelled links, for nodes taken at
//! random, in order of name, and by muster, on a half-full cluster of three switch levels.
//!
//! `cargo xtask bench topology`, or `cargo run --release -p muster-planner --example topology`.
//! The links: 50 GB/s between two nodes of a leaf, 25 GB/s over a spine and 12.5 GB/s over the core,
//! as on a network that is thinned out by two at each level; and the uplinks of a leaf or spine
//! together carry an eighth of what its nodes could send.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // a program for people

use muster_model::{
    Decision, EventKind, LinkSpeed, NodeId, Topology, TopologyDomain, TopologyLevel,
};
use muster_planner::{Budget, Planner, topology::ring};
use muster_test_kit::Lab;
use std::collections::BTreeMap;

const CORES: u32 = 2;
const SPINES: u32 = 4;
const LEAVES: u32 = 8;
const NODES: u32 = 16;
const LINK: u64 = 50_000;

/// Numbers that look random and are the same in every run (Knuth's MMIX generator).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.roll(at + 1));
        }
    }
}

fn topology() -> Topology {
    let level = |name: &str, link: u64, uplink: u64| TopologyLevel {
        name: name.to_owned(),
        link: LinkSpeed(link),
        uplink: LinkSpeed(uplink),
        ..TopologyLevel::default()
    };
    let below = u64::from(NODES) * LINK;
    let levels = vec![
        level("leaf", LINK, below / 8),
        level("spine", LINK / 2, below * u64::from(LEAVES) / 8),
        level("core", LINK / 4, 0),
    ];
    let mut domains = BTreeMap::new();
    let mut add = |name: String, level, parent: Option<String>, nodes: Vec<String>| {
        let nodes = nodes.into_iter().collect();
        domains.insert(name, TopologyDomain { level, parent, nodes, ..TopologyDomain::default() });
    };
    add("top".to_owned(), 2, None, Vec::new());
    for spine in 0..CORES * SPINES {
        add(format!("s{spine}"), 1, Some("top".to_owned()), Vec::new());
        for leaf in spine * LEAVES..(spine + 1) * LEAVES {
            let nodes = (leaf * NODES..(leaf + 1) * NODES).map(|n| format!("n{n}"));
            add(format!("l{leaf}"), 0, Some(format!("s{spine}")), nodes.collect());
        }
    }
    Topology { levels, domains, ..Topology::default() }
}

fn main() {
    let total = CORES * SPINES * LEAVES * NODES;
    let mut lab = Lab::new(&format!("node n[0-{}] cpus=8 mem=64G", total - 1));
    lab.event(EventKind::TopologySet { topology: Box::new(topology()) });
    // Half of the nodes are taken, in pieces as they come and go.
    let mut dice = Dice(7);
    let mut all: Vec<u32> = (0..total).collect();
    dice.shuffle(&mut all);
    let taken: Vec<String> = all[..(total / 2) as usize].iter().map(|n| format!("n{n}")).collect();
    for node in &taken {
        lab.submit(&format!("busy nodelist={node} exclusive time=600"));
    }
    let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
    lab.carry_out(&plan);
    let free: Vec<NodeId> = lab
        .state
        .nodes
        .keys()
        .copied()
        .filter(|id| !lab.state.index.on_node.contains_key(id))
        .collect();
    println!("{total} nodes, {} free; ring bandwidth, random ones as the mean of 10", free.len());
    println!("| gang | random | by name | muster | of the link |\n| --- | --- | --- | --- | --- |");
    let mut ratios = Vec::new();
    for count in [2usize, 4, 8, 16, 32, 64, 128] {
        let mut random = 0;
        for _ in 0..10 {
            let mut some = free.clone();
            dice.shuffle(&mut some);
            random += ring(&lab.state, &some[..count]).0 / 10;
        }
        let packed = ring(&lab.state, &free[..count]).0;
        let id = lab.submit(&format!("gang nodes={count} exclusive time=60"));
        let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
        let own: Vec<NodeId> = plan
            .decisions
            .iter()
            .filter_map(|d| match d {
                Decision::Start(starts) => Some(starts),
                _ => None,
            })
            .flatten()
            .filter(|s| s.job == id)
            .flat_map(|s| s.placement.nodes.iter().map(|n| n.node))
            .collect();
        lab.cancel(id);
        let muster = ring(&lab.state, &own).0;
        ratios.push(muster * 100 / random.max(1));
        println!(
            "| {count} | {} | {} | {} | {} % |",
            LinkSpeed(random),
            LinkSpeed(packed),
            LinkSpeed(muster),
            muster * 100 / LINK
        );
    }
    let mean = ratios.iter().sum::<u64>() / ratios.len() as u64;
    println!("muster's placement has {mean} % of the ring bandwidth of a random one");
}
