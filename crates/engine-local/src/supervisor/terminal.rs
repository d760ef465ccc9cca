//! A job's terminal: kept by the supervisor, so that people may attach, leave and come back.
// The window size is set by an ioctl.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use muster_api::step::Event;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::pty::{Winsize, openpty};

use super::Supervisor;
use super::serve::Role;
use super::transcript::{self, Sender, Transcript};
use crate::spec::TerminalSize;

/// How much of the latest output is kept for those who attach later.
const SCROLLBACK_BYTES_MAX: usize = 256 << 10;

/// How much typed input may wait for a program that does not read.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// The supervisor's end of a job's terminal.
pub(super) struct Terminal {
    /// Absent once the job's end is closed for good.
    master: Option<OwnedFd>,
    scrollback: VecDeque<u8>,
    transcript: Option<Transcript>,
    input: VecDeque<u8>,
}

impl Terminal {
    /// A new terminal and its other end, for the job.
    pub(super) fn open(size: TerminalSize) -> io::Result<(Self, OwnedFd)> {
        let pty = openpty(Some(&window(size)), None)?;
        fcntl(&pty.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        for fd in [&pty.master, &pty.slave] {
            fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        }
        let terminal = Self {
            master: Some(pty.master),
            scrollback: VecDeque::new(),
            transcript: None,
            input: VecDeque::new(),
        };
        Ok((terminal, pty.slave))
    }

    /// What it shows from now on goes to the file that comes through the sender, too.
    pub(super) fn keep_transcript(&mut self) -> io::Result<Sender> {
        let (transcript, sender) = transcript::pair()?;
        self.transcript = Some(transcript);
        Ok(sender)
    }

    pub(super) fn descriptor(&self) -> Option<i32> {
        self.master.as_ref().map(AsRawFd::as_raw_fd)
    }

    pub(super) fn has_input_queued(&self) -> bool {
        !self.input.is_empty()
    }

    /// Takes typed input; what does not fit is dropped, as a full terminal drops it.
    pub(super) fn type_in(&mut self, bytes: &[u8]) {
        let room = INPUT_BYTES_MAX - self.input.len().min(INPUT_BYTES_MAX);
        self.input.extend(&bytes[..bytes.len().min(room)]);
        self.write_input();
    }

    fn write_input(&mut self) {
        let Some(master) = &self.master else { return };
        while !self.input.is_empty() {
            let (front, _) = self.input.as_slices();
            match nix::unistd::write(master, front) {
                Ok(n) => drop(self.input.drain(..n)),
                Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    pub(super) fn resize(&self, size: TerminalSize) {
        if let Some(master) = &self.master {
            let size = window(size);
            // SAFETY: `size` is valid for the call. A refusal leaves the size as it was.
            unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        }
    }

    /// Reads what the job wrote; keeps the latest of it.
    fn read_output(&mut self) -> Vec<u8> {
        let mut fresh = Vec::new();
        let mut chunk = [0_u8; 8 << 10];
        while let Some(master) = &self.master {
            match nix::unistd::read(master, &mut chunk) {
                Ok(n) if n > 0 => fresh.extend_from_slice(&chunk[..n]),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                // No process has the other end open any more.
                Ok(_) | Err(_) => self.master = None,
            }
            if fresh.len() >= SCROLLBACK_BYTES_MAX {
                break;
            }
        }
        if let Some(transcript) = self.transcript.as_mut().filter(|_| !fresh.is_empty()) {
            transcript.write(&fresh);
        }
        self.scrollback.extend(&fresh);
        let excess = self.scrollback.len().saturating_sub(SCROLLBACK_BYTES_MAX);
        self.scrollback.drain(..excess);
        fresh
    }
}

fn window(size: TerminalSize) -> Winsize {
    let or = |value: u16, usual: u16| if value == 0 { usual } else { value };
    Winsize { ws_row: or(size.rows, 24), ws_col: or(size.columns, 80), ws_xpixel: 0, ws_ypixel: 0 }
}

impl Supervisor<'_> {
    /// Passes on what the job wrote, and input that waited.
    pub(super) fn terminal_output(&mut self) {
        let Some(terminal) = &mut self.terminal else { return };
        terminal.write_input();
        let fresh = terminal.read_output();
        if fresh.is_empty() {
            return;
        }
        for client in self.clients.iter_mut().filter(|c| c.role == Role::Attached) {
            // One that does not read misses output and is dropped at its next flush.
            client.connection.queue_data(&fresh).ok();
        }
    }

    pub(super) fn attach(&mut self, id: u64, size: TerminalSize) {
        let Some(terminal) = &self.terminal else {
            let message = "this job has no terminal";
            let hint = "start it with `muster run --pty`, or look at its output with `muster logs`";
            return self.refuse(id, "step.no_terminal", message, Some(hint));
        };
        terminal.resize(size);
        let kept: Vec<u8> = terminal.scrollback.iter().copied().collect();
        self.send(id, &Event::Attached);
        if let Some(client) = self.client(id) {
            client.role = Role::Attached;
            if !kept.is_empty() && client.connection.queue_data(&kept).is_err() {
                self.drop_client(id);
            }
        }
    }
}
