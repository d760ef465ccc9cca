//! How long jobs are expected to run, beside the limit that they asked for.
//!
//! Limits are mostly far above run times. An estimate says who is tried first behind a promise, and
//! under [`PromiseBasis::Estimates`] how long the timeline takes a job to be there. It never ends a
//! job, and where there are reservations the timeline knows only limits: a promise to a reservation
//! is never broken for a guess.
//!
//! The recent-runs estimate and its step-wise correction are those of Tsafrir, Etsion and Feitelson
//! (IEEE TPDS 18(6), 2007); doubling is from Gaussier, Glesser, Reis and Trystram (SC 2015).

use crate::{Job, NOBODY, Seconds, State, TimeLimit, Timestamp, is_default};
use serde::{Deserialize, Serialize};

/// What the timeline takes jobs to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunTimePolicy {
    /// Where an estimate comes from.
    #[serde(skip_serializing_if = "is_default")]
    pub source: RunTimeSource,
    /// What becomes of an estimate that its job outlives.
    #[serde(skip_serializing_if = "is_default")]
    pub correction: RunTimeCorrection,
    /// What promises rest on.
    #[serde(skip_serializing_if = "is_default")]
    pub promises: PromiseBasis,
}

/// What the start that is promised to a waiting job rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromiseBasis {
    /// Limits alone: estimates say who is tried first, and no promise is ever late.
    #[default]
    Limits,
    /// Estimates: promises are nearer to what comes, and may be late.
    Estimates,
}

/// Where a job's estimate comes from. It is made once, at submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTimeSource {
    /// There is none: the time limit counts.
    #[default]
    Limit,
    /// The mean of the last two run times of its user, at most the limit; the limit until there are
    /// two.
    Recent,
}

/// What becomes of an estimate that its job outlives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTimeCorrection {
    /// The limit counts from then on.
    #[default]
    Limit,
    /// It is doubled, also beyond the limit.
    Double,
    /// It grows by steps that become longer (1, 4, 10, 15 minutes, and so on), up to the limit.
    Steps,
}

/// The runs of a user's jobs that ended last: three that ended at the latest instant, and two
/// before.
///
/// What ends in the very instant of a submission is not known to it yet: the order in which one
/// instant's events come to be known decides nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecentRuns(Vec<Run>);

/// A run that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Run {
    ended: Timestamp,
    /// In which order those of one instant were started.
    placed_seq: u64,
    took: Seconds,
}

impl RecentRuns {
    /// The mean of the last two that ended before an instant, in whole seconds.
    fn mean(&self, before: Timestamp) -> Option<Seconds> {
        let mut known = self.0.iter().rev().filter(|run| run.ended < before);
        Some(Seconds(u64::midpoint(known.next()?.took.0, known.next()?.took.0)))
    }

    /// How long the last three ran, the newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = Seconds> + '_ {
        self.0.iter().rev().take(3).map(|run| run.took)
    }

    fn note(&mut self, run: Run) {
        let at = self.0.partition_point(|known| *known < run);
        self.0.insert(at, run);
        let Some(last) = self.0.last().map(|run| run.ended) else { return };
        let before = self.0.partition_point(|run| run.ended < last);
        let newest = self.0.len() - before;
        self.0.drain(before..before + newest.saturating_sub(3));
        self.0.drain(..before.saturating_sub(2));
    }
}

/// Sums of the steps in seconds: the k-th correction adds the difference of two.
const STEPS: [u64; 12] =
    [0, 60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000];

impl RunTimeCorrection {
    /// The estimate of a job that still runs after `elapsed`.
    fn grown(self, estimate: Seconds, limit: TimeLimit, elapsed: Seconds) -> TimeLimit {
        let capped = |seconds: u64| limit.seconds().map_or(seconds, |most| seconds.min(most.0));
        let mut grown = estimate.0;
        match self {
            _ if grown > elapsed.0 => {}
            Self::Limit => return limit,
            Self::Double => {
                grown = grown.max(1);
                while grown <= elapsed.0 {
                    grown = grown.saturating_mul(2);
                }
            }
            Self::Steps => {
                for pair in STEPS.windows(2) {
                    if grown > elapsed.0 {
                        break;
                    }
                    grown = capped(grown.saturating_add(pair[1] - pair[0]));
                }
                if grown <= elapsed.0 {
                    return limit;
                }
            }
        }
        TimeLimit::Of(Seconds(grown))
    }
}

impl State {
    /// How long a job with this limit in force is taken to run once it starts.
    pub fn expected_run(&self, job: &Job, limit: TimeLimit) -> TimeLimit {
        match job.estimate {
            Some(estimate) if self.trusts_estimates() => {
                limit.seconds().map_or(TimeLimit::Of(estimate), |l| TimeLimit::Of(l.min(estimate)))
            }
            _ => limit,
        }
    }

    /// When a job is expected to give back what it has, seen from `now`; `None` where it has
    /// nothing. Without an estimate that is when its limit ends it.
    pub fn expected_end(&self, job: &Job, now: Timestamp) -> Option<Timestamp> {
        let trusted = job.estimate.filter(|_| self.trusts_estimates());
        job.expected_end(trusted, self.policy.run_time.correction, now)
    }

    /// False where the timeline knows only limits.
    pub fn trusts_estimates(&self) -> bool {
        let RunTimePolicy { source, promises, .. } = self.policy.run_time;
        source != RunTimeSource::Limit
            && promises == PromiseBasis::Estimates
            && self.reservations.is_empty()
    }

    /// What a job is expected to run where that says who is tried first: its estimate, else its
    /// limit.
    pub fn likely_run(&self, job: &Job) -> TimeLimit {
        let known = job.estimate.filter(|_| self.policy.run_time.source != RunTimeSource::Limit);
        let capped = |s: Seconds| job.time_limit.seconds().map_or(s, |limit| limit.min(s));
        known.map_or(job.time_limit, |estimate| TimeLimit::Of(capped(estimate)))
    }

    /// What a new job is expected to run by the policy; `None` where that is its limit.
    pub(crate) fn estimate(&self, at: Timestamp, uid: u32, limit: TimeLimit) -> Option<Seconds> {
        if self.policy.run_time.source == RunTimeSource::Limit {
            return None;
        }
        let mean = self.recent.get(&uid)?.mean(at)?;
        // What is over at once is still there for a moment.
        let mean = mean.max(Seconds(1));
        Some(limit.seconds().map_or(mean, |limit| limit.min(mean)))
    }

    /// Takes down how long a job ran.
    pub(crate) fn note_run(&mut self, job: &Job) {
        let wanted =
            self.policy.run_time.source != RunTimeSource::Limit || self.policy.orders_by_slowdown();
        if !wanted || job.spec.owner.uid == NOBODY {
            return;
        }
        let Some(ended) = job.started.and(job.ended) else { return };
        let run = Run { ended, placed_seq: job.placed_seq, took: job.run_time(ended) };
        self.recent.entry(job.spec.owner.uid).or_default().note(run);
    }
}

impl Job {
    /// When it is expected to give back what it has, by this estimate and what becomes of it.
    fn expected_end(
        &self,
        estimate: Option<Seconds>,
        correction: RunTimeCorrection,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let latest = self.ends_at_latest()?;
        let begun = self.started.or(self.placed)?;
        // What stands still or makes room ends by other rules.
        let usual = self.eviction.is_none()
            && self.turn.is_none()
            && self.stands_since.is_none()
            && self.paused == Seconds(0);
        let Some(estimate) = estimate.filter(|_| usual) else { return Some(latest) };
        Some(begun.plus_limit(correction.grown(estimate, self.time_limit, now.since(begun))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(how: RunTimeCorrection, estimate: u64, limit: u64, elapsed: u64) -> u64 {
        let limit = TimeLimit::Of(Seconds(limit));
        how.grown(Seconds(estimate), limit, Seconds(elapsed)).seconds().map_or(0, |s| s.0)
    }

    #[test]
    fn the_last_two_runs_before_an_instant_count() {
        let mut runs = RecentRuns::default();
        let at = Timestamp::from_secs;
        let mut note = |ended, placed_seq, took| {
            runs.note(Run { ended: at(ended), placed_seq, took: Seconds(took) });
            runs.clone()
        };
        assert_eq!(note(10, 1, 7).mean(at(11)), None);
        assert_eq!(note(20, 2, 2).mean(at(21)), Some(Seconds(4)));
        // Three at one instant: before it nothing of them is known, after it the last two.
        note(30, 5, 50);
        note(30, 3, 30);
        let three = note(30, 4, 40);
        assert_eq!(three.mean(at(30)), Some(Seconds(4)));
        assert_eq!(three.mean(at(31)), Some(Seconds(45)));
        assert_eq!(note(40, 6, 10).mean(at(41)), Some(Seconds(30)));
    }

    #[test]
    fn an_estimate_that_is_not_over_stays() {
        for how in [RunTimeCorrection::Limit, RunTimeCorrection::Double, RunTimeCorrection::Steps] {
            assert_eq!(grown(how, 100, 1000, 99), 100);
        }
    }

    #[test]
    fn an_estimate_that_is_over_grows_as_the_rule_says() {
        assert_eq!(grown(RunTimeCorrection::Limit, 100, 1000, 100), 1000);
        assert_eq!(grown(RunTimeCorrection::Double, 100, 150, 100), 200);
        assert_eq!(grown(RunTimeCorrection::Double, 100, 150, 400), 800);
        // 100 + 60, + 240, + 600, then the limit.
        assert_eq!(grown(RunTimeCorrection::Steps, 100, 9000, 100), 160);
        assert_eq!(grown(RunTimeCorrection::Steps, 100, 9000, 160), 400);
        assert_eq!(grown(RunTimeCorrection::Steps, 100, 9000, 399), 400);
        assert_eq!(grown(RunTimeCorrection::Steps, 100, 900, 400), 900);
        assert_eq!(grown(RunTimeCorrection::Steps, 100, 900, 900), 900);
        assert_eq!(grown(RunTimeCorrection::Steps, 100, 900_000, 360_100), 900_000);
    }
}
