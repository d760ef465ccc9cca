//! In which order waiting jobs are considered.
//!
//! A job's *waiting key* places it among the jobs of its shape and never changes while it waits; the
//! *order key* places it among all jobs at one instant. Under FIFO both are the same. Under
//! multifactor the jobs of a shape have one association, QOS, nice value and so on, so only age
//! tells them apart, and who became free to start first stays first; the order of shapes changes
//! with time and is worked out for the first waiting job of each when a round begins.
//!
//! Under the order for a low slowdown the jobs of a shape have one user, too, so again only the time
//! since they are free to start tells them apart.
//!
//! So a round costs associations × log associations for fair share, and a sum of numbers for each
//! shape and each job that has its turn (module `terms`), never a priority for each waiting job.

use crate::ask::Ask;
use crate::slowdown::{Past, Weigher};
use crate::terms::{AllTerms, Terms};
use muster_model::{Job, JobId, OrderMode, Priorities, State, Timestamp};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A job's place in the queue: whether it names a reservation, then partition tier, then its rank,
/// then submission (but under FIFO the time since it is free to start), then its number (case S-42).
/// Smaller is earlier.
pub(crate) type OrderKey = (Reverse<u32>, Rank, Timestamp, JobId);

/// A job's priority, then what its wait weighs where the order looks at that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(Reverse<i64>, u128);

impl Rank {
    const fn of(priority: i64) -> Self {
        Self(Reverse(priority), 0)
    }

    /// What its wait weighs; zero where that does not count, or the job has waited too long.
    pub(crate) const fn weight(self) -> u128 {
        self.1
    }
}

/// A job's place among those of its shape.
pub(crate) fn waiting_key(state: &State, job: &Job) -> OrderKey {
    match state.policy.order {
        OrderMode::Fifo => {
            let priority = fifo_priority(state, job);
            (Reverse(tier(state, job)), Rank::of(priority), job.submitted, job.id)
        }
        OrderMode::Multifactor => {
            (Reverse(tier(state, job)), Rank::of(0), Priorities::since(state, job), job.id)
        }
        OrderMode::Slowdown => {
            let (priority, since) = (fifo_priority(state, job), job.eligible);
            let since = since.unwrap_or(Timestamp::NEVER);
            (Reverse(tier(state, job)), Rank::of(priority), since, job.id)
        }
    }
}

/// What places jobs among all others at one instant.
pub(crate) struct Keys<'a> {
    state: &'a State,
    by: By<'a>,
}

/// What a live place rests on beside the waiting key.
enum By<'a> {
    Submission,
    /// The terms of fair share by association.
    Factors(Box<Priorities<'a>>, Vec<i64>),
    /// How the users' last jobs ran.
    Slowdown(Weigher<'a>, Vec<Past>),
}

impl<'a> Keys<'a> {
    /// Of a state that no planner follows: costs a look at each node.
    fn new(state: &'a State, now: Timestamp) -> Self {
        Self::of_queue(state, now, &AllTerms::new(state))
    }

    /// Given the terms of the shapes.
    pub(crate) fn of_queue(state: &'a State, now: Timestamp, terms: &AllTerms) -> Self {
        let by = match state.policy.order {
            OrderMode::Fifo => By::Submission,
            OrderMode::Multifactor => {
                let priorities = Priorities::with(state, now, terms.capacity());
                let term = |who: &(String, String)| priorities.fair_share_term(&who.0, &who.1);
                let shares = terms.associations().iter().map(term).collect();
                By::Factors(Box::new(priorities), shares)
            }
            OrderMode::Slowdown => {
                let past = terms.users().iter().map(|uid| Past::of(state, *uid)).collect();
                By::Slowdown(Weigher::new(state, now, &terms.capacity()), past)
            }
        };
        Self { state, by }
    }

    /// The place of a job, also of one that is otherwise than the state has it.
    pub(crate) fn of(&self, job: &Job) -> OrderKey {
        let key = waiting_key(self.state, job);
        let rank = match &self.by {
            By::Submission => return key,
            By::Factors(priorities, _) => Rank::of(priorities.of(job)),
            By::Slowdown(weigher, _) => Rank(key.1.0, weigher.rank(job)),
        };
        (key.0, rank, key.2, key.3)
    }

    /// The place of the job with this waiting key in a shape with these terms.
    pub(crate) fn live(&self, key: OrderKey, terms: Option<Terms>) -> OrderKey {
        let rank = match (&self.by, terms) {
            (By::Submission, _) => return key,
            (By::Factors(priorities, shares), Some(Terms::Factors(steady, who))) => {
                let share = shares.get(who as usize).copied().unwrap_or(0);
                Rank::of(steady.with(priorities.age_term(key.2), share))
            }
            (By::Slowdown(weigher, past), Some(Terms::Weighed(size, limit, user))) => {
                let since = Some(key.2).filter(|at| *at != Timestamp::NEVER);
                let rank = past.get(user as usize);
                let rank = rank.map(|past| weigher.rank_of(*past, size, limit, since));
                Rank(key.1.0, rank.unwrap_or(0))
            }
            _ => return self.state.jobs.get(&key.3).map_or(key, |job| self.of(job)),
        };
        (key.0, rank, key.2, key.3)
    }

    /// The waiting key of the job with this place.
    pub(crate) fn waiting(&self, key: OrderKey) -> OrderKey {
        let rank = match self.by {
            By::Submission => key.1,
            By::Factors(..) => Rank::of(0),
            By::Slowdown(..) => Rank(key.1.0, 0),
        };
        (key.0, rank, key.2, key.3)
    }

    /// What orders jobs behind a promise: their weight whatever they waited, else their likely run.
    pub(crate) fn behind(&self, terms: Option<Terms>, asks: &[Vec<Ask>]) -> u128 {
        if let (By::Slowdown(_, past), Some(Terms::Weighed(size, limit, user))) = (&self.by, terms)
        {
            return past.get(user as usize).map_or(u128::MAX, |past| past.weight(size, limit));
        }
        let likely = asks.iter().flatten().map(|ask| ask.likely.seconds());
        likely.map(|run| run.map_or(u128::MAX, |run| u128::from(run.0))).max().unwrap_or(0)
    }

    /// How many of a shape's waiting jobs come before a place. They keep their order among each
    /// other, so the ends of the set decide for most.
    pub(crate) fn count_before(
        &self,
        (waiting, terms): (&BTreeSet<OrderKey>, Option<Terms>),
        key: OrderKey,
    ) -> usize {
        if matches!(self.by, By::Submission) {
            return waiting.range(..key).count();
        }
        match waiting.last() {
            Some(last) if self.live(*last, terms) < key => waiting.len(),
            _ => waiting.iter().take_while(|own| self.live(**own, terms) < key).count(),
        }
    }

    /// The priority that places a job.
    pub(crate) fn priority(&self, job: &Job) -> i64 {
        match &self.by {
            By::Factors(priorities, _) => priorities.of(job),
            By::Submission | By::Slowdown(..) => fifo_priority(self.state, job),
        }
    }
}

/// The highest tier among the partitions that the job may run in; above all tiers where it names a
/// reservation.
fn tier(state: &State, job: &Job) -> u32 {
    let tier = partitions(state, job).map(|p| p.tier).max().unwrap_or(0);
    let reserved = u32::from(job.spec.request.reservation.is_some()) << 31;
    tier.min(u32::MAX >> 1) | reserved
}

/// A job's priority at an instant: the one set by hand; else, but under multifactor, its QOS's plus the highest of
/// its partitions' minus its nice value, under multifactor the sum of its factors.
pub fn priority(state: &State, job: &Job, now: Timestamp) -> i64 {
    Keys::new(state, now).priority(job)
}

/// The waiting jobs in the order in which they are tried.
pub fn queue(state: &State, now: Timestamp) -> Vec<JobId> {
    let keys = Keys::new(state, now);
    let jobs = state.index.pending.iter().filter_map(|id| state.jobs.get(id));
    let mut all: Vec<OrderKey> = jobs.map(|job| keys.of(job)).collect();
    all.sort_unstable();
    all.into_iter().map(|key| key.3).collect()
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
