//! Associations: a user in an account, with shares and limits; and what accounts limit.
//!
//! Names and meanings are Slurm's (sacctmgr manual, resource limits page). `grp_*` limits count
//! everything beneath the account; `max_*` limits are for each user of the association, or each
//! job, and the nearest that is set going up from the user is the one that counts.

use crate::{Account, Seconds, State, Tres, is_default, tres};
use serde::{Deserialize, Serialize};

/// The fair share of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shares {
    /// So many of its siblings' sum.
    Of(u32),
    /// Its parent's: fair share makes no difference beneath (`FairShare=parent`).
    Parent,
}

impl Default for Shares {
    fn default() -> Self {
        Self::Of(1)
    }
}

/// A user's settings in an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// The user's fair share among the account's users and accounts.
    #[serde(skip_serializing_if = "is_default")]
    pub shares: Shares,
    /// What the user's jobs get of the association factor; `None` is what the account says.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: Option<u32>,
    /// The user's limits.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: AssociationLimits,
}

/// Limits on all jobs of a holder together: an account with all beneath it, a user in one, or a
/// quality of service. What is not set is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupLimits {
    /// Jobs that run at once (`GrpJobs`).
    #[serde(rename = "grp_jobs", skip_serializing_if = "is_default")]
    pub jobs: Option<u32>,
    /// Jobs that wait or run (`GrpSubmitJobs`).
    #[serde(rename = "grp_submit_jobs", skip_serializing_if = "is_default")]
    pub submit_jobs: Option<u32>,
    /// Resources in use at once (`GrpTRES`).
    #[serde(rename = "grp_tres", skip_serializing_if = "tres::none")]
    pub tres: Tres,
    /// Resource minutes, used and to be used by what runs (`GrpTRESMins`).
    #[serde(rename = "grp_tres_mins", skip_serializing_if = "tres::none")]
    pub tres_mins: Tres,
    /// Resource minutes that running jobs may still use (`GrpTRESRunMins`).
    #[serde(rename = "grp_tres_run_mins", skip_serializing_if = "tres::none")]
    pub tres_run_mins: Tres,
    /// Wall clock time used (`GrpWall`).
    #[serde(rename = "grp_wall", skip_serializing_if = "is_default")]
    pub wall: Option<Seconds>,
}

/// Limits of an account or of a user in it. What is not set is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AssociationLimits {
    /// On all jobs together.
    #[serde(flatten)]
    pub group: GroupLimits,
    /// Jobs that each user runs at once (`MaxJobs`).
    #[serde(skip_serializing_if = "is_default")]
    pub max_jobs: Option<u32>,
    /// Jobs that each user has waiting or running (`MaxSubmitJobs`).
    #[serde(skip_serializing_if = "is_default")]
    pub max_submit_jobs: Option<u32>,
    /// Resources of each job (`MaxTRES`).
    #[serde(skip_serializing_if = "tres::none")]
    pub max_tres: Tres,
    /// Resources of each job on each node (`MaxTRESPerNode`).
    #[serde(skip_serializing_if = "tres::none")]
    pub max_tres_per_node: Tres,
    /// Resource minutes of each job (`MaxTRESMins`).
    #[serde(skip_serializing_if = "tres::none")]
    pub max_tres_mins: Tres,
    /// The longest time limit (`MaxWall`).
    #[serde(skip_serializing_if = "is_default")]
    pub max_wall: Option<Seconds>,
}

impl State {
    /// The priority of an association: the user's own, or of the nearest account that has one; 0
    /// where none has (sacctmgr manual, `Priority`).
    pub fn association_priority(&self, account: &str, user: &str) -> u32 {
        let own = self.accounts.get(account).and_then(|a| a.members.get(user)?.priority);
        own.or_else(|| self.lineage(account).find_map(|a| a.priority)).unwrap_or(0)
    }

    /// An account and all above it, itself first; at most as many as there are accounts.
    pub fn lineage<'a>(&'a self, account: &str) -> impl Iterator<Item = &'a Account> {
        let of = |name: &str| self.accounts.get(name).map(AsRef::as_ref);
        let above = move |below: &&'a Account| of(below.parent.as_ref()?);
        std::iter::successors(of(account), above).take(self.accounts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{QosLimits, TresKind};

    #[test]
    fn limits_are_stored_flat_as_they_always_were() {
        let old = r#"{"grp_jobs":3,"grp_tres":{"gres/gpu":8},"grp_wall":60,"max_wall":120}"#;
        let limits: AssociationLimits = serde_json::from_str(old).unwrap();
        assert_eq!((limits.group.jobs, limits.group.wall), (Some(3), Some(Seconds(60))));
        assert_eq!(limits.group.tres.get(&TresKind::Gpu(None)), 8);
        assert_eq!(limits.max_wall, Some(Seconds(120)));
        let qos: QosLimits = serde_json::from_str(old).unwrap();
        assert_eq!((qos.group, qos.max_wall), (limits.group.clone(), limits.max_wall));
        assert_eq!(serde_json::to_string(&AssociationLimits::default()).unwrap(), "{}");
        let again: serde_json::Value = serde_json::to_value(&limits).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(old).unwrap());
    }
}
