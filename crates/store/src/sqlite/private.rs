//! Files that only the daemon's user may read: they hold scripts and environments of others.

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

const MODE: u32 = 0o600;

/// Makes an empty file for its owner alone, or takes others' rights from one that is there.
/// What `SQLite` puts beside it (`-wal`, `-shm`) gets the same rights.
pub(super) fn keep_private(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
    if file.metadata()?.permissions().mode() & 0o777 == MODE {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(MODE))
}
