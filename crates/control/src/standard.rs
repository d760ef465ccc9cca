//! The planner and the checker that the daemon runs with.

use crate::round::{Breach, Checking, Planning};
use muster_model::{JobId, Plan, Promise, Reason, Resume, State, Timestamp};
use muster_planner::{Budget, Comparison, Explanation, NodeAnswer, Planner, TurnView};
use std::collections::BTreeMap;

/// What one round may cost, in the planner's steps. A round that ends for want of them says so, and
/// the next one goes on from there.
const ROUND_STEPS: u64 = 20_000_000;

/// The planner of crate `planner`, asked round by round.
#[derive(Default)]
pub struct StandardPlanner {
    planner: Option<Planner>,
    resume: Option<Resume>,
}

/// Says why jobs wait: a planner of its own that follows the states it is asked about.
#[derive(Default)]
pub struct Advisor {
    planner: Option<Planner>,
}

impl Advisor {
    /// The binding reason of every waiting job.
    pub fn reasons(&mut self, state: &State, now: Timestamp) -> BTreeMap<JobId, Reason> {
        self.planner(state).reasons(state, now)
    }

    /// Everything about one waiting job.
    pub fn explain(&mut self, state: &State, job: JobId, now: Timestamp) -> Explanation {
        self.planner(state).explain(state, job, now)
    }

    /// When and where one waiting job would start, as everybody's outlook has it.
    pub fn when(&mut self, state: &State, job: JobId, now: Timestamp) -> Option<Promise> {
        self.planner(state).when(state, job, now)
    }

    /// When and where waiting jobs would start, as far as that is foreseen for all who look.
    pub fn starts(&mut self, state: &State, now: Timestamp) -> BTreeMap<JobId, Promise> {
        self.planner(state).foreseen(state, now).starts
    }

    /// Why a job is not on a node.
    pub fn why_not_on(
        &mut self,
        state: &State,
        job: JobId,
        node: &str,
        now: Timestamp,
    ) -> Option<NodeAnswer> {
        self.planner(state).why_not_on(state, job, node, now)
    }

    /// With whom a running job takes turns, and when its turn comes or ends.
    pub fn turn_of(&self, state: &State, job: JobId, now: Timestamp) -> Option<TurnView> {
        muster_planner::turn_of(state, job, now)
    }

    /// A waiting job beside another.
    pub fn why_over(
        &mut self,
        state: &State,
        job: JobId,
        other: JobId,
        now: Timestamp,
    ) -> Option<Comparison> {
        self.planner(state).why_over(state, job, other, now)
    }

    fn planner(&mut self, state: &State) -> &mut Planner {
        self.planner.get_or_insert_with(|| Planner::new(state))
    }
}

/// The checker of crate `plan-check`, on what a plan touches.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandardChecker;

impl Planning for StandardPlanner {
    fn plan(&mut self, state: &State, now: Timestamp) -> Plan {
        let budget = Budget { steps: ROUND_STEPS, resume: self.resume.take() };
        // It sees by itself what differs between two states.
        let planner = self.planner.get_or_insert_with(|| Planner::new(state));
        let plan = planner.plan(state, now, budget);
        self.resume.clone_from(&plan.resume);
        plan
    }
}

impl Checking for StandardChecker {
    fn check(&self, state: &State, plan: &Plan) -> Vec<Breach> {
        let breach = |found: muster_plan_check::Violation| Breach {
            rule: found.rule.code().to_owned(),
            message: found.to_string(),
            jobs: found.jobs,
        };
        muster_plan_check::check(state, plan).into_iter().map(breach).collect()
    }
}
