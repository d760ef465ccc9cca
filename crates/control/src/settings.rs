//! How the loop runs, and what it raises alarms about.

use crate::orders::OrderKey;
use crate::round::Breach;
use muster_model::{Plan, Seconds, State};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How the loop runs. The defaults are right for a daemon.
#[derive(Clone)]
pub struct Settings {
    /// Commands that may wait; one more is answered with `Busy`.
    pub commands_max: usize,
    /// Commands, and observations, that one transaction takes at most.
    pub batch_max: usize,
    /// Threads that send orders.
    pub dispatchers: usize,
    /// Engines are listed at least so often.
    pub resync: Duration,
    /// Planning looks at waiting jobs at least so often.
    pub replan: Duration,
    /// A running job that no listing shows for so long is lost.
    pub missing_grace: Seconds,
    /// Called for every alarm, from any thread; it must not wait.
    pub alarm: Arc<dyn Fn(Alarm) + Send + Sync>,
}

/// Something that an admin has to know.
#[derive(Clone, Debug)]
pub enum Alarm {
    /// A plan broke rules. The jobs that it names are held; `state` and `plan` are the exact input
    /// and output of the round, to be kept in a file.
    PlanRefused {
        /// Which rules.
        breaches: Vec<Breach>,
        /// The state that the plan was made from.
        state: Box<State>,
        /// The plan.
        plan: Box<Plan>,
    },
    /// The store refused a transaction; commands are refused until it works again.
    StoreFailed {
        /// What it said.
        why: String,
    },
    /// The store works again.
    StoreMended,
    /// A snapshot could not be written.
    SnapshotFailed {
        /// What the store said.
        why: String,
    },
    /// Another writer gives orders to an engine of ours.
    Fenced {
        /// What the engine said.
        why: String,
    },
    /// An engine refused an order for good.
    OrderRefused {
        /// Which.
        key: OrderKey,
        /// What it said.
        why: String,
    },
    /// An engine could not be listed.
    EngineUnreachable {
        /// What it said.
        why: String,
    },
    /// Events that should fit did not: a fault of ours.
    Fault {
        /// Where and what.
        why: String,
    },
    /// Something about the stored data that an admin should know.
    Warning {
        /// What.
        why: String,
    },
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            commands_max: 8192,
            batch_max: 1024,
            dispatchers: 4,
            resync: Duration::from_secs(30),
            replan: Duration::from_secs(30),
            missing_grace: Seconds(20),
            alarm: Arc::new(|alarm| tracing::warn!(alarm = %alarm, "alarm")),
        }
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlanRefused { breaches, .. } => {
                f.write_str("a plan was refused:")?;
                breaches.iter().try_for_each(|b| write!(f, " {} ({})", b.rule, b.message))
            }
            Self::StoreFailed { why } => write!(f, "the store refuses: {why}"),
            Self::StoreMended => f.write_str("the store works again"),
            Self::SnapshotFailed { why } => write!(f, "no snapshot could be written: {why}"),
            Self::Fenced { why } => write!(f, "another writer is at work: {why}"),
            Self::OrderRefused { key, why } => {
                write!(f, "order {:?} for job {} was refused: {why}", key.kind, key.job)
            }
            Self::EngineUnreachable { why } | Self::Warning { why } => f.write_str(why),
            Self::Fault { why } => write!(f, "internal fault: {why}"),
        }
    }
}
