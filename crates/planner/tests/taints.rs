//! Taints that end running jobs: whom, when, and what the checker says of it.

use muster_model::{Decision, EventKind, JobId, JobState, NodeId, Plan, Timestamp};
use muster_plan_check::{Rule, check_full};
use muster_planner::{Budget, Planner, taints};
use muster_test_kit::Lab;
use std::collections::BTreeSet;

fn plan(lab: &Lab) -> Plan {
    Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED)
}

fn rules(lab: &Lab, plan: &Plan) -> BTreeSet<Rule> {
    check_full(&lab.state, plan).iter().map(|v| v.rule).collect()
}

/// The jobs that the plan ends for taints; it breaks no rule.
fn ended(lab: &Lab) -> Vec<u32> {
    let plan = plan(lab);
    assert_eq!(rules(lab, &plan), BTreeSet::new(), "{plan:#?}");
    let ended = plan.decisions.iter().filter_map(|d| match d {
        Decision::Evict { job, .. } => Some(job.0),
        _ => None,
    });
    ended.collect()
}

fn minute(n: i64) -> Timestamp {
    Timestamp::from_secs(n * 60)
}

/// Job 1 tolerates nothing, job 2 the taint for ten minutes, job 3 for good, job 4 another one, job 5
/// the taint's first toleration in the list for good and a later one for a minute.
fn lab() -> Lab {
    let mut lab = Lab::new("node n1 cpus=8\nnode n2 cpus=8");
    for tolerate in
        ["", " tolerate=bad:NoExecute@600", " tolerate=bad", " tolerate=other:NoExecute"]
    {
        lab.submit(&format!("j nodelist=n1 time=100{tolerate}"));
    }
    lab.submit("j nodelist=n1 time=100 tolerate=bad:NoExecute,bad:NoExecute@60");
    let now = plan(&lab);
    lab.carry_out(&now);
    lab.at_minute(5);
    lab
}

#[test]
fn a_taint_ends_those_that_do_not_tolerate_it_and_others_in_their_time() {
    let mut lab = lab();
    assert_eq!(ended(&lab), Vec::<u32>::new());
    lab.set_up("taint n1 bad:NoExecute");
    assert_eq!(ended(&lab), [1, 4]);
    let now = plan(&lab);
    lab.carry_out(&now);
    assert_eq!(lab.state_of(JobId(1)), JobState::Pending);
    assert_eq!(taints::next_eviction(&lab.state, lab.now), Some(minute(15)));
    lab.at_minute(14);
    assert_eq!(ended(&lab), Vec::<u32>::new());
    lab.at_minute(15);
    assert_eq!(ended(&lab), [2]);
    // It went in time: nobody is ended.
    lab.set_up("taint n1 none");
    assert_eq!(ended(&lab), Vec::<u32>::new());
    assert_eq!(taints::next_eviction(&lab.state, lab.now), None);
}

#[test]
fn a_taint_without_no_execute_ends_nobody() {
    let mut lab = lab();
    lab.set_up("taint n1 bad:NoSchedule");
    assert_eq!(ended(&lab), Vec::<u32>::new());
    // Nor does what a node had all along end a job before its time there is over.
    let mut lab = Lab::new("node n1 cpus=8 taints=bad:NoExecute");
    lab.at_minute(30);
    lab.submit("j time=100 tolerate=bad:NoExecute@600");
    let now = plan(&lab);
    lab.carry_out(&now);
    assert_eq!(taints::next_eviction(&lab.state, lab.now), Some(minute(40)));
    assert_eq!(ended(&lab), Vec::<u32>::new());
}

#[test]
fn a_job_that_may_not_start_anew_is_over() {
    let mut lab = Lab::new("node n1 cpus=8");
    let job = lab.submit("j time=100 no-requeue");
    let now = plan(&lab);
    lab.carry_out(&now);
    lab.at_minute(1);
    lab.set_up("taint n1 bad:NoExecute");
    let now = plan(&lab);
    lab.carry_out(&now);
    assert_eq!(lab.state_of(job), JobState::NodeFail);
}

#[test]
fn a_node_that_goes_takes_its_taints_along() {
    let mut lab = Lab::new("node n1 cpus=8 taints=bad:NoExecute");
    assert_eq!(lab.state.tainted.len(), 1);
    lab.event(EventKind::NodeRemoved { node: NodeId(0) });
    assert!(lab.state.tainted.is_empty());
}

#[test]
fn the_checker_finds_who_is_ended_for_nothing_and_who_stays() {
    let mut lab = lab();
    lab.set_up("taint n1 bad:NoExecute");
    let good = plan(&lab);
    let mut stays = good.clone();
    stays.decisions.remove(0);
    assert_eq!(rules(&lab, &stays), BTreeSet::from([Rule::TaintIgnored]));
    let mut groundless = good.clone();
    let (attempt, node, taint) = (1, NodeId(0), "bad:NoExecute".to_owned());
    groundless.decisions.push(Decision::Evict { job: JobId(2), attempt, node, taint });
    assert_eq!(rules(&lab, &groundless), BTreeSet::from([Rule::GroundlessEviction]));
}
