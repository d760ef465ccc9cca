//! A job as it was asked for: everything fixed at submission.

use crate::{
    ArraySpec, BlobId, Dependency, Elastic, GpuBind, Labels, Request, Seconds, TimeLimit,
    Timestamp, is_default,
};
use serde::{Deserialize, Serialize};

/// Everything about a job that its submitter decided. Shared by all tasks of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobSpec {
    /// The job's name.
    pub name: String,
    /// Who submitted it.
    pub owner: Owner,
    /// The account that is charged.
    pub account: String,
    /// The quality of service.
    pub qos: String,
    /// The partitions it may run in, never empty once accepted; it starts in the first that can.
    pub partitions: Vec<String>,
    /// Where it fits.
    pub request: Request,
    /// Which GPUs each task of its steps sees, unless a step says otherwise (`--gpu-bind`).
    #[serde(skip_serializing_if = "is_default")]
    pub gpu_bind: Option<GpuBind>,
    /// What other jobs' affinity goes by (`#MUSTER --labels`).
    #[serde(skip_serializing_if = "is_default")]
    pub labels: Labels,
    /// The limit asked for; `None` is the partition's default.
    #[serde(skip_serializing_if = "is_default")]
    pub time_limit: Option<TimeLimit>,
    /// The limit may be cut down to this to start earlier (`--time-min`).
    #[serde(skip_serializing_if = "is_default")]
    pub time_min: Option<Seconds>,
    /// Not before this instant.
    #[serde(skip_serializing_if = "is_default")]
    pub begin: Option<Timestamp>,
    /// Removed where it cannot end by this instant.
    #[serde(skip_serializing_if = "is_default")]
    pub deadline: Option<Timestamp>,
    /// Submitted held (`--hold`).
    #[serde(skip_serializing_if = "is_default")]
    pub hold: bool,
    /// Lowers (or raises, for admins) the priority by so much.
    #[serde(skip_serializing_if = "is_default")]
    pub nice: i64,
    /// A priority set by hand (`--priority`), in place of the computed one.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: Option<u32>,
    /// Added to the priority by the site (`scontrol update SiteFactor=`).
    #[serde(skip_serializing_if = "is_default")]
    pub site_factor: i64,
    /// What must happen first.
    #[serde(skip_serializing_if = "is_default")]
    pub dependency: Option<Dependency>,
    /// Cancelled, not left waiting, where the dependency can never be met.
    #[serde(skip_serializing_if = "is_default")]
    pub kill_on_invalid_dependency: Option<bool>,
    /// May be put back in the queue after a node failure or a preemption.
    pub requeue: bool,
    /// A signal before the time limit.
    #[serde(skip_serializing_if = "is_default")]
    pub signal: Option<SignalSpec>,
    /// The array, where it is one.
    #[serde(skip_serializing_if = "is_default")]
    pub array: Option<ArraySpec>,
    /// What it is.
    pub kind: JobKind,
    /// Where its output goes, as written (patterns are not expanded).
    pub stdio: Stdio,
    /// The working directory, absolute.
    pub cwd: String,
    /// Where the submission was made: differs from `cwd` with `--chdir`. Absolute; empty in
    /// jobs of old logs.
    #[serde(skip_serializing_if = "is_default")]
    pub submit_dir: String,
    /// Free text.
    #[serde(skip_serializing_if = "is_default")]
    pub comment: String,
    /// Who is told about what.
    #[serde(skip_serializing_if = "is_default")]
    pub mail: Option<MailSpec>,
    /// How it is checkpointed and restarted.
    #[serde(skip_serializing_if = "is_default")]
    pub checkpoint: Option<Checkpoint>,
    /// The gang that it starts with (`#MUSTER --gang=NAME:SIZE`).
    #[serde(skip_serializing_if = "is_default")]
    pub gang: Option<Gang>,
    /// It preempts nobody, whatever puts it above others (a pod's `preemptionPolicy: Never`).
    #[serde(skip_serializing_if = "is_default")]
    pub never_preempts: bool,
    /// How long it takes to end once it is told, where it says so itself (a pod's
    /// `terminationGracePeriodSeconds`).
    #[serde(skip_serializing_if = "is_default")]
    pub ends_within: Option<Seconds>,
    /// Jobs of one owner that say the same here make room together or not at all, whenever each of
    /// them started.
    #[serde(skip_serializing_if = "is_default")]
    pub leaves_with: Option<String>,
    /// Whether it may change its number of nodes while it runs.
    #[serde(skip_serializing_if = "is_default")]
    pub elastic: Elastic,
    /// The container image (`#MUSTER --image`), for engines that run images.
    #[serde(skip_serializing_if = "is_default")]
    pub image: Option<String>,
    /// Directories or volumes it needs.
    #[serde(skip_serializing_if = "is_default")]
    pub volumes: Vec<Volume>,
    /// The script with its arguments and environment, stored as one blob.
    pub payload: BlobId,
    /// The script's path or name as the submitter gave it.
    #[serde(skip_serializing_if = "is_default")]
    pub command: String,
    /// The host it was submitted from.
    #[serde(skip_serializing_if = "is_default")]
    pub submit_host: String,
    /// Warnings given at submission.
    #[serde(skip_serializing_if = "is_default")]
    pub warnings: Vec<String>,
}

/// The person a job belongs to, as the operating system knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// Numeric user id.
    pub uid: u32,
    /// Numeric primary group id.
    pub gid: u32,
    /// The user's name; the number as text where there is none.
    pub user: String,
}

/// What a job is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// A script that runs by itself.
    #[default]
    Batch,
    /// An allocation that a client uses and gives back (`salloc`, `srun` outside a job).
    Allocation,
    /// A command with a terminal of its own that one can attach to (`muster run --pty`).
    Terminal,
}

/// Output and input files, as patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Stdio {
    /// `--output`; `None` is `slurm-%j.out` (`slurm-%A_%a.out` for an array).
    #[serde(skip_serializing_if = "is_default")]
    pub output: Option<String>,
    /// `--error`; `None` goes where the output goes.
    #[serde(skip_serializing_if = "is_default")]
    pub error: Option<String>,
    /// `--input`; `None` is `/dev/null`.
    #[serde(skip_serializing_if = "is_default")]
    pub input: Option<String>,
    /// What happens to a file that is already there.
    #[serde(skip_serializing_if = "is_default")]
    pub open_mode: OpenMode,
}

/// What opening an output file does to what is in it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum OpenMode {
    /// Truncated at the first start, appended to at a restart.
    #[default]
    Default,
    /// Always appended to.
    Append,
    /// Always truncated.
    Truncate,
}

/// A signal some time before the limit (`--signal=[{R|B}:]SIG[@TIME]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SignalSpec {
    /// The signal's number on Linux.
    pub signal: u8,
    /// So long before the time limit; Slurm's default is 60 s.
    pub before: Seconds,
    /// Who gets it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub target: SignalTarget,
    /// Sent too when a reservation that overlaps begins (`R:`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_reservation: bool,
}

/// Which processes of a job get a signal.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum SignalTarget {
    /// The steps, not the batch shell.
    #[default]
    Steps,
    /// The batch shell only (`B:`).
    Batch,
}

/// Mail about a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MailSpec {
    /// The address or user; empty is the owner.
    pub to: String,
    /// Slurm's event words in upper case: `BEGIN`, `END`, `FAIL`, `REQUEUE`, `TIME_LIMIT_80`, …
    pub events: Vec<String>,
}

/// How a job is checkpointed (`#MUSTER --checkpoint…`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// Where checkpoints lie; a restarted job finds it in `MUSTER_CHECKPOINT_DIR`.
    pub dir: String,
    /// The signal that asks for one before the job is stopped; `None` is no asking.
    #[serde(skip_serializing_if = "is_default")]
    pub signal: Option<u8>,
    /// How long to wait for it.
    #[serde(skip_serializing_if = "is_default")]
    pub grace: Seconds,
    /// The variable that tells the job where its checkpoints lie; empty is
    /// `MUSTER_CHECKPOINT_DIR`.
    #[serde(skip_serializing_if = "is_default")]
    pub variable: String,
}

/// Jobs of one user that start together: the first of the name, so many at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Gang {
    /// Its name, among the user's own.
    pub name: String,
    /// How many jobs it has; at least two.
    pub size: u32,
}

/// A directory or volume that a job needs (`#MUSTER --volume=SOURCE:TARGET[:ro]`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Volume {
    /// A path or a claim's name.
    pub source: String,
    /// Where the job sees it.
    pub target: String,
    /// May not be written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_only: bool,
}
