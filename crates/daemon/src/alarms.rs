//! What is wrong now: kept for `muster status`, written to the log.

use muster_control::Alarm;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How many of the newest alarms are kept.
const KEPT_MAX: usize = 32;

/// The most snapshots of refused plans that are kept.
const PLANS_MAX: usize = 16;

/// What an alarm is about: an alarm that is over takes those of its kind with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What is stored.
    Store,
    /// Anything else, which stays.
    Other,
}

/// The newest alarms.
pub(crate) struct Alarms {
    newest: Mutex<VecDeque<(Kind, String)>>,
    dir: PathBuf,
}

impl Alarms {
    /// Keeps refused plans below the state directory.
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { newest: Mutex::default(), dir: state_dir.join("refused-plans") }
    }

    /// Takes an alarm. Never waits for anything but the disk, and that only for refused plans.
    pub(crate) fn raise(&self, alarm: &Alarm) {
        if let Alarm::PlanRefused { state, plan, .. } = alarm {
            self.keep(state, plan);
        }
        if matches!(alarm, Alarm::StoreMended) {
            tracing::info!(%alarm, "alarm");
        } else {
            tracing::warn!(%alarm, "alarm");
        }
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(alarm, Alarm::StoreMended) {
            // What was wrong is not wrong any more; the log keeps both.
            newest.retain(|(kept, _)| *kept != Kind::Store);
            return;
        }
        let kind = match alarm {
            Alarm::StoreFailed { .. } | Alarm::SnapshotFailed { .. } => Kind::Store,
            _ => Kind::Other,
        };
        let entry = (kind, alarm.to_string());
        if newest.back() != Some(&entry) {
            newest.push_back(entry);
        }
        while newest.len() > KEPT_MAX {
            newest.pop_front();
        }
    }

    /// The newest, oldest first.
    pub(crate) fn texts(&self) -> Vec<String> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.iter().map(|(_, text)| text.clone()).collect()
    }

    /// The exact input and output of a refused round, to be looked into with `muster replay`.
    fn keep(&self, state: &muster_model::State, plan: &muster_model::Plan) {
        let write = || -> Result<(), muster_sim::CycleError> {
            std::fs::create_dir_all(&self.dir)?;
            if std::fs::read_dir(&self.dir)?.count() >= PLANS_MAX {
                return Ok(());
            }
            let file = self.dir.join(format!("{}.json", state.seq));
            crate::cycle::write(&file, state.clone(), plan.clone()).map(drop)
        };
        if let Err(error) = write() {
            tracing::warn!(%error, "a refused plan could not be kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_works_again_is_no_alarm() {
        let alarms = Alarms::new(Path::new("/nowhere"));
        alarms.raise(&Alarm::StoreFailed { why: "disk full".to_owned() });
        alarms.raise(&Alarm::Fault { why: "odd".to_owned() });
        assert_eq!(alarms.texts(), ["the store refuses: disk full", "internal fault: odd"]);
        alarms.raise(&Alarm::StoreMended);
        assert_eq!(alarms.texts(), ["internal fault: odd"]);
    }
}
