//! Why a daemon did not start, or a command about it was not done.

use muster_config::ConfigError;
use muster_store::StoreError;
use std::path::PathBuf;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Config(ConfigError),
    /// `--practice` cannot be read.
    #[error("--practice: {0} [E_PRACTICE]")]
    Practice(String),
    /// The state directory has jobs for other nodes than those asked for.
    #[error("{} is for {was} and has {unfinished} jobs that are not over; they cannot go on with {now} [E_PRACTICE]\nhint: name another state directory with --state, or start it as it was and let its jobs end", .dir.display())]
    PracticeChanged {
        /// The state directory.
        dir: PathBuf,
        /// What it was used with.
        was: String,
        /// What is asked for.
        now: String,
        /// Jobs that are not over.
        unfinished: usize,
    },
    /// The state directory is another user's.
    #[error("only an admin may {what}: {} belongs to user {uid} [E_ADMIN_ONLY]\nhint: ask the one who runs the daemon", .dir.display())]
    AdminOnly {
        /// What was asked for.
        what: &'static str,
        /// The state directory.
        dir: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// A unix socket's path is bounded by the kernel.
    #[error("the socket's path {} is longer than 107 bytes [E_SOCKET_LONG]\nhint: name a shorter one with --socket or MUSTER_SOCKET", .socket.display())]
    SocketLong {
        /// The path.
        socket: PathBuf,
    },
    /// A path cannot be used.
    #[error("{}: {source} [E_PATH]", .path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another daemon answers there.
    #[error("a daemon answers at {} already [E_ALREADY_UP]\nhint: `muster status` shows it; `muster down` stops it", .socket.display())]
    AlreadyUp {
        /// The socket.
        socket: PathBuf,
    },
    /// The socket cannot be made.
    #[error("the socket {} cannot be made: {source} [E_SOCKET]\nhint: name another with --socket or MUSTER_SOCKET", .socket.display())]
    Socket {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The store said no.
    #[error("{error} [{}]", .error.code())]
    Store {
        /// What it said.
        error: StoreError,
    },
    /// The engine could not start.
    #[error("{0} [E_ENGINE]")]
    Engine(String),
    /// What another scheduler is reached by cannot be used.
    #[error("{why} [{code}]")]
    Other {
        /// The stable code.
        code: &'static str,
        /// Why.
        why: String,
    },
    /// The configuration could not be taken over.
    #[error("the configuration was refused: {0} [E_CONFIG_REFUSED]")]
    Site(String),
    /// The daemon in the background did not come up.
    #[error("the daemon did not start [E_START]\nits log, {}, ends with:\n{tail}", .log.display())]
    NotUp {
        /// The log file.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// The log filter cannot be read.
    #[error(
        "--log {filter:?}: {why} [E_LOG_FILTER]\nhint: error, warn, info, debug, or a filter such as info,muster_control=debug"
    )]
    LogFilter {
        /// The text.
        filter: String,
        /// What is wrong.
        why: String,
    },
    /// No daemon answers.
    #[error("no daemon answers at {} [E_NO_DAEMON]\nhint: start one with `muster up`, or name its socket in MUSTER_SOCKET", .socket.display())]
    NoDaemon {
        /// The socket.
        socket: PathBuf,
    },
    /// A daemon is there and does not answer.
    #[error("the daemon at {} does not answer [E_NO_ANSWER]\nhint: it is overloaded or stopped; look at its process (ps) and its log", .socket.display())]
    Silent {
        /// The socket.
        socket: PathBuf,
    },
    /// The daemon said no.
    #[error("{0}")]
    Refused(String),
    /// It does not end.
    #[error(
        "the daemon (process {pid}) does not stop [E_NOT_DOWN]\nhint: its log says why; `kill -9 {pid}` ends it, and jobs go on"
    )]
    NotDown {
        /// Its process.
        pid: u32,
    },
    /// The operating system refused.
    #[error("{what}: {source} [E_SYSTEM]")]
    System {
        /// What was being done.
        what: &'static str,
        /// What it said.
        source: std::io::Error,
    },
}

impl From<StoreError> for DaemonError {
    fn from(error: StoreError) -> Self {
        Self::Store { error }
    }
}

impl DaemonError {
    /// For `map_err`: an error of the operating system.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
