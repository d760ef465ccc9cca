//! The shepherd: a small process that forks one supervisor per job, and does nothing else.
//!
//! The daemon has threads and a large memory, so it must not fork; the shepherd has neither. A
//! supervisor whose job is over may get the next launch instead (`pool.rs`). The shepherd
//! serves one daemon connection at a time and reads a connection to its end before it accepts the
//! next, so that a new daemon's launches come after all of its predecessor's. It remembers what it
//! launched: a repeated order is not a second launch even after the first job is long gone.
// Forking a supervisor needs one unsafe call.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use serde::{Deserialize, Serialize};

use crate::cgroup::{Cgroups, Enforcement};
use crate::directory::{SHEPHERD_LOCK, SHEPHERD_SOCKET, StateDirectory};
use crate::failpoint::failpoint;
use crate::poke::Poker;
use crate::pool::Pool;
use crate::spec::{JobKey, Poke};
use crate::supervisor;

/// The longest launch order: a script of 4 MiB and its environment.
pub(crate) const ORDER_BYTES_MAX: usize = 32 << 20;

/// How many launches a shepherd remembers.
const REMEMBERED_MAX: usize = 100_000;

/// Changes when daemon and shepherd of different releases would not understand each other.
pub(crate) const PROTOCOL: u32 = 2;

/// What the shepherd says to a daemon that connects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    pub(crate) pid: i32,
    pub(crate) version: String,
    pub(crate) enforcement: Enforcement,
}

/// What the daemon says to the shepherd, each a length (u32, little endian) and JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ShepherdOrder {
    /// Start a job unless this attempt was started before. Its `LaunchSpec` is the next message,
    /// which the shepherd hands on unread.
    Launch {
        /// Which.
        key: JobKey,
        /// Whose.
        uid: u32,
    },
    /// End once this connection is read to its end; supervisors go on.
    Retire,
}

/// Why a shepherd could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ShepherdError {
    /// Called with wrong arguments.
    #[error("usage: shepherd STATE_DIRECTORY [--no-cgroup]")]
    Usage,
    /// Another one serves this state directory.
    #[error("another shepherd serves this state directory")]
    Running,
    /// The system refused.
    #[error("shepherd: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for ShepherdError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Runs a shepherd until it is told to retire; the hidden subcommand of the binary calls it.
///
/// `arguments` are the state directory and, for tests, `--no-cgroup`.
pub fn shepherd_main(arguments: &[String]) -> Result<(), ShepherdError> {
    let (root, without_cgroup) = match arguments {
        [root] => (PathBuf::from(root), false),
        [root, flag] if flag == "--no-cgroup" => (PathBuf::from(root), true),
        _ => return Err(ShepherdError::Usage),
    };
    let mut shepherd = Shepherd::prepare(&root, without_cgroup)?;
    // The word for whoever started us; nobody listening is fine.
    io::stdout().write_all(b"+").and_then(|()| io::stdout().flush()).ok();
    close_output()?;
    let served = shepherd.serve();
    shepherd.shared.cgroups.leave();
    served
}

/// Gives standard output up, so that no supervisor or job holds the starter's pipe.
fn close_output() -> Result<(), ShepherdError> {
    let null = fs::OpenOptions::new().write(true).open("/dev/null")?;
    nix::unistd::dup2_stdout(&null)?;
    Ok(())
}

struct Shepherd {
    shared: Shared,
    listener: UnixListener,
    signals: SignalFd,
    children: BTreeMap<i32, JobKey>,
    launched: BTreeSet<JobKey>,
    order: VecDeque<JobKey>,
    pool: Pool,
    // Held as long as this process lives; supervisors close it.
    lock: Flock<fs::File>,
}

/// What every supervisor gets from the shepherd.
pub(crate) struct Shared {
    pub(crate) state: StateDirectory,
    pub(crate) cgroups: Cgroups,
    pub(crate) poker: Poker,
    pub(crate) boot_id: String,
}

impl Shepherd {
    fn prepare(root: &std::path::Path, without_cgroup: bool) -> Result<Self, ShepherdError> {
        // Out of the daemon's session, so that no terminal's hang-up ends it; a leader already is.
        nix::unistd::setsid().ok();
        let state = StateDirectory::open(root)?;
        let lock_file = fs::File::create(state.path().join(SHEPHERD_LOCK))?;
        let lock = Flock::lock(lock_file, FlockArg::LockExclusiveNonblock)
            .map_err(|_| ShepherdError::Running)?;
        std::env::set_current_dir(state.path())?;
        // The lock says that nobody listens on an old socket.
        fs::remove_file(SHEPHERD_SOCKET).ok();
        let listener = UnixListener::bind(SHEPHERD_SOCKET)?;
        let poker = Poker::new(state.path())?;
        let cgroups = if without_cgroup {
            Cgroups::none("switched off")
        } else {
            Cgroups::detect("/".as_ref(), &state.instance())
        };
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&mask), None)?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let boot_id = crate::machine::boot_id();
        Ok(Self {
            shared: Shared { state, cgroups, poker, boot_id },
            listener,
            signals,
            children: BTreeMap::new(),
            launched: BTreeSet::new(),
            order: VecDeque::new(),
            pool: Pool::new(),
            lock,
        })
    }

    fn serve(&mut self) -> Result<(), ShepherdError> {
        loop {
            if !self.wait_readable(self.listener.as_raw_fd())? {
                continue;
            }
            let (mut stream, _) = self.listener.accept()?;
            match self.serve_one(&mut stream) {
                Ok(true) => {
                    // The connection ends with the process and not before: whoever waits for its
                    // end may then start another shepherd.
                    std::mem::forget(stream);
                    return Ok(());
                }
                Ok(false) => {}
                // A daemon that dies in the middle of a message is no reason to end.
                Err(error) => log!("shepherd: connection given up: {error}"),
            }
        }
    }

    /// Reads one daemon's orders to the end; returns whether it told us to retire.
    fn serve_one(&mut self, stream: &mut UnixStream) -> Result<bool, ShepherdError> {
        let hello = Hello {
            protocol: PROTOCOL,
            pid: std::process::id() as i32,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            enforcement: self.shared.cgroups.enforcement().clone(),
        };
        write_message(stream, &hello)?;
        let mut inbox = Vec::new();
        let mut chunk = vec![0_u8; 64 << 10];
        let mut retire = false;
        let mut announced = None;
        loop {
            if !self.wait_readable(stream.as_raw_fd())? {
                continue;
            }
            let n = stream.read(&mut chunk)?;
            if n == 0 {
                return Ok(retire);
            }
            inbox.extend_from_slice(&chunk[..n]);
            while let Some(body) = take_message(&mut inbox)? {
                if let Some((key, uid)) = announced.take() {
                    self.launch(key, uid, &body, stream);
                    continue;
                }
                match serde_json::from_slice::<ShepherdOrder>(&body) {
                    Ok(ShepherdOrder::Launch { key, uid }) => announced = Some((key, uid)),
                    Ok(ShepherdOrder::Retire) => retire = true,
                    Err(error) => log!("shepherd: order not understood: {error}"),
                }
            }
        }
    }

    /// Waits for a descriptor or for the end of a supervisor; true when the descriptor is ready.
    fn wait_readable(&mut self, fd: std::os::fd::RawFd) -> Result<bool, ShepherdError> {
        // SAFETY: the caller keeps the descriptor open over this call.
        let wanted = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        let signals = std::os::fd::AsFd::as_fd(&self.signals);
        let mut fds =
            [PollFd::new(wanted, PollFlags::POLLIN), PollFd::new(signals, PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        let (ready, ended) = (fds[0].any().unwrap_or(true), fds[1].any().unwrap_or(true));
        if ended {
            self.reap();
        }
        Ok(ready)
    }

    fn launch(&mut self, key: JobKey, uid: u32, launch: &[u8], stream: &UnixStream) {
        if !self.remember(key) {
            return;
        }
        failpoint("shepherd.before_fork");
        if let Some(pid) = self.pool.hand_over(uid, launch) {
            self.children.insert(pid, key);
            return;
        }
        let offer = self.pool.offer();
        // SAFETY: this process has one thread, so the child may do anything.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { child }) => {
                self.children.insert(child.as_raw(), key);
                if let Some(offer) = offer {
                    self.pool.take(offer, child.as_raw(), uid);
                }
            }
            Ok(ForkResult::Child) => {
                self.close_in_child(stream);
                supervisor::run(&self.shared, launch, self.pool.sit_down(offer));
            }
            Err(errno) => {
                log!("shepherd: cannot fork for job {key}: {errno}");
                // Forgotten, so that the repeated order tries again.
                self.launched.remove(&key);
                self.order.retain(|k| *k != key);
            }
        }
    }

    /// Notes a launch; false when it was noted before.
    fn remember(&mut self, key: JobKey) -> bool {
        if !self.launched.insert(key) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.launched.remove(&oldest);
        }
        true
    }

    /// A supervisor must not keep the shepherd's lock, sockets and signals alive.
    fn close_in_child(&self, stream: &UnixStream) {
        for fd in [
            self.listener.as_raw_fd(),
            self.signals.as_raw_fd(),
            self.lock.as_raw_fd(),
            stream.as_raw_fd(),
        ] {
            // SAFETY: the child never returns from `supervisor::run`, so none of the owners of
            // these descriptors is used or dropped in it.
            unsafe { libc::close(fd) };
        }
    }

    /// Collects ended supervisors; one that was killed left no record, and the daemon is told.
    fn reap(&mut self) {
        while let Ok(Some(_)) = self.signals.read_signal() {}
        while let Ok(status) = waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            let (pid, clean) = match status {
                WaitStatus::Exited(pid, code) => (pid, code == 0),
                WaitStatus::Signaled(pid, _, _) => (pid, false),
                WaitStatus::StillAlive => return,
                _ => continue,
            };
            self.pool.leave(pid.as_raw());
            if let (Some(key), false) = (self.children.remove(&pid.as_raw()), clean) {
                self.shared.poker.send(&Poke::Lost { key });
            }
        }
    }
}

/// Writes one message: its length, then JSON.
pub(crate) fn write_message<T: Serialize>(stream: &mut UnixStream, value: &T) -> io::Result<()> {
    let body = serde_json::to_vec(value)?;
    let mut message = Vec::with_capacity(4 + body.len());
    message.extend_from_slice(&(body.len() as u32).to_le_bytes());
    message.extend_from_slice(&body);
    stream.write_all(&message)
}

/// Takes the first whole message out of `inbox`.
pub(crate) fn take_message(inbox: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let Some(header) = inbox.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*header) as usize;
    if length > ORDER_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes"),
        ));
    }
    if inbox.len() < 4 + length {
        return Ok(None);
    }
    let body = inbox[4..4 + length].to_vec();
    inbox.drain(..4 + length);
    Ok(Some(body))
}
