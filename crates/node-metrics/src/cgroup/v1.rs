//! The files of cgroup v1 (<https://docs.kernel.org/admin-guide/cgroup-v1/>), each hierarchy with
//! its own controllers.

use std::path::Path;

use super::usage::Usage;
use crate::files::{Skipped, keyed, list, number, read, text};
use crate::host::stat::TICKS;

/// What stands for no limit: the largest number of whole pages.
const NO_LIMIT_FROM: u64 = 1 << 62;

/// Adds what a group in a hierarchy with these controllers says.
pub(super) fn read_group(
    root: &Path,
    controllers: &[String],
    path: &str,
    usage: &mut Usage,
    skipped: &mut Skipped,
) {
    for controller in controllers {
        match controller.as_str() {
            "memory" => memory(root, path, usage),
            "cpuacct" => cpu_time(root, path, usage),
            "cpu" => throttling(root, path, usage),
            "cpuset" => {
                let cpus = text(root, &format!("{path}/cpuset.effective_cpus"))
                    .or_else(|| text(root, &format!("{path}/cpuset.cpus")));
                usage.cpus = cpus.map(|cpus| list(&cpus).len() as u64);
            }
            "blkio" => block(root, path, usage, skipped),
            _ => {}
        }
    }
}

fn memory(root: &Path, path: &str, usage: &mut Usage) {
    let count = |file: &str| number::<u64>(root, &format!("{path}/memory.{file}"));
    usage.memory = count("usage_in_bytes");
    usage.memory_peak = count("max_usage_in_bytes");
    usage.memory_limit = count("limit_in_bytes").filter(|limit| *limit < NO_LIMIT_FROM);
    usage.limit_hits = count("failcnt");
    // Memory and swap together are counted there.
    let both = count("memsw.usage_in_bytes").zip(usage.memory);
    usage.swap = both.map(|(both, memory)| both.saturating_sub(memory));
    let stat = read(root, &format!("{path}/memory.stat")).unwrap_or_default();
    usage.rss = keyed(&stat, "total_rss");
    usage.cache = keyed(&stat, "total_cache");
    usage.shared = keyed(&stat, "total_shmem");
    usage.major_faults = keyed(&stat, "total_pgmajfault");
    let oom = read(root, &format!("{path}/memory.oom_control")).unwrap_or_default();
    usage.oom_kills = keyed(&oom, "oom_kill");
}

fn cpu_time(root: &Path, path: &str, usage: &mut Usage) {
    usage.cpu_ns = number(root, &format!("{path}/cpuacct.usage"));
    let stat = read(root, &format!("{path}/cpuacct.stat")).unwrap_or_default();
    let ns = |key: &str| Some((keyed(&stat, key)? as f64 * 1e9 / TICKS) as u64);
    (usage.user_ns, usage.system_ns) = (ns("user"), ns("system"));
}

fn throttling(root: &Path, path: &str, usage: &mut Usage) {
    let stat = read(root, &format!("{path}/cpu.stat")).unwrap_or_default();
    usage.periods = keyed(&stat, "nr_periods");
    usage.throttled = keyed(&stat, "nr_throttled");
    usage.throttled_ns = keyed(&stat, "throttled_time");
}

/// The statistics of v1 are those of the group alone, unless there is the form that adds up.
fn block(root: &Path, path: &str, usage: &mut Usage, skipped: &mut Skipped) {
    for (file, bytes) in [("io_service_bytes", true), ("io_serviced", false)] {
        let name = |suffix: &str| format!("{path}/blkio.throttle.{file}{suffix}");
        let Ok(text) = read(root, &name("_recursive")).or_else(|_| read(root, &name(""))) else {
            continue;
        };
        for line in text.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let &[device, kind, value] = words.as_slice() else { continue };
            let Ok(value) = value.parse::<u64>() else {
                skipped.note(line);
                continue;
            };
            let io = usage.io.entry(device.to_owned()).or_default();
            match (kind, bytes) {
                ("Read", true) => io.read_bytes = value,
                ("Write", true) => io.written_bytes = value,
                ("Read", false) => io.reads = value,
                ("Write", false) => io.writes = value,
                _ => {}
            }
        }
    }
}
