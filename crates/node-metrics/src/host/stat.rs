//! `/proc/stat`: where CPU time went.

use std::path::Path;

use crate::files::{ReadError, Skipped, read};

/// Ticks a second in which the kernel tells CPU time (`USER_HZ`, the same on every machine that
/// muster runs on).
pub const TICKS: f64 = 100.0;

/// The modes of CPU time as node_exporter names them, in the order of the file.
pub const MODES: [&str; 8] =
    ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

/// Where the time of one CPU went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Its number.
    pub cpu: u32,
    /// Ticks in each of [`MODES`], as far as the kernel has them.
    pub ticks: Vec<u64>,
}

/// What `/proc/stat` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Each CPU that is online.
    pub cpus: Vec<CpuTime>,
    /// Switches between tasks since the start.
    pub context_switches: Option<u64>,
    /// Processes started since the start.
    pub forks: Option<u64>,
    /// Tasks that can run now.
    pub running: Option<u64>,
    /// Tasks that wait for I/O now.
    pub blocked: Option<u64>,
    /// When the machine started, seconds since 1970.
    pub boot_time: Option<u64>,
}

/// Reads it.
///
/// # Errors
/// The file cannot be read.
pub fn stat(root: &Path, skipped: &mut Skipped) -> Result<Stat, ReadError> {
    let text = read(root, "proc/stat")?;
    let mut found = Stat::default();
    for line in text.lines() {
        let Some((key, rest)) = line.split_once(' ') else { continue };
        let one = || rest.trim().parse().ok();
        match key {
            "cpu" => {}
            "ctxt" => found.context_switches = one(),
            "processes" => found.forks = one(),
            "procs_running" => found.running = one(),
            "procs_blocked" => found.blocked = one(),
            "btime" => found.boot_time = one(),
            _ if key.starts_with("cpu") => match cpu(key, rest) {
                Some(cpu) => found.cpus.push(cpu),
                None => skipped.note(line),
            },
            _ => {}
        }
    }
    Ok(found)
}

fn cpu(key: &str, rest: &str) -> Option<CpuTime> {
    let cpu = key.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Option<Vec<u64>> =
        rest.split_ascii_whitespace().take(MODES.len()).map(|word| word.parse().ok()).collect();
    Some(CpuTime { cpu, ticks: ticks.filter(|ticks| ticks.len() >= 4)? })
}

#[cfg(test)]
mod tests {
    use super::{Stat, stat};
    use crate::files::Skipped;
    use crate::test_tree::tree;

    #[test]
    fn time_is_read_by_cpu_and_a_bad_line_costs_itself() {
        let root = tree(
            r"proc/stat: cpu  30 0 0 0\ncpu0 10 1 2 3 4 5 6 7 8 9\ncpu1 x\nctxt 99\nbtime 1700000000\nprocesses 4\nprocs_running 2\nprocs_blocked 1\nfuture 1 2\n",
        );
        let mut skipped = Skipped::default();
        let found = stat(root.path(), &mut skipped).expect("stat");
        assert_eq!(found.cpus.len(), 1);
        assert_eq!(found.cpus[0].ticks, [10, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((found.context_switches, found.forks), (Some(99), Some(4)));
        assert_eq!(
            (found.running, found.blocked, found.boot_time.is_some()),
            (Some(2), Some(1), true)
        );
        assert_eq!((skipped.count, skipped.first.as_deref()), (1, Some("cpu1 x")));
        assert!(stat("/nowhere".as_ref(), &mut skipped).is_err());
        assert_eq!(Stat::default().cpus.len(), 0);
    }
}
