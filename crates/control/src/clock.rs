//! The one clock that decisions see.

use muster_model::{Seconds, Timestamp};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the writer takes its instants from.
pub trait Clock: Send + Sync {
    /// The instant.
    fn now(&self) -> Timestamp;
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
        Timestamp::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))
    }
}

/// A clock that stands still until it is stepped.
#[derive(Debug, Default)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// A clock that shows `at`.
    pub const fn at(at: Timestamp) -> Self {
        Self(Mutex::new(at))
    }

    /// Steps it forward.
    pub fn advance(&self, by: Seconds) {
        let mut now = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *now = now.plus(by);
    }

    /// Sets it, back too.
    pub fn set(&self, at: Timestamp) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = at;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
