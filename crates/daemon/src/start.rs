//! Starting in the background: this program again, detached, and a word when it answers.

use crate::ask::ask;
use crate::error::DaemonError;
use crate::listen;
use crate::setup::{Setup, UpOptions};
use muster_api::Ping;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The hidden option of the process in the background.
pub(crate) const DETACHED: &str = "--detached";

/// What the process in the background says once it answers.
const READY: &str = "ready";

/// How much of the log is shown where it did not start.
const TAIL_LINES: usize = 15;

/// The log is put aside at this size, bytes.
const LOG_MAX: u64 = 64 * 1024 * 1024;

/// Starts a daemon in the background and returns once it answers.
///
/// # Errors
/// Why it did not start, with the end of its log.
pub(crate) fn in_background(setup: &Setup, options: &UpOptions) -> Result<Ping, DaemonError> {
    listen::nobody_answers(&setup.socket)?;
    let (mut child, log_before) = spawn(setup, options)?;
    let said = child.stdout.take().map(|out| {
        let mut line = String::new();
        let _ = BufReader::new(out).read_line(&mut line);
        line
    });
    if said.is_none_or(|line| line.trim() != READY) {
        let _ = child.wait();
        let log = setup.log_file();
        return Err(DaemonError::NotUp { tail: tail(&log, log_before), log });
    }
    // The child lives on; nobody waits for it here.
    ping(&setup.socket)
}

/// Says that the daemon answers, to whoever started it.
pub(crate) fn say_ready() {
    let mut out = std::io::stdout();
    // Whoever started it may be gone.
    let _ = writeln!(out, "{READY}");
    let _ = out.flush();
}

/// Who answers at the socket.
pub(crate) fn ping(socket: &Path) -> Result<Ping, DaemonError> {
    let gone = |error: std::io::Error| match error.kind() {
        // The end of its patience, as the system words it.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            DaemonError::Silent { socket: socket.to_owned() }
        }
        _ => DaemonError::NoDaemon { socket: socket.to_owned() },
    };
    let (_, body) = ask(socket, "GET", "/v1/ping").map_err(gone)?;
    serde_json::from_str(&body).map_err(|error| DaemonError::Refused(error.to_string()))
}

/// The started process, and how long the log was before.
fn spawn(setup: &Setup, options: &UpOptions) -> Result<(Child, u64), DaemonError> {
    let path = setup.log_file();
    if let Some(dir) = path.parent() {
        crate::serve::make_state_dir(dir)?;
    }
    if std::fs::metadata(&path).is_ok_and(|data| data.len() > LOG_MAX) {
        // An old one that cannot be put aside is appended to.
        let _ = std::fs::rename(&path, path.with_extension("log.1"));
    }
    let log = OpenOptions::new().create(true).append(true).mode(0o640).open(&path);
    let log = log.map_err(|source| DaemonError::Path { path: path.clone(), source })?;
    let log_before = log.metadata().map_or(0, |data| data.len());
    let exe = std::env::current_exe().map_err(DaemonError::system("finding this program"))?;
    let mut command = Command::new(exe);
    command.args(["up", "--foreground", DETACHED]);
    command.arg("--state").arg(&setup.state_dir).arg("--socket").arg(&setup.socket);
    if let Some(config) = &options.config {
        command.arg("--config").arg(config);
    }
    if let Some(practice) = &options.practice {
        command.args(["--practice", practice]);
    }
    if let Some(log) = &options.log {
        command.args(["--log", log]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let child = command.spawn().map_err(DaemonError::system("starting the daemon"))?;
    Ok((child, log_before))
}

/// The last lines of what was written to the log since it was so long.
fn tail(log: &Path, since: u64) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let from = usize::try_from(since).map_or(0, |since| since.min(text.len()));
    let text = String::from_utf8_lossy(&text[from..]);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
