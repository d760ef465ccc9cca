//! Interrupts of long work.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The first SIGINT or SIGTERM sets the flag, a second one ends the program at once.
pub(crate) fn sets(flag: &Arc<AtomicBool>) {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Where they cannot be set the signals end the command as they always do.
        let _ = signal_hook::flag::register_conditional_shutdown(
            signal,
            128 + signal,
            Arc::clone(flag),
        );
        let _ = signal_hook::flag::register(signal, Arc::clone(flag));
    }
}
