//! Why the page cannot be served.

use muster_api::EndpointError;
use std::path::PathBuf;

/// What keeps `muster web` from serving.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The address of the daemon is none.
    #[error("{0} [{code}]", code = .0.code())]
    Endpoint(#[from] EndpointError),
    /// Nobody listens at the daemon's socket.
    #[error("no daemon answers at {} [E_NO_DAEMON]\nhint: start one with `muster up`, or name its socket in MUSTER_SOCKET", .socket.display())]
    NoDaemon {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The port cannot be listened on.
    #[error(
        "port {port} of 127.0.0.1 cannot be listened on: {source} [E_WEB_PORT]\nhint: leave out --port, and a free one is taken"
    )]
    Port {
        /// The port that was asked for.
        port: u16,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The process has not what a server needs.
    #[error("the page cannot be served here: {0} [E_CLIENT_START]")]
    Start(#[source] std::io::Error),
}
