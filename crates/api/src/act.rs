//! Actions on jobs, and changes to them.

use crate::{JobRef, Problem, is_default};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One action on many jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ActionRequest {
    /// What to do.
    pub action: Action,
    /// The jobs by name: `12`, `900_3`, `900_[1-3]`, `12+1`.
    #[schema(value_type = Vec<String>)]
    pub jobs: Vec<JobRef>,
    /// The jobs by what they are, beside or in place of `jobs`: those that match all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<JobFilter>,
    /// The signal's number on Linux, for `signal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<u8>,
    /// Who gets the signal.
    #[serde(skip_serializing_if = "is_default")]
    pub scope: SignalScope,
    /// The step, where `scope` is `step`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// For `cancel`: no polite signal, no grace.
    #[serde(skip_serializing_if = "is_default")]
    pub hurry: bool,
    /// For `checkpoint`: which attempt wrote it, counted from 1; the present one where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// What to do with jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// End it; a waiting one leaves the queue.
    #[default]
    Cancel,
    /// Send it a signal.
    Signal,
    /// Hold it: by an admin where an admin asks (`scontrol hold`).
    Hold,
    /// Hold it so that its owner may release it (`scontrol uhold`).
    Uhold,
    /// Let it go.
    Release,
    /// End it and put it back in the queue.
    Requeue,
    /// The same, and hold it there.
    RequeueHold,
    /// Let its processes stand still.
    Suspend,
    /// Let them go on.
    Resume,
    /// Note that it has written a complete checkpoint: what it did before is not lost any more.
    Checkpoint,
}

/// Which processes get a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignalScope {
    /// The steps, not the batch shell.
    #[default]
    Steps,
    /// The batch shell only.
    Batch,
    /// The batch shell, its children and all steps.
    All,
    /// One step.
    Step,
}

/// Jobs by what they are; an empty list matches all. Only jobs that are not over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JobFilter {
    /// User names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Job names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Partitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<String>,
    /// Accounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<String>,
    /// Qualities of service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub qos: Vec<String>,
    /// States in snake case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<String>,
    /// Names of nodes that they are on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Reservations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<String>,
}

/// What came of an action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActionResponse {
    /// One for each job, and one for each name that is no job.
    pub results: Vec<ActionResult>,
}

/// What came of an action on one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActionResult {
    /// The number users see, or the name as asked.
    pub job: String,
    /// The raw number; absent where there is no such job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Why it was not done; absent where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// A change to a job; what is absent stays. Texts are in Slurm's grammar.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JobPatch {
    /// `TimeLimit`: a time, `UNLIMITED`, or a change with a sign in front (`+30`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<String>,
    /// `TimeMin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_min: Option<String>,
    /// `JobName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `Partition`: one or several joined by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// `Account`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// `QOS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// `Nice`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<i64>,
    /// `Priority`; admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// `SiteFactor`; admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site_factor: Option<i64>,
    /// `Comment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// `Dependency`; an empty text removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency: Option<String>,
    /// `StartTime`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<String>,
    /// `Deadline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// `NumNodes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// `NumTasks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u32>,
    /// `CPUsPerTask`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_per_task: Option<u32>,
    /// `MinMemoryNode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_per_node: Option<String>,
    /// `MinMemoryCPU`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_per_cpu: Option<String>,
    /// `Gres`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gres: Option<String>,
    /// `Features`; an empty text removes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<String>,
    /// `ReqNodeList`; an empty text removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_list: Option<String>,
    /// `ExcNodeList`; an empty text removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<String>,
    /// `ArrayTaskThrottle`; 0 is no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array_throttle: Option<u32>,
    /// `Requeue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeue: Option<bool>,
    /// `Licenses`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub licences: Option<String>,
    /// What it asks for, as options of sbatch (`--gpus-per-node=6`, `--exclusive`), each in place
    /// of what the job had of its kind; `--constraint=` takes away. Waiting jobs only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// `StdOut`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}
