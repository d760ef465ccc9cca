//! What a terminal job shows, kept in its output file too.
//!
//! The job's own process opens the file, so that the kernel judges it by the user's rights, and
//! hands it to the supervisor before its program runs.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use muster_api::step::Connection;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use super::child::StartFailure;

/// The supervisor's end.
pub(super) struct Transcript {
    /// Where the file comes from; absent once it was looked for.
    incoming: Option<Connection>,
    file: Option<File>,
}

/// The job's end.
pub(super) struct Sender(OwnedFd);

/// Two ends.
pub(super) fn pair() -> io::Result<(Transcript, Sender)> {
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
    Ok((Transcript { incoming: Some(Connection::new(ours)), file: None }, Sender(theirs)))
}

impl Sender {
    /// In the job's process: hands its output file over.
    pub(super) fn hand_over(&self, file: &OwnedFd) -> Result<(), StartFailure> {
        let failed = |why: String| StartFailure {
            code: 1,
            message: format!("cannot pass the output file on: {why}"),
        };
        let own = self.0.try_clone().map_err(|e| failed(e.to_string()))?;
        let sent = Connection::new(own).send(&(), &[file.as_fd()]);
        sent.map_err(|e| failed(e.to_string()))
    }
}

impl Transcript {
    /// Writes what the job showed. What the file does not take (a full disk, a pipe that nobody
    /// reads) is missing there, and the job goes on.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        // A program that shows something runs, and the file was sent before.
        if let Some(mut incoming) = self.incoming.take() {
            let frame = incoming.try_recv().ok().flatten();
            self.file = frame.and_then(|frame| frame.fds.into_iter().next()).map(File::from);
            if let Some(file) = &self.file {
                // Matters for a pipe; fails for nothing that could be written to.
                fcntl(file, FcntlArg::F_SETFL(OFlag::O_APPEND | OFlag::O_NONBLOCK)).ok();
            }
        }
        if let Some(file) = &mut self.file {
            file.write_all(bytes).ok();
        }
    }
}
