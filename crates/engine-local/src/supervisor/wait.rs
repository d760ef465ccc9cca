//! Waiting for whichever descriptor has something first.
// The descriptors are plain numbers here; poll(2) takes them so.
#![allow(unsafe_code)]

use std::os::fd::RawFd;

use crate::machine::boot_clock_ms;

/// What a descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A child ended.
    Signals,
    /// The script runs, or could not.
    Verdict,
    /// A task of a step runs, or could not.
    StepVerdict(u32, u32),
    /// A client connects.
    Listener,
    /// The job's terminal has output, or takes input again.
    Terminal,
    /// A client says something, or takes output again.
    Client(u64),
}

/// The longest single wait: the poll clock stands still while a laptop sleeps.
const WAIT_MS_MAX: u64 = 3_600_000;

/// Waits until one of the sources is ready or the boot clock reaches `until`.
///
/// Each source comes with its descriptor and whether writing is waited for too.
pub(super) fn wait(sources: &[(Source, RawFd, bool)], until: Option<u64>) -> Vec<(Source, i16)> {
    let mut fds: Vec<libc::pollfd> = sources
        .iter()
        .map(|(_, fd, write)| libc::pollfd {
            fd: *fd,
            events: libc::POLLIN | if *write { libc::POLLOUT } else { 0 },
            revents: 0,
        })
        .collect();
    let timeout = match until {
        None => -1,
        Some(at) => at.saturating_sub(boot_clock_ms()).min(WAIT_MS_MAX) as libc::c_int,
    };
    // SAFETY: `fds` is valid for its length over the call.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout) };
    if ready <= 0 {
        return Vec::new();
    }
    sources
        .iter()
        .zip(&fds)
        .filter(|(_, fd)| fd.revents != 0)
        .map(|((source, _, _), fd)| (*source, fd.revents))
        .collect()
}
