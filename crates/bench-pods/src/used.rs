//! What a process has used, as Linux tells it.

/// CPU and memory of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// CPU time of all its threads, in seconds.
    pub(crate) cpu_s: f64,
    /// The most memory that it had at once, in MiB.
    pub(crate) peak_mib: f64,
}

/// Clock ticks of `/proc/PID/stat` in a second: `USER_HZ`, 100 on every Linux there is.
const TICKS: f64 = 100.0;

/// What a process has used up to now; zeros where it is gone.
pub(crate) fn of(pid: u32) -> Used {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    let stat = read("stat").unwrap_or_default();
    // The name may have spaces; what follows its parenthesis has not.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect())
        .unwrap_or_default();
    let ticks = |at: usize| fields.get(at).and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let status = read("status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 =
        peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
    Used { cpu_s: (ticks(11) + ticks(12)) / TICKS, peak_mib: kib / 1024.0 }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn this_process_has_memory_and_none_has_not() {
        assert!(of(std::process::id()).peak_mib > 0.1);
        assert!(of(u32::MAX).peak_mib == 0.0);
    }
}
