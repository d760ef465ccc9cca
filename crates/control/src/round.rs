//! Planning rounds: what plans, what checks, and what the last round said.

use muster_model::{Decision, JobId, Plan, State, Timestamp};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Something that plans. It may keep what it likes between rounds, as long as its plan is the one
/// that it would make from the state alone.
pub trait Planning: Send {
    /// What to do now.
    fn plan(&mut self, state: &State, now: Timestamp) -> Plan;
}

/// Something that judges plans without the planner's help.
pub trait Checking: Send + Sync {
    /// Every rule that the plan would break on this state.
    fn check(&self, state: &State, plan: &Plan) -> Vec<Breach>;
}

/// A rule that a plan breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The rule's name.
    pub rule: String,
    /// A sentence with the numbers.
    pub message: String,
    /// The jobs whose decisions break it.
    pub jobs: Vec<JobId>,
}

/// The newest planning round whose plan came to the writer: its whole input and output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// The state that it was made from. It shares what did not change with the present one.
    pub base: State,
    /// What it said. A plan that the checker refused is here too.
    pub plan: Plan,
}

/// A round: a plan, what the checker says of it, and how long both took.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) plan: Plan,
    pub(crate) breaches: Vec<Breach>,
    pub(crate) took: Duration,
}

/// The planner with its judge. The planner's thread has them, and the writer borrows them for
/// rounds that take no time worth a detour.
pub(crate) struct Planners {
    pub(crate) planner: Mutex<Box<dyn Planning>>,
    pub(crate) checker: Arc<dyn Checking>,
}

impl Planners {
    pub(crate) fn round(&self, state: &State, now: Timestamp) -> Made {
        let planner = self.planner.lock().unwrap_or_else(PoisonError::into_inner);
        self.with(planner, state, now)
    }

    /// A round at once; `None` where the planner is at work.
    pub(crate) fn try_round(&self, state: &State, now: Timestamp) -> Option<Made> {
        let planner = self.planner.try_lock().ok()?;
        Some(self.with(planner, state, now))
    }

    fn with(
        &self,
        mut planner: MutexGuard<'_, Box<dyn Planning>>,
        state: &State,
        now: Timestamp,
    ) -> Made {
        let began = Instant::now();
        let plan = planner.plan(state, now);
        drop(planner);
        let (plan, breaches) = self.judged(state, plan);
        crate::failpoint::failpoint!("plan_made");
        Made { plan, breaches, took: began.elapsed() }
    }

    /// The plan with what the checker says of it. Nobody waits for an elastic job to grow: where that
    /// is what is wrong, the plan does without, and nobody is held for it.
    fn judged(&self, state: &State, plan: Plan) -> (Plan, Vec<Breach>) {
        let breaches = self.checker.check(state, &plan);
        let stays = |decision: &&Decision| !matches!(decision, Decision::Grow(_));
        if breaches.is_empty() || plan.decisions.iter().all(|decision| stays(&decision)) {
            return (plan, breaches);
        }
        let decisions = plan.decisions.iter().filter(stays).cloned().collect();
        let without = Plan { decisions, ..plan.clone() };
        if !self.checker.check(state, &without).is_empty() {
            return (plan, breaches);
        }
        let rules: Vec<&str> = breaches.iter().map(|breach| breach.rule.as_str()).collect();
        tracing::error!(?rules, "no elastic job grows: the plan that said so broke a rule");
        (without, Vec::new())
    }
}
