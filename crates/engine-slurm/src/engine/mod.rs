//! The engine trait on a running Slurm: what the daemon sees of `sbatch`, `scancel` and `squeue`.

use crate::{Commands, Pace, SlurmError};
use muster_engine::{Capabilities, Engine, EngineError, Inventory, Observation, Order, Waits};
use muster_model::{EngineName, JobId, Partition};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

mod ending;
mod foreign;
mod launch;
mod look;
mod orders;
mod request;
mod script;
mod user;
mod watch;

use look::Seen;
use muster_engine::book::{Book, Key};
use watch::Bell;

/// The journal's name in the state directory.
const JOURNAL: &str = "slurm-attempts.log";

/// What the engine needs to know.
#[derive(Clone, Debug)]
pub struct SlurmConfig {
    /// Its name, as nodes carry it.
    pub name: EngineName,
    /// Muster's state directory: the journal lies in it.
    pub state_directory: PathBuf,
    /// Slurm's commands.
    pub commands: Commands,
    /// Slurm's partition for each of muster's; one that is not named has the same name in both.
    /// The nodes of Slurm's partitions are the engine's; all of Slurm's where none is named.
    pub partitions: BTreeMap<String, String>,
    /// Looks at Slurm are at least so far apart,
    pub least: Duration,
    /// and at most so far,
    pub most: Duration,
    /// with at most so many requests a minute.
    pub per_minute: u32,
}

/// Runs jobs through a Slurm.
pub struct SlurmEngine {
    shared: Arc<Shared>,
}

/// Where changes go.
type Sink = Arc<dyn Fn(Observation) + Send + Sync>;

struct Shared {
    config: SlurmConfig,
    sbatch: PathBuf,
    scancel: PathBuf,
    /// `None` where Slurm's accounting has no command here.
    sacct: Option<PathBuf>,
    book: Mutex<Book>,
    /// One look at a time.
    seen: Mutex<Seen>,
    /// Slurm's words for why attempts wait there.
    words: Mutex<BTreeMap<Key, Waits>>,
    bell: Arc<Bell>,
    sink: Mutex<Option<Sink>>,
}

impl SlurmEngine {
    /// Reads the journal and begins to look at Slurm, which need not answer yet.
    ///
    /// # Errors
    /// [`SlurmError::Missing`] where a command is nowhere, [`SlurmError::Failed`] where the journal
    /// cannot be used.
    pub fn start(config: SlurmConfig) -> Result<Self, SlurmError> {
        let failed = |error: io::Error| SlurmError::Failed {
            command: format!("the journal in {}", config.state_directory.display()),
            said: error.to_string(),
        };
        let shared = Arc::new(Shared {
            sbatch: config.commands.beside("sbatch")?,
            scancel: config.commands.beside("scancel")?,
            sacct: config.commands.beside("sacct").ok(),
            book: Mutex::new(Book::open(&config.state_directory, JOURNAL).map_err(failed)?),
            seen: Mutex::new(Seen::default()),
            words: Mutex::default(),
            bell: Arc::new(Bell::default()),
            sink: Mutex::new(None),
            config,
        });
        let pace = Pace::new(shared.config.least, shared.config.most, shared.config.per_minute);
        watch::start(&shared, pace);
        Ok(Self { shared })
    }
}

impl Drop for SlurmEngine {
    fn drop(&mut self) {
        self.shared.bell.close();
    }
}

impl Engine for SlurmEngine {
    fn name(&self) -> EngineName {
        self.shared.config.name.clone()
    }

    fn capabilities(&self) -> Capabilities {
        // Slurm lets its operators suspend jobs, which root is.
        let suspends = nix::unistd::geteuid().is_root();
        Capabilities { places_devices: false, suspends, preempts: true }
    }

    /// With Slurm's nodes, limits and default memory.
    fn partitions(&self) -> Result<Vec<Partition>, EngineError> {
        let shared = &self.shared;
        let theirs = shared.partitions().map_err(|error| shared.unreachable(error))?;
        let named = shared.config.partitions.iter();
        let offered = named.map(|(name, slurm)| {
            let found = theirs.iter().find(|partition| partition.name == *slurm);
            let there = || theirs.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
            let found = found.ok_or_else(|| {
                shared.refused(format!("Slurm has no partition {slurm}; it has {}", there()))
            })?;
            Ok(Partition {
                name: name.clone(),
                default: false,
                allow_accounts: Vec::new().into_iter().collect(),
                qos: None,
                ..found.clone()
            })
        });
        offered.collect()
    }

    fn inventory(&self) -> Result<Inventory, EngineError> {
        let shared = &self.shared;
        let nodes = shared.nodes().map_err(|error| shared.unreachable(error))?;
        Ok(shared.book().inventory(nodes))
    }

    fn waits(&self, job: JobId, attempt: u32) -> Option<Waits> {
        let words = self.shared.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.get(&Key { job, attempt }).cloned()
    }

    fn execute(&self, fence: u64, order: &Order) -> Result<(), EngineError> {
        let shared = &self.shared;
        let fenced = shared.book().check_fence(fence)?;
        fenced.map_err(|error| shared.unreachable(error))?;
        match order {
            Order::Launch(launch) => shared.launch(launch),
            Order::Stop { job, attempt, cause: _, grace } => {
                shared.stop(Key { job: *job, attempt: *attempt }, *grace)
            }
            Order::Signal { job, attempt, number, signal, scope } => {
                shared.signal(Key { job: *job, attempt: *attempt }, *number, *signal, *scope)
            }
            Order::Suspend { job, attempt, suspend } => {
                shared.suspend(Key { job: *job, attempt: *attempt }, *suspend)
            }
            Order::Resize { job, attempt, nodes, grace: _ } => {
                shared.resize(Key { job: *job, attempt: *attempt }, nodes)
            }
            Order::Limit { job, attempt, limit } => {
                shared.limit(Key { job: *job, attempt: *attempt }, *limit)
            }
            Order::Acknowledge { job, attempt } => {
                shared.acknowledge(Key { job: *job, attempt: *attempt })
            }
        }
    }

    fn watch(&self, sink: Sink) {
        *self.shared.sink.lock().unwrap_or_else(PoisonError::into_inner) = Some(sink);
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        // What the lock protects is changed in single steps, so a panic leaves it whole.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, observation: Observation) {
        let sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sink) = sink {
            sink(observation);
        }
    }

    /// Nothing is known; it may be tried again.
    fn unreachable(&self, why: impl std::fmt::Display) -> EngineError {
        EngineError::Unreachable { engine: self.config.name.clone(), why: why.to_string() }
    }

    /// It will never be done.
    fn refused(&self, why: impl Into<String>) -> EngineError {
        EngineError::Refused { engine: self.config.name.clone(), why: why.into() }
    }

    fn scontrol(&self, words: &[&str]) -> Result<String, SlurmError> {
        self.config.commands.scontrol(words)
    }
}
