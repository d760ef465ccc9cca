//! What became of each user's jobs, and how evenly users were served.

use super::Finished;
use super::metrics::Sum;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a user's jobs came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UserSummary {
    /// The user's number in the trace; -1 where it names none.
    pub user: i64,
    /// How many jobs.
    pub jobs: u64,
    /// Processor hours that they ran, once each; GPU hours, where a processor is a GPU.
    pub processor_hours: f64,
    /// Processor hours that were lost with nodes that broke.
    pub lost_processor_hours: f64,
    /// Mean bounded slowdown.
    pub average_bounded_slowdown: f64,
    /// Mean time from submission to start.
    pub average_wait_s: f64,
    /// The longest.
    pub max_wait_s: i64,
}

/// Sums over finished jobs, by user: as much memory as there are users.
#[derive(Clone, Debug, Default)]
pub struct Users {
    users: BTreeMap<i64, Sums>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    jobs: u64,
    slowdown: Sum,
    wait: i128,
    wait_max: i64,
    work: i128,
    lost: i128,
}

impl Users {
    /// Counts a job.
    pub fn add(&mut self, done: &Finished) {
        let (job, wait) = (&done.job, done.wait());
        let processors = i128::from(job.requested);
        let user = self.users.entry(job.user).or_default();
        user.jobs += 1;
        user.slowdown.add(done.bounded_slowdown());
        user.wait += i128::from(wait);
        user.wait_max = user.wait_max.max(wait);
        user.work += i128::from(job.run) * processors;
        user.lost += i128::from(done.lost) * processors;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.users.len() as u64
    }

    /// Jain's index (Jain, Chiu and Hawe, 1984) over the mean bounded slowdown of each user: 1 where
    /// all users were slowed alike, one over their number where one bore it all.
    pub fn fairness(&self) -> f64 {
        jain(self.users.values().map(|sums| sums.slowdown.value() / sums.jobs.max(1) as f64))
    }

    /// Each user's figures, who ran most first.
    pub fn summaries(&self) -> Vec<UserSummary> {
        let hours = |seconds: i128| seconds as f64 / 3600.0;
        let mut order: Vec<(&i64, &Sums)> = self.users.iter().collect();
        order.sort_by_key(|(user, sums)| (std::cmp::Reverse(sums.work), **user));
        let of = |(user, sums): (&i64, &Sums)| {
            let jobs = sums.jobs.max(1) as f64;
            UserSummary {
                user: *user,
                jobs: sums.jobs,
                processor_hours: hours(sums.work),
                lost_processor_hours: hours(sums.lost),
                average_bounded_slowdown: sums.slowdown.value() / jobs,
                average_wait_s: sums.wait as f64 / jobs,
                max_wait_s: sums.wait_max,
            }
        };
        order.into_iter().map(of).collect()
    }
}

/// Jain's index: 1 where all values are equal. 1 where there is none.
fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0u64, 0.0, 0.0);
    for value in values {
        count += 1;
        sum += value;
        squares += value * value;
    }
    if squares > 0.0 { sum * sum / (count as f64 * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::SwfJob;

    #[test]
    fn fairness_is_one_for_equals_and_one_over_n_for_one_of_n() {
        assert!((jain([3.0, 3.0, 3.0].into_iter()) - 1.0).abs() < 1e-12);
        assert!((jain([5.0, 0.0, 0.0, 0.0].into_iter()) - 0.25).abs() < 1e-12);
        assert!((jain(std::iter::empty()) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn who_ran_most_comes_first_with_what_was_lost() {
        let done = |user, requested, wait, run, lost| Finished {
            lost,
            ..Finished::once(SwfJob { run, requested, user, ..SwfJob::default() }, wait)
        };
        let mut users = Users::default();
        users.add(&done(7, 1, 0, 3600, 0));
        users.add(&done(3, 4, 100, 1800, 900));
        users.add(&done(3, 2, 300, 100, 0));
        let all = users.summaries();
        assert_eq!(
            all.iter().map(|one| (one.user, one.jobs)).collect::<Vec<_>>(),
            [(3, 2), (7, 1)]
        );
        assert!((all[0].processor_hours - (4.0 * 1800.0 + 200.0) / 3600.0).abs() < 1e-12);
        assert!((all[0].lost_processor_hours - 1.0).abs() < 1e-12);
        assert!((all[0].average_wait_s - 200.0).abs() < 1e-12);
        assert_eq!(all[0].max_wait_s, 300);
        let slowed = f64::midpoint(1900.0 / 1800.0, 4.0);
        assert!((all[0].average_bounded_slowdown - slowed).abs() < 1e-12);
    }
}
