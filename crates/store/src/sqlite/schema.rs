//! The tables, their version, and the fence.

use super::explain;
use crate::StoreError;
use muster_model::SCHEMA_VERSION;
use rusqlite::{Connection, params};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Marks the file as ours: "mstr" (SQLite's `application_id`).
const APPLICATION: i32 = 0x6d73_7472;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event (seq INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS snapshot (seq INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS snapshot_part (
    id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, part INTEGER NOT NULL, body BLOB NOT NULL,
    UNIQUE (seq, part));
CREATE TABLE IF NOT EXISTS blob (id TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS blob_use (id TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    seq INTEGER NOT NULL, job INTEGER NOT NULL, family INTEGER NOT NULL, requeued INTEGER NOT NULL,
    user TEXT NOT NULL, account TEXT NOT NULL, partition TEXT NOT NULL, name TEXT NOT NULL,
    state TEXT NOT NULL, submitted INTEGER NOT NULL, started INTEGER, ended INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (seq, job));
CREATE INDEX IF NOT EXISTS history_job ON history (job);
CREATE INDEX IF NOT EXISTS history_family ON history (family);
CREATE INDEX IF NOT EXISTS history_user ON history (user, ended);
CREATE INDEX IF NOT EXISTS history_ended ON history (ended);
CREATE INDEX IF NOT EXISTS history_script ON history (user, name);
";

/// Refuses files that are not ours and logs of newer builds. Reads only.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let number = |pragma: &str| {
        connection
            .pragma_query_value(None, pragma, |row| row.get::<_, i32>(0))
            .map_err(|error| explain(path, "reading its version", &error))
    };
    let found = number("user_version")?.cast_unsigned();
    if found > SCHEMA_VERSION {
        return Err(StoreError::NewerSchema { found, known: SCHEMA_VERSION });
    }
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| explain(path, "reading its tables", &error))?;
    if tables > 0 && number("application_id")? != APPLICATION {
        return Err(StoreError::Damaged {
            what: format!("the database {}", path.display()),
            why: "it is not a database of muster".to_owned(),
        });
    }
    Ok(())
}

/// Makes the tables that are not there, and sets how the file is written.
pub(super) fn prepare(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let fail = |error: rusqlite::Error| explain(path, "preparing it", &error);
    for (pragma, value) in [("journal_mode", "WAL"), ("synchronous", "FULL")] {
        connection.pragma_update(None, pragma, value).map_err(fail)?;
    }
    for (pragma, value) in [("wal_autocheckpoint", 4000), ("journal_size_limit", 64 << 20)] {
        connection.pragma_update(None, pragma, value).map_err(fail)?;
    }
    connection
        .execute_batch(&format!(
            "BEGIN IMMEDIATE; {TABLES}
             PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        ))
        .map_err(|error| {
            // A failed statement leaves the transaction open.
            drop(connection.execute_batch("ROLLBACK"));
            fail(error)
        })
}

/// The number of this opening: above every one before, and above those of a life of the database
/// that a restored backup does not know of. Seconds since the epoch are above both.
pub(super) fn next_fence(connection: &Connection, path: &Path) -> Result<u64, StoreError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    connection
        .query_row(
            "INSERT INTO meta (key, value) VALUES ('fence', ?1)
             ON CONFLICT (key) DO UPDATE SET value = max(value + 1, excluded.value)
             RETURNING value",
            params![now.cast_signed()],
            |row| row.get::<_, i64>(0),
        )
        .map(i64::cast_unsigned)
        .map_err(|error| explain(path, "counting its opening", &error))
}
