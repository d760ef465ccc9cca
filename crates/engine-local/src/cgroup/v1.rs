//! cgroup v1: the freezer hierarchy holds the job, others limit it where a limit is wanted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::{GroupLimits, collect_pids, cpu_list, kill_all, read_keyed, read_number, write};

/// Our directory in each hierarchy that is there and may be written.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) freezer: PathBuf,
    pub(super) cpuset: Option<PathBuf>,
    pub(super) memory: Option<PathBuf>,
    pub(super) pids: Option<PathBuf>,
    pub(super) devices: Option<PathBuf>,
}

/// One job's directories.
#[derive(Debug)]
pub(crate) struct Group {
    freezer: PathBuf,
    /// Shared by all jobs on the same CPUs: never removed with a job.
    cpuset: Option<(PathBuf, String)>,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    devices: Option<PathBuf>,
    is_step: bool,
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
        let freezer = self.freezer.join(name);
        make(&freezer)?;
        let mut group = Group {
            freezer,
            cpuset: None,
            memory: None,
            pids: None,
            devices: None,
            is_step: false,
        };
        if let (Some(base), false) = (&self.cpuset, limits.cpu_ids.is_empty()) {
            let list = cpu_list(limits.cpu_ids);
            group.cpuset = Some((base.join(format!("cpus-{list}")), list));
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
        [Some(&self.freezer), self.memory.as_ref(), self.pids.as_ref(), self.devices.as_ref()]
            .into_iter()
            .flatten()
            .map(|base| base.join(name))
            .collect()
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
    pub(super) fn enter(&self) -> io::Result<()> {
        write(&self.freezer.join("cgroup.procs"), "0")?;
        for directory in [&self.memory, &self.pids, &self.devices].into_iter().flatten() {
            write(&directory.join("cgroup.procs"), "0")?;
        }
        match &self.cpuset {
            Some((directory, list)) => enter_cpuset(directory, list),
            None => Ok(()),
        }
    }

    pub(super) fn child(&self, name: &str) -> io::Result<Self> {
        let freezer = self.freezer.join(name);
        make(&freezer)?;
        Ok(Self {
            freezer,
            cpuset: self.cpuset.clone(),
            memory: self.memory.clone(),
            pids: self.pids.clone(),
            devices: self.devices.clone(),
            is_step: true,
        })
    }

    pub(super) fn pids(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        collect_pids(&self.freezer, &mut pids);
        pids
    }

    /// Freezes, so that nothing forks meanwhile, kills all, and thaws, so that they can die.
    pub(super) fn kill(&self) -> bool {
        let mut pids = self.pids();
        if pids.is_empty() {
            return true;
        }
        // A failed freeze only means more rounds.
        self.freeze(true).ok();
        self.wait_frozen();
        pids.extend(self.pids());
        kill_all(&pids, Signal::SIGKILL);
        self.freeze(false).ok();
        false
    }

    /// Waits until each process has come to stand, which takes it a moment of CPU; what forks
    /// meanwhile would be missed.
    fn wait_frozen(&self) {
        let state = self.freezer.join("freezer.state");
        for _ in 0..FREEZE_LOOKS_MAX {
            if fs::read_to_string(&state).map_or(true, |text| text.trim() != "FREEZING") {
                return;
            }
            std::thread::park_timeout(FREEZE_PAUSE);
        }
    }

    pub(super) fn freeze(&self, frozen: bool) -> io::Result<()> {
        let state = if frozen { "FROZEN" } else { "THAWED" };
        write(&self.freezer.join("freezer.state"), state)
    }

    pub(super) fn memory_peak_kib(&self) -> Option<u64> {
        let directory = self.memory.as_ref()?;
        read_number(&directory.join("memory.max_usage_in_bytes")).map(|bytes| bytes / 1024)
    }

    pub(super) fn oom_kills(&self) -> u64 {
        self.memory.as_ref().map_or(0, |d| read_keyed(&d.join("memory.oom_control"), "oom_kill"))
    }

    pub(super) fn remove_if_empty(&self) -> bool {
        match fs::remove_dir(&self.freezer) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return false,
            _ => {}
        }
        if !self.is_step {
            for directory in [&self.memory, &self.pids, &self.devices].into_iter().flatten() {
                // One that is still busy is swept when the daemon next starts.
                fs::remove_dir(directory).ok();
            }
        }
        true
    }
}

/// Enters the directory shared by jobs on these CPUs, making it on its first use.
fn enter_cpuset(directory: &Path, list: &str) -> io::Result<()> {
    let procs = directory.join("cgroup.procs");
    if write(&procs, "0").is_ok() {
        return Ok(());
    }
    make(directory)?;
    let parent = directory.parent().unwrap_or(directory);
    let memory_nodes = fs::read_to_string(parent.join("cpuset.mems"))?;
    write(&directory.join("cpuset.mems"), memory_nodes.trim())?;
    write(&directory.join("cpuset.cpus"), list)?;
    write(&procs, "0")
}
