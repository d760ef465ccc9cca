//! Changes as server-sent events.

use muster_model::{EventKind, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// From where on, and of which job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// Events after this sequence number; without it, those from now on.
    pub after: Option<u64>,
    /// Only events of these jobs, as users name them, joined by commas.
    pub jobs: Option<String>,
}

/// One event. As a server-sent event its id is `seq`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    /// Its number in the log.
    pub seq: u64,
    /// When.
    #[schema(value_type = i64)]
    pub at_ms: Timestamp,
    /// The raw numbers of the jobs it is about; the first id for a submission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<u32>,
    /// What happened.
    #[schema(value_type = Object)]
    pub data: EventKind,
}
