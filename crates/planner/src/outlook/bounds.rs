//! How many at once over time: throttles of arrays, and limits that the ends of jobs set free.

use crate::free::effective_end;
use crate::unblock::Users;
use muster_model::{Decision, Job, JobId, LimitHit, LimitName, Plan, State, Timestamp, TresKind};
use std::collections::BTreeMap;

/// What bounds a number over time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Array(JobId),
    Limit(LimitName, Option<TresKind>, String),
}

/// A bound with what is under it, by the end of each use.
#[derive(Clone, Debug)]
struct Bound {
    most: u64,
    uses: BTreeMap<(Timestamp, JobId), u64>,
}

/// The bounds that an outlook has met so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    of: BTreeMap<Key, Bound>,
}

/// What one job of a shape takes under a bound.
#[derive(Clone, Debug)]
pub(super) struct Need {
    key: Key,
    asked: u64,
}

impl Bound {
    /// The first instant at which so much more is under it; `None` where there is none.
    fn earliest(&self, asked: u64, now: Timestamp) -> Option<Timestamp> {
        if asked > self.most {
            return None;
        }
        let mut sum = asked;
        for ((end, _), used) in self.uses.iter().rev() {
            sum = sum.saturating_add(*used);
            if sum > self.most {
                return (*end != Timestamp::NEVER).then_some((*end).max(now));
            }
        }
        Some(now)
    }

    /// Counts a use, and forgets those that are over before anything else could begin.
    fn add(&mut self, job: JobId, end: Timestamp, used: u64) {
        self.uses.insert((end, job), used);
        let mut sum = 0u64;
        let full = self.uses.iter().rev().find_map(|(key, used)| {
            sum = sum.saturating_add(*used);
            (sum >= self.most).then_some(*key)
        });
        if let Some(full) = full {
            self.uses = self.uses.split_off(&full);
        }
    }
}

impl Bounds {
    /// What a job needs under which bounds; `None` where a limit holds it that the ends of jobs do
    /// not set free.
    pub(super) fn needs(
        &mut self,
        state: &State,
        plan: &Plan,
        job: &Job,
        held: Option<&LimitHit>,
    ) -> Option<Vec<Need>> {
        let mut needs = Vec::new();
        let throttle = job.array.and_then(|task| {
            let record = state.index.arrays.get(&task.array)?;
            Some((task.array, u64::from(record.throttle?)))
        });
        if let Some((array, most)) = throttle {
            let key = Key::Array(array);
            if !self.of.contains_key(&key) {
                let bound = of_array(state, plan, array, most);
                self.of.insert(key.clone(), bound);
            }
            needs.push(Need { key, asked: 1 });
        }
        if let Some(hit) = held {
            let key = Key::Limit(hit.limit, hit.tres.clone(), hit.whose.clone());
            if !self.of.contains_key(&key) {
                let bound = of_limit(state, plan, job, hit)?;
                self.of.insert(key.clone(), bound);
            }
            needs.push(Need { key, asked: hit.asked });
        }
        Some(needs)
    }

    /// The first instant at which all of it is under its bounds; `None` where there is none.
    pub(super) fn earliest(&self, needs: &[Need], count: u64, now: Timestamp) -> Option<Timestamp> {
        needs.iter().try_fold(now, |from, need| {
            let bound = self.of.get(&need.key)?;
            Some(from.max(bound.earliest(need.asked.saturating_mul(count), now)?))
        })
    }

    /// Counts jobs that start.
    pub(super) fn count(&mut self, needs: &[Need], jobs: &[(JobId, Timestamp)]) {
        for need in needs {
            let Some(bound) = self.of.get_mut(&need.key) else { continue };
            for (job, end) in jobs {
                bound.add(*job, *end, need.asked);
            }
        }
    }
}

/// The tasks of an array that have resources or start in the round.
fn of_array(state: &State, plan: &Plan, array: JobId, most: u64) -> Bound {
    let mut bound = Bound { most, uses: BTreeMap::new() };
    let family = state.family(array);
    for job in family.iter().filter_map(|id| state.jobs.get(id)) {
        if let Some(end) = job.ends_at_latest() {
            bound.add(job.id, effective_end(end, plan.now), 1);
        }
    }
    for start in plan.decisions.iter().flat_map(Decision::starts) {
        let task = state.jobs.get(&start.job).and_then(|job| job.array);
        if task.is_some_and(|task| task.array == array) {
            bound.add(start.job, plan.now.plus_limit(start.time_limit), 1);
        }
    }
    bound
}

/// The jobs that use a limit, running ones and those that start in the round.
fn of_limit(state: &State, plan: &Plan, job: &Job, hit: &LimitHit) -> Option<Bound> {
    let users = Users::of(state, job, hit)?;
    let mut bound = Bound { most: hit.most, uses: BTreeMap::new() };
    for (end, id, used) in users.running(plan.now) {
        bound.add(id, end, used);
    }
    for start in plan.decisions.iter().flat_map(Decision::starts) {
        let Some(job) = state.jobs.get(&start.job).filter(|job| users.has(job)) else { continue };
        let used = hit.tres.as_ref().map_or(1, |kind| state.charge(&start.placement).get(kind));
        bound.add(job.id, plan.now.plus_limit(start.time_limit), used);
    }
    Some(bound)
}
