//! `muster sim replay` on a log of muster's own.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use muster_sim::twin::{Finished, LogCounts, LoggedRuns, OwnLog, PolicyName, Totals, TwinError};
use muster_store::StoreError;
use muster_store::sqlite::{FILE, LogReader};

use super::common::Replayed;
use super::watch::Watch;
use crate::say::{Failure, note};

/// How an SQLite database begins (<https://www.sqlite.org/fileformat.html>, 1.3).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The database with the log, where the path is one or the state directory that holds one.
pub(super) fn database(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.join(FILE));
    }
    let mut begin = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut begin)).ok()?;
    (begin == *MAGIC).then(|| path.to_owned())
}

/// Plans a log anew; without a policy, under that of the log. Two passes: the first learns how long
/// jobs ran, the second replays.
pub(super) fn replay(
    path: &Path,
    policy: Option<PolicyName>,
    watch: &Watch,
    mut row: impl FnMut(&Finished) -> std::io::Result<()>,
) -> Result<(Replayed, LogCounts), Failure> {
    let failed = |error: StoreError| Failure::new(format!("{error} [{}]", error.code()));
    let reader = LogReader::open(path).map_err(failed)?;
    let begin = reader.begin().map_err(failed)?;
    let mut logged = LoggedRuns::new(&begin);
    let learned = reader.each(|event| {
        logged.add(&event);
        Ok(true)
    });
    learned.map_err(failed)?;
    let mut totals = Totals::default();
    let done = |done: &Finished| {
        watch.go_on()?;
        totals.add(done);
        row(done)
    };
    let mut log = OwnLog::new(begin, logged, policy.map(PolicyName::policy), done);
    let mut fault = None;
    let read = reader.each(|event| {
        fault = log.add(event).err();
        Ok(fault.is_none())
    });
    read.map_err(failed)?;
    let mut cpus: u32 = log.state().nodes.values().map(|node| node.cpu_count()).sum();
    let mut counts = log.counts();
    if fault.is_none() {
        match log.finish() {
            Ok((all, state)) => {
                cpus = state.nodes.values().map(|node| node.cpu_count()).sum();
                counts = all;
            }
            Err(error) => fault = Some(error),
        }
    }
    match fault {
        Some(TwinError::Out(_)) if watch.is_interrupted() => {}
        Some(error) => return Err(Failure::new(error.to_string())),
        None => {}
    }
    if totals.jobs() == 0 && !watch.is_interrupted() {
        let text = "no job of the log ended: E_TRACE_EMPTY";
        return Err(Failure::new(format!("{}: {text}", path.display())));
    }
    let name = policy.map_or_else(|| "as logged".to_owned(), |name| name.to_string());
    let summary = totals.summary(&name, cpus);
    let users = totals.users().summaries();
    let (processors, none) = (cpus, muster_sim::trace::Counts::default());
    Ok((Replayed { summary, users, counts: none, processors }, counts))
}

/// What was left out or made anew.
pub(super) fn tell_of(counts: &LogCounts) {
    let mut text = format!(
        "{} events in the log\n{:>8} decisions and answers to them, made anew",
        counts.events, counts.made_anew
    );
    for (count, what) in [
        (counts.unfit, "inputs that did not fit any more"),
        (counts.endless, "jobs that the log does not see end: they took their limits"),
    ] {
        if count > 0 {
            let _ = write!(text, "\n{count:>8} {what}");
        }
    }
    note(&text);
}
