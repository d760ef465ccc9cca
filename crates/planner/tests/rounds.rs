//! Rounds on small clusters: starts, promises and backfill, each plan checked and planned again.

use muster_model::{Decision, Plan, Timestamp};
use muster_test_kit::{Lab, started};

/// Plans, checks that no rule is broken, carries out, and plans again: nothing may be left.
fn round(lab: &mut Lab) -> Plan {
    let plan = lab.round();
    let recount = muster_plan_check::recount(&lab.state);
    assert!(recount.is_empty(), "{recount:#?}");
    let again = lab.plan();
    assert!(again.decisions.is_empty(), "not a fixed point: {again:#?}");
    plan
}

#[test]
fn a_gang_starts_whole_or_not_at_all() {
    // S-36: four slots, two gangs of three.
    let mut lab = Lab::new("node n[1-4] cpus=1");
    let first = lab.submit("g1 nodes=3 time=60");
    lab.submit("g2 nodes=3 time=60");
    let plan = round(&mut lab);
    assert_eq!(started(&plan), [first]);
    assert_eq!(plan.promises.len(), 1);
    assert_eq!(plan.promises[0].start, Timestamp::from_secs(3600));
}

#[test]
fn memory_above_the_partitions_bound_becomes_cpus() {
    // S-05.
    let mut lab = Lab::new("node n1 cpus=8 mem=64G\npartition main max-mem-per-cpu=4000");
    lab.submit("wide tasks=2 mem-per-cpu=8000");
    let plan = round(&mut lab);
    let [Decision::Start(starts)] = plan.decisions.as_slice() else { panic!("{plan:?}") };
    assert_eq!((starts[0].placement.cpus(), starts[0].placement.memory().0), (4, 16_000));
}

#[test]
fn absurd_amounts_wait_with_a_reason_and_overflow_nothing() {
    let most = u32::MAX;
    for request in [
        format!("nodes={most}"),
        format!("nodes=1-{most} tasks={most}"),
        format!("tasks={most} cpus={most}"),
        format!("nodes={most} tasks-per-node={most}"),
        format!("gpus={most} tasks-per-gpu={most}"),
        format!("gpus={most}xa100+{most}xh100+{most} cpus-per-gpu={most}"),
        format!("gpus-per-node={most}+{most} gpus-per-task={most} tasks={most}"),
        format!("gpus-per-socket={most}+{most}"),
        format!("mem-per-gpu={}T gpus={most}", u32::MAX),
        format!("mem-per-cpu={}T cpus={most}", u32::MAX),
        format!("licences=sim:{most},sim:{most}"),
        format!("constraint=red*{most}&blue*{most}"),
        format!("mincpus={most} tasks-per-socket={most} tasks-per-core={most}"),
        "time=unlimited".to_owned(),
    ] {
        let mut lab = Lab::new(
            "node n[1-3] cpus=4 gpus=2xa100 mem=8G features=red,blue
             partition main max-mem-per-cpu=1M
             licence sim 4",
        );
        lab.submit("running time=10");
        let absurd = lab.submit(&format!("absurd {request} time=10"));
        round(&mut lab);
        if !request.starts_with("time") {
            let found = lab.explain(absurd);
            assert_eq!(found.reasons.len(), 1, "{request}: {found:?}");
        }
    }
}

#[test]
fn an_overdue_job_is_taken_to_end_soon() {
    // Its limit was ten minutes ago; it still holds its node, and the next is promised all the same.
    let mut lab = Lab::new("node n1 cpus=1");
    lab.submit("late time=10");
    round(&mut lab);
    let next = lab.submit("next time=10");
    lab.now = Timestamp::from_secs(1200);
    let plan = round(&mut lab);
    assert!(started(&plan).is_empty());
    assert_eq!(plan.promises[0].job, next);
    assert_eq!(plan.promises[0].start, Timestamp::from_secs(1201));
}
