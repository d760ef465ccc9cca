//! How far a replay's figures would have moved in other weeks: bootstrap over the weeks of a trace.
//!
//! Jobs of one week hang together (who waits makes others wait), weeks hardly do, so whole weeks are
//! drawn, with replacement, as many as there are (a block bootstrap: Efron and Tibshirani, *An
//! Introduction to the Bootstrap*, 1993, chapter 8; percentile intervals, chapter 13). Several
//! replays of one trace draw the same weeks, so the difference between two of them is that of pairs.

use crate::draw::Draw;
use crate::twin::Finished;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

const WEEK_S: i64 = 7 * 86_400;

/// So many times weeks are drawn.
const DRAWS: usize = 2000;

/// What lies below the interval, and above it: 95 % are within.
const TAIL: f64 = 0.025;

/// The jobs of one week, by their submission.
#[derive(Clone, Copy, Debug, Default)]
struct Week {
    jobs: f64,
    slowdown: f64,
    wait: f64,
}

/// The sums of a replay, week by week.
#[derive(Clone, Debug, Default)]
pub struct Weeks(BTreeMap<i64, Week>);

/// Bounds between which a figure lies in 95 of 100 draws.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// How sure the figures of a replay are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Confidence {
    /// Of the mean bounded slowdown.
    pub average_bounded_slowdown: Interval,
    /// Of the mean wait.
    pub average_wait_s: Interval,
    /// Of the mean bounded slowdown less that of the first replay. Where nought is outside, the two
    /// differ by more than the weeks do.
    pub slowdown_less_first: Interval,
    /// Of the mean wait less that of the first replay.
    pub wait_less_first_s: Interval,
}

impl Weeks {
    /// Counts a job.
    pub fn add(&mut self, done: &Finished) {
        let week = self.0.entry(done.job.submit.div_euclid(WEEK_S)).or_default();
        week.jobs += 1.0;
        week.slowdown += done.bounded_slowdown();
        week.wait += done.wait() as f64;
    }

    /// Counts the jobs of another replay of the same trace under the same policy.
    pub fn merge(&mut self, other: &Self) {
        for (at, more) in &other.0 {
            let week = self.0.entry(*at).or_default();
            week.jobs += more.jobs;
            week.slowdown += more.slowdown;
            week.wait += more.wait;
        }
    }
}

/// For each of several replays of one trace; nothing where the trace has fewer than four weeks with
/// jobs: so few say nothing of others.
pub fn confidence(replays: &[Weeks], seed: u64) -> Option<Vec<Confidence>> {
    let weeks: BTreeSet<i64> = replays.iter().flat_map(|one| one.0.keys().copied()).collect();
    let weeks: Vec<i64> = weeks.into_iter().collect();
    if weeks.len() < 4 {
        return None;
    }
    let all: Vec<Vec<Week>> = replays
        .iter()
        .map(|one| weeks.iter().map(|at| one.0.get(at).copied().unwrap_or_default()).collect())
        .collect();
    let mut draw = Draw::new(seed);
    // By replay: mean slowdown and mean wait of each draw.
    let mut means: Vec<Vec<(f64, f64)>> = vec![Vec::with_capacity(DRAWS); all.len()];
    for _ in 0..DRAWS {
        let drawn: Vec<usize> = weeks.iter().map(|_| draw.below(weeks.len())).collect();
        for (replay, means) in all.iter().zip(&mut means) {
            let sum = drawn.iter().fold(Week::default(), |sum, at| Week {
                jobs: sum.jobs + replay[*at].jobs,
                slowdown: sum.slowdown + replay[*at].slowdown,
                wait: sum.wait + replay[*at].wait,
            });
            means.push((sum.slowdown / sum.jobs.max(1.0), sum.wait / sum.jobs.max(1.0)));
        }
    }
    let first = means.first().cloned().unwrap_or_default();
    let told = means.iter().map(|means| {
        let pairs = || means.iter().zip(&first);
        Confidence {
            average_bounded_slowdown: interval(means.iter().map(|m| m.0).collect()),
            average_wait_s: interval(means.iter().map(|m| m.1).collect()),
            slowdown_less_first: interval(pairs().map(|(m, f)| m.0 - f.0).collect()),
            wait_less_first_s: interval(pairs().map(|(m, f)| m.1 - f.1).collect()),
        }
    });
    Some(told.collect())
}

fn interval(mut values: Vec<f64>) -> Interval {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let at = |part: f64| values.get((part * last as f64).round() as usize).copied().unwrap_or(0.0);
    Interval { low: at(TAIL), high: at(1.0 - TAIL) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::SwfJob;

    fn weeks(waits: impl Iterator<Item = i64>) -> Weeks {
        let mut weeks = Weeks::default();
        for (at, wait) in waits.enumerate() {
            let submit = at as i64 * WEEK_S;
            let job = SwfJob { submit, run: 100, ..SwfJob::default() };
            weeks.add(&Finished::once(job, submit + wait));
        }
        weeks
    }

    #[test]
    fn pairs_are_surer_than_either() {
        // Waits that scatter from week to week, and the same less a hundred.
        let waits = || (0..50).map(|at| 1000 + (at * 37 % 50) * 100);
        let (first, second) = (weeks(waits()), weeks(waits().map(|wait| wait - 100)));
        let told = confidence(&[first, second], 7).unwrap();
        let width = |i: Interval| i.high - i.low;
        assert!(width(told[0].average_wait_s) > 500.0, "{told:?}");
        let less = told[1].wait_less_first_s;
        assert!((less.low + 100.0).abs() < 1e-9 && (less.high + 100.0).abs() < 1e-9, "{less:?}");
        assert_eq!(told[0].wait_less_first_s, Interval { low: 0.0, high: 0.0 });
    }

    #[test]
    fn the_interval_of_a_mean_is_as_wide_as_theory_says() {
        // Half of 400 weeks at 0, half at 1000: the mean's standard error is 500 / 20 = 25.
        let told = confidence(&[weeks((0..400).map(|at| at % 2 * 1000))], 1).unwrap();
        let Interval { low, high } = told[0].average_wait_s;
        assert!((low - (500.0 - 1.96 * 25.0)).abs() < 6.0, "{low}");
        assert!((high - (500.0 + 1.96 * 25.0)).abs() < 6.0, "{high}");
    }

    #[test]
    fn the_same_seed_gives_the_same_and_few_weeks_nothing() {
        let some = || [weeks((0..9).map(|at| at * at))];
        assert_eq!(confidence(&some(), 3), confidence(&some(), 3));
        assert_ne!(confidence(&some(), 3), confidence(&some(), 4));
        assert_eq!(confidence(&[weeks(0..3)], 3), None);
    }
}
