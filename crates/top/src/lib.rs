//! `muster top`: what waits and runs, on a terminal that is left open.
//!
//! One thread asks the daemon, as the page does (`/v1/queue`, `/v1/nodes`, `/v1/metrics`, ...); the
//! other draws what came and takes keys and the mouse. `app::App` is the state between the two and
//! knows neither: tests press its keys and read what `draw` puts into a buffer.

mod app;
mod ask;
mod draw;
mod error;
mod meters;
mod once;
mod screen;
mod seen;
mod theme;
mod words;

pub use app::View;
pub use error::TopError;

/// How it is called.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Print one frame as text and end.
    pub once: bool,
    /// What is shown first.
    pub view: View,
}

/// Runs until the user leaves.
///
/// # Errors
/// No daemon answers, or standard output is no terminal (unless it is asked for once).
pub fn run(options: Options) -> Result<(), TopError> {
    if options.once { once::run(options.view) } else { screen::run(options.view) }
}
