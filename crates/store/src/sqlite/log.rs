//! The log as it lies in a database, read from its beginning: for those who replay it.

use super::{Access, connect, each_event, explain, schema, snapshot};
use crate::StoreError;
use muster_model::{Event, State};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// A log that is read, also one that a daemon writes.
pub struct LogReader {
    connection: Connection,
    path: PathBuf,
    begin: u64,
}

impl LogReader {
    /// Opens the log of a database.
    ///
    /// # Errors
    /// As [`super::SqliteReader::open`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = connect(path, Access::Read)?;
        schema::check(&connection, path)?;
        let begin: i64 = connection
            .query_row("SELECT coalesce(min(seq), 0) FROM snapshot", [], |row| row.get(0))
            .map_err(|error| explain(path, "reading the snapshots", &error))?;
        Ok(Self { connection, path: path.to_owned(), begin: begin.cast_unsigned() })
    }

    /// The state that the log begins with: the oldest snapshot, or nothing at all.
    ///
    /// # Errors
    /// It is damaged.
    pub fn begin(&self) -> Result<State, StoreError> {
        if self.begin == 0 {
            return Ok(State::default());
        }
        snapshot::at(&self.connection, self.begin)
            .map_err(|why| self.damaged(&format!("snapshot {}", self.begin), why))
    }

    /// Calls `take` for each event after that, in order, until it says false; one is in memory at
    /// a time.
    ///
    /// # Errors
    /// What reading met; [`StoreError::Gap`] where events are missing.
    pub fn each(
        &self,
        mut take: impl FnMut(Event) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut expected = self.begin + 1;
        each_event(&self.connection, &self.path, self.begin, |got, event| {
            if got != expected {
                return Err(StoreError::Gap { got, expected });
            }
            expected += 1;
            take(event)
        })
    }

    fn damaged(&self, what: &str, why: String) -> StoreError {
        StoreError::Damaged { what: format!("{what} in {}", self.path.display()), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{FILE, SqliteStore};
    use crate::{Batch, Store};
    use muster_model::{EventKind, Timestamp};

    #[test]
    fn a_log_begins_with_the_oldest_snapshot_and_goes_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = SqliteStore::open(dir.path()).unwrap();
        let event = |ms| Event { at: Timestamp::from_millis(ms), kind: EventKind::Round };
        let mut state = State::default();
        for seq in 1u64..=9 {
            let event = event(seq.cast_signed());
            state.apply(&event).unwrap();
            store.append(&Batch { events: vec![(seq, event.into())], ..Batch::default() }).unwrap();
            if seq == 4 || seq == 6 || seq == 8 {
                store.snapshotter().unwrap().snapshot(&state).unwrap();
            }
        }
        let log = LogReader::open(&dir.path().join(FILE)).unwrap();
        let mut replayed = log.begin().unwrap();
        assert_eq!(replayed.seq, 6);
        log.each(|event| {
            replayed.apply(&event).unwrap();
            Ok(true)
        })
        .unwrap();
        assert_eq!(replayed, state);
        let mut count = 0;
        log.each(|_| {
            count += 1;
            Ok(count < 2)
        })
        .unwrap();
        assert_eq!(count, 2);
    }
}
