//! The thread that looks at Slurm, and what wakes it.

use super::Shared;
use crate::Pace;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Rung where something was ordered whose outcome is waited for.
#[derive(Default)]
pub(super) struct Bell {
    state: Mutex<Rung>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Rung {
    rung: bool,
    closed: bool,
}

impl Bell {
    pub(super) fn ring(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).rung = true;
        self.changed.notify_all();
    }

    pub(super) fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.changed.notify_all();
    }

    /// Waits until `late`, or once it is rung until `soon`; false where it is closed.
    fn wait(&self, soon: Instant, late: Instant) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let until = if state.rung { soon } else { late };
            let left = until.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                state.rung = false;
                return !state.closed;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

pub(super) fn start(shared: &Arc<Shared>, pace: Pace) {
    let (weak, bell) = (Arc::downgrade(shared), Arc::clone(&shared.bell));
    let watch = move || {
        let mut pace = pace;
        loop {
            let Some(shared) = weak.upgrade() else { return };
            let begun = Instant::now();
            let looked = shared.look_now();
            if let Err(error) = &looked {
                tracing::warn!(%error, "Slurm does not tell how its jobs stand");
            }
            shared.end_overdue();
            let took = begun.elapsed();
            let (overdue, calls) = (shared.next_overdue(), shared.calls());
            let busy = looked.unwrap_or(false) || shared.awaits_something();
            drop(shared);
            // Two answers of the same pace: what it would be where something changed, and what it is.
            let mut if_rung = pace;
            let soon = if_rung.after(true, calls, took);
            let late = pace.after(busy, calls, took);
            let soon = Instant::now() + soon.min(late);
            let late = Instant::now() + late.min(overdue.unwrap_or(Duration::MAX));
            if !bell.wait(soon, late.max(begun)) {
                return;
            }
        }
    };
    // Without its thread the engine is blind: better to stop at once than to run so.
    std::thread::Builder::new()
        .name("slurm-watch".to_owned())
        .spawn(watch)
        .expect("the system has threads left");
}
