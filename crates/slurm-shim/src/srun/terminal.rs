//! The caller's terminal, and a pair of ends for the task that shall have one.
// Telling a terminal its size takes a system call that the wrappers mark unsafe.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use muster_client::terminal::Raw;
use nix::pty::{Winsize, openpty};

use super::streams::{Own, own_input, write_own};

nix::ioctl_read_bad!(read_size, nix::libc::TIOCGWINSZ, Winsize);
nix::ioctl_write_ptr_bad!(write_size, nix::libc::TIOCSWINSZ, Winsize);

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

/// Data to and from a terminal made for task 0.
pub(crate) struct Terminal {
    /// Our end of it.
    pub(crate) master: File,
    /// The caller's keys.
    pub(crate) input: File,
    /// They have not ended.
    pub(crate) input_open: bool,
    /// The task may still write.
    pub(crate) output_open: bool,
    _raw: Raw,
}

impl Terminal {
    /// The caller's terminal in raw mode beside the task's.
    ///
    /// # Errors
    /// Standard input cannot be had twice.
    pub(crate) fn beside(master: File) -> Result<Self, String> {
        let input = own_input()?.into();
        Ok(Self { master, input, input_open: true, output_open: true, _raw: Raw::enter() })
    }

    /// Task's data to the caller; false at the end.
    pub(crate) fn show(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        match self.master.read(&mut bytes) {
            Ok(count) if count > 0 => {
                write_own(Own::Output, &bytes[..count]);
                true
            }
            // The other side closed it (EIO); the step's end follows.
            _ => false,
        }
    }

    /// The caller's keys to the task.
    pub(crate) fn type_in(&mut self) {
        let mut bytes = [0; 4096];
        let count = self.input.read(&mut bytes).unwrap_or(0);
        if count == 0 {
            self.input_open = false;
            // End of file, as the terminal's user would type it.
            let _ = self.master.write_all(&[4]);
        } else {
            let _ = self.master.write_all(&bytes[..count]);
        }
    }
}
