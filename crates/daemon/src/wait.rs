//! Waiting for jobs without asking again and again: a waiter is woken by its own job only.

use muster_control::{Handle, Subscription};
use muster_model::{EventKind, Job, JobId, State};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, watch};

/// How many events are looked at between two chances for others.
const EVENTS_AT_ONCE: usize = 1_024;

/// Those who wait, by the id that they named.
#[derive(Default)]
pub(crate) struct Waiters {
    by_job: Mutex<BTreeMap<JobId, (usize, Arc<Notify>)>>,
}

/// A place among the waiters; given up when dropped.
pub(crate) struct Waiting<'a> {
    waiters: &'a Waiters,
    job: JobId,
    notify: Arc<Notify>,
}

impl Waiters {
    /// Waits for changes of a job, or of any member of the array or heterogeneous job.
    pub(crate) fn enter(&self, job: JobId) -> Waiting<'_> {
        let mut by_job = self.by_job.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = by_job.entry(job).or_default();
        entry.0 += 1;
        Waiting { waiters: self, job, notify: Arc::clone(&entry.1) }
    }

    fn none(&self) -> bool {
        self.by_job.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn wake(&self, job: JobId) {
        let by_job = self.by_job.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, notify)) = by_job.get(&job) {
            notify.notify_waiters();
        }
    }

    fn wake_all(&self) {
        let by_job = self.by_job.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, notify) in by_job.values() {
            notify.notify_waiters();
        }
    }
}

impl Waiting<'_> {
    /// To be enabled before the state is looked at, so that no change is missed.
    pub(crate) fn notified(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut by_job = self.waiters.by_job.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = by_job.get_mut(&self.job) {
            entry.0 -= 1;
            if entry.0 == 0 {
                by_job.remove(&self.job);
            }
        }
    }
}

/// Wakes waiters as events come, until the writer is gone.
pub(crate) async fn wake_waiters(
    waiters: impl AsRef<Waiters>,
    handle: Handle,
    mut seq: watch::Receiver<u64>,
) {
    let waiters = waiters.as_ref();
    let mut events = handle.subscribe();
    while seq.changed().await.is_ok() {
        // Whoever comes after this look sees a state that has everything up to here.
        let fresh = handle.subscribe();
        if waiters.none() {
            events = fresh;
            continue;
        }
        drain(waiters, &handle, &mut events);
    }
}

fn drain(waiters: &Waiters, handle: &Handle, events: &mut Subscription) {
    loop {
        match events.try_next(EVENTS_AT_ONCE) {
            Ok(batch) if batch.is_empty() => return,
            Ok(batch) => {
                let state = handle.state();
                for (_, event) in &batch {
                    for id in jobs_of(&event.kind) {
                        waiters.wake(id);
                        let job = state.job(id).into_iter();
                        for above in job.flat_map(|job| above(job)) {
                            if !has_waiting_tasks(&state, above) {
                                waiters.wake(above);
                            }
                        }
                    }
                }
            }
            Err(_) => waiters.wake_all(),
        }
    }
}

/// True for an array of which tasks still wait: nobody who waits for all of it has to look then.
/// Without this, each task of a large array would make its waiters look at all others.
fn has_waiting_tasks(state: &State, id: JobId) -> bool {
    state.index.arrays.get(&id).is_some_and(|array| array.unfinished > array.active)
}

/// The array or leader that a job belongs to.
fn above(job: &Job) -> impl Iterator<Item = JobId> + use<> {
    job.array.map(|a| a.array).into_iter().chain(job.het.map(|h| h.leader))
}

/// The jobs that an event is about.
pub(crate) fn jobs_of(kind: &EventKind) -> Vec<JobId> {
    match kind {
        EventKind::JobSubmitted { first, .. } => vec![*first],
        EventKind::JobsForgotten { jobs } => jobs.clone(),
        kind => kind.job().into_iter().collect(),
    }
}
