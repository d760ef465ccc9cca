//! How much a round works, in its own counts: bounds that hold on every machine.

use muster_model::{Decision, JobId, Timestamp, Work};
use muster_planner::{Budget, Planner};
use muster_test_kit::Lab;

const NOW: Timestamp = Timestamp::from_secs(60);

/// Nodes of four GPUs in leaves of eight, every second one in use, and five jobs for each that all
/// differ in their limits, one in seven of them on two nodes.
fn lab(nodes: u32) -> Lab {
    let mut lab = Lab::new("policy backfill=conservative depth=20");
    for node in 0..nodes {
        let line = format!("node n{node} cpus=16 gpus=4xa100 mem=64G switch=l{},c", node / 8);
        lab.set_up(&line);
    }
    for n in 0..nodes / 2 {
        lab.submit(&format!("runs gpus-per-node=4 nodes=1 cpus=16 mem=64G time={}", 100 + n % 50));
    }
    let first = lab.plan();
    lab.carry_out(&first);
    lab.at_minute(1);
    for n in 0..nodes * 5 {
        let (gpus, width) = ([1, 1, 2, 4][(n % 4) as usize], if n % 7 == 0 { 2 } else { 1 });
        let line = format!("j{n} nodes={width} gpus-per-node={gpus} cpus=2 mem=4G time={}", 9 + n);
        lab.submit(&line);
    }
    lab
}

struct Worked {
    starts: u64,
    cold: Work,
    /// Once that is carried out.
    unchanged: Work,
    /// Once a job has ended.
    ended: Work,
}

fn worked(nodes: u32) -> Worked {
    let mut lab = lab(nodes);
    let mut planner = Planner::new(&lab.state);
    let plan = planner.plan(&lab.state, NOW, Budget::UNLIMITED);
    let starts = plan.decisions.iter().filter(|d| matches!(d, Decision::Start(_))).count() as u64;
    lab.carry_out(&plan);
    let unchanged = planner.plan(&lab.state, NOW, Budget::UNLIMITED).work;
    let ended: Option<JobId> = lab.state.index.active.iter().next().copied();
    lab.exit(ended.expect("some job runs"), 0);
    let ended = planner.plan(&lab.state, NOW, Budget::UNLIMITED).work;
    Worked { starts, cold: plan.work, unchanged, ended }
}

/// So many times the work where there is twice as much of everything: near linear.
fn is_near_linear(small: u64, large: u64) -> bool {
    large <= small * 5 / 2
}

#[test]
fn twice_the_nodes_and_jobs_are_about_twice_the_work() {
    let (small, large) = (worked(64), worked(128));
    assert!(small.starts >= 50, "{} starts", small.starts);
    for (what, of) in [
        ("a cold round", (|w| w.cold) as fn(&Worked) -> Work),
        ("a round without change", |w| w.unchanged),
        ("a round after a job's end", |w| w.ended),
    ] {
        let (small, large) = (of(&small), of(&large));
        assert!(is_near_linear(small.jobs, large.jobs), "{what}: jobs {small:?} {large:?}");
        assert!(is_near_linear(small.slots, large.slots), "{what}: slots {small:?} {large:?}");
    }
}

#[test]
fn a_start_costs_a_look_at_few_nodes_and_one_on_several_at_most_one_at_each() {
    let nodes = 64;
    let worked = worked(nodes);
    let most = worked.starts * u64::from(nodes);
    assert!(worked.cold.fits <= most, "{:?} for {} starts", worked.cold, worked.starts);
}

#[test]
fn a_round_in_which_nothing_changed_looks_at_each_shape_once_and_at_few_nodes() {
    let nodes = 64;
    let worked = worked(nodes);
    let waiting = u64::from(nodes) * 5;
    for work in [worked.unchanged, worked.ended] {
        // Twice where something starts behind a promise: then the walk is done again.
        assert!(work.jobs <= 2 * waiting, "{work:?}");
        assert!(work.slots <= 4 * waiting, "{work:?}");
        assert!(work.fits <= 8 * waiting, "{work:?}");
    }
}

/// The work of a round after a job's end: one user's one-CPU jobs that all wait since one instant,
/// on two CPUs.
fn one_by_one(order: &str, jobs: u32) -> Work {
    let mut lab = Lab::new(&format!("node n1 cpus=2\npolicy order={order}"));
    lab.submit(&format!("tasks array=1-{jobs} cpus=1 time=10"));
    let mut planner = Planner::new(&lab.state);
    let mut last = Work::default();
    for minute in 1..=4 {
        lab.at_minute(minute);
        let plan = planner.plan(&lab.state, lab.now, Budget::UNLIMITED);
        assert!(!plan.decisions.is_empty());
        lab.carry_out(&plan);
        last = plan.work;
        let ended = lab.state.index.active.iter().next().copied();
        lab.exit(ended.expect("some task runs"), 0);
    }
    last
}

#[test]
fn a_long_queue_of_like_jobs_costs_as_much_by_weight_as_by_submission() {
    for jobs in [1000, 10_000] {
        let (fifo, slowdown) = (one_by_one("fifo", jobs), one_by_one("slowdown", jobs));
        assert!(slowdown.total() <= 2 * fifo.total(), "{jobs}: {slowdown:?}, {fifo:?}");
        assert!(slowdown.total() <= 20, "{jobs}: {slowdown:?}");
    }
}

#[test]
fn who_has_waited_long_is_promised_a_start_once_somebody_would_pass() {
    let mut lab = Lab::new("node n[1-4] cpus=1\npolicy order=slowdown");
    lab.submit("before nodes=2 time=100 user=a");
    let plan = lab.plan();
    lab.carry_out(&plan);
    let wide = lab.submit("wide nodes=3 time=60 user=b");
    let wider = lab.submit("wider nodes=4 time=60 user=c");
    lab.at_minute(10);
    let promised = |lab: &Lab| lab.plan().promises.iter().map(|p| p.job).collect::<Vec<_>>();
    assert_eq!(promised(&lab), [wide]);
    // It would leave the first promise whole, but not the second.
    lab.submit("long nodes=1 time=500 user=d");
    assert_eq!(promised(&lab), [wide, wider]);
    assert!(lab.plan().decisions.is_empty());
    let short = lab.submit("short nodes=1 time=120 user=e");
    assert_eq!(muster_test_kit::started(&lab.plan()), [short]);
}

#[test]
fn a_planner_that_was_kept_works_as_much_as_a_new_one_and_finds_the_same() {
    let mut lab = lab(64);
    let mut kept = Planner::new(&lab.state);
    let plan = kept.plan(&lab.state, NOW, Budget::UNLIMITED);
    lab.carry_out(&plan);
    let again = kept.plan(&lab.state, NOW, Budget::UNLIMITED);
    let fresh = Planner::new(&lab.state).plan(&lab.state, NOW, Budget::UNLIMITED);
    assert_eq!(again, fresh);
}
