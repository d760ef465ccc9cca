//! The order for a low average slowdown: what a job's wait weighs, and who has waited too long.
//!
//! Smith's rule takes the smallest processing over weight first. With the user's last runs `r` as
//! the cases that a job may turn out to be, its processing is the mean of `r` times its size, and the
//! weight of its wait the mean of `1 / r`, where a run of less than ten seconds counts as ten
//! (bounded slowdown). Size is the larger of its shares of the cluster's CPUs and GPUs.

use muster_model::priority::{WHOLE, least};
use muster_model::{Job, Seconds, State, Timestamp, TresKind};

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
    /// Costs a look at each node.
    pub(crate) fn new(state: &'a State, now: Timestamp) -> Self {
        let (mut cpus, mut gpus) = (0u64, 0u64);
        for node in state.nodes.values() {
            cpus += u64::from(node.cpu_count());
            gpus += node.devices.len() as u64;
        }
        Self { state, now, cpus, gpus }
    }

    /// What places a job among others of its priority: zero for who comes first by its wait.
    pub(crate) fn rank(&self, job: &Job) -> u128 {
        let wait = job.eligible.map_or(Seconds(0), |at| self.now.since(at));
        if self.comes_first(wait, likely(self.state, job)) { 0 } else { self.weight(job) }
    }

    /// True where somebody has waited too long, or will have been there for too long.
    pub(crate) fn comes_first(&self, wait: Seconds, likely: Seconds) -> bool {
        let (first, record) = (self.state.policy.wait_guard.first, &self.state.waits);
        is_more(wait, first, record.wait())
            || is_more(Seconds(wait.0.saturating_add(likely.0)), first, record.stay())
    }

    /// Its processing over the weight of its wait; smaller comes first.
    pub(crate) fn weight(&self, job: &Job) -> u128 {
        let asked = least(&job.spec.request);
        let share = |kind, of: u64| {
            let asked = asked.get(&kind).min(of);
            (u128::from(asked) * u128::from(WHOLE)).checked_div(u128::from(of)).unwrap_or(0)
        };
        let size =
            share(TresKind::Cpu, self.cpus).max(share(TresKind::Gpu(None), self.gpus)).max(1);
        let likely = likely(self.state, job);
        let (mut sum, mut count) = (0u64, 0u64);
        for run in self.state.last_runs(job.spec.owner.uid) {
            (sum, count) = (sum + ONE / run.0.max(BOUND), count + 1);
        }
        let alone = || ONE / limit(job).max(BOUND);
        let wait = sum.checked_div(count).unwrap_or_else(alone).max(1);
        u128::from(likely.0) * size * u128::from(ONE) / u128::from(wait)
    }
}

/// What a job is likely to run, also where nobody knows.
pub(crate) fn likely(state: &State, job: &Job) -> Seconds {
    state.run_by_last(job).seconds().unwrap_or(Seconds(ENDLESS))
}

fn limit(job: &Job) -> u64 {
    job.time_limit.seconds().map_or(ENDLESS, |limit| limit.0.min(ENDLESS))
}
