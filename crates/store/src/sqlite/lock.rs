//! One writer for a state directory, by a locked file that names it.

use super::LOCK;
use crate::StoreError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Held as long as the store is open. The kernel lets it go with the process, however that ends.
pub(super) struct Lock(File);

impl Drop for Lock {
    /// Lets go by name: closing would not where a process that is just being forked has a copy of
    /// the descriptor.
    fn drop(&mut self) {
        // The kernel lets go at the end of the process at the latest.
        self.0.unlock().ok();
    }
}

impl Lock {
    pub(super) fn take(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(LOCK);
        let io = |doing| {
            let path = path.clone();
            move |source: std::io::Error| match source.kind() {
                std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                    StoreError::ReadOnly { path }
                }
                std::io::ErrorKind::StorageFull => StoreError::Full { path },
                _ => StoreError::Io { doing, path, source },
            }
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io("opening"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // What is in the file only helps the reader of the message.
                drop(file.take(32).read_to_string(&mut pid));
                let pid = Some(pid.trim().to_owned()).filter(|p| !p.is_empty());
                let pid = pid.unwrap_or_else(|| "?".to_owned());
                return Err(StoreError::Locked { dir: dir.to_owned(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(io("locking")(error)),
        }
        file.set_len(0).map_err(io("writing"))?;
        file.seek(SeekFrom::Start(0)).map_err(io("writing"))?;
        writeln!(file, "{}", std::process::id()).map_err(io("writing"))?;
        Ok(Self(file))
    }
}
