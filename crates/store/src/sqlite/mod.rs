//! The store on disk: one SQLite database in the state directory, in WAL mode.
//!
//! A lock file beside it (`muster.lock`) keeps a second writer out and names the first. Whether a
//! transaction is synced is SQLite's `synchronous`: `FULL` for durable batches, `NORMAL` for the
//! rest, which then survive the process but perhaps not the machine.

mod backup;
mod history;
mod lock;
mod log;
mod private;
mod schema;
mod snapshot;
#[cfg(test)]
mod tests;

pub use backup::{backup, restore};
pub use log::LogReader;

use crate::{Batch, HistoryPage, HistoryQuery, Loaded, Reader, Snapshotter, Store, StoreError};
use lock::Lock;
use muster_model::{BlobId, Event, State};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The database's name in the state directory.
pub const FILE: &str = "muster.db";
/// The lock's name in the state directory.
pub const LOCK: &str = "muster.lock";

/// How long one connection waits for another's transaction.
const BUSY: Duration = Duration::from_secs(20);

/// The store on disk.
pub struct SqliteStore {
    connection: Connection,
    path: PathBuf,
    fence: u64,
    last: u64,
    /// Whether `synchronous` is `FULL` now.
    synced: bool,
    _lock: Lock,
}

impl SqliteStore {
    /// Opens the store of a state directory for writing; makes it where there is none.
    ///
    /// # Errors
    /// [`StoreError::Locked`] where another process has it, [`StoreError::NewerSchema`],
    /// [`StoreError::Damaged`], [`StoreError::ReadOnly`], or what the file system said. The data
    /// is then as it was.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(dir).map_err(|source| StoreError::Io {
            doing: "making the state directory",
            path: dir.to_owned(),
            source,
        })?;
        let lock = Lock::take(dir)?;
        let path = dir.join(FILE);
        let connection = connect(&path, Access::Write)?;
        schema::check(&connection, &path)?;
        schema::prepare(&connection, &path)?;
        let fence = schema::next_fence(&connection, &path)?;
        snapshot::drop_unfinished(&connection, &path)?;
        let last = last_seq(&connection, &path)?;
        Ok(Self { connection, path, fence, last, synced: true, _lock: lock })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn fail(&self, doing: &'static str) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
        move |error| explain(&self.path, doing, &error)
    }

    fn set_synced(&mut self, synced: bool) -> Result<(), StoreError> {
        if self.synced != synced {
            let mode = if synced { "FULL" } else { "NORMAL" };
            self.connection
                .pragma_update(None, "synchronous", mode)
                .map_err(self.fail("setting how to sync"))?;
            self.synced = synced;
        }
        Ok(())
    }

    fn write(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        let last = batch.events.last().map_or(self.last, |(seq, _)| *seq);
        let tx =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        {
            let mut event = tx.prepare_cached("INSERT INTO event (seq, body) VALUES (?1, ?2)")?;
            for (seq, body) in &batch.events {
                event.execute(params![seq.cast_signed(), to_json(body.as_ref())?])?;
            }
            let mut blob = tx.prepare_cached(
                "INSERT INTO blob (id, body) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING",
            )?;
            let mut used = tx.prepare_cached(
                "INSERT INTO blob_use (id, seq) VALUES (?1, ?2)
                 ON CONFLICT (id) DO UPDATE SET seq = excluded.seq",
            )?;
            for one in &batch.blobs {
                blob.execute(params![one.id().0, one.bytes()])?;
                used.execute(params![one.id().0, last.cast_signed()])?;
            }
            for row in &batch.history {
                history::insert(&tx, row)?;
            }
        }
        tx.commit()
    }
}

impl Store for SqliteStore {
    fn fence(&self) -> u64 {
        self.fence
    }

    fn load(&self) -> Result<Loaded, StoreError> {
        let (snapshot, mut state, warnings) = snapshot::newest(&self.connection, &self.path)?;
        let mut events = 0;
        each_event(&self.connection, &self.path, snapshot, |seq, event| {
            if seq != state.seq + 1 {
                return Err(StoreError::Gap { got: seq, expected: state.seq + 1 });
            }
            state.apply(&event).map_err(|source| StoreError::Unfit { seq, source })?;
            events += 1;
            Ok(true)
        })?;
        Ok(Loaded { state, snapshot, events, warnings })
    }

    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        for ((seq, _), expected) in batch.events.iter().zip(self.last + 1..) {
            if *seq != expected {
                return Err(StoreError::Gap { got: *seq, expected });
            }
        }
        self.set_synced(batch.durable)?;
        self.write(batch).map_err(|error| explain(&self.path, "storing a transaction", &error))?;
        self.last += batch.events.len() as u64;
        Ok(())
    }

    fn events_after(&self, seq: u64, limit: usize) -> Result<Vec<(u64, Event)>, StoreError> {
        let mut found = Vec::new();
        each_event(&self.connection, &self.path, seq, |seq, event| {
            if found.len() < limit {
                found.push((seq, event));
            }
            Ok(found.len() < limit)
        })?;
        Ok(found)
    }

    fn snapshotter(&self) -> Result<Box<dyn Snapshotter>, StoreError> {
        Ok(Box::new(snapshot::SqliteSnapshotter::open(&self.path)?))
    }

    fn reader(&self) -> Result<Arc<dyn Reader>, StoreError> {
        Ok(Arc::new(SqliteReader::open(&self.path)?))
    }
}

/// Reads beside the writer. Blobs and history have a connection each, so that a long query of
/// history does not keep a launch waiting.
pub struct SqliteReader {
    path: PathBuf,
    blobs: Mutex<Connection>,
    history: Mutex<Connection>,
}

impl SqliteReader {
    /// Opens a database for reading, also one that a daemon writes.
    ///
    /// # Errors
    /// As [`SqliteStore::open`], without the lock.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let blobs = connect(path, Access::Read)?;
        schema::check(&blobs, path)?;
        let history = connect(path, Access::Read)?;
        Ok(Self { path: path.to_owned(), blobs: Mutex::new(blobs), history: Mutex::new(history) })
    }
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reader for SqliteReader {
    fn blob(&self, id: &BlobId) -> Result<Option<Vec<u8>>, StoreError> {
        let connection = lock(&self.blobs);
        connection
            .prepare_cached("SELECT body FROM blob WHERE id = ?1")
            .and_then(|mut query| query.query_row([&id.0], |row| row.get(0)).optional())
            .map_err(|error| explain(&self.path, "reading a blob", &error))
    }

    fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, StoreError> {
        history::query(&lock(&self.history), &self.path, query)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// Opens a connection. Nothing is written yet.
fn connect(path: &Path, access: Access) -> Result<Connection, StoreError> {
    let mode = match access {
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    };
    let fail = |error| explain(path, "opening it", &error);
    if let Access::Write = access {
        // Where it cannot be made, SQLite says why.
        drop(private::keep_private(path));
    }
    let connection =
        Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(fail)?;
    connection.busy_timeout(BUSY).map_err(fail)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

fn last_seq(connection: &Connection, path: &Path) -> Result<u64, StoreError> {
    connection
        .query_row(
            "SELECT max(coalesce((SELECT max(seq) FROM event), 0),
                        coalesce((SELECT max(seq) FROM snapshot), 0))",
            [],
            |row| row.get::<_, i64>(0),
        )
        .map(i64::cast_unsigned)
        .map_err(|error| explain(path, "reading the log's end", &error))
}

/// Calls `take` for each event after `seq`, in order, until it says false.
fn each_event(
    connection: &Connection,
    path: &Path,
    seq: u64,
    mut take: impl FnMut(u64, Event) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let fail = |error| explain(path, "reading the log", &error);
    let mut query = connection
        .prepare("SELECT seq, body FROM event WHERE seq > ?1 ORDER BY seq")
        .map_err(fail)?;
    let mut rows = query.query([seq.cast_signed()]).map_err(fail)?;
    while let Some(row) = rows.next().map_err(fail)? {
        let seq = row.get::<_, i64>(0).map_err(fail)?.cast_unsigned();
        let body = row.get_ref(1).map_err(fail)?;
        let event = body
            .as_str()
            .map_err(|error| error.to_string())
            .and_then(|text| serde_json::from_str(text).map_err(|error| error.to_string()))
            .map_err(|why| StoreError::Damaged {
                what: format!("event {seq} of the log {}", path.display()),
                why,
            })?;
        if !take(seq, event)? {
            break;
        }
    }
    Ok(())
}

fn to_json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// Says what a refusal of SQLite means.
fn explain(path: &Path, doing: &'static str, error: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly { path },
        Some(ErrorCode::CannotOpen) if path.exists() => StoreError::ReadOnly { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { what: format!("the database {}", path.display()), why }
        }
        _ => StoreError::Database { doing, path, why },
    }
}

/// The newest state of a database, read beside a writer or without one (`muster replay`, tests).
///
/// # Errors
/// As [`Store::load`].
pub fn read_state(path: &Path) -> Result<State, StoreError> {
    let connection = connect(path, Access::Read)?;
    schema::check(&connection, path)?;
    let (snapshot, mut state, _) = snapshot::newest(&connection, path)?;
    each_event(&connection, path, snapshot, |seq, event| {
        state.apply(&event).map_err(|source| StoreError::Unfit { seq, source })?;
        Ok(true)
    })?;
    Ok(state)
}
