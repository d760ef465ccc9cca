//! What every request handler can see.

use crate::identity::Names;
use crate::reasons::Reasons;
use crate::setup::Overrides;
use crate::wait::Waiters;
use arc_swap::ArcSwap;
use jiff::tz::TimeZone;
use muster_config::{Config, Source};
use muster_control::Handle;
use muster_control::command::Principal;
use muster_model::Timestamp;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

/// The daemon's parts, shared by all requests.
pub(crate) struct App {
    /// The writer.
    pub(crate) handle: Handle,
    /// The settings in force.
    pub(crate) config: ArcSwap<Config>,
    /// Where they were read.
    pub(crate) source: Source,
    /// What the command line sets in place of it.
    pub(crate) overrides: Overrides,
    /// The state directory.
    pub(crate) state_dir: PathBuf,
    /// User names by id.
    pub(crate) names: Names,
    /// Who may do what root may.
    pub(crate) admins: ArcSwap<BTreeSet<String>>,
    /// Why jobs wait, for the newest state that was asked for.
    pub(crate) reasons: Reasons,
    /// What earlier runs of scripts used.
    pub(crate) measured: crate::measured::Measured,
    /// What the machine does for which job.
    pub(crate) watch: Arc<crate::watch::Watch>,
    /// Who waits for the end of a job.
    pub(crate) waiters: Waiters,
    /// The newest event's number, to wait for changes.
    pub(crate) seq: watch::Receiver<u64>,
    /// Set to true to end the daemon.
    pub(crate) stop: watch::Sender<bool>,
    /// Requests that are worked on.
    pub(crate) requests: Semaphore,
    /// When the daemon was started.
    pub(crate) started: Timestamp,
    /// The machine's time zone.
    pub(crate) zone: TimeZone,
    /// The user it runs as; jobs of others are run by root only.
    pub(crate) uid: u32,
    /// What is wrong now.
    pub(crate) alarms: Arc<crate::alarms::Alarms>,
    /// Whether a mail program is there to send mail about jobs.
    pub(crate) sends_mail: bool,
    /// Engines that have partitions of another scheduler.
    pub(crate) others: crate::engines::Others,
    /// What is not enforced here, as sentences.
    pub(crate) notes: Vec<String>,
}

/// Shared by all requests.
pub(crate) type Shared = Arc<App>;

/// The caller, as each connection carries it.
pub(crate) type Caller = Arc<Principal>;

impl App {
    /// This machine's name.
    pub(crate) fn hostname() -> String {
        let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        name.unwrap_or_default()
    }

    /// The clock of the machine.
    pub(crate) fn now() -> Timestamp {
        use muster_control::Clock as _;
        muster_control::SystemClock.now()
    }
}
