//! What comes to the writer beside commands.

use crate::round::Breach;
use muster_engine::{EngineError, Inventory, Observation};
use muster_model::{EngineName, Plan, State, Timestamp};
use muster_store::{SnapshotReport, StoreError};
use std::time::Duration;

/// A message to the writer from one of its own threads or an engine.
pub(crate) enum Message {
    /// An engine saw something.
    Observed(EngineName, Observation),
    /// An engine was listed.
    Listed { engine: EngineName, taken: Timestamp, result: Result<Inventory, EngineError> },
    /// A plan is made and judged.
    Planned(Box<Planned>),
    /// A snapshot is written.
    Snapshotted(Result<SnapshotReport, StoreError>),
    /// The end.
    Stop,
}

/// A plan with the state that it was made from and what the checker says of it.
pub(crate) struct Planned {
    pub(crate) base: State,
    pub(crate) plan: Plan,
    pub(crate) breaches: Vec<Breach>,
    pub(crate) took: Duration,
}
