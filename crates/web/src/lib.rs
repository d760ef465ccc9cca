//! The page of muster for one user: a small server on this machine's own address.
//!
//! The daemon listens on a unix socket and knows its callers by the kernel's word. A browser cannot
//! speak to such a socket, so `muster web` stands between: it listens on 127.0.0.1, lets in who has
//! the token that it printed, and asks the daemon as the user who runs it. It stores nothing and
//! decides nothing.
//!
//! ```no_run
//! let options = muster_web::Options { port: 0, open: false, act: false };
//! muster_web::run(&options)?;
//! # Ok::<(), muster_web::WebError>(())
//! ```

mod answer;
mod error;
mod forward;
mod gate;
mod logs;
mod page;
mod plain;
mod serve;

pub use error::WebError;

/// How the page is served.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Opens a browser.
    pub open: bool,
    /// The page may cancel, hold, release and requeue; else it only shows.
    pub act: bool,
}

/// Serves the page until the process is ended.
///
/// # Errors
/// No daemon is there, or the port is taken.
pub fn run(options: &Options) -> Result<(), WebError> {
    serve::run(options)
}
