//! Signals as bytes in a pipe, so that one `poll` waits for them with everything else.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::iterator::Signals as Iterator;

/// The signals asked for, as they come.
pub(crate) struct Signals {
    reader: UnixStream,
}

impl Signals {
    /// Takes over these signals from now on, for the rest of the process's life.
    pub(crate) fn take(numbers: &[i32]) -> std::io::Result<Self> {
        let (reader, mut writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        let mut signals = Iterator::new(numbers)?;
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for number in signals.forever() {
                if writer.write_all(&[number as u8]).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { reader })
    }

    /// The signals that came since the last call; never waits.
    pub(crate) fn came(&mut self) -> Vec<i32> {
        let mut bytes = [0; 64];
        match self.reader.read(&mut bytes) {
            Ok(count) => bytes[..count].iter().map(|byte| i32::from(*byte)).collect(),
            Err(_) => Vec::new(),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::Signals;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;

    #[test]
    fn a_signal_wakes_the_poll() {
        let mut signals = Signals::take(&[signal_hook::consts::SIGUSR1]).expect("taken");
        assert!(signals.came().is_empty());
        signal_hook::low_level::raise(signal_hook::consts::SIGUSR1).expect("raised");
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::NONE).expect("polled");
        assert_eq!(signals.came(), [signal_hook::consts::SIGUSR1]);
    }
}
