//! The daemon itself.

use muster_model::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The daemon's answer to "are you there?".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ping {
    /// The daemon's version.
    pub version: String,
    /// The schema of its log.
    pub schema: u32,
    /// The cluster's name.
    pub cluster: String,
    /// Who the caller is: the name of the user.
    pub principal: String,
    /// The caller's user id.
    pub uid: u32,
    /// The caller may do what admins may.
    pub admin: bool,
    /// The daemon's process id.
    pub pid: u32,
    /// When the daemon was started.
    #[schema(value_type = i64)]
    pub started_ms: Timestamp,
    /// The daemon's clock.
    #[schema(value_type = i64)]
    pub now_ms: Timestamp,
    /// The last event's number.
    pub seq: u64,
    /// The state directory.
    pub state_dir: String,
    /// The configuration file, which need not be there where nobody named it.
    #[serde(default)]
    pub config: String,
    /// What is not enforced on this machine, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What the site has set and clients show.
    #[serde(default)]
    pub policy: PolicyView,
}

/// The site's values that `scontrol show config` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyView {
    /// Time between the polite and the final signal, seconds (`KillWait`).
    pub kill_wait_s: u64,
    /// How long ended jobs stay in the live list, seconds (`MinJobAge`).
    pub min_job_age_s: u64,
    /// One above the largest index of an array (`MaxArraySize`).
    pub max_array_size: u32,
}

/// What the daemon counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// The last event's number.
    pub seq: u64,
    /// Waiting jobs.
    pub pending: u64,
    /// Jobs with resources.
    pub active: u64,
    /// Ended jobs still in the live list.
    pub ended: u64,
    /// Counters by name, units last: `commits`, `commit_us`, `plans`, `plan_us`, …
    pub counters: BTreeMap<String, u64>,
    /// What is wrong now, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<String>,
}

/// What a reload changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReloadResponse {
    /// The changes in force.
    pub changes: Vec<ConfigChange>,
    /// Keys whose change needs a new start of the daemon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart_needed: Vec<String>,
    /// Reservations of the configuration that could not be made, changed or ended yet; it is tried
    /// again every half minute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<crate::Problem>,
}

/// One changed setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigChange {
    /// The key: `policy.kill_wait`.
    pub key: String,
    /// Whether its section is `new`, `gone` or `changed`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its value before, as TOML; empty where it was not there.
    pub before: String,
    /// Its value now, as TOML; empty where it is gone.
    pub after: String,
}

/// Where a backup is to go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// The file to write, absolute; must not exist.
    pub path: String,
}

/// A finished backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackupResponse {
    /// The file.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// The last event in it.
    pub seq: u64,
}

/// Where the newest planning round is to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CycleRequest {
    /// The file to write, absolute; must not exist.
    pub path: String,
}

/// A written planning round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CycleResponse {
    /// The file.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// The last event that the round knew.
    pub seq: u64,
    /// The instant that it planned for.
    #[schema(value_type = i64)]
    pub now_ms: Timestamp,
}
