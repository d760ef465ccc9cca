//! Elastic jobs: what they give up, and a checker that finds it where they give up wrongly.

use muster_model::{Decision, JobId, JobState, NodeId, Plan, PreemptMode, Victim};
use muster_plan_check::Rule;
use muster_planner::{Budget, Planner};
use muster_test_kit::Lab;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Makes a good decision a wrong one.
type Spoil = fn(&mut Victim);

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
        Decision::Grow(victim) => Some(victim.as_mut()),
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
    let spoilers: [(&str, Spoil); 3] = [
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

#[test]
fn one_that_lives_with_it_gives_up_nodes_and_goes_on() {
    let (mut lab, mut good) = site("train elastic=2-3,live no-requeue cpus=4 mem=1G time=100");
    let found = victim(&mut good).clone();
    assert_eq!(
        (found.mode, found.until),
        (PreemptMode::Shrink, lab.now.plus(lab.state.policy.kill_wait))
    );
    let keeps = found.keeps.expect("it keeps some");
    let own = lab.state.jobs[&JobId(1)].placement.clone().expect("it runs");
    assert_eq!(
        keeps.nodes,
        own.nodes[..1].iter().chain(&own.nodes[2..]).cloned().collect::<Vec<_>>()
    );
    lab.carry_out(&good);
    let next = lab.round();
    assert_eq!(next.decisions.iter().flat_map(Decision::starts).count(), 1);
    let train = &lab.state.jobs[&JobId(1)];
    assert_eq!((train.state, train.attempt), (JobState::Running, 1));
    assert_eq!(train.placement, Some(keeps));
}

#[test]
fn a_wrong_live_shrink_is_found() {
    let spoilers: [(&str, Spoil); 3] = [
        ("without its first node", |victim| {
            let keeps = Arc::make_mut(victim.keeps.as_mut().expect("it keeps some"));
            keeps.nodes[0].node = NodeId(1);
        }),
        ("with more memory than it has", |victim| {
            let keeps = Arc::make_mut(victim.keeps.as_mut().expect("it keeps some"));
            keeps.nodes[0].memory.0 += 1;
        }),
        ("below its least", |victim| {
            Arc::make_mut(victim.keeps.as_mut().expect("it keeps some")).nodes.truncate(1);
        }),
    ];
    for (name, spoil) in spoilers {
        let (lab, mut plan) = site("train elastic=2-3,live cpus=4 mem=1G time=100");
        spoil(victim(&mut plan));
        assert!(broken(&lab, &plan).contains(&Rule::ShrinkWrong), "{name}");
    }
    let (lab, mut plan) = site("train elastic=2-3 cpus=4 mem=1G time=100");
    victim(&mut plan).mode = PreemptMode::Shrink;
    assert!(broken(&lab, &plan).contains(&Rule::ShrinkWrong), "it does not live with that");
}

/// Three nodes of which two become free at minute 9, when an elastic job has run on one for as long.
fn idle(job: &str, then: &[&str]) -> Lab {
    let mut lab = Lab::new("node n[1-3] cpus=4 mem=16G\npolicy grace=1");
    lab.submit("others nodes=2 cpus=4 mem=1G time=60");
    lab.submit(job);
    let first = plan(&lab);
    lab.carry_out(&first);
    lab.at_minute(9);
    lab.exit(JobId(1), 0);
    for job in then {
        lab.submit(job);
    }
    lab
}

const TRAIN: &str = "train elastic=1-3 cpus=4 mem=1G time=100 checkpoint=2";

#[test]
fn what_nobody_can_use_is_had_by_a_restart_from_the_checkpoint() {
    let mut lab = idle(TRAIN, &[]);
    assert!(plan(&lab).decisions.is_empty(), "it has not rested yet");
    lab.at_minute(10);
    let mut good = plan(&lab);
    let grown = victim(&mut good).clone();
    assert_eq!((grown.job, grown.mode), (JobId(2), PreemptMode::Checkpoint));
    lab.carry_out(&good);
    assert!(plan(&lab).decisions.is_empty(), "a plan that was carried out leaves nothing to plan");
    // The nodes are its own meanwhile.
    lab.submit("late nodes=1 cpus=4 mem=1G time=5");
    assert!(plan(&lab).decisions.is_empty());
    lab.at_minute(13);
    let again = lab.round();
    let starts: Vec<_> = again.decisions.iter().flat_map(Decision::starts).collect();
    assert_eq!((starts.len(), starts[0].job), (1, JobId(2)));
    assert_eq!(starts[0].placement.nodes.len(), 3);
}

#[test]
fn nobody_grows_where_that_is_not_worth_it_or_harms_somebody() {
    let stays: [(&str, &[&str]); 6] = [
        // Who waits could use them.
        (TRAIN, &["pair nodes=2 cpus=4 mem=1G time=5"]),
        // All three are promised for when it ends.
        (TRAIN, &["wide nodes=3 cpus=4 mem=1G time=5"]),
        // There is nothing to go on from.
        ("train elastic=1-3 cpus=4 mem=1G time=100", &[]),
        // 320 s of 480 that are left would be saved: less than four times the 120 of the restart.
        ("train elastic=1-3 cpus=4 mem=1G time=18 checkpoint=1", &[]),
        ("train elastic=1-3 cpus=4 mem=1G time=100 checkpoint=2 no-requeue", &[]),
        ("train nodes=1-1 cpus=4 mem=1G time=100 checkpoint=2", &[]),
    ];
    for (job, then) in stays {
        let mut lab = idle(job, then);
        lab.at_minute(10);
        let good = plan(&lab);
        assert!(!good.decisions.iter().any(|d| matches!(d, Decision::Grow(_))), "{job}: {good:#?}");
    }
    let mut lab = idle("train elastic=1-3 cpus=4 mem=1G time=22 checkpoint=1", &[]);
    lab.at_minute(10);
    assert!(
        plan(&lab).decisions.iter().any(|d| matches!(d, Decision::Grow(_))),
        "480 s are enough"
    );
}

#[test]
fn a_wrong_growth_is_found() {
    type Spoil = fn(&mut Victim, &mut Lab);
    let spoilers: [(&str, Spoil, Rule); 6] = [
        ("too early", |_, lab| lab.at_minute(9), Rule::GrowthWrong),
        ("by another way", |victim, _| victim.mode = PreemptMode::Cancel, Rule::GrowthWrong),
        (
            "on no more nodes",
            |victim, _| {
                Arc::make_mut(victim.keeps.as_mut().expect("nodes")).nodes.truncate(1);
            },
            Rule::GrowthWrong,
        ),
        (
            "with other CPUs of its own node",
            |victim, _| {
                let keeps = Arc::make_mut(victim.keeps.as_mut().expect("nodes"));
                let own = keeps.nodes.iter_mut().find(|share| share.node == NodeId(2));
                own.expect("its own").memory.0 += 1;
            },
            Rule::GrowthWrong,
        ),
        (
            "over somebody who could use the nodes",
            |_, lab| {
                lab.submit("small nodes=1 cpus=4 mem=1G time=5");
            },
            Rule::LeftWaiting,
        ),
        (
            "onto what somebody has",
            |_, lab| {
                lab.submit("small nodes=1 cpus=4 mem=1G time=5");
                let start = Plan { decisions: plan(lab).decisions, ..Plan::default() };
                lab.carry_out(&start);
            },
            Rule::ClaimTaken,
        ),
    ];
    for (name, spoil, rule) in spoilers {
        let mut lab = idle(TRAIN, &[]);
        lab.at_minute(10);
        let mut good = plan(&lab);
        if name == "too early" {
            lab = idle(TRAIN, &[]);
        }
        spoil(victim(&mut good), &mut lab);
        good.now = lab.now;
        assert!(broken(&lab, &good).contains(&rule), "{name}: {:?}", broken(&lab, &good));
    }
    // A promise that it delays: the three nodes were promised before.
    let mut lab = idle(TRAIN, &["wide nodes=3 cpus=4 mem=1G time=5"]);
    lab.at_minute(10);
    let mut good = plan(&lab);
    let mut free = idle(TRAIN, &[]);
    free.at_minute(10);
    let grow = plan(&free).decisions;
    good.decisions.extend(grow);
    assert!(broken(&lab, &good).contains(&Rule::PromiseDelayed), "{:?}", broken(&lab, &good));
}
