//! What a round costs, in counted steps: the unit in which cost is bounded.

use muster_model::Work;
use muster_planner::{Budget, Planner};
use muster_test_kit::Lab;

/// The work of a round after one of eight running jobs has ended, with so many equal jobs waiting.
fn work_after_an_exit(waiting: u32) -> Work {
    let mut lab = Lab::new("node n1 cpus=8 mem=64G");
    for _ in 0..waiting + 8 {
        lab.submit("small time=10 mem=1G");
    }
    let mut planner = Planner::new(&lab.state);
    let plan = planner.plan(&lab.state, lab.now, Budget::UNLIMITED);
    lab.carry_out(&plan);
    planner.observe(&lab.state);
    let first = lab.find("1");
    lab.exit(first, 0);
    let plan = planner.plan(&lab.state, lab.now, Budget::UNLIMITED);
    assert_eq!(plan.decisions.len(), 1);
    plan.work
}

#[test]
fn equal_jobs_that_wait_cost_nothing() {
    let (few, many) = (work_after_an_exit(100), work_after_an_exit(10_000));
    assert_eq!(few, many);
    // Measured: 10 steps. One start, one "no" for all others, one promise.
    assert!(many.total() <= 20, "{many:?}");
}

/// The work of a first round with so many shapes of job on so many nodes.
fn work_of_shapes(shapes: u32, nodes: u32) -> Work {
    let mut lab = Lab::new(&format!("node n[1-{nodes}] cpus=4 mem=64G"));
    for time in 1..=shapes {
        for _ in 0..4 {
            lab.submit(&format!("shape cpus=3 time={time} mem=1G"));
        }
    }
    lab.unchecked_plan().work
}

#[test]
fn work_grows_with_shapes_times_nodes_and_no_faster() {
    let base = work_of_shapes(20, 20).total();
    let (more_shapes, more_nodes) =
        (work_of_shapes(40, 20).total(), work_of_shapes(20, 40).total());
    assert!(more_shapes <= base * 5 / 2, "{base} -> {more_shapes}");
    assert!(more_nodes <= base * 5 / 2, "{base} -> {more_nodes}");
}

/// The work of promising a start to each of so many jobs that all differ, on so many full nodes.
fn work_of_promises(waiting: u32, nodes: u32) -> (Work, Work) {
    let mut lab = Lab::new(&format!(
        "policy backfill=conservative depth={waiting}\nnode n[1-{nodes}] cpus=4 gpus=4xa100 mem=64G"
    ));
    for n in 0..nodes {
        lab.submit(&format!("running cpus=4 gpus=4 mem=64G time={}", 60 + n % 37));
    }
    let plan = lab.unchecked_plan();
    lab.carry_out(&plan);
    for n in 0..waiting {
        let (gpus, count) = (1 + n % 4, 1 + n % 3);
        lab.submit(&format!("w nodes={count} gpus-per-node={gpus} mem=1G time={}", 10 + n));
    }
    let mut planner = Planner::new(&lab.state);
    let plan = planner.plan(&lab.state, lab.now, Budget::UNLIMITED);
    assert_eq!(plan.promises.len(), waiting as usize);
    assert_eq!(muster_plan_check::check(&lab.state, &plan), []);
    let outlook = planner.outlook(&lab.state, lab.now);
    assert_eq!(outlook.starts.len(), waiting as usize);
    let starts: Vec<_> = outlook.starts.into_values().collect();
    assert_eq!(muster_plan_check::check_outlook(&lab.state, &plan, &starts), []);
    (plan.work, outlook.work)
}

#[test]
fn a_promise_costs_a_few_steps_however_many_nodes_and_jobs_there_are() {
    let (small, _) = work_of_promises(60, 40);
    let (large, outlook) = work_of_promises(240, 160);
    // Measured: 20 steps a promise in the small case, 49 in the large: a look at the stretches that
    // open before it, by far not at each node at each end.
    assert!(small.total() <= 60 * 40, "{small:?}");
    assert!(large.total() <= 240 * 100, "{large:?}");
    assert!(outlook.total() <= 240 * 100, "{outlook:?}");
}
