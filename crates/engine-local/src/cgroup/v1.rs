//! cgroup v1: one hierarchy holds the job, others limit it where a limit is wanted.
//!
//! Moving a process between cgroups waits for the kernel's readers, about 13 ms when nothing else
//! moves. So a job is born into the unified hierarchy where there is one beside v1, limits that
//! nobody asked for are not set, and CPUs are bound by affinity first and by cpuset a little later.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sched::{sched_getaffinity, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::{
    GroupLimits, collect_pids, cpu_list, kill_all, read_keyed, read_number, read_pids, v2, write,
};

/// Our directory in each hierarchy that is there and may be written.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) track: Track,
    pub(super) cpuset: Option<PathBuf>,
    pub(super) memory: Option<PathBuf>,
    pub(super) pids: Option<PathBuf>,
    pub(super) devices: Option<PathBuf>,
}

/// The hierarchy that holds jobs together.
#[derive(Clone, Debug)]
pub(super) enum Track {
    /// The unified one beside v1: a process can be born into it, where moving one costs 13 ms.
    Unified(v2::Root),
    /// The freezer's.
    Freezer(PathBuf),
}

/// One job's directories.
#[derive(Debug)]
pub(crate) struct Group {
    hold: Hold,
    cpuset: Option<SharedCpus>,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    devices: Option<PathBuf>,
    is_step: bool,
}

/// What holds the job together.
#[derive(Debug)]
enum Hold {
    Unified(v2::Group),
    Freezer(PathBuf),
}

/// A cpuset shared by all jobs on the same CPUs; it is never removed with a job.
#[derive(Clone, Debug)]
struct SharedCpus {
    directory: PathBuf,
    list: String,
}

/// Device number of NVIDIA's GPUs (`Documentation/admin-guide/devices.txt`).
const NVIDIA_MAJOR: u32 = 195;

/// How often a freeze is looked at before killing goes on without it: a process in an
/// uninterruptible wait cannot be frozen.
const FREEZE_LOOKS_MAX: usize = 100;
/// How long between two looks.
const FREEZE_PAUSE: Duration = Duration::from_millis(1);

impl Root {
    pub(super) fn create(&self, name: &str, limits: &GroupLimits<'_>) -> io::Result<Group> {
        let hold = match &self.track {
            Track::Unified(root) => Hold::Unified(root.create(name, &GroupLimits::default())?),
            Track::Freezer(base) => {
                make(&base.join(name))?;
                Hold::Freezer(base.join(name))
            }
        };
        let mut group =
            Group { hold, cpuset: None, memory: None, pids: None, devices: None, is_step: false };
        if let (Some(base), false) = (&self.cpuset, limits.cpu_ids.is_empty()) {
            let list = cpu_list(limits.cpu_ids);
            group.cpuset = Some(SharedCpus { directory: base.join(format!("cpus-{list}")), list });
        }
        if let (Some(base), Some(mib)) = (&self.memory, limits.memory_mib) {
            group.memory = Some(limit_memory(base.join(name), mib)?);
        }
        if let (Some(base), Some(most)) = (&self.pids, limits.processes_max) {
            let directory = base.join(name);
            make(&directory)?;
            write(&directory.join("pids.max"), &most.to_string())?;
            group.pids = Some(directory);
        }
        if let (Some(base), false) = (&self.devices, limits.denied_gpu_minors.is_empty()) {
            let directory = base.join(name);
            make(&directory)?;
            for minor in limits.denied_gpu_minors {
                write(&directory.join("devices.deny"), &format!("c {NVIDIA_MAJOR}:{minor} rwm"))?;
            }
            group.devices = Some(directory);
        }
        Ok(group)
    }
}

impl Root {
    pub(super) fn directories(&self, name: &str) -> Vec<PathBuf> {
        let track = match &self.track {
            Track::Unified(root) => &root.base,
            Track::Freezer(base) => base,
        };
        [Some(track), self.memory.as_ref(), self.pids.as_ref(), self.devices.as_ref()]
            .into_iter()
            .flatten()
            .map(|base| base.join(name))
            .collect()
    }
}

impl Root {
    /// The instance's own directories, those within others first.
    pub(super) fn bases(&self) -> Vec<PathBuf> {
        let shared = self.cpuset.iter().filter_map(|base| fs::read_dir(base).ok());
        let shared = shared.flatten().flatten().map(|entry| entry.path()).filter(|p| p.is_dir());
        shared.chain(self.cpuset.clone()).chain(self.directories("")).collect()
    }
}

fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", directory.display()))),
        Ok(()) => Ok(()),
    }
}

fn limit_memory(directory: PathBuf, mib: u64) -> io::Result<PathBuf> {
    make(&directory)?;
    let bytes = mib.saturating_mul(1 << 20).to_string();
    write(&directory.join("memory.limit_in_bytes"), &bytes)?;
    let with_swap = directory.join("memory.memsw.limit_in_bytes");
    if with_swap.exists() {
        write(&with_swap, &bytes)?;
    }
    Ok(directory)
}

impl Group {
    /// The directory that a process can be born into.
    pub(super) fn birthplace(&self) -> Option<&Path> {
        match &self.hold {
            Hold::Unified(group) => Some(group.path()),
            Hold::Freezer(_) => None,
        }
    }

    /// Enters what the process was not born into. The cpuset follows later, see
    /// [`Group::bind_cpus`].
    pub(super) fn enter(&self, born_here: bool) -> io::Result<()> {
        match &self.hold {
            Hold::Unified(group) => group.enter(born_here)?,
            Hold::Freezer(directory) => write(&directory.join("cgroup.procs"), "0")?,
        }
        for directory in [&self.memory, &self.pids, &self.devices].into_iter().flatten() {
            write(&directory.join("cgroup.procs"), "0")?;
        }
        Ok(())
    }

    pub(super) fn child(&self, name: &str) -> io::Result<Self> {
        let hold = match &self.hold {
            Hold::Unified(group) => Hold::Unified(group.child(name)?),
            Hold::Freezer(directory) => {
                make(&directory.join(name))?;
                Hold::Freezer(directory.join(name))
            }
        };
        Ok(Self {
            hold,
            cpuset: self.cpuset.clone(),
            memory: self.memory.clone(),
            pids: self.pids.clone(),
            devices: self.devices.clone(),
            is_step: true,
        })
    }

    /// Moves all processes into the cpuset of their CPUs; what they start stays there.
    pub(super) fn bind_cpus(&self) -> io::Result<()> {
        let Some(shared) = &self.cpuset else { return Ok(()) };
        shared.make()?;
        for _ in 0..BIND_ROUNDS {
            let mut inside = Vec::new();
            read_pids(&shared.directory, &mut inside);
            inside.sort_unstable();
            let outside: Vec<i32> =
                self.pids().into_iter().filter(|pid| inside.binary_search(pid).is_err()).collect();
            if outside.is_empty() {
                return Ok(());
            }
            for pid in outside {
                // Before Linux 6.2 the move forgets what a task was bound to inside of it.
                let bound = sched_getaffinity(Pid::from_raw(pid));
                // One that is gone meanwhile needs no CPUs.
                write(&shared.directory.join("cgroup.procs"), &pid.to_string()).ok();
                bound.and_then(|cpus| sched_setaffinity(Pid::from_raw(pid), &cpus)).ok();
            }
        }
        Ok(())
    }

    pub(super) fn pids(&self) -> Vec<i32> {
        match &self.hold {
            Hold::Unified(group) => group.pids(),
            Hold::Freezer(directory) => {
                let mut pids = Vec::new();
                collect_pids(directory, &mut pids);
                pids
            }
        }
    }

    /// Freezes, so that nothing forks meanwhile, kills all, and thaws, so that they can die.
    pub(super) fn kill(&self) -> bool {
        let directory = match &self.hold {
            Hold::Unified(group) => return group.kill(),
            Hold::Freezer(directory) => directory,
        };
        let mut pids = self.pids();
        if pids.is_empty() {
            return true;
        }
        // A failed freeze only means more rounds.
        self.freeze(true).ok();
        wait_frozen(directory);
        pids.extend(self.pids());
        kill_all(&pids, Signal::SIGKILL);
        self.freeze(false).ok();
        false
    }

    pub(super) fn freeze(&self, frozen: bool) -> io::Result<()> {
        match &self.hold {
            Hold::Unified(group) => group.freeze(frozen),
            Hold::Freezer(directory) => {
                let state = if frozen { "FROZEN" } else { "THAWED" };
                write(&directory.join("freezer.state"), state)
            }
        }
    }

    pub(super) fn memory_peak_kib(&self) -> Option<u64> {
        let directory = self.memory.as_ref()?;
        read_number(&directory.join("memory.max_usage_in_bytes")).map(|bytes| bytes / 1024)
    }

    pub(super) fn oom_kills(&self) -> u64 {
        self.memory.as_ref().map_or(0, |d| read_keyed(&d.join("memory.oom_control"), "oom_kill"))
    }

    pub(super) fn remove_if_empty(&self) -> bool {
        let empty = match &self.hold {
            Hold::Unified(group) => group.remove_if_empty(),
            Hold::Freezer(directory) => match fs::remove_dir(directory) {
                Err(e) => e.kind() == io::ErrorKind::NotFound,
                Ok(()) => true,
            },
        };
        if empty && !self.is_step {
            for directory in [&self.memory, &self.pids, &self.devices].into_iter().flatten() {
                // One that is still busy is swept when the daemon next starts.
                fs::remove_dir(directory).ok();
            }
        }
        empty
    }
}

/// Waits until each process has come to stand, which takes it a moment of CPU; what forks
/// meanwhile would be missed.
fn wait_frozen(directory: &Path) {
    let state = directory.join("freezer.state");
    for _ in 0..FREEZE_LOOKS_MAX {
        if fs::read_to_string(&state).map_or(true, |text| text.trim() != "FREEZING") {
            return;
        }
        std::thread::park_timeout(FREEZE_PAUSE);
    }
}

/// Rounds of moving processes into a cpuset: each finds only what was started during the one
/// before.
const BIND_ROUNDS: usize = 8;

impl SharedCpus {
    /// Makes it on its first use.
    fn make(&self) -> io::Result<()> {
        let has = |file: &str| {
            fs::read_to_string(self.directory.join(file)).is_ok_and(|text| !text.trim().is_empty())
        };
        if has("cpuset.cpus") && has("cpuset.mems") {
            return Ok(());
        }
        make(&self.directory)?;
        let parent = self.directory.parent().unwrap_or(&self.directory);
        let memory_nodes = fs::read_to_string(parent.join("cpuset.mems"))?;
        write(&self.directory.join("cpuset.mems"), memory_nodes.trim())?;
        write(&self.directory.join("cpuset.cpus"), &self.list)
    }
}
