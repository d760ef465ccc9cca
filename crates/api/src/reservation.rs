//! Reservations: as asked for, as they are, and what one would do.

use crate::{MovedJob, is_default};
use muster_model::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What is asked of a reservation, as texts in Slurm's grammar (scontrol manual). What is absent has
/// its default in a new one, and stays in one that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReservationRequest {
    /// Its name; absent makes one up for a new one.
    #[serde(skip_serializing_if = "is_default")]
    pub name: Option<String>,
    /// When it begins: `now+1hour`, `2026-12-07T09:00`.
    #[serde(skip_serializing_if = "is_default")]
    pub start: Option<String>,
    /// When it is over.
    #[serde(skip_serializing_if = "is_default")]
    pub end: Option<String>,
    /// How long it is: `3h`, `90` (minutes), `1-12:00:00`, `infinite`.
    #[serde(skip_serializing_if = "is_default")]
    pub duration: Option<String>,
    /// The time of day at which it begins: `09:00`.
    #[serde(skip_serializing_if = "is_default")]
    pub at: Option<String>,
    /// The time zone of its times and rule: `Asia/Seoul`; absent is the daemon's machine's.
    #[serde(skip_serializing_if = "is_default")]
    pub tz: Option<String>,
    /// The rule by which it comes again: `daily`, `weekly`, `FREQ=WEEKLY;BYDAY=MO`; `never`.
    #[serde(skip_serializing_if = "is_default")]
    pub every: Option<String>,
    /// A host list, or `ALL`.
    #[serde(skip_serializing_if = "is_default")]
    pub nodes: Option<String>,
    /// So many nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub node_count: Option<String>,
    /// So many CPUs on all nodes together.
    #[serde(skip_serializing_if = "is_default")]
    pub cores: Option<String>,
    /// So many CPUs on each node.
    #[serde(skip_serializing_if = "is_default")]
    pub cores_per_node: Option<String>,
    /// So many GPUs on all nodes together: `8`, `a100:4`.
    #[serde(skip_serializing_if = "is_default")]
    pub gpus: Option<String>,
    /// Amounts: `node=2,cpu=8,gres/gpu:a100=4,license/sim=2`.
    #[serde(skip_serializing_if = "is_default")]
    pub tres: Option<String>,
    /// Features of the nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub features: Option<String>,
    /// Nodes of this partition only.
    #[serde(skip_serializing_if = "is_default")]
    pub partition: Option<String>,
    /// Licences: `sim:2`.
    #[serde(skip_serializing_if = "is_default")]
    pub licences: Option<String>,
    /// Only nodes whose GPUs are joined to each other by NVLink.
    #[serde(skip_serializing_if = "is_default")]
    pub nvlink: Option<bool>,
    /// Whole nodes, also where GPUs or CPUs are asked for.
    #[serde(skip_serializing_if = "is_default")]
    pub whole: Option<bool>,
    /// Users: `mara,oleg`, or `-mara` for all but her.
    #[serde(skip_serializing_if = "is_default")]
    pub users: Option<String>,
    /// Accounts, as users.
    #[serde(skip_serializing_if = "is_default")]
    pub accounts: Option<String>,
    /// Groups of the operating system.
    #[serde(skip_serializing_if = "is_default")]
    pub groups: Option<String>,
    /// Flags that it has: `MAINT,IGNORE_JOBS`.
    #[serde(skip_serializing_if = "is_default")]
    pub flags: Option<String>,
    /// Flags that it no longer has.
    #[serde(skip_serializing_if = "is_default")]
    pub without_flags: Option<String>,
    /// How long it may be idle before it is removed (`PURGE_COMP=`).
    #[serde(skip_serializing_if = "is_default")]
    pub purge: Option<String>,
    /// Free text.
    #[serde(skip_serializing_if = "is_default")]
    pub comment: Option<String>,
}

/// A reservation as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ReservationView {
    /// Its name.
    pub name: String,
    /// When its present or next occurrence begins.
    #[schema(value_type = i64)]
    pub start_ms: Timestamp,
    /// When that is over; absent is without an end.
    #[serde(skip_serializing_if = "is_default")]
    #[schema(value_type = Option<i64>)]
    pub end_ms: Option<Timestamp>,
    /// It begins always so long from now.
    #[serde(skip_serializing_if = "is_default")]
    pub float_s: Option<u64>,
    /// It lies over the present.
    pub active: bool,
    /// Starts of the occurrences after this one, as far as they are worked out.
    #[serde(skip_serializing_if = "is_default")]
    #[schema(value_type = Vec<i64>)]
    pub later_ms: Vec<Timestamp>,
    /// The rule by which it comes again (RFC 5545).
    #[serde(skip_serializing_if = "is_default")]
    pub rule: Option<String>,
    /// The zone by whose clock its times were read and it comes again.
    #[serde(skip_serializing_if = "is_default")]
    pub tz: Option<String>,
    /// It stands in the configuration.
    #[serde(skip_serializing_if = "is_default")]
    pub standing: bool,
    /// Its nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub nodes: Vec<ReservedNodeView>,
    /// CPUs that it has.
    pub cpus: u32,
    /// GPUs that it has.
    pub gpus: u32,
    /// Licences that it has.
    #[serde(skip_serializing_if = "is_default")]
    pub licences: BTreeMap<String, u32>,
    /// The partition that its nodes are of.
    #[serde(skip_serializing_if = "is_default")]
    pub partition: Option<String>,
    /// The features that were asked for.
    #[serde(skip_serializing_if = "is_default")]
    pub features: Option<String>,
    /// Who may use it; `-` before names that may not.
    #[serde(skip_serializing_if = "is_default")]
    pub users: String,
    /// Accounts, as users.
    #[serde(skip_serializing_if = "is_default")]
    pub accounts: String,
    /// Groups.
    #[serde(skip_serializing_if = "is_default")]
    pub groups: String,
    /// Its flags in Slurm's words.
    #[serde(skip_serializing_if = "is_default")]
    pub flags: Vec<String>,
    /// Removed once idle for so long.
    #[serde(skip_serializing_if = "is_default")]
    pub purge_s: Option<u64>,
    /// Free text.
    #[serde(skip_serializing_if = "is_default")]
    pub comment: String,
    /// Who made it.
    pub by: String,
}

/// What a reservation has on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ReservedNodeView {
    /// The node.
    pub name: String,
    /// All of it.
    pub whole: bool,
    /// Its CPUs, where it is a part: `0-3`.
    #[serde(skip_serializing_if = "is_default")]
    pub cpus: String,
    /// Its GPUs, where it is a part.
    #[serde(skip_serializing_if = "is_default")]
    pub gpus: Vec<u32>,
}

/// What a reservation would be, and whom it would delay. Nothing is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationPlan {
    /// The reservation at its earliest time.
    pub reservation: ReservationView,
    /// Jobs that would start at another time, those that lose most first.
    pub moved: Vec<MovedJob>,
    /// Jobs that moved and are left out here.
    pub left_out: u32,
    /// How many of the moved start later, or cannot be foreseen any more.
    pub later: u32,
    /// How many waiting jobs keep their start.
    pub unmoved: u32,
    /// The present.
    #[schema(value_type = i64)]
    pub now_ms: Timestamp,
}
