//! Which cgroups belong to jobs: muster's own, and those of a Slurm on this machine.
//!
//! Ours are `muster/INSTANCE/JOB.ATTEMPT[/stepN]`. Slurm's (its page on cgroup v2) are
//! `slurm[_NODE]/uid_U/job_J/step_S` in each v1 hierarchy and
//! `system.slice/[NODE_]slurmstepd.scope/job_J/step_S` in v2, where newer releases may name the
//! job's directory by an id that is no number: then a process in it tells the job.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::files::{names, read, text};

/// Directories that are looked at in one hierarchy.
const DIRECTORIES_MAX: usize = 50_000;

/// Processes of a group that are asked for their job's number.
const ASKED_MAX: usize = 3;

/// Who runs a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// muster.
    #[default]
    Muster,
    /// Slurm.
    Slurm,
}

/// Which job or step a group is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Who runs it.
    pub owner: Owner,
    /// Which muster runs it, as its engine names itself; empty for Slurm's.
    pub instance: String,
    /// The job's number; `None` where nobody can tell.
    pub job: Option<u64>,
    /// The directory's own name for it.
    pub name: String,
    /// The step (`0`, `batch`, `extern`); empty for the job whole.
    pub step: String,
}

/// A hierarchy of cgroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted, below the root.
    pub path: String,
    /// The controllers of a v1 hierarchy; `None` for v2.
    pub controllers: Option<Vec<String>>,
}

/// The hierarchies that are mounted.
pub fn hierarchies(root: &Path) -> Vec<Hierarchy> {
    let mounts = read(root, "proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (path, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            let controllers = match kind {
                "cgroup2" => None,
                "cgroup" => Some(options.split(',').map(str::to_owned).collect()),
                _ => return None,
            };
            Some(Hierarchy { path: path.trim_start_matches('/').to_owned(), controllers })
        })
        .collect()
}

/// The directories of jobs and steps in a hierarchy, each below the root; of muster's those of one
/// instance, or of all where none is named.
pub fn groups(root: &Path, hierarchy: &Hierarchy, instance: Option<&str>) -> Vec<(Key, String)> {
    let mut search = Search { root, found: Vec::new(), left: DIRECTORIES_MAX };
    let top = &hierarchy.path;
    for above in [Some(format!("{top}/muster")), delegated(root, hierarchy)].into_iter().flatten() {
        let instances = match instance {
            Some(name) => vec![format!("{above}/{name}")],
            None => search.below(&above),
        };
        for instance in instances {
            search.ours(&instance);
        }
    }
    for name in names(root, top).into_iter().filter(|name| name.starts_with("slurm")) {
        for user in search.below(&format!("{top}/{name}")) {
            search.slurm(&user);
        }
    }
    let is_slice = |name: &String| name.strip_suffix(".slice").is_some();
    for slice in names(root, top).into_iter().filter(is_slice) {
        let scopes = names(root, &format!("{top}/{slice}"));
        for scope in scopes.into_iter().filter(|name| name.ends_with("slurmstepd.scope")) {
            search.slurm(&format!("{top}/{slice}/{scope}"));
        }
    }
    let numbers = told(root, &search.found);
    for (key, _) in &mut search.found {
        key.job = key.job.or_else(|| numbers.get(&key.name).copied());
    }
    search.found.sort();
    search.found.dedup_by(|one, other| one.0 == other.0);
    search.found
}

/// The directory above that of this process, where a user's daemon has its jobs beside itself.
fn delegated(root: &Path, hierarchy: &Hierarchy) -> Option<String> {
    if hierarchy.controllers.is_some() {
        return None;
    }
    let own = text(root, "proc/self/cgroup")?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let parent = PathBuf::from(own).parent()?.to_string_lossy().into_owned();
    (!parent.is_empty()).then(|| format!("{}/{parent}", hierarchy.path))
}

struct Search<'a> {
    root: &'a Path,
    found: Vec<(Key, String)>,
    left: usize,
}

impl Search<'_> {
    /// The directories in one, as far as the bound allows.
    fn below(&mut self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root.join(path)) else { return Vec::new() };
        let mut found: Vec<String> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| Some(format!("{path}/{}", entry.file_name().to_str()?)))
            .take(self.left)
            .collect();
        self.left -= found.len();
        found.sort_unstable();
        found
    }

    /// The jobs of one instance of ours.
    fn ours(&mut self, instance: &str) {
        for path in self.below(instance) {
            let name = last(&path).to_owned();
            let Some((job, attempt)) = name.split_once('.') else { continue };
            let (Ok(job), Ok(_)) = (job.parse(), attempt.parse::<u32>()) else { continue };
            let instance = last(instance).to_owned();
            let key =
                Key { owner: Owner::Muster, instance, job: Some(job), name, step: String::new() };
            for step in self.below(&path) {
                if let Some(number) = last(&step).strip_prefix("step") {
                    self.found.push((Key { step: number.to_owned(), ..key.clone() }, step.clone()));
                }
            }
            self.found.push((key, path));
        }
    }

    /// The jobs of Slurm in one directory.
    fn slurm(&mut self, above: &str) {
        for path in self.below(above) {
            let name = last(&path).to_owned();
            let steps: Vec<String> =
                self.below(&path).into_iter().filter(|p| last(p).starts_with("step_")).collect();
            let job = name.strip_prefix("job_").and_then(|number| number.parse().ok());
            // A directory without steps that no number names is none of a job (`system`).
            if job.is_none() && steps.is_empty() {
                continue;
            }
            let key = Key { owner: Owner::Slurm, job, name, ..Key::default() };
            for step in steps {
                let name = last(&step).trim_start_matches("step_").to_owned();
                self.found.push((Key { step: name, ..key.clone() }, step));
            }
            self.found.push((key, path));
        }
    }
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The numbers of jobs whose directories do not name them, by what their processes were given.
fn told(root: &Path, found: &[(Key, String)]) -> BTreeMap<String, u64> {
    let mut numbers = BTreeMap::new();
    for (key, path) in found.iter().filter(|(key, _)| key.job.is_none()) {
        if numbers.contains_key(&key.name) {
            continue;
        }
        let number = processes(root, path, 3).into_iter().take(ASKED_MAX).find_map(|pid| {
            let given = read(root, &format!("proc/{pid}/environ")).ok()?;
            given.split('\0').find_map(|word| word.strip_prefix("SLURM_JOB_ID=")?.parse().ok())
        });
        if let Some(number) = number {
            numbers.insert(key.name.clone(), number);
        }
    }
    numbers
}

/// The processes of a group and of those so many levels below it.
pub(super) fn processes(root: &Path, path: &str, depth: usize) -> Vec<u32> {
    let text = read(root, &format!("{path}/cgroup.procs")).unwrap_or_default();
    let mut found: Vec<u32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    if depth > 0 {
        let mut search = Search { root, found: Vec::new(), left: 1_000 };
        for below in search.below(path) {
            found.extend(processes(root, &below, depth - 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Key, Owner, groups, hierarchies};
    use crate::test_tree::tree;

    fn found(lines: &str) -> Vec<(Option<u64>, String, String)> {
        let root = tree(lines);
        let mut all: Vec<(Key, String)> =
            hierarchies(root.path()).iter().flat_map(|h| groups(root.path(), h, None)).collect();
        all.sort();
        all.into_iter().map(|(key, _)| (key.job, key.name, key.step)).collect()
    }

    fn one(job: Option<u64>, name: &str, step: &str) -> (Option<u64>, String, String) {
        (job, name.to_owned(), step.to_owned())
    }

    const V2: &str = "proc/self/mounts: cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0";

    #[test]
    fn jobs_of_ours_are_known_by_their_directories() {
        let ours = found(&format!(
            r"
            {V2}
            sys/fs/cgroup/muster/abc/12.1/cpu.stat: x
            sys/fs/cgroup/muster/abc/12.1/step0/cpu.stat: x
            sys/fs/cgroup/muster/abc/12.1/other/cpu.stat: x
            sys/fs/cgroup/muster/abc/cpus-0-3/cpu.stat: x
            "
        ));
        assert_eq!(ours, [one(Some(12), "12.1", ""), one(Some(12), "12.1", "0")]);
    }

    #[test]
    fn one_of_several_instances_is_looked_at_alone() {
        let root = tree(&format!(
            "{V2}\nsys/fs/cgroup/muster/abc/1.1/cpu.stat: x\nsys/fs/cgroup/muster/def/1.1/cpu.stat: x"
        ));
        let hierarchy = &hierarchies(root.path())[0];
        let of = |instance| -> Vec<String> {
            let found = groups(root.path(), hierarchy, instance);
            found.into_iter().map(|(key, _)| key.instance).collect()
        };
        assert_eq!(of(None), ["abc", "def"]);
        assert_eq!(of(Some("def")), ["def"]);
        assert!(of(Some("gone")).is_empty());
    }

    #[test]
    fn a_users_daemon_has_its_jobs_beside_itself() {
        let ours = found(&format!(
            r"
            {V2}
            proc/self/cgroup: 0::/user.slice/muster.service/muster.daemon\n
            sys/fs/cgroup/user.slice/muster.service/abc/7.2/cpu.stat: x
            "
        ));
        assert_eq!(ours, [one(Some(7), "7.2", "")]);
    }

    #[test]
    fn slurms_jobs_are_known_in_both_versions() {
        let one_and_two = found(
            r"
            proc/self/mounts: cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n
            sys/fs/cgroup/memory/slurm_n3/uid_1000/job_41/step_batch/task_0/x: x
            sys/fs/cgroup/unified/system.slice/slurmstepd.scope/job_42/step_0/user/task_0/x: x
            sys/fs/cgroup/unified/system.slice/slurmstepd.scope/system/x: x
            ",
        );
        assert_eq!(
            one_and_two,
            [
                one(Some(41), "job_41", ""),
                one(Some(41), "job_41", "batch"),
                one(Some(42), "job_42", ""),
                one(Some(42), "job_42", "0"),
            ]
        );
    }

    #[test]
    fn m09_a_job_whose_directory_is_no_number_is_told_by_its_processes() {
        let tree = format!(
            "{V2}\nsys/fs/cgroup/system.slice/n12_slurmstepd.scope/sABCDEF0123/step_0/user/task_0/cgroup.procs: 70\\n\nsys/fs/cgroup/system.slice/n12_slurmstepd.scope/sNOBODY/step_0/user/task_0/cgroup.procs: 71\\n\nproc/70/environ: A=1\0SLURM_JOB_ID=4217\0B=2",
        );
        assert_eq!(
            found(&tree),
            [
                one(None, "sNOBODY", ""),
                one(None, "sNOBODY", "0"),
                one(Some(4217), "sABCDEF0123", ""),
                one(Some(4217), "sABCDEF0123", "0"),
            ]
        );
        assert_eq!(Owner::default(), Owner::Muster);
    }
}
