//! A log as a past that is replayed: muster's own, or one made of lists of nodes and pods.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use muster_model::{Event, Policy, State};
use muster_sim::trace::{OpenbRuns, openb_nodes, openb_runs, unpacked};
use muster_sim::twin::{
    Finished, LogCounts, LoggedRuns, OwnLog, PolicyName, Summary, Totals, TwinError, cluster_log,
};
use muster_store::StoreError;
use muster_store::sqlite::{FILE, LogReader};

use super::common::{Replayed, Run};
use super::past::Left;
use super::placement::read as read_list;
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
    /// Its events, where it was made of lists.
    made: Option<Vec<Event>>,
    /// Pods that it leaves out.
    never_ran: u64,
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
        Ok(Self { path, made: None, never_ran: 0, begin, runs })
    }

    /// Makes one of a list of nodes and a list of pods with times, under the policy of a new daemon.
    pub(super) fn of_lists(nodes: &Path, pods: &Path, faster: f64) -> Result<Self, Failure> {
        let machine = read_list(nodes, |file| openb_nodes(unpacked(file)?))?;
        let OpenbRuns { runs, never_ran } = read_list(pods, |file| openb_runs(unpacked(file)?))?;
        let log = cluster_log(&machine, &runs, PolicyName::Muster.policy(), faster);
        let (path, made, begin) = (pods.to_owned(), Some(log.events), State::default());
        Ok(Self { path, made, never_ran, begin, runs: log.runs })
    }

    /// A replay under its own policy.
    pub(super) fn own_run(&self) -> Run {
        Run::of_log(if self.made.is_some() { "muster" } else { "as logged" })
    }

    /// Calls `take` for each event in order, until it says false.
    fn each(
        &self,
        mut take: impl FnMut(Event) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(made) = &self.made else { return LogReader::open(&self.path)?.each(take) };
        for event in made {
            if !take(event.clone())? {
                break;
            }
        }
        Ok(())
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
        let mut totals = Totals::default();
        let done = |done: &Finished| {
            watch.go_on()?;
            totals.add(done);
            row(done)
        };
        let mut log = OwnLog::new(self.begin.clone(), self.runs.clone(), run.instead(), done);
        let mut fault = None;
        let mut left = self.events();
        let read = self.each(|event| {
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
        let (mut counts, mut gpus) = (log.counts(), None);
        if fault.is_none() {
            match log.finish() {
                Ok(ended) => {
                    cpus = ended.state.nodes.values().map(|node| node.cpu_count()).sum();
                    (counts, gpus) = (ended.counts, ended.gpus);
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
        let summary = Summary { gpus, ..totals.summary(&run.name, cpus) };
        let users = totals.users().summaries();
        let left = match self.made {
            Some(_) => Left::Lists(counts, self.never_ran),
            None => Left::Log(counts),
        };
        Ok(Replayed { summary, users, left, processors: cpus })
    }
}

/// What a replay of lists left out.
pub(super) fn tell_of_lists(counts: &LogCounts, never_ran: u64) {
    let mut text = format!("{} events made of the lists", counts.events);
    for (count, what) in [
        (never_ran, "pods that never ran, left out"),
        (counts.unfit, "pods that no node can hold, left out"),
    ] {
        if count > 0 {
            let _ = write!(text, "\n{count:>8} {what}");
        }
    }
    note(&text);
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
