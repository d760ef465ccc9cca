//! Ended children and what they used.
// `wait4` has no safe wrapper that also gives the usage.
#![allow(unsafe_code)]

use muster_api::step::ExitStatus;
use muster_model::Usage;

/// A child that ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) pid: i32,
    pub(super) status: ExitStatus,
    pub(super) core_dumped: bool,
    pub(super) user_us: u64,
    pub(super) system_us: u64,
    pub(super) memory_peak_kib: u64,
}

/// What all ended children used together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    user_us: u64,
    system_us: u64,
    memory_peak_kib: u64,
}

impl Totals {
    pub(super) fn add(&mut self, ended: &Ended) {
        self.user_us += ended.user_us;
        self.system_us += ended.system_us;
        self.memory_peak_kib = self.memory_peak_kib.max(ended.memory_peak_kib);
    }

    /// As a record carries it; `counted_kib` is what a memory cgroup counted for all together.
    pub(super) fn usage(&self, counted_kib: Option<u64>) -> Usage {
        Usage {
            memory_peak_kib: counted_kib.unwrap_or(self.memory_peak_kib),
            cpu_user_ms: self.user_us / 1_000,
            cpu_system_ms: self.system_us / 1_000,
            ..Usage::default()
        }
    }
}

/// Collects every child that has ended, without waiting.
pub(super) fn collect() -> Vec<Ended> {
    let mut all = Vec::new();
    loop {
        let mut status = 0;
        // SAFETY: all-zero is a valid rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are valid for the call.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
        if pid <= 0 {
            return all;
        }
        all.push(Ended {
            pid,
            status: exit_status(status),
            core_dumped: libc::WIFSIGNALED(status) && libc::WCOREDUMP(status),
            user_us: microseconds(usage.ru_utime),
            system_us: microseconds(usage.ru_stime),
            memory_peak_kib: usage.ru_maxrss as u64,
        });
    }
}

/// Whether this process has any child, ended or not.
pub(super) fn has_children() -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, look) != Err(nix::errno::Errno::ECHILD)
}

fn exit_status(status: libc::c_int) -> ExitStatus {
    if libc::WIFSIGNALED(status) {
        ExitStatus { code: 0, signal: libc::WTERMSIG(status) as u8 }
    } else {
        ExitStatus { code: libc::WEXITSTATUS(status) as u8, signal: 0 }
    }
}

fn microseconds(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64
}
