//! Jobs that stand still by hand: their CPUs are anybody's, the rest stays theirs.

use muster_model::{Decision, EventKind, JobId, JobState, Plan};
use muster_plan_check::Rule;
use muster_test_kit::{Lab, started};

fn by_hand(lab: &mut Lab, job: JobId, suspend: bool) {
    let attempt = lab.state.jobs[&job].attempt;
    lab.event(EventKind::JobSuspend { job, suspend });
    if lab.state.jobs[&job].suspend == suspend {
        lab.event(EventKind::JobSuspended { job, attempt, suspended: suspend });
    }
}

/// A job with all of a node's CPUs and its GPU, made to stand still, and one that has its CPUs.
fn lent() -> (Lab, JobId, JobId) {
    let mut lab = Lab::new("node n1 cpus=4 gpus=1xa100:40G mem=8G");
    let own = lab.submit("own cpus=4 gpus=1 mem=2G time=100");
    lab.round();
    by_hand(&mut lab, own, true);
    let guest = lab.submit("guest cpus=4 mem=2G time=20");
    assert_eq!(started(&lab.round()), [guest]);
    (lab, own, guest)
}

#[test]
fn cpus_are_free_and_memory_and_gpus_are_not() {
    let (mut lab, _, _) = lent();
    assert!(muster_plan_check::recount(&lab.state).is_empty());
    lab.exit(JobId(2), 0);
    let gpu = lab.submit("gpu gpus=1 mem=1G time=10");
    let wide = lab.submit("wide cpus=1 mem=7G time=10");
    let fits = lab.submit("fits cpus=1 mem=5G time=10");
    assert_eq!(started(&lab.round()), [fits]);
    assert!([gpu, wide].iter().all(|id| lab.state_of(*id) == JobState::Pending));
}

#[test]
fn it_goes_on_once_nobody_runs_on_its_cpus_and_nobody_comes_between() {
    let (mut lab, own, guest) = lent();
    by_hand(&mut lab, own, false);
    assert_eq!(lab.state_of(own), JobState::Suspended);
    let next = lab.submit("next cpus=1 mem=1G time=10");
    assert!(lab.round().decisions.is_empty());
    let early =
        Plan { now: lab.now, decisions: vec![Decision::Resume { job: own }], ..Plan::default() };
    let found = muster_plan_check::check(&lab.state, &early);
    assert!(found.iter().any(|v| v.rule == Rule::ResumeInUse), "{found:?}");
    lab.exit(guest, 0);
    assert_eq!(lab.round().decisions, [Decision::Resume { job: own }]);
    assert_eq!(lab.state_of(own), JobState::Running);
    assert_eq!(lab.state_of(next), JobState::Pending);
    assert!(muster_plan_check::recount(&lab.state).is_empty());
}

#[test]
fn one_that_nobody_took_cpus_of_goes_on_at_once_and_one_that_ends_takes_none_back() {
    let mut lab = Lab::new("node n1 cpus=4 mem=8G");
    let own = lab.submit("own cpus=4 mem=2G time=100");
    lab.round();
    by_hand(&mut lab, own, true);
    by_hand(&mut lab, own, false);
    assert_eq!(lab.state_of(own), JobState::Running);
    assert!(!lab.state.jobs[&own].lends);
    let (mut lab, own, _) = lent();
    let cause = muster_model::StopCause::Cancelled(0);
    lab.event(EventKind::JobStop { job: own, cause, hurry: false });
    assert_eq!(lab.state_of(own), JobState::Completing);
    assert!(muster_plan_check::recount(&lab.state).is_empty());
    assert!(lab.round().decisions.is_empty());
}
