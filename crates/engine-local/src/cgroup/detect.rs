//! Finds the way this machine offers and prepares our directories.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Cgroups, Enforcement, Way, v1, v2, write};

/// The directory of ours at the top of every hierarchy.
const TOP: &str = "muster";

/// Name of the leaf that a delegated cgroup's own processes are moved to.
const LEAF: &str = "muster.daemon";

/// A cgroup mount: the controllers of a v1 hierarchy, or none for v2.
struct Mount {
    path: PathBuf,
    version_two: bool,
    controllers: Vec<String>,
}

/// One way, tried on the mounts below a root for an instance.
type Attempt = fn(&Path, &[Mount], &str) -> Option<Cgroups>;

pub(super) fn detect(root: &Path, instance: &str) -> Cgroups {
    let mounts = read_mounts(root);
    let two = mounts.iter().find(|m| m.version_two);
    let one = mounts.iter().any(|m| m.controllers.iter().any(|c| c == "freezer" || c == "memory"));
    let two_has_controllers = two.is_some_and(|m| {
        let listed = fs::read_to_string(m.path.join("cgroup.controllers")).unwrap_or_default();
        listed.split_ascii_whitespace().any(|c| c == "memory" || c == "pids")
    });
    let order: [Attempt; 2] = match (two_has_controllers, one) {
        (false, true) => [try_v1, try_v2],
        _ => [try_v2, try_v1],
    };
    order
        .into_iter()
        .find_map(|attempt| attempt(root, &mounts, instance))
        .unwrap_or_else(|| Cgroups::none(no_way(&mounts)))
}

fn no_way(mounts: &[Mount]) -> &'static str {
    if mounts.is_empty() { "none is mounted" } else { "no permission to make them" }
}

fn read_mounts(root: &Path) -> Vec<Mount> {
    let text = fs::read_to_string(root.join("proc/self/mounts")).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (path, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            let version_two = kind == "cgroup2";
            (version_two || kind == "cgroup").then(|| Mount {
                path: root.join(path.trim_start_matches('/')),
                version_two,
                controllers: options.split(',').map(str::to_owned).collect(),
            })
        })
        .collect()
}

fn try_v1(_root: &Path, mounts: &[Mount], instance: &str) -> Option<Cgroups> {
    let base = |controller: &str| {
        let mount = mounts.iter().find(|m| m.controllers.iter().any(|c| c == controller))?;
        let directory = mount.path.join(TOP).join(instance);
        fs::create_dir_all(&directory).ok()?;
        may_write(&directory.join("cgroup.procs")).then_some(directory)
    };
    let unified = mounts.iter().find(|m| m.version_two).and_then(|mount| {
        let directory = mount.path.join(TOP).join(instance);
        fs::create_dir_all(&directory).ok()?;
        let can_kill = directory.join("cgroup.kill").exists();
        (can_kill && may_write(&directory.join("cgroup.procs"))).then_some(directory)
    });
    let track = match unified {
        Some(base) => {
            v1::Track::Unified(v2::Root { base, cpuset: false, memory: false, pids: false })
        }
        None => v1::Track::Freezer(base("freezer")?),
    };
    let root = v1::Root {
        track,
        cpuset: base("cpuset").filter(|d| prepare_cpuset(d)),
        memory: base("memory"),
        pids: base("pids"),
        devices: base("devices"),
    };
    let mut enforcement = Enforcement {
        cgroup: "v1".to_owned(),
        whole_job: true,
        cpus: root.cpuset.is_some(),
        memory: root.memory.is_some(),
        processes: root.pids.is_some(),
        devices: root.devices.is_some(),
        notes: Vec::new(),
    };
    note_missing(&mut enforcement, "its hierarchy is not mounted or may not be written");
    Some(Cgroups { way: Way::V1(root), enforcement, origin: None })
}

/// A v1 cpuset is usable only once it has CPUs and memory nodes: copies them from above.
fn prepare_cpuset(directory: &Path) -> bool {
    let Some(top) = directory.parent() else { return false };
    let Some(above) = top.parent() else { return false };
    [(above, top), (top, directory)].into_iter().all(|(from, to)| {
        ["cpuset.cpus", "cpuset.mems"].into_iter().all(|file| {
            let Ok(have) = fs::read_to_string(to.join(file)) else { return false };
            if !have.trim().is_empty() {
                return true;
            }
            fs::read_to_string(from.join(file))
                .is_ok_and(|text| write(&to.join(file), text.trim()).is_ok())
        })
    })
}

fn try_v2(root: &Path, mounts: &[Mount], instance: &str) -> Option<Cgroups> {
    let mount = mounts.iter().find(|m| m.version_two)?;
    let top = mount.path.join(TOP);
    let parent = if fs::create_dir_all(&top).is_ok() && may_write(&top.join("cgroup.procs")) {
        enable(&mount.path);
        top
    } else {
        delegated(root, &mount.path)?
    };
    enable(&parent);
    let base = parent.join(instance);
    fs::create_dir_all(&base).ok()?;
    may_write(&base.join("cgroup.procs")).then_some(())?;
    enable(&base);
    let enabled = fs::read_to_string(base.join("cgroup.subtree_control")).unwrap_or_default();
    let has = |controller: &str| enabled.split_ascii_whitespace().any(|c| c == controller);
    let root = v2::Root { cpuset: has("cpuset"), memory: has("memory"), pids: has("pids"), base };
    let mut enforcement = Enforcement {
        cgroup: "v2".to_owned(),
        whole_job: true,
        cpus: root.cpuset,
        memory: root.memory,
        processes: root.pids,
        devices: false,
        notes: Vec::new(),
    };
    note_missing(&mut enforcement, "the controller is not delegated to muster's cgroup");
    Some(Cgroups { way: Way::V2(root), enforcement, origin: None })
}

/// The caller's own cgroup where it may write, with its processes moved to a leaf.
///
/// Controllers can be enabled only in a cgroup without processes; others than ours are not moved.
fn delegated(root: &Path, mount: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::"))?.trim_start_matches('/');
    let own = own.strip_suffix(LEAF).unwrap_or(own).trim_end_matches('/');
    let directory = mount.join(own);
    may_write(&directory.join("cgroup.procs")).then_some(())?;
    let mut pids = Vec::new();
    super::read_pids(&directory, &mut pids);
    let ours = [std::process::id() as i32, nix::unistd::getppid().as_raw()];
    if !pids.is_empty() && pids.iter().all(|pid| ours.contains(pid)) {
        let leaf = directory.join(LEAF);
        fs::create_dir_all(&leaf).ok()?;
        for pid in pids {
            // What stays only keeps controllers from being enabled, which is reported.
            write(&leaf.join("cgroup.procs"), &pid.to_string()).ok();
        }
    }
    Some(directory)
}

/// Gives a directory's children what controllers it has; each alone, so that one may fail.
fn enable(directory: &Path) {
    for controller in ["+cpuset", "+memory", "+pids"] {
        // What is enabled in the end is read back.
        write(&directory.join("cgroup.subtree_control"), controller).ok();
    }
}

fn may_write(path: &Path) -> bool {
    fs::OpenOptions::new().write(true).open(path).is_ok()
}

fn note_missing(enforcement: &mut Enforcement, why: &str) {
    let missing = [
        (enforcement.cpus, "cpuset", "jobs are not kept on their CPUs"),
        (enforcement.memory, "memory", "jobs are not kept within their memory"),
        (enforcement.processes, "pids", "the number of a job's processes is not limited"),
    ];
    for (present, controller, what) in missing {
        if !present {
            enforcement.notes.push(format!("no {controller} cgroup ({why}): {what}"));
        }
    }
    if !enforcement.devices {
        let why =
            if enforcement.cgroup == "v2" { "cgroup v2 needs a BPF program for it" } else { why };
        enforcement.notes.push(format!(
            "device access is not limited ({why}): a job could open a GPU that is not its own"
        ));
    }
}
