//! In which order waiting jobs are considered.
//!
//! A job's *waiting key* places it among the jobs of its shape and never changes while it waits; the
//! *order key* places it among all jobs at one instant. Under FIFO both are the same. Under
//! multifactor the jobs of a shape have one association, QOS, nice value and so on, so only age
//! tells them apart, and who became free to start first stays first; the order of shapes changes
//! with time and is worked out for the first waiting job of each when a round begins.
//!
//! So a round costs associations × log associations for fair share, and one priority for each shape
//! and each job that has its turn, never one for each waiting job.

use muster_model::{Job, JobId, OrderMode, Priorities, State, Timestamp};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A job's place in the queue: whether it names a reservation, then partition tier, then priority, then submission (under multifactor
/// the time since it is free to start), then its number (case S-42). Smaller is earlier.
pub(crate) type OrderKey = (Reverse<u32>, Reverse<i64>, Timestamp, JobId);

/// A job's place among those of its shape.
pub(crate) fn waiting_key(state: &State, job: &Job) -> OrderKey {
    match state.policy.order {
        OrderMode::Fifo => {
            let priority = fifo_priority(state, job);
            (Reverse(tier(state, job)), Reverse(priority), job.submitted, job.id)
        }
        OrderMode::Multifactor => {
            (Reverse(tier(state, job)), Reverse(0), Priorities::since(state, job), job.id)
        }
    }
}

/// What places jobs among all others at one instant.
pub(crate) struct Keys<'a> {
    state: &'a State,
    priorities: Option<Priorities<'a>>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(state: &'a State, now: Timestamp) -> Self {
        let multifactor = state.policy.order == OrderMode::Multifactor;
        Self { state, priorities: multifactor.then(|| Priorities::new(state, now)) }
    }

    /// The place of a job, also of one that is otherwise than the state has it.
    pub(crate) fn of(&self, job: &Job) -> OrderKey {
        let key = waiting_key(self.state, job);
        let Some(priorities) = &self.priorities else { return key };
        (key.0, Reverse(priorities.of(job)), key.2, key.3)
    }

    /// The place of the job with this waiting key.
    pub(crate) fn live(&self, key: OrderKey) -> OrderKey {
        let Some(priorities) = &self.priorities else { return key };
        let priority = self.state.jobs.get(&key.3).map_or(0, |job| priorities.of(job));
        (key.0, Reverse(priority), key.2, key.3)
    }

    /// How many of a shape's waiting jobs come before a place. They keep their order among each
    /// other, so the ends of the set decide for most.
    pub(crate) fn count_before(&self, waiting: &BTreeSet<OrderKey>, key: OrderKey) -> usize {
        if self.priorities.is_none() {
            return waiting.range(..key).count();
        }
        match waiting.last() {
            Some(last) if self.live(*last) < key => waiting.len(),
            _ => waiting.iter().take_while(|own| self.live(**own) < key).count(),
        }
    }

    /// The priority that places a job.
    pub(crate) fn priority(&self, job: &Job) -> i64 {
        let by_factors = self.priorities.as_ref().map(|priorities| priorities.of(job));
        by_factors.unwrap_or_else(|| fifo_priority(self.state, job))
    }
}

/// The highest tier among the partitions that the job may run in; above all tiers where it names a
/// reservation.
fn tier(state: &State, job: &Job) -> u32 {
    let tier = partitions(state, job).map(|p| p.tier).max().unwrap_or(0);
    let reserved = u32::from(job.spec.request.reservation.is_some()) << 31;
    tier.min(u32::MAX >> 1) | reserved
}

/// A job's priority at an instant: the one set by hand; else under FIFO its QOS's plus the highest of
/// its partitions' minus its nice value, under multifactor the sum of its factors.
pub fn priority(state: &State, job: &Job, now: Timestamp) -> i64 {
    Keys::new(state, now).priority(job)
}

fn fifo_priority(state: &State, job: &Job) -> i64 {
    if let Some(by_hand) = job.spec.priority {
        return i64::from(by_hand);
    }
    let qos = state.qos.get(&job.spec.qos).map_or(0, |q| i64::from(q.priority));
    let partition = partitions(state, job).map(|p| i64::from(p.priority)).max().unwrap_or(0);
    (qos + partition).saturating_sub(job.spec.nice)
}

fn partitions<'a>(
    state: &'a State,
    job: &'a Job,
) -> impl Iterator<Item = &'a std::sync::Arc<muster_model::Partition>> {
    job.spec.partitions.iter().filter_map(|name| state.partitions.get(name))
}
