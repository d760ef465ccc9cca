//! What an engine that hands jobs to another scheduler knows of each attempt, durable where it must
//! survive: a journal of lines beside what is in memory.
//!
//! An attempt is written down before the other is asked to run it, so that one whose answer got lost
//! is looked for there by its mark and never asked for twice.

use crate::{EngineError, Inventory, Launch, Running};
use muster_model::{CpuSet, ExitReport, JobId, Node, Owner, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Beyond this it is written anew with what is still open.
const BYTES_MAX: u64 = 4 << 20;

/// How many acknowledged attempts are remembered, against a launch order that comes late.
const ACKNOWLEDGED_MAX: usize = 100_000;

/// An attempt of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The job.
    pub job: JobId,
    /// Which start of it.
    pub attempt: u32,
}

/// What muster counts an attempt as on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// The node's name.
    pub node: String,
    /// Its CPUs there.
    pub cpus: CpuSet,
    /// Its devices there, by index.
    pub devices: Vec<u32>,
}

impl Spot {
    /// What muster counts a launch as: a spot on each of its nodes.
    pub fn of(launch: &Launch) -> Vec<Self> {
        let shares = launch.job.placement.iter().flat_map(|placement| &placement.nodes);
        let spots = shares.zip(&launch.nodes).map(|(share, node)| Self {
            node: node.name.clone(),
            cpus: share.cpus.clone(),
            devices: share.devices.iter().map(|grant| grant.index).collect(),
        });
        spots.collect()
    }
}

/// One line of the journal.
#[derive(Serialize, Deserialize)]
enum Line {
    /// The first line: whose marks these are.
    Instance(String),
    Fence(u64),
    Highest(JobId),
    Accepted {
        key: Key,
        at: Timestamp,
        owner: Owner,
        spots: Vec<Spot>,
    },
    Submitted {
        key: Key,
        id: u32,
    },
    Stopping(Key),
    Signalled {
        key: Key,
        number: u32,
    },
    Exited {
        key: Key,
        report: ExitReport,
    },
    Acknowledged(Key),
}

/// Where an attempt stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It was handed over, or may have been, and does not run yet.
    Accepted,
    /// It runs since then.
    Running(Timestamp),
    /// It is over.
    Exited(ExitReport),
}

/// One attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Where it stands.
    pub phase: Phase,
    /// When it was accepted; `default` where it never was.
    pub accepted: Timestamp,
    /// Whose it is.
    pub owner: Owner,
    /// What muster counts it as.
    pub spots: Vec<Spot>,
    /// The number that it has there; `None` while no answer is known, or where names do.
    pub id: Option<u32>,
    /// It ends because muster said so.
    pub stopping: bool,
    /// The highest signal number delivered.
    pub signalled: u32,
    /// It stands still.
    pub suspended: bool,
    /// When the final end is due.
    pub kill_at: Option<Instant>,
    /// Since when it is not listed there.
    pub unseen: Option<Instant>,
}

impl Attempt {
    fn new(phase: Phase, accepted: Timestamp, owner: Owner, spots: Vec<Spot>) -> Self {
        Self {
            phase,
            accepted,
            owner,
            spots,
            id: None,
            stopping: false,
            signalled: 0,
            suspended: false,
            kill_at: None,
            unseen: None,
        }
    }

    /// True where it is not over.
    pub const fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Exited(_))
    }
}

/// All attempts not yet acknowledged, and the journal.
pub struct Book {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// The last line may have been cut short.
    torn: bool,
    instance: String,
    fence: u64,
    highest: JobId,
    known: BTreeMap<Key, Attempt>,
    acknowledged: BTreeSet<Key>,
    order: VecDeque<Key>,
}

impl Book {
    /// Reads the journal, or begins one.
    ///
    /// # Errors
    /// The file in this folder cannot be used.
    pub fn open(state: &Path, name: &str) -> io::Result<Self> {
        fs::create_dir_all(state)?;
        let path = state.join(name);
        let mut book = Self {
            file: OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?,
            path,
            bytes: 0,
            torn: false,
            instance: String::new(),
            fence: 0,
            highest: JobId(0),
            known: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            order: VecDeque::new(),
        };
        let mut lines = BufReader::new(File::open(&book.path)?);
        let mut text = Vec::new();
        while lines.read_until(b'\n', &mut text)? > 0 {
            // One that was cut short was not waited for.
            if let Ok(line) = serde_json::from_slice(&text) {
                book.take(line);
            }
            text.clear();
        }
        if book.instance.is_empty() {
            book.instance = new_instance()?;
        }
        book.write_anew()?;
        Ok(book)
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Instance(instance) => self.instance = instance,
            Line::Fence(fence) => self.fence = self.fence.max(fence),
            Line::Highest(job) => self.highest = self.highest.max(job),
            Line::Accepted { key, at, owner, spots } => {
                self.highest = self.highest.max(key.job);
                self.known.insert(key, Attempt::new(Phase::Accepted, at, owner, spots));
            }
            Line::Submitted { key, id } => self.change(key, |attempt| attempt.id = Some(id)),
            Line::Stopping(key) => self.change(key, |attempt| attempt.stopping = true),
            Line::Signalled { key, number } => {
                self.change(key, |attempt| attempt.signalled = number);
            }
            Line::Exited { key, report } => {
                self.highest = self.highest.max(key.job);
                let begun = self.known.remove(&key);
                let (at, owner) = begun.map_or_else(Default::default, |a| (a.accepted, a.owner));
                let over = Attempt::new(Phase::Exited(report), at, owner, Vec::new());
                self.known.insert(key, over);
            }
            Line::Acknowledged(key) => {
                self.known.remove(&key);
            }
        }
    }

    /// Changes what is in memory of an attempt.
    pub fn change(&mut self, key: Key, how: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = self.known.get_mut(&key) {
            how(attempt);
        }
    }

    /// Whose marks its jobs carry there.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The highest job that was ever accepted or stopped here.
    pub const fn highest(&self) -> JobId {
        self.highest
    }

    /// An attempt that is not acknowledged.
    pub fn get(&self, key: Key) -> Option<&Attempt> {
        self.known.get(&key)
    }

    /// All that are not acknowledged, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Attempt)> {
        self.known.iter()
    }

    /// All of them as an inventory, with these nodes.
    pub fn inventory(&self, nodes: Vec<Node>) -> Inventory {
        let mut inventory = Inventory { nodes, highest: self.highest, ..Inventory::default() };
        for (key, attempt) in &self.known {
            let started = match &attempt.phase {
                Phase::Exited(report) => {
                    inventory.exited.push((key.job, key.attempt, report.clone()));
                    continue;
                }
                Phase::Running(started) => Some(*started),
                Phase::Accepted => None,
            };
            inventory.running.push(Running {
                job: key.job,
                attempt: key.attempt,
                started,
                suspended: attempt.suspended,
                signalled: attempt.signalled,
                steps: Vec::new(),
            });
        }
        inventory
    }

    /// True where its exit is stored elsewhere, as far as that is remembered.
    pub fn is_acknowledged(&self, key: Key) -> bool {
        self.acknowledged.contains(&key)
    }

    /// Refuses an order of somebody who is no writer any more.
    ///
    /// # Errors
    /// [`EngineError::Fenced`]; inside, that the fence cannot be written down.
    pub fn check_fence(&mut self, fence: u64) -> Result<io::Result<()>, EngineError> {
        if fence < self.fence {
            return Err(EngineError::Fenced { fence, seen: self.fence });
        }
        if fence == self.fence {
            return Ok(Ok(()));
        }
        let noted = self.note(&Line::Fence(fence), true);
        if noted.is_ok() {
            self.fence = fence;
        }
        Ok(noted)
    }

    /// An attempt that is about to be handed over.
    ///
    /// # Errors
    /// It cannot be written down, as with everything below.
    pub fn accept(
        &mut self,
        key: Key,
        at: Timestamp,
        owner: Owner,
        spots: Vec<Spot>,
    ) -> io::Result<()> {
        self.write(Line::Accepted { key, at, owner, spots }, true)
    }

    /// The number of an attempt there. One that gets lost is found again by its mark.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn submitted(&mut self, key: Key, id: u32) -> io::Result<()> {
        self.write(Line::Submitted { key, id }, false)
    }

    /// It ends because muster said so.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn stopping(&mut self, key: Key) -> io::Result<()> {
        match self.known.get(&key) {
            Some(attempt) if !attempt.stopping => self.write(Line::Stopping(key), true),
            _ => Ok(()),
        }
    }

    /// The highest signal number that was, or is being, delivered.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn signalled(&mut self, key: Key, number: u32) -> io::Result<()> {
        self.write(Line::Signalled { key, number }, true)
    }

    /// It is over.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn exited(&mut self, key: Key, report: ExitReport) -> io::Result<()> {
        self.write(Line::Exited { key, report }, true)
    }

    /// Its exit is stored elsewhere.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn acknowledge(&mut self, key: Key) -> io::Result<()> {
        if !self.known.contains_key(&key) {
            return Ok(());
        }
        self.write(Line::Acknowledged(key), false)?;
        if self.acknowledged.insert(key) {
            self.order.push_back(key);
        }
        while self.order.len() > ACKNOWLEDGED_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.acknowledged.remove(&oldest);
            }
        }
        Ok(())
    }

    fn write(&mut self, line: Line, synced: bool) -> io::Result<()> {
        self.note(&line, synced)?;
        self.take(line);
        if self.bytes > BYTES_MAX { self.write_anew() } else { Ok(()) }
    }

    fn note(&mut self, line: &Line, synced: bool) -> io::Result<()> {
        let mut text = if self.torn { b"\n".to_vec() } else { Vec::new() };
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
        self.torn = true;
        self.file.write_all(&text)?;
        self.torn = false;
        self.bytes += text.len() as u64;
        if synced { self.file.sync_data() } else { Ok(()) }
    }

    fn write_anew(&mut self) -> io::Result<()> {
        let mut lines = vec![
            Line::Instance(self.instance.clone()),
            Line::Fence(self.fence),
            Line::Highest(self.highest),
        ];
        for (&key, attempt) in &self.known {
            if let Phase::Exited(report) = &attempt.phase {
                lines.push(Line::Exited { key, report: report.clone() });
                continue;
            }
            let (owner, spots) = (attempt.owner.clone(), attempt.spots.clone());
            lines.push(Line::Accepted { key, at: attempt.accepted, owner, spots });
            lines.extend(attempt.id.map(|id| Line::Submitted { key, id }));
            lines.extend(attempt.stopping.then_some(Line::Stopping(key)));
            let number = attempt.signalled;
            lines.extend((number > 0).then_some(Line::Signalled { key, number }));
        }
        let mut text = Vec::new();
        for line in &lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        let new = self.path.with_extension("log.new");
        // One of an earlier try, cut short by a crash, is replaced.
        fs::remove_file(&new).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let mut file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&new)?;
        file.write_all(&text)?;
        file.sync_data()?;
        fs::rename(&new, &self.path)?;
        (self.file, self.bytes, self.torn) = (file, text.len() as u64, false);
        Ok(())
    }
}

/// Six bytes that no other muster has.
fn new_instance() -> io::Result<String> {
    let mut text = unguessable()?;
    text.truncate(12);
    Ok(text)
}

/// Sixteen bytes that nobody can guess, as 32 hexadecimal digits.
///
/// # Errors
/// The system has no random numbers.
pub fn unguessable() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::{EndCause, ExitStatus, Usage};

    const JOURNAL: &str = "attempts.log";

    fn key(job: u32) -> Key {
        Key { job: JobId(job), attempt: 1 }
    }

    fn over() -> ExitReport {
        ExitReport {
            status: ExitStatus { code: 7, signal: 0 },
            cause: EndCause::Exited,
            started: None,
            ended: Timestamp::from_secs(9),
            usage: Usage::default(),
            message: String::new(),
            steps: Vec::new(),
        }
    }

    #[test]
    fn what_must_survive_survives_twice() {
        let state = tempfile::tempdir().expect("a folder");
        let mut book = Book::open(state.path(), JOURNAL).expect("opened");
        let instance = book.instance().to_owned();
        book.check_fence(3).expect("taken").expect("noted");
        let spot = Spot { node: "n1".to_owned(), cpus: CpuSet::first(2), devices: vec![1] };
        for job in 1..=4 {
            let at = Timestamp::from_secs(5);
            book.accept(key(job), at, Owner::default(), vec![spot.clone()]).expect("noted");
        }
        book.submitted(key(1), 77).expect("noted");
        book.stopping(key(1)).expect("noted");
        book.signalled(key(1), 2).expect("noted");
        book.exited(key(2), over()).expect("noted");
        book.acknowledge(key(3)).expect("noted");
        for _ in 0..2 {
            let mut book = Book::open(state.path(), JOURNAL).expect("opened");
            assert_eq!((book.instance(), book.highest()), (instance.as_str(), JobId(4)));
            let one = book.get(key(1)).expect("there").clone();
            assert_eq!((one.id, one.stopping, one.signalled), (Some(77), true, 2));
            assert_eq!((one.phase, one.spots), (Phase::Accepted, vec![spot.clone()]));
            let two = &book.get(key(2)).expect("there").phase;
            assert_eq!(*two, Phase::Exited(over()));
            assert!(book.get(key(3)).is_none());
            assert_eq!(book.get(key(4)).map(|four| four.id), Some(None));
            let older = book.check_fence(2).expect_err("refused");
            assert_eq!(older, EngineError::Fenced { fence: 2, seen: 3 });
        }
    }

    #[test]
    fn a_line_that_was_cut_short_is_left_out_and_the_next_one_is_whole() {
        let state = tempfile::tempdir().expect("a folder");
        let mut book = Book::open(state.path(), JOURNAL).expect("opened");
        book.accept(key(1), Timestamp::default(), Owner::default(), Vec::new()).expect("noted");
        let file = state.path().join(JOURNAL);
        let mut text = fs::read_to_string(&file).expect("text");
        text.push_str("{\"Accepted\":{\"key\":");
        fs::write(&file, text).expect("written");
        let mut book = Book::open(state.path(), JOURNAL).expect("opened");
        book.accept(key(2), Timestamp::default(), Owner::default(), Vec::new()).expect("noted");
        let book = Book::open(state.path(), JOURNAL).expect("opened");
        assert_eq!(book.iter().count(), 2);
    }
}
