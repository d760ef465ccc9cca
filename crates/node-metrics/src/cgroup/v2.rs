//! The files of cgroup v2 (<https://docs.kernel.org/admin-guide/cgroup-v2.html>).

use std::path::Path;

use super::usage::{Io, Usage};
use crate::files::{Skipped, keyed, list, number, read, text};

fn read_cpu(root: &Path, path: &str, usage: &mut Usage) {
    let stat = read(root, &format!("{path}/cpu.stat")).unwrap_or_default();
    let us = |key: &str| keyed(&stat, key)?.checked_mul(1_000);
    usage.cpu_ns = us("usage_usec").or(usage.cpu_ns);
    usage.user_ns = us("user_usec").or(usage.user_ns);
    usage.system_ns = us("system_usec").or(usage.system_ns);
    usage.periods = keyed(&stat, "nr_periods").or(usage.periods);
    usage.throttled = keyed(&stat, "nr_throttled").or(usage.throttled);
    usage.throttled_ns = us("throttled_usec").or(usage.throttled_ns);
}

/// Adds what a group of v2 says; the file of a controller that is off is not there.
pub(super) fn read_group(root: &Path, path: &str, usage: &mut Usage, skipped: &mut Skipped) {
    read_cpu(root, path, usage);
    let count = |file: &str| number::<u64>(root, &format!("{path}/{file}"));
    let cpus = text(root, &format!("{path}/cpuset.cpus.effective"));
    usage.cpus = cpus.map(|cpus| list(&cpus).len() as u64).or(usage.cpus);
    usage.memory = count("memory.current").or(usage.memory);
    usage.memory_peak = count("memory.peak").or(usage.memory_peak);
    // The word `max` is no number: no limit.
    usage.memory_limit = count("memory.max").or(usage.memory_limit);
    usage.swap = count("memory.swap.current").or(usage.swap);
    let stat = read(root, &format!("{path}/memory.stat")).unwrap_or_default();
    usage.rss = keyed(&stat, "anon").or(usage.rss);
    usage.cache = keyed(&stat, "file").or(usage.cache);
    usage.shared = keyed(&stat, "shmem").or(usage.shared);
    usage.major_faults = keyed(&stat, "pgmajfault").or(usage.major_faults);
    let refaults = ["workingset_refault_anon", "workingset_refault_file", "workingset_refault"]
        .iter()
        .filter_map(|key| keyed(&stat, key))
        .reduce(u64::saturating_add);
    usage.refaults = refaults.or(usage.refaults);
    let events = read(root, &format!("{path}/memory.events")).unwrap_or_default();
    usage.limit_hits = keyed(&events, "max").or(usage.limit_hits);
    usage.oom_kills = keyed(&events, "oom_kill").or(usage.oom_kills);
    let io = read(root, &format!("{path}/io.stat")).unwrap_or_default();
    for line in io.lines() {
        let Some((device, fields)) = line.split_once(' ') else { continue };
        match device_io(fields) {
            Some(io) => {
                usage.io.insert(device.to_owned(), io);
            }
            None => skipped.note(line),
        }
    }
}

/// `rbytes=4096 wbytes=0 rios=1 wios=0 …` in any order.
fn device_io(fields: &str) -> Option<Io> {
    let mut found = Io::default();
    for field in fields.split_ascii_whitespace() {
        let (key, value) = field.split_once('=')?;
        let place = match key {
            "rbytes" => &mut found.read_bytes,
            "wbytes" => &mut found.written_bytes,
            "rios" => &mut found.reads,
            "wios" => &mut found.writes,
            _ => continue,
        };
        *place = value.parse().ok()?;
    }
    Some(found)
}
