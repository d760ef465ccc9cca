//! Commands on jobs whose GPUs do nothing.

use super::action::{not_over, wrong_state};
use super::{CommandError, Meaning, Principal, Reply, admins_only};
use muster_model::{EventKind, IdleGpus, Job, JobId, JobKind, Seconds, State, StopCause};

/// Tells of a running job's GPUs that they do nothing, or again do something.
pub(super) fn tell(
    state: &State,
    principal: &Principal,
    job: JobId,
    attempt: u32,
    idle: Option<IdleGpus>,
) -> Result<Meaning, CommandError> {
    let job = measured(state, principal, job, attempt)?;
    let told = EventKind::JobIdle { job: job.id, attempt, idle };
    let events = if job.idle == idle { Vec::new() } else { vec![told] };
    Ok(Meaning::of(events, Reply::Jobs { done: vec![job.id], refused: Vec::new() }))
}

/// Ends a job that was told of its idle GPUs: back to the queue, or for good.
pub(super) fn take_back(
    state: &State,
    principal: &Principal,
    job: JobId,
    attempt: u32,
    (after, requeue): (Seconds, bool),
) -> Result<Meaning, CommandError> {
    let job = measured(state, principal, job, attempt)?;
    let Some(told) = job.idle.filter(|idle| idle.until.is_some()) else {
        return Err(wrong_state(job, "its owner was not told that its GPUs are taken back"));
    };
    if job.stop.is_some() {
        return Err(wrong_state(job, "it is being ended already"));
    }
    let cause = match requeue && job.spec.requeue && job.spec.kind == JobKind::Batch {
        true => StopCause::Requeue { hold: true },
        false => StopCause::Cancelled(principal.uid),
    };
    let idle = Some(IdleGpus { taken_after: Some(after), ..told });
    let events = vec![
        EventKind::JobIdle { job: job.id, attempt, idle },
        EventKind::JobStop { job: job.id, cause, hurry: false },
    ];
    Ok(Meaning::of(events, Reply::Jobs { done: vec![job.id], refused: Vec::new() }))
}

/// The job, where what was measured is about what it runs now.
fn measured<'a>(
    state: &'a State,
    principal: &Principal,
    job: JobId,
    attempt: u32,
) -> Result<&'a Job, CommandError> {
    admins_only(principal, "tell that GPUs do nothing")?;
    let found = state.job(job).ok_or_else(|| CommandError::UnknownJob { job: job.to_string() })?;
    not_over(found)?;
    if found.attempt != attempt || !found.state.holds_resources() {
        return Err(wrong_state(found, "it was measured in another attempt"));
    }
    Ok(found)
}
