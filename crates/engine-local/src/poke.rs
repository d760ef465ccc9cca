//! The datagram with which a supervisor wakes the daemon.
//!
//! A poke only makes things quick: a daemon that is down, or that missed one, finds the same in
//! the job's directory.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::directory::POKE_SOCKET;
use crate::spec::Poke;

/// The longest poke; a longer exit record stays in its file alone.
pub(crate) const POKE_BYTES_MAX: usize = 64 << 10;

/// How long a supervisor waits for a daemon that is slow to read.
const SEND_WAIT: Duration = Duration::from_secs(2);

/// A supervisor's end.
#[derive(Debug)]
pub(crate) struct Poker {
    socket: UnixDatagram,
    to: PathBuf,
    /// The state directory, kept open: `to` leads through it, to be short enough for an address.
    _directory: OwnedFd,
}

impl Poker {
    /// For the poke socket in this state directory.
    pub(crate) fn new(state: &Path) -> io::Result<Self> {
        let directory: OwnedFd = File::open(state)?.into();
        let to = format!("/proc/self/fd/{}/{POKE_SOCKET}", directory.as_raw_fd()).into();
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(SEND_WAIT))?;
        Ok(Self { socket, to, _directory: directory })
    }

    /// Sends a poke; returns whether the daemon has it.
    pub(crate) fn send(&self, poke: &Poke) -> bool {
        let Ok(mut text) = serde_json::to_vec(poke) else { return false };
        if let (true, Poke::Exited { key, .. }) = (text.len() > POKE_BYTES_MAX, poke) {
            let short = Poke::Exited { key: *key, record: None };
            text = serde_json::to_vec(&short).unwrap_or_default();
        }
        self.socket.send_to(&text, &self.to).is_ok()
    }
}
