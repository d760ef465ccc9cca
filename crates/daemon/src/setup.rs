//! Where things are: options, then the environment, then the configuration, then the defaults.

use crate::error::DaemonError;
use muster_api::endpoint::{self, SOCKET_NAME, SOCKET_PATH_MAX};
use muster_config::{Config, Practice, Source};
use std::path::{Path, PathBuf};

/// What a daemon is started with.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct UpOptions {
    /// Dress this machine up as several nodes with invented GPUs: NODESxGPUS, such as 4x8
    #[arg(long, value_name = "NODESxGPUS")]
    pub practice: Option<String>,
    /// The state directory
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The unix socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Stay in the foreground and log to the standard error
    #[arg(long)]
    pub foreground: bool,
    /// What is logged: error, warn, info, debug, or a filter
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
}

/// What the command line sets in place of the file's values, also after a reload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    practice: Option<Practice>,
    log: Option<String>,
}

impl Overrides {
    /// The configuration with these in force.
    pub(crate) fn over(&self, mut config: Config) -> Config {
        config.local.practice = self.practice.or(config.local.practice).or(config.practice.size());
        if let Some(log) = &self.log {
            config.daemon.log.clone_from(log);
        }
        config
    }
}

/// Everything that is settled before a daemon starts.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) source: Source,
    pub(crate) overrides: Overrides,
    pub(crate) state_dir: PathBuf,
    pub(crate) socket: PathBuf,
}

impl Setup {
    /// Reads the configuration and settles where things are.
    ///
    /// # Errors
    /// A configuration that cannot be used, or a path that cannot be.
    pub(crate) fn of(options: &UpOptions) -> Result<Self, DaemonError> {
        let source = Source::find(options.config.as_deref());
        let practice = options.practice.as_ref().map(|text| text.parse()).transpose();
        let overrides = Overrides {
            practice: practice.map_err(DaemonError::Practice)?,
            log: options.log.clone(),
        };
        let config = overrides.over(source.read().map_err(DaemonError::Config)?);
        let (state_dir, named) = state_dir(options, &config);
        let state_dir = absolute(&state_dir)?;
        let socket = absolute(&socket(options, &config, &state_dir, named))?;
        if socket.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(DaemonError::SocketLong { socket });
        }
        Ok(Self { config, source, overrides, state_dir, socket })
    }

    /// Uses practice nodes as if the command line had asked for them.
    pub(crate) fn remember_practice(&mut self, size: Practice) {
        self.overrides.practice = Some(size);
        self.config.local.practice = Some(size);
    }

    /// Whether the command line says the practice nodes.
    pub(crate) const fn practice_by_option(&self) -> bool {
        self.overrides.practice.is_some()
    }

    /// Where the log goes while nobody watches.
    pub(crate) fn log_file(&self) -> PathBuf {
        self.state_dir.join("muster.log")
    }
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The state directory, and whether somebody named it.
fn state_dir(options: &UpOptions, config: &Config) -> (PathBuf, bool) {
    let named = options.state.clone().or_else(|| variable("MUSTER_STATE"));
    match named.or_else(|| config.daemon.state.clone()) {
        Some(dir) => (dir, true),
        None => (endpoint::own_state_dir(), false),
    }
}

fn socket(options: &UpOptions, config: &Config, state_dir: &Path, named: bool) -> PathBuf {
    let given = options.socket.clone().or_else(|| variable("MUSTER_SOCKET"));
    given
        .or_else(|| config.daemon.socket.clone())
        .unwrap_or_else(|| if named { state_dir.join(SOCKET_NAME) } else { endpoint::own_socket() })
}

fn absolute(path: &Path) -> Result<PathBuf, DaemonError> {
    std::path::absolute(path).map_err(|source| DaemonError::Path { path: path.to_owned(), source })
}
