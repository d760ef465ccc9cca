//! The caller's terminal in raw mode, and a pair of ends for the task that shall have one.
// Telling a terminal its size takes a system call that the wrappers mark unsafe.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::pty::{Winsize, openpty};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

nix::ioctl_read_bad!(read_size, nix::libc::TIOCGWINSZ, Winsize);
nix::ioctl_write_ptr_bad!(write_size, nix::libc::TIOCSWINSZ, Winsize);

/// Standard input in raw mode until this is dropped.
pub(crate) struct Raw {
    before: Option<Termios>,
}

impl Raw {
    /// Switches over; does nothing where standard input is no terminal.
    pub(crate) fn enter() -> Self {
        let stdin = std::io::stdin();
        let Ok(before) = tcgetattr(stdin.as_fd()) else { return Self { before: None } };
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        let set = tcsetattr(stdin.as_fd(), SetArg::TCSANOW, &raw);
        Self { before: set.ok().map(|()| before) }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin().as_fd(), SetArg::TCSADRAIN, before);
        }
    }
}

/// A terminal made for a task.
pub(crate) struct Pty {
    /// Our end.
    pub(crate) master: File,
    /// The task's end.
    pub(crate) slave: OwnedFd,
}

/// Opens a terminal of the size of the caller's.
///
/// # Errors
/// The system has none left.
pub(crate) fn open() -> Result<Pty, String> {
    let pair =
        openpty(own_size().as_ref(), None).map_err(|error| format!("a terminal: {error}"))?;
    Ok(Pty { master: File::from(pair.master), slave: pair.slave })
}

/// The size of the caller's terminal.
pub(crate) fn own_size() -> Option<Winsize> {
    let mut size = Winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open for the whole call and `size` is a valid place to write to.
    unsafe { read_size(std::io::stdin().as_raw_fd(), &raw mut size) }.ok()?;
    Some(size)
}

/// Gives a terminal the size of the caller's.
pub(crate) fn resize(master: &File) {
    if let Some(size) = own_size() {
        // SAFETY: the descriptor is open for the whole call and `size` outlives it.
        let _ = unsafe { write_size(master.as_raw_fd(), &raw const size) };
    }
}
