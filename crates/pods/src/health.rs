//! Whether a scheduler is alive and of use, as probes ask it.

use crate::run::Happened;
use std::time::{Duration, Instant};

/// One that schedules and has not looked round for so long hangs.
const SILENT: Duration = Duration::from_mins(1);

/// What it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Another one schedules.
    StandsBy,
    /// It holds the lease and hears what there is.
    Fills,
    /// It schedules.
    Schedules,
}

/// The health of a scheduler, from what happened.
#[derive(Clone, Copy, Debug)]
pub struct Health {
    phase: Phase,
    looked: Instant,
}

impl Health {
    /// Of one that has just begun.
    pub fn new(now: Instant) -> Self {
        Self { phase: Phase::StandsBy, looked: now }
    }

    /// Takes in what happened.
    pub fn see(&mut self, happened: &Happened, now: Instant) {
        match happened {
            Happened::Leads => self.phase = Phase::Fills,
            Happened::Knows { .. } => self.phase = Phase::Schedules,
            _ => {}
        }
        self.looked = now;
    }

    /// False where it should be started anew: it schedules, and has not looked round for a minute.
    pub fn is_live(&self, now: Instant) -> bool {
        self.phase != Phase::Schedules || now.saturating_duration_since(self.looked) < SILENT
    }

    /// True where it schedules, or stands by to do so.
    pub fn is_ready(&self) -> bool {
        self.phase != Phase::Fills
    }
}

#[cfg(test)]
mod tests {
    use super::{Health, SILENT};
    use crate::run::{Happened, Seen};
    use std::time::{Duration, Instant};

    #[test]
    fn one_that_hangs_is_not_live_and_one_that_fills_is_not_ready() {
        let begun = Instant::now();
        let mut health = Health::new(begun);
        let long = begun + SILENT + Duration::from_secs(1);
        assert!(health.is_live(long) && health.is_ready(), "it stands by");
        health.see(&Happened::Leads, long);
        assert!(health.is_live(long + SILENT) && !health.is_ready(), "it fills");
        health.see(&Happened::Knows { nodes: 1, pods: 0 }, long);
        assert!(health.is_live(long) && health.is_ready());
        assert!(!health.is_live(long + SILENT), "it hangs");
        health.see(&Happened::Looked(Seen::default()), long + SILENT);
        assert!(health.is_live(long + SILENT));
    }
}
