//! What a job or a step used, in the same terms whatever the version of cgroups.

use std::collections::BTreeMap;
use std::path::Path;

use super::paths::{Hierarchy, Key, groups, hierarchies};
use super::{v1, v2};
use crate::files::{ReadError, Skipped, number, read};
use crate::host::pressure::{Pressures, pressure};
use crate::host::stat::TICKS;

/// What one job or step used. What its hierarchy does not count is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Whose it is.
    pub key: Key,
    /// CPU time, nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Of that in programs.
    pub user_ns: Option<u64>,
    /// Of that in the kernel.
    pub system_ns: Option<u64>,
    /// Periods in which it could have run.
    pub periods: Option<u64>,
    /// Of these, those in which its quota held it up.
    pub throttled: Option<u64>,
    /// How long, nanoseconds.
    pub throttled_ns: Option<u64>,
    /// CPUs that it may use.
    pub cpus: Option<u64>,
    /// Memory now, cache and kernel included.
    pub memory: Option<u64>,
    /// The most there was.
    pub memory_peak: Option<u64>,
    /// The limit; none where there is none.
    pub memory_limit: Option<u64>,
    /// Memory of its own (anonymous).
    pub rss: Option<u64>,
    /// Cached files.
    pub cache: Option<u64>,
    /// Shared memory, which is part of the cache.
    pub shared: Option<u64>,
    /// Swapped out now.
    pub swap: Option<u64>,
    /// How often it hit its limit.
    pub limit_hits: Option<u64>,
    /// Processes killed because memory was out.
    pub oom_kills: Option<u64>,
    /// Pages read from a disk before a task could go on.
    pub major_faults: Option<u64>,
    /// Pages that were thrown out and needed again.
    pub refaults: Option<u64>,
    /// Block I/O by device number; network filesystems are never in it.
    pub io: BTreeMap<String, Io>,
    /// What it stood still for.
    pub pressure: Pressures,
    /// Processes and threads now.
    pub tasks: Option<u64>,
}

/// Block I/O of a group on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// Every job and step on this machine, in order; of muster's those of one instance, or of all where
/// none is named.
///
/// # Errors
/// No cgroups are mounted.
pub fn usages(
    root: &Path,
    instance: Option<&str>,
    skipped: &mut Skipped,
) -> Result<Vec<Usage>, ReadError> {
    let hierarchies = hierarchies(root);
    if hierarchies.is_empty() {
        return Err(ReadError::Absent("sys/fs/cgroup".to_owned()));
    }
    let mut found: BTreeMap<Key, Usage> = BTreeMap::new();
    for hierarchy in &hierarchies {
        for (key, path) in groups(root, hierarchy, instance) {
            let usage =
                found.entry(key.clone()).or_insert_with(|| Usage { key, ..Usage::default() });
            read_one(root, hierarchy, &path, usage, skipped);
        }
    }
    Ok(found.into_values().collect())
}

/// Adds what one hierarchy says; a group that vanishes in mid-read keeps what was read.
fn read_one(
    root: &Path,
    hierarchy: &Hierarchy,
    path: &str,
    usage: &mut Usage,
    skipped: &mut Skipped,
) {
    match &hierarchy.controllers {
        Some(controllers) => v1::read_group(root, controllers, path, usage, skipped),
        None => v2::read_group(root, path, usage, skipped),
    }
    let one = |file: &str| pressure(root, &format!("{path}/{file}.pressure")).ok();
    if hierarchy.controllers.is_none() {
        usage.pressure = Pressures { cpu: one("cpu"), memory: one("memory"), io: one("io") };
    }
    usage.tasks = usage.tasks.or_else(|| number(root, &format!("{path}/pids.current")));
    if usage.cpu_ns.is_none() {
        let (user, system) = by_processes(root, path);
        usage.cpu_ns = user.zip(system).map(|(user, system)| user + system);
        (usage.user_ns, usage.system_ns) = (user, system);
    }
}

/// CPU time of the processes there now, where no hierarchy counts it: what ended is not in it.
fn by_processes(root: &Path, path: &str) -> (Option<u64>, Option<u64>) {
    let mut sums = None;
    for pid in super::paths::processes(root, path, 3) {
        let Ok(stat) = read(root, &format!("proc/{pid}/stat")) else { continue };
        let Some((_, fields)) = stat.rsplit_once(')') else { continue };
        let mut ticks = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
        if let (Some(Ok(user)), Some(Ok(system))) = (ticks.next(), ticks.next()) {
            let (all_user, all_system) = sums.unwrap_or((0, 0));
            sums = Some((all_user + user, all_system + system));
        }
    }
    let nanoseconds = |ticks: u64| (ticks as f64 * 1e9 / TICKS) as u64;
    (sums.map(|s| nanoseconds(s.0)), sums.map(|s| nanoseconds(s.1)))
}

#[cfg(test)]
mod tests {
    use super::{Io, Usage, usages};
    use crate::files::Skipped;
    use crate::test_tree::tree;

    fn of(lines: &str) -> (Vec<Usage>, Skipped) {
        let root = tree(lines);
        let mut skipped = Skipped::default();
        (usages(root.path(), None, &mut skipped).expect("cgroups"), skipped)
    }

    #[test]
    fn version_two_is_read_in_its_units() {
        let (found, skipped) = of(r"
            proc/self/mounts: cgroup2 /sys/fs/cgroup cgroup2 rw 0 0
            sys/fs/cgroup/muster/i/12.1/cpu.stat: usage_usec 3000\nuser_usec 2000\nsystem_usec 1000\nnr_periods 10\nnr_throttled 2\nthrottled_usec 7\n
            sys/fs/cgroup/muster/i/12.1/cpuset.cpus.effective: 0-3,8
            sys/fs/cgroup/muster/i/12.1/memory.current: 4096
            sys/fs/cgroup/muster/i/12.1/memory.max: max
            sys/fs/cgroup/muster/i/12.1/memory.swap.current: 64
            sys/fs/cgroup/muster/i/12.1/memory.stat: anon 100\nfile 200\nshmem 50\npgmajfault 3\nworkingset_refault_file 4\nworkingset_refault_anon 5\n
            sys/fs/cgroup/muster/i/12.1/memory.events: low 0\nmax 6\noom 2\noom_kill 1\n
            sys/fs/cgroup/muster/i/12.1/io.stat: 8:0 wbytes=8 rbytes=4096 rios=1 wios=2 dbytes=0 dios=0 cost=9\n259:0\n8:16 rbytes=x\n
            sys/fs/cgroup/muster/i/12.1/io.pressure: some avg10=1.00 avg60=0 avg300=0 total=5\nfull avg10=0.00 avg60=0 avg300=0 total=4\n
            sys/fs/cgroup/muster/i/12.1/pids.current: 9
            sys/fs/cgroup/muster/i/12.1/step0/memory.current: 2048
            sys/fs/cgroup/muster/i/12.1/step0/memory.max: 8192
            ");
        let job = &found[0];
        assert_eq!(
            (job.cpu_ns, job.user_ns, job.system_ns),
            (Some(3_000_000), Some(2_000_000), Some(1_000_000))
        );
        assert_eq!(
            (job.periods, job.throttled, job.throttled_ns),
            (Some(10), Some(2), Some(7_000))
        );
        assert_eq!((job.cpus, job.memory, job.memory_limit), (Some(5), Some(4_096), None));
        // An old kernel keeps no peak; swap is swap alone.
        assert_eq!((job.memory_peak, job.swap), (None, Some(64)));
        assert_eq!((job.rss, job.cache, job.shared), (Some(100), Some(200), Some(50)));
        assert_eq!((job.limit_hits, job.oom_kills), (Some(6), Some(1)));
        assert_eq!((job.major_faults, job.refaults, job.tasks), (Some(3), Some(9), Some(9)));
        let io = Io { read_bytes: 4_096, written_bytes: 8, reads: 1, writes: 2 };
        assert_eq!(job.io.get("8:0"), Some(&io));
        assert_eq!((job.io.len(), skipped.count), (1, 1));
        assert_eq!(job.pressure.io.and_then(|p| p.full).map(|s| s.total_us), Some(4));
        assert_eq!(job.pressure.cpu, None);
        let step = &found[1];
        assert_eq!(
            (step.key.step.as_str(), step.memory_limit, step.cpu_ns),
            ("0", Some(8_192), None)
        );
    }

    #[test]
    fn version_one_is_put_together_from_its_hierarchies() {
        let (found, _) = of(r"
            proc/self/mounts: c /cg/memory cgroup rw,memory 0 0\nc /cg/cpuacct cgroup rw,cpu,cpuacct 0 0\nc /cg/blkio cgroup rw,blkio 0 0\nc /cg/cpuset cgroup rw,cpuset 0 0\n
            cg/memory/slurm/uid_5/job_7/memory.usage_in_bytes: 1000
            cg/memory/slurm/uid_5/job_7/memory.max_usage_in_bytes: 2000
            cg/memory/slurm/uid_5/job_7/memory.limit_in_bytes: 9223372036854771712
            cg/memory/slurm/uid_5/job_7/memory.memsw.usage_in_bytes: 1500
            cg/memory/slurm/uid_5/job_7/memory.failcnt: 3
            cg/memory/slurm/uid_5/job_7/memory.stat: rss 1\ntotal_rss 600\ntotal_cache 400\ntotal_shmem 50\ntotal_pgmajfault 2\n
            cg/memory/slurm/uid_5/job_7/memory.oom_control: oom_kill_disable 0\nunder_oom 0\noom_kill 1\n
            cg/cpuacct/slurm/uid_5/job_7/cpuacct.usage: 5000000000
            cg/cpuacct/slurm/uid_5/job_7/cpuacct.stat: user 400\nsystem 90\n
            cg/cpuacct/slurm/uid_5/job_7/cpu.stat: nr_periods 4\nnr_throttled 1\nthrottled_time 77\n
            cg/cpuset/slurm/uid_5/job_7/cpuset.effective_cpus: 2-3
            cg/blkio/slurm/uid_5/job_7/blkio.throttle.io_service_bytes: 8:0 Read 4096\n8:0 Write 10\n8:0 Total 4106\nTotal 4106\n
            cg/blkio/slurm/uid_5/job_7/blkio.throttle.io_serviced: 8:0 Read 2\n8:0 Write 1\nTotal 3\n
            ");
        assert_eq!(found.len(), 1);
        let job = &found[0];
        assert_eq!(
            (job.cpu_ns, job.user_ns, job.system_ns),
            (Some(5_000_000_000), Some(4_000_000_000), Some(900_000_000))
        );
        assert_eq!((job.throttled_ns, job.cpus), (Some(77), Some(2)));
        assert_eq!(
            (job.memory, job.memory_peak, job.memory_limit),
            (Some(1_000), Some(2_000), None)
        );
        assert_eq!(
            (job.rss, job.cache, job.shared, job.swap),
            (Some(600), Some(400), Some(50), Some(500))
        );
        assert_eq!((job.limit_hits, job.oom_kills, job.major_faults), (Some(3), Some(1), Some(2)));
        let io = Io { read_bytes: 4_096, written_bytes: 10, reads: 2, writes: 1 };
        assert_eq!(job.io.get("8:0"), Some(&io));
    }

    #[test]
    fn where_nothing_counts_cpu_time_the_processes_tell() {
        let (found, _) = of(r"
            proc/self/mounts: c /cg/freezer cgroup rw,freezer 0 0
            cg/freezer/muster/i/3.1/cgroup.procs: 5\n6\n
            proc/5/stat: 5 (a b) S 1 1 1 0 -1 0 0 0 0 0 30 20 0 0 20 0 1 0 9 0 0
            ");
        assert_eq!((found[0].cpu_ns, found[0].user_ns), (Some(500_000_000), Some(300_000_000)));
        assert!(usages("/nowhere".as_ref(), None, &mut Skipped::default()).is_err());
    }
}
