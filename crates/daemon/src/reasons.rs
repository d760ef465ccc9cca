//! Why jobs wait: asked of the planner once for each state, and kept until the state changes.

use crate::app::App;
use muster_control::{Advisor, Comparison, Explanation, Handle, NodeAnswer, TurnView};
use muster_model::{Job, JobId, Promise, Reason, State};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Reasons that took longer than this to find are kept for a while.
const DEAR: Duration = Duration::from_millis(20);

/// For how many times that it took they are kept: readers cost a tenth of a processor at most.
const KEPT_TIMES: u32 = 10;

/// A state with the reasons of its waiting jobs.
pub(crate) struct Known {
    /// The state.
    pub(crate) state: Arc<State>,
    by_job: Arc<BTreeMap<JobId, Reason>>,
}

/// The newest reasons that were asked for.
#[derive(Default)]
pub(crate) struct Reasons {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    advisor: Advisor,
    newest: Option<Found<Reason>>,
    starts: Option<Found<Promise>>,
}

/// What was found of jobs, of which state it is, and what finding it took.
struct Found<T> {
    by_job: Arc<BTreeMap<JobId, T>>,
    seq: u64,
    at: Instant,
    took: Duration,
}

impl<T> Found<T> {
    /// Takes the time that finding takes.
    fn find(state: &State, find: impl FnOnce() -> BTreeMap<JobId, T>) -> Self {
        let began = Instant::now();
        let by_job = Arc::new(find());
        Self { by_job, seq: state.seq, at: Instant::now(), took: began.elapsed() }
    }

    /// True where they are those of the state, or finding them anew would cost too much for now.
    fn serves(&self, state: &State) -> bool {
        self.seq == state.seq
            || (self.took > DEAR && self.at.elapsed() < self.took.saturating_mul(KEPT_TIMES))
    }
}

impl Reasons {
    /// The newest state with the reasons of its waiting jobs. Finding them may take as long as a
    /// planning round; those who ask at the same time share it. Where many jobs wait, the reasons
    /// may be some rounds old; the jobs never are.
    pub(crate) fn of(&self, handle: &Handle) -> Known {
        let mut inner = self.lock();
        let state = handle.state();
        if let Some(found) = inner.newest.as_ref().filter(|found| found.serves(&state)) {
            return Known { state, by_job: Arc::clone(&found.by_job) };
        }
        let found = Found::find(&state, || inner.advisor.reasons(&state, App::now()));
        let by_job = Arc::clone(&found.by_job);
        inner.newest = Some(found);
        Known { state, by_job }
    }

    /// When and where the waiting jobs of a state would start, the first of the queue where many wait.
    pub(crate) fn starts(&self, state: &State) -> Arc<BTreeMap<JobId, Promise>> {
        let mut inner = self.lock();
        if let Some(found) = inner.starts.as_ref().filter(|found| found.serves(state)) {
            return Arc::clone(&found.by_job);
        }
        let found = Found::find(state, || inner.advisor.starts(state, App::now()));
        let by_job = Arc::clone(&found.by_job);
        inner.starts = Some(found);
        by_job
    }

    /// Everything about one waiting job.
    pub(crate) fn explain(&self, state: &State, job: JobId) -> Explanation {
        self.lock().advisor.explain(state, job, App::now())
    }

    /// With whom a running job takes turns.
    pub(crate) fn turn_of(&self, state: &State, job: JobId) -> Option<TurnView> {
        self.lock().advisor.turn_of(state, job, App::now())
    }

    /// Why a job is not on a node.
    pub(crate) fn why_not_on(&self, state: &State, job: JobId, node: &str) -> Option<NodeAnswer> {
        self.lock().advisor.why_not_on(state, job, node, App::now())
    }

    /// A waiting job beside another.
    pub(crate) fn why_over(&self, state: &State, job: JobId, other: JobId) -> Option<Comparison> {
        self.lock().advisor.why_over(state, job, other, App::now())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The binding reason of a waiting job.
    pub(crate) fn reason(&self, job: &Job) -> Option<&Reason> {
        self.by_job.get(&job.id).filter(|_| job.is_pending())
    }
}
