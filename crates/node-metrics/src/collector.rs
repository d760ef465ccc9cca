//! All sources of a machine, each in a thread of its own with a deadline.
//!
//! A source that hangs (a filesystem whose server is gone, a driver) is late: what it said last
//! stays, its age grows, it is not asked again before it answers, and no other waits for it. One
//! that panics is begun anew.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::block::{disks, processes};
use crate::cgroup::usage;
use crate::commands::{Question, ask};
use crate::files::{ReadError, Skipped};
use crate::filesystems::{beegfs, gpfs, lustre, lustre_jobs, nfs, space};
use crate::gpu::source::{Gpus, Load};
use crate::gpu::{state, xid};
use crate::host::{load, memory, pressure, stat};
use crate::network::{ethtool, infiniband, interfaces};

/// What a source said.
#[derive(Clone, Debug)]
pub enum Part {
    /// CPU time.
    Stat(stat::Stat),
    /// Memory.
    Memory(memory::Memory),
    /// Load.
    Load(load::Load),
    /// Pressure.
    Pressure(pressure::Pressures),
    /// Disks.
    Disks(Vec<disks::Disk>),
    /// What processes read and write.
    Processes(Vec<processes::ProcessIo>),
    /// Network interfaces.
    Interfaces(Vec<interfaces::Interface>),
    /// What network cards say of themselves.
    Cards(Vec<ethtool::Card>),
    /// InfiniBand and RoCE ports.
    Ports(Vec<infiniband::Port>),
    /// GPUs.
    Gpus(Vec<state::GpuState>),
    /// Xid messages: address, number and what was counted.
    Xids(Vec<(String, u32, xid::Count)>),
    /// Cgroups of jobs.
    Jobs(Vec<usage::Usage>),
    /// Lustre's clients.
    Lustre(Vec<lustre::ClientStats>),
    /// Jobs on a Lustre server.
    LustreJobs(Vec<lustre_jobs::JobStats>),
    /// Storage Scale.
    Gpfs(Vec<gpfs::Filesystem>),
    /// BeeGFS: `meta` or `storage`, and its clients.
    Beegfs(Vec<(&'static str, Vec<beegfs::ClientCounts>)>),
    /// NFS.
    Nfs(Vec<nfs::Mount>),
    /// How full filesystems are.
    Spaces(Vec<space::Space>),
}

/// How a source fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was read.
    Read,
    /// This machine does not have what it tells of.
    Absent,
    /// It could not be read, and why.
    Failed(String),
    /// It has not answered yet.
    Late,
}

/// How one source fared the last time.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its name.
    pub source: &'static str,
    /// How it went.
    pub outcome: Outcome,
    /// How long the last answer took.
    pub cost: Duration,
    /// How old what it said last is.
    pub age: Option<Duration>,
    /// Lines and values left out because they could not be understood, since the beginning.
    pub skipped: u64,
    /// The first of those of the last answer.
    pub first_skipped: Option<String>,
}

/// What all sources said.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What each said last, in the order of the sources; the late and failed with what is left.
    pub parts: Vec<Arc<Part>>,
    /// How each fared.
    pub reports: Vec<Report>,
}

/// What to collect.
#[derive(Clone, Debug)]
pub struct Options {
    /// The root of the machine, or of a captured tree.
    pub root: PathBuf,
    /// How long all sources together may take before those left are late.
    pub deadline: Duration,
    /// Look at what processes read and write.
    pub processes: bool,
    /// The one instance of muster whose jobs are looked at; without it all.
    pub instance: Option<String>,
    /// The `host:port` of a DCGM exporter that is read instead of the GPUs.
    pub dcgm: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/"),
            deadline: Duration::from_secs(2),
            processes: false,
            instance: None,
            dcgm: None,
        }
    }
}

/// Reads one source.
type Reader = Box<dyn FnMut(&mut Skipped) -> Result<Part, ReadError> + Send>;

/// The sources of a machine.
pub struct Collector {
    sources: Vec<Source>,
    deadline: Duration,
}

impl Collector {
    /// Begins a thread for each source.
    pub fn new(options: &Options) -> Self {
        let sources = readers(options).into_iter().map(|(name, reader)| Source::new(name, reader));
        Self { sources: sources.collect(), deadline: options.deadline }
    }

    /// Asks all and waits until they answered or the deadline has come.
    pub fn collect(&mut self) -> Snapshot {
        let end = Instant::now() + self.deadline;
        for source in &mut self.sources {
            source.ask();
        }
        let mut snapshot = Snapshot::default();
        for source in &mut self.sources {
            source.answer(end);
            snapshot.parts.extend(source.last.as_ref().map(|(part, _)| Arc::clone(part)));
            snapshot.reports.push(source.report());
        }
        snapshot
    }
}

/// An answer: what was read, what was left out, and how long it took.
struct Answer {
    read: Result<Part, ReadError>,
    skipped: Skipped,
    cost: Duration,
}

struct Source {
    name: &'static str,
    ask: Sender<()>,
    answers: Receiver<Answer>,
    /// It was asked and has not answered.
    asked: bool,
    /// That was so already when the others were asked anew.
    asked_before: bool,
    last: Option<(Arc<Part>, Instant)>,
    outcome: Outcome,
    cost: Duration,
    skipped: u64,
    first_skipped: Option<String>,
}

impl Source {
    fn new(name: &'static str, mut reader: Reader) -> Self {
        let (ask, asked) = channel();
        let (send, answers) = channel();
        // The thread ends with the collector, or when a reading that hangs comes back after that.
        std::thread::spawn(move || {
            while asked.recv().is_ok() {
                let answer = read_once(&mut reader);
                if send.send(answer).is_err() {
                    break;
                }
            }
        });
        Self {
            name,
            ask,
            answers,
            asked: false,
            asked_before: false,
            last: None,
            outcome: Outcome::Late,
            cost: Duration::ZERO,
            skipped: 0,
            first_skipped: None,
        }
    }

    fn ask(&mut self) {
        self.asked_before = self.asked;
        if !self.asked {
            self.asked = self.ask.send(()).is_ok();
        }
    }

    fn answer(&mut self, end: Instant) {
        // Who was late before is not waited for again.
        let was_late = self.asked_before && self.outcome == Outcome::Late;
        let left =
            if was_late { Duration::ZERO } else { end.saturating_duration_since(Instant::now()) };
        let answer = match self.answers.recv_timeout(left) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                self.outcome = Outcome::Late;
                return;
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.outcome = Outcome::Failed("its thread ended".to_owned());
                return;
            }
        };
        self.asked = false;
        self.cost = answer.cost;
        self.skipped += answer.skipped.count;
        self.first_skipped = answer.skipped.first;
        self.outcome = match answer.read {
            Ok(part) => {
                self.last = Some((Arc::new(part), Instant::now()));
                Outcome::Read
            }
            Err(ReadError::Absent(_)) => {
                // What is gone (an unmount, a driver unloaded) is not told of any longer.
                self.last = None;
                Outcome::Absent
            }
            Err(why) => Outcome::Failed(why.to_string()),
        };
    }

    fn report(&self) -> Report {
        Report {
            source: self.name,
            outcome: self.outcome.clone(),
            cost: self.cost,
            age: self.last.as_ref().map(|(_, at)| at.elapsed()),
            skipped: self.skipped,
            first_skipped: self.first_skipped.clone(),
        }
    }
}

fn read_once(reader: &mut Reader) -> Answer {
    let begun = Instant::now();
    let mut skipped = Skipped::default();
    let read = catch_unwind(AssertUnwindSafe(|| reader(&mut skipped))).unwrap_or_else(|_| {
        Err(ReadError::Failed("the source".to_owned(), "its reader panicked".to_owned()))
    });
    Answer { read, skipped, cost: begun.elapsed() }
}

/// A reader of one source below a root.
macro_rules! reader {
    ($root:expr, $part:ident, |$path:ident, $skipped:ident| $read:expr) => {{
        let root: PathBuf = $root.clone();
        Box::new(move |$skipped: &mut Skipped| {
            let $path: &Path = &root;
            $read.map(Part::$part)
        }) as Reader
    }};
}

fn readers(options: &Options) -> Vec<(&'static str, Reader)> {
    let root = &options.root;
    let instance = options.instance.clone();
    let mut log = xid::Log::default();
    let (mut cards, cards_root) = (ethtool::Reader::default(), root.clone());
    let (mut spaces, spaces_root) = (space::Reader::default(), root.clone());
    let mut gpus = Gpus::new(root, options.dcgm.clone(), library());
    let mut all: Vec<(&'static str, Reader)> = vec![
        ("stat", reader!(root, Stat, |root, skipped| stat::stat(root, skipped))),
        ("memory", reader!(root, Memory, |root, skipped| memory::memory(root, skipped))),
        ("load", reader!(root, Load, |root, _skipped| load::load(root))),
        ("pressure", reader!(root, Pressure, |root, _skipped| pressure::pressures(root))),
        ("disks", reader!(root, Disks, |root, skipped| disks::disks(root, skipped))),
        (
            "interfaces",
            reader!(root, Interfaces, |root, skipped| interfaces::interfaces(root, skipped)),
        ),
        (
            "ethtool",
            Box::new(move |skipped: &mut Skipped| {
                cards.read(&cards_root, skipped).map(Part::Cards)
            }),
        ),
        ("infiniband", reader!(root, Ports, |root, skipped| infiniband::ports(root, skipped))),
        ("gpus", Box::new(move |skipped: &mut Skipped| gpus.read(skipped).map(Part::Gpus))),
        ("xid", reader!(root, Xids, |root, _skipped| counted(&mut log, root))),
        (
            "cgroups",
            reader!(root, Jobs, |root, skipped| usage::usages(root, instance.as_deref(), skipped)),
        ),
        ("lustre", reader!(root, Lustre, |root, skipped| lustre::clients(root, skipped))),
        (
            "lustre_jobs",
            reader!(root, LustreJobs, |root, skipped| lustre_jobs::jobs(root, skipped)),
        ),
        ("gpfs", reader!(root, Gpfs, |root, skipped| gpfs_answer(root, skipped))),
        ("beegfs", reader!(root, Beegfs, |root, skipped| beegfs_answers(root, skipped))),
        ("nfs", reader!(root, Nfs, |root, skipped| nfs_mounts(root, skipped))),
        (
            "space",
            Box::new(move |skipped: &mut Skipped| {
                spaces.read(&spaces_root, skipped).map(Part::Spaces)
            }),
        ),
    ];
    if options.processes {
        let read = reader!(root, Processes, |root, _skipped| Ok::<_, ReadError>(
            processes::processes(root)
        ));
        all.push(("processes", read));
    }
    all
}

fn counted(log: &mut xid::Log, root: &Path) -> Result<Vec<(String, u32, xid::Count)>, ReadError> {
    let counts = log.read(root)?;
    Ok(counts.iter().map(|((pci, xid, _), count)| (pci.clone(), *xid, count.clone())).collect())
}

fn gpfs_answer(root: &Path, skipped: &mut Skipped) -> Result<Vec<gpfs::Filesystem>, ReadError> {
    let question = Question {
        name: "mmpmon.txt",
        program: "mmpmon",
        arguments: &["-s", "-p"],
        input: "fs_io_s\n",
    };
    gpfs::parse(&ask(root, &question)?, skipped)
}

fn beegfs_answers(
    root: &Path,
    skipped: &mut Skipped,
) -> Result<Vec<(&'static str, Vec<beegfs::ClientCounts>)>, ReadError> {
    let mut found = Vec::new();
    for (kind, name, node_type) in [
        ("meta", "beegfs-meta.txt", "--nodetype=meta"),
        ("storage", "beegfs-storage.txt", "--nodetype=storage"),
    ] {
        let question = Question {
            name,
            program: "beegfs-ctl",
            arguments: &["--clientstats", node_type, "--interval=0", "--allstats"],
            input: "\n",
        };
        found.push((kind, beegfs::parse(&ask(root, &question)?, skipped)));
    }
    Ok(found)
}

fn nfs_mounts(root: &Path, skipped: &mut Skipped) -> Result<Vec<nfs::Mount>, ReadError> {
    let mounts = nfs::mounts(root, skipped)?;
    if mounts.is_empty() { Err(ReadError::Absent("nfs".to_owned())) } else { Ok(mounts) }
}

#[cfg(all(feature = "nvml", not(target_feature = "crt-static")))]
fn library() -> Load {
    Box::new(crate::gpu::nvml_state::load)
}

#[cfg(not(all(feature = "nvml", not(target_feature = "crt-static"))))]
fn library() -> Load {
    Box::new(|| Err("this program cannot load NVIDIA's library".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Collector, Options, Outcome, Part, Reader, Source};
    use crate::files::{ReadError, Skipped};
    use crate::host::load::Load;
    use crate::test_tree::tree;
    use std::time::{Duration, Instant};

    fn outcome(snapshot: &super::Snapshot, name: &str) -> Outcome {
        snapshot.reports.iter().find(|r| r.source == name).expect("a source").outcome.clone()
    }

    #[test]
    fn a_hung_source_is_late_and_takes_nobody_with_it() {
        let root = tree("proc/loadavg: 1 2 3 4/5 6");
        // Whoever opens this waits until somebody writes: a server that is gone.
        let pipe = root.path().join("proc/self/mountstats");
        std::fs::create_dir_all(pipe.parent().expect("parent")).expect("directory");
        assert!(
            std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success()
        );
        let options = Options {
            root: root.path().to_owned(),
            deadline: Duration::from_secs(2),
            ..Options::default()
        };
        let mut collector = Collector::new(&options);
        for _ in 0..2 {
            let snapshot = collector.collect();
            assert_eq!(outcome(&snapshot, "nfs"), Outcome::Late);
            assert_eq!(outcome(&snapshot, "load"), Outcome::Read);
            assert_eq!(outcome(&snapshot, "disks"), Outcome::Absent);
        }
        // Asked once only: one writer lets it go on.
        std::fs::write(&pipe, "device f:/x mounted on /x with fstype nfs\n").expect("written");
        std::fs::remove_file(&pipe).expect("removed");
        let end = Instant::now() + Duration::from_mins(1);
        let snapshot = loop {
            let snapshot = collector.collect();
            if outcome(&snapshot, "nfs") == Outcome::Read {
                break snapshot;
            }
            assert!(Instant::now() < end, "{:?}", snapshot.reports);
        };
        assert!(
            snapshot.parts.iter().any(|p| matches!(&**p, Part::Nfs(mounts) if mounts.len() == 1))
        );
    }

    #[test]
    fn what_failed_keeps_what_it_said_and_what_is_gone_is_forgotten() {
        let mut turn = 0;
        let reader: Reader = Box::new(move |skipped: &mut Skipped| {
            turn += 1;
            skipped.note("odd");
            match turn {
                1 => Ok(Part::Load(Load::default())),
                2 => panic!("on purpose"),
                3 => Err(ReadError::Denied("x".to_owned())),
                _ => Err(ReadError::Absent("x".to_owned())),
            }
        });
        let mut source = Source::new("made up", reader);
        let mut seen = Vec::new();
        for _ in 0..4 {
            source.ask();
            source.answer(Instant::now() + Duration::from_mins(1));
            seen.push((matches!(source.outcome, Outcome::Failed(_)), source.last.is_some()));
        }
        assert_eq!(seen, [(false, true), (true, true), (true, true), (false, false)]);
        assert_eq!((source.report().skipped, source.outcome), (4, Outcome::Absent));
    }

    #[test]
    fn this_machine_is_read() {
        let snapshot = Collector::new(&Options::default()).collect();
        assert_eq!(outcome(&snapshot, "load"), Outcome::Read);
        assert_eq!(outcome(&snapshot, "stat"), Outcome::Read);
        for report in &snapshot.reports {
            println!(
                "{} {:?} in {:?}, {:?}",
                report.source, report.outcome, report.cost, report.first_skipped
            );
        }
    }
}
