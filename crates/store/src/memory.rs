//! A store in memory, for tests and simulation: as strict as the others, and gone with its process.

use crate::{
    Batch, HistoryPage, HistoryQuery, HistoryRow, Loaded, Reader, SNAPSHOTS_KEPT, SnapshotReport,
    Snapshotter, Store, StoreError,
};
use muster_model::{BlobId, Event, State};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What outlives the writer.
#[derive(Debug, Default)]
struct Disk {
    fence: u64,
    last: u64,
    events: BTreeMap<u64, Arc<Event>>,
    snapshots: BTreeMap<u64, State>,
    /// Each with the number of the last event that brought it in.
    blobs: BTreeMap<BlobId, (u64, Vec<u8>)>,
    history: Vec<HistoryRow>,
    /// Numbers of the events that would survive a power cut.
    synced: u64,
    fail: Option<Failure>,
}

/// A failure that a test asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Every append is refused for lack of room.
    Full,
}

/// A store in memory. Clones of [`MemoryStore::disk`] see the same data, so that a test can drop
/// the writer and open the store again.
#[derive(Debug)]
pub struct MemoryStore {
    fence: u64,
    disk: MemoryDisk,
}

/// The data of a [`MemoryStore`], apart from the opening for writing.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<Disk>>);

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryDisk::default().open()
    }
}

impl MemoryDisk {
    /// Opens it for writing.
    pub fn open(&self) -> MemoryStore {
        let fence = {
            let mut disk = self.lock();
            disk.fence += 1;
            disk.fence
        };
        MemoryStore { fence, disk: self.clone() }
    }

    /// Loses everything that was not synced, as a power cut may.
    pub fn cut_power(&self) {
        let mut disk = self.lock();
        let synced = disk.synced;
        disk.events.split_off(&(synced + 1));
        disk.history.retain(|row| row.seq <= synced);
        disk.last = synced;
    }

    /// From now on appends fail so; `None` mends it.
    pub fn fail(&self, failure: Option<Failure>) {
        self.lock().fail = failure;
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryStore {
    /// The data, to open it again later.
    pub fn disk(&self) -> MemoryDisk {
        self.disk.clone()
    }
}

impl Store for MemoryStore {
    fn fence(&self) -> u64 {
        self.fence
    }

    fn load(&self) -> Result<Loaded, StoreError> {
        let disk = self.disk.lock();
        let (snapshot, mut state) = disk
            .snapshots
            .last_key_value()
            .map_or_else(|| (0, State::default()), |(seq, state)| (*seq, state.clone()));
        let mut events = 0;
        for (seq, event) in disk.events.range(snapshot + 1..) {
            state.apply(event).map_err(|source| StoreError::Unfit { seq: *seq, source })?;
            events += 1;
        }
        Ok(Loaded { state, snapshot, events, warnings: Vec::new() })
    }

    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut disk = self.disk.lock();
        if disk.fail == Some(Failure::Full) {
            return Err(StoreError::Full { path: ":memory:".into() });
        }
        for ((seq, _), expected) in batch.events.iter().zip(disk.last + 1..) {
            if *seq != expected {
                return Err(StoreError::Gap { got: *seq, expected });
            }
        }
        disk.last += batch.events.len() as u64;
        disk.events.extend(batch.events.iter().cloned());
        for blob in &batch.blobs {
            let last = disk.last;
            disk.blobs.insert(blob.id().clone(), (last, blob.bytes().to_vec()));
        }
        disk.history.extend(batch.history.iter().cloned());
        if batch.durable {
            disk.synced = disk.last;
        }
        Ok(())
    }

    fn events_after(&self, seq: u64, limit: usize) -> Result<Vec<(u64, Event)>, StoreError> {
        let disk = self.disk.lock();
        Ok(disk.events.range(seq + 1..).take(limit).map(|(s, e)| (*s, Event::clone(e))).collect())
    }

    fn snapshotter(&self) -> Result<Box<dyn Snapshotter>, StoreError> {
        Ok(Box::new(self.disk.clone()))
    }

    fn reader(&self) -> Result<Arc<dyn Reader>, StoreError> {
        Ok(Arc::new(self.disk.clone()))
    }
}

impl Snapshotter for MemoryDisk {
    fn snapshot(&mut self, state: &State) -> Result<SnapshotReport, StoreError> {
        let mut disk = self.lock();
        disk.snapshots.insert(state.seq, state.clone());
        while disk.snapshots.len() > SNAPSHOTS_KEPT {
            disk.snapshots.pop_first();
        }
        disk.synced = disk.synced.max(state.seq);
        let oldest = disk.snapshots.first_key_value().map_or(0, |(seq, _)| *seq);
        // The first snapshot alone drops nothing: there is none before it to fall back to.
        let oldest = if disk.snapshots.len() < SNAPSHOTS_KEPT { 0 } else { oldest };
        let kept = disk.events.split_off(&(oldest + 1));
        let events_dropped = std::mem::replace(&mut disk.events, kept).len() as u64;
        let needed = state.blobs();
        let before = disk.blobs.len();
        disk.blobs.retain(|id, (seq, _)| *seq > state.seq || needed.contains(id));
        Ok(SnapshotReport {
            seq: state.seq,
            bytes: 0,
            events_dropped,
            blobs_dropped: (before - disk.blobs.len()) as u64,
        })
    }
}

impl Reader for MemoryDisk {
    fn blob(&self, id: &BlobId) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.lock().blobs.get(id).map(|(_, bytes)| bytes.clone()))
    }

    fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, StoreError> {
        let disk = self.lock();
        let start = query.after.map_or(0, |after| after as usize);
        let mut page = HistoryPage::default();
        if query.newest {
            let asked = disk.history.iter().skip(start).filter(|row| query.admits(row)).rev();
            page.rows = asked.take(query.page()).cloned().collect();
            page.rows.reverse();
            return Ok(page);
        }
        for (at, row) in disk.history.iter().enumerate().skip(start) {
            if page.rows.len() == query.page() {
                page.next = Some(at as u64);
                break;
            }
            if query.admits(row) {
                page.rows.push(row.clone());
            }
        }
        Ok(page)
    }
}
