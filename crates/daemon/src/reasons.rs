//! Why jobs wait: asked of the planner once for each state, and kept until the state changes.

use crate::app::App;
use muster_control::{Advisor, Explanation, Handle};
use muster_model::{Job, JobId, Reason, State};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The reasons of all waiting jobs of one state.
pub(crate) struct Known {
    /// The state.
    pub(crate) state: Arc<State>,
    by_job: BTreeMap<JobId, Reason>,
}

/// The newest reasons that were asked for.
#[derive(Default)]
pub(crate) struct Reasons {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    advisor: Advisor,
    newest: Option<Arc<Known>>,
}

impl Reasons {
    /// The newest state with the reasons of its waiting jobs. May take as long as a planning
    /// round; those who ask at the same time share it.
    pub(crate) fn of(&self, handle: &Handle) -> Arc<Known> {
        let mut inner = self.lock();
        let state = handle.state();
        if let Some(known) = inner.newest.as_ref()
            && known.state.seq == state.seq
        {
            return Arc::clone(known);
        }
        let by_job = inner.advisor.reasons(&state, App::now());
        let known = Arc::new(Known { state, by_job });
        inner.newest = Some(Arc::clone(&known));
        known
    }

    /// Everything about one waiting job.
    pub(crate) fn explain(&self, state: &State, job: JobId) -> Explanation {
        self.lock().advisor.explain(state, job, App::now())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The binding reason of a waiting job.
    pub(crate) fn reason(&self, job: &Job) -> Option<&Reason> {
        self.by_job.get(&job.id)
    }
}
