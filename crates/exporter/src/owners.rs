//! Whose the jobs are and which GPUs they have, as the scheduler knows it.

use std::collections::BTreeMap;

/// Whose a job is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub user: String,
    /// The account.
    pub account: String,
    /// The partition.
    pub partition: String,
    /// Its name.
    pub name: String,
}

/// Whose every job on this machine is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// Only jobs in here are told of, and the machine is not: for a user who sees no others.
    pub only_these: bool,
    /// The instance of muster whose jobs these are, and the only one that is told of: another's may
    /// have the same numbers. Empty for all of them.
    pub instance: String,
    /// Jobs of muster by their numbers.
    pub jobs: BTreeMap<u64, Owner>,
    /// The jobs that have a GPU, by the vendor's unique id for it or for a MIG instance: the one
    /// name that means the same inside a job and outside.
    pub gpus: BTreeMap<String, Vec<u64>>,
}
