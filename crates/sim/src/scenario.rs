//! A scenario run against the planner, its plans checked as they are made.

use crate::{Cycle, CycleError};
use muster_model::{ApplyError, EventKind, JobId, NodeTally, Plan, Reason, State, Timestamp};
use muster_plan_check::{check_full, recount};
use muster_planner::{Budget, Planner};
use muster_scenario::{Moved, Ran, Read, Replayed, Scheduler};

/// Runs a scenario: one planner is kept from its first line to its last, as in the daemon.
///
/// # Errors
/// A line cannot be read, or a command not be carried out.
pub fn run_scenario(text: &str) -> Read<Ran> {
    muster_scenario::run(text, &mut Kept { planner: Planner::new(&State::default()), told: None })
}

/// A planner kept over a whole scenario, compared with a new one at every round.
struct Kept {
    planner: Planner,
    /// What was wrong with the last plan beside the rules that it breaks.
    told: Option<String>,
}

impl Scheduler for Kept {
    fn plan(&mut self, state: &State, now: Timestamp) -> Plan {
        let plan = self.planner.plan(state, now, Budget::UNLIMITED);
        let fresh = Planner::new(state).plan(state, now, Budget::UNLIMITED);
        let differs = || "a planner kept from before plans otherwise than a new one".to_owned();
        self.told = (plan != fresh).then(differs);
        plan
    }

    fn reasons(&mut self, state: &State, now: Timestamp, job: JobId) -> Vec<Reason> {
        self.planner.explain(state, job, now).reasons
    }

    fn queue(&mut self, state: &State, now: Timestamp) -> Vec<(JobId, Reason)> {
        self.planner.reasons(state, now).into_iter().collect()
    }

    fn suggestions(&mut self, state: &State, now: Timestamp, job: JobId) -> Vec<String> {
        let found = self.planner.explain(state, job, now).suggestions;
        found.iter().map(|s| format!("{}: {s}", s.change.option())).collect()
    }

    fn tally(&mut self, state: &State, now: Timestamp, job: JobId) -> Vec<NodeTally> {
        self.planner.explain(state, job, now).tally
    }

    fn violations(&mut self, state: &State, plan: &Plan) -> Vec<String> {
        let found = check_full(state, plan).into_iter().chain(recount(state));
        let found = found.map(|violation| violation.to_string()).chain(self.told.take());
        found.map(|told| format!("VIOLATION {told}")).collect()
    }
    fn window(
        &mut self,
        state: &State,
        now: Timestamp,
        job: JobId,
    ) -> Option<(Timestamp, Option<Timestamp>)> {
        let window = self.planner.explain(state, job, now).start;
        window.map(|window| (window.not_before, window.expected))
    }

    fn whatif(
        &mut self,
        state: &State,
        now: Timestamp,
        changes: &[EventKind],
    ) -> Result<Vec<Moved>, ApplyError> {
        let moved = crate::whatif(state, now, changes)?.moved;
        Ok(moved.iter().map(|moved| (moved.job, moved.before, moved.after)).collect())
    }

    fn replay(
        &mut self,
        state: &State,
        now: Timestamp,
        without_names: bool,
    ) -> Result<Replayed, String> {
        let plan = self.planner.plan(state, now, Budget::UNLIMITED);
        let again = || -> Result<Replayed, CycleError> {
            let mut cycle = Cycle::new(state.clone(), plan);
            if without_names {
                cycle = cycle.without_names()?;
            }
            let mut file = Vec::new();
            cycle.write(&mut file)?;
            let cycle = Cycle::read(file.as_slice())?;
            let replayed = cycle.replay();
            Ok(Replayed { plan: replayed.plan, same: replayed.same, state: cycle.state })
        };
        again().map_err(|error| format!("{error} [{}]", error.code()))
    }
}
