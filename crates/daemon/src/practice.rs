//! What a state directory was set up with: this machine as it is, or practice nodes.
//!
//! Jobs of practice nodes cannot run on the machine itself and the other way round, so a directory
//! with jobs that are not over stays what it is.

use crate::error::DaemonError;
use crate::setup::Setup;
use muster_config::Practice;
use muster_store::sqlite;
use std::path::{Path, PathBuf};

/// The file in the state directory: `4x8 option`, `4x8 config` or `none`.
const FILE: &str = "practice";

/// The database in the state directory.
const DATABASE: &str = "muster.db";

/// What was in force when the directory was last used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remembered {
    practice: Option<Practice>,
    /// It came from the command line, which need not say it again.
    by_option: bool,
}

/// Settles what is in force now; a word for people where it was not asked for.
///
/// # Errors
/// [`DaemonError::PracticeChanged`] where jobs that are not over wait for other nodes.
pub(crate) fn settle(setup: &mut Setup) -> Result<Option<String>, DaemonError> {
    let Some(before) = read(&setup.state_dir) else { return Ok(None) };
    let wanted = setup.config.local.practice;
    if before.practice == wanted {
        return Ok(None);
    }
    if let (Some(size), None, true) = (before.practice, wanted, before.by_option) {
        setup.remember_practice(size);
        let dir = setup.state_dir.display();
        return Ok(Some(format!("{dir} is for practice nodes ({size}): they are used again")));
    }
    let unfinished = unfinished(&setup.state_dir)?;
    if unfinished == 0 {
        return Ok(None);
    }
    let dir = setup.state_dir.clone();
    Err(DaemonError::PracticeChanged {
        dir,
        was: said(before.practice),
        now: said(wanted),
        unfinished,
    })
}

/// Notes what is in force for the next start.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn note(setup: &Setup) -> Result<(), DaemonError> {
    let path = setup.state_dir.join(FILE);
    let text = match setup.config.local.practice {
        Some(size) if setup.practice_by_option() => format!("{size} option\n"),
        Some(size) => format!("{size} config\n"),
        None => "none\n".to_owned(),
    };
    let failed = |path: PathBuf| |source| DaemonError::Path { path, source };
    let new = path.with_extension("new");
    std::fs::write(&new, text).map_err(failed(new.clone()))?;
    std::fs::rename(&new, &path).map_err(failed(path))
}

/// A file that says nothing known is as none: the store decides nothing by it.
fn read(dir: &Path) -> Option<Remembered> {
    let text = std::fs::read_to_string(dir.join(FILE)).ok()?;
    let mut words = text.split_whitespace();
    match (words.next()?, words.next()) {
        ("none", None) => Some(Remembered { practice: None, by_option: false }),
        (size, Some(from)) => {
            Some(Remembered { practice: Some(size.parse().ok()?), by_option: from == "option" })
        }
        _ => None,
    }
}

fn unfinished(dir: &Path) -> Result<usize, DaemonError> {
    let database = dir.join(DATABASE);
    if !database.exists() {
        return Ok(0);
    }
    let state = sqlite::read_state(&database)?;
    Ok(state.index.pending.len() + state.index.active.len())
}

fn said(practice: Option<Practice>) -> String {
    practice.map_or("this machine itself".to_owned(), |size| format!("practice nodes ({size})"))
}
