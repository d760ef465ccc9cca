//! The queue: one compact row a job, or for all waiting tasks of an array.

use crate::{HetView, ReasonView, is_default};
use muster_model::{ExitStatus, IdleGpus, JobKind, JobState, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which jobs, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct QueueQuery {
    /// Jobs as users name them, joined by commas: `12,900_3,900_[1-3]`.
    pub jobs: Option<String>,
    /// User names or numbers, joined by commas.
    pub users: Option<String>,
    /// States in snake case, joined by commas; without it all that are not over. `all` is every one.
    pub states: Option<String>,
    /// Partitions, joined by commas.
    pub partitions: Option<String>,
    /// Accounts, joined by commas.
    pub accounts: Option<String>,
    /// Job names, joined by commas.
    pub names: Option<String>,
    /// Qualities of service, joined by commas.
    pub qos: Option<String>,
    /// Node names, joined by commas: jobs that are on one of them.
    pub nodes: Option<String>,
    /// One row for each waiting array task.
    pub expand: Option<bool>,
    /// With what is seldom shown: command, directory, dependency and the like.
    pub wide: Option<bool>,
    /// With the expected start of every waiting job that can be foreseen, not only of those that
    /// are next in line; where more than 5,000 jobs wait it changes nothing.
    pub starts: Option<bool>,
    /// At most so many rows.
    pub limit: Option<u32>,
    /// Rows after this raw number.
    pub after: Option<u32>,
}

/// One page of the queue, by ascending raw number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueuePage {
    /// The rows.
    pub rows: Vec<QueueRow>,
    /// `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// The daemon's clock.
    #[schema(value_type = i64)]
    pub now_ms: Timestamp,
}

/// A job in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueRow {
    /// The raw number; of the first task in the row where several are folded.
    pub id: u32,
    /// The number users see: `12`, `900_3`, `900_[3-9%2]`, `12+1`.
    pub job: String,
    /// Its array, where it is a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayView>,
    /// Its place in a heterogeneous job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub het: Option<HetView>,
    /// Its name.
    pub name: String,
    /// Its user's name.
    pub user: String,
    /// Its user's number.
    pub uid: u32,
    /// Its account.
    pub account: String,
    /// The partition it runs in; all that it may run in, joined by commas, while it waits.
    pub partition: String,
    /// Its quality of service.
    pub qos: String,
    /// What it is.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = String)]
    pub kind: JobKind,
    /// Where it stands.
    #[schema(value_type = String, example = "pending")]
    pub state: JobState,
    /// Why it waits (the binding reason), or why it ended without running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonView>,
    /// When it was submitted.
    #[schema(value_type = i64)]
    pub submitted_ms: Timestamp,
    /// When it last became free to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub eligible_ms: Option<Timestamp>,
    /// When it started (its placement, where the processes' start is not known yet).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub started_ms: Option<Timestamp>,
    /// When it is expected to start, where `starts` was asked and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub expected_ms: Option<Timestamp>,
    /// When it ended; while it runs, when its limit ends it. Absent where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub ended_ms: Option<Timestamp>,
    /// When it stood still; absent where it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<crate::PauseView>,
    /// Its limit in seconds; absent is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
    /// How many nodes it has, or asks for at least.
    pub nodes: u32,
    /// Its nodes, folded; empty while it waits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_list: String,
    /// How many tasks it has or asks for.
    pub tasks: u32,
    /// CPUs it has, or asks for at least.
    pub cpus: u32,
    /// Memory on all nodes it has, or asks for; 0 where the partition decides.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_mib: u64,
    /// GPUs it has, or asks for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpus: u32,
    /// The same as Slurm's TRES text: `cpu=4,mem=8G,node=1,billing=4,gres/gpu=2`.
    pub tres: String,
    /// Its priority.
    pub priority: u32,
    /// Its exit status, where it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub exit: Option<ExitStatus>,
    /// Starts before this one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restarts: u32,
    /// What is seldom shown; only where `wide` was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<QueueDetail>>,
}

/// An array task, or several waiting ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArrayView {
    /// The array's number.
    pub id: u32,
    /// The indices in the row: `3`, `3-9`, `1-3,7`.
    pub tasks: String,
    /// How many tasks are in the row.
    pub count: u32,
    /// At most so many run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<u32>,
}

/// What is seldom shown of a job in the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct QueueDetail {
    /// Its user's primary group number.
    pub gid: u32,
    /// The script's path or name.
    pub command: String,
    /// Its working directory.
    pub cwd: String,
    /// Free text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// All its GPUs do nothing, or did and were taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleView>,
    /// Its dependency as written.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub dependency: String,
    /// The features it asks for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub features: String,
    /// GPUs and other resources by node as Slurm writes them: `gres/gpu:a100:2`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gres: String,
    /// Licences: `sim:2,matlab:1`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub licences: String,
    /// The reservation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reservation: String,
    /// Nodes it must have, folded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nodes_wanted: String,
    /// Nodes it must not have, folded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nodes_excluded: String,
    /// Whether its nodes are shared: `no`, `node`, `user`.
    pub exclusive: String,
    /// Its nice value.
    pub nice: i64,
    /// May be put back in the queue.
    pub requeue: bool,
    /// The smallest limit it accepts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_min_s: Option<u64>,
    /// CPUs a task.
    pub cpus_per_task: u32,
    /// The most nodes it may have.
    pub nodes_max: u32,
    /// Least memory as asked: `4G` with `c` or `n` for a CPU or a node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub memory_wanted: String,
    /// Its output file, as written.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// The node that runs its script.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub batch_host: String,
}

/// GPUs that a job has and does not use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IdleView {
    /// How many it has or had.
    pub gpus: u32,
    /// A sentence for people, without its instants.
    pub text: String,
    /// Since when none of them has done anything.
    #[schema(value_type = i64)]
    pub since_ms: Timestamp,
    /// When they are taken back if that stays so; absent where its owner is told, and no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub until_ms: Option<Timestamp>,
    /// They were taken back after so long, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_s: Option<u64>,
}

impl IdleView {
    /// The sentence with its instants as `at` writes them.
    pub fn told(&self, at: impl Fn(Timestamp) -> String) -> String {
        let since = format!("{} since {}", self.text, at(self.since_ms));
        match (self.taken_s, self.until_ms) {
            (Some(_), _) => format!("{} and were taken back", self.text),
            (None, Some(until)) => {
                format!("{since}; taken back at {} if that stays so", at(until))
            }
            (None, None) => since,
        }
    }
}

impl From<IdleGpus> for IdleView {
    fn from(idle: IdleGpus) -> Self {
        Self {
            gpus: idle.gpus,
            text: idle.to_string(),
            since_ms: idle.since,
            until_ms: idle.until.filter(|_| idle.taken_after.is_none()),
            taken_s: idle.taken_after.map(|after| after.0),
        }
    }
}
