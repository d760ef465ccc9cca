//! What the engine hands to a supervisor, and what comes back: plain data as JSON.

use muster_model::{ExitReport, StepRecord};
use serde::{Deserialize, Serialize};

/// Names one start of a job: a requeued job keeps its number and gets the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobKey {
    /// The job's number.
    pub job: u32,
    /// Which start of it.
    pub attempt: u32,
}

impl std::fmt::Display for JobKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.job, self.attempt)
    }
}

impl std::str::FromStr for JobKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (job, attempt) = text.split_once('.').ok_or(())?;
        Ok(Self { job: job.parse().map_err(drop)?, attempt: attempt.parse().map_err(drop)? })
    }
}

/// Everything a supervisor needs to run one job, with no choice left open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchSpec {
    /// The job's number.
    pub job: u32,
    /// Which start of it.
    pub attempt: u32,
    /// Whose processes they will be.
    pub user: UserSpec,
    /// Working directory; where it cannot be entered the job is not started.
    pub cwd: String,
    /// File mode mask.
    pub umask: u32,
    /// What to run.
    pub program: Program,
    /// Start from what a login shell of the user sets (`--get-user-env`).
    pub login_environment: bool,
    /// The job's environment as `--export` left it; the scheduler's variables are laid over it.
    pub environment: Vec<(String, String)>,
    /// Where the standard streams go.
    pub stdio: StdioSpec,
    /// Run it on a terminal that the supervisor keeps.
    pub terminal: Option<TerminalSize>,
    /// The nodes it has, in order; the script runs on the first.
    pub nodes: Vec<NodeShare>,
    /// How many tasks it asked for and where they go.
    pub tasks: TaskLayout,
    /// Time, memory and process limits.
    pub limits: Limits,
    /// Facts for the job's `SLURM_*` variables.
    pub facts: JobFacts,
    /// Its nodes are practice nodes: all of them are this machine.
    pub practice: bool,
    /// A directory to put first in `PATH`: Slurm's names as links to muster.
    pub path_first: Option<String>,
    /// Variables laid over everything else, ready made (`SLURM_HET_*`, checkpoint variables).
    pub variables: Vec<(String, String)>,
    /// The command that runs a task on a node that is another machine, before the node's name, `--`
    /// and the task's own words; empty where all nodes are this one.
    #[serde(default)]
    pub reach: Vec<String>,
}

impl LaunchSpec {
    /// The job's number and attempt.
    pub fn key(&self) -> JobKey {
        JobKey { job: self.job, attempt: self.attempt }
    }

    /// Where processes meet whose first is on this node of the job.
    pub fn meeting_place(&self, node: usize) -> String {
        match self.nodes.get(node).filter(|_| !self.reach.is_empty()) {
            Some(node) => node.name.clone(),
            None => "127.0.0.1".to_owned(),
        }
    }
}

/// Who a job belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserSpec {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Login name.
    pub name: String,
    /// Home directory, used for `HOME` where the environment has none.
    pub home: String,
    /// Login shell, used for `SHELL` where the environment has none.
    pub shell: String,
}

/// What a job runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Program {
    /// A batch script, run by the interpreter its first line names.
    Script {
        /// The script's text.
        text: String,
        /// Arguments after the script's name.
        arguments: Vec<String>,
    },
    /// A program found through the environment's `PATH`.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// Nothing: the allocation is held for a client that connects within [`HOLD_CONNECT_S`].
    #[default]
    Hold,
    /// Nothing: the allocation is held until it is ended (further parts of a heterogeneous job).
    Stay,
}

/// How long an interactive allocation waits for its client to connect.
pub const HOLD_CONNECT_S: u64 = 60;

/// Where a job's standard streams go; relative paths start in the working directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StdioSpec {
    /// Standard input; absent means nothing.
    pub input: Option<String>,
    /// Standard output; absent means nowhere.
    pub output: Option<String>,
    /// The user named the output file; a terminal job goes without one that nobody asked for.
    #[serde(default)]
    pub output_required: bool,
    /// Standard error; absent means with standard output.
    pub error: Option<String>,
    /// Whether an output file that exists is kept or emptied.
    pub open_mode: OpenMode,
}

/// What happens to an output file that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenMode {
    /// Empty it first.
    #[default]
    Truncate,
    /// Write behind what it has.
    Append,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// What a job has on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node's name.
    pub name: String,
    /// How many CPUs the job has there.
    pub cpus: u32,
    /// Which CPUs of this machine those are; empty on practice nodes, where none is bound.
    pub cpu_ids: Vec<u32>,
    /// Where each of its CPUs stands, in the order of their numbers, on practice nodes too.
    #[serde(default)]
    pub places: Vec<CpuPlace>,
    /// Memory in MiB, 0 for no amount.
    pub memory_mib: u64,
    /// Its GPUs.
    pub gpus: Vec<GpuShare>,
}

/// Where a CPU stands in its machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPlace {
    /// Its number.
    pub id: u32,
    /// Its core, by a number that no other core of the machine has.
    pub core: u32,
    /// Its socket.
    pub socket: u32,
    /// Its NUMA domain.
    pub numa: u32,
}

/// One GPU of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuShare {
    /// Its number on the node.
    pub index: u32,
    /// Who made it.
    pub vendor: GpuVendor,
    /// Its device files' number (`/dev/nvidiaN`), for device access.
    pub minor: Option<u32>,
    /// The MIG instance that it is, by the driver's id.
    pub instance: Option<String>,
    /// The NUMA domain it is next to.
    #[serde(default)]
    pub numa: Option<u32>,
    /// The network card that it sends through.
    #[serde(default)]
    pub nic: Option<String>,
    /// The part of it that the job has; `None` is all of it.
    pub part: Option<GpuPart>,
}

/// A part of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuPart {
    /// Thousandths.
    pub milli: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// NVIDIA's Multi-Process Service bounds it.
    pub mps: bool,
}

/// Who made a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuVendor {
    /// Invented, on a practice node.
    #[default]
    Invented,
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
}

/// How many tasks a job asked for and where they go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLayout {
    /// Tasks on each of the job's nodes, in order.
    pub per_node: Vec<u32>,
    /// `--ntasks` as the user gave it, if at all.
    pub tasks: Option<u32>,
    /// `--ntasks-per-node` as the user gave it, if at all.
    pub tasks_per_node: Option<u32>,
    /// `--cpus-per-task` as the user gave it, if at all.
    pub cpus_per_task: Option<u32>,
    /// `--ntasks-per-gpu` as the user gave it, if at all.
    #[serde(default)]
    pub tasks_per_gpu: Option<u32>,
    /// `--ntasks-per-socket` as the user gave it, if at all.
    #[serde(default)]
    pub tasks_per_socket: Option<u32>,
    /// `--ntasks-per-core` as the user gave it, if at all.
    #[serde(default)]
    pub tasks_per_core: Option<u32>,
}

/// What a job may not exceed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Run time in seconds.
    pub time_s: Option<u64>,
    /// Seconds between TERM and KILL (Slurm's `KillWait`).
    pub grace_s: u32,
    /// Signals before the time limit (`--signal`, a checkpoint's).
    pub warnings: Vec<Warning>,
    /// Memory of all its processes together, in MiB.
    pub memory_mib: Option<u64>,
    /// The most processes and threads.
    pub processes_max: Option<u64>,
    /// Limits of each process (`ulimit`).
    pub resources: Vec<ResourceLimit>,
    /// Device files of GPUs that the job may not open.
    pub denied_gpu_minors: Vec<u32>,
}

/// One signal sent before the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The signal's number on Linux.
    pub signal: u8,
    /// Seconds before the limit.
    pub before_s: u64,
    /// `B:`, the script alone; otherwise the steps and not the script.
    pub batch: bool,
}

/// One `setrlimit` of a job's processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// Its number in `<sys/resource.h>`.
    pub resource: u32,
    /// Soft limit; absent means unlimited.
    pub soft: Option<u64>,
    /// Hard limit; absent means unlimited.
    pub hard: Option<u64>,
}

/// Facts that only become environment variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFacts {
    /// `SLURM_JOB_NAME`.
    pub name: String,
    /// `SLURM_CLUSTER_NAME`.
    pub cluster: String,
    /// `SLURM_JOB_PARTITION`.
    pub partition: String,
    /// `SLURM_JOB_ACCOUNT`.
    pub account: String,
    /// `SLURM_JOB_QOS`.
    pub qos: String,
    /// `SLURM_JOB_RESERVATION`.
    pub reservation: Option<String>,
    /// `SLURM_JOB_CONSTRAINTS`.
    pub constraints: Option<String>,
    /// `SLURM_JOB_LICENSES`.
    pub licenses: Option<String>,
    /// `SLURM_SUBMIT_DIR`.
    pub submit_directory: String,
    /// `SLURM_SUBMIT_HOST`.
    pub submit_host: String,
    /// `SLURM_RESTART_COUNT`, set when above zero.
    pub restarts: u32,
    /// `SLURM_MEM_PER_CPU` as the user gave it, MiB.
    pub memory_per_cpu_mib: Option<u64>,
    /// `SLURM_MEM_PER_GPU` as the user gave it, MiB.
    pub memory_per_gpu_mib: Option<u64>,
    /// `SLURM_MEM_PER_NODE` as the user gave it, MiB.
    pub memory_per_node_mib: Option<u64>,
    /// `SLURM_GPUS` as the user gave it (`a100:2`).
    pub gpus: Option<String>,
    /// `SLURM_GPUS_PER_NODE` as the user gave it.
    pub gpus_per_node: Option<String>,
    /// `SLURM_GPUS_PER_TASK` as the user gave it.
    pub gpus_per_task: Option<String>,
    /// `SLURM_DISTRIBUTION` as the user gave it.
    pub distribution: Option<String>,
    /// `SLURM_DIST_PLANESIZE`, where tasks lie in planes.
    #[serde(default)]
    pub plane_size: Option<u32>,
    /// `SLURM_GPU_BIND` as the user gave it.
    #[serde(default)]
    pub gpu_bind: Option<String>,
    /// `SLURM_EXPORT_ENV` when `--export` was given.
    pub export: Option<String>,
    /// The array this job is a task of.
    pub array: Option<ArrayFacts>,
}

/// What an array task knows of its array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayFacts {
    /// `SLURM_ARRAY_JOB_ID`.
    pub job: u32,
    /// `SLURM_ARRAY_TASK_ID`.
    pub task: u32,
    /// `SLURM_ARRAY_TASK_COUNT`.
    pub count: u32,
    /// `SLURM_ARRAY_TASK_MIN`.
    pub min: u32,
    /// `SLURM_ARRAY_TASK_MAX`.
    pub max: u32,
    /// `SLURM_ARRAY_TASK_STEP`.
    pub step: u32,
}

/// How a job ended: the content of `exit.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// The job's number.
    pub job: u32,
    /// Which start of it.
    pub attempt: u32,
    /// How it ended.
    pub report: ExitReport,
}

impl ExitRecord {
    /// The job's number and attempt.
    pub fn key(&self) -> JobKey {
        JobKey { job: self.job, attempt: self.attempt }
    }
}

/// The most steps an exit record lists; the last ones are left out beyond it.
pub const STEP_RECORDS_MAX: usize = 1_000;

/// What a running job's directory says about its supervisor: the content of `launch.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// The job's number.
    pub job: u32,
    /// Which start of it.
    pub attempt: u32,
    /// The supervisor's process.
    pub supervisor: ProcessId,
    /// The boot of this machine it belongs to.
    pub boot_id: String,
    /// When it was launched, UTC milliseconds.
    pub launched_ms: u64,
    /// Whose job it is.
    pub uid: u32,
    /// The names of its nodes, in order.
    pub nodes: Vec<String>,
    /// The cgroup directories it made, to be emptied if the supervisor vanishes.
    pub cgroups: Vec<String>,
}

/// A process, told apart from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// Its start in clock ticks after boot (`/proc/PID/stat`, field 22).
    pub start_ticks: u64,
}

/// What a supervisor tells the daemon's poke socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "poke", rename_all = "snake_case")]
pub enum Poke {
    /// The job's first process runs.
    Started {
        /// Which start of which job.
        key: JobKey,
        /// Its supervisor.
        supervisor: ProcessId,
        /// When, UTC milliseconds.
        start_ms: u64,
    },
    /// The job stands still or goes on again.
    Suspended {
        /// Which start of which job.
        key: JobKey,
        /// Whether it stands still now.
        suspended: bool,
    },
    /// The job has only these nodes any more.
    Resized {
        /// Which start of which job.
        key: JobKey,
        /// Their names.
        nodes: Vec<String>,
    },
    /// A signal was sent.
    Signalled {
        /// Which start of which job.
        key: JobKey,
        /// The signal's number among the job's.
        number: u32,
    },
    /// A step began or ended.
    Step {
        /// Which start of which job.
        key: JobKey,
        /// The step as it stands.
        step: StepRecord,
    },
    /// The job ended; its record is in its directory.
    Exited {
        /// Which start of which job.
        key: JobKey,
        /// The record itself where it is short enough for a datagram.
        record: Option<Box<ExitRecord>>,
    },
    /// A supervisor died without leaving a record.
    Lost {
        /// Which start of which job.
        key: JobKey,
    },
}
