//! What comes to the writer beside commands.

use crate::round::Made;
use muster_engine::{EngineError, Inventory, Observation};
use muster_model::{EngineName, State, Timestamp};
use muster_store::{SnapshotReport, StoreError};

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

/// A round with the state that it was made from.
pub(crate) struct Planned {
    pub(crate) base: State,
    pub(crate) made: Made,
}
