//! How often a Slurm is asked: more often while it changes, seldom while it does not, and never
//! more often than is allowed.

use std::time::Duration;

/// Slurm is left alone for so many times as long as an answer took, where nothing else is said.
const REST_TIMES: u32 = 20;

/// When the next look is due. No clock: what it decides follows from what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    least: Duration,
    most: Duration,
    per_minute: u32,
    rest_times: u32,
    now: Duration,
}

impl Pace {
    /// Looks are `least` to `most` apart, with at most so many requests a minute.
    pub fn new(least: Duration, most: Duration, per_minute: u32) -> Self {
        let most = most.max(least);
        Self { least, most, per_minute: per_minute.max(1), rest_times: REST_TIMES, now: least }
    }

    /// Slurm is left alone for so many times as long as an answer took, in place of 20.
    #[must_use]
    pub fn resting(self, times: u32) -> Self {
        Self { rest_times: times, ..self }
    }

    /// How long to wait after a look: whether it found a change, how many requests it took and how
    /// long Slurm took over them.
    ///
    /// Twice as long each time that nothing changed; after a failure, which is told as no change,
    /// likewise, so that a slurmctld in trouble is not troubled more.
    pub fn after(&mut self, changed: bool, requests: u32, took: Duration) -> Duration {
        self.now = if changed { self.least } else { (self.now * 2).min(self.most) };
        let allowed = Duration::from_mins(1) * requests / self.per_minute;
        self.now.max(took * self.rest_times).max(allowed.saturating_sub(took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_slurm_at_rest_is_asked_ever_more_seldom_and_one_that_changes_at_once_again() {
        let mut pace = Pace::new(5 * SECOND, 60 * SECOND, 1000);
        let waits: Vec<u64> =
            (0..5).map(|_| pace.after(false, 8, Duration::ZERO).as_secs()).collect();
        assert_eq!(waits, [10, 20, 40, 60, 60]);
        assert_eq!(pace.after(true, 8, Duration::ZERO), 5 * SECOND);
    }

    #[test]
    fn the_cap_on_requests_holds_whatever_changes() {
        let mut pace = Pace::new(SECOND, 60 * SECOND, 30);
        let mut total = Duration::ZERO;
        for _ in 0..100 {
            total += pace.after(true, 8, SECOND) + SECOND;
        }
        assert!(total >= Duration::from_mins(1) * 800 / 30, "{total:?}");
    }

    #[test]
    fn a_slow_slurm_is_left_alone_for_longer() {
        let mut pace = Pace::new(SECOND, 60 * SECOND, 1000);
        assert_eq!(pace.after(true, 8, 10 * SECOND), 200 * SECOND);
    }
}
