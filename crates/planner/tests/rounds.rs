//! Rounds on small clusters: starts, promises and backfill, each plan checked and planned again.

use muster_model::{Decision, JobId, Plan, Timestamp};
use muster_planner::{Budget, Planner};
use muster_test_kit::Lab;

/// Plans, checks that no rule is broken, carries out, and plans again: nothing may be left.
fn round(lab: &mut Lab) -> Plan {
    let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
    let found = muster_plan_check::check_full(&lab.state, &plan);
    assert!(found.is_empty(), "{found:#?}\n{plan:#?}");
    lab.carry_out(&plan);
    let recount = muster_plan_check::recount(&lab.state);
    assert!(recount.is_empty(), "{recount:#?}");
    let again = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
    assert!(again.decisions.is_empty(), "not a fixed point: {again:#?}");
    plan
}

fn started(plan: &Plan) -> Vec<JobId> {
    plan.decisions
        .iter()
        .flat_map(|d| match d {
            Decision::Start(starts) => starts.iter().map(|s| s.job).collect(),
            Decision::Reject { .. } => Vec::new(),
        })
        .collect()
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
