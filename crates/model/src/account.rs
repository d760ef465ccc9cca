//! Who may use what: accounts and licences.

use crate::{AssociationLimits, Member, Quota, Shares, Timestamp, is_default};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An account that jobs are charged to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Its name, unique.
    pub name: String,
    /// The account above it.
    #[serde(skip_serializing_if = "is_default")]
    pub parent: Option<String>,
    /// Names of the users who may use it; `None` is everybody.
    #[serde(skip_serializing_if = "is_default")]
    pub users: Option<BTreeSet<String>>,
    /// Users for whom it is the account of jobs that name none.
    #[serde(skip_serializing_if = "is_default")]
    pub default_for: BTreeSet<String>,
    /// Its fair share among its siblings.
    #[serde(skip_serializing_if = "is_default")]
    pub shares: Shares,
    /// What its jobs get of the association factor, against the highest there is; `None` is what the
    /// account above says.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: Option<u32>,
    /// Limits on it and all beneath.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: AssociationLimits,
    /// Shares and limits of its users, by name; who is not named has one share and no limits.
    #[serde(skip_serializing_if = "is_default")]
    pub members: BTreeMap<String, Member>,
    /// What it can always have.
    #[serde(skip_serializing_if = "is_default")]
    pub quota: Quota,
}

/// A licence: a number of things that jobs share over the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Licence {
    /// Its name, unique.
    pub name: String,
    /// How many there are.
    pub total: u32,
    /// None of it is given out, because a filesystem is saturated.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hold: Option<LicenceHold>,
}

/// Why a licence is not given out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LicenceHold {
    /// The filesystem that is saturated.
    pub filesystem: String,
    /// By which figure, in words: `93 % busy, more than 90 %`.
    pub figure: String,
    /// Since when.
    pub since: Timestamp,
}

impl Account {
    /// True where this user may charge to it.
    pub fn admits(&self, user: &str) -> bool {
        self.users.as_ref().is_none_or(|users| users.contains(user))
    }

    /// The priorities that it and its users are given.
    pub fn priorities(&self) -> impl Iterator<Item = u32> {
        self.members.values().filter_map(|member| member.priority).chain(self.priority)
    }

    /// True where it or one of its users is limited in anything.
    pub fn has_limits(&self) -> bool {
        let none = AssociationLimits::default();
        self.limits != none || self.members.values().any(|member| member.limits != none)
    }
}
