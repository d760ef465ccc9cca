//! The plan: what each node is used, promised and reserved for.

use crate::is_default;
use muster_model::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Of which nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct PlanQuery {
    /// Nodes of this partition only.
    pub partition: Option<String>,
    /// At most so many nodes.
    pub limit: Option<u32>,
    /// Nodes after this index.
    pub after: Option<u32>,
}

/// One page of the plan: nodes by index, and what lies on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanPage {
    /// The nodes.
    pub lanes: Vec<PlanLane>,
    /// What lies on one of them at least.
    pub bars: Vec<PlanBar>,
    /// `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// The daemon's clock.
    #[schema(value_type = i64)]
    pub now_ms: Timestamp,
}

/// A node and what lies on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanLane {
    /// The node's index.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its CPUs.
    pub cpus: u32,
    /// Its GPUs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpus: u32,
    /// It is down or drained.
    #[serde(default, skip_serializing_if = "is_default")]
    pub away: bool,
    /// What lies on it, by begin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PlanPart>,
}

/// What a bar takes of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanPart {
    /// The bar, by its place in the page's list.
    pub bar: u32,
    /// CPUs.
    pub cpus: u32,
    /// GPUs, in whole or in part.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpus: u32,
}

/// A span of time of a job or a reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanBar {
    /// What it is.
    pub kind: PlanKind,
    /// The number that users see, or the reservation's name.
    pub title: String,
    /// The job's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The job's user; who may use the reservation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The job's account.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub account: String,
    /// Its begin.
    #[schema(value_type = i64)]
    pub start_ms: Timestamp,
    /// Its end by the time limit; absent is without an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub end_ms: Option<Timestamp>,
    /// How many nodes it has in all.
    pub nodes: u32,
    /// Why a promised job waits; a reservation's flags.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What a span of time is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanKind {
    /// A job runs.
    #[default]
    Running,
    /// The newest round promised it to a job that waits.
    Promised,
    /// A reservation has it.
    Reserved,
}
