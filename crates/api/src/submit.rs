//! Submission, what came of it, and waiting for the end.

use crate::{Problem, is_default};
use muster_model::{ExitStatus, JobKind, JobState, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// A submission as the client has it: nothing of it is parsed yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubmitRequest {
    /// Which command it comes from: decides which environment variables are options.
    pub tool: Tool,
    /// What it is to be.
    #[schema(value_type = String, example = "batch")]
    pub kind: JobKind,
    /// The batch script's text; empty for an allocation, and where `--wrap` is given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub script: String,
    /// The script's path as the user wrote it, for messages; `-` for the standard input.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub script_name: String,
    /// The words of the command line before the script: `--time=1:00:00`, `-n`, `4`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The script's arguments; the command line of a terminal job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The submitter's environment, also searched for `SBATCH_*` and the like.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The submitter's working directory, absolute.
    pub cwd: String,
    /// The submitter's umask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// The submitter's resource limits, where they are to be carried over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<ResourceLimit>,
    /// The host it was submitted from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub submit_host: String,
    /// Say when and where it would start, and store nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub test_only: bool,
}

/// The command a submission comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// `sbatch` and `muster submit`: `SBATCH_*`.
    #[default]
    Sbatch,
    /// `salloc`: `SALLOC_*`.
    Salloc,
    /// `srun` outside a job and `muster run`: `SLURM_*`.
    Srun,
}

/// One resource limit of the submitter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceLimit {
    /// The name without `RLIMIT_`: `NOFILE`.
    pub name: String,
    /// The soft limit; 18446744073709551615 is none.
    pub soft: u64,
    /// The hard limit; 18446744073709551615 is none.
    pub hard: u64,
}

/// An accepted submission, or the answer to `test_only`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubmitResponse {
    /// The job's number; an array's or leader's number where it is one; 0 for `test_only`.
    pub job_id: u32,
    /// How many array tasks; 1 where it is none.
    pub tasks: u32,
    /// How many components; 1 where it is no heterogeneous job.
    pub components: u32,
    /// The cluster's name.
    pub cluster: String,
    /// What will not be done, though it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Problem>,
    /// What the script and the environment ask of the client.
    #[serde(default)]
    pub client: ClientFlags,
    /// When and where it would start; only for `test_only`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
}

/// Options that only the client can carry out, wherever they were set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ClientFlags {
    /// Print only the number.
    pub parsable: bool,
    /// Return when the job is over, with its exit code.
    pub wait: bool,
    /// Print nothing but errors.
    pub quiet: bool,
    /// Only a trial was asked for.
    pub test_only: bool,
}

/// When and where a job would start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trial {
    /// The expected start; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub start_ms: Option<Timestamp>,
    /// The nodes, folded.
    pub node_list: String,
    /// The partition.
    pub partition: String,
    /// CPUs on all nodes.
    pub cpus: u32,
}

/// How long to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// At most so many seconds, up to 60; then the answer says that it is not over.
    pub timeout_s: Option<u32>,
    /// Wait for the start in place of the end.
    pub started: Option<bool>,
}

/// The jobs waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitResponse {
    /// True where what was waited for has come.
    pub over: bool,
    /// The job, its tasks or components.
    pub jobs: Vec<JobEnd>,
}

/// Where a job stands, in few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobEnd {
    /// Its raw number.
    pub id: u32,
    /// The number users see.
    pub job: String,
    /// Its state.
    #[schema(value_type = String, example = "completed")]
    pub state: JobState,
    /// Its exit status, where it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub exit: Option<ExitStatus>,
    /// A sentence about its end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A job's script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScriptView {
    /// Its text; empty for an allocation.
    pub script: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

/// A job's script, arguments and environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PayloadView {
    /// Its text.
    pub script: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The environment it was submitted with.
    pub environment: BTreeMap<String, String>,
    /// The submitter's umask.
    pub umask: u32,
}

/// How to reach a running job's steps on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepAccess {
    /// The job's raw number.
    pub id: u32,
    /// The attempt.
    pub attempt: u32,
    /// The step socket's path (`muster_api::step` is its protocol).
    pub socket: String,
}
