//! Steps of a running job: what `srun`, `salloc` and `attach` say to the job's supervisor.
//!
//! Every running job has one supervisor, and the supervisor listens on a unix stream socket in the
//! job's directory ([`SOCKET_NAME`]; inside the job its path stands in [`SOCKET_VARIABLE`]). The
//! peer's credentials decide: the job's own user and the daemon's user are served, others refused.
//!
//! One connection does one thing:
//!
//! * **a step**: [`Request::CreateStep`] → any number of [`Event::Waiting`] → [`Event::Created`]
//!   with the layout, so that the client can open one pipe or file per task → one or more
//!   [`Request::Launch`] carrying the tasks' descriptors → [`Event::TaskStarted`] and
//!   [`Event::TaskExited`] per task → [`Event::StepEnded`]. [`Request::Signal`] may be sent at any
//!   time. A connection that closes early ends its step, as the death of `srun` does in Slurm.
//! * **an interactive allocation** (`salloc`): [`Request::Hold`] ties the life of a job without a
//!   script to this connection; [`Request::Release`] or closing it ends the job.
//! * **a terminal**: [`Request::Attach`] → [`Event::Attached`], the kept output as data frames, then
//!   live data both ways and [`Request::Resize`]. Closing the connection detaches; the job goes on.
//! * **a question**: [`Request::Describe`] → [`Event::Allocation`].
//! * **an order of the daemon**: [`Request::Order`] → [`Event::Done`].
//!
//! Frames and descriptor passing are in [`wire`]; [`Connection`] is both ends' helper.

pub use muster_model::{
    CpuBind, Distribution, EndCause, ExitStatus, GpuBind, SignalScope, StepRecord, StopCause,
};
use serde::{Deserialize, Serialize};

pub mod hosts;
pub mod wire;

pub use hosts::fold_hosts;
pub use wire::{Connection, Frame, Message, WireError};

/// The environment variable inside a job that names its step socket.
pub const SOCKET_VARIABLE: &str = "MUSTER_STEP_SOCKET";

/// The step socket's file name inside a job's directory.
pub const SOCKET_NAME: &str = "step.sock";

/// The most tasks one step may have.
pub const TASKS_MAX: u32 = 65_536;

/// What a client says to a job's supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Asks for a step: resources of the allocation and a layout of tasks.
    CreateStep(Box<StepSpec>),
    /// Starts tasks of this connection's step; descriptors come with the frame.
    Launch {
        /// The tasks to start now; each at most once over all `Launch` frames.
        tasks: Vec<TaskLaunch>,
    },
    /// Sends a signal to every process of a step: this connection's own, or the one named.
    Signal {
        /// The signal's number on Linux.
        signal: u8,
        /// Another step of the same job; absent means this connection's step.
        #[serde(default)]
        step: Option<u32>,
    },
    /// Ties a job without a script to this connection.
    Hold,
    /// Ends the job that this connection holds, with the status its record shall have.
    Release {
        /// The status of what ran in it.
        status: ExitStatus,
    },
    /// Connects to the job's terminal.
    Attach {
        /// Rows of the client's terminal.
        rows: u16,
        /// Columns of the client's terminal.
        columns: u16,
    },
    /// The client's terminal changed its size.
    Resize {
        /// Rows of the client's terminal.
        rows: u16,
        /// Columns of the client's terminal.
        columns: u16,
    },
    /// Asks what the allocation has and which steps run.
    Describe,
    /// An order of the daemon; only the daemon's user may give it.
    Order(Order),
}

/// What the daemon may order of a running job; each may be repeated without harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// End the job: TERM, wait, KILL of everything in it.
    Terminate {
        /// Why; absent where no job stands for what runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<StopCause>,
        /// Seconds between TERM and KILL.
        grace_s: u64,
    },
    /// Send a signal, unless this number or a higher one was sent before.
    Signal {
        /// The signal's number among the job's.
        number: u32,
        /// The signal's number on Linux.
        signal: u8,
        /// Who gets it.
        scope: SignalScope,
    },
    /// Stop every process of the job where it stands.
    Suspend,
    /// Let them go on.
    Resume,
    /// Keep only these of the job's nodes: TERM, wait, KILL of the tasks on the others.
    Resize {
        /// Their names.
        nodes: Vec<String>,
        /// Seconds between TERM and KILL.
        grace_s: u64,
    },
    /// Change the time limit.
    SetTimeLimit {
        /// The new limit in seconds of run time, absent for none.
        limit_s: Option<u64>,
    },
    /// Say how things stand: [`Event::Report`].
    Report,
}

/// What a step needs; absent numbers are filled in from the allocation as Slurm does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSpec {
    /// The step's name, by default the program's.
    #[serde(default)]
    pub name: String,
    /// Total tasks (`--ntasks`).
    #[serde(default)]
    pub tasks: Option<u32>,
    /// Tasks on each node (`--ntasks-per-node`).
    #[serde(default)]
    pub tasks_per_node: Option<u32>,
    /// CPUs of each task (`--cpus-per-task`).
    #[serde(default)]
    pub cpus_per_task: Option<u32>,
    /// The fewest nodes (`--nodes`).
    #[serde(default)]
    pub nodes_min: Option<u32>,
    /// The most nodes (`--nodes`).
    #[serde(default)]
    pub nodes_max: Option<u32>,
    /// Nodes that must be used (`--nodelist`), unfolded.
    #[serde(default)]
    pub nodelist: Vec<String>,
    /// Nodes that must not be used (`--exclude`), unfolded.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// First node of the allocation to use (`--relative`).
    #[serde(default)]
    pub relative: Option<u32>,
    /// GPUs the step wants; absent means every GPU of the job on its nodes.
    #[serde(default)]
    pub gpus: Option<StepGpus>,
    /// Memory on each node in MiB; recorded, the job's limit stays the enforced one.
    #[serde(default)]
    pub memory_mib_per_node: Option<u64>,
    /// Share CPUs and GPUs with other steps (`--overlap`).
    #[serde(default)]
    pub overlap: bool,
    /// Take only the CPUs asked for, not all on the step's nodes (`--exact`; implied by
    /// `cpus_per_task`).
    #[serde(default)]
    pub exact: bool,
    /// Refuse instead of waiting while the resources are busy (`--immediate`).
    #[serde(default)]
    pub immediate: bool,
    /// Tasks for each GPU of the step (`--ntasks-per-gpu`).
    #[serde(default)]
    pub tasks_per_gpu: Option<u32>,
    /// At most so many tasks on a socket (`--ntasks-per-socket`).
    #[serde(default)]
    pub tasks_per_socket: Option<u32>,
    /// At most so many tasks on a core (`--ntasks-per-core`).
    #[serde(default)]
    pub tasks_per_core: Option<u32>,
    /// How tasks lie over nodes and their CPUs (`--distribution`).
    #[serde(default)]
    pub distribution: Distribution,
    /// The node of each task, by number, for an arbitrary distribution (`SLURM_HOSTFILE`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Which CPUs each task may run on (`--cpu-bind`); absent is what other options imply.
    #[serde(default)]
    pub cpu_bind: Option<CpuBind>,
    /// Which GPUs each task sees (`--gpu-bind`); absent is what other options imply.
    #[serde(default)]
    pub gpu_bind: Option<GpuBind>,
    /// End the step when a task fails (`--kill-on-bad-exit`).
    #[serde(default)]
    pub kill_on_bad_exit: bool,
    /// End the step this many seconds after its first task ended (`--wait`).
    #[serde(default)]
    pub wait_s: Option<u32>,
    /// Time limit of the step in seconds (`--time`).
    #[serde(default)]
    pub time_limit_s: Option<u64>,
    /// The step's standard input is a terminal: its task leads a session that owns it (`--pty`).
    #[serde(default)]
    pub pty: bool,
    /// Working directory.
    pub cwd: String,
    /// Environment of the caller; the step's own variables are laid over it.
    pub environment: Vec<(String, String)>,
    /// Program and arguments of every task that does not bring its own.
    pub argv: Vec<String>,
    /// File mode mask; absent means the job's.
    #[serde(default)]
    pub umask: Option<u32>,
}

/// GPUs a step wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "per", content = "count")]
pub enum StepGpus {
    /// In total (`--gpus`); zero for none.
    Step(u32),
    /// On each node (`--gpus-per-node`, `--gres=gpu:N`).
    Node(u32),
    /// For each task, each task seeing its own (`--gpus-per-task`).
    Task(u32),
}

/// One task to start, with its three standard streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLaunch {
    /// The task's number in the step, from 0.
    pub procid: u32,
    /// Standard input.
    pub stdin: Stream,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
    /// Program and arguments of this task alone (`--multi-prog`).
    #[serde(default)]
    pub argv: Option<Vec<String>>,
}

/// Where a standard stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Nowhere.
    Null,
    /// To the frame's descriptor of this number, from 0; several streams may share one.
    Fd(u16),
}

/// What the supervisor says to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The request is refused and nothing was done.
    Refused {
        /// A stable code (`step.…`).
        code: String,
        /// What was expected and found.
        message: String,
        /// What to do next, if anything helps.
        #[serde(default)]
        hint: Option<String>,
    },
    /// The step waits for resources that other steps of the job hold.
    Waiting {
        /// What it waits for.
        reason: String,
    },
    /// The step has its resources; the client may launch its tasks.
    Created {
        /// The step's number.
        step: u32,
        /// Where each part of it runs, in the order of the allocation.
        nodes: Vec<StepNode>,
        /// For each task by number: the index of its node in `nodes`.
        places: Vec<u32>,
    },
    /// A task runs.
    TaskStarted {
        /// The task's number.
        procid: u32,
        /// Its process.
        pid: i32,
    },
    /// A task could not be started.
    TaskFailed {
        /// The task's number.
        procid: u32,
        /// Exit code to report: 127 for "not found", 126 for "may not be run", else 1.
        code: i32,
        /// What was wrong.
        message: String,
    },
    /// A task ended.
    TaskExited {
        /// The task's number.
        procid: u32,
        /// How.
        status: ExitStatus,
        /// It left a core dump.
        #[serde(default)]
        core_dumped: bool,
        /// The job gave up the node that it was on: how it ended says nothing of the step.
        #[serde(default)]
        given_up: bool,
    },
    /// The step and all of its processes ended.
    StepEnded {
        /// The step's number.
        step: u32,
        /// The highest of the tasks' statuses, as Slurm reports it.
        status: ExitStatus,
        /// Why.
        cause: EndCause,
    },
    /// The terminal is connected; what it showed lately follows as data.
    Attached,
    /// What the allocation has.
    Allocation(Box<Allocation>),
    /// The allocation is held by this connection.
    Held(Box<Allocation>),
    /// The job ends now, so this connection will close.
    Ending {
        /// Why.
        cause: EndCause,
    },
    /// The order was taken.
    Done,
    /// How the job stands, for the daemon.
    Report {
        /// It stands still.
        suspended: bool,
        /// The highest signal number sent.
        signalled: u32,
        /// Its steps so far.
        steps: Vec<StepRecord>,
    },
}

/// The number a shell would show for a status: the code, or 128 plus the signal.
pub fn shell_code(status: ExitStatus) -> i32 {
    let signal = i32::from(status.signal);
    if signal == 0 { i32::from(status.code) } else { 128 + signal }
}

/// The worse of two, as a step's status is made of its tasks': the higher number wins.
pub fn worse(one: ExitStatus, other: ExitStatus) -> ExitStatus {
    if shell_code(other) > shell_code(one) { other } else { one }
}

/// One node's part of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepNode {
    /// The node's name.
    pub name: String,
    /// Its tasks.
    pub tasks: u32,
    /// CPUs the step has there.
    pub cpus: u32,
    /// GPU numbers the step has there.
    pub gpus: Vec<u32>,
}

/// What a job holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The job's number.
    pub job: u64,
    /// Its nodes in order.
    pub nodes: Vec<AllocationNode>,
    /// The folded host list.
    pub nodelist: String,
    /// Seconds until the time limit, if there is one.
    pub time_left_s: Option<u64>,
    /// The variables a batch script of this job sees, for a shell started by `salloc`.
    pub environment: Vec<(String, String)>,
    /// Steps that run now.
    pub steps: Vec<RunningStep>,
}

/// One node of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationNode {
    /// The node's name.
    pub name: String,
    /// CPUs the job has there.
    pub cpus: u32,
    /// GPU numbers the job has there.
    pub gpus: Vec<u32>,
    /// Memory the job has there in MiB, 0 for no limit.
    pub memory_mib: u64,
}

/// A step that runs now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningStep {
    /// Its number.
    pub step: u32,
    /// Its name.
    pub name: String,
    /// Its tasks.
    pub tasks: u32,
    /// The folded host list.
    pub nodelist: String,
    /// When it started, UTC milliseconds.
    pub start_ms: u64,
}
