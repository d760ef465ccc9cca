//! Every file of `scenarios/` is run and must come out as it stands.
//!
//! To write the transcripts anew after a wanted change, and then read the difference:
//! `UPDATE_SCENARIOS=1 cargo test -p muster-planner --test scenarios`.

#![allow(clippy::disallowed_methods)] // the files are the test's data

use muster_model::{JobId, NodeTally, Plan, Reason, State, Timestamp};
use muster_planner::{Budget, Planner};
use muster_test_kit::{Scheduler, run_scenario};
use std::path::Path;

/// The planner kept over a whole scenario, checked against a new one at every round.
struct Kept(Planner);

impl Scheduler for Kept {
    fn plan(&mut self, state: &State, now: Timestamp) -> Plan {
        let plan = self.0.plan(state, now, Budget::UNLIMITED);
        let fresh = Planner::new(state).plan(state, now, Budget::UNLIMITED);
        assert_eq!(plan, fresh, "a kept planner plans otherwise than a new one");
        plan
    }

    fn reasons(&mut self, state: &State, now: Timestamp, job: JobId) -> Vec<Reason> {
        self.0.explain(state, job, now).reasons
    }

    fn queue(&mut self, state: &State, now: Timestamp) -> Vec<(JobId, Reason)> {
        self.0.reasons(state, now).into_iter().collect()
    }

    fn suggestions(&mut self, state: &State, now: Timestamp, job: JobId) -> Vec<String> {
        self.0
            .explain(state, job, now)
            .suggestions
            .iter()
            .map(|s| format!("{}: {s}", s.change.option()))
            .collect()
    }

    fn tally(&mut self, state: &State, now: Timestamp, job: JobId) -> Vec<NodeTally> {
        self.0.explain(state, job, now).tally
    }

    fn violations(&mut self, state: &State, plan: &Plan) -> Vec<String> {
        let mut found = muster_plan_check::check_full(state, plan);
        found.extend(muster_plan_check::recount(state));
        found.iter().map(|v| format!("VIOLATION {v}")).collect()
    }
}

#[test]
fn scenarios_come_out_as_written() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let update = std::env::var_os("UPDATE_SCENARIOS").is_some();
    let mut files: Vec<_> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let planner = Planner::new(&State::default());
        let out = run_scenario(&text, &mut Kept(planner));
        if out == text {
            continue;
        }
        if update {
            std::fs::write(&file, &out).unwrap();
        } else {
            wrong.push(format!("{}: came out as\n{out}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
