//! A log planned anew from its inputs: under the same policy everybody starts when the log says, and
//! under another one when a cluster under that policy would have started it.

#![allow(clippy::unwrap_used)]

use muster_model::{EventKind, JobId, State, Timestamp};
use muster_planner::{Budget, Planner};
use muster_scenario::Lab;
use muster_sim::twin::{Finished, Instead, LogCounts, LoggedRuns, OwnLog};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Minute of submission, nodes, CPUs of each, minutes that it runs, and that it asks for beyond that.
type Made = (u64, u32, u32, u64, u64);

const CLUSTER: &str = "node n[1-3] cpus=4";

/// A cluster that plans after everything that happens, until all is over.
fn lived(policy: &str, jobs: &[Made]) -> Lab {
    let mut lab = Lab::default();
    lab.set_up(CLUSTER).unwrap();
    lab.set_up(policy).unwrap();
    let mut jobs = jobs.to_vec();
    jobs.sort_unstable();
    let mut left: BTreeMap<u64, Vec<Made>> = BTreeMap::new();
    for job in jobs {
        left.entry(job.0).or_default().push(job);
    }
    let mut runs: BTreeMap<JobId, u64> = BTreeMap::new();
    let mut ends: BTreeSet<(u64, JobId)> = BTreeSet::new();
    let mut seen: BTreeSet<JobId> = BTreeSet::new();
    while let Some(minute) =
        left.keys().next().copied().into_iter().chain(ends.first().map(|end| end.0)).min()
    {
        lab.at_minute(minute).unwrap();
        let mut plan = |lab: &mut Lab, ends: &mut BTreeSet<_>, runs: &BTreeMap<JobId, u64>| {
            let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
            lab.carry_out(&plan).unwrap();
            for id in lab.state.index.active.clone() {
                if seen.insert(id) {
                    ends.insert((minute + runs[&id], id));
                }
            }
        };
        while let Some(due) = ends.first().copied().filter(|due| due.0 == minute) {
            ends.remove(&due);
            lab.exit(due.1, 0).unwrap();
            plan(&mut lab, &mut ends, &runs);
        }
        for (_, nodes, cpus, run, more) in left.remove(&minute).unwrap_or_default() {
            let line = format!("j nodes={nodes} cpus={cpus} time={}", run + more);
            let id = lab.submit(&line).unwrap();
            runs.insert(id, run);
            plan(&mut lab, &mut ends, &runs);
        }
    }
    lab
}

/// When each job was placed, by a log.
fn placed(lab: &Lab) -> BTreeMap<JobId, Timestamp> {
    let starts = lab.log.iter().filter_map(|event| match &event.kind {
        EventKind::JobPlaced { job, .. } => Some((*job, event.at)),
        _ => None,
    });
    starts.collect()
}

fn replayed(lab: &Lab, policy: Option<Instead>) -> (BTreeMap<JobId, Timestamp>, LogCounts) {
    let mut logged = LoggedRuns::new(&State::default());
    for event in &lab.log {
        logged.add(event);
    }
    let mut starts = BTreeMap::new();
    let note = |done: &Finished| {
        let id = JobId(u32::try_from(done.job.number).unwrap());
        starts.insert(id, Timestamp::from_secs(done.start));
        Ok(())
    };
    let mut log = OwnLog::new(State::default(), logged, policy, note);
    for event in &lab.log {
        log.add(event.clone()).unwrap();
    }
    let counts = log.finish().unwrap().counts;
    (starts, counts)
}

fn made() -> impl Strategy<Value = Vec<Made>> {
    prop::collection::vec((0u64..20, 1u32..=3, 1u32..=4, 1u64..12, 1u64..15), 1..14)
}

const POLICIES: [&str; 4] = [
    "policy backfill=easy",
    "policy backfill=conservative",
    "policy backfill=none",
    "policy order=slowdown backfill=easy",
];

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(100),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_same_policy_starts_everybody_when_the_log_says(
        jobs in made(),
        policy in prop::sample::select(POLICIES.to_vec()),
    ) {
        let lab = lived(policy, &jobs);
        let (starts, counts) = replayed(&lab, None);
        prop_assert_eq!(starts, placed(&lab));
        prop_assert_eq!((counts.unfit, counts.endless), (0, 0));
        prop_assert_eq!(counts.events, lab.log.len() as u64);
    }

    #[test]
    fn another_policy_starts_everybody_as_a_cluster_under_it(
        jobs in made(),
        policy in prop::sample::select(POLICIES.to_vec()),
        other in prop::sample::select(POLICIES.to_vec()),
    ) {
        let (lab, other) = (lived(policy, &jobs), lived(other, &jobs));
        let own = other.state.policy.as_ref().clone();
        let (starts, counts) = replayed(&lab, Some(Instead::All(own)));
        prop_assert_eq!(starts, placed(&other));
        prop_assert_eq!(counts.unfit, 0);
    }
}

#[test]
fn who_was_cancelled_while_it_waited_may_have_run_by_then() {
    let mut lab = Lab::default();
    lab.set_up("node n1 cpus=4").unwrap();
    lab.set_up("policy backfill=none").unwrap();
    let plan = |lab: &mut Lab| {
        let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
        lab.carry_out(&plan).unwrap();
    };
    let first = lab.submit("a cpus=3 time=60").unwrap();
    plan(&mut lab);
    lab.submit("b cpus=4 time=60").unwrap();
    let small = lab.submit("c cpus=1 time=5").unwrap();
    plan(&mut lab);
    lab.at_minute(10).unwrap();
    lab.cancel(small).unwrap();
    lab.at_minute(30).unwrap();
    lab.exit(first, 0).unwrap();
    plan(&mut lab);
    let easy = muster_sim::twin::PolicyName::Easy.policy();
    let (starts, counts) = replayed(&lab, Some(Instead::Order(easy)));
    // Its end is not in the log, so it takes its limit and is in no figure: 5 minutes, then the
    // order to end it comes too late.
    assert_eq!(starts, BTreeMap::from([(first, Timestamp::from_secs(0))]));
    assert_eq!((counts.unfit, counts.endless), (0, 2));
}
