//! Accounts, their users and qualities of service, with their limits and what of those is used.

use crate::is_default;
use muster_model::{AssociationLimits, PreemptRules, QosLimits, Tres};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// An account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AccountView {
    /// Its name.
    pub name: String,
    /// The account above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Who may use it; absent is everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<BTreeSet<String>>,
    /// Users for whom it is the default.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub default_for: BTreeSet<String>,
    /// Its shares; absent where it has its parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<u32>,
    /// What its jobs get of the association factor; absent is what the account above says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Its limits; what is not set is no limit.
    #[serde(skip_serializing_if = "is_default")]
    #[schema(value_type = Object)]
    pub limits: AssociationLimits,
    /// What it and all beneath it use.
    pub used: UseView,
    /// Users who are described by themselves, or have used it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<String, MemberView>,
}

/// A user in an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct MemberView {
    /// The user's shares; absent where they are the account's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<u32>,
    /// What the user's jobs get of the association factor; absent is what the account says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// The user's limits; what is not set is no limit.
    #[serde(skip_serializing_if = "is_default")]
    #[schema(value_type = Object)]
    pub limits: AssociationLimits,
    /// What the user uses of the account.
    pub used: UseView,
}

/// A quality of service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct QosView {
    /// Its name.
    pub name: String,
    /// Added to the priority of its jobs.
    pub priority: u32,
    /// Its limits; what is not set is no limit.
    #[serde(skip_serializing_if = "is_default")]
    #[schema(value_type = Object)]
    pub limits: QosLimits,
    /// What it changes in the rules, by Slurm's names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// How many thousandths use counts.
    pub usage_factor: u32,
    /// The qualities of service whose jobs its own may preempt.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub preempts: BTreeSet<String>,
    /// How its own jobs make room.
    #[serde(skip_serializing_if = "is_default")]
    #[schema(value_type = Object)]
    pub preempt: PreemptRules,
    /// What all its jobs use.
    pub used: UseView,
    /// What each user uses of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub users: BTreeMap<String, UseView>,
    /// What each account uses of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub accounts: BTreeMap<String, UseView>,
}

/// What somebody uses now, and has used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct UseView {
    /// Jobs that have resources.
    #[serde(skip_serializing_if = "is_default")]
    pub running: u32,
    /// Jobs that wait or have resources.
    #[serde(skip_serializing_if = "is_default")]
    pub submitted: u32,
    /// What they have.
    #[serde(skip_serializing_if = "is_default")]
    #[schema(value_type = Object)]
    pub in_use: Tres,
    /// Minutes used, by resource.
    #[serde(skip_serializing_if = "is_default")]
    #[schema(value_type = Object)]
    pub minutes: Tres,
    /// Minutes that running jobs may still use, by resource.
    #[serde(skip_serializing_if = "is_default")]
    #[schema(value_type = Object)]
    pub run_minutes: Tres,
    /// Wall clock minutes used.
    #[serde(skip_serializing_if = "is_default")]
    pub wall_minutes: u64,
    /// Billed seconds.
    #[serde(skip_serializing_if = "is_default")]
    pub billed_s: u64,
}
