//! Turns: who shares, for how long, and what a checker says of turns that are spoiled.

use muster_model::{
    Decision, EventKind, JobId, JobState, Plan, Start, Timestamp, Turn, TurnChange,
};
use muster_plan_check::Rule;
use muster_planner::{Budget, Planner};
use muster_test_kit::Lab;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SITE: &str = "
    node n[1-2] cpus=4 gpus=1xa100:40G mem=32G
    partition main nodes=n[1-2] sharers=2
    policy slice=2
";

fn plan(lab: &Lab) -> Plan {
    let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
    let found = muster_plan_check::check_full(&lab.state, &plan);
    assert!(found.is_empty(), "the plan is not good: {found:#?}\n{plan:#?}");
    plan
}

fn go(lab: &mut Lab) -> Plan {
    let plan = plan(lab);
    lab.carry_out(&plan);
    let found = muster_plan_check::recount(&lab.state);
    assert!(found.is_empty(), "{found:#?}");
    plan
}

fn broken(lab: &Lab, plan: &Plan) -> BTreeSet<Rule> {
    muster_plan_check::check_full(&lab.state, plan).iter().map(|v| v.rule).collect()
}

/// Job 1 runs on both nodes; a second one joins it with the plan.
fn joining() -> (Lab, Plan) {
    let mut lab = Lab::new(SITE);
    lab.submit("first nodes=2 cpus=4 gpus-per-node=1 gpu-memory=10G mem=4G time=20");
    go(&mut lab);
    lab.submit("second nodes=2 cpus=4 gpus-per-node=1 gpu-memory=10G mem=4G time=20");
    let good = plan(&lab);
    (lab, good)
}

/// At the end of a slice: job 1 ran, job 2 waited for its turn.
fn at_slice_end() -> (Lab, Plan) {
    let (mut lab, good) = joining();
    lab.carry_out(&good);
    lab.at_minute(2);
    let good = plan(&lab);
    (lab, good)
}

fn start(plan: &mut Plan) -> &mut Start {
    let starts = plan.decisions.iter_mut().find_map(|d| match d {
        Decision::Start(starts) => starts.first_mut(),
        _ => None,
    });
    starts.expect("the plan starts something")
}

fn changes(plan: &mut Plan) -> &mut Vec<TurnChange> {
    let found = plan.decisions.iter_mut().find_map(|d| match d {
        Decision::Turns(changes) => Some(changes),
        _ => None,
    });
    found.expect("the plan changes turns")
}

fn turn_of(plan: &mut Plan, job: u32) -> &mut Turn {
    let change = changes(plan).iter_mut().find(|change| change.job == JobId(job));
    change.and_then(|change| change.turn.as_mut()).expect("the job has a turn")
}

fn rules(rules: &[Rule]) -> BTreeSet<Rule> {
    rules.iter().copied().collect()
}

#[test]
fn a_turn_without_ground_is_found() {
    let (lab, mut plan) = joining();
    start(&mut plan).turn = None;
    // Without a turn it runs, beside the one that does.
    assert_eq!(broken(&lab, &plan), rules(&[Rule::TurnGroundless, Rule::TurnClash]));
    let (lab, mut plan) = at_slice_end();
    changes(&mut plan)[0].attempt = 7;
    assert!(broken(&lab, &plan).contains(&Rule::TurnGroundless));
}

#[test]
fn two_that_run_at_once_are_found() {
    let (lab, mut plan) = joining();
    start(&mut plan).turn.as_mut().expect("it shares").runs = true;
    assert_eq!(broken(&lab, &plan), rules(&[Rule::TurnClash]));
    let (lab, mut plan) = at_slice_end();
    turn_of(&mut plan, 1).runs = true;
    assert_eq!(broken(&lab, &plan), rules(&[Rule::TurnClash]));
}

#[test]
fn a_slice_that_is_cut_short_is_found() {
    let (mut lab, good) = joining();
    lab.carry_out(&good);
    lab.at_minute(2);
    let swap = plan(&lab);
    lab.carry_out(&swap);
    // The same again, a minute too early.
    lab.at_minute(3);
    let since = lab.now;
    let until = Timestamp::from_secs(100 * 60);
    let change = |job: u32, runs: bool| TurnChange {
        job: JobId(job),
        attempt: 1,
        turn: Some(Turn { runs, since, until }),
    };
    let mut early = plan(&lab);
    assert!(early.decisions.is_empty());
    early.decisions.push(Decision::Turns(vec![change(1, true), change(2, false)]));
    assert_eq!(broken(&lab, &early), rules(&[Rule::TurnEarly]));
    // Or for nobody.
    lab.at_minute(4);
    let mut idle = plan(&lab);
    changes(&mut idle).retain(|change| change.job == JobId(2));
    assert_eq!(broken(&lab, &idle), rules(&[Rule::TurnEarly, Rule::TurnIdle]));
}

#[test]
fn whoever_waits_longest_goes_first() {
    let mut lab = Lab::new("node n1 cpus=4 mem=32G\npartition main nodes=n1 sharers=3");
    for name in ["a", "b", "c"] {
        lab.submit(&format!("{name} cpus=4 mem=4G time=20"));
        go(&mut lab);
    }
    lab.at_minute(1);
    let mut bad = plan(&lab);
    let (second, third) = (*turn_of(&mut bad, 2), 3);
    let attempt = 1;
    changes(&mut bad).retain(|change| change.job != JobId(2));
    changes(&mut bad).push(TurnChange { job: JobId(third), attempt, turn: Some(second) });
    assert_eq!(broken(&lab, &bad), rules(&[Rule::TurnOrder]));
}

#[test]
fn an_end_that_cannot_be_kept_is_found() {
    let (lab, mut plan) = joining();
    let turn = start(&mut plan).turn.as_mut().expect("it shares");
    // Both limits, and a sixteenth for the changes of turns.
    assert_eq!(turn.until, Timestamp::from_secs(42 * 60 + 30));
    turn.until = Timestamp::from_secs(40 * 60 - 1);
    assert_eq!(broken(&lab, &plan), rules(&[Rule::TurnEnd]));
}

#[test]
fn nobody_stands_still_for_nothing() {
    let (mut lab, mut plan) = at_slice_end();
    plan.decisions.clear();
    // It may wait a while longer: the round was late.
    assert_eq!(broken(&lab, &plan), rules(&[]));
    lab.exit(JobId(1), 0);
    assert_eq!(broken(&lab, &plan), rules(&[Rule::TurnIdle]));
}

#[test]
fn more_than_the_partition_says_are_found() {
    let (mut lab, plan) = joining();
    lab.set_up("partition main sharers=1");
    // Then nobody shares at all.
    assert!(broken(&lab, &plan).contains(&Rule::CpusOverallocated));
    let mut lab = Lab::new("node n1 cpus=4 mem=32G\npartition main nodes=n1 sharers=3");
    for name in ["a", "b", "c"] {
        lab.submit(&format!("{name} cpus=4 mem=4G time=20"));
        if name != "c" {
            go(&mut lab);
        }
    }
    let plan = self::plan(&lab);
    lab.set_up("partition main sharers=2");
    assert_eq!(broken(&lab, &plan), rules(&[Rule::SharedTooOften]));
}

#[test]
fn memory_of_all_is_there_at_once() {
    let (mut lab, plan) = joining();
    let foreign = muster_model::ForeignUse {
        memory: muster_model::Mib(28 * 1024),
        ..muster_model::ForeignUse::default()
    };
    let node = muster_model::NodeId(0);
    lab.event(EventKind::NodeForeign { node, foreign: vec![foreign] });
    assert_eq!(broken(&lab, &plan), rules(&[Rule::MemoryOverallocated]));
}

#[test]
fn memory_of_a_gpu_is_that_of_all_who_share() {
    let (lab, mut plan) = joining();
    let placement = std::sync::Arc::make_mut(&mut start(&mut plan).placement);
    for share in &mut placement.nodes {
        share.devices[0].memory = muster_model::Mib(31 * 1024);
    }
    // It is more than there is, and not what was asked for.
    assert_eq!(broken(&lab, &plan), rules(&[Rule::GpuMemory, Rule::GpuOverallocated]));
}

#[test]
fn a_preempted_sharer_takes_all_who_share_with_it() {
    let mut lab =
        Lab::new(&format!("{SITE}\nqos low preempt=requeue\nqos high priority=10 preempts=low"));
    lab.submit("a qos=low nodes=2 cpus=4 mem=4G time=20");
    go(&mut lab);
    lab.submit("b qos=low nodes=1 cpus=4 mem=20G time=20");
    go(&mut lab);
    lab.at_minute(1);
    lab.submit("high qos=high exclusive nodes=2 mem=1G time=20");
    let plan = plan(&lab);
    let victims = plan.decisions.iter().filter_map(|d| match d {
        Decision::Preempt(preempt) => Some(preempt.victims.iter().map(|v| v.job.0)),
        _ => None,
    });
    assert_eq!(victims.flatten().collect::<Vec<_>>(), [1, 2]);
}

/// Random jobs on a shared partition: at each step the plan is good, the recount is clean, a fresh
/// planner plans the same as one that followed, and everybody has a turn.
fn story(lines: &[String], sharers: u32) {
    let mut lab = Lab::new(&format!(
        "node n[1-3] cpus=4 gpus=2xa100:40G mem=24G\npartition main nodes=n[1-3] sharers={sharers}\n\
         policy slice=1"
    ));
    let mut followed = Planner::new(&lab.state);
    let mut waited: BTreeMap<JobId, u32> = BTreeMap::new();
    for minute in 0..40u64 {
        if let Some(line) = lines.get(minute as usize / 2).filter(|_| minute % 2 == 0) {
            lab.submit(line);
        }
        lab.at_minute(minute);
        for _ in 0..3 {
            let same = followed.plan(&lab.state, lab.now, Budget::UNLIMITED);
            let fresh = go(&mut lab);
            assert_eq!(same, fresh);
        }
        let ids: Vec<JobId> = lab.state.index.turns.iter().copied().collect();
        let mut stands = BTreeSet::new();
        for job in ids.iter().map(|id| &lab.state.jobs[id]).filter(|job| job.waits_for_turn()) {
            stands.insert(job.id);
            let slices = waited.entry(job.id).or_default();
            *slices += 1;
            assert!(*slices as usize <= ids.len(), "job {} waited {slices} slices", job.id);
        }
        waited.retain(|job, _| stands.contains(job));
    }
    let still = |job: &&std::sync::Arc<muster_model::Job>| job.state == JobState::Suspended;
    assert!(lab.state.jobs.values().filter(still).all(|job| job.turn.is_some()));
}

fn job_line() -> impl Strategy<Value = String> {
    (
        1u32..=3,
        1u32..=4,
        0u32..=2,
        1u32..=12,
        2u32..=9,
        prop_oneof![3 => Just(""), 1 => Just(" exclusive"), 1 => Just(" gpu-memory=15G")],
    )
        .prop_map(|(nodes, cpus, gpus, mem, time, more)| {
            let gpus = if gpus > 0 { format!(" gpus-per-node={gpus}") } else { String::new() };
            format!("j nodes={nodes} cpus={cpus}{gpus} mem={mem}G time={time}{more}")
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn turns_go_round(lines in prop::collection::vec(job_line(), 1..12), sharers in 2u32..=3) {
        story(&lines, sharers);
    }
}
