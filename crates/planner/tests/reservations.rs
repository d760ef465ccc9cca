//! Reservations: the cases of section 3, and the checker's rules on them spoiled one by one.

use muster_model::{
    CpuSet, Decision, JobId, NodeId, Plan, Reason, ReservedNode, Seconds, TimeLimit, Timestamp,
};
use muster_plan_check::Rule;
use muster_planner::Planner;
use muster_test_kit::{Lab, started};
use std::collections::BTreeSet;
use std::sync::Arc;

fn starts(plan: &Plan) -> BTreeSet<JobId> {
    started(plan).into_iter().collect()
}

fn broken(lab: &Lab, plan: &Plan) -> BTreeSet<Rule> {
    let found = muster_plan_check::check_full(&lab.state, plan);
    found.iter().map(|v| v.rule).collect()
}

/// A plan for one job, good as the site was; then the site is told this, and the plan is bad.
fn spoiled(site: &str, job: &str, then: &str) -> BTreeSet<Rule> {
    let mut lab = Lab::new(site);
    lab.submit(job);
    let plan = lab.plan();
    assert_eq!(starts(&plan).len(), 1, "{job}");
    lab.set_up(then);
    broken(&lab, &plan)
}

const SITE: &str = "node n[1-2] cpus=4 gpus=2xa100 mem=8G\nlicence sim 2";

#[test]
fn what_is_reserved_for_others_is_not_to_be_had() {
    for (job, then) in [
        ("a nodelist=n1 time=60", "reservation r start=59 end=90 nodes=n1"),
        ("a nodelist=n1 time=60", "reservation r start=0 end=1 nodes=n1"),
        ("a nodelist=n1 time=60", "reservation r start=90 end=95 later=100-110 float=59 nodes=n1"),
        ("a nodelist=n1 time=unlimited", "reservation r start=9999 end=never nodes=n1"),
        ("a nodelist=n1 cpus=2 time=60", "reservation r start=30 end=90 nodes=n1 cpus=1"),
        ("a nodelist=n1 gpus=1 time=60", "reservation r start=30 end=90 nodes=n1 gpus=0"),
        ("a nodelist=n1 exclusive time=60", "reservation r start=30 end=90 nodes=n1 gpus=1"),
        ("a nodelist=n1 licences=sim:1 time=60", "reservation r start=30 end=90 licences=sim:2"),
    ] {
        assert_eq!(spoiled(SITE, job, then), BTreeSet::from([Rule::Reserved]), "{job}; {then}");
    }
    // Nothing of it is needed, or only after the job.
    for (job, then) in [
        ("a nodelist=n1 time=60", "reservation r start=60 end=90 nodes=n1"),
        ("a nodelist=n1 time=60", "reservation r start=0 end=90 nodes=n2"),
        ("a nodelist=n1 time=60", "reservation r float=60 nodes=n1 length=30"),
        ("a nodelist=n1 cpus=1 time=60", "reservation r start=30 end=90 nodes=n1 gpus=0,1"),
        ("a nodelist=n1 licences=sim:1 time=60", "reservation r start=30 end=90 licences=sim:1"),
    ] {
        assert_eq!(spoiled(SITE, job, then), BTreeSet::new(), "{job}; {then}");
    }
}

#[test]
fn a_job_in_a_reservation_stays_in_it() {
    let site = format!("{SITE}\nreservation r start=0 end=60 nodes=n1");
    let job = "a reservation=r time=60";
    let outside = BTreeSet::from([Rule::OutsideReservation]);
    assert_eq!(spoiled(&site, job, "reservation r start=0 end=59 nodes=n1"), outside);
    assert_eq!(spoiled(&site, job, "reservation r start=1 end=99 nodes=n1"), outside);
    assert_eq!(spoiled(&site, job, "reservation r start=0 end=60 nodes=n2"), outside);
    assert_eq!(spoiled(&site, job, "reservation r start=0 end=60 nodes=n1 gpus=0"), outside);
    let flex = "reservation r start=1 end=2 nodes=n2 flags=FLEX";
    assert_eq!(spoiled(&site, job, flex), BTreeSet::new());
    let other = BTreeSet::from([Rule::Reservation]);
    assert_eq!(spoiled(&site, job, "reservation r start=0 end=60 nodes=n1 users=-ada"), other);
    let mut lab = Lab::new(&site);
    lab.submit(job);
    let mut plan = lab.plan();
    let Decision::Start(starts) = &mut plan.decisions[0] else { panic!("{plan:?}") };
    Arc::make_mut(&mut starts[0].placement).reservation = None;
    assert!(broken(&lab, &plan).contains(&Rule::Reservation));
}

/// S-24: only what ends before it may begin; what has no limit cannot promise that.
#[test]
fn s24_jobs_that_would_run_into_maintenance() {
    let mut lab = Lab::new("node n[1-4] cpus=4");
    lab.set_up("reservation fix start=120 end=240 nodes=n[1-4] flags=MAINT");
    let a = lab.submit("a time=120");
    let c = lab.submit("c time=unlimited");
    let b = lab.submit("b time=121");
    let plan = lab.plan();
    assert_eq!(starts(&plan), BTreeSet::from([a]));
    lab.carry_out(&plan);
    let mut planner = Planner::new(&lab.state);
    for job in [b, c] {
        let found = planner.explain(&lab.state, job, lab.now);
        let expected = Reason::Reserved {
            name: "fix".to_owned(),
            start: Timestamp::from_secs(7200),
            end: Timestamp::from_secs(14_400),
            maintenance: true,
        };
        assert_eq!(found.reasons, [expected], "{job}");
        let start = found.start.expect("it is known when it ends");
        assert_eq!(start.not_before, Timestamp::from_secs(14_400), "{job}");
    }
}

/// S-28: access, not time beyond the end; what waits at the end is held, or let go.
#[test]
fn s28_a_job_inside_a_reservation() {
    for (flags, code) in [("FLEX", None), ("MAGNETIC", Some("RESERVATION_DELETED"))] {
        let mut lab = Lab::new("node n[1-3] cpus=4");
        lab.set_up(&format!("reservation demo start=0 end=60 nodes=n[1-2] flags={flags}"));
        lab.at_minute(10);
        let a = lab.submit("a reservation=demo time=30");
        let b = lab.submit("b reservation=demo time=60");
        let plan = lab.plan();
        let expected = if code.is_some() { BTreeSet::from([a]) } else { BTreeSet::from([a, b]) };
        assert_eq!(starts(&plan), expected);
        lab.carry_out(&plan);
        lab.at_minute(60);
        assert!(lab.state.reservations.is_empty());
        if let Some(code) = code {
            let why = lab.explain(b).reasons;
            assert_eq!(why[0].code(), code);
            assert_eq!(lab.state.jobs[&b].spec.request.reservation, None);
        }
    }
    let mut lab = Lab::new("node n1 cpus=4");
    lab.set_up("reservation demo start=0 end=60 nodes=n1 flags=NO_HOLD_JOBS_AFTER");
    lab.at_minute(10);
    let d = lab.submit("d reservation=demo time=60");
    assert_eq!(starts(&lab.plan()), BTreeSet::new());
    lab.at_minute(60);
    assert_eq!(starts(&lab.plan()), BTreeSet::from([d]));
}

/// S-28 c: what still runs when its reservation is over, ends.
#[test]
fn s28_what_still_runs_at_the_end_is_ended() {
    let mut lab = Lab::new("node n1 cpus=4\nreservation demo start=0 end=60 nodes=n1");
    let job = lab.submit("c reservation=demo time=60");
    let plan = lab.plan();
    lab.carry_out(&plan);
    lab.set_up("reservation demo start=0 end=30 nodes=n1");
    lab.at_minute(30);
    assert_eq!(lab.state_of(job), muster_model::JobState::Timeout);
}

/// S-29: a job is held against every reservation on its nodes, not only its own.
#[test]
fn s29_maintenance_over_a_reservation() {
    let mut lab = Lab::new("node n[1-5] cpus=4");
    lab.set_up("reservation mara start=0 end=60 nodes=n[1-4] users=mara");
    lab.set_up("reservation fix start=30 end=300 nodes=n[1-5] flags=MAINT");
    lab.at_minute(5);
    let a = lab.submit("a user=mara reservation=mara time=20");
    let b = lab.submit("b user=mara reservation=mara time=40");
    assert_eq!(starts(&lab.plan()), BTreeSet::from([a]));
    let why = lab.explain(b).reasons;
    assert!(matches!(&why[0], Reason::Reserved { name, maintenance: true, .. } if name == "fix"));
}

/// S-42: who names a reservation comes first, then tier, priority, time and number.
#[test]
fn s42_a_reservation_comes_first() {
    let mut lab = Lab::new("node n1 cpus=1\npartition two nodes=n1 tier=2");
    lab.set_up("reservation r start=0 end=never nodes=n1 flags=OVERLAP");
    lab.set_up("unreserve r");
    lab.set_up("reservation r start=0 end=never licences=sim:1");
    let mut jobs = Vec::new();
    for line in [
        "P priority=100000 time=10",
        "Q priority=10 partition=two time=10",
        "R priority=10 reservation=r time=10",
        "S priority=100000 time=10",
    ] {
        jobs.push(lab.submit(line));
    }
    let mut order = Vec::new();
    for _ in 0..4 {
        let plan = lab.plan();
        lab.carry_out(&plan);
        let started = starts(&plan);
        order.extend(started.iter().copied());
        for job in started {
            lab.exit(job, 0);
        }
    }
    assert_eq!(order, [jobs[2], jobs[1], jobs[0], jobs[3]]);
}

#[test]
fn a_magnetic_reservation_takes_whom_it_admits() {
    let mut lab = Lab::new("node n[1-2] cpus=1");
    lab.set_up("reservation r start=0 end=60 nodes=n2 users=mara flags=MAGNETIC");
    let theirs = lab.submit("theirs time=10");
    let hers = lab.submit("hers user=mara time=10");
    let second = lab.submit("second user=mara time=10");
    let plan = lab.plan();
    assert_eq!(starts(&plan), BTreeSet::from([theirs, hers]));
    lab.carry_out(&plan);
    let placement = lab.state.jobs[&hers].placement.clone().expect("it runs");
    assert_eq!(placement.reservation.as_deref(), Some("r"));
    assert_eq!(placement.nodes[0].node, NodeId(1));
    assert!(lab.state.jobs[&second].is_pending());
}

#[test]
fn a_floating_reservation_keeps_its_distance() {
    let mut lab = Lab::new("node n[1-2] cpus=1");
    lab.set_up("reservation r float=60 length=30 nodes=n1");
    for minute in [0, 500] {
        lab.at_minute(minute);
        let long = lab.submit("long nodelist=n1 time=61");
        let short = lab.submit("short nodelist=n1 time=60");
        assert_eq!(starts(&lab.plan()), BTreeSet::from([short]));
        lab.cancel(long);
        lab.cancel(short);
    }
}

#[test]
fn a_job_that_may_be_shorter_ends_where_a_reservation_begins() {
    let mut lab = Lab::new("node n1 cpus=1\nreservation r start=50 end=90 nodes=n1");
    lab.submit("a time=100 time-min=20");
    let plan = lab.plan();
    let Decision::Start(starts) = &plan.decisions[0] else { panic!("{plan:?}") };
    assert_eq!(starts[0].time_limit, TimeLimit::Of(Seconds::minutes(50)));
}

#[test]
fn a_replaced_node_counts_from_then_on() {
    let mut lab = Lab::new("node n[1-3] cpus=1\nreservation r start=0 end=90 nodes=n1");
    let job = lab.submit("a reservation=r time=10");
    let name = "r".to_owned();
    let nodes = vec![ReservedNode { node: NodeId(2), part: None }];
    lab.event(muster_model::EventKind::ReservationNodes { name, nodes });
    let plan = lab.plan();
    lab.carry_out(&plan);
    assert_eq!(lab.state.jobs[&job].placement.as_ref().expect("it runs").nodes[0].node, NodeId(2));
}

#[test]
fn a_part_of_a_node_is_shared_between_inside_and_outside() {
    let mut lab = Lab::new("node n1 cpus=4 gpus=2xa100 mem=8G");
    lab.set_up("reservation r start=0 end=90 nodes=n1 cpus=2 gpus=1");
    let inside = lab.submit("in reservation=r gpus=1 cpus=2 mem=1G time=60");
    let outside = lab.submit("out gpus=1 cpus=2 mem=1G time=60");
    let more = lab.submit("more cpus=1 mem=1G time=60");
    let plan = lab.plan();
    assert_eq!(starts(&plan), BTreeSet::from([inside, outside]));
    lab.carry_out(&plan);
    let share = |job: JobId| lab.state.jobs[&job].placement.clone().expect("runs").nodes[0].clone();
    assert_eq!(share(inside).cpus, CpuSet::first(2));
    assert_eq!(share(inside).devices[0].index, 1);
    assert_eq!(share(outside).devices[0].index, 0);
    assert!(lab.state.jobs[&more].is_pending());
}

#[test]
fn reserved_licences_are_kept_for_those_inside() {
    let mut lab = Lab::new("node n[1-3] cpus=1\nlicence sim 3");
    lab.set_up("reservation r start=0 end=90 licences=sim:2");
    let out = lab.submit("out licences=sim:2 time=10");
    let fine = lab.submit("fine licences=sim:1 time=10");
    let inside = lab.submit("in reservation=r licences=sim:2 time=10");
    assert_eq!(starts(&lab.plan()), BTreeSet::from([fine, inside]));
    let why = lab.explain(out).reasons;
    assert_eq!(why[0].code(), "RESERVED");
}

/// Who waits for a reservation takes nobody's promise: the head of the queue keeps its own.
#[test]
fn a_job_that_waits_for_its_reservation_does_not_starve_the_head() {
    let mut lab = Lab::new("node n[1-3] cpus=1\nreservation r start=500 end=600 nodes=n3");
    lab.submit("running nodelist=n1 time=50");
    let first = lab.plan();
    lab.carry_out(&first);
    lab.submit("later reservation=r time=60");
    let head = lab.submit("head nodes=2 exclude=n3 time=60");
    let thief = lab.submit("thief nodelist=n2 time=60");
    let plan = lab.plan();
    assert!(!starts(&plan).contains(&thief), "{plan:#?}");
    assert!(plan.promises.iter().any(|p| p.job == head), "{plan:#?}");
}
