//! The connection to the shepherd, and its start where none runs.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use muster_api::step::wire::with_short_path;

use super::{LocalConfig, LocalError};
use crate::directory::{SHEPHERD_LOG, SHEPHERD_SOCKET, StateDirectory};
use crate::shepherd::{Hello, PROTOCOL, ShepherdOrder, take_message, write_message};
use crate::spec::LaunchSpec;

/// How long a shepherd may take to start and answer.
const START_WAIT: Duration = Duration::from_secs(20);

/// How long orders may take to be written: the shepherd only forks and is never busy for long.
const SEND_WAIT: Duration = Duration::from_secs(10);

/// The daemon's end.
pub(super) struct ShepherdLink {
    stream: Mutex<UnixStream>,
    closed: AtomicBool,
}

impl ShepherdLink {
    /// Connects, starting a shepherd where none answers; gives a second handle to watch it by.
    pub(super) fn connect(
        config: &LocalConfig,
        state: &StateDirectory,
    ) -> Result<(Self, UnixStream, Hello), LocalError> {
        let (stream, hello) = establish(config, state)?;
        let watched = stream.try_clone().map_err(|e| LocalError::Shepherd(e.to_string()))?;
        Ok((Self { stream: Mutex::new(stream), closed: AtomicBool::new(false) }, watched, hello))
    }

    /// Replaces a connection whose shepherd is gone.
    pub(super) fn reconnect(
        &self,
        config: &LocalConfig,
        state: &StateDirectory,
    ) -> Result<UnixStream, LocalError> {
        let (stream, _) = establish(config, state)?;
        let watched = stream.try_clone().map_err(|e| LocalError::Shepherd(e.to_string()))?;
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = stream;
        Ok(watched)
    }

    /// Ends the connection, which also ends its watcher, and sends the shepherd home: an engine
    /// that ends in order leaves nothing behind but supervisors of jobs.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is gone already is what we want. Its end of the connection closes when it is,
        // so that whoever starts next does not meet it on its way out.
        write_message(&mut stream, &ShepherdOrder::Retire).ok();
        stream.shutdown(std::net::Shutdown::Write).ok();
        stream.set_read_timeout(Some(SEND_WAIT)).ok();
        stream.read_to_end(&mut Vec::new()).ok();
        // One that is closed already is what we want.
        stream.shutdown(std::net::Shutdown::Both).ok();
    }

    /// Whether it was ended on purpose.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn send(&self, message: &[u8]) -> io::Result<()> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(message)
    }
}

/// A launch order as bytes.
pub(super) fn launch_message(spec: &LaunchSpec) -> io::Result<Arc<Vec<u8>>> {
    let order = serde_json::to_vec(&ShepherdOrder::Launch { key: spec.key(), uid: spec.user.uid })?;
    let body = serde_json::to_vec(spec)?;
    if body.len() > crate::shepherd::ORDER_BYTES_MAX {
        return Err(io::Error::other(format!("a launch order of {} bytes", body.len())));
    }
    let mut message = Vec::with_capacity(8 + order.len() + body.len());
    for part in [order, body] {
        message.extend_from_slice(&(part.len() as u32).to_le_bytes());
        message.extend_from_slice(&part);
    }
    Ok(Arc::new(message))
}

fn establish(
    config: &LocalConfig,
    state: &StateDirectory,
) -> Result<(UnixStream, Hello), LocalError> {
    let path = state.path().join(SHEPHERD_SOCKET);
    let nobody = |e: &io::Error| {
        matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ECONNREFUSED))
            || e.kind() == io::ErrorKind::UnexpectedEof
    };
    let found = match greet(&path) {
        Ok(found) => Some(found),
        Err(error) if nobody(&error) => None,
        Err(error) => {
            let why =
                format!("the one that runs does not answer, does another daemon use it? ({error})");
            return Err(LocalError::Shepherd(why));
        }
    };
    if let Some((mut stream, hello)) = found {
        if hello.protocol == PROTOCOL && hello.version == env!("CARGO_PKG_VERSION") {
            return Ok((stream, hello));
        }
        // One of another release: it ends, its supervisors go on.
        let retired = write_message(&mut stream, &ShepherdOrder::Retire);
        retired.map_err(|e| LocalError::Shepherd(e.to_string()))?;
        stream.shutdown(std::net::Shutdown::Write).ok();
        // Its end of the connection closes when it is gone.
        stream.read_to_end(&mut Vec::new()).ok();
    }
    // No shepherd lives, so nobody will finish these.
    state.sweep_unfinished().map_err(|e| LocalError::Shepherd(e.to_string()))?;
    start_shepherd(config, state)
}

fn greet(path: &Path) -> io::Result<(UnixStream, Hello)> {
    let mut stream = with_short_path(path, |short| {
        UnixStream::connect(short)
            .map_err(|e| nix::errno::Errno::from_raw(e.raw_os_error().unwrap_or(0)))
    })?;
    stream.set_read_timeout(Some(START_WAIT))?;
    let mut inbox = Vec::new();
    let mut chunk = [0_u8; 4 << 10];
    let body = loop {
        if let Some(body) = take_message(&mut inbox)? {
            break body;
        }
        let n = stream.read(&mut chunk)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        inbox.extend_from_slice(&chunk[..n]);
    };
    let hello = serde_json::from_slice(&body)?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(Some(SEND_WAIT))?;
    Ok((stream, hello))
}

/// Starts a shepherd in a session of its own and waits until it answers.
fn start_shepherd(
    config: &LocalConfig,
    state: &StateDirectory,
) -> Result<(UnixStream, Hello), LocalError> {
    let failed = |what: &str, e: io::Error| LocalError::Shepherd(format!("{what}: {e}"));
    let log_path = state.path().join(SHEPHERD_LOG);
    let log = OpenOptions::new().create(true).append(true).open(&log_path);
    let log = log.map_err(|e| failed("its log", e))?;
    let Some((program, arguments)) = config.shepherd_command.split_first() else {
        return Err(LocalError::Shepherd("no command is configured".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(state.path());
    if config.without_cgroup {
        command.arg("--no-cgroup");
    }
    // A pipe that the shepherd closes when it ends: its end is noticed without waiting in vain.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().map_err(|e| failed(program, e))?;
    let ready = child.stdout.take().map(|mut pipe| {
        let mut word = [0_u8; 1];
        pipe.read(&mut word).unwrap_or(0) == 1
    });
    // It is not a child to be waited for: a thread collects it whenever it ends.
    std::thread::Builder::new()
        .name("shepherd-reaper".to_owned())
        .spawn(move || child.wait())
        .map_err(|e| failed("a thread", e))?;
    if ready != Some(true) {
        let last = std::fs::read_to_string(&log_path).unwrap_or_default();
        let last = last.lines().next_back().unwrap_or("it ended without a word").to_owned();
        return Err(LocalError::Shepherd(last));
    }
    let deadline = Instant::now() + START_WAIT;
    loop {
        match greet(&state.path().join(SHEPHERD_SOCKET)) {
            Ok(found) => return Ok(found),
            Err(error) if Instant::now() >= deadline => return Err(failed("no answer", error)),
            Err(_) => std::thread::yield_now(),
        }
    }
}
