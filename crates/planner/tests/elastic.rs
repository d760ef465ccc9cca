//! Elastic jobs: what they give up, and a checker that finds it where they give up wrongly.

use muster_model::{Decision, JobId, NodeId, Plan, PreemptMode, Victim};
use muster_plan_check::Rule;
use muster_planner::{Budget, Planner};
use muster_test_kit::Lab;
use std::collections::BTreeSet;
use std::sync::Arc;

fn plan(lab: &Lab) -> Plan {
    let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
    let found = muster_plan_check::check_full(&lab.state, &plan);
    assert!(found.is_empty(), "the plan is not good: {found:#?}");
    plan
}

/// An elastic job on three nodes of three, and one that waits for a node.
fn site(job: &str) -> (Lab, Plan) {
    let mut lab = Lab::new("node n[1-3] cpus=4 mem=16G");
    lab.submit(job);
    let first = plan(&lab);
    lab.carry_out(&first);
    lab.at_minute(10);
    lab.submit("small nodes=1 cpus=4 mem=1G time=20");
    let good = plan(&lab);
    (lab, good)
}

fn victim(plan: &mut Plan) -> &mut Victim {
    let found = plan.decisions.iter_mut().find_map(|d| match d {
        Decision::Preempt(preempt) => preempt.victims.first_mut(),
        _ => None,
    });
    found.expect("somebody makes room")
}

fn broken(lab: &Lab, plan: &Plan) -> BTreeSet<Rule> {
    muster_plan_check::check_full(&lab.state, plan).iter().map(|v| v.rule).collect()
}

#[test]
fn what_is_above_the_least_is_given_up_and_no_more() {
    let (_, mut good) = site("train elastic=2-3 cpus=4 mem=1G time=100");
    let found = victim(&mut good).clone();
    assert_eq!((found.job, found.mode), (JobId(1), PreemptMode::Requeue));
    assert_eq!(found.keeps.expect("it keeps some").nodes.len(), 2);
    // One that is at its least, and one that cannot start again, give up nothing.
    for job in
        ["train elastic=3-4 cpus=4 mem=1G time=100", "t elastic=2-3 no-requeue cpus=4 mem=1G"]
    {
        let (_, good) = site(job);
        assert!(good.decisions.is_empty(), "{good:?}");
    }
}

#[test]
fn a_wrong_shrink_is_found() {
    let spoilers: [(&str, fn(&mut Victim)); 3] = [
        ("below its least", |victim| {
            let keeps = victim.keeps.as_mut().expect("it keeps some");
            Arc::make_mut(keeps).nodes.truncate(1);
        }),
        ("by another way", |victim| victim.mode = PreemptMode::Cancel),
        ("on all of its nodes", |victim| {
            let keeps = Arc::make_mut(victim.keeps.as_mut().expect("it keeps some"));
            let missing = (0..3).map(NodeId).find(|id| keeps.nodes.iter().all(|s| s.node != *id));
            let mut more = keeps.nodes[0].clone();
            more.node = missing.expect("it gave one up");
            keeps.nodes.push(more);
        }),
    ];
    for (name, spoil) in spoilers {
        let (lab, mut plan) = site("train elastic=2-3 cpus=4 mem=1G time=100");
        spoil(victim(&mut plan));
        assert!(broken(&lab, &plan).contains(&Rule::ShrinkWrong), "{name}");
    }
}
