//! Numbers about the loop, for metrics and alarms.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters since the start; each only grows.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Counters {
            /// Name and value of each.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get()),)*]
            }
        }
    };
}

counters!(
    /// Commands that were answered.
    commands,
    /// Commands that were refused.
    commands_refused,
    /// Transactions.
    commits,
    /// Transactions that survived a power cut when they were answered.
    commits_durable,
    /// Transactions that the store refused.
    commits_failed,
    /// Events stored.
    events,
    /// Planning rounds.
    rounds,
    /// Decisions that were stored.
    decisions,
    /// Decisions that did not fit the newest state any more.
    decisions_stale,
    /// Plans that broke a rule. Each is an alarm.
    plans_refused,
    /// Orders that engines took.
    orders,
    /// Orders that were tried again.
    orders_retried,
    /// Orders that an engine refused for good. Each is an alarm.
    orders_refused,
    /// Attempts that an engine ran and that the state does not know.
    strays,
    /// Snapshots written.
    snapshots,
    /// Snapshots that could not be written. Each is an alarm.
    snapshots_failed,
);

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }
}
