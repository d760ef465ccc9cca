//! Why there is nothing to see.

use muster_client::ClientError;

/// What keeps `muster top` from showing anything.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The daemon does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// There is no terminal to draw on.
    #[error(
        "standard input or output is no terminal [E_NO_TERMINAL]\nhint: `muster top --once` prints one frame as text"
    )]
    NoTerminal,
    /// The terminal does not take what is drawn.
    #[error("the terminal cannot be drawn on: {0} [E_NO_TERMINAL]")]
    Terminal(#[from] std::io::Error),
}
