//! What a job runs: its script, arguments and environment, kept apart from its record.

use crate::is_default;
use serde::{Deserialize, Serialize};

/// The part of a job that decides nothing and can be large. Stored once under its [`crate::BlobId`]
/// as JSON, and read only when the job is launched or shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Payload {
    /// The batch script, with its `#!` line; empty for an allocation.
    pub script: String,
    /// Arguments of the script; the command line of a [`crate::JobKind::Terminal`] job.
    pub args: Vec<String>,
    /// Environment variables that the job inherits, by name. Variables that the scheduler sets come
    /// on top of them.
    pub environment: Vec<(String, String)>,
    /// The submitter's umask.
    #[serde(skip_serializing_if = "is_default")]
    pub umask: u32,
    /// Resource limits to apply, as (name without `RLIMIT_`, soft, hard); `u64::MAX` is none.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: Vec<(String, u64, u64)>,
    /// The whole environment was asked for afresh, as a login shell makes it (`--get-user-env`).
    #[serde(skip_serializing_if = "is_default")]
    pub login_environment: bool,
}
