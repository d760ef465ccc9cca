//! Backup of a running store, and restoring one.

use super::lock::Lock;
use super::private::keep_private;
use super::{Access, FILE, connect, explain, read_state, schema};
use crate::StoreError;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The database with what SQLite writes beside it.
const FILES: [&str; 3] = [FILE, "muster.db-wal", "muster.db-shm"];

/// How many replaced databases may lie in a state directory.
const REPLACED_MAX: u32 = 1000;

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

/// Puts a backup into a state directory. What database there was is kept in a folder beside it,
/// which is returned; the backup is read whole before anything is moved.
///
/// # Errors
/// [`StoreError::Locked`] where a daemon uses the directory, [`StoreError::NewerSchema`] or
/// [`StoreError::Damaged`] where the backup is no good; nothing is changed then.
pub fn restore(from: &Path, dir: &Path) -> Result<Option<PathBuf>, StoreError> {
    fs::create_dir_all(dir).map_err(io("making the state directory", dir))?;
    let _lock = Lock::take(dir)?;
    if !from.exists() {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(StoreError::Io { doing: "reading", path: from.to_owned(), source });
    }
    read_state(from)?;
    let new = dir.join("muster.db.new");
    fs::copy(from, &new).map_err(io("copying the backup to", &new))?;
    keep_private(&new).map_err(io("making", &new))?;
    sync(&new)?;
    let replaced = set_aside(dir)?;
    let path = dir.join(FILE);
    fs::rename(&new, &path).map_err(io("naming the copy", &path))?;
    sync(dir)?;
    Ok(replaced)
}

/// Moves what database there is into a folder of its own. A log left behind by a database that is
/// gone goes along: it would be taken for one of the restored one.
fn set_aside(dir: &Path) -> Result<Option<PathBuf>, StoreError> {
    let there: Vec<&str> = FILES.into_iter().filter(|name| dir.join(name).exists()).collect();
    if there.is_empty() {
        return Ok(None);
    }
    let aside = (1..=REPLACED_MAX)
        .map(|n| dir.join(format!("replaced-{n}")))
        .find(|path| !path.exists())
        .ok_or_else(|| StoreError::Exists { path: dir.join(format!("replaced-{REPLACED_MAX}")) })?;
    fs::create_dir(&aside).map_err(io("making", &aside))?;
    for name in there {
        fs::rename(dir.join(name), aside.join(name)).map_err(io("moving aside to", &aside))?;
    }
    sync(&aside)?;
    Ok(Some(aside))
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { doing, path, source }
}

fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|source| StoreError::Io {
        doing: "syncing",
        path: path.to_owned(),
        source,
    })
}
