//! A job's life with resources: placed, started, ended, put back in the queue.

use super::ApplyError;
use crate::{
    Claim, EndCause, ExitReport, Hold, IdleGpus, Job, JobId, JobState, Placement, PreemptMode,
    Reason, State, StepRecord, StopCause, TimeLimit, Timestamp,
};
use std::sync::Arc;

/// What becomes of a job whose attempt is over.
enum Outcome {
    Over(JobState),
    Requeued { hold: Option<Hold> },
}

impl State {
    pub(super) fn place(
        &mut self,
        at: Timestamp,
        id: JobId,
        attempt: u32,
        placement: &Arc<Placement>,
        time_limit: TimeLimit,
    ) -> Result<(), ApplyError> {
        let old = self.known("job_placed", id)?;
        let out_of_order =
            |why: String| ApplyError::OutOfOrder { event: "job_placed", job: id, why };
        if !old.is_pending() {
            return Err(out_of_order(format!("it is {:?}, not waiting", old.state)));
        }
        if attempt != old.attempt + 1 {
            return Err(out_of_order(format!("attempt {attempt} after attempt {}", old.attempt)));
        }
        for share in &placement.nodes {
            if !self.nodes.contains_key(&share.node) {
                return Err(ApplyError::UnknownNode { event: "job_placed", node: share.node });
            }
        }
        self.note_wait(at, &old);
        let mut new = Job::clone(&old);
        new.state = JobState::Starting;
        new.attempt = attempt;
        new.placement = Some(Arc::clone(placement));
        if self.policy.count_usage {
            new.charge = Arc::new(self.charge(placement));
        }
        new.time_limit = time_limit;
        new.placed = Some(at);
        new.placed_seq = self.seq;
        new.claim = None;
        new.eviction = None;
        (new.lends, new.resumes) = (false, false);
        new.resize = None;
        new.turn = None;
        new.stands_since = None;
        new.resumed = None;
        new.paused = crate::Seconds(0);
        new.paused_ms = 0;
        new.checkpointed = None;
        new.idle = None;
        new.started = None;
        new.ended = None;
        new.exit = None;
        new.message.clear();
        new.steps.clear();
        new.usage = crate::Usage::default();
        self.replace(&old, new);
        Ok(())
    }

    pub(super) fn started(
        &mut self,
        at: Timestamp,
        id: JobId,
        attempt: u32,
    ) -> Result<(), ApplyError> {
        let Some(old) = self.current("job_started", id, attempt)? else { return Ok(()) };
        if old.started.is_some() {
            return Ok(());
        }
        let mut new = Job::clone(&old);
        new.started = Some(at);
        // One that was to wait for its turn was launched all the same: it is made to stand still.
        if matches!(old.state, JobState::Starting | JobState::Suspended) {
            new.state = JobState::Running;
            // What it waited before it began is no pause of what runs.
            new.stands_since = None;
            (new.paused, new.paused_ms) = (crate::Seconds(0), 0);
        }
        self.replace(&old, new);
        self.settle_dependents(at, id);
        Ok(())
    }

    pub(super) fn suspended(
        &mut self,
        at: Timestamp,
        id: JobId,
        attempt: u32,
        suspended: bool,
    ) -> Result<(), ApplyError> {
        let Some(old) = self.current("job_suspended", id, attempt)? else { return Ok(()) };
        let state = match (old.state, suspended) {
            (JobState::Running, true) => JobState::Suspended,
            (JobState::Suspended, false) => JobState::Running,
            // What ends goes on for that.
            (JobState::Completing, false) if old.stands_since.is_some() => old.state,
            _ => return Ok(()),
        };
        let mut new = Job { state, ..Job::clone(&old) };
        match (suspended, state) {
            (true, _) => {
                new.stands_since = Some(at);
                new.lends = self.lends_when_still(&old);
            }
            (false, JobState::Running) => new.go_on(at),
            (false, _) => new.end_pause(at),
        }
        self.replace(&old, new);
        Ok(())
    }

    pub(super) fn signalled(&mut self, id: JobId, number: u32) -> Result<(), ApplyError> {
        let old = self.known("job_signalled", id)?;
        let mut new = Job::clone(&old);
        new.signals.retain(|s| s.number != number);
        self.replace(&old, new);
        Ok(())
    }

    pub(super) fn idle(
        &mut self,
        id: JobId,
        attempt: u32,
        idle: Option<IdleGpus>,
    ) -> Result<(), ApplyError> {
        let Some(old) = self.current("job_idle", id, attempt)? else { return Ok(()) };
        self.replace(&old, Job { idle, ..Job::clone(&old) });
        Ok(())
    }

    pub(super) fn step(
        &mut self,
        id: JobId,
        attempt: u32,
        step: &StepRecord,
    ) -> Result<(), ApplyError> {
        let Some(old) = self.current("step_observed", id, attempt)? else { return Ok(()) };
        let mut new = Job::clone(&old);
        match new.steps.iter_mut().find(|s| s.id == step.id) {
            Some(known) => {
                let paused_ms = known.paused_ms;
                *known = StepRecord { paused_ms, ..step.clone() };
            }
            None => new.steps.push(step.clone()),
        }
        self.replace(&old, new);
        Ok(())
    }

    pub(super) fn exited(
        &mut self,
        at: Timestamp,
        id: JobId,
        attempt: u32,
        report: &ExitReport,
    ) -> Result<(), ApplyError> {
        let Some(old) = self.current("job_exited", id, attempt)? else { return Ok(()) };
        let mut new = Job::clone(&old);
        new.record_exit(report);
        // Only where they were taken back it is told further.
        new.idle.take_if(|idle| idle.taken_after.is_none());
        match self.outcome(&old, report) {
            Outcome::Over(state) => {
                new.state = state;
                if let Some(idle) = new.idle.filter(|_| state == JobState::Cancelled) {
                    new.message = idle.to_string();
                }
                self.note_run(&new);
            }
            Outcome::Requeued { hold } => {
                new.state = JobState::Pending;
                new.placement = None;
                new.stop = None;
                new.eligible = None;
                new.time_limit = old.spec.time_limit.unwrap_or(old.time_limit);
                new.hold = hold.or(new.hold);
                // What it keeps of its nodes is held for it.
                let keeps = old.eviction.as_ref().and_then(|eviction| eviction.keeps.clone());
                new.claim = keeps.filter(|_| new.hold.is_none()).map(|placement| {
                    let time_limit = new.time_limit;
                    Arc::new(Claim {
                        since: at,
                        until: at,
                        placement,
                        time_limit,
                        victims: Vec::new(),
                    })
                });
            }
        }
        self.replace(&old, new);
        self.refresh_eligible(at, id);
        self.settle_dependents(at, id);
        Ok(())
    }

    /// What an attempt's end means, by the engine's cause and by what was asked of it.
    fn outcome(&self, job: &Job, report: &ExitReport) -> Outcome {
        let stop = job.stop.as_ref().map(|s| &s.cause);
        if let Some(StopCause::Cancelled(_)) = stop {
            return Outcome::Over(JobState::Cancelled);
        }
        if let Some(StopCause::HetPeer) = stop {
            // The script runs in component 0: where that is over, the others ended as it did.
            let leader = job.het.and_then(|part| self.jobs.get(&part.leader));
            let leader = leader.filter(|leader| leader.id != job.id && leader.state.is_over());
            return Outcome::Over(leader.map_or(JobState::Cancelled, |leader| leader.state));
        }
        let eviction = job.eviction.as_ref().map(|e| e.mode);
        // It was asked for a checkpoint and to leave: it did.
        if eviction == Some(PreemptMode::Checkpoint)
            && report.cause == EndCause::Exited
            && stop.is_none_or(|cause| {
                matches!(cause, StopCause::Preempted(_) | StopCause::Requeue { hold: false })
            })
        {
            return Outcome::Requeued { hold: None };
        }
        let by_status = || match report.status.success() {
            true => JobState::Completed,
            false => JobState::Failed,
        };
        // A job that takes its nodes down again and again is held for somebody to look at.
        let restart = || {
            let message = format!("its node was lost {} times", job.attempt);
            let worn_out = job.attempt > self.policy.max_restarts;
            let hold = worn_out.then_some(Hold::System(Reason::RestartedTooOften { message }));
            Outcome::Requeued { hold }
        };
        match report.cause {
            // It ended by itself with success: whatever was asked of it, it is done.
            EndCause::Exited if report.status.success() => Outcome::Over(JobState::Completed),
            EndCause::TimeLimit => Outcome::Over(JobState::Timeout),
            EndCause::OutOfMemory => Outcome::Over(JobState::OutOfMemory),
            EndCause::LaunchFailed => Outcome::Over(JobState::Failed),
            EndCause::NodeReboot | EndCause::NodeLost if job.spec.requeue => restart(),
            EndCause::NodeReboot | EndCause::NodeLost => Outcome::Over(JobState::NodeFail),
            EndCause::Exited | EndCause::Stopped => match stop {
                None => Outcome::Over(by_status()),
                Some(StopCause::Requeue { hold }) => {
                    let idle = job.idle.and_then(|idle| Some((idle.gpus, idle.taken_after?)));
                    let why = idle.map(|(gpus, after)| Reason::GpusIdle { gpus, after });
                    let held = why.map_or(Hold::User, Hold::System);
                    Outcome::Requeued { hold: hold.then_some(held) }
                }
                Some(StopCause::Preempted(_))
                    if job.spec.requeue && eviction != Some(PreemptMode::Cancel) =>
                {
                    Outcome::Requeued { hold: None }
                }
                Some(StopCause::Preempted(_)) => Outcome::Over(JobState::Preempted),
                Some(StopCause::Taint(_)) if job.spec.requeue => Outcome::Requeued { hold: None },
                // Its node is none for it any more.
                Some(StopCause::Taint(_)) => Outcome::Over(JobState::NodeFail),
                Some(StopCause::Deadline) => Outcome::Over(JobState::Deadline),
                Some(StopCause::ReservationOver) => Outcome::Over(JobState::Timeout),
                Some(StopCause::Cancelled(_) | StopCause::HetPeer) => {
                    Outcome::Over(JobState::Cancelled)
                }
            },
        }
    }

    /// The job, where the attempt is its present one and has resources; else nothing to do.
    pub(super) fn current(
        &self,
        event: &'static str,
        id: JobId,
        attempt: u32,
    ) -> Result<Option<Arc<Job>>, ApplyError> {
        let job = self.known(event, id)?;
        Ok((job.attempt == attempt && job.state.holds_resources()).then_some(job))
    }
}
