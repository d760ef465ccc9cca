//! Accounting: jobs that are over, and live ones on request.

use crate::{StepView, UsageView, is_default};
use muster_model::{ExitStatus, JobState, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which jobs of the past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// Jobs as users name them, joined by commas.
    pub jobs: Option<String>,
    /// User names, joined by commas.
    pub users: Option<String>,
    /// States in snake case, joined by commas.
    pub states: Option<String>,
    /// Partitions, joined by commas.
    pub partitions: Option<String>,
    /// Accounts, joined by commas.
    pub accounts: Option<String>,
    /// Job names, joined by commas.
    pub names: Option<String>,
    /// Ended (or, with `live`, still there) at this instant or later.
    pub from_ms: Option<i64>,
    /// Submitted before this instant.
    pub to_ms: Option<i64>,
    /// With jobs that are not over.
    pub live: Option<bool>,
    /// At most so many rows.
    pub limit: Option<u32>,
    /// Rows after this cursor.
    pub after: Option<u64>,
}

/// One page of history, in the order of the end; live jobs come last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryPage {
    /// The rows.
    pub rows: Vec<HistoryRow>,
    /// `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// One attempt of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryRow {
    /// The raw number.
    pub id: u32,
    /// The number users see.
    pub job: String,
    /// The attempt; 0 where it never started.
    pub attempt: u32,
    /// Its array's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<u32>,
    /// Its index in the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u32>,
    /// Its leader's number, where it is a component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub het_leader: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its user's name.
    pub user: String,
    /// Its user's number.
    pub uid: u32,
    /// Its user's primary group number.
    pub gid: u32,
    /// Its account.
    pub account: String,
    /// Its partition.
    pub partition: String,
    /// Its quality of service.
    pub qos: String,
    /// How it ended, or where it stands.
    #[schema(value_type = String, example = "completed")]
    pub state: JobState,
    /// Who cancelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<u32>,
    /// When it was submitted.
    #[schema(value_type = i64)]
    pub submitted_ms: Timestamp,
    /// When it became free to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub eligible_ms: Option<Timestamp>,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub started_ms: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub ended_ms: Option<Timestamp>,
    /// When it stood still; absent where it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<crate::PauseView>,
    /// Its limit; absent is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
    /// Its exit status.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub exit: ExitStatus,
    /// Nodes.
    pub nodes: u32,
    /// Its nodes, folded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_list: String,
    /// Tasks.
    pub tasks: u32,
    /// CPUs.
    pub cpus: u32,
    /// Memory on all nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_mib: u64,
    /// GPUs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpus: u32,
    /// What it had, as Slurm's TRES text; empty where it never started.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tres: String,
    /// What it asked for, as Slurm's TRES text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tres_wanted: String,
    /// Its working directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cwd: String,
    /// Its script's path or name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// A sentence about its end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Slurm's reason word: why it ended without running, or waits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What it used.
    #[serde(default)]
    pub usage: UsageView,
    /// Its steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepView>,
}
