//! What can go wrong between a client and the daemon.

use muster_api::{ApiError, EndpointError};
use std::path::PathBuf;

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("no daemon answers at {} [E_NO_DAEMON]\nhint: start one with `muster up`, or name its socket in MUSTER_SOCKET", .socket.display())]
    NoDaemon {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The socket may not be opened.
    #[error("the socket {} may not be opened by you [E_SOCKET_DENIED]\nhint: it is another user's daemon; name yours in MUSTER_SOCKET", .socket.display())]
    Denied {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The daemon said no.
    #[error("{error}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Its words.
        error: Box<ApiError>,
    },
    /// The connection ended after the request was sent: whether it was done is not known.
    #[error(
        "the daemon went away during {what} [E_CONNECTION_LOST]\nhint: whether it was done is not known; look before you repeat it"
    )]
    Lost {
        /// The request.
        what: String,
        /// What happened.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer came in time.
    #[error(
        "the daemon did not answer {what} within {seconds} s [E_NO_ANSWER]\nhint: look into its log; whether it was done is not known"
    )]
    Late {
        /// The request.
        what: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The daemon stands still.
    #[error(
        "the daemon (process {process}) is stopped and answers nothing [E_DAEMON_STOPPED]\nhint: let it go on with kill -CONT {process}; look then whether {what} was done"
    )]
    Stopped {
        /// The request.
        what: String,
        /// Its process.
        process: i32,
    },
    /// Events passed before they were read; the stream goes on with what comes after.
    #[error("events were missed ({what}) [E_EVENTS_MISSED]\nhint: read the state anew, then go on")]
    Lagged {
        /// How many, and the number to go on from, as JSON.
        what: String,
    },
    /// The answer is not what this version understands.
    #[error(
        "the answer to {what} cannot be read: {why} [E_ANSWER_BAD]\nhint: client and daemon may be of different versions"
    )]
    BadAnswer {
        /// The request.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// `MUSTER_URL` cannot be used.
    #[error("{0} [E_URL_BAD]")]
    Address(#[from] EndpointError),
    /// The client could not be set up.
    #[error("the client cannot start [E_CLIENT_START]")]
    Start(#[source] std::io::Error),
}

impl ClientError {
    /// The stable code.
    pub fn code(&self) -> &str {
        match self {
            Self::NoDaemon { .. } => "E_NO_DAEMON",
            Self::Denied { .. } => "E_SOCKET_DENIED",
            Self::Refused { error, .. } => &error.code,
            Self::Lost { .. } => "E_CONNECTION_LOST",
            Self::Late { .. } => "E_NO_ANSWER",
            Self::Stopped { .. } => "E_DAEMON_STOPPED",
            Self::Lagged { .. } => "E_EVENTS_MISSED",
            Self::BadAnswer { .. } => "E_ANSWER_BAD",
            Self::Address(error) => error.code(),
            Self::Start(_) => "E_CLIENT_START",
        }
    }

    /// The daemon's words, where it said no.
    pub fn refusal(&self) -> Option<&ApiError> {
        match self {
            Self::Refused { error, .. } => Some(error),
            _ => None,
        }
    }
}
