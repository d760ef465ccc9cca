//! Backup of a running store, and restoring one.

use super::lock::Lock;
use super::private::keep_private;
use super::{Access, FILE, connect, explain, read_state, schema};
use crate::StoreError;
use std::fs::{self, File};
use std::path::Path;

/// What SQLite writes beside the database.
const WAL: &str = "muster.db-wal";

/// Writes a copy of a state directory's database to a new file, whole and consistent, also while a
/// daemon writes.
///
/// # Errors
/// [`StoreError::Exists`] where the file is there already; else what reading or writing met.
pub fn backup(dir: &Path, to: &Path) -> Result<(), StoreError> {
    if to.exists() {
        return Err(StoreError::Exists { path: to.to_owned() });
    }
    let path = dir.join(FILE);
    let connection = connect(&path, Access::Read)?;
    schema::check(&connection, &path)?;
    // SQLite writes into an empty file as into none.
    let io = |source| StoreError::Io { doing: "making", path: to.to_owned(), source };
    keep_private(to).map_err(io)?;
    let copied = connection
        .execute("VACUUM INTO ?1", [to.to_string_lossy()])
        .map_err(|error| explain(to, "writing a backup", &error))
        .and_then(|_| sync(to));
    if copied.is_err() {
        // Half a backup is worse than none.
        drop(fs::remove_file(to));
    }
    copied
}

/// Puts a backup into a state directory that has no database.
///
/// # Errors
/// [`StoreError::Exists`] where it has one, [`StoreError::Locked`] where a daemon uses it,
/// [`StoreError::NewerSchema`] or [`StoreError::Damaged`] where the backup is no good.
pub fn restore(from: &Path, dir: &Path) -> Result<(), StoreError> {
    let io = |doing: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::Io { doing, path, source }
    };
    fs::create_dir_all(dir).map_err(io("making the state directory", dir))?;
    let _lock = Lock::take(dir)?;
    let path = dir.join(FILE);
    // A log left behind by a database that is gone would be taken for one of the restored one.
    for there in [path.clone(), dir.join(WAL)] {
        if there.exists() {
            return Err(StoreError::Exists { path: there });
        }
    }
    if !from.exists() {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(StoreError::Io { doing: "reading", path: from.to_owned(), source });
    }
    read_state(from)?;
    let new = dir.join("muster.db.new");
    fs::copy(from, &new).map_err(io("copying the backup to", &new))?;
    keep_private(&new).map_err(io("making", &new))?;
    sync(&new)?;
    fs::rename(&new, &path).map_err(io("naming the copy", &path))?;
    sync(dir)
}

fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|source| StoreError::Io {
        doing: "syncing",
        path: path.to_owned(),
        source,
    })
}
