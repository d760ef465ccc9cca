//! One cgroup a job: what holds its processes together, limits them, and ends all of them.
//!
//! Three ways, found once at start: cgroup v2 with its controllers, cgroup v1 (with the unified
//! hierarchy beside it where there is one), or none, where process groups and a walk over `/proc`
//! must do.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

mod detect;
mod processes;
mod v1;
mod v2;

pub(crate) use processes::parent_of;

/// What this machine lets the engine enforce, for `muster doctor`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// `v2`, `v1` or `none`.
    pub cgroup: String,
    /// Every process of a job ends with it, however it was started.
    pub whole_job: bool,
    /// A job stays on its CPUs.
    pub cpus: bool,
    /// A job stays within its memory.
    pub memory: bool,
    /// A job stays within its number of processes.
    pub processes: bool,
    /// A job can open only its own GPUs.
    pub devices: bool,
    /// One plain line for each thing that is not enforced, and why.
    pub notes: Vec<String>,
}

/// Limits of one job's cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupLimits<'a> {
    /// CPUs to stay on; empty for all.
    pub cpu_ids: &'a [u32],
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
    /// Processes and threads.
    pub processes_max: Option<u64>,
    /// NVIDIA device numbers that may not be opened.
    pub denied_gpu_minors: &'a [u32],
}

/// The way found on this machine and the directories under which jobs get theirs.
#[derive(Clone, Debug)]
pub(crate) struct Cgroups {
    way: Way,
    enforcement: Enforcement,
    /// What it was detected below, and for which instance.
    origin: Option<(PathBuf, String)>,
}

#[derive(Clone, Debug)]
enum Way {
    V2(v2::Root),
    V1(v1::Root),
    None,
}

impl Cgroups {
    /// Looks at the mounts below `root` (`/`, or a captured tree) and prepares a directory named
    /// after `instance` wherever the caller may write.
    pub(crate) fn detect(root: &Path, instance: &str) -> Self {
        let origin = Some((root.to_owned(), instance.to_owned()));
        Self { origin, ..detect::detect(root, instance) }
    }

    /// The way without any cgroup, as a user without rights has it.
    pub(crate) fn none(why: &str) -> Self {
        let enforcement = Enforcement {
            cgroup: "none".to_owned(),
            whole_job: true,
            notes: vec![format!(
                "no cgroups ({why}): CPUs, memory, process count and devices of jobs are not \
                 limited; jobs are held together by process groups alone"
            )],
            ..Enforcement::default()
        };
        Self { way: Way::None, enforcement, origin: None }
    }

    /// What this way enforces.
    pub(crate) fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    /// Makes a job's cgroup. Where somebody removed the directory above it (a cleaner, an admin),
    /// that is made again.
    pub(crate) fn create(&self, name: &str, limits: &GroupLimits<'_>) -> io::Result<Group> {
        match (self.make(name, limits), &self.origin) {
            (Err(error), Some((root, instance))) if error.kind() == io::ErrorKind::NotFound => {
                Self::detect(root, instance).make(name, limits)
            }
            (made, _) => made,
        }
    }

    fn make(&self, name: &str, limits: &GroupLimits<'_>) -> io::Result<Group> {
        Ok(match &self.way {
            Way::V2(root) => Group::V2(root.create(name, limits)?),
            Way::V1(root) => Group::V1(root.create(name, limits)?),
            Way::None => Group::Tree(processes::Tree::of_this_process()),
        })
    }

    /// The directories that a job's cgroup may have, for a record made before the cgroup is.
    pub(crate) fn directories(&self, name: &str) -> Vec<String> {
        let paths = match &self.way {
            Way::V2(root) => root.directories(name),
            Way::V1(root) => root.directories(name),
            Way::None => Vec::new(),
        };
        paths.iter().map(|p| p.to_string_lossy().into_owned()).collect()
    }

    /// Removes the directories of the instance that no job is in, so that a state directory that
    /// is given up leaves nothing behind.
    pub(crate) fn leave(&self) {
        let bases = match &self.way {
            Way::V2(root) => root.directories(""),
            Way::V1(root) => root.bases(),
            Way::None => Vec::new(),
        };
        for base in bases {
            // The kernel refuses where a job is still in it.
            fs::remove_dir(base).ok();
        }
    }

    /// Kills what is left in cgroups whose supervisor vanished, and removes them.
    ///
    /// `directories` are as [`Cgroups::directories`] gave them. Returns whether nothing is left;
    /// processes that take longer than [`SWEEP_WAIT`] to die are left to the next sweep.
    pub(crate) fn sweep(directories: &[String]) -> bool {
        let deadline = Instant::now() + SWEEP_WAIT;
        let mut left: Vec<PathBuf> = directories.iter().map(PathBuf::from).collect();
        loop {
            left.retain(|directory| directory.exists());
            for directory in &left {
                let mut pids = Vec::new();
                collect_pids(directory, &mut pids);
                kill_all(&pids, Signal::SIGKILL);
                // A frozen process dies only when it is thawed; only one of the files exists.
                write(&directory.join("freezer.state"), "THAWED").ok();
                write(&directory.join("cgroup.freeze"), "0").ok();
                remove_tree(directory);
            }
            left.retain(|directory| directory.exists());
            if left.is_empty() || Instant::now() >= deadline {
                return left.is_empty();
            }
            std::thread::park_timeout(SWEEP_PAUSE);
        }
    }
}

/// How long a sweep waits for killed processes to be gone.
const SWEEP_WAIT: Duration = Duration::from_secs(2);
/// How long it waits between two looks.
const SWEEP_PAUSE: Duration = Duration::from_millis(5);

/// One job's (or step's) processes.
#[derive(Debug)]
pub(crate) enum Group {
    /// A directory of the unified hierarchy.
    V2(v2::Group),
    /// Directories of several v1 hierarchies.
    V1(v1::Group),
    /// Every descendant of a process.
    Tree(processes::Tree),
}

impl Group {
    /// Every descendant of this process, for a job that got no cgroup.
    pub(crate) fn of_descendants() -> Self {
        Self::Tree(processes::Tree::of_this_process())
    }

    /// The directory that a process can be born into, so that it need not be moved.
    pub(crate) fn birthplace(&self) -> Option<&Path> {
        match self {
            Self::V2(group) => Some(group.path()),
            Self::V1(group) => group.birthplace(),
            Self::Tree(_) => None,
        }
    }

    /// Puts the calling process into the group; for a child before it gives up its rights.
    pub(crate) fn enter(&self, born_here: bool) -> io::Result<()> {
        match self {
            Self::V2(group) => group.enter(born_here),
            Self::V1(group) => group.enter(born_here),
            Self::Tree(_) => Ok(()),
        }
    }

    /// Keeps all of its processes on their CPUs from now on, where entering did not.
    pub(crate) fn bind_cpus(&self) -> io::Result<()> {
        match self {
            Self::V1(group) => group.bind_cpus(),
            Self::V2(_) | Self::Tree(_) => Ok(()),
        }
    }

    /// A group inside this one, for a step. Without cgroups a step is known by its tasks.
    pub(crate) fn step(&self, step: u32) -> io::Result<Self> {
        let name = format!("step{step}");
        Ok(match self {
            Self::V2(group) => Self::V2(group.child(&name)?),
            Self::V1(group) => Self::V1(group.child(&name)?),
            Self::Tree(_) => Self::Tree(processes::Tree::of_step(step)),
        })
    }

    /// Counts a process into the group where the kernel does not do so itself.
    pub(crate) fn adopt(&mut self, pid: i32) {
        if let Self::Tree(tree) = self {
            tree.adopt(pid);
        }
    }

    /// Every live process in it and below it.
    pub(crate) fn pids(&self) -> Vec<i32> {
        match self {
            Self::V2(group) => group.pids(),
            Self::V1(group) => group.pids(),
            Self::Tree(tree) => tree.pids(),
        }
    }

    /// Sends a signal to all of them.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_all(&self.pids(), signal);
    }

    /// Sends KILL to all of them so that none can escape by forking; returns whether none was
    /// left to kill. Call again until it says so.
    pub(crate) fn kill(&self) -> bool {
        match self {
            Self::V2(group) => group.kill(),
            Self::V1(group) => group.kill(),
            Self::Tree(tree) => tree.kill(),
        }
    }

    /// Stops all of them where they stand.
    pub(crate) fn freeze(&self) -> io::Result<()> {
        match self {
            Self::V2(group) => group.freeze(true),
            Self::V1(group) => group.freeze(true),
            Self::Tree(tree) => {
                kill_all(&tree.pids(), Signal::SIGSTOP);
                Ok(())
            }
        }
    }

    /// Lets all of them go on.
    pub(crate) fn thaw(&self) -> io::Result<()> {
        match self {
            Self::V2(group) => group.freeze(false),
            Self::V1(group) => group.freeze(false),
            Self::Tree(tree) => {
                kill_all(&tree.pids(), Signal::SIGCONT);
                Ok(())
            }
        }
    }

    /// The most memory all of them used together, KiB, where it was counted.
    pub(crate) fn memory_peak_kib(&self) -> Option<u64> {
        match self {
            Self::V2(group) => group.memory_peak_kib(),
            Self::V1(group) => group.memory_peak_kib(),
            Self::Tree(_) => None,
        }
    }

    /// How many of them the kernel killed for want of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        match self {
            Self::V2(group) => group.oom_kills(),
            Self::V1(group) => group.oom_kills(),
            Self::Tree(_) => 0,
        }
    }

    /// Removes its directories when no process is left in it; returns whether none was.
    pub(crate) fn remove_if_empty(&self) -> bool {
        match self {
            Self::V2(group) => group.remove_if_empty(),
            Self::V1(group) => group.remove_if_empty(),
            Self::Tree(tree) => tree.is_empty(),
        }
    }
}

/// Removes a cgroup directory and those below it, as far as they are empty.
fn remove_tree(directory: &Path) {
    if fs::remove_dir(directory).is_ok() {
        return;
    }
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    // What still holds it is found again by the next sweep.
    fs::remove_dir(directory).ok();
}

/// Adds the processes of a cgroup directory and of those below it.
fn collect_pids(directory: &Path, pids: &mut Vec<i32>) {
    read_pids(directory, pids);
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            collect_pids(&entry.path(), pids);
        }
    }
}

fn read_pids(directory: &Path, pids: &mut Vec<i32>) {
    if let Ok(text) = fs::read_to_string(directory.join("cgroup.procs")) {
        // A process of another pid namespace reads as 0; signalling 0 would hit ourselves.
        pids.extend(text.lines().filter_map(|l| l.parse::<i32>().ok()).filter(|pid| *pid > 1));
    }
}

fn kill_all(pids: &[i32], signal: Signal) {
    for pid in pids {
        // One that is gone already is what we wanted.
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), signal).ok();
    }
}

/// CPU numbers as the kernel's lists write them: `0-3,8`.
fn cpu_list(cpu_ids: &[u32]) -> String {
    let mut sorted = cpu_ids.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for cpu in sorted {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => spans.push((cpu, cpu)),
        }
    }
    let texts: Vec<String> = spans
        .iter()
        .map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") })
        .collect();
    texts.join(",")
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let mut file = fs::OpenOptions::new().write(true).open(path).map_err(named)?;
    file.write_all(text.as_bytes()).map_err(named)
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number after `key` in a file of `key value` lines.
fn read_keyed(path: &Path, key: &str) -> u64 {
    fs::read_to_string(path)
        .ok()
        .and_then(|text| {
            text.lines()
                .filter_map(|line| line.split_once(' '))
                .find(|(name, _)| *name == key)
                .and_then(|(_, value)| value.trim().parse().ok())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Cgroups, GroupLimits, Way, cpu_list};
    use nix::sys::signal::Signal;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};

    #[test]
    fn cpu_lists_fold() {
        assert_eq!(cpu_list(&[3, 1, 2, 8, 8]), "1-3,8");
        assert_eq!(cpu_list(&[]), "");
    }

    /// A tree in which only the unified hierarchy is mounted, as on a machine with v2 alone.
    fn only_v2() -> Option<tempfile::TempDir> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
        let line = mounts.lines().find(|l| l.split(' ').nth(2) == Some("cgroup2"))?;
        let root = tempfile::tempdir().expect("directory");
        std::fs::create_dir_all(root.path().join("proc/self")).expect("directory");
        std::fs::write(root.path().join("proc/self/mounts"), format!("{line}\n")).expect("mounts");
        std::fs::write(root.path().join("proc/self/cgroup"), "0::/\n").expect("cgroup");
        std::os::unix::fs::symlink("/sys", root.path().join("sys")).expect("link");
        Some(root)
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("sleep")
    }

    #[test]
    fn the_unified_hierarchy_alone_holds_freezes_and_kills_a_job() {
        let Some(root) = only_v2() else {
            println!("skipped: no cgroup v2 is mounted");
            return;
        };
        let instance = format!("test-{}", std::process::id());
        let cgroups = Cgroups::detect(root.path(), &instance);
        let Way::V2(found) = &cgroups.way else {
            println!("skipped: {}", cgroups.enforcement().notes.join("; "));
            return;
        };
        assert_eq!(
            (cgroups.enforcement().cgroup.as_str(), cgroups.enforcement().devices),
            ("v2", false)
        );
        let group = cgroups.create("job", &GroupLimits::default()).expect("group");
        let step = group.step(0).expect("step");
        let (mut one, mut other) = (sleeper(), sleeper());
        for (child, place) in [(&one, &group), (&other, &step)] {
            let path = place.birthplace().expect("v2").join("cgroup.procs");
            std::fs::write(path, child.id().to_string()).expect("moved");
        }
        let mut pids = group.pids();
        pids.sort_unstable();
        assert_eq!(pids, [one.id() as i32, other.id() as i32]);
        group.freeze().expect("frozen");
        group.signal(Signal::SIGCONT);
        assert!(!group.remove_if_empty());
        assert!(!step.kill(), "one was left to kill");
        assert_eq!(other.wait().expect("ended").signal(), Some(9));
        assert!(!group.kill(), "one was left to kill");
        assert_eq!(one.wait().expect("ended").signal(), Some(9));
        assert!(group.kill(), "none was left");
        assert!(step.remove_if_empty() && group.remove_if_empty() && group.remove_if_empty());
        std::fs::remove_dir(&found.base).expect("removed");
    }

    #[test]
    fn a_machine_without_cgroups_is_told_so_in_one_line() {
        let root = tempfile::tempdir().expect("directory");
        let enforcement = Cgroups::detect(root.path(), "test").enforcement().clone();
        assert_eq!((enforcement.cgroup.as_str(), enforcement.notes.len()), ("none", 1));
        assert!(enforcement.notes[0].contains("none is mounted"), "{}", enforcement.notes[0]);
        assert!(!enforcement.cpus && !enforcement.memory && enforcement.whole_job);
    }
}
