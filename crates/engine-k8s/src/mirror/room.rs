//! Room that is made for waiting pods.

use super::Mirror;
use muster_model::{ApplyError, DisruptionBudget, EventKind, JobId, Preempt, Timestamp};
use std::sync::Arc;

impl Mirror {
    /// Pods are about to be told to end: their room is held for whom they make it.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn make_room(&mut self, preempt: &Preempt, now: Timestamp) -> Result<(), ApplyError> {
        preempt.events(now).into_iter().try_for_each(|event| self.apply(now, event))
    }

    /// A pod that was to make room was not told so: it stays.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn stays(&mut self, job: JobId, now: Timestamp) -> Result<(), ApplyError> {
        let Some(key) = self.jobs.get(&job).cloned() else { return Ok(()) };
        let Some(entry) = self.entries.get(&key) else { return Ok(()) };
        if entry.record.leaving {
            return Ok(());
        }
        self.end_job(&key, now)?;
        self.house(&key, now)
    }

    pub(super) fn set_budget(
        &mut self,
        budget: DisruptionBudget,
        now: Timestamp,
    ) -> Result<(), ApplyError> {
        if self.state.budgets.get(&budget.name).map(Arc::as_ref) == Some(&budget) {
            return Ok(());
        }
        self.apply(now, EventKind::BudgetSet { budget })
    }

    pub(super) fn remove_budget(&mut self, name: String, now: Timestamp) -> Result<(), ApplyError> {
        if !self.state.budgets.contains_key(&name) {
            return Ok(());
        }
        self.apply(now, EventKind::BudgetRemoved { name })
    }
}
