//! Qualities of service: a priority, limits that go before the association's, and flags.
//!
//! Names and meanings are Slurm's (sacctmgr manual, QOS page).

use crate::{GroupLimits, PreemptRules, Seconds, Tres, is_default, tres};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A quality of service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Qos {
    /// Its name, unique.
    pub name: String,
    /// Added to the priority of its jobs.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: u32,
    /// Limits on its jobs.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: QosLimits,
    /// What it changes in the rules.
    #[serde(skip_serializing_if = "is_default")]
    pub flags: QosFlags,
    /// Use counts so many thousandths (`UsageFactor`); `None` is 1000.
    #[serde(skip_serializing_if = "is_default")]
    pub usage_factor: Option<u32>,
    /// The qualities of service whose jobs its own may preempt (Slurm's `Preempt=`).
    #[serde(skip_serializing_if = "is_default")]
    pub preempts: BTreeSet<String>,
    /// How its own jobs make room.
    #[serde(skip_serializing_if = "is_default")]
    pub preempt: PreemptRules,
}

/// Limits of a quality of service. What is not set is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QosLimits {
    /// On all its jobs together.
    #[serde(flatten)]
    pub group: GroupLimits,
    /// Jobs that each user runs at once (`MaxJobsPerUser`).
    #[serde(skip_serializing_if = "is_default")]
    pub max_jobs_per_user: Option<u32>,
    /// Jobs that each account runs at once (`MaxJobsPerAccount`).
    #[serde(skip_serializing_if = "is_default")]
    pub max_jobs_per_account: Option<u32>,
    /// Jobs that each user has waiting or running (`MaxSubmitJobsPerUser`).
    #[serde(skip_serializing_if = "is_default")]
    pub max_submit_jobs_per_user: Option<u32>,
    /// Jobs that each account has waiting or running (`MaxSubmitJobsPerAccount`).
    #[serde(skip_serializing_if = "is_default")]
    pub max_submit_jobs_per_account: Option<u32>,
    /// Resources of each user at once (`MaxTRESPerUser`).
    #[serde(skip_serializing_if = "tres::none")]
    pub max_tres_per_user: Tres,
    /// Resources of each account at once (`MaxTRESPerAccount`).
    #[serde(skip_serializing_if = "tres::none")]
    pub max_tres_per_account: Tres,
    /// Resources of each job (`MaxTRESPerJob`).
    #[serde(skip_serializing_if = "tres::none")]
    pub max_tres_per_job: Tres,
    /// Resources of each job on each node (`MaxTRESPerNode`).
    #[serde(skip_serializing_if = "tres::none")]
    pub max_tres_per_node: Tres,
    /// Resource minutes of each job (`MaxTRESMinsPerJob`).
    #[serde(skip_serializing_if = "tres::none")]
    pub max_tres_mins_per_job: Tres,
    /// The longest time limit (`MaxWall`).
    #[serde(skip_serializing_if = "is_default")]
    pub max_wall: Option<Seconds>,
    /// The least that each job asks for (`MinTRESPerJob`).
    #[serde(skip_serializing_if = "tres::none")]
    pub min_tres_per_job: Tres,
    /// Jobs with a lower priority do not start (`MinPrioThreshold`).
    #[serde(skip_serializing_if = "is_default")]
    pub min_prio_threshold: Option<u32>,
}

/// What a quality of service changes in the rules (sacctmgr manual, `Flags` of a QOS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_excessive_bools)] // Slurm's flags, each on its own
pub struct QosFlags {
    /// Jobs above a limit that they alone break are refused at submission.
    #[serde(skip_serializing_if = "is_default")]
    pub deny_on_limit: bool,
    /// Its own use does not decay.
    #[serde(skip_serializing_if = "is_default")]
    pub no_decay: bool,
    /// Its jobs may ask for more time than the partition gives.
    #[serde(skip_serializing_if = "is_default")]
    pub partition_time_limit: bool,
    /// Its limits go before those of the partition's QOS.
    #[serde(skip_serializing_if = "is_default")]
    pub over_part_qos: bool,
    /// What a job may still use counts with the usage factor, too.
    #[serde(skip_serializing_if = "is_default")]
    pub usage_factor_safe: bool,
}

impl Qos {
    /// How much use counts, in thousandths.
    pub fn usage_factor(&self) -> u64 {
        self.usage_factor.map_or(1000, u64::from)
    }

    /// True where it limits anything.
    pub fn has_limits(&self) -> bool {
        self.limits != QosLimits::default()
    }
}
