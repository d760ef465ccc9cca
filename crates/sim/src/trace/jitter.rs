//! A trace with its submissions moved a little: how much of a result is chance.

use super::{SwfJob, TraceError};
use crate::draw::Draw;
use std::collections::BTreeMap;

/// Moves each submission by up to so many seconds to either side, evenly, and puts the jobs in order
/// again. It holds as many jobs as are submitted within twice that.
pub struct Jittered<I> {
    jobs: I,
    draw: Draw,
    most: i64,
    /// Those read ahead, by their new submission.
    ahead: BTreeMap<(i64, u64), SwfJob>,
    read: u64,
    /// The last submission read.
    at: i64,
    ended: bool,
    failed: Option<TraceError>,
}

impl<I: Iterator<Item = Result<SwfJob, TraceError>>> Jittered<I> {
    /// Begins with jobs in order of submission.
    pub fn new(jobs: I, most: u32, seed: u64) -> Self {
        let (draw, most) = (Draw::new(seed), i64::from(most));
        let ahead = BTreeMap::new();
        Self { jobs, draw, most, ahead, read: 0, at: i64::MIN, ended: false, failed: None }
    }
}

impl<I: Iterator<Item = Result<SwfJob, TraceError>>> Iterator for Jittered<I> {
    type Item = Result<SwfJob, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // Nothing that is still to be read can come before this.
            let safe = self.at.saturating_sub(self.most);
            let first = self.ahead.first_key_value().map(|(key, _)| key.0);
            if first.is_some_and(|at| self.ended || at < safe) {
                return self.ahead.pop_first().map(|(_, job)| Ok(job));
            }
            if self.ended {
                return self.failed.take().map(Err);
            }
            match self.jobs.next() {
                None => self.ended = true,
                Some(Err(error)) => {
                    self.failed = Some(error);
                    self.ended = true;
                }
                Some(Ok(mut job)) => {
                    self.at = job.submit;
                    let wide = self.draw.below(2 * self.most.unsigned_abs() as usize + 1);
                    job.submit = (job.submit + wide as i64 - self.most).max(0);
                    self.ahead.insert((job.submit, self.read), job);
                    self.read += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_move_by_no_more_and_come_in_order() {
        let job = |number: i64| SwfJob { number, submit: 10 + number * 7, ..SwfJob::default() };
        let jobs: Vec<SwfJob> = (0..500).map(job).collect();
        let moved = |seed| -> Vec<SwfJob> {
            let jobs = jobs.iter().map(|job| Ok(*job));
            Jittered::new(jobs, 60, seed).collect::<Result<_, _>>().unwrap()
        };
        let once = moved(1);
        assert!(once.is_sorted_by_key(|job| job.submit));
        let mut numbers: Vec<i64> = once.iter().map(|job| job.number).collect();
        assert!(!numbers.is_sorted(), "some pass others");
        numbers.sort_unstable();
        assert_eq!(numbers, (0..500).collect::<Vec<_>>());
        let by = |one: &SwfJob| one.submit - (10 + one.number * 7);
        assert!(once.iter().all(|one| by(one).abs() <= 60));
        assert!(once.iter().any(|one| by(one) > 50) && once.iter().any(|one| by(one) < -50));
        assert_eq!(once, moved(1));
        assert_ne!(once, moved(2));
    }
}
