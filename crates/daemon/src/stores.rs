//! The store of a state directory.

use crate::error::DaemonError;
use muster_store::{SqliteStore, Store};
use std::path::Path;

/// Opens the store for writing.
///
/// # Errors
/// It is in use, newer than this build, or damaged.
pub(crate) fn open(state_dir: &Path) -> Result<Box<dyn Store>, DaemonError> {
    Ok(Box::new(SqliteStore::open(state_dir)?))
}
