//! One transaction in the making: a working copy of the state, and what led there.

use muster_model::{
    ApplyError, Event, EventKind, Job, JobId, JobState, State, StopCause, Timestamp,
};
use muster_store::{Batch, Blob, HistoryRow};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An attempt of a job.
pub(crate) type Attempt = (JobId, u32);

/// A transaction that is not stored yet. Dropping it undoes everything.
pub(crate) struct Turn {
    /// The instant of everything in it.
    pub(crate) at: Timestamp,
    /// The state with everything in it.
    pub(crate) state: State,
    /// What is stored.
    pub(crate) batch: Batch,
    /// Jobs that changed.
    pub(crate) touched: BTreeSet<JobId>,
    /// Running jobs whose limit changed.
    pub(crate) relimited: BTreeSet<JobId>,
    /// Attempts whose exit is recorded by this transaction or was before.
    pub(crate) over: BTreeSet<Attempt>,
    /// Something happened that planning may act on.
    pub(crate) worth_planning: bool,
}

/// A point to go back to.
pub(crate) struct Savepoint {
    state: State,
    events: usize,
    blobs: usize,
    history: usize,
    durable: bool,
}

impl Turn {
    pub(crate) fn new(state: &State, at: Timestamp) -> Self {
        Self {
            at,
            state: state.clone(),
            batch: Batch::default(),
            touched: BTreeSet::new(),
            relimited: BTreeSet::new(),
            over: BTreeSet::new(),
            worth_planning: false,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batch.events.is_empty()
    }

    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint {
            state: self.state.clone(),
            events: self.batch.events.len(),
            blobs: self.batch.blobs.len(),
            history: self.batch.history.len(),
            durable: self.batch.durable,
        }
    }

    /// Undoes what came after the savepoint. What was marked as touched stays marked: looking at
    /// an unchanged job once more costs little and does nothing.
    pub(crate) fn go_back(&mut self, to: Savepoint) {
        self.state = to.state;
        self.batch.events.truncate(to.events);
        self.batch.blobs.truncate(to.blobs);
        self.batch.history.truncate(to.history);
        self.batch.durable = to.durable;
    }

    pub(crate) fn add_blobs(&mut self, blobs: Vec<Blob>) {
        self.batch.blobs.extend(blobs);
    }

    /// Applies an event and everything that follows from it at once: history of an ended attempt,
    /// and the end of a heterogeneous job's other components.
    ///
    /// # Errors
    /// The event does not fit; the turn is as it was.
    pub(crate) fn apply(&mut self, kind: EventKind) -> Result<(), ApplyError> {
        let before = kind.job().and_then(|id| self.state.jobs.get(&id)).cloned();
        self.apply_one(kind)?;
        if let Some(before) = before
            && let Some(after) = self.state.jobs.get(&before.id).cloned()
        {
            self.follow_up(&before, &after)?;
        }
        Ok(())
    }

    fn apply_one(&mut self, kind: EventKind) -> Result<(), ApplyError> {
        let event = Event { at: self.at, kind };
        self.state.apply(&event)?;
        self.mark(&event.kind);
        self.batch.durable |= must_survive(&event.kind);
        self.worth_planning |= matters_to_plans(&event.kind);
        self.batch.events.push((self.state.seq, Arc::new(event)));
        Ok(())
    }

    fn mark(&mut self, kind: &EventKind) {
        match kind {
            EventKind::JobSubmitted { first, .. } => {
                self.touched.extend((first.0..=self.state.last_job.0).map(JobId));
            }
            EventKind::JobUpdated { job, update } => {
                self.touched.insert(*job);
                if update.time_limit.is_some() {
                    self.relimited.insert(*job);
                }
            }
            EventKind::JobExited { job, attempt, .. } => {
                self.touched.insert(*job);
                self.over.insert((*job, *attempt));
            }
            other => self.touched.extend(other.job()),
        }
    }

    fn follow_up(&mut self, before: &Job, after: &Job) -> Result<(), ApplyError> {
        let left = before.state.holds_resources() && !after.state.holds_resources();
        let ended = !before.state.is_over() && after.state.is_over();
        if !left && !ended {
            return Ok(());
        }
        self.batch.history.push(history_row(self.state.seq, before, after));
        self.end_peers(after)
    }

    /// The components of a heterogeneous job end, or go back to the queue, together.
    fn end_peers(&mut self, job: &Job) -> Result<(), ApplyError> {
        let Some(part) = job.het else { return Ok(()) };
        for peer in (0..part.size).map(|offset| JobId(part.leader.0 + offset)) {
            let cause = match self.state.jobs.get(&peer) {
                Some(peer) if peer.id == job.id || peer.state.is_over() => continue,
                Some(peer) if job.state.is_over() => match peer.stop.as_ref().map(|s| &s.cause) {
                    Some(StopCause::Cancelled(_) | StopCause::HetPeer) => continue,
                    // One that is to be put back in the queue has nobody to run with any more.
                    _ => StopCause::HetPeer,
                },
                Some(peer) if peer.state.holds_resources() && peer.stop.is_none() => {
                    StopCause::Requeue { hold: false }
                }
                _ => continue,
            };
            self.apply(EventKind::JobStop { job: peer, cause, hurry: false })?;
        }
        Ok(())
    }
}

/// False for what can be observed or decided again after a power cut.
const fn must_survive(kind: &EventKind) -> bool {
    !matches!(
        kind,
        EventKind::NodeSet { .. }
            | EventKind::NodeAvailability { .. }
            | EventKind::NodeForeign { .. }
            | EventKind::JobStarted { .. }
            | EventKind::JobSuspended { .. }
            | EventKind::JobSignalled { .. }
            | EventKind::StepObserved { .. }
            | EventKind::JobsForgotten { .. }
            | EventKind::Round
    )
}

const fn matters_to_plans(kind: &EventKind) -> bool {
    !matches!(
        kind,
        EventKind::StepObserved { .. }
            | EventKind::JobSignal { .. }
            | EventKind::JobSignalled { .. }
            | EventKind::JobSuspend { .. }
            | EventKind::JobResize { .. }
            | EventKind::JobsForgotten { .. }
            | EventKind::JobPlaced { .. }
            | EventKind::JobClaimed { .. }
            | EventKind::JobPreempted { .. }
            | EventKind::JobCheckpointed { .. }
            | EventKind::JobIdle { .. }
            | EventKind::JobTurn { .. }
            | EventKind::Round
    )
}

/// The row of an attempt's end. A job that went back to the queue is shown as it was with its
/// resources, ended in the state that the end would have meant for good.
fn history_row(seq: u64, before: &Job, after: &Job) -> HistoryRow {
    if after.state.is_over() {
        return HistoryRow { seq, job: Arc::new(after.clone()), requeued: false };
    }
    let state = match before.stop.as_ref().map(|s| &s.cause) {
        Some(StopCause::Preempted(_)) => JobState::Preempted,
        Some(StopCause::Taint(_)) => JobState::NodeFail,
        Some(_) => JobState::Cancelled,
        // It was asked for a checkpoint and left by itself.
        None if before.eviction.is_some() => JobState::Preempted,
        None => JobState::NodeFail,
    };
    let job = Job {
        state,
        placement: before.placement.clone(),
        stop: before.stop.clone(),
        time_limit: before.time_limit,
        hold: None,
        ..after.clone()
    };
    HistoryRow { seq, job: Arc::new(job), requeued: true }
}
