//! Who may use what: accounts, qualities of service, licences.

use crate::is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

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
}

/// A quality of service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Qos {
    /// Its name, unique.
    pub name: String,
    /// Added to the priority of its jobs.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: u32,
}

/// A licence: a number of things that jobs share over the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Licence {
    /// Its name, unique.
    pub name: String,
    /// How many there are.
    pub total: u32,
}

impl Account {
    /// True where this user may charge to it.
    pub fn admits(&self, user: &str) -> bool {
        self.users.as_ref().is_none_or(|users| users.contains(user))
    }
}
