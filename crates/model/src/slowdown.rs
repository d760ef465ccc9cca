//! What the order for a low slowdown rests on: how users' last jobs ran, and how long jobs waited.
//!
//! Slowdown is a job's time from submission to end over the time it runs. For its average the best
//! order of jobs of known lengths takes them by weight over processing (Smith, Naval Research
//! Logistics Quarterly 3, 1956): the weight of a job's wait is one over its run time, its processing
//! is its run time times its size. Run times are not known, so both stand for what the user's last
//! runs came to, one by one ([`State::last_runs`]). The module holds facts only; planner and checker
//! work the order out, each by itself.
//!
//! Such an order starves long jobs, so it has a guard that measures waits by the longest on record
//! ([`WaitRecord`]): nothing here depends on how fast or loaded a cluster is.

use crate::{Job, RecentRuns, Seconds, State, TimeLimit, Timestamp, is_default};
use serde::{Deserialize, Serialize};

/// The user id that nobody has (POSIX keeps `(uid_t)-1` free): jobs of users that are not known.
pub const NOBODY: u32 = u32::MAX;

/// When a job that waits is put first, and when it is promised a start, under
/// [`OrderMode::Slowdown`](crate::OrderMode::Slowdown).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitGuard {
    /// Who has waited more than so many thousandths of the longest wait on record comes first, in
    /// order of waiting; so does who would be there for more than so many thousandths of the longest
    /// stay.
    pub first: u32,
    /// Who has waited more than so many thousandths of the longest wait on record is promised a
    /// start.
    pub promised: u32,
    /// Waits are forgotten after so long, at the latest after twice that.
    pub memory: Seconds,
}

impl Default for WaitGuard {
    fn default() -> Self {
        Self { first: 400, promised: 600, memory: Seconds(365 * 86_400) }
    }
}

/// The longest waits of jobs that started, of this period of the guard's memory and of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitRecord {
    /// When this period began.
    since: Timestamp,
    #[serde(skip_serializing_if = "is_default")]
    current: Longest,
    #[serde(skip_serializing_if = "is_default")]
    before: Longest,
}

/// The longest of a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Longest {
    wait: Seconds,
    /// Wait and likely run together.
    stay: Seconds,
}

impl Longest {
    fn or(self, other: Self) -> Self {
        Self { wait: self.wait.max(other.wait), stay: self.stay.max(other.stay) }
    }
}

impl WaitRecord {
    /// The longest wait from being free to start until the start.
    pub fn wait(&self) -> Seconds {
        self.current.or(self.before).wait
    }

    /// The longest such wait with what the job was likely to run.
    pub fn stay(&self) -> Seconds {
        self.current.or(self.before).stay
    }

    fn note(&mut self, at: Timestamp, memory: Seconds, wait: Seconds, likely: Seconds) {
        if at >= self.since.plus(memory) || *self == Self::default() {
            let gone = at >= self.since.plus(memory).plus(memory);
            self.before = if gone { Longest::default() } else { self.current };
            self.current = Longest::default();
            self.since = at;
        }
        let stay = Seconds(wait.0.saturating_add(likely.0));
        self.current = self.current.or(Longest { wait, stay });
    }
}

impl State {
    /// How long the last jobs of a user ran, the newest first; at most three.
    pub fn last_runs(&self, uid: u32) -> impl Iterator<Item = Seconds> + '_ {
        self.recent.get(&uid).into_iter().flat_map(RecentRuns::newest)
    }

    /// What a job is likely to run by its user's last two runs: their mean in whole seconds, at least
    /// one and at most its limit; its limit while there is none.
    pub fn run_by_last(&self, job: &Job) -> TimeLimit {
        within_limit(self.mean_of_last(job.spec.owner.uid), job.time_limit)
    }

    /// The mean of a user's last two run times in whole seconds; `None` while there is none.
    pub fn mean_of_last(&self, uid: u32) -> Option<Seconds> {
        let (mut sum, mut count) = (0u64, 0u64);
        for run in self.last_runs(uid).take(2) {
            (sum, count) = (sum.saturating_add(run.0), count + 1);
        }
        sum.checked_div(count).map(Seconds)
    }

    /// Takes down how long a job waited that has just been placed.
    pub(crate) fn note_wait(&mut self, at: Timestamp, job: &Job) {
        if !self.policy.orders_by_slowdown() {
            return;
        }
        let Some(eligible) = job.eligible else { return };
        let likely = self.run_by_last(job).seconds().unwrap_or_default();
        let memory = self.policy.wait_guard.memory;
        self.waits.note(at, memory, at.since(eligible), likely);
    }
}

/// What a job with this limit is likely to run by such a mean: at least a second and at most the
/// limit, the limit where there is no mean.
pub fn within_limit(mean: Option<Seconds>, limit: TimeLimit) -> TimeLimit {
    let Some(mean) = mean else { return limit };
    let capped = limit.seconds().map_or(mean, |limit| mean.min(limit));
    TimeLimit::Of(capped.max(Seconds(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_forgotten_after_their_time() {
        let mut record = WaitRecord::default();
        let at = Timestamp::from_secs;
        record.note(at(1000), Seconds(100), Seconds(50), Seconds(5));
        record.note(at(1010), Seconds(100), Seconds(20), Seconds(90));
        assert_eq!((record.wait(), record.stay()), (Seconds(50), Seconds(110)));
        record.note(at(1100), Seconds(100), Seconds(1), Seconds(1));
        assert_eq!((record.wait(), record.stay()), (Seconds(50), Seconds(110)));
        record.note(at(1200), Seconds(100), Seconds(2), Seconds(2));
        assert_eq!((record.wait(), record.stay()), (Seconds(2), Seconds(4)));
        record.note(at(5000), Seconds(100), Seconds(1), Seconds(1));
        assert_eq!((record.wait(), record.stay()), (Seconds(1), Seconds(2)));
    }
}
