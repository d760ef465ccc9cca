//! The caller's own terminal, for commands that pass its keys on.

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use std::os::fd::AsFd;

/// Standard input in raw mode until this is dropped: keys come one by one, and none is a signal.
pub struct Raw {
    before: Option<Termios>,
}

impl Raw {
    /// Switches over; does nothing where standard input is no terminal.
    pub fn enter() -> Self {
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
