//! Everything that is stored in one file, and back.

use crate::commands::say;
use crate::error::DaemonError;
use crate::setup::{Setup, UpOptions};
use muster_engine::{Engine as _, Order};
use muster_model::{JobId, Seconds};
use muster_store::{StoreError, sqlite};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The database in the state directory.
const DATABASE: &str = "muster.db";

/// How long jobs that nobody knows may take to end.
const SWEEP_WAIT: Duration = Duration::from_mins(1);

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
    may_read(&dir)?;
    let (bytes, seq) = write(&dir, file)?;
    say(&format!("wrote {} ({bytes} bytes, up to event {seq})\n", file.display()));
    Ok(())
}

/// `muster restore FILE`.
pub(crate) fn restore(file: &Path, state: Option<PathBuf>) -> Result<(), DaemonError> {
    let setup = setup(state)?;
    let dir = &setup.state_dir;
    crate::serve::make_state_dir(dir)?;
    let replaced = sqlite::restore(file, dir)?;
    say(&format!("restored {} into {}\n", file.display(), dir.display()));
    if let Some(aside) = replaced {
        say(&format!("what was there is kept in {}\n", aside.display()));
    }
    let ended = sweep(&setup)?;
    if ended > 0 {
        say(&format!("ended {ended} running jobs that the backup does not know\n"));
    }
    say(
        "jobs that ran when the backup was written and are gone since end as lost at the next start\n",
    );
    Ok(())
}

fn state_dir(state: Option<PathBuf>) -> Result<PathBuf, DaemonError> {
    Ok(setup(state)?.state_dir)
}

fn setup(state: Option<PathBuf>) -> Result<Setup, DaemonError> {
    Setup::of(&UpOptions { state, ..UpOptions::default() })
}

/// What is stored is for the daemon's user alone.
fn may_read(dir: &Path) -> Result<(), DaemonError> {
    let Err(error) = std::fs::File::open(dir.join(DATABASE)) else { return Ok(()) };
    if error.kind() != std::io::ErrorKind::PermissionDenied {
        // The store says it better.
        return Ok(());
    }
    let uid = std::fs::metadata(dir).map_or(0, |data| data.uid());
    Err(DaemonError::AdminOnly { what: "write a backup", dir: dir.to_owned(), uid })
}

/// Ends and forgets what ran here and what the restored store does not know, so that its ids can
/// be given again; returns how many ran.
fn sweep(setup: &Setup) -> Result<usize, DaemonError> {
    if !setup.state_dir.join("jobs").exists() {
        return Ok(0);
    }
    let state = sqlite::read_state(&setup.state_dir.join(DATABASE))?;
    let known = |job: &JobId, attempt: u32| {
        state.index.active.contains(job) && state.job(*job).is_some_and(|j| j.attempt == attempt)
    };
    let failed = |error: muster_engine::EngineError| DaemonError::Engine(error.to_string());
    let engine = crate::engines::start_local(setup)?;
    let (tell, changes) = std::sync::mpsc::sync_channel(1);
    // One waiting word is as good as many: each means to look again.
    engine.watch(Arc::new(move |_| {
        let _ = tell.try_send(());
    }));
    let deadline = Instant::now() + SWEEP_WAIT;
    let mut ended = BTreeSet::new();
    loop {
        let inventory = engine.inventory().map_err(failed)?;
        for (job, attempt, _) in inventory.exited.iter().filter(|e| !known(&e.0, e.1)) {
            let order = Order::Acknowledge { job: *job, attempt: *attempt };
            engine.execute(0, &order).map_err(failed)?;
        }
        let strays: Vec<_> =
            inventory.running.iter().filter(|r| !known(&r.job, r.attempt)).collect();
        if strays.is_empty() {
            return Ok(ended.len());
        }
        for stray in strays.iter().filter(|r| ended.insert((r.job, r.attempt))) {
            let (job, attempt) = (stray.job, stray.attempt);
            let order = Order::Stop { job, attempt, cause: None, grace: Seconds(0) };
            engine.execute(0, &order).map_err(failed)?;
        }
        if Instant::now() > deadline {
            let job = strays[0].job;
            return Err(DaemonError::Engine(format!("job {job} of before does not end")));
        }
        // Also looks by itself: a word may have come before anybody listened.
        let _ = changes.recv_timeout(Duration::from_millis(500));
    }
}
