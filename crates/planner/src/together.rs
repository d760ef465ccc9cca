//! Gangs: jobs of one user that start together, all or none.
//!
//! The members that never began are taken in order of number, as many at a time as the gang has.
//! What went back to the queue starts again together, once nothing of it is still on its way there.
//! A gang whose members are not all free to start is in no queue, so none of it holds anything.
//! Jobs that name one gang but different sizes are of different gangs: none of them is counted for
//! the other.

use muster_model::{Gang, Job, JobId, Reason, State, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// At most so many members are named in a reason.
const NAMED_MAX: usize = 8;

/// The unfinished members of a job's gang, in order of number.
fn members<'a>(state: &'a State, job: &Job, gang: &Gang) -> Vec<&'a Arc<Job>> {
    let key = (job.spec.owner.uid, gang.name.clone());
    let ids = state.index.gangs.get(&key);
    let all = ids.into_iter().flatten().filter_map(|id| state.jobs.get(id));
    all.filter(|other| other.spec.gang.as_ref() == Some(gang)).collect()
}

/// A member with those that start with it as far as they are there, and how many there are to be.
fn company<'a>(state: &'a State, job: &Job, gang: &Gang) -> (Vec<&'a Arc<Job>>, usize) {
    let all = members(state, job, gang);
    if job.attempt > 0 {
        let comes = |j: &&Arc<Job>| j.attempt > 0 && (j.is_pending() || is_returning(j));
        let back: Vec<&Arc<Job>> = all.into_iter().filter(comes).collect();
        let size = back.len();
        return (back, size);
    }
    let size = gang.size.max(1) as usize;
    let new: Vec<&Arc<Job>> =
        all.into_iter().filter(|j| j.is_pending() && j.attempt == 0).collect();
    let at = new.iter().position(|j| j.id == job.id).unwrap_or(0) / size * size;
    (new.into_iter().skip(at).take(size).collect(), size)
}

/// On its way back to the queue, or perhaps.
fn is_returning(job: &Job) -> bool {
    !job.is_pending() && (job.stop.is_some() || job.eviction.is_some())
}

/// The members that start with a waiting one, itself among them; `None` while some are missing.
fn peers<'a>(state: &'a State, job: &Job, gang: &Gang) -> Option<Vec<&'a Arc<Job>>> {
    let (there, size) = company(state, job, gang);
    (there.len() == size && there.iter().all(|j| j.is_pending())).then_some(there)
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
    if job.turn.is_some() {
        // What one of them gives up the others still have.
        return state.sharing_with(job).into_iter().collect();
    }
    let Some(gang) = &job.spec.gang else { return vec![job.id] };
    let together = |j: &&Arc<Job>| j.state.holds_resources() && j.placed == job.placed;
    members(state, job, gang).into_iter().filter(together).map(|j| j.id).collect()
}

/// Running jobs that make room together whenever each of them started, by owner and name.
pub(crate) type Companies<'a> = BTreeMap<(u32, &'a str), Vec<JobId>>;

/// All of those. Cost: a look at each running job.
pub(crate) fn companies(state: &State) -> Companies<'_> {
    let mut companies = Companies::new();
    for job in state.index.active.iter().filter_map(|id| state.jobs.get(id)) {
        if let Some(name) = &job.spec.leaves_with {
            companies.entry((job.spec.owner.uid, name)).or_default().push(job.id);
        }
    }
    companies
}

/// Those with whom a running job makes room, itself among them.
pub(crate) fn leaving_with(state: &State, companies: &Companies<'_>, job: &Job) -> Vec<JobId> {
    let name = job.spec.leaves_with.as_deref();
    let company = name.and_then(|name| companies.get(&(job.spec.owner.uid, name)));
    company.cloned().unwrap_or_else(|| running_with(state, job))
}

/// Everyone whose group may be another because this job changed.
pub(crate) fn touched(state: &State, job: &Job) -> Vec<JobId> {
    job.spec.gang.iter().flat_map(|gang| members(state, job, gang)).map(|job| job.id).collect()
}

/// What a member waits for while others of its gang are not free to start.
pub(crate) fn missing(state: &State, now: Timestamp, job: &Job) -> Option<Reason> {
    let gang = job.spec.gang.as_ref()?;
    let (there, size) = company(state, job, gang);
    let is_free = |j: &Arc<Job>| j.is_pending() && j.eligible.is_some_and(|at| at <= now);
    let mut not_free: Vec<JobId> = there.iter().filter(|j| !is_free(j)).map(|j| j.id).collect();
    if there.len() == size && not_free.is_empty() {
        return None;
    }
    let count = |jobs: usize| u32::try_from(jobs).unwrap_or(u32::MAX);
    let ready = count(there.len() - not_free.len());
    not_free.truncate(NAMED_MAX);
    let (size, submitted) = (count(size), count(there.len()));
    Some(Reason::GangIncomplete { gang: gang.name.clone(), size, submitted, ready, not_free })
}
