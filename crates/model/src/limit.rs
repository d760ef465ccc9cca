//! A limit that holds a job: which, whose, and the numbers.

use crate::{Mib, TresKind};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A limit that would be broken by a job's start or submission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LimitHit {
    /// Which limit.
    pub limit: LimitName,
    /// The resource it is on; `None` where it counts jobs or wall clock minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tres: Option<TresKind>,
    /// Whose: `account lab`, `user ada in account lab`, `QOS high`, `user ada in QOS high`.
    pub whose: String,
    /// The limit's value (the least, for a minimum).
    pub most: u64,
    /// What counts towards it already.
    pub used: u64,
    /// What the job asks for.
    pub asked: u64,
}

/// A limit's name (sacctmgr manual).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// `GrpJobs`.
    GrpJobs,
    /// `GrpSubmitJobs`.
    GrpSubmitJobs,
    /// `GrpTRES`.
    GrpTres,
    /// `GrpTRESMins`.
    GrpTresMins,
    /// `GrpTRESRunMins`.
    GrpTresRunMins,
    /// `GrpWall`.
    GrpWall,
    /// `MaxJobs`, `MaxJobsPerUser`.
    MaxJobs,
    /// `MaxJobsPerAccount`.
    MaxJobsPerAccount,
    /// `MaxSubmitJobs`, `MaxSubmitJobsPerUser`.
    MaxSubmitJobs,
    /// `MaxSubmitJobsPerAccount`.
    MaxSubmitJobsPerAccount,
    /// `MaxTRES`, `MaxTRESPerJob`.
    MaxTres,
    /// `MaxTRESPerNode`.
    MaxTresPerNode,
    /// `MaxTRESMins`, `MaxTRESMinsPerJob`.
    MaxTresMins,
    /// `MaxTRESPerUser`.
    MaxTresPerUser,
    /// `MaxTRESPerAccount`.
    MaxTresPerAccount,
    /// `MaxWall`.
    MaxWall,
    /// `MinTRESPerJob`.
    MinTres,
}

impl LimitName {
    /// Slurm's name of it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::GrpJobs => "GrpJobs",
            Self::GrpSubmitJobs => "GrpSubmitJobs",
            Self::GrpTres => "GrpTRES",
            Self::GrpTresMins => "GrpTRESMins",
            Self::GrpTresRunMins => "GrpTRESRunMins",
            Self::GrpWall => "GrpWall",
            Self::MaxJobs => "MaxJobs",
            Self::MaxJobsPerAccount => "MaxJobsPerAccount",
            Self::MaxSubmitJobs => "MaxSubmitJobs",
            Self::MaxSubmitJobsPerAccount => "MaxSubmitJobsPerAccount",
            Self::MaxTres => "MaxTRES",
            Self::MaxTresPerNode => "MaxTRESPerNode",
            Self::MaxTresMins => "MaxTRESMins",
            Self::MaxTresPerUser => "MaxTRESPerUser",
            Self::MaxTresPerAccount => "MaxTRESPerAccount",
            Self::MaxWall => "MaxWall",
            Self::MinTres => "MinTRESPerJob",
        }
    }

    /// True for a limit that one job breaks or keeps by itself.
    pub const fn is_of_one_job(self) -> bool {
        matches!(
            self,
            Self::MaxTres
                | Self::MaxTresPerNode
                | Self::MaxTresMins
                | Self::MaxWall
                | Self::MinTres
        )
    }
}

impl LimitHit {
    /// Slurm's reason word for a limit of an association (`src/common/job_state_reason.c`).
    pub const fn association_word(&self) -> &'static str {
        use LimitName as L;
        match (self.limit, &self.tres) {
            (L::GrpJobs, _) => "AssocGrpJobsLimit",
            (L::GrpSubmitJobs, _) => "AssocGrpSubmitJobsLimit",
            (L::GrpWall, _) => "AssocGrpWallLimit",
            (L::MaxJobs | L::MaxJobsPerAccount, _) => "AssocMaxJobsLimit",
            (L::MaxSubmitJobs | L::MaxSubmitJobsPerAccount, _) => "AssocMaxSubmitJobLimit",
            (L::MaxWall, _) => "AssocMaxWallDurationPerJobLimit",
            (L::GrpTres, Some(TresKind::Cpu)) => "AssocGrpCpuLimit",
            (L::GrpTres, Some(TresKind::Mem)) => "AssocGrpMemLimit",
            (L::GrpTres, Some(TresKind::Node)) => "AssocGrpNodeLimit",
            (L::GrpTres, Some(TresKind::Billing)) => "AssocGrpBilling",
            (L::GrpTres, Some(TresKind::Licence(_))) => "AssocGrpLicense",
            (L::GrpTres, _) => "AssocGrpGRES",
            (L::GrpTresMins, Some(TresKind::Cpu)) => "AssocGrpCPUMinutesLimit",
            (L::GrpTresMins, Some(TresKind::Mem)) => "AssocGrpMemMinutes",
            (L::GrpTresMins, Some(TresKind::Node)) => "AssocGrpNodeMinutes",
            (L::GrpTresMins, Some(TresKind::Billing)) => "AssocGrpBillingMinutes",
            (L::GrpTresMins, Some(TresKind::Licence(_))) => "AssocGrpLicenseMinutes",
            (L::GrpTresMins, _) => "AssocGrpGRESMinutes",
            (L::GrpTresRunMins, Some(TresKind::Cpu)) => "AssocGrpCPURunMinutesLimit",
            (L::GrpTresRunMins, Some(TresKind::Mem)) => "AssocGrpMemRunMinutes",
            (L::GrpTresRunMins, Some(TresKind::Node)) => "AssocGrpNodeRunMinutes",
            (L::GrpTresRunMins, Some(TresKind::Billing)) => "AssocGrpBillingRunMinutes",
            (L::GrpTresRunMins, Some(TresKind::Licence(_))) => "AssocGrpLicenseRunMinutes",
            (L::GrpTresRunMins, _) => "AssocGrpGRESRunMinutes",
            (L::MaxTresPerNode, Some(TresKind::Cpu)) => "AssocMaxCpuPerNode",
            (L::MaxTresPerNode, Some(TresKind::Mem)) => "AssocMaxMemPerNode",
            (L::MaxTresPerNode, Some(TresKind::Billing)) => "AssocMaxBillingPerNode",
            (L::MaxTresPerNode, _) => "AssocMaxGRESPerNode",
            (L::MaxTresMins, Some(TresKind::Cpu)) => "AssocMaxCpuMinutesPerJobLimit",
            (L::MaxTresMins, Some(TresKind::Mem)) => "AssocMaxMemMinutesPerJob",
            (L::MaxTresMins, Some(TresKind::Node)) => "AssocMaxNodeMinutesPerJob",
            (L::MaxTresMins, Some(TresKind::Billing)) => "AssocMaxBillingMinutesPerJob",
            (L::MaxTresMins, Some(TresKind::Licence(_))) => "AssocMaxLicenseMinutesPerJob",
            (L::MaxTresMins, _) => "AssocMaxGRESMinutesPerJob",
            (_, Some(TresKind::Cpu)) => "AssocMaxCpuPerJobLimit",
            (_, Some(TresKind::Mem)) => "AssocMaxMemPerJob",
            (_, Some(TresKind::Node)) => "AssocMaxNodePerJobLimit",
            (_, Some(TresKind::Billing)) => "AssocMaxBillingPerJob",
            (_, Some(TresKind::Licence(_))) => "AssocMaxLicensePerJob",
            (_, _) => "AssocMaxGRESPerJob",
        }
    }

    /// Slurm's reason word for a limit of a QOS.
    pub const fn qos_word(&self) -> &'static str {
        use LimitName as L;
        match (self.limit, &self.tres) {
            (L::GrpJobs, _) => "QOSGrpJobsLimit",
            (L::GrpSubmitJobs, _) => "QOSGrpSubmitJobsLimit",
            (L::GrpWall, _) => "QOSGrpWallLimit",
            (L::MaxJobs, _) => "QOSMaxJobsPerUserLimit",
            (L::MaxJobsPerAccount, _) => "MaxJobsPerAccount",
            (L::MaxSubmitJobs, _) => "QOSMaxSubmitJobPerUserLimit",
            (L::MaxSubmitJobsPerAccount, _) => "MaxSubmitJobsPerAccount",
            (L::MaxWall, _) => "QOSMaxWallDurationPerJobLimit",
            (L::GrpTres, Some(TresKind::Cpu)) => "QOSGrpCpuLimit",
            (L::GrpTres, Some(TresKind::Mem)) => "QOSGrpMemLimit",
            (L::GrpTres, Some(TresKind::Node)) => "QOSGrpNodeLimit",
            (L::GrpTres, Some(TresKind::Billing)) => "QOSGrpBilling",
            (L::GrpTres, Some(TresKind::Licence(_))) => "QOSGrpLicense",
            (L::GrpTres, _) => "QOSGrpGRES",
            (L::GrpTresMins, Some(TresKind::Cpu)) => "QOSGrpCPUMinutesLimit",
            (L::GrpTresMins, Some(TresKind::Mem)) => "QOSGrpMemoryMinutes",
            (L::GrpTresMins, Some(TresKind::Node)) => "QOSGrpNodeMinutes",
            (L::GrpTresMins, Some(TresKind::Billing)) => "QOSGrpBillingMinutes",
            (L::GrpTresMins, Some(TresKind::Licence(_))) => "QOSGrpLicenseMinutes",
            (L::GrpTresMins, _) => "QOSGrpGRESMinutes",
            (L::GrpTresRunMins, Some(TresKind::Cpu)) => "QOSGrpCPURunMinutesLimit",
            (L::GrpTresRunMins, Some(TresKind::Mem)) => "QOSGrpMemoryRunMinutes",
            (L::GrpTresRunMins, Some(TresKind::Node)) => "QOSGrpNodeRunMinutes",
            (L::GrpTresRunMins, Some(TresKind::Billing)) => "QOSGrpBillingRunMinutes",
            (L::GrpTresRunMins, Some(TresKind::Licence(_))) => "QOSGrpLicenseRunMinutes",
            (L::GrpTresRunMins, _) => "QOSGrpGRESRunMinutes",
            (L::MaxTresPerNode, Some(TresKind::Cpu)) => "QOSMaxCpuPerNode",
            (L::MaxTresPerNode, Some(TresKind::Mem)) => "QOSMaxMemoryPerNode",
            (L::MaxTresPerNode, Some(TresKind::Billing)) => "QOSMaxBillingPerNode",
            (L::MaxTresPerNode, _) => "QOSMaxGRESPerNode",
            (L::MaxTresMins, Some(TresKind::Cpu)) => "QOSMaxCpuMinutesPerJobLimit",
            (L::MaxTresMins, Some(TresKind::Mem)) => "QOSMaxMemoryMinutesPerJob",
            (L::MaxTresMins, Some(TresKind::Node)) => "QOSMaxNodeMinutesPerJob",
            (L::MaxTresMins, Some(TresKind::Billing)) => "QOSMaxBillingMinutesPerJob",
            (L::MaxTresMins, Some(TresKind::Licence(_))) => "QOSMaxLicenseMinutesPerJob",
            (L::MaxTresMins, _) => "QOSMaxGRESMinutesPerJob",
            (L::MaxTresPerUser, Some(TresKind::Cpu)) => "QOSMaxCpuPerUserLimit",
            (L::MaxTresPerUser, Some(TresKind::Mem)) => "QOSMaxMemoryPerUser",
            (L::MaxTresPerUser, Some(TresKind::Node)) => "QOSMaxNodePerUserLimit",
            (L::MaxTresPerUser, Some(TresKind::Billing)) => "QOSMaxBillingPerUser",
            (L::MaxTresPerUser, Some(TresKind::Licence(_))) => "QOSMaxLicensePerUser",
            (L::MaxTresPerUser, _) => "QOSMaxGRESPerUser",
            (L::MaxTresPerAccount, Some(TresKind::Cpu)) => "MaxCpuPerAccount",
            (L::MaxTresPerAccount, Some(TresKind::Mem)) => "MaxMemoryPerAccount",
            (L::MaxTresPerAccount, Some(TresKind::Node)) => "MaxNodePerAccount",
            (L::MaxTresPerAccount, Some(TresKind::Billing)) => "MaxBillingPerAccount",
            (L::MaxTresPerAccount, Some(TresKind::Licence(_))) => "MaxLicensePerAccount",
            (L::MaxTresPerAccount, _) => "MaxGRESPerAccount",
            (L::MinTres, Some(TresKind::Cpu)) => "QOSMinCpuNotSatisfied",
            (L::MinTres, Some(TresKind::Mem)) => "QOSMinMemory",
            (L::MinTres, Some(TresKind::Node)) => "QOSMinNode",
            (L::MinTres, Some(TresKind::Billing)) => "QOSMinBilling",
            (L::MinTres, Some(TresKind::Licence(_))) => "QOSMinLicense",
            (L::MinTres, _) => "QOSMinGRES",
            (L::MaxTres, Some(TresKind::Cpu)) => "QOSMaxCpuPerJobLimit",
            (L::MaxTres, Some(TresKind::Mem)) => "QOSMaxMemoryPerJob",
            (L::MaxTres, Some(TresKind::Node)) => "QOSMaxNodePerJobLimit",
            (L::MaxTres, Some(TresKind::Billing)) => "QOSMaxBillingPerJob",
            (L::MaxTres, Some(TresKind::Licence(_))) => "QOSMaxLicensePerJob",
            (L::MaxTres, _) => "QOSMaxGRESPerJob",
        }
    }

    /// What the numbers count, as words with a number: `8 gres/gpu`, `3 jobs`, `60 cpu minutes`.
    fn amount(&self, n: u64) -> String {
        use LimitName as L;
        let minutes = matches!(self.limit, L::GrpTresMins | L::GrpTresRunMins | L::MaxTresMins);
        match (&self.tres, self.limit) {
            (Some(_) | None, L::GrpWall | L::MaxWall) if n == u64::MAX => "no end".to_owned(),
            (None, L::GrpWall | L::MaxWall) => format!("{n} minutes"),
            (None, _) => format!("{n} {}", if n == 1 { "job" } else { "jobs" }),
            (Some(_), _) if minutes && n == u64::MAX => "no end of minutes".to_owned(),
            (Some(kind), _) if minutes => format!("{n} {kind} minutes"),
            (Some(TresKind::Mem), _) => format!("{} of memory", Mib(n)),
            (Some(kind), _) => format!("{n} {kind}"),
        }
    }
}

impl fmt::Display for LimitHit {
    /// One sentence, lower case, no full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, whose) = (self.limit.word(), &self.whose);
        let (most, asked) = (self.amount(self.most), self.amount(self.asked));
        match self.limit {
            LimitName::MinTres => {
                write!(f, "{whose} takes jobs from {most} on ({word}); it asks for {asked}")
            }
            limit if limit.is_of_one_job() => {
                let each = if limit == LimitName::MaxTresPerNode { " on each node" } else { "" };
                write!(f, "{whose} gives a job at most {most}{each} ({word}); it asks for {asked}")
            }
            LimitName::GrpWall => {
                let used = self.amount(self.used);
                write!(f, "{whose} has used {used} of its {most} of wall clock time ({word})")
            }
            LimitName::GrpJobs | LimitName::MaxJobs | LimitName::MaxJobsPerAccount => {
                let verb = if self.used == 1 { "runs" } else { "run" };
                write!(f, "{whose} may run {most} at once ({word}); {} {verb} now", self.used)
            }
            LimitName::GrpSubmitJobs
            | LimitName::MaxSubmitJobs
            | LimitName::MaxSubmitJobsPerAccount => write!(
                f,
                "{whose} may have {most} waiting or running ({word}); there are {}, and {asked} more \
                 would be too many",
                self.used
            ),
            LimitName::GrpTresMins | LimitName::GrpTresRunMins => {
                let used = self.used;
                write!(
                    f,
                    "{whose} has {most} ({word}); {used} are used or may still be by what runs, "
                )?;
                write!(f, "and it may use {asked}")
            }
            _ => {
                let used = self.amount(self.used);
                write!(f, "{whose} may have {most} at once ({word}): {used} in use, ")?;
                write!(f, "and it asks for {asked}")
            }
        }
    }
}
