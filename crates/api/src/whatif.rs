//! What a change would do to everybody's start.

use crate::SubmitRequest;
use muster_model::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most nodes that can be thought up in one question.
pub const ADDED_NODES_MAX: u32 = 10_000;

/// Changes to try together on a copy of the state; nothing is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WhatIfRequest {
    /// Nodes that would be drained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drain: Vec<String>,
    /// Nodes that would be there beside the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add: Option<AddNodes>,
    /// The text of a configuration whose policy would hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// A job that would be submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submit: Option<Box<SubmitRequest>>,
}

/// Nodes to think up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddNodes {
    /// How many, at most [`ADDED_NODES_MAX`].
    pub count: u32,
    /// The node that they are like, also in partitions; absent is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
}

/// What the changes would do. Starts are expected ones: every running job takes its whole limit, and
/// every waiting job is planned in its turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhatIfResponse {
    /// Jobs that the changes bring.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub submitted: Vec<MovedJob>,
    /// Jobs that would start at another time, those that lose most first.
    pub moved: Vec<MovedJob>,
    /// Jobs that moved and are left out here.
    pub left_out: u32,
    /// How many of the moved start later, or cannot be foreseen any more.
    pub later: u32,
    /// How many of the moved start earlier.
    pub earlier: u32,
    /// How many waiting jobs keep their start.
    pub unmoved: u32,
    /// Running jobs that would make room, in order of number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempted: Vec<PreemptedJob>,
    /// The present.
    #[schema(value_type = i64)]
    pub now_ms: Timestamp,
}

/// A job's expected start without and with the changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MovedJob {
    /// The raw number.
    pub id: u32,
    /// The number users see.
    pub job: String,
    /// Its name.
    pub name: String,
    /// Its user.
    pub user: String,
    /// Without the changes; absent where it cannot be foreseen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub before_ms: Option<Timestamp>,
    /// With the changes; absent where it cannot be foreseen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub after_ms: Option<Timestamp>,
}

/// A running job that would make room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreemptedJob {
    /// The raw number.
    pub id: u32,
    /// The number users see.
    pub job: String,
    /// Its name.
    pub name: String,
    /// Its user.
    pub user: String,
    /// For which job.
    pub by: String,
    /// How: `cancel`, `requeue`, `checkpoint` or `suspend`.
    pub mode: String,
    /// When it is gone at the latest; where it is suspended, when it goes on.
    #[schema(value_type = i64)]
    pub until_ms: Timestamp,
    /// When it would start again; absent where it does not, or cannot be foreseen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub again_ms: Option<Timestamp>,
}
