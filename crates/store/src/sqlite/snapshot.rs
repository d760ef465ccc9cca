//! Snapshots: JSON in parts of a mebibyte, each written in a transaction of its own, so that the
//! log's writer never waits long. A snapshot counts once its row in `snapshot` is there.

use super::{Access, connect, explain};
use crate::{SNAPSHOTS_KEPT, SnapshotReport, Snapshotter, StoreError};
use muster_model::{BlobId, State};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes of a part.
const PART: usize = 1 << 20;
/// Rows that one transaction drops.
const DROP_MAX: usize = 2000;

/// Writes snapshots through a connection of its own.
pub(super) struct SqliteSnapshotter {
    connection: Connection,
    path: PathBuf,
}

/// The newest snapshot that can be read: its number, its state, and what was passed over.
pub(super) fn newest(
    connection: &Connection,
    path: &Path,
) -> Result<(u64, State, Vec<String>), StoreError> {
    let fail = |error| explain(path, "reading the snapshots", &error);
    let mut query =
        connection.prepare("SELECT seq FROM snapshot ORDER BY seq DESC").map_err(fail)?;
    let all: Vec<i64> =
        query.query_map([], |row| row.get(0)).and_then(Iterator::collect).map_err(fail)?;
    let mut warnings = Vec::new();
    let mut damage = None;
    for seq in &all {
        match read(connection, *seq) {
            Ok(state) => return Ok((seq.cast_unsigned(), state, warnings)),
            Err(why) => {
                warnings.push(format!("snapshot {seq} is damaged ({why}); an older one is used"));
                damage = Some(why);
            }
        }
    }
    match damage {
        None => Ok((0, State::default(), warnings)),
        Some(why) => {
            let what = format!("every snapshot in {}", path.display());
            Err(StoreError::Damaged { what, why })
        }
    }
}

/// The snapshot of this number.
pub(super) fn at(connection: &Connection, seq: u64) -> Result<State, String> {
    read(connection, seq.cast_signed())
}

fn read(connection: &Connection, seq: i64) -> Result<State, String> {
    let text = |error: rusqlite::Error| error.to_string();
    let bytes: i64 = connection
        .query_row("SELECT bytes FROM snapshot WHERE seq = ?1", [seq], |row| row.get(0))
        .map_err(text)?;
    let mut body = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0).min(1 << 31));
    let mut parts = connection
        .prepare("SELECT body FROM snapshot_part WHERE seq = ?1 ORDER BY part")
        .map_err(text)?;
    let mut rows = parts.query([seq]).map_err(text)?;
    while let Some(row) = rows.next().map_err(text)? {
        let part = row.get_ref(0).map_err(text)?;
        body.extend_from_slice(part.as_blob().map_err(|error| error.to_string())?);
    }
    if body.len() as u64 != bytes.cast_unsigned() {
        return Err(format!("{} bytes where {bytes} were written", body.len()));
    }
    let state: State = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    if state.seq != seq.cast_unsigned() {
        return Err(format!("it holds the state after event {}", state.seq));
    }
    Ok(state)
}

/// Drops what a snapshot that was never finished left behind.
pub(super) fn drop_unfinished(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    connection
        .execute("DELETE FROM snapshot_part WHERE seq NOT IN (SELECT seq FROM snapshot)", [])
        .map(drop)
        .map_err(|error| explain(path, "dropping an unfinished snapshot", &error))
}

impl SqliteSnapshotter {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = connect(path, Access::Write)?;
        connection
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(|error| explain(path, "setting how to sync", &error))?;
        Ok(Self { connection, path: path.to_owned() })
    }

    fn fail(&self, doing: &'static str) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
        move |error| explain(&self.path, doing, &error)
    }

    fn write(&self, state: &State) -> Result<u64, StoreError> {
        let seq = state.seq.cast_signed();
        drop_unfinished(&self.connection, &self.path)?;
        let parts =
            PartWriter { connection: &self.connection, seq, part: 0, bytes: 0, failed: None };
        let mut writer = BufWriter::with_capacity(PART, parts);
        let written = serde_json::to_writer(&mut writer, state)
            .map_err(io::Error::from)
            .and_then(|()| writer.flush());
        let bytes = match written {
            Ok(()) => writer.get_ref().bytes,
            Err(error) => {
                return Err(match writer.get_mut().failed.take() {
                    Some(error) => explain(&self.path, "writing a snapshot", &error),
                    None => StoreError::Io {
                        doing: "writing a snapshot to",
                        path: self.path.clone(),
                        source: error,
                    },
                });
            }
        };
        self.finish(seq, bytes).map_err(self.fail("writing a snapshot"))?;
        Ok(bytes)
    }

    /// The snapshot counts from here on, and survives a power cut.
    fn finish(&self, seq: i64, bytes: u64) -> rusqlite::Result<()> {
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        self.connection.execute(
            "INSERT OR REPLACE INTO snapshot (seq, bytes) VALUES (?1, ?2)",
            params![seq, bytes.cast_signed()],
        )?;
        self.connection.pragma_update(None, "synchronous", "NORMAL")
    }

    /// Runs a statement that drops at most `?2` rows again and again until none is left.
    fn drop_rows(&self, sql: &str, seq: i64) -> Result<u64, StoreError> {
        let mut dropped = 0;
        loop {
            let now = self
                .connection
                .execute(sql, params![seq, DROP_MAX as i64])
                .map_err(self.fail("dropping what is old"))?;
            dropped += now as u64;
            if now < DROP_MAX {
                return Ok(dropped);
            }
        }
    }

    /// Drops older snapshots; gives the number up to which events are in every kept one.
    fn drop_snapshots(&self) -> Result<Option<i64>, StoreError> {
        let oldest: Option<i64> = self
            .connection
            .query_row(
                "SELECT seq FROM snapshot ORDER BY seq DESC LIMIT 1 OFFSET ?1",
                [SNAPSHOTS_KEPT as i64 - 1],
                |row| row.get(0),
            )
            .optional()
            .map_err(self.fail("reading the snapshots"))?;
        // With fewer than that, nothing goes: there is none to fall back to yet.
        let Some(oldest) = oldest else { return Ok(None) };
        self.connection
            .execute("DELETE FROM snapshot WHERE seq < ?1", [oldest])
            .map_err(self.fail("dropping old snapshots"))?;
        // A part is large, so fewer go at once than of other rows.
        while self
            .connection
            .execute(
                "DELETE FROM snapshot_part WHERE id IN
                 (SELECT id FROM snapshot_part WHERE seq < ?1 LIMIT 16)",
                [oldest],
            )
            .map_err(self.fail("dropping old snapshots"))?
            > 0
        {}
        Ok(Some(oldest))
    }

    /// Drops blobs that came in up to the state and that it does not need.
    fn drop_blobs(&self, state: &State) -> Result<u64, StoreError> {
        let needed: BTreeSet<BlobId> = state.blobs();
        let fail = |error| explain(&self.path, "dropping old blobs", &error);
        let mut query =
            self.connection.prepare("SELECT id FROM blob_use WHERE seq <= ?1").map_err(fail)?;
        let old: Vec<String> = query
            .query_map([state.seq.cast_signed()], |row| row.get(0))
            .and_then(|rows| {
                rows.filter(|id: &rusqlite::Result<String>| {
                    id.as_ref().map_or(true, |id| !needed.contains(&BlobId(id.clone())))
                })
                .collect()
            })
            .map_err(fail)?;
        let mut dropped = 0;
        for ids in old.chunks(200) {
            dropped += self.drop_some_blobs(ids, state.seq).map_err(fail)?;
        }
        Ok(dropped)
    }

    fn drop_some_blobs(&self, ids: &[String], seq: u64) -> rusqlite::Result<u64> {
        let tx = self.connection.unchecked_transaction()?;
        let mut dropped = 0;
        for id in ids {
            // A submission since then may have brought it in again.
            let gone = tx
                .prepare_cached("DELETE FROM blob_use WHERE id = ?1 AND seq <= ?2")?
                .execute(params![id, seq.cast_signed()])?;
            if gone > 0 {
                tx.prepare_cached("DELETE FROM blob WHERE id = ?1")?.execute([id])?;
                dropped += 1;
            }
        }
        tx.commit()?;
        Ok(dropped)
    }
}

impl Snapshotter for SqliteSnapshotter {
    fn snapshot(&mut self, state: &State) -> Result<SnapshotReport, StoreError> {
        let mut report = SnapshotReport { seq: state.seq, ..SnapshotReport::default() };
        let there: bool = self
            .connection
            .query_row(
                "SELECT EXISTS (SELECT 1 FROM snapshot WHERE seq = ?1)",
                [state.seq.cast_signed()],
                |row| row.get(0),
            )
            .map_err(self.fail("reading the snapshots"))?;
        if there {
            return Ok(report);
        }
        report.bytes = self.write(state)?;
        if let Some(oldest) = self.drop_snapshots()? {
            report.events_dropped = self.drop_rows(
                "DELETE FROM event WHERE seq <= ?1 AND seq IN
                 (SELECT seq FROM event WHERE seq <= ?1 ORDER BY seq LIMIT ?2)",
                oldest,
            )?;
        }
        report.blobs_dropped = self.drop_blobs(state)?;
        Ok(report)
    }
}

/// Turns what is written to it into rows.
struct PartWriter<'a> {
    connection: &'a Connection,
    seq: i64,
    part: i64,
    bytes: u64,
    failed: Option<rusqlite::Error>,
}

impl Write for PartWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let inserted = self
            .connection
            .prepare_cached("INSERT INTO snapshot_part (seq, part, body) VALUES (?1, ?2, ?3)")
            .and_then(|mut insert| insert.execute(params![self.seq, self.part, bytes]));
        match inserted {
            Ok(_) => {
                self.part += 1;
                self.bytes += bytes.len() as u64;
                Ok(bytes.len())
            }
            Err(error) => {
                self.failed = Some(error);
                Err(io::Error::other("the database refused a part"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
