//! Instants in UTC milliseconds, durations in seconds, and time limits.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An instant: milliseconds since 1970-01-01T00:00:00Z.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// A duration in whole seconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seconds(pub u64);

/// How long a job may run: a limit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeLimit {
    /// At most so many seconds.
    Of(Seconds),
    /// No limit.
    Unlimited,
}

impl Timestamp {
    /// The end of time: later than any instant that means something.
    pub const NEVER: Self = Self(i64::MAX);

    /// From milliseconds since the epoch.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    /// From seconds since the epoch.
    pub const fn from_secs(s: i64) -> Self {
        Self(s.saturating_mul(1000))
    }

    /// Milliseconds since the epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Seconds since the epoch, rounded down.
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The instant `d` later; [`Timestamp::NEVER`] where that does not fit.
    #[must_use]
    pub const fn plus(self, d: Seconds) -> Self {
        let ms = d.0.saturating_mul(1000);
        let ms = if ms > i64::MAX as u64 { i64::MAX } else { ms as i64 };
        Self(self.0.saturating_add(ms))
    }

    /// The instant so many milliseconds later; [`Timestamp::NEVER`] where that does not fit.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        let ms = if ms > i64::MAX as u64 { i64::MAX } else { ms as i64 };
        Self(self.0.saturating_add(ms))
    }

    /// When something that starts now and may take `limit` is over at the latest.
    #[must_use]
    pub const fn plus_limit(self, limit: TimeLimit) -> Self {
        match limit {
            TimeLimit::Of(d) => self.plus(d),
            TimeLimit::Unlimited => Self::NEVER,
        }
    }

    /// Whole seconds from `earlier` to here, rounded down; zero where `earlier` is later.
    pub const fn since(self, earlier: Self) -> Seconds {
        Seconds(self.ms_since(earlier) / 1000)
    }

    /// Milliseconds from `earlier` to here; zero where `earlier` is later.
    pub const fn ms_since(self, earlier: Self) -> u64 {
        let ms = self.0.saturating_sub(earlier.0);
        if ms > 0 { ms as u64 } else { 0 }
    }
}

impl Seconds {
    /// So many minutes.
    pub const fn minutes(m: u64) -> Self {
        Self(m.saturating_mul(60))
    }
}

impl TimeLimit {
    /// The limit in seconds, where there is one.
    pub const fn seconds(self) -> Option<Seconds> {
        match self {
            Self::Of(s) => Some(s),
            Self::Unlimited => None,
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_ends_never() {
        assert_eq!(Timestamp::from_secs(5).plus_limit(TimeLimit::Unlimited), Timestamp::NEVER);
        assert_eq!(Timestamp::NEVER.plus(Seconds(1)), Timestamp::NEVER);
        assert_eq!(Timestamp::from_secs(5).plus(Seconds(2)), Timestamp::from_secs(7));
        assert_eq!(Timestamp::from_millis(2500).since(Timestamp::from_millis(1000)), Seconds(1));
    }
}
