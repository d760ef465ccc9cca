//! cgroup v2: one directory of the unified hierarchy a job.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use super::{GroupLimits, collect_pids, cpu_list, kill_all, read_keyed, read_number, write};

/// Our directory, and the controllers that its children have.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) base: PathBuf,
    pub(super) cpuset: bool,
    pub(super) memory: bool,
    pub(super) pids: bool,
}

/// One job's directory.
#[derive(Debug)]
pub(crate) struct Group {
    directory: PathBuf,
    memory: bool,
}

impl Root {
    pub(super) fn create(&self, name: &str, limits: &GroupLimits<'_>) -> io::Result<Group> {
        let directory = self.base.join(name);
        make(&directory)?;
        if self.cpuset && !limits.cpu_ids.is_empty() {
            write(&directory.join("cpuset.cpus"), &cpu_list(limits.cpu_ids))?;
        }
        if let (true, Some(mib)) = (self.memory, limits.memory_mib) {
            write(&directory.join("memory.max"), &mib.saturating_mul(1 << 20).to_string())?;
            let swap = directory.join("memory.swap.max");
            if swap.exists() {
                write(&swap, "0")?;
            }
        }
        if let (true, Some(most)) = (self.pids, limits.processes_max) {
            write(&directory.join("pids.max"), &most.to_string())?;
        }
        Ok(Group { directory, memory: self.memory })
    }
}

impl Root {
    pub(super) fn directories(&self, name: &str) -> Vec<PathBuf> {
        vec![self.base.join(name)]
    }
}

fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", directory.display()))),
        Ok(()) => Ok(()),
    }
}

impl Group {
    pub(super) fn path(&self) -> &Path {
        &self.directory
    }

    pub(super) fn enter(&self, born_here: bool) -> io::Result<()> {
        if born_here {
            return Ok(());
        }
        write(&self.directory.join("cgroup.procs"), "0")
    }

    /// A step's directory; no controller is enabled for it, so the job's own may hold processes.
    pub(super) fn child(&self, name: &str) -> io::Result<Self> {
        let directory = self.directory.join(name);
        make(&directory)?;
        Ok(Self { directory, memory: false })
    }

    pub(super) fn pids(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        collect_pids(&self.directory, &mut pids);
        pids
    }

    /// Kills through `cgroup.kill`, or one by one while frozen where the kernel is older than 5.14.
    pub(super) fn kill(&self) -> bool {
        let pids = self.pids();
        if pids.is_empty() {
            return true;
        }
        if write(&self.directory.join("cgroup.kill"), "1").is_err() {
            // A failed freeze only means more rounds.
            self.freeze(true).ok();
            kill_all(&self.pids(), Signal::SIGKILL);
        }
        self.freeze(false).ok();
        false
    }

    pub(super) fn freeze(&self, frozen: bool) -> io::Result<()> {
        write(&self.directory.join("cgroup.freeze"), if frozen { "1" } else { "0" })
    }

    pub(super) fn memory_peak_kib(&self) -> Option<u64> {
        if !self.memory {
            return None;
        }
        read_number(&self.directory.join("memory.peak")).map(|bytes| bytes / 1024)
    }

    pub(super) fn oom_kills(&self) -> u64 {
        if !self.memory {
            return 0;
        }
        read_keyed(&self.directory.join("memory.events"), "oom_kill")
    }

    pub(super) fn remove_if_empty(&self) -> bool {
        match fs::remove_dir(&self.directory) {
            Err(e) => e.kind() == io::ErrorKind::NotFound,
            Ok(()) => true,
        }
    }
}
