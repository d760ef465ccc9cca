//! The engines of a daemon: this machine, and others where the configuration names them.

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

#[cfg(feature = "kubernetes")]
mod kubernetes;

/// The name of the engine that hands jobs to a Slurm,
const SLURM: &str = "slurm";
/// and of the one that runs them on a Kubernetes cluster.
const KUBERNETES: &str = "kubernetes";

/// Engines that have partitions of another scheduler.
pub(crate) type Others = Vec<Arc<dyn Engine>>;

/// What runs jobs.
#[derive(Clone)]
pub(crate) struct Engines {
    /// This machine.
    pub(crate) local: Arc<LocalEngine>,
    /// Slurm and Kubernetes, as far as jobs are handed to them.
    pub(crate) others: Others,
}

impl Engines {
    /// Starts them. A Slurm or cluster need not answer yet.
    ///
    /// # Errors
    /// This machine's cannot start, or what another is reached by is nowhere.
    pub(crate) fn start(setup: &Setup) -> Result<Self, DaemonError> {
        let mut others: Others = Vec::new();
        let section = &setup.config.slurm;
        if section.is_used() {
            others.push(Arc::new(start_slurm(section, &setup.state_dir)?));
        }
        if setup.config.kubernetes.is_used() {
            others.push(start_kubernetes(setup)?);
        }
        Ok(Self { local: Arc::new(start_local(setup)?), others })
    }

    /// All of them, as the writer has them.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Engine>> {
        let local = std::iter::once(Arc::clone(&self.local) as Arc<dyn Engine>);
        local.chain(self.others.iter().cloned()).collect()
    }

    /// The nodes that they list now. One that does not answer lists its nodes later.
    ///
    /// # Errors
    /// This machine cannot be looked at, or a node is of two.
    pub(crate) fn nodes(&self) -> Result<Vec<Node>, DaemonError> {
        let failed = |error: EngineError| DaemonError::Engine(error.to_string());
        let mut nodes = self.local.inventory().map_err(failed)?.nodes;
        for node in &mut nodes {
            node.engine = self.local.name();
        }
        for other in &self.others {
            match other.inventory() {
                Ok(theirs) => {
                    known_once(&nodes, &theirs.nodes)?;
                    nodes.extend(theirs.nodes);
                }
                Err(error) => tracing::warn!(%error, "its nodes are not known yet"),
            }
        }
        Ok(nodes)
    }
}

/// A node is given out by one engine.
fn known_once(known: &[Node], more: &[Node]) -> Result<(), DaemonError> {
    let known: BTreeMap<&str, &Node> =
        known.iter().map(|node| (node.name.as_str(), node)).collect();
    let twice = more.iter().find_map(|node| Some((node, *known.get(node.name.as_str())?)));
    let Some((node, before)) = twice else { return Ok(()) };
    let of = |engine: &EngineName| match engine.0.as_str() {
        SLURM => "one of Slurm's",
        KUBERNETES => "one of Kubernetes'",
        _ => "this machine",
    };
    Err(DaemonError::Site(format!(
        "node {} is {} and {}: its CPUs would be given out twice\nhint: offer a partition without it",
        node.name,
        of(&before.engine),
        of(&node.engine)
    )))
}

/// The names of partitions that stand for those of others.
fn of_others(config: &Config) -> Vec<(&'static str, Vec<&String>)> {
    vec![
        (SLURM, config.slurm.partitions.keys().collect()),
        (KUBERNETES, config.kubernetes.partitions.keys().collect()),
    ]
}

/// The partitions that stand for those of others. Where one does not answer they are as they were
/// last known, and one that never was known is down.
///
/// # Errors
/// The other has no partition of that name: a sentence.
pub(crate) fn offered(
    others: &[Arc<dyn Engine>],
    config: &Config,
    state: &State,
) -> Result<Vec<Partition>, String> {
    let mut all = Vec::new();
    for (engine, names) in of_others(config) {
        let engine = others.iter().find(|other| other.name().0 == engine);
        match engine.map(|engine| engine.partitions()) {
            Some(Ok(partitions)) => {
                all.extend(partitions);
                continue;
            }
            Some(Err(error @ EngineError::Refused { .. })) => return Err(error.to_string()),
            Some(Err(error)) => tracing::warn!(%error, "partitions are taken as last known"),
            None => {}
        }
        all.extend(names.into_iter().map(|name| match state.partitions.get(name) {
            Some(known) => known.as_ref().clone(),
            None => {
                let state = PartitionState::Down;
                Partition { name: name.clone(), state, ..Partition::default() }
            }
        }));
    }
    Ok(all)
}

/// The engine of each partition, and whether it is the default one.
pub(crate) fn of_partitions(config: &Config, state: &State) -> Vec<(String, EngineName, bool)> {
    let others = of_others(config);
    let of = |name: &String| {
        let other = others.iter().find(|(_, names)| names.contains(&name));
        other.map_or_else(EngineName::local, |(engine, _)| EngineName((*engine).to_owned()))
    };
    state.partitions.values().map(|p| (p.name.clone(), of(&p.name), p.default)).collect()
}

#[cfg(feature = "kubernetes")]
fn start_kubernetes(setup: &Setup) -> Result<Arc<dyn Engine>, DaemonError> {
    kubernetes::start(setup)
}

#[cfg(not(feature = "kubernetes"))]
fn start_kubernetes(_: &Setup) -> Result<Arc<dyn Engine>, DaemonError> {
    Err(DaemonError::Other {
        code: "E_K8S_NOT_BUILT",
        why: "this muster was built without Kubernetes, and [kubernetes] names partitions"
            .to_owned(),
    })
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
        reach: None,
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
        |error: SlurmError| DaemonError::Other { code: error.code(), why: error.to_string() };
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
