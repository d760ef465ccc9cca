//! Why this node and not that, why that job and not this.

use muster_model::{JobId, NodeCause};
use muster_planner::{Budget, NodeAnswer, Planner, ScorePart, Verdict};
use muster_test_kit::Lab;

fn planned(lab: &mut Lab) -> Planner {
    let mut planner = Planner::new(&lab.state);
    let plan = planner.plan(&lab.state, lab.now, Budget::UNLIMITED);
    lab.carry_out(&plan);
    planner
}

#[test]
fn a_node_is_compared_with_the_one_that_the_job_has() {
    let mut lab = Lab::new("node n1 cpus=8 gpus=4xa100\nnode n2 cpus=8 gpus=4xa100\n");
    lab.submit("a nodelist=n2 gpus=2 time=60");
    planned(&mut lab);
    lab.submit("b gpus=1 time=60");
    let mut planner = planned(&mut lab);
    let b = lab.find("b");
    let there = planner.why_not_on(&lab.state, b, "n2", lab.now);
    assert_eq!(there, Some(NodeAnswer::There));
    let Some(NodeAnswer::Placed(choice)) = planner.why_not_on(&lab.state, b, "n1", lab.now) else {
        panic!("not placed");
    };
    assert_eq!(choice.cause, NodeCause::Free);
    assert_eq!(choice.decides, Some(ScorePart::Gpus));
    assert_eq!((choice.has.gpus, choice.other.gpus), (2, 4));
    lab.submit("c nodes=1 gpus=4 nodelist=n2 time=60");
    let c = lab.find("c");
    let found = planner.why_not_on(&lab.state, c, "n2", lab.now);
    let Some(NodeAnswer::Waits { cause: NodeCause::Busy { held_by, .. }, .. }) = found else {
        panic!("{found:?}");
    };
    assert_eq!(held_by, [JobId(1), JobId(2)]);
    assert_eq!(planner.why_not_on(&lab.state, c, "n9", lab.now), None);
}

#[test]
fn a_job_is_compared_with_one_that_started_before_it() {
    let mut lab = Lab::new("node n1 cpus=8\nnode n2 cpus=8\n");
    lab.submit("a cpus=8 nodelist=n1 time=60");
    planned(&mut lab);
    lab.submit("big cpus=8 nodes=2 time=60");
    lab.submit("short cpus=8 time=30");
    lab.submit("long cpus=8 time=600");
    let mut planner = planned(&mut lab);
    let (big, short, long) = (lab.find("big"), lab.find("short"), lab.find("long"));
    let found = planner.why_over(&lab.state, big, short, lab.now).unwrap();
    assert!(matches!(found.verdict, Verdict::EndsBefore { .. }), "{found:?}");
    let found = planner.why_over(&lab.state, big, long, lab.now).unwrap();
    assert_eq!(found.verdict, Verdict::Behind);
    let found = planner.why_over(&lab.state, long, big, lab.now).unwrap();
    assert_eq!(found.verdict, Verdict::First);
    lab.submit("urgent cpus=8 nodes=2 time=60 priority=9");
    let urgent = lab.find("urgent");
    let found = planner.why_over(&lab.state, big, urgent, lab.now).unwrap();
    assert_eq!(found.verdict, Verdict::Priority);
    assert_eq!(planner.why_over(&lab.state, short, big, lab.now), None);
}

#[test]
fn who_comes_first_for_a_low_slowdown_is_told() {
    let mut lab = Lab::new("node n1 cpus=8\npolicy order=slowdown");
    lab.submit("a cpus=8 time=600");
    planned(&mut lab);
    lab.at_minute(10);
    lab.submit("wide cpus=8 time=60");
    lab.submit("small cpus=2 time=60");
    let (wide, small) = (lab.find("wide"), lab.find("small"));
    let mut planner = Planner::new(&lab.state);
    let found = planner.why_over(&lab.state, wide, small, lab.now).unwrap();
    assert_eq!(found.verdict, Verdict::Lighter);
    // Nobody has ever waited, so one minute is too long.
    lab.at_minute(11);
    lab.submit("tiny cpus=1 time=1");
    let found = planner.why_over(&lab.state, lab.find("tiny"), wide, lab.now).unwrap();
    assert_eq!(found.verdict, Verdict::Waited);
}

#[test]
fn a_limit_names_who_uses_it_up_and_the_end_that_frees_enough() {
    let mut lab = Lab::new("node n1 cpus=8 gpus=8xa100\naccount lab grp-tres=gres/gpu=4\n");
    lab.submit("a account=lab gpus=1 time=60");
    lab.submit("b account=lab gpus=3 time=90");
    planned(&mut lab);
    lab.submit("c account=lab gpus=2 time=60");
    let mut planner = planned(&mut lab);
    let found = planner.explain(&lab.state, lab.find("c"), lab.now);
    assert_eq!(found.reasons[0].code(), "ASSOCIATION_LIMIT");
    assert_eq!(found.unblocks[0].held_by, [lab.find("a"), lab.find("b")]);
    // One GPU of the first is not enough.
    assert_eq!(found.unblocks[0].until, Some(lab.now.plus(muster_model::Seconds::minutes(90))));
}
