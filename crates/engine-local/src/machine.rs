//! Small readings of this machine: boot, clocks, process identity.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

use crate::spec::ProcessId;

/// The id of this boot; another one means that the machine was started anew.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// Now, UTC milliseconds.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// Milliseconds since boot, sleep included; never set back.
pub(crate) fn boot_clock_ms() -> u64 {
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_or(0, |t| t.tv_sec() as u64 * 1_000 + t.tv_nsec() as u64 / 1_000_000)
}

/// When a process started, in clock ticks after boot; `None` when there is no such process or it
/// is a zombie.
pub(crate) fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Whether exactly this process still runs.
pub(crate) fn is_running(process: ProcessId) -> bool {
    start_ticks(process.pid) == Some(process.start_ticks)
}

/// The calling process.
pub(crate) fn this_process() -> ProcessId {
    let pid = std::process::id() as i32;
    ProcessId { pid, start_ticks: start_ticks(pid).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::{boot_id, is_running, this_process};
    use crate::spec::ProcessId;

    #[test]
    fn this_process_runs_and_a_namesake_does_not() {
        let me = this_process();
        assert!(is_running(me));
        assert!(!is_running(ProcessId { start_ticks: me.start_ticks + 1, ..me }));
        assert_eq!(boot_id().len(), 36);
    }
}
