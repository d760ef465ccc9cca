//! Gangs: jobs of one user that start together, all or none.
//!
//! The members that never began are taken in order of number, as many at a time as the gang has.
//! What went back to the queue starts again together, once nothing of it is still on its way there.
//! A gang whose members are not all free to start is in no queue, so none of it holds anything.
//! Jobs that name one gang but different sizes are of different gangs: none of them is counted for
//! the other.

use muster_model::{Gang, Job, JobId, Reason, State, Timestamp};
use std::sync::Arc;

/// The unfinished members of a job's gang, in order of number.
fn members<'a>(state: &'a State, job: &Job, gang: &Gang) -> Vec<&'a Arc<Job>> {
    let key = (job.spec.owner.uid, gang.name.clone());
    let ids = state.index.gangs.get(&key);
    let all = ids.into_iter().flatten().filter_map(|id| state.jobs.get(id));
    all.filter(|other| other.spec.gang.as_ref() == Some(gang)).collect()
}

/// The members that start with a waiting one, itself among them; `None` while some are missing.
fn peers<'a>(state: &'a State, job: &Job, gang: &Gang) -> Option<Vec<&'a Arc<Job>>> {
    let all = members(state, job, gang);
    if job.attempt > 0 {
        let returning = |j: &&&Arc<Job>| j.stop.is_some() || j.eviction.is_some();
        if all.iter().filter(|j| !j.is_pending()).any(|j| returning(&j)) {
            return None;
        }
        return Some(all.into_iter().filter(|j| j.is_pending() && j.attempt > 0).collect());
    }
    let size = gang.size.max(1) as usize;
    let new: Vec<&Arc<Job>> =
        all.into_iter().filter(|j| j.is_pending() && j.attempt == 0).collect();
    let at = new.iter().position(|j| j.id == job.id)? / size * size;
    new.get(at..at.checked_add(size)?).map(<[_]>::to_vec)
}

/// The first of those that a waiting job starts with: the group has its place in the queue.
pub(crate) fn first<'a>(state: &'a State, job: &'a Arc<Job>) -> &'a Arc<Job> {
    let first = match (&job.het, &job.spec.gang) {
        (Some(part), _) => state.jobs.get(&part.leader),
        (None, Some(gang)) if job.is_pending() => {
            peers(state, job, gang).and_then(|peers| peers.first().copied())
        }
        _ => None,
    };
    first.unwrap_or(job)
}

/// The members that start together where the job is the first of them; else `None`.
pub(crate) fn gang<'a>(state: &'a State, job: &Job, gang: &Gang) -> Option<Vec<&'a Arc<Job>>> {
    if !job.is_pending() {
        return None;
    }
    peers(state, job, gang).filter(|peers| peers.first().is_some_and(|first| first.id == job.id))
}

/// Those that a running job started with and that still run: they make room together or not at
/// all.
pub(crate) fn running_with(state: &State, job: &Job) -> Vec<JobId> {
    if let Some(part) = job.het {
        return (0..part.size).map(|n| JobId(part.leader.0.saturating_add(n))).collect();
    }
    let Some(gang) = &job.spec.gang else { return vec![job.id] };
    let together = |j: &&Arc<Job>| j.state.holds_resources() && j.placed == job.placed;
    members(state, job, gang).into_iter().filter(together).map(|j| j.id).collect()
}

/// Everyone whose group may be another because this job changed.
pub(crate) fn touched(state: &State, job: &Job) -> Vec<JobId> {
    job.spec.gang.iter().flat_map(|gang| members(state, job, gang)).map(|job| job.id).collect()
}

/// What a member waits for while others of its gang are not free to start.
pub(crate) fn missing(state: &State, now: Timestamp, job: &Job) -> Option<Reason> {
    let gang = job.spec.gang.as_ref()?;
    let free = |j: &&&Arc<Job>| j.is_pending() && j.eligible.is_some_and(|at| at <= now);
    let together = peers(state, job, gang);
    if together.as_ref().is_some_and(|peers| peers.iter().all(|j| free(&j))) {
        return None;
    }
    let all = together.unwrap_or_else(|| members(state, job, gang));
    let alike = |j: &&&Arc<Job>| (j.attempt > 0) == (job.attempt > 0);
    let ready = all.iter().filter(alike).filter(free).count() as u32;
    Some(Reason::GangIncomplete { gang: gang.name.clone(), size: gang.size, ready })
}
