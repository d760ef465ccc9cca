//! Everything that is stored in one file, and back.

use crate::commands::say;
use crate::error::DaemonError;
use crate::setup::{Setup, UpOptions};
use muster_store::{StoreError, sqlite};
use std::path::{Path, PathBuf};

/// Writes a backup of a state directory, in use or not. Returns its size and last event.
pub(crate) fn write(state_dir: &Path, file: &Path) -> Result<(u64, u64), StoreError> {
    sqlite::backup(state_dir, file)?;
    let state = sqlite::read_state(file)?;
    let bytes = std::fs::metadata(file).map_or(0, |data| data.len());
    Ok((bytes, state.seq))
}

/// `muster backup FILE`.
pub(crate) fn command(file: &Path, state: Option<PathBuf>) -> Result<(), DaemonError> {
    let dir = state_dir(state)?;
    let (bytes, seq) = write(&dir, file)?;
    say(&format!("wrote {} ({bytes} bytes, up to event {seq})\n", file.display()));
    Ok(())
}

/// `muster restore FILE`.
pub(crate) fn restore(file: &Path, state: Option<PathBuf>) -> Result<(), DaemonError> {
    let dir = state_dir(state)?;
    crate::serve::make_state_dir(&dir)?;
    let replaced = sqlite::restore(file, &dir)?;
    say(&format!("restored {} into {}\n", file.display(), dir.display()));
    if let Some(aside) = replaced {
        say(&format!("what was there is kept in {}\n", aside.display()));
    }
    say("at the next start: jobs that ran when the backup was written and are gone since end as\n");
    say("lost; jobs that run now and are not in the backup are stopped\n");
    Ok(())
}

fn state_dir(state: Option<PathBuf>) -> Result<PathBuf, DaemonError> {
    let options = UpOptions { state, ..UpOptions::default() };
    Ok(Setup::of(&options)?.state_dir)
}
