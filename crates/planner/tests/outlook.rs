//! The outlook: one answer to "when", with the room that is made for somebody and who makes it.

use muster_model::{Decision, JobId, Plan, PreemptMode, Promise, Reason, Timestamp};
use muster_plan_check::{Rule, check_outlook};
use muster_planner::{Budget, Outlook, Planner};
use muster_test_kit::Lab;
use muster_test_kit::arbitrary::{Deed, act, cluster, story};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn minute(n: i64) -> Timestamp {
    Timestamp::from_secs(n * 60)
}

fn plan(lab: &Lab) -> Plan {
    Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED)
}

fn carried_out(lab: &mut Lab) {
    let plan = plan(lab);
    lab.carry_out(&plan);
}

fn outlook(lab: &Lab) -> Outlook {
    Planner::new(&lab.state).outlook(&lab.state, lab.now)
}

fn broken(lab: &Lab, starts: &[Promise]) -> BTreeSet<Rule> {
    check_outlook(&lab.state, &plan(lab), starts).iter().map(|v| v.rule).collect()
}

/// The starts in minutes, checked.
fn starts(lab: &Lab) -> Vec<(u32, i64)> {
    let found = outlook(lab);
    let all: Vec<Promise> = found.starts.values().cloned().collect();
    assert_eq!(check_outlook(&lab.state, &plan(lab), &all), []);
    found.starts.into_iter().map(|(job, promise)| (job.0, promise.start.secs() / 60)).collect()
}

const SITE: &str = "
    node n1 cpus=4 mem=64G
    qos low preempt=requeue grace=2
    qos high priority=10 preempts=low
";

/// Job 1 of QOS low runs on all of the node until t=100; job 2 of QOS high comes at t=10.
fn site(mode: &str) -> Lab {
    let mut lab = Lab::new(&SITE.replace("requeue", mode));
    lab.submit("low qos=low cpus=4 mem=1G time=100");
    carried_out(&mut lab);
    lab.at_minute(10);
    lab.submit("high qos=high cpus=4 mem=1G time=50");
    lab
}

#[test]
fn who_has_room_made_starts_when_it_is_there_and_its_victim_comes_back_after() {
    let mut lab = site("requeue");
    lab.submit("other cpus=4 mem=1G time=20");
    for _ in 0..2 {
        // The same before the decision is carried out and after.
        assert_eq!(starts(&lab), [(1, 62), (2, 12), (3, 162)]);
        let evicted = &outlook(&lab).evicted[&JobId(1)];
        assert_eq!((evicted.by, evicted.mode), (JobId(2), PreemptMode::Requeue));
        assert_eq!(evicted.until, minute(12));
        carried_out(&mut lab);
    }
}

#[test]
fn who_is_cancelled_does_not_come_back() {
    let mut lab = site("cancel");
    for _ in 0..2 {
        assert_eq!(starts(&lab), [(2, 12)]);
        carried_out(&mut lab);
    }
}

#[test]
fn who_stands_still_goes_on_after_the_other_and_nobody_has_its_room_meanwhile() {
    let mut lab = site("suspend");
    lab.submit("other cpus=1 mem=1G time=20");
    // 90 minutes are left of the first when the second is over.
    assert_eq!(starts(&lab), [(2, 10), (3, 150)]);
    let until = outlook(&lab).evicted[&JobId(1)].until;
    assert_eq!(until, minute(60));
}

#[test]
fn a_job_for_which_room_is_made_is_told_when_it_starts() {
    let mut lab = site("requeue");
    for _ in 0..2 {
        let found = Planner::new(&lab.state).explain(&lab.state, JobId(2), lab.now);
        assert_eq!(found.reasons[0].code(), "MAKING_ROOM");
        let start = found.start.expect("it has a start");
        assert_eq!((start.not_before, start.expected), (minute(12), Some(minute(12))));
        assert_eq!(found.nodes.len(), 1);
        carried_out(&mut lab);
    }
}

#[test]
fn tasks_behind_a_throttle_have_their_turn_when_others_of_it_end() {
    let mut lab = Lab::new("node n1 cpus=8");
    lab.submit("a array=0-4%2 time=30");
    carried_out(&mut lab);
    lab.at_minute(10);
    lab.submit("b time=5");
    assert_eq!(starts(&lab), [(3, 30), (4, 30), (5, 60), (6, 10)]);
    let found = Planner::new(&lab.state).explain(&lab.state, JobId(5), lab.now);
    assert_eq!(found.reasons[0].code(), "ARRAY_TASK_LIMIT");
    assert_eq!(found.start.map(|start| start.not_before), Some(minute(60)));
}

#[test]
fn jobs_behind_a_limit_have_their_turn_when_jobs_under_it_end() {
    let mut lab = Lab::new("node n1 cpus=8\nqos low max-jobs-per-user=1\nqos normal");
    lab.submit("a qos=low time=30");
    carried_out(&mut lab);
    lab.at_minute(10);
    lab.submit("a qos=low time=20");
    lab.submit("a qos=low time=20");
    lab.submit("b qos=normal time=5");
    assert_eq!(starts(&lab), [(2, 30), (3, 50), (4, 10)]);
    // A limit that is not set free by the end of a job leaves no start to tell.
    lab.set_up("qos low max-wall=10");
    assert_eq!(starts(&lab), [(4, 10)]);
}

#[test]
fn a_begin_time_is_the_least_there_is() {
    let mut lab = Lab::new("node n1 cpus=4");
    lab.submit("later cpus=4 begin=60 time=10");
    lab.submit("now cpus=4 time=70");
    assert_eq!(starts(&lab), [(1, 70), (2, 0)]);
}

#[test]
fn the_order_is_that_of_the_rounds() {
    let mut lab = Lab::new(
        "node n1 cpus=4\npolicy order=multifactor qos=1000\nqos low\nqos high priority=10",
    );
    lab.submit("runs cpus=4 time=10");
    carried_out(&mut lab);
    lab.submit("first qos=low cpus=4 time=10");
    lab.submit("second qos=high cpus=4 time=10");
    assert_eq!(starts(&lab), [(2, 20), (3, 10)]);
}

#[test]
fn each_rule_finds_an_outlook_spoiled_in_its_way() {
    let lab = site("requeue");
    let good: Vec<Promise> = outlook(&lab).starts.into_values().collect();
    assert_eq!(broken(&lab, &good), BTreeSet::new());
    let spoiled = |change: &dyn Fn(&mut Vec<Promise>)| {
        let mut starts = good.clone();
        change(&mut starts);
        broken(&lab, &starts)
    };
    // The claimant later than its room, or not at all.
    assert!(spoiled(&|s| s[1].start = minute(13)).contains(&Rule::ClaimTaken));
    assert!(spoiled(&|s| s.truncate(1)).contains(&Rule::ClaimTaken));
    // The victim while the claimant runs, or before it is gone.
    assert!(spoiled(&|s| s[0].start = minute(30)).contains(&Rule::PromiseDelayed));
    assert!(spoiled(&|s| s[0].start = minute(11)).contains(&Rule::PromiseDelayed));

    let mut lab = Lab::new("node n1 cpus=8");
    lab.submit("a array=0-3%2 time=30");
    carried_out(&mut lab);
    let mut starts: Vec<Promise> = outlook(&lab).starts.into_values().collect();
    assert_eq!(broken(&lab, &starts), BTreeSet::new());
    starts[0].start = minute(29);
    assert_eq!(broken(&lab, &starts), BTreeSet::from([Rule::ArrayThrottle]));

    let mut lab = Lab::new("node n1 cpus=8");
    lab.submit("a time=30");
    lab.set_up("reservation r start=10 end=100 nodes=n1");
    let mut starts: Vec<Promise> = outlook(&lab).starts.into_values().collect();
    assert_eq!(broken(&lab, &starts), BTreeSet::new());
    starts[0].start = minute(90);
    assert_eq!(broken(&lab, &starts), BTreeSet::from([Rule::PromiseDelayed]));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(200),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// At any moment of any story: the outlook takes nothing twice, begins as the round does, has a
    /// start for everybody for whom room is made, keeps what the round promised, and is what every
    /// other answer to when says.
    #[test]
    fn an_outlook_is_possible_and_begins_as_the_round_does(
        cluster in cluster(),
        story in story(24),
    ) {
        let mut lab = Lab::new(&cluster);
        for deed in &story {
            act(&mut lab, deed);
            if !matches!(deed, Deed::Plan) {
                continue;
            }
            let mut planner = Planner::new(&lab.state);
            let plan = planner.plan(&lab.state, lab.now, Budget::UNLIMITED);
            let found = planner.outlook(&lab.state, lab.now);
            let all: Vec<Promise> = found.starts.values().cloned().collect();
            let wrong = check_outlook(&lab.state, &plan, &all);
            prop_assert!(wrong.is_empty(), "{:#?}\n{:#?}", wrong, found);
            for start in plan.decisions.iter().flat_map(Decision::starts) {
                prop_assert_eq!(found.starts[&start.job].start, lab.now);
            }
            for promise in plan.promises.iter().filter(|_| found.evicted.is_empty()) {
                let foreseen = found.starts.get(&promise.job).map(|found| found.start);
                // Behind a job without a limit it may be one at no time.
                let told = Some(promise.start).filter(|at| *at != Timestamp::NEVER);
                prop_assert_eq!(foreseen, told);
            }
            for decision in &plan.decisions {
                let Decision::Preempt(preempt) = decision else { continue };
                for victim in &preempt.victims {
                    prop_assert!(found.evicted.contains_key(&victim.job));
                }
            }
            for id in &lab.state.index.pending {
                let when = planner.when(&lab.state, *id, lab.now);
                prop_assert_eq!(when.as_ref(), found.starts.get(id));
                // The explanation says the same, or only a bound.
                let start = when.map(|when| when.start);
                let told = planner.explain(&lab.state, *id, lab.now);
                prop_assert_eq!(told.start.and_then(|told| told.expected), start);
                if let (Some(start), Some(told)) = (start, told.start) {
                    prop_assert!(told.not_before <= start);
                }
                for reason in &told.reasons {
                    if let Reason::Resources { start: Some(told), .. } = reason {
                        prop_assert_eq!(Some(*told), start);
                    }
                }
            }
            lab.carry_out(&plan);
        }
    }
}
