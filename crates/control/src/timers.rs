//! What falls due by the clock alone: begin times, delays, deadlines, and forgetting ended jobs.

use crate::reservations::Tender;
use crate::turn::Turn;
use muster_model::turn::slice_end;
use muster_model::{
    ApplyError, EventKind, Job, JobId, PreemptMode, Seconds, State, StopCause, Timestamp,
};
use muster_planner::taints::next_eviction;
use std::collections::{BTreeMap, BTreeSet};

/// Ended jobs that one event forgets.
const FORGET_MAX: usize = 1000;
/// Forgetting waits so long for more to forget.
const FORGET_PAUSE: Seconds = Seconds(5);

/// The next instant at which each job needs a look.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    of: BTreeMap<JobId, Timestamp>,
    by_time: BTreeSet<(Timestamp, JobId)>,
    forget_again: Timestamp,
    reservations: Tender,
    /// Taints were looked at up to here.
    taints_seen: Timestamp,
}

impl Timers {
    pub(crate) fn of_state(state: &State, now: Timestamp) -> Self {
        let mut timers = Self::default();
        for job in state.jobs.values() {
            timers.set(job.id, next_of(state, job, now));
        }
        timers
    }

    /// Looks again at jobs that changed.
    pub(crate) fn refresh<'a>(
        &mut self,
        state: &State,
        jobs: impl IntoIterator<Item = &'a JobId>,
        now: Timestamp,
    ) {
        for id in jobs {
            self.set(*id, state.jobs.get(id).and_then(|job| next_of(state, job, now)));
        }
    }

    fn set(&mut self, job: JobId, at: Option<Timestamp>) {
        if let Some(old) = self.of.remove(&job) {
            self.by_time.remove(&(old, job));
        }
        if let Some(at) = at {
            self.of.insert(job, at);
            self.by_time.insert((at, job));
        }
    }

    /// When the writer must look again at the latest, where nothing else happens.
    pub(crate) fn next(&self, state: &State) -> Option<Timestamp> {
        let job = self.by_time.first().map(|(at, _)| *at);
        let forget = state
            .index
            .ended
            .get_min()
            .map(|(ended, _)| ended.plus(state.policy.min_job_age).max(self.forget_again));
        let taint = next_eviction(state, self.taints_seen);
        [job, forget, taint, self.reservations.next(state)].into_iter().flatten().min()
    }

    /// Does what is due. True where planning has reason to look.
    pub(crate) fn run(&mut self, turn: &mut Turn) -> Result<bool, ApplyError> {
        let mut due = Vec::new();
        while let Some((at, job)) = self.by_time.first().copied()
            && at <= turn.at
        {
            self.set(job, None);
            due.push(job);
        }
        for job in &due {
            expire(turn, *job)?;
        }
        self.refresh(&turn.state, &due, turn.at);
        self.forget(turn)?;
        let reserved = self.reservations.run(turn)?;
        // Whom a taint ends, the planner says.
        let taint = next_eviction(&turn.state, self.taints_seen).is_some_and(|at| at <= turn.at);
        self.taints_seen = self.taints_seen.max(turn.at);
        Ok(reserved || taint || !due.is_empty())
    }

    /// Ended jobs leave the live list once they are old enough.
    fn forget(&mut self, turn: &mut Turn) -> Result<(), ApplyError> {
        if turn.at < self.forget_again {
            return Ok(());
        }
        let age = turn.state.policy.min_job_age;
        let old = |ended: &Timestamp| ended.plus(age) <= turn.at;
        let jobs: Vec<JobId> = turn
            .state
            .index
            .ended
            .iter()
            .take_while(|(ended, _)| old(ended))
            .take(FORGET_MAX)
            .map(|(_, job)| *job)
            .collect();
        if jobs.is_empty() {
            return Ok(());
        }
        // A full batch: there is more, so go on at once.
        if jobs.len() < FORGET_MAX {
            self.forget_again = turn.at.plus(FORGET_PAUSE);
        }
        turn.apply(EventKind::JobsForgotten { jobs })
    }
}

/// The next instant after `now` at which something about the job changes by itself.
fn next_of(state: &State, job: &Job, now: Timestamp) -> Option<Timestamp> {
    if job.state.is_over() {
        return None;
    }
    let deadline = job.spec.deadline.filter(|at| *at > now || job.state.holds_resources());
    let deadline = deadline.filter(|_| job.stop.is_none());
    let eligible = job.eligible.filter(|at| job.is_pending() && *at > now);
    let checkpointed = job.eviction.as_ref().filter(|_| job.stop.is_none());
    let checkpointed = checkpointed
        .filter(|eviction| eviction.mode == PreemptMode::Checkpoint)
        .map(|eviction| eviction.stop_at);
    // Its turn may come at each slice end.
    let turn = job.waits_for_turn().then(|| slice_end(now, state.policy.time_slice));
    let rested = job.started.filter(|_| job.may_be_resized());
    let rested = rested.map(|at| at.plus(state.policy.preemption.grow_after));
    let rested = rested.filter(|at| *at > now);
    [deadline, eligible, checkpointed, turn, rested].into_iter().flatten().min()
}

/// A running job whose deadline has come ends; a waiting one is the planner's to reject. One that
/// has had its time for a checkpoint makes room.
fn expire(turn: &mut Turn, id: JobId) -> Result<(), ApplyError> {
    let at = turn.at;
    let asked = turn.state.jobs.get(&id).and_then(|job| {
        let due = job.eviction.as_ref().filter(|eviction| {
            job.stop.is_none() && eviction.mode == PreemptMode::Checkpoint && eviction.stop_at <= at
        });
        due.map(|eviction| eviction.stop_cause(job))
    });
    if let Some(cause) = asked {
        turn.apply(EventKind::JobStop { job: id, cause, hurry: false })?;
    }
    let late = turn.state.jobs.get(&id).is_some_and(|job| {
        job.state.holds_resources()
            && job.stop.is_none()
            && job.spec.deadline.is_some_and(|deadline| deadline <= at)
    });
    if late {
        turn.apply(EventKind::JobStop { job: id, cause: StopCause::Deadline, hurry: false })?;
    }
    Ok(())
}
