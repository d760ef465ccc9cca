//! What a change would do, on clusters small enough to work out by hand.

use muster_model::{Drain, EventKind, JobId, PreemptMode, Timestamp};
use muster_sim::{Moved, Preempted, outlook, whatif};
use muster_test_kit::Lab;
use std::sync::Arc;

fn minute(n: i64) -> Timestamp {
    Timestamp::from_secs(n * 60)
}

/// Two nodes; one job on each for 60 and 30 minutes, one of one node and one of two wait.
fn lab() -> (Lab, JobId, JobId) {
    let mut lab = Lab::new("node n[1-2] cpus=4");
    lab.submit("long exclusive time=60");
    lab.submit("short exclusive time=30");
    let plan = muster_planner::Planner::new(&lab.state).plan(
        &lab.state,
        lab.now,
        muster_planner::Budget::UNLIMITED,
    );
    lab.carry_out(&plan);
    let one = lab.submit("one exclusive time=20");
    let two = lab.submit("two nodes=2 exclusive time=20");
    (lab, one, two)
}

#[test]
fn the_outlook_gives_every_job_its_turn() {
    let (lab, one, two) = lab();
    let outlook = outlook(&lab.state, lab.now);
    assert_eq!(outlook[&one], minute(30));
    assert_eq!(outlook[&two], minute(60));
}

#[test]
fn a_drain_delays_those_who_would_have_used_the_node() {
    let (lab, one, two) = lab();
    let short_runs_on = lab.state.jobs[&JobId(2)].placement.as_ref().unwrap().nodes[0].node;
    let drain = Some(Drain { reason: "fan".to_owned(), by: "root".to_owned(), since: lab.now });
    let changes = [EventKind::NodeDrain { node: short_runs_on, drain }];
    let found = whatif(&lab.state, lab.now, &changes).unwrap();
    assert_eq!(
        found.moved,
        [
            Moved { job: two, before: Some(minute(60)), after: None },
            Moved { job: one, before: Some(minute(30)), after: Some(minute(60)) },
        ]
    );
    assert_eq!(found.unmoved, 0);
    assert_eq!(lab.state.index.pending.len(), 2, "the state itself is as it was");
}

#[test]
fn a_submission_shows_its_own_start_and_whom_it_delays() {
    let (lab, one, two) = lab();
    let mut first = lab.spec("urgent exclusive time=40 nice=-100");
    first.name = "urgent".to_owned();
    let id = JobId(lab.state.last_job.0 + 1);
    let changes = [EventKind::JobSubmitted { first: id, specs: vec![Arc::new(first)] }];
    let found = whatif(&lab.state, lab.now, &changes).unwrap();
    assert_eq!(found.submitted.iter().copied().collect::<Vec<_>>(), [id]);
    assert_eq!(found.after[&id], minute(30));
    let of = |job| found.moved.iter().find(|moved| moved.job == job).copied();
    assert_eq!(of(one).unwrap().after, Some(minute(60)));
    assert_eq!(of(two).unwrap().after, Some(minute(80)));
    assert_eq!(found.moved[0].job, one, "30 minutes against 20");
}

#[test]
fn a_submission_that_preempts_shows_who_makes_room_and_when_it_starts_again() {
    let mut lab = Lab::new(
        "node n1 cpus=4\nqos low preempt=requeue grace=2\nqos high priority=5 preempts=low",
    );
    lab.submit("low qos=low cpus=4 mem=1G time=100");
    let plan = muster_planner::Planner::new(&lab.state).plan(
        &lab.state,
        lab.now,
        muster_planner::Budget::UNLIMITED,
    );
    lab.carry_out(&plan);
    let waits = lab.submit("waits cpus=4 mem=1G time=10");
    lab.at_minute(10);
    let spec = Arc::new(lab.spec("urgent qos=high cpus=4 mem=1G time=40"));
    let changes = [EventKind::JobSubmitted { first: JobId(3), specs: vec![spec] }];
    let found = whatif(&lab.state, lab.now, &changes).unwrap();
    assert_eq!(found.after[&JobId(3)], minute(12));
    let preempted = Preempted {
        job: JobId(1),
        by: JobId(3),
        mode: PreemptMode::Requeue,
        until: minute(12),
        again: Some(minute(52)),
    };
    assert_eq!(found.preempted, [preempted]);
    let after = Some(minute(152));
    assert_eq!(found.moved, [Moved { job: waits, before: Some(minute(100)), after }]);
}

#[test]
fn a_drain_of_every_node_keeps_no_task_behind_a_throttle() {
    let mut lab = Lab::new("node n1 cpus=4");
    lab.submit("a array=0-2%1 time=10");
    let drain = Some(Drain { reason: "fan".to_owned(), by: "root".to_owned(), since: lab.now });
    let node = lab.state.node_named("n1").unwrap().id;
    let found = whatif(&lab.state, lab.now, &[EventKind::NodeDrain { node, drain }]).unwrap();
    assert_eq!((found.moved.len(), found.unmoved), (3, 0));
    assert!(found.moved.iter().all(|moved| moved.after.is_none()));
}
