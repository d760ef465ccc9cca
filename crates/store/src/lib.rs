//! Where events are kept: the store trait, its contract suite, and two implementations.
//!
//! A store holds four things: the log (events in order), snapshots (the state at a point of the
//! log), blobs (scripts with their environment, by content) and history (one row for each end of
//! an attempt, for accounting). One writer has it open at a time; any number of readers look at
//! history and blobs beside it.
//!
//! The rule by which old events go: the two newest snapshots are kept, and the events after the
//! older of the two. So a damaged newest snapshot can be made good from the one before it.
//!
//! ```
//! use muster_model::{Event, EventKind, Timestamp};
//! use muster_store::{Batch, MemoryStore, Store};
//! let mut store = MemoryStore::default();
//! let loaded = store.load().unwrap();
//! assert_eq!(loaded.state.seq, 0);
//! let event = Event { at: Timestamp::from_millis(1), kind: EventKind::Round };
//! store.append(&Batch { events: vec![(1, event.into())], ..Batch::default() }).unwrap();
//! assert_eq!(store.load().unwrap().state.seq, 1);
//! ```

#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod error;
mod history;
pub mod memory;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use error::StoreError;
pub use history::{HistoryPage, HistoryQuery, HistoryRow, PAGE_MAX};
pub use memory::MemoryStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;

use muster_model::{BlobId, Event, State};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// How many snapshots are kept. Events up to the oldest of them are dropped.
pub const SNAPSHOTS_KEPT: usize = 2;

/// The log, the snapshots, the blobs and the history, open for writing.
///
/// Every implementation passes the contract suite (`contract`).
pub trait Store: Send {
    /// The number of this opening for writing: each is higher than all before it, also after an
    /// older backup was restored.
    fn fence(&self) -> u64;

    /// The state as stored: the newest snapshot and the events after it.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`], [`StoreError::Damaged`], or what reading met.
    fn load(&self) -> Result<Loaded, StoreError>;

    /// Adds a batch, whole or not at all. With [`Batch::durable`] it survives a power cut once
    /// this returns; without, it survives the end of the process only.
    ///
    /// # Errors
    /// [`StoreError::Gap`] where the numbers do not follow the log's last; else what writing met.
    /// After an error nothing of the batch is stored.
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError>;

    /// Events after `seq`, at most `limit`, in order. Those folded into snapshots are gone.
    ///
    /// # Errors
    /// What reading met.
    fn events_after(&self, seq: u64, limit: usize) -> Result<Vec<(u64, Event)>, StoreError>;

    /// Something that writes snapshots from another thread, so that the log never waits long for it.
    ///
    /// # Errors
    /// What opening met.
    fn snapshotter(&self) -> Result<Box<dyn Snapshotter>, StoreError>;

    /// A view for any thread.
    ///
    /// # Errors
    /// What opening met.
    fn reader(&self) -> Result<Arc<dyn Reader>, StoreError>;
}

/// Writes snapshots beside the writer.
pub trait Snapshotter: Send {
    /// Stores this state, drops older snapshots than [`SNAPSHOTS_KEPT`] and the events that the
    /// oldest kept one has in it.
    ///
    /// Blobs that `state` does not need and that came in before it are dropped too: whichever
    /// snapshot a later start begins with, the events after it lead to this state.
    ///
    /// # Errors
    /// What writing met; the snapshots there were are then still there.
    fn snapshot(&mut self, state: &State) -> Result<SnapshotReport, StoreError>;
}

/// Reads history and blobs beside the writer.
pub trait Reader: Send + Sync {
    /// A blob's content; `None` where it is not there (any more).
    ///
    /// # Errors
    /// What reading met.
    fn blob(&self, id: &BlobId) -> Result<Option<Vec<u8>>, StoreError>;

    /// A page of ended attempts, newest end last.
    ///
    /// # Errors
    /// What reading met.
    fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, StoreError>;
}

/// What a store had.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The state.
    pub state: State,
    /// The number of the snapshot it began with; 0 where there was none.
    pub snapshot: u64,
    /// How many events came after it.
    pub events: u64,
    /// Things an admin should know: a snapshot that was passed over, and why.
    pub warnings: Vec<String>,
}

/// What is stored together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Events with their numbers: consecutive, the first one more than the log's last.
    pub events: Vec<(u64, Arc<Event>)>,
    /// New blobs.
    pub blobs: Vec<Blob>,
    /// Attempts that ended.
    pub history: Vec<HistoryRow>,
    /// Whether it must survive a power cut.
    pub durable: bool,
}

/// A blob with its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    id: BlobId,
    bytes: Vec<u8>,
}

/// What writing a snapshot did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The state's number.
    pub seq: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Events dropped.
    pub events_dropped: u64,
    /// Blobs dropped.
    pub blobs_dropped: u64,
}

impl Blob {
    /// Computes the address of these bytes: their SHA-256 in lower-case hex.
    pub fn new(bytes: Vec<u8>) -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut id = String::with_capacity(64);
        for byte in Sha256::digest(&bytes) {
            id.push(char::from(HEX[usize::from(byte >> 4)]));
            id.push(char::from(HEX[usize::from(byte & 15)]));
        }
        Self { id: BlobId(id), bytes }
    }

    /// Its address.
    pub fn id(&self) -> &BlobId {
        &self.id
    }

    /// Its content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_named_by_its_sha_256() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            Blob::new(b"abc".to_vec()).id().0,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
