//! A brute-force oracle: on tiny clusters every placement there is, judged by the checker alone.
//!
//! It knows nothing of fitting: it writes down shares of nodes with any number of tasks, any number
//! of the free CPUs and any set of the free GPUs, and asks the checker whether that is a start.

use muster_model::{
    CpuSet, Decision, DeviceGrant, DeviceMilli, JobId, Mib, Node, NodeShare, Placement, Plan, Start,
};
use muster_plan_check::{Rule, Violation, check};
use muster_test_kit::arbitrary::request;
use muster_test_kit::{Lab, proved};
use proptest::prelude::*;
use std::sync::Arc;

/// At most so many combinations are tried for one job.
const COMBINATIONS_MAX: usize = 200_000;

/// The plan that starts the job on these shares and nothing else.
fn plan_of(lab: &Lab, job: JobId, nodes: Vec<NodeShare>) -> Plan {
    let record = &lab.state.jobs[&job];
    let request = &record.spec.request;
    let licences = request.licences.iter().map(|l| (l.name.clone(), l.count)).collect();
    let reservation = request.reservation.clone();
    let partition = "main".to_owned();
    let placement = Placement { partition, nodes, licences, reservation };
    let start = Start {
        job,
        attempt: 1,
        placement: Arc::new(placement),
        time_limit: record.time_limit,
        turn: None,
    };
    Plan { now: lab.now, decisions: vec![Decision::Start(vec![start])], ..Plan::default() }
}

/// True for rules that one share breaks by itself, whatever the others are.
const fn is_of_one_node(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::Cpus
            | Rule::Memory
            | Rule::GpuMemory
            | Rule::CpusOverallocated
            | Rule::MemoryOverallocated
            | Rule::GpuOverallocated
            | Rule::GresOverallocated
            | Rule::Exclusive
            | Rule::NodeUnusable
            | Rule::NotInPartition
            | Rule::Scratch
    )
}

/// Every share of a node that breaks no rule by itself.
fn shares(lab: &Lab, job: JobId, node: &Node) -> Vec<NodeShare> {
    let request = &lab.state.jobs[&job].spec.request;
    let used = lab.state.index.on_node.get(&node.id).into_iter().flatten();
    let used: Vec<NodeShare> = used
        .filter_map(|id| lab.state.jobs.get(id)?.placement.clone())
        .flat_map(|p| p.nodes.clone())
        .filter(|share| share.node == node.id)
        .collect();
    let mut free = node.cpus.clone();
    for share in &used {
        free.remove_all(&share.cpus);
    }
    let devices: Vec<u32> = (0..node.devices.len() as u32)
        .filter(|i| used.iter().all(|s| s.devices.iter().all(|d| d.index != *i)))
        .collect();
    let mut found = Vec::new();
    for tasks in 1..=6 {
        for cpus in 1..=free.len() {
            for set in 0u32..1 << devices.len() {
                let grant = |index: u32| DeviceGrant {
                    index,
                    share: DeviceMilli::WHOLE,
                    memory: node.devices[index as usize].memory,
                    mig: None,
                };
                let chosen = devices.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0);
                let share = NodeShare {
                    node: node.id,
                    tasks,
                    cpus: free.iter().take(cpus as usize).collect::<CpuSet>(),
                    cpu_pool: 0,
                    memory: Mib(256),
                    devices: chosen.map(|(_, index)| grant(*index)).collect(),
                    gres: request.gres.clone(),
                    exclusive: request.exclusive == muster_model::Exclusive::Node,
                };
                let found_here = check(&lab.state, &plan_of(lab, job, vec![share.clone()]));
                if !found_here.iter().any(|v| is_of_one_node(v.rule)) {
                    found.push(share);
                }
            }
        }
    }
    found
}

/// Some placement that breaks no rule; `Err` where there were too many to try.
fn any_placement(lab: &Lab, job: JobId) -> Result<Option<Plan>, ()> {
    let choices: Vec<Vec<Option<NodeShare>>> = lab
        .state
        .nodes
        .values()
        .map(|node| {
            let mut all: Vec<Option<NodeShare>> =
                shares(lab, job, node).into_iter().map(Some).collect();
            all.push(None);
            all
        })
        .collect();
    let combinations = choices.iter().map(Vec::len).product::<usize>();
    if combinations > COMBINATIONS_MAX {
        return Err(());
    }
    for mut number in 0..combinations {
        let mut nodes = Vec::new();
        for choice in &choices {
            nodes.extend(choice[number % choice.len()].clone());
            number /= choice.len();
        }
        if nodes.is_empty() {
            continue;
        }
        let plan = plan_of(lab, job, nodes);
        let found: Vec<Violation> = check(&lab.state, &plan);
        if found.is_empty() {
            return Ok(Some(plan));
        }
    }
    Ok(None)
}

/// The request with a fixed amount of memory: the oracle does not guess amounts.
fn with_fixed_memory(request: &str) -> String {
    let words = request.split_whitespace().filter(|w| !w.starts_with("mem"));
    format!("{} mem=256M time=10", words.collect::<Vec<_>>().join(" "))
}

/// A reservation that may be in the way of a job of ten minutes, or take it in, and how the job names
/// it. The oracle takes the first free CPUs of a node, so no part of a node's CPUs is reserved here.
fn reserved() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop::sample::select(vec![
        ("", ""),
        ("", ""),
        ("reservation r start=5 end=60 nodes=n1", ""),
        ("reservation r start=10 end=60 nodes=n1", ""),
        ("reservation r start=0 end=60 nodes=n1 gpus=0", ""),
        ("reservation r float=5 length=60 nodes=n1", ""),
        ("reservation r start=0 end=60 licences=sim:1", ""),
        ("reservation r start=0 end=60 nodes=n1", " reservation=r"),
        ("reservation r start=0 end=9 nodes=n1", " reservation=r"),
        ("reservation r start=0 end=60 licences=sim:1", " reservation=r"),
        ("reservation r start=30 end=60 nodes=n1 flags=FLEX", " reservation=r"),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(100),
        max_global_rejects: 100_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The planner starts a job exactly where some placement is allowed.
    #[test]
    fn a_job_starts_where_some_placement_is_allowed(
        nodes in prop::collection::vec((1u32..=3, 0u32..=2, 0usize..3), 1..=3),
        before in prop::collection::vec(request(), 0..2),
        last in request(),
        reserved in reserved(),
    ) {
        let mut fixture = String::from("licence sim 1\n");
        for (i, (cpus, gpus, features)) in nodes.iter().enumerate() {
            let features = ["red", "blue", "red,blue"][*features];
            let model = if i % 2 == 0 { "a100:40G" } else { "h100:80G" };
            let line = format!(
                "node n{} cpus={cpus} gpus={gpus}x{model} mem=1G features={features} gres=fpga:1 switch=s{} labels=zone:{}{}\n",
                i + 1,
                i / 2,
                ["a", "b"][i % 2],
                ["", ",hot:1", " taints=dirty"][(cpus + gpus) as usize % 3]
            );
            fixture.push_str(&line);
        }
        let mut lab = Lab::new(&fixture);
        proved(&mut lab, |lab| {
            for request in before {
                lab.submit(&format!("before {}", with_fixed_memory(&request)));
            }
            let plan = lab.unchecked_plan();
            lab.carry_out(&plan);
            for waiting in lab.state.index.pending.clone() {
                lab.cancel(waiting);
            }
            let (line, inside) = reserved;
            if !line.is_empty() {
                lab.set_up(line);
            }
            let job = lab.submit(&format!("last {}{inside}", with_fixed_memory(&last)));
            let allowed = any_placement(lab, job);
            prop_assume!(allowed.is_ok());
            let plan = lab.unchecked_plan();
            let starts = plan.decisions.iter().any(|d| matches!(d, Decision::Start(_)));
            prop_assert_eq!(starts, matches!(allowed, Ok(Some(_))), "{:#?}\n{:#?}", allowed, plan);
            Ok(())
        })?;
    }
}
