//! What becomes of a decision where engines answer at once: the events of it, and theirs.

use muster_model::{
    Decision, EndCause, EventKind, ExitReport, ExitStatus, JobId, JobState, PreemptMode, Start,
    State, StopCause, Timestamp, Usage, Victim,
};

/// A state that is driven by events.
pub trait Stage {
    /// Why an event cannot be applied.
    type Error;

    /// The state so far.
    fn state(&self) -> &State;

    /// The clock.
    fn now(&self) -> Timestamp;

    /// Applies an event at the present instant.
    ///
    /// # Errors
    /// It cannot follow what came before.
    fn apply(&mut self, kind: EventKind) -> Result<(), Self::Error>;
}

/// Carries a decision out: every start becomes a running job, every rejection an end.
///
/// # Errors
/// It does not fit the state.
pub fn carry_out<S: Stage>(stage: &mut S, decision: &Decision) -> Result<(), S::Error> {
    match decision {
        Decision::Start(starts) => {
            for event in starts.iter().flat_map(Start::events) {
                stage.apply(event)?;
            }
            starts.iter().try_for_each(|start| follow(stage, start.job))
        }
        Decision::Reject { job, reason } => {
            stage.apply(EventKind::JobRejected { job: *job, reason: reason.clone() })
        }
        Decision::Preempt(preempt) => {
            for event in preempt.events(stage.now()) {
                stage.apply(event)?;
            }
            for victim in &preempt.victims {
                match victim.mode {
                    PreemptMode::Suspend => suspended(stage, victim.job, true)?,
                    PreemptMode::Shrink => {
                        let (job, attempt) = (victim.job, victim.attempt);
                        stage.apply(EventKind::JobResized { job, attempt })?;
                    }
                    _ => {}
                }
            }
            Ok(())
        }
        Decision::Grow(victim) => {
            let (victim, by) = (Victim::clone(victim), victim.job);
            stage.apply(EventKind::JobPreempted { victim, by })
        }
        Decision::Evict { job, taint, .. } => {
            let (job, cause) = (*job, StopCause::Taint(taint.clone()));
            stage.apply(EventKind::JobStop { job, cause, hurry: false })?;
            end(stage, job, ExitStatus { code: 0, signal: 15 }, EndCause::Stopped)
        }
        Decision::Turns(changes) => {
            for change in changes {
                let (job, attempt, turn) = (change.job, change.attempt, change.turn);
                stage.apply(EventKind::JobTurn { job, attempt, turn })?;
            }
            changes.iter().try_for_each(|change| follow(stage, change.job))
        }
        Decision::Resume { job } => {
            stage.apply(EventKind::JobSuspend { job: *job, suspend: false })?;
            suspended(stage, *job, false)
        }
    }
}

/// What an engine does: a job is launched, made to stand still, or goes on.
fn follow<S: Stage>(stage: &mut S, id: JobId) -> Result<(), S::Error> {
    let Some(job) = stage.state().job(id) else { return Ok(()) };
    match job.state {
        JobState::Starting => {
            let attempt = job.attempt;
            stage.apply(EventKind::JobStarted { job: id, attempt })
        }
        JobState::Running if job.suspend => suspended(stage, id, true),
        JobState::Suspended if !job.suspend => suspended(stage, id, false),
        _ => Ok(()),
    }
}

/// A job stands still, or goes on.
pub(crate) fn suspended<S: Stage>(
    stage: &mut S,
    id: JobId,
    suspended: bool,
) -> Result<(), S::Error> {
    let Some(attempt) = stage.state().job(id).map(|job| job.attempt) else { return Ok(()) };
    stage.apply(EventKind::JobSuspended { job: id, attempt, suspended })
}

/// A job that has resources is gone.
///
/// # Errors
/// It does not fit the state.
pub fn end<S: Stage>(
    stage: &mut S,
    id: JobId,
    status: ExitStatus,
    cause: EndCause,
) -> Result<(), S::Error> {
    let Some(job) = stage.state().job(id) else { return Ok(()) };
    let (attempt, started) = (job.attempt, job.started);
    let report = ExitReport {
        status,
        cause,
        started,
        ended: stage.now(),
        usage: Usage::default(),
        message: String::new(),
        steps: Vec::new(),
    };
    stage.apply(EventKind::JobExited { job: id, attempt, report })
}
