//! A job in full.

use crate::{ReasonView, is_default};
use muster_model::{
    Checkpoint, ExitStatus, JobKind, JobState, MailSpec, Request, SignalSpec, Stdio, Timestamp,
    Volume,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The jobs that one id names: a job, an array's live tasks, a het job's components.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    /// The jobs, by ascending raw number; waiting array tasks are folded unless `expand` is asked.
    pub jobs: Vec<JobView>,
    /// `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// The daemon's clock.
    #[schema(value_type = i64)]
    pub now_ms: Timestamp,
}

/// Everything about a job but its payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    /// What the queue shows, with its details.
    #[serde(flatten)]
    pub row: crate::QueueRow,
    /// The request.
    #[schema(value_type = Object)]
    pub request: Request,
    /// Everything that holds it back, the binding one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<ReasonView>,
    /// Who holds it: `user`, `admin`, `system`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub held_by: String,
    /// Not before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub begin_ms: Option<Timestamp>,
    /// Removed where it cannot end by this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub deadline_ms: Option<Timestamp>,
    /// What its dependency came to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateView>,
    /// Where its files are, as written.
    #[schema(value_type = Object)]
    pub stdio: Stdio,
    /// Its output, error and input with the patterns filled in; empty while that is not known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stdout_path: String,
    /// See `stdout_path`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stderr_path: String,
    /// See `stdout_path`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stdin_path: String,
    /// Its attempt: 0 before the first start.
    pub attempt: u32,
    /// What it has on each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<ShareView>,
    /// How its nodes lie to each other, while it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementView>,
    /// A signal before the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub signal: Option<SignalSpec>,
    /// Mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub mail: Option<MailSpec>,
    /// Checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub checkpoint: Option<Checkpoint>,
    /// When the present attempt reported its last complete checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub checkpointed_ms: Option<Timestamp>,
    /// The image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub volumes: Vec<Volume>,
    /// The directory that the submission was made in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub submit_dir: String,
    /// The host it was submitted from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub submit_host: String,
    /// Warnings given at submission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// A sentence about its end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What its last attempt used.
    #[serde(default)]
    pub usage: UsageView,
    /// The steps of its last attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepView>,
}

/// How a job's nodes lie to each other, and what that costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlacementView {
    /// By level, the nearest first: how many of its domains the nodes are in.
    pub domains: Vec<LevelCount>,
    /// The lowest level whose one domain holds all nodes; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub meets_at: String,
    /// Predicted bus bandwidth of a ring all-reduce, MB/s in one direction; 0 where no link speed
    /// is known.
    pub ring_mbs: u64,
    /// The same on the nearest nodes of an empty cluster.
    pub ideal_mbs: u64,
    /// What makes it no faster, as a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bottleneck: String,
    /// A sentence for people.
    pub text: String,
}

/// A level and a number of its domains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LevelCount {
    /// The level's name.
    pub level: String,
    /// How many domains.
    pub domains: u32,
}

/// A component of a heterogeneous job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HetView {
    /// The number of component 0.
    pub leader: u32,
    /// 0 for the leader.
    pub offset: u32,
    /// How many components.
    pub size: u32,
}

/// One term of a dependency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GateView {
    /// The term: `afterok:12`.
    pub term: String,
    /// `waiting`, `met` or `failed`.
    pub status: String,
}

/// What a job has on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareView {
    /// The node's name.
    pub node: String,
    /// Tasks.
    pub tasks: u32,
    /// CPU numbers in the kernel's list form.
    pub cpus: String,
    /// Memory.
    pub memory_mib: u64,
    /// GPU numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<u32>,
    /// The node's engine picks CPUs and GPUs by itself: of the numbers here only how many there are
    /// is meant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub counts_only: bool,
    /// The GPUs' model; of instances with their profile, `a100_1g.10gb`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gpu_model: String,
    /// What it has of those GPUs that it has not as a whole, a text each: `0.5 of GPU 1, 20480 MiB`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_parts: Vec<String>,
    /// The slowest link of the best ring over its GPUs here, GB/s in one direction, by what joins
    /// them; 0 for fewer than two.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpu_ring_gbs: u32,
    /// Its CPUs that are away from its GPUs, in the kernel's list form.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub far_cpus: String,
    /// Nobody else may be on the node.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exclusive: bool,
}

/// What a job or step used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageView {
    /// The most memory it held at once, KiB.
    pub memory_peak_kib: u64,
    /// CPU time in user mode.
    pub cpu_user_ms: u64,
    /// CPU time in the kernel.
    pub cpu_system_ms: u64,
    /// The most memory of one GPU it was seen to hold, MiB; 0 where nobody measured it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpu_memory_peak_mib: u64,
}

/// A step of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepView {
    /// `batch`, `interactive`, `extern` or the number.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Tasks.
    pub tasks: u32,
    /// Nodes.
    pub nodes: u32,
    /// When it began.
    #[schema(value_type = i64)]
    pub started_ms: Timestamp,
    /// When it ended; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub ended_ms: Option<Timestamp>,
    /// How long it stood still with its job, milliseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused_ms: u64,
    /// The highest status of its tasks.
    #[schema(value_type = Object)]
    pub exit: ExitStatus,
    /// What it used.
    pub usage: UsageView,
}

/// The words of a job's state and kind, as the wire has them.
pub fn state_word(state: JobState) -> &'static str {
    match state {
        JobState::Pending => "pending",
        JobState::Starting => "starting",
        JobState::Running => "running",
        JobState::Suspended => "suspended",
        JobState::Completing => "completing",
        JobState::Completed => "completed",
        JobState::Failed => "failed",
        JobState::Timeout => "timeout",
        JobState::Cancelled => "cancelled",
        JobState::OutOfMemory => "out_of_memory",
        JobState::NodeFail => "node_fail",
        JobState::Preempted => "preempted",
        JobState::Deadline => "deadline",
    }
}

/// The wire's word of a job's kind.
pub fn kind_word(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Batch => "batch",
        JobKind::Allocation => "allocation",
        JobKind::Terminal => "terminal",
    }
}
