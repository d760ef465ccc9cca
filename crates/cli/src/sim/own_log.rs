//! A log of muster's own as a past that is replayed.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use muster_model::{Policy, State};
use muster_sim::twin::{Finished, LogCounts, LoggedRuns, OwnLog, Totals, TwinError};
use muster_store::StoreError;
use muster_store::sqlite::{FILE, LogReader};

use super::common::{Replayed, Run};
use super::past::Left;
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

/// A log that was gone through once: from where it begins, and how long its jobs ran.
pub(super) struct Logged {
    path: PathBuf,
    begin: State,
    runs: LoggedRuns,
}

fn failed(error: &StoreError) -> Failure {
    Failure::new(format!("{error} [{}]", error.code()))
}

impl Logged {
    /// Goes through a log.
    pub(super) fn open(path: PathBuf) -> Result<Self, Failure> {
        let reader = LogReader::open(&path).map_err(|error| failed(&error))?;
        let begin = reader.begin().map_err(|error| failed(&error))?;
        let mut runs = LoggedRuns::new(&begin);
        let learned = reader.each(|event| {
            runs.add(&event);
            Ok(true)
        });
        learned.map_err(|error| failed(&error))?;
        Ok(Self { path, begin, runs })
    }

    /// The policy that it ends with.
    pub(super) fn policy(&self) -> &Policy {
        self.runs.policy()
    }

    /// How many events there are.
    pub(super) const fn events(&self) -> u64 {
        self.runs.events()
    }

    /// Plans it anew. Whatever was written since it was opened is left for another time.
    pub(super) fn replay(
        &self,
        run: &Run,
        watch: &Watch,
        mut row: impl FnMut(&Finished) -> std::io::Result<()>,
    ) -> Result<Replayed, Failure> {
        let reader = LogReader::open(&self.path).map_err(|error| failed(&error))?;
        let mut totals = Totals::default();
        let done = |done: &Finished| {
            watch.go_on()?;
            totals.add(done);
            row(done)
        };
        let mut log = OwnLog::new(self.begin.clone(), self.runs.clone(), run.instead(), done);
        let mut fault = None;
        let mut left = self.events();
        let read = reader.each(|event| {
            if left == 0 {
                return Ok(false);
            }
            left -= 1;
            watch.passed(1);
            fault = log.add(event).err();
            Ok(fault.is_none())
        });
        read.map_err(|error| failed(&error))?;
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
            return Err(Failure::new(format!("{}: {text}", self.path.display())));
        }
        let summary = totals.summary(&run.name, cpus);
        let users = totals.users().summaries();
        Ok(Replayed { summary, users, left: Left::Log(counts), processors: cpus })
    }
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
