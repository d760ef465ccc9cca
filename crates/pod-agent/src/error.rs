//! Why muster cannot do its work in a pod.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why muster cannot do its work in a pod.
#[derive(Debug, Error)]
pub(crate) enum AgentError {
    #[error(
        "usage: muster pod run ORDERS STATE REPORT | order STATE JSON | task ORDERS HOST -- COMMAND | install FILE"
    )]
    Usage,
    #[error("{path}: {why}")]
    File { path: PathBuf, why: String },
    #[error(transparent)]
    Engine(#[from] muster_engine_local::LocalError),
    #[error("{0}")]
    Order(String),
}

impl AgentError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, why: error.to_string() }
    }

    /// The exit status: as a shell has it for a command that cannot be run.
    pub(crate) fn status(&self) -> i32 {
        match self {
            Self::Usage => 2,
            Self::Order(_) => 1,
            Self::File { .. } | Self::Engine(_) => 126,
        }
    }
}
