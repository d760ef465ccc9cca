//! The order for a low average slowdown: what a job's wait weighs, and who has waited too long.
//!
//! Smith's rule takes the smallest processing over weight first. With the user's last runs `r` as
//! the cases that a job may turn out to be, its processing is the mean of `r` times its size, and the
//! weight of its wait the mean of `1 / r`, where a run of less than ten seconds counts as ten
//! (bounded slowdown). Size is the larger of its shares of the cluster's CPUs and GPUs.

use muster_model::priority::{WHOLE, least};
use muster_model::slowdown::within_limit;
use muster_model::{Capacity, Job, Seconds, State, TimeLimit, Timestamp, TresKind};

/// Runs that are shorter count as so long: the bound of bounded slowdown.
const BOUND: u64 = 10;
/// One, as the weights of waits are counted.
const ONE: u64 = 1_000_000_000_000;
/// So long is a job taken to run that has neither a limit nor a past.
const ENDLESS: u64 = u32::MAX as u64;

/// Weighs jobs against each other at one instant.
pub(crate) struct Weigher<'a> {
    state: &'a State,
    now: Timestamp,
    cpus: u64,
    gpus: u64,
}

/// How a user's last jobs ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past {
    /// The mean of the last two.
    mean: Option<Seconds>,
    /// What a second of waiting weighs: the mean of one over the last three.
    wait: Option<u64>,
}

impl Past {
    pub(crate) fn of(state: &State, uid: u32) -> Self {
        let (mut sum, mut count) = (0u64, 0u64);
        for run in state.last_runs(uid) {
            (sum, count) = (sum + ONE / run.0.max(BOUND), count + 1);
        }
        Self { mean: state.mean_of_last(uid), wait: sum.checked_div(count) }
    }

    /// What a job with this limit is likely to run.
    fn likely(self, limit: TimeLimit) -> Seconds {
        let likely = within_limit(self.mean, limit).seconds();
        likely.map_or(Seconds(ENDLESS), |likely| likely.min(Seconds(ENDLESS)))
    }

    /// Processing over the weight of the wait of a job of this size; smaller comes first.
    pub(crate) fn weight(self, size: u64, limit: TimeLimit) -> u128 {
        let alone = || ONE / limit.seconds().map_or(ENDLESS, |s| s.0.min(ENDLESS)).max(BOUND);
        let wait = self.wait.unwrap_or_else(alone).max(1);
        u128::from(self.likely(limit).0) * u128::from(size) * u128::from(ONE) / u128::from(wait)
    }
}

/// True where `part` is more than so many thousandths of `whole`.
pub(crate) fn is_more(part: Seconds, thousandths: u32, whole: Seconds) -> bool {
    u128::from(part.0) * 1000 > u128::from(whole.0) * u128::from(thousandths)
}

/// Who has waited longer than this has a promise: nobody has one who does not come first for it.
pub(crate) fn promised_after(state: &State) -> (u32, Seconds) {
    let guard = &state.policy.wait_guard;
    (guard.promised.max(guard.first), state.waits.wait())
}

impl<'a> Weigher<'a> {
    pub(crate) fn new(state: &'a State, now: Timestamp, capacity: &Capacity) -> Self {
        let (cpus, gpus) = (capacity.get(&TresKind::Cpu), capacity.get(&TresKind::Gpu(None)));
        Self { state, now, cpus, gpus }
    }

    /// On a cluster of so many CPUs and nothing else.
    pub(crate) const fn of(state: &'a State, now: Timestamp, cpus: u64) -> Self {
        Self { state, now, cpus, gpus: 0 }
    }

    /// What places a job among others of its priority: zero for who comes first by its wait.
    pub(crate) fn rank(&self, job: &Job) -> u128 {
        let past = Past::of(self.state, job.spec.owner.uid);
        self.rank_of(past, self.size(job), job.time_limit, job.eligible)
    }

    /// As [`Self::rank`], of what it rests on.
    pub(crate) fn rank_of(
        &self,
        past: Past,
        size: u64,
        limit: TimeLimit,
        since: Option<Timestamp>,
    ) -> u128 {
        let wait = since.map_or(Seconds(0), |at| self.now.since(at));
        if self.comes_first(wait, past.likely(limit)) { 0 } else { past.weight(size, limit) }
    }

    /// True where somebody has waited too long, or will have been there for too long.
    pub(crate) fn comes_first(&self, wait: Seconds, likely: Seconds) -> bool {
        let (first, record) = (self.state.policy.wait_guard.first, &self.state.waits);
        is_more(wait, first, record.wait())
            || is_more(Seconds(wait.0.saturating_add(likely.0)), first, record.stay())
    }

    /// The millisecond from which somebody's time there may be reckoned at the latest who will have
    /// been there for too long: that of the submission less the likely time.
    pub(crate) fn stays_from(&self, now: Timestamp) -> i64 {
        let most = u128::from(self.state.waits.stay().0)
            * u128::from(self.state.policy.wait_guard.first)
            / 1000;
        let too_long = i64::try_from(most + 1).unwrap_or(i64::MAX);
        now.millis().saturating_sub(too_long.saturating_mul(1000))
    }

    /// Its processing over the weight of its wait; smaller comes first.
    pub(crate) fn weight(&self, job: &Job) -> u128 {
        Past::of(self.state, job.spec.owner.uid).weight(self.size(job), job.time_limit)
    }

    /// The larger of its shares of the cluster's CPUs and GPUs.
    pub(crate) fn size(&self, job: &Job) -> u64 {
        let asked = least(&job.spec.request);
        let share = |kind, of: u64| {
            let asked = asked.get(&kind).min(of);
            let part = u128::from(asked) * u128::from(WHOLE);
            part.checked_div(u128::from(of)).unwrap_or(0) as u64
        };
        share(TresKind::Cpu, self.cpus).max(share(TresKind::Gpu(None), self.gpus)).max(1)
    }
}

/// What a job is likely to run, also where nobody knows.
pub(crate) fn likely(state: &State, job: &Job) -> Seconds {
    state.run_by_last(job).seconds().unwrap_or(Seconds(ENDLESS))
}
