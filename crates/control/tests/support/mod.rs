//! What the tests of the loop share: a planner that takes the first node with room, a checker that
//! counts CPUs, and a cluster to run on.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod desk;

use muster_control::command::{Principal, Site, Submission};
use muster_control::{Breach, Checking, Planning};
use muster_model::placement::NodeShare;
use muster_model::{
    CpuSet, Decision, JobSpec, Mib, Node, NodeId, Owner, Partition, Payload, Placement, Plan,
    Start, State, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Starts jobs in order of their ids on the first node with enough free CPUs. Heterogeneous jobs
/// start whole.
#[derive(Default)]
pub(crate) struct FirstFit;

impl Planning for FirstFit {
    fn plan(&mut self, state: &State, now: Timestamp) -> Plan {
        let mut free = free_cpus(state);
        let mut plan = Plan { now, seq: state.seq, complete: true, ..Plan::default() };
        let mut array_active: BTreeMap<_, u32> =
            state.index.arrays.iter().map(|(id, record)| (*id, record.active)).collect();
        for id in &state.index.pending {
            let Some(job) = state.jobs.get(id) else { continue };
            if job.het.is_some_and(|part| part.offset > 0) {
                continue;
            }
            let members: Vec<_> = (0..job.het.map_or(1, |part| part.size))
                .filter_map(|offset| state.jobs.get(&muster_model::JobId(id.0 + offset)))
                .collect();
            let ready = members.iter().all(|j| {
                j.is_pending() && j.hold.is_none() && j.eligible.is_some_and(|at| at <= now)
            });
            if !ready {
                if job.dependency_is_hopeless() && state.policy.kill_invalid_dependency {
                    let reason =
                        muster_model::Reason::DependencyNeverSatisfied { term: String::new() };
                    plan.decisions.push(Decision::Reject { job: *id, reason });
                }
                continue;
            }
            if let Some(task) = job.array {
                let throttle = state.index.arrays.get(&task.array).and_then(|r| r.throttle);
                let active = array_active.entry(task.array).or_default();
                if throttle.is_some_and(|bound| *active >= bound) {
                    continue;
                }
                *active += 1;
            }
            let before = free.clone();
            let starts: Option<Vec<Start>> = members
                .iter()
                .map(|job| {
                    let cpus = job.spec.request.cpus_per_task();
                    let partition = state.partitions.get(&job.spec.partitions[0])?;
                    let (node, cpus) = take(state, partition, &mut free, cpus)?;
                    let share = NodeShare { node, tasks: 1, cpus, ..NodeShare::default() };
                    Some(Start {
                        job: job.id,
                        attempt: job.attempt + 1,
                        placement: Arc::new(Placement {
                            partition: partition.name.clone(),
                            nodes: vec![share],
                            ..Placement::default()
                        }),
                        time_limit: job.time_limit,
                        turn: None,
                    })
                })
                .collect();
            match starts {
                Some(starts) => plan.decisions.push(Decision::Start(starts)),
                None => free = before,
            }
        }
        plan
    }
}

fn take(
    state: &State,
    partition: &Partition,
    free: &mut BTreeMap<NodeId, BTreeSet<u32>>,
    count: u32,
) -> Option<(NodeId, CpuSet)> {
    let node = state
        .partition_nodes(partition)
        .find(|n| n.is_usable() && free.get(&n.id).is_some_and(|f| f.len() >= count as usize))?;
    let spare = free.get_mut(&node.id)?;
    let cpus: Vec<u32> = spare.iter().copied().take(count as usize).collect();
    for cpu in &cpus {
        spare.remove(cpu);
    }
    Some((node.id, cpus.into_iter().collect()))
}

/// CPUs of each node that no job has.
pub(crate) fn free_cpus(state: &State) -> BTreeMap<NodeId, BTreeSet<u32>> {
    let mut free: BTreeMap<NodeId, BTreeSet<u32>> =
        state.nodes.values().map(|n| (n.id, n.cpus.iter().collect())).collect();
    for share in state
        .index
        .active
        .iter()
        .filter_map(|id| state.jobs.get(id)?.placement.clone())
        .flat_map(|p| p.nodes.clone())
    {
        if let Some(free) = free.get_mut(&share.node) {
            for cpu in share.cpus.iter() {
                free.remove(&cpu);
            }
        }
    }
    free
}

/// Finds CPUs that are given twice.
pub(crate) struct CpuCheck;

impl Checking for CpuCheck {
    fn check(&self, state: &State, plan: &Plan) -> Vec<Breach> {
        let mut free = free_cpus(state);
        let mut breaches = Vec::new();
        for decision in &plan.decisions {
            let Decision::Start(starts) = decision else { continue };
            for start in starts {
                for share in &start.placement.nodes {
                    let fits = free
                        .get_mut(&share.node)
                        .is_some_and(|free| share.cpus.iter().all(|cpu| free.remove(&cpu)));
                    if !fits {
                        breaches.push(Breach {
                            rule: "over-allocated".to_owned(),
                            message: format!("job {} has CPUs twice", start.job),
                            jobs: vec![start.job],
                        });
                    }
                }
            }
        }
        breaches
    }
}

/// Nodes `n1`, `n2`, … with so many CPUs each.
pub(crate) fn nodes(count: u32, cpus: u32) -> Vec<Node> {
    (1..=count)
        .map(|i| Node {
            name: format!("n{i}"),
            cpus: CpuSet::first(cpus),
            threads_per_core: 1,
            memory: Mib(8192),
            ..Node::default()
        })
        .collect()
}

/// A site with one partition of all these nodes.
pub(crate) fn site(nodes: &[Node]) -> Site {
    Site {
        partitions: vec![Partition {
            name: "main".to_owned(),
            nodes: nodes.iter().map(|n| n.name.clone()).collect(),
            default: true,
            ..Partition::default()
        }],
        ..Site::default()
    }
}

/// Root.
pub(crate) fn root() -> Principal {
    Principal { uid: 0, gid: 0, user: "root".to_owned(), admin: true }
}

/// A user.
pub(crate) fn user(uid: u32) -> Principal {
    Principal { uid, gid: uid, user: format!("user{uid}"), admin: false }
}

/// A job of one CPU by this principal, running this script.
pub(crate) fn job(principal: &Principal, script: &str) -> Submission {
    let owner = Owner { uid: principal.uid, gid: principal.gid, user: principal.user.clone() };
    let spec = JobSpec {
        name: "test".to_owned(),
        owner,
        cwd: "/tmp".to_owned(),
        requeue: true,
        ..JobSpec::default()
    };
    Submission {
        specs: vec![spec],
        payload: Payload { script: script.to_owned(), ..Payload::default() },
    }
}
