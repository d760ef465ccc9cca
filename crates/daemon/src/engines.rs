//! The engines of a daemon: this machine, and a Slurm where the configuration names one.

use crate::error::DaemonError;
use crate::setup::Setup;
use muster_config::{Config, Practice, PracticeSection, SlurmSection};
use muster_engine::{Engine, EngineError};
use muster_engine_local::{LocalConfig, LocalEngine, PracticeSpec};
use muster_engine_slurm::{Commands, Rest, SlurmConfig, SlurmEngine, SlurmError};
use muster_model::{EngineName, Node, Partition, PartitionState, State};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The name of the engine that hands jobs to a Slurm.
const SLURM: &str = "slurm";

/// What runs jobs.
#[derive(Clone)]
pub(crate) struct Engines {
    /// This machine.
    pub(crate) local: Arc<LocalEngine>,
    /// The Slurm that jobs are handed to.
    pub(crate) slurm: Option<Arc<SlurmEngine>>,
}

impl Engines {
    /// Starts them. A Slurm need not answer yet.
    ///
    /// # Errors
    /// This machine's cannot start, or Slurm's commands are nowhere.
    pub(crate) fn start(setup: &Setup) -> Result<Self, DaemonError> {
        let section = &setup.config.slurm;
        let slurm = match section.is_used() {
            true => Some(Arc::new(start_slurm(section, &setup.state_dir)?)),
            false => None,
        };
        Ok(Self { local: Arc::new(start_local(setup)?), slurm })
    }

    /// All of them, as the writer has them.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Engine>> {
        let local = std::iter::once(Arc::clone(&self.local) as Arc<dyn Engine>);
        local.chain(self.slurm.clone().map(|slurm| slurm as Arc<dyn Engine>)).collect()
    }

    /// The nodes that they list now. A Slurm that does not answer lists its nodes later.
    ///
    /// # Errors
    /// This machine cannot be looked at, or a node is of both.
    pub(crate) fn nodes(&self) -> Result<Vec<Node>, DaemonError> {
        let failed = |error: EngineError| DaemonError::Engine(error.to_string());
        let mut nodes = self.local.inventory().map_err(failed)?.nodes;
        for node in &mut nodes {
            node.engine = self.local.name();
        }
        let Some(slurm) = &self.slurm else { return Ok(nodes) };
        match slurm.inventory() {
            Ok(theirs) => {
                if let Some(both) =
                    theirs.nodes.iter().find(|n| nodes.iter().any(|o| o.name == n.name))
                {
                    return Err(DaemonError::Site(format!(
                        "node {} is this machine and one of Slurm's: its CPUs would be given out \
                         twice\nhint: offer a partition of Slurm without it",
                        both.name
                    )));
                }
                nodes.extend(theirs.nodes);
            }
            Err(error) => tracing::warn!(%error, "Slurm's nodes are not known yet"),
        }
        Ok(nodes)
    }
}

/// The partitions that stand for Slurm's. Where Slurm does not answer they are as they were last
/// known, and one that never was known is down.
///
/// # Errors
/// Slurm has no partition of that name: a sentence.
pub(crate) fn offered(
    slurm: Option<&SlurmEngine>,
    config: &Config,
    state: &State,
) -> Result<Vec<Partition>, String> {
    match slurm.map(SlurmEngine::partitions) {
        Some(Ok(partitions)) => return Ok(partitions),
        Some(Err(error @ EngineError::Refused { .. })) => return Err(error.to_string()),
        Some(Err(error)) => tracing::warn!(%error, "Slurm's partitions are taken as last known"),
        None => {}
    }
    let names = config.slurm.partitions.keys();
    let known = names.map(|name| match state.partitions.get(name) {
        Some(known) => known.as_ref().clone(),
        None => {
            Partition { name: name.clone(), state: PartitionState::Down, ..Partition::default() }
        }
    });
    Ok(known.collect())
}

/// The engine of each partition, and whether it is the default one.
pub(crate) fn of_partitions(config: &Config, state: &State) -> Vec<(String, EngineName, bool)> {
    let of = |name: &str| match config.slurm.partitions.contains_key(name) {
        true => EngineName(SLURM.to_owned()),
        false => EngineName::local(),
    };
    state.partitions.values().map(|p| (p.name.clone(), of(&p.name), p.default)).collect()
}

/// Starts the engine of this machine.
pub(crate) fn start_local(setup: &Setup) -> Result<LocalEngine, DaemonError> {
    let exe = std::env::current_exe().map_err(DaemonError::system("finding this program"))?;
    let practice = setup.config.local.practice;
    let config = LocalConfig {
        state_directory: setup.state_dir.clone(),
        shepherd_command: vec![exe.to_string_lossy().into_owned(), "shepherd".to_owned()],
        cluster: setup.config.cluster.name.clone(),
        practice: practice.map(|size| practice_spec(size, &setup.config.practice)),
        without_cgroup: !setup.config.local.cgroups,
        client_socket: Some(setup.socket.clone()),
        gpu_reader: None,
    };
    LocalEngine::start(config).map_err(|error| DaemonError::Engine(error.to_string()))
}

/// What practice nodes are made of, in the engine's terms.
fn practice_spec(size: Practice, section: &PracticeSection) -> PracticeSpec {
    let usual = PracticeSpec::of(size.nodes, size.gpus);
    PracticeSpec {
        cpus: section.cpus.unwrap_or(usual.cpus),
        memory: section.memory.map_or(usual.memory, Into::into),
        gpu_model: section.gpu_model.clone(),
        gpu_memory: section.gpu_memory.into(),
        ..usual
    }
}

fn start_slurm(section: &SlurmSection, state_dir: &Path) -> Result<SlurmEngine, DaemonError> {
    let failed =
        |error: SlurmError| DaemonError::Slurm { code: error.code(), why: error.to_string() };
    let commands = match &section.commands {
        Some(folder) => Commands::of(folder),
        None => Commands::find(&std::env::var_os("PATH").unwrap_or_default()),
    };
    let mut commands = commands.map_err(failed)?;
    if let Some(conf) = &section.conf {
        commands = commands.with_conf(conf);
    }
    if let Some(url) = &section.rest {
        commands = commands.with_rest(Rest::as_caller(url).map_err(failed)?);
    }
    let partitions: BTreeMap<String, String> = section.partitions.clone();
    SlurmEngine::start(SlurmConfig {
        name: EngineName(SLURM.to_owned()),
        state_directory: state_dir.to_owned(),
        commands,
        partitions,
        least: Duration::from_secs(section.poll_least.0),
        most: Duration::from_secs(section.poll_most.0),
        per_minute: section.requests_per_minute,
    })
    .map_err(failed)
}
