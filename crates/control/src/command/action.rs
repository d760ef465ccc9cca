//! Commands on jobs that are there: cancel, signal, hold, release, requeue, suspend.

use super::limits::{bad, is_signal};
use super::{CommandError, JobRef, Meaning, Principal, Reply, admins_only};
use muster_model::{
    EventKind, Hold, Job, JobId, JobKind, Reason, SignalScope, State, Stop, StopCause,
};
use std::collections::BTreeSet;

/// Job references that one command may name.
const REFS_MAX: usize = 100_000;
/// Signals that may wait for delivery to one job.
const SIGNALS_MAX: usize = 64;

/// Whether a component of a waiting heterogeneous job may be treated alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Het {
    Whole,
    Apart,
}

/// Does something for each job that is named; the reply says for which, and why not for others.
pub(super) fn each(
    state: &State,
    principal: &Principal,
    refs: &[JobRef],
    het: Het,
    mut act: impl FnMut(&Job) -> Result<Vec<EventKind>, CommandError>,
) -> Result<Meaning, CommandError> {
    if refs.is_empty() || refs.len() > REFS_MAX {
        return Err(bad("job id", format!("1 to {REFS_MAX} jobs, found {}", refs.len())));
    }
    let mut events = Vec::new();
    let mut done = Vec::new();
    let mut refused: Vec<(String, CommandError)> = Vec::new();
    let mut seen: BTreeSet<JobId> = BTreeSet::new();
    for job_ref in refs {
        let ids = match job_ref.resolve(state) {
            Ok(ids) => ids,
            Err(error) => {
                refused.push((job_ref.to_string(), error));
                continue;
            }
        };
        let many = ids.len() > 1;
        let mut over = None;
        let mut any = false;
        for job in ids.iter().filter_map(|id| state.jobs.get(id)) {
            if !seen.insert(job.id) {
                any = true;
                continue;
            }
            let acted = allowed(principal, job, het, many).and_then(|()| act(job));
            match acted {
                Ok(more) => {
                    events.extend(more);
                    done.push(job.id);
                    any = true;
                }
                // Ended tasks of an array are no reason to complain, unless all have ended.
                Err(error @ CommandError::JobOver { .. }) if many => over = Some((job, error)),
                Err(error) => {
                    refused.push((job.display_id(), error));
                    any = true;
                }
            }
        }
        if let Some((job, error)) = over.filter(|_| !any) {
            refused.push((job.display_id(), error));
        }
    }
    match (done.is_empty(), refused.first()) {
        (true, Some((_, error))) => Err(error.clone()),
        _ => Ok(Meaning::of(events, Reply::Jobs { done, refused })),
    }
}

fn allowed(principal: &Principal, job: &Job, het: Het, many: bool) -> Result<(), CommandError> {
    if !principal.owns(job) {
        return Err(CommandError::NotYours { job: job.id, owner: job.spec.owner.user.clone() });
    }
    match job.het {
        Some(part) if het == Het::Whole && !many && part.offset > 0 && job.is_pending() => {
            Err(CommandError::HetComponent { leader: part.leader, offset: part.offset })
        }
        _ => Ok(()),
    }
}

pub(super) fn not_over(job: &Job) -> Result<(), CommandError> {
    if job.state.is_over() {
        return Err(CommandError::JobOver { job: job.id, state: job.state });
    }
    Ok(())
}

pub(super) fn wrong_state(job: &Job, wanted: &'static str) -> CommandError {
    CommandError::WrongState { job: job.id, state: job.state, wanted }
}

pub(super) fn cancel(
    state: &State,
    principal: &Principal,
    refs: &[JobRef],
    hurry: bool,
) -> Result<Meaning, CommandError> {
    each(state, principal, refs, Het::Whole, |job| {
        not_over(job)?;
        let cause = StopCause::Cancelled(principal.uid);
        Ok(match &job.stop {
            Some(stop @ Stop { cause: StopCause::Cancelled(_), .. }) if stop.hurry || !hurry => {
                Vec::new()
            }
            _ => vec![EventKind::JobStop { job: job.id, cause, hurry }],
        })
    })
}

pub(super) fn signal(
    state: &State,
    principal: &Principal,
    refs: &[JobRef],
    signal: u8,
    scope: SignalScope,
) -> Result<Meaning, CommandError> {
    if !is_signal(signal) {
        return Err(bad("signal", format!("expected a number from 1 to 64, found {signal}")));
    }
    each(state, principal, refs, Het::Apart, |job| {
        not_over(job)?;
        if !job.state.holds_resources() {
            return Err(wrong_state(job, "only a running job gets signals"));
        }
        if job.signals.len() >= SIGNALS_MAX {
            return Err(wrong_state(job, "too many signals wait for delivery already"));
        }
        Ok(vec![EventKind::JobSignal { job: job.id, signal, scope }])
    })
}

pub(super) fn hold(
    state: &State,
    principal: &Principal,
    refs: &[JobRef],
    as_user: bool,
) -> Result<Meaning, CommandError> {
    let hold = if principal.admin && !as_user { Hold::Admin } else { Hold::User };
    each(state, principal, refs, Het::Whole, |job| {
        not_over(job)?;
        if !job.is_pending() {
            return Err(wrong_state(job, "only a waiting job can be held"));
        }
        let as_before = match &job.hold {
            Some(Hold::Admin | Hold::System(_)) => hold == Hold::User,
            Some(Hold::User) => hold == Hold::User,
            None => false,
        };
        Ok(if as_before {
            Vec::new()
        } else {
            vec![EventKind::JobHeld { job: job.id, hold: hold.clone() }]
        })
    })
}

pub(super) fn release(
    state: &State,
    principal: &Principal,
    refs: &[JobRef],
) -> Result<Meaning, CommandError> {
    each(state, principal, refs, Het::Whole, |job| {
        not_over(job)?;
        let owner_may = match &job.hold {
            None if job.is_pending() => return Ok(Vec::new()),
            None => return Err(wrong_state(job, "only a waiting job can be released")),
            Some(
                Hold::User
                | Hold::System(Reason::RestartedTooOften { .. } | Reason::GpusIdle { .. }),
            ) => true,
            Some(Hold::Admin | Hold::System(_)) => false,
        };
        if !owner_may && !principal.admin {
            return Err(CommandError::HeldByAdmin { job: job.id });
        }
        Ok(vec![EventKind::JobReleased { job: job.id }])
    })
}

pub(super) fn requeue(
    state: &State,
    principal: &Principal,
    refs: &[JobRef],
    hold: bool,
) -> Result<Meaning, CommandError> {
    each(state, principal, refs, Het::Whole, |job| {
        not_over(job)?;
        if job.spec.kind != JobKind::Batch {
            return Err(wrong_state(job, "only a batch job can be put back in the queue"));
        }
        if job.is_pending() && !hold {
            return Err(wrong_state(job, "it waits in the queue already"));
        }
        let ends = matches!(
            job.stop.as_ref().map(|stop| &stop.cause),
            Some(StopCause::Cancelled(_) | StopCause::Deadline | StopCause::HetPeer)
        );
        if ends {
            return Err(wrong_state(job, "it is being ended for good"));
        }
        Ok(vec![EventKind::JobStop {
            job: job.id,
            cause: StopCause::Requeue { hold },
            hurry: false,
        }])
    })
}

pub(super) fn suspend(
    state: &State,
    principal: &Principal,
    refs: &[JobRef],
    suspend: bool,
) -> Result<Meaning, CommandError> {
    admins_only(principal, "suspend or resume jobs")?;
    each(state, principal, refs, Het::Apart, |job| {
        not_over(job)?;
        if !job.state.holds_resources() || job.stop.is_some() {
            return Err(wrong_state(job, "only a running job can be suspended or resumed"));
        }
        if !suspend && job.makes_way_by(muster_model::PreemptMode::Suspend) {
            let why = "it stands still for another job and goes on by itself after that";
            return Err(wrong_state(job, why));
        }
        if !suspend && job.waits_for_turn() {
            let why = "it takes turns with other jobs and goes on by itself when its turn comes";
            return Err(wrong_state(job, why));
        }
        // One that waits for its turn stands still for the admin from here on.
        Ok(if job.suspend == suspend && !job.waits_for_turn() {
            Vec::new()
        } else {
            vec![EventKind::JobSuspend { job: job.id, suspend }]
        })
    })
}

/// A checkpoint counts for the attempt that wrote it: what a job that was put back wrote before is
/// known already, and of a later attempt it says nothing.
pub(super) fn checkpoint(
    state: &State,
    principal: &Principal,
    refs: &[JobRef],
    attempt: Option<u32>,
) -> Result<Meaning, CommandError> {
    each(state, principal, refs, Het::Apart, |job| {
        not_over(job)?;
        if !job.state.holds_resources() || job.started.is_none() {
            return Err(wrong_state(job, "only a running job has a checkpoint to report"));
        }
        if attempt.is_some_and(|attempt| attempt != job.attempt) {
            return Err(wrong_state(job, "it was started again since: another attempt runs"));
        }
        Ok(vec![EventKind::JobCheckpointed { job: job.id, attempt: job.attempt }])
    })
}
