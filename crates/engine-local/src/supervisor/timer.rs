//! The time limit and what comes before it.

use crate::spec::{Limits, Warning};

/// Run time against its limit; time spent suspended does not count, as in Slurm.
#[derive(Debug)]
pub(super) struct Timer {
    start: u64,
    limit_ms: Option<u64>,
    warnings: Vec<Warning>,
    suspended_since: Option<u64>,
    suspended_ms: u64,
}

/// What the clock asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A signal before the limit.
    Warning(Warning),
    /// The limit itself.
    Limit,
}

impl Timer {
    /// A timer that starts now, on the boot clock.
    pub(super) fn new(now: u64, limits: &Limits) -> Self {
        Self {
            start: now,
            limit_ms: limits.time_s.map(|s| s.saturating_mul(1_000)),
            warnings: limits.warnings.clone(),
            suspended_since: None,
            suspended_ms: 0,
        }
    }

    pub(super) fn set_limit(&mut self, limit_s: Option<u64>) {
        self.limit_ms = limit_s.map(|s| s.saturating_mul(1_000));
    }

    pub(super) fn suspend(&mut self, now: u64) {
        self.suspended_since.get_or_insert(now);
    }

    pub(super) fn resume(&mut self, now: u64) {
        if let Some(since) = self.suspended_since.take() {
            self.suspended_ms += now.saturating_sub(since);
        }
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.suspended_since.is_some()
    }

    fn limit_at(&self) -> Option<u64> {
        Some(self.start.saturating_add(self.limit_ms?).saturating_add(self.suspended_ms))
    }

    fn warning_at(&self, warning: &Warning) -> Option<u64> {
        Some(
            self.limit_at()?.saturating_sub(warning.before_s.saturating_mul(1_000)).max(self.start),
        )
    }

    /// Seconds until the limit.
    pub(super) fn left_s(&self, now: u64) -> Option<u64> {
        let now = self.suspended_since.unwrap_or(now);
        Some(self.limit_at()?.saturating_sub(now) / 1_000)
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<u64> {
        if self.is_suspended() {
            return None;
        }
        let warnings = self.warnings.iter().filter_map(|w| self.warning_at(w));
        warnings.chain(self.limit_at()).min()
    }

    /// Takes out one thing that is due.
    pub(super) fn take_due(&mut self, now: u64) -> Option<Due> {
        if self.is_suspended() {
            return None;
        }
        let due = |w: &Warning| self.warning_at(w).is_some_and(|at| at <= now);
        if let Some(at) = self.warnings.iter().position(due) {
            return Some(Due::Warning(self.warnings.remove(at)));
        }
        self.limit_at().filter(|at| *at <= now).map(|_| Due::Limit)
    }
}

#[cfg(test)]
mod tests {
    use super::{Due, Timer};
    use crate::spec::{Limits, Warning};

    fn timer() -> (Timer, Warning) {
        let warning = Warning { signal: 10, before_s: 5, batch: true };
        let limits = Limits { time_s: Some(60), warnings: vec![warning], ..Limits::default() };
        (Timer::new(1_000, &limits), warning)
    }

    #[test]
    fn the_warning_comes_before_the_limit_and_once() {
        let (mut timer, warning) = timer();
        assert_eq!(timer.next(), Some(56_000));
        assert_eq!(timer.take_due(55_999), None);
        assert_eq!(timer.take_due(56_000), Some(Due::Warning(warning)));
        assert_eq!(timer.take_due(60_999), None);
        assert_eq!(timer.take_due(61_000), Some(Due::Limit));
    }

    #[test]
    fn suspended_time_does_not_count() {
        let (mut timer, _) = timer();
        timer.suspend(11_000);
        assert_eq!((timer.next(), timer.take_due(900_000)), (None, None));
        timer.resume(21_000);
        assert_eq!(timer.next(), Some(66_000));
        assert_eq!(timer.left_s(21_000), Some(50));
    }

    #[test]
    fn a_limit_can_be_changed_or_taken_away() {
        let (mut timer, _) = timer();
        timer.set_limit(None);
        assert_eq!(timer.next(), None);
        timer.set_limit(Some(1));
        assert!(matches!(timer.take_due(2_000), Some(Due::Warning(_))));
        assert_eq!(timer.take_due(2_000), Some(Due::Limit));
    }
}
