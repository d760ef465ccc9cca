//! The engine trait on this machine: what the daemon sees of shepherd and supervisors.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use muster_api::step::Order as StepOrder;
use muster_engine::{
    Capabilities, Engine, EngineError, Inventory, Launch, Observation, Order, Running,
};
use muster_model::{EndCause, EngineName, ExitReport, JobId, Node, Timestamp};
use muster_node_metrics::{Drivers, GpuReader, Machine, UseFile};

use crate::Enforcement;
use crate::convert::{Surroundings, Users, launch_spec};
use crate::directory::StateDirectory;
use crate::failpoint::failpoint;
use crate::nodes::{PracticeSpec, cores, machine_node, practice_nodes};
use crate::spec::JobKey;

mod attempts;
mod foreign;
mod journal;
mod link;
mod orders;
mod recover;
mod watch;

use attempts::{Attempt, Attempts, Phase};
use journal::Journal;
use link::ShepherdLink;

/// What the engine needs to know.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// Muster's state directory.
    pub state_directory: PathBuf,
    /// The command that runs [`crate::shepherd_main`]; the state directory is appended to it.
    pub shepherd_command: Vec<String>,
    /// The cluster's name, for `SLURM_CLUSTER_NAME`.
    pub cluster: String,
    /// Dress the machine up as practice nodes.
    pub practice: Option<PracticeSpec>,
    /// Do without cgroups even where they can be had.
    pub without_cgroup: bool,
    /// Where a job's nodes are other machines: the command that runs a task there and lives as long
    /// as it does. The node's name, `--` and the task's own words are appended to it.
    pub reach: Option<Vec<String>>,
    /// Where the daemon listens: jobs find it in `MUSTER_SOCKET`.
    pub client_socket: Option<PathBuf>,
    /// Where the use of GPUs is read from; `None` is the drivers, and on practice nodes the file
    /// that jobs find in `MUSTER_PRACTICE_GPU_USE`.
    pub gpu_reader: Option<Arc<dyn GpuReader>>,
}

/// Why the engine could not start.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The state directory cannot be used.
    #[error("cannot use the state directory {path}: {source}")]
    State {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The shepherd cannot be started or does not answer.
    #[error("cannot start the process that starts jobs: {0}")]
    Shepherd(String),
}

/// Runs jobs as processes of this machine.
pub struct LocalEngine {
    shared: Arc<Shared>,
}

/// Where `muster slurm-links` puts Slurm's names, in the state directory.
const SLURM_LINKS: &str = "slurm-bin";

/// What jobs on practice nodes say that they use of their invented GPUs, in the state directory.
const PRACTICE_USE: &str = "practice-gpu-use";

/// Where changes go.
type Sink = Arc<dyn Fn(Observation) + Send + Sync>;

struct Shared {
    config: LocalConfig,
    state: StateDirectory,
    enforcement: Enforcement,
    nodes: Mutex<Vec<Node>>,
    machine: Machine,
    machine_mib: u64,
    cores: BTreeMap<u32, u32>,
    gpu_reader: Arc<dyn GpuReader>,
    users: Users,
    boot_id: String,
    link: ShepherdLink,
    attempts: Mutex<Attempts>,
    journal: Mutex<Journal>,
    sink: Mutex<Option<Sink>>,
}

impl LocalEngine {
    /// Finds what runs already, connects to the shepherd or starts one, and listens for pokes.
    ///
    /// # Errors
    /// [`LocalError`].
    pub fn start(config: LocalConfig) -> Result<Self, LocalError> {
        let state_error =
            |source| LocalError::State { path: config.state_directory.clone(), source };
        let state = StateDirectory::open(&config.state_directory).map_err(state_error)?;
        let socket = watch::bind_poke_socket(&state).map_err(state_error)?;
        let (link, stream, hello) = ShepherdLink::connect(&config, &state)?;
        let boot_id = crate::machine::boot_id();
        let (journal, cut_short) = Journal::open(state.path(), &boot_id).map_err(state_error)?;
        let machine = muster_node_metrics::discover("/".as_ref());
        let nodes = match &config.practice {
            Some(spec) => practice_nodes(spec, &boot_id),
            None => vec![machine_node(&machine)],
        };
        let gpu_reader = gpu_reader(&config, &state).map_err(state_error)?;
        let shared = Arc::new(Shared {
            state,
            enforcement: hello.enforcement,
            nodes: Mutex::new(nodes),
            machine_mib: machine.memory_mib,
            cores: cores(&machine),
            gpu_reader,
            machine,
            users: Users::default(),
            boot_id,
            link,
            attempts: Mutex::new(Attempts::default()),
            journal: Mutex::new(journal),
            sink: Mutex::new(None),
            config,
        });
        shared.recover().map_err(|source| LocalError::State {
            path: shared.config.state_directory.clone(),
            source,
        })?;
        shared.report_cut_short(&cut_short);
        watch::start(&shared, socket, stream);
        Ok(Self { shared })
    }

    /// Its name among those on this machine, as the cgroups of its jobs have it.
    pub fn instance(&self) -> String {
        self.shared.state.instance()
    }

    /// What this machine lets it enforce, for `muster doctor`.
    pub fn enforcement(&self) -> &Enforcement {
        &self.shared.enforcement
    }

    /// The machine as found, for `muster doctor`.
    pub fn machine(&self) -> &Machine {
        &self.shared.machine
    }

    /// The path of a job's step socket, for clients outside the job.
    pub fn step_socket(&self, job: JobId, attempt: u32) -> PathBuf {
        let key = JobKey { job: job.0, attempt };
        self.shared.state.job(key).join(muster_api::step::SOCKET_NAME)
    }
}

impl Drop for LocalEngine {
    fn drop(&mut self) {
        self.shared.link.close();
        watch::wake(&self.shared.state);
        crate::runtime::leave(self.shared.state.path());
    }
}

impl Engine for LocalEngine {
    fn name(&self) -> EngineName {
        EngineName::local()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { places_devices: true, suspends: true, preempts: true }
    }

    fn inventory(&self) -> Result<Inventory, EngineError> {
        self.shared.check_supervisors();
        self.shared.look_at_gpus();
        let nodes = self.shared.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let attempts = self.shared.attempts();
        let highest = JobId(self.shared.journal().highest());
        let mut inventory = Inventory { nodes, highest, ..Inventory::default() };
        for (key, attempt) in attempts.iter() {
            match &attempt.phase {
                Phase::Exited(report) => {
                    inventory.exited.push((JobId(key.job), key.attempt, report.clone()));
                }
                Phase::Accepted { .. } | Phase::Running { .. } => inventory.running.push(Running {
                    job: JobId(key.job),
                    attempt: key.attempt,
                    started: attempt.started(),
                    suspended: attempt.suspended,
                    signalled: attempt.signalled,
                    steps: attempt.steps.clone(),
                }),
            }
        }
        Ok(inventory)
    }

    fn execute(&self, fence: u64, order: &Order) -> Result<(), EngineError> {
        self.shared.attempts().check_fence(fence)?;
        let shared = &self.shared;
        match order {
            Order::Launch(launch) => shared.launch(launch),
            Order::Stop { job, attempt, cause, grace } => {
                shared.stop(key(*job, *attempt), cause.clone(), grace.0)
            }
            Order::Signal { job, attempt, number, signal, scope } => shared.order(
                key(*job, *attempt),
                &StepOrder::Signal { number: *number, signal: *signal, scope: *scope },
            ),
            Order::Suspend { job, attempt, suspend: true } => {
                shared.order(key(*job, *attempt), &StepOrder::Suspend)
            }
            Order::Suspend { job, attempt, suspend: false } => {
                shared.order(key(*job, *attempt), &StepOrder::Resume)
            }
            Order::Resize { job, attempt, nodes, grace } => shared.order(
                key(*job, *attempt),
                &StepOrder::Resize { nodes: nodes.clone(), grace_s: grace.0 },
            ),
            Order::Limit { job, attempt, limit } => shared.order(
                key(*job, *attempt),
                &StepOrder::SetTimeLimit { limit_s: limit.seconds().map(|s| s.0) },
            ),
            Order::Acknowledge { job, attempt } => shared.acknowledge(key(*job, *attempt)),
        }
    }

    fn watch(&self, sink: Sink) {
        *self.shared.sink.lock().unwrap_or_else(PoisonError::into_inner) = Some(sink);
    }
}

/// Where the use of GPUs is read from. Everybody's jobs write to the file of practice nodes, which
/// is emptied here.
fn gpu_reader(config: &LocalConfig, state: &StateDirectory) -> io::Result<Arc<dyn GpuReader>> {
    if let Some(reader) = &config.gpu_reader {
        return Ok(Arc::clone(reader));
    }
    if config.practice.is_none() {
        return Ok(Arc::new(Drivers));
    }
    let path = state.path().join(PRACTICE_USE);
    std::fs::write(&path, "")?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
    Ok(Arc::new(UseFile { path }))
}

fn key(job: JobId, attempt: u32) -> JobKey {
    JobKey { job: job.0, attempt }
}

impl Shared {
    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        // What the lock protects is changed in single steps, so a panic leaves it whole.
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, observation: Observation) {
        let sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sink) = sink {
            sink(observation);
        }
    }

    fn launch(&self, launch: &Launch) -> Result<(), EngineError> {
        let key = key(launch.job.id, launch.job.attempt);
        if self.attempts().is_known(key) {
            return Ok(());
        }
        let links = self.state.path().join(SLURM_LINKS);
        let around = Surroundings {
            slurm_links: links.is_dir().then_some(links.as_path()),
            cluster: &self.config.cluster,
            jobs: &self.state.jobs(),
            users: &self.users,
            machine_mib: self.machine_mib,
            cores: &self.cores,
            client_socket: self.config.client_socket.as_deref(),
            reach: self.config.reach.as_deref().unwrap_or_default(),
            practice_use: &self.state.path().join(PRACTICE_USE),
        };
        let spec = match launch_spec(launch, &around) {
            Ok(spec) => spec,
            Err(why) => {
                let report = never_ran(EndCause::LaunchFailed, &why);
                return self.record_without_running(key, report).map(drop);
            }
        };
        let message = link::launch_message(&spec).map_err(unreachable)?;
        self.journal().launched(key).map_err(unreachable)?;
        self.attempts().insert(key, Attempt::accepted(message.clone()));
        failpoint("engine.before_launch");
        // A shepherd that is gone is replaced by its watcher, which sends what is accepted again.
        if let Err(error) = self.link.send(&message) {
            tracing::warn!(job = key.job, %error, "launch order not sent, will be repeated");
        }
        failpoint("engine.after_launch");
        Ok(())
    }

    /// Takes the exit of an attempt that never runs; false when it runs already.
    fn record_without_running(&self, key: JobKey, report: ExitReport) -> Result<bool, EngineError> {
        let claimed =
            recover::claim_without_running(&self.state, key, &report).map_err(unreachable)?;
        if claimed {
            self.attempts().insert(key, Attempt::exited(report.clone()));
            self.tell(Observation::Exited { job: JobId(key.job), attempt: key.attempt, report });
        }
        Ok(claimed)
    }

    fn acknowledge(&self, key: JobKey) -> Result<(), EngineError> {
        let exited = self.attempts().get(key).is_some_and(|a| matches!(a.phase, Phase::Exited(_)));
        if !exited {
            return Ok(());
        }
        failpoint("engine.before_acknowledge");
        self.state.remove(key).map_err(unreachable)?;
        self.attempts().forget(key);
        self.journal().acknowledged(key).map_err(unreachable)
    }
}

/// The order cannot be carried out now.
fn unreachable(why: impl std::fmt::Display) -> EngineError {
    EngineError::Unreachable { engine: EngineName::local(), why: why.to_string() }
}

/// The report of an attempt of which no process ever ran, as of now.
fn never_ran(cause: EndCause, message: &str) -> ExitReport {
    let now = Timestamp::from_millis(crate::machine::now_ms() as i64);
    ExitReport::never_ran(cause, message, now)
}

/// Threads hold the engine weakly and end with it.
type Weakly = Weak<Shared>;
