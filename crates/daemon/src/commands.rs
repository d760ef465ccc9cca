//! `muster up`, `down`, `status`, `doctor`, `backup` and `restore`.

use crate::ask::ask;
use crate::error::DaemonError;
use crate::setup::{Setup, UpOptions};
use crate::{backup, doctor, serve, start};
use clap::{Parser, Subcommand};
use muster_api::{Endpoint, Ping, Stats};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a daemon may take to end.
const STOP_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Parser)]
#[command(name = "muster", disable_help_subcommand = true)]
struct Line {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Start the daemon of this machine
    Up {
        #[command(flatten)]
        options: UpOptions,
        /// Leave the session of whoever started it
        #[arg(long, hide = true)]
        detached: bool,
    },
    /// Stop the daemon; jobs go on
    Down {
        /// The daemon that listens there; MUSTER_SOCKET without it
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
    },
    /// Say whether a daemon answers, and how it is
    Status {
        /// The daemon that listens there; MUSTER_SOCKET without it
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what this machine has and lacks
    Doctor {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Write everything that is stored into one file, while the daemon runs or not
    Backup {
        /// The file to write
        file: PathBuf,
        /// The state directory, where no daemon runs
        #[arg(long, value_name = "DIR")]
        state: Option<PathBuf>,
    },
    /// Make a state directory from a backup
    Restore {
        /// The backup
        file: PathBuf,
        /// The state directory to make; it must not hold anything
        #[arg(long, value_name = "DIR")]
        state: Option<PathBuf>,
    },
    /// The process that starts jobs
    #[command(hide = true)]
    Shepherd {
        /// What it is told
        words: Vec<String>,
    },
}

/// Names of the subcommands of `muster` that [`run`] knows.
pub const VERBS: &[&str] = &["up", "down", "status", "doctor", "backup", "restore", "shepherd"];

/// The command as `clap` describes it, for help, completions and man pages.
pub fn command() -> clap::Command {
    <Line as clap::CommandFactory>::command()
}

/// Runs one of [`VERBS`]; `args` begin with the program's name. Returns the exit code.
pub fn run(args: &[std::ffi::OsString]) -> i32 {
    // The shepherd's words are not ours to read.
    if args.get(1).is_some_and(|word| word == "shepherd") {
        let words: Vec<String> =
            args[2..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
        return match muster_engine_local::shepherd_main(&words) {
            Ok(()) => 0,
            Err(error) => complain(&error),
        };
    }
    let line = match Line::try_parse_from(args) {
        Ok(line) => line,
        Err(error) => {
            // Nothing can be said where the terminal is gone.
            let _ = error.print();
            return error.exit_code();
        }
    };
    let done = match line.command {
        Verb::Up { options, detached } => up(&options, detached),
        Verb::Down { socket } => down(socket),
        Verb::Status { socket, json } => return status(socket, json),
        Verb::Doctor { json } => {
            say(&doctor::report(json));
            Ok(())
        }
        Verb::Backup { file, state } => backup::command(&file, state),
        Verb::Restore { file, state } => backup::restore(&file, state),
        Verb::Shepherd { .. } => Ok(()),
    };
    match done {
        Ok(()) => 0,
        Err(error) => complain(&error),
    }
}

fn complain(error: &dyn std::error::Error) -> i32 {
    // Nothing can be said where nobody reads it.
    let _ = writeln!(std::io::stderr(), "muster: {error}");
    1
}

fn up(options: &UpOptions, detached: bool) -> Result<(), DaemonError> {
    let mut setup = Setup::of(options)?;
    crate::listen::nobody_answers(&setup.socket)?;
    let note = crate::practice::settle(&mut setup)?;
    if !options.foreground {
        if let Some(note) = note {
            say(&format!("{note}\n"));
        }
        let ping = start::in_background(&setup, options)?;
        greet(&setup, &ping);
        return Ok(());
    }
    if detached {
        // Fails only for the leader of a group, which a started process is not.
        let _ = nix::unistd::setsid();
    }
    log_to_stderr(&setup.config.daemon.log)?;
    if let Some(note) = note {
        tracing::info!("{note}");
    }
    let ran = serve::run(setup, || {
        if detached {
            start::say_ready();
        }
    });
    if let (Err(error), true) = (&ran, detached) {
        // The log, which is also the standard error, is all that whoever started it can read.
        tracing::error!("{error}");
        std::process::exit(1);
    }
    ran
}

fn log_to_stderr(filter: &str) -> Result<(), DaemonError> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter).map_err(|error| {
        DaemonError::LogFilter { filter: filter.to_owned(), why: error.to_string() }
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}

/// Prints to whoever still listens: a closed pipe is no fault.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn greet(setup: &Setup, ping: &Ping) {
    let mut lines = vec![
        first_line(ping),
        format!("  listens on  {}", setup.socket.display()),
        format!("  keeps state {}", setup.state_dir.display()),
        format!("  logs to     {}", setup.log_file().display()),
    ];
    lines.extend(ping.notes.iter().map(|note| format!("  note: {note}")));
    let found = Endpoint::from_environment().ok().map(|e| e.socket);
    if found.as_ref() != Some(&setup.socket) {
        lines.push("\nFor this daemon in other shells:\n".to_owned());
        lines.push(format!("  export MUSTER_SOCKET={}", quoted(&setup.socket)));
    }
    say(&(lines.join("\n") + "\n"));
}

fn first_line(ping: &Ping) -> String {
    format!("muster {} is up: cluster {}, process {}", ping.version, ping.cluster, ping.pid)
}

/// As a shell reads it back.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn endpoint(named: Option<PathBuf>) -> Result<PathBuf, DaemonError> {
    if let Some(socket) = named {
        return Ok(socket);
    }
    Endpoint::from_environment()
        .map(|endpoint| endpoint.socket)
        .map_err(|error| DaemonError::Refused(format!("{error} [{}]", error.code())))
}

fn down(named: Option<PathBuf>) -> Result<(), DaemonError> {
    let socket = endpoint(named)?;
    let ping = start::ping(&socket)?;
    let gone = |_| DaemonError::NoDaemon { socket: socket.clone() };
    let (status, body) = ask(&socket, "POST", "/v1/shutdown").map_err(gone)?;
    if status != 200 {
        let error: muster_api::ApiError = serde_json::from_str(&body).unwrap_or_default();
        return Err(DaemonError::Refused(error.to_string()));
    }
    let deadline = Instant::now() + STOP_TIMEOUT;
    let process = PathBuf::from(format!("/proc/{}", ping.pid));
    while process.exists() {
        if Instant::now() > deadline {
            return Err(DaemonError::NotDown { pid: ping.pid });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    say("muster is down; running jobs go on and are found again by `muster up`\n");
    Ok(())
}

fn status(named: Option<PathBuf>, json: bool) -> i32 {
    let socket = match endpoint(named) {
        Ok(socket) => socket,
        Err(error) => return complain(&error),
    };
    let ping = match start::ping(&socket) {
        Ok(ping) => ping,
        Err(error) => return complain(&error),
    };
    let stats = ask(&socket, "GET", "/v1/stats").ok();
    let stats: Stats =
        stats.and_then(|(_, body)| serde_json::from_str(&body).ok()).unwrap_or_default();
    if json {
        say(&format!("{}\n", serde_json::json!({ "ping": ping, "stats": stats })));
        return 0;
    }
    let Stats { pending, active, ended, .. } = stats;
    let mut lines = vec![
        first_line(&ping),
        format!("  listens on  {}", socket.display()),
        format!("  keeps state {}", ping.state_dir),
        format!("  {pending} waiting, {active} running, {ended} ended lately"),
    ];
    lines.extend(ping.notes.iter().map(|note| format!("  note: {note}")));
    lines.extend(stats.alarms.iter().map(|alarm| format!("  alarm: {alarm}")));
    say(&(lines.join("\n") + "\n"));
    0
}
