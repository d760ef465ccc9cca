//! The newest planning round as a file, for `muster replay`.

use muster_model::{Plan, State};
use muster_sim::{Cycle, CycleError};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a round's input and plan to a file that does not exist yet, for its owner alone: it holds
/// everybody's jobs. Returns the size.
pub(crate) fn write(file: &Path, state: State, plan: Plan) -> Result<u64, CycleError> {
    let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    let written = Cycle::new(state, plan).write(&open);
    if written.is_err() {
        // Half a file helps nobody; the first error is the one to tell.
        std::fs::remove_file(file).ok();
    }
    written?;
    Ok(open.metadata()?.len())
}
