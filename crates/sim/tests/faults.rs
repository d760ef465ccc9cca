//! Replays in which nodes break: nobody is lost, nothing is given out twice, the same seed breaks the
//! same.

#![allow(clippy::unwrap_used)]

use muster_sim::trace::SwfJob;
use muster_sim::twin::{
    Estimates, FaultCounts, Faults, Finished, PolicyName, Rounds, Setting, replay,
};
use proptest::prelude::*;

const MACHINE: u32 = 12;

fn run(jobs: &[SwfJob], name: PolicyName, faults: Option<Faults>) -> (Vec<Finished>, FaultCounts) {
    let (policy, estimates) = (name.policy(), Estimates::Requested);
    let setting = Setting { processors: MACHINE, policy, estimates, faults, rounds: Rounds::Each };
    let mut all = Vec::new();
    let finished = |done: &Finished| {
        all.push(*done);
        Ok(())
    };
    let counts = replay(&setting, jobs.iter().map(|job| Ok(*job)), finished).unwrap();
    all.sort_by_key(|done| done.job.number);
    (all, counts)
}

fn jobs() -> impl Strategy<Value = Vec<SwfJob>> {
    let job = (0i64..40, 1i64..200, 1i64..=12, 0i64..60);
    prop::collection::vec(job, 1..30).prop_map(|jobs| {
        let mut submit = 0;
        let with_number = |(at, (gap, run, requested, more)): (usize, (i64, i64, i64, i64))| {
            submit += gap;
            let (number, requested_time) = (at as i64, run + more);
            SwfJob { number, submit, run, requested, requested_time, ..SwfJob::default() }
        };
        jobs.into_iter().enumerate().map(with_number).collect()
    })
}

fn policy() -> impl Strategy<Value = PolicyName> {
    let names = ["fifo", "easy", "easy-sjbf", "conservative", "muster"];
    prop::sample::select(names.to_vec()).prop_map(|name| name.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(200),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nodes_break_and_nobody_is_lost(
        jobs in jobs(),
        name in policy(),
        mtbf_s in 300u64..4000,
        mttr_s in 1u64..300,
        seed in 0u64..1000,
        checkpoint_s in prop::option::of(1u64..50),
    ) {
        let faults = Faults { nodes: 4, mtbf_s, mttr_s, checkpoint_s, seed };
        let (done, counts) = run(&jobs, name, Some(faults));
        prop_assert_eq!(done.len(), jobs.len());
        for one in &done {
            prop_assert!(one.start >= one.job.submit && one.end > one.start);
            // Its last start ran no more than all of it, and no less without a checkpoint.
            prop_assert!(one.end - one.start <= one.job.run);
            prop_assert!(checkpoint_s.is_some() || one.end - one.start == one.job.run);
            let there: i64 = done
                .iter()
                .filter(|other| other.start <= one.start && one.start < other.end)
                .map(|other| other.job.requested)
                .sum();
            prop_assert!(there <= i64::from(MACHINE));
        }
        let lost = counts.lost_processor_hours * 3600.0;
        prop_assert!(counts.jobs_hit > 0 || lost == 0.0);
        if let Some(every) = checkpoint_s {
            let most = counts.jobs_hit * (every - 1) * u64::from(MACHINE);
            prop_assert!(lost <= most as f64 + 1e-6);
        }
        prop_assert_eq!(run(&jobs, name, Some(faults)), (done, counts));
    }

    #[test]
    fn where_nothing_breaks_nothing_changes(jobs in jobs(), name in policy()) {
        let mtbf_s = u64::MAX / 4;
        let never = Faults { nodes: 4, mtbf_s, mttr_s: 1, checkpoint_s: None, seed: 1 };
        prop_assert_eq!(run(&jobs, name, Some(never)), run(&jobs, name, None));
    }
}

#[test]
fn what_is_lost_is_counted() {
    // One job on the whole machine of one node: whatever breaks hits it.
    let job = SwfJob {
        number: 1,
        run: 1_000_000,
        requested: 12,
        requested_time: 1_000_000,
        ..SwfJob::default()
    };
    let faults =
        Faults { nodes: 1, mtbf_s: 600_000, mttr_s: 100, checkpoint_s: Some(3600), seed: 2 };
    let (done, counts) = run(&[job], PolicyName::Easy, Some(faults));
    assert!(counts.failures > 0);
    assert_eq!(counts.failures, counts.jobs_hit);
    // It was there for its run, for what was lost of it, and for the repairs.
    let hours = (counts.lost_processor_hours + counts.down_processor_hours) / 12.0;
    let there = done[0].end as f64 - 1_000_000.0;
    assert!((there / 3600.0 - hours).abs() < 1e-6, "{there} {counts:?}");
}

#[test]
fn a_job_that_nodes_never_outlast_is_given_up() {
    let long = SwfJob {
        number: 1,
        run: 1_000_000,
        requested: 12,
        requested_time: 1_000_000,
        ..SwfJob::default()
    };
    let short = SwfJob { number: 2, submit: 5, run: 10, ..long };
    let faults = Faults { nodes: 1, mtbf_s: 10_000, mttr_s: 10, checkpoint_s: None, seed: 2 };
    let (done, counts) = run(&[long, short], PolicyName::Easy, Some(faults));
    let numbers: Vec<i64> = done.iter().map(|done| done.job.number).collect();
    assert_eq!((counts.jobs_given_up, numbers), (1, vec![2]));
}
