//! Preemption: who may make room for whom, how, and the room that is held until it is used.
//!
//! Field names and meanings follow slurm.conf (`PreemptMode`, `PreemptExemptTime`, `GraceTime`) and
//! Kubernetes' elastic quotas (guarantee and borrow).

use crate::{JobId, JobSpec, Mib, Placement, Seconds, Term, TimeLimit, Timestamp, is_default};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a job makes room (slurm.conf manual, `PreemptMode`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum PreemptMode {
    /// It does not: it is protected.
    #[default]
    Off,
    /// It ends.
    Cancel,
    /// It goes back to the queue; it ends where it may not be requeued.
    Requeue,
    /// It is asked for a checkpoint, has its grace, and goes back to the queue; as
    /// [`PreemptMode::Requeue`] where it names no checkpoint signal.
    Checkpoint,
    /// It stands still and keeps its memory, GPUs and licences; only its CPUs become free. It goes
    /// on when they are.
    Suspend,
    /// It gives up nodes and goes on with the others: elastic jobs that say so, by decision alone.
    Shrink,
}

impl PreemptMode {
    /// The configuration's word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Cancel => "cancel",
            Self::Requeue => "requeue",
            Self::Checkpoint => "checkpoint",
            Self::Suspend => "suspend",
            Self::Shrink => "shrink",
        }
    }
}

/// What a QOS or a partition says about its own jobs as victims; `None` leaves it to the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PreemptRules {
    /// How they make room.
    #[serde(skip_serializing_if = "is_default")]
    pub mode: Option<PreemptMode>,
    /// Time between the polite and the final signal.
    #[serde(skip_serializing_if = "is_default")]
    pub grace: Option<Seconds>,
    /// They are left alone until they have run so long.
    #[serde(skip_serializing_if = "is_default")]
    pub exempt: Option<Seconds>,
}

/// A site's rules of preemption: the configuration's `[preemption]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Preemption {
    /// How victims make room where neither their QOS nor their partition says; `off` protects them.
    pub mode: PreemptMode,
    /// A job in a partition of a higher tier may preempt those of lower tiers on nodes that both
    /// partitions have (Slurm's `preempt/partition_prio`).
    pub tiers: bool,
    /// A job may preempt those whose own priority (`JobSpec::priority`) is lower, as pods do.
    #[serde(skip_serializing_if = "is_default")]
    pub priorities: bool,
    /// A job in a reservation that lies over the present may preempt jobs that are not in it on its
    /// nodes: those that ran there before, or that are there by leave of another reservation.
    #[serde(skip_serializing_if = "is_default")]
    pub reservations: bool,
    /// Jobs that run on borrowed quota may be reclaimed ([`Quota`]): in this mode, or in that of
    /// their QOS or partition where one says; `off` turns reclaiming off.
    pub reclaim: PreemptMode,
    /// Time between the polite and the final signal; zero is the policy's `kill_wait`.
    pub grace: Seconds,
    /// Jobs are left alone until they have run so long (Slurm's `PreemptExemptTime`).
    pub exempt: Seconds,
    /// Which of several sets of victims is taken.
    pub order: VictimOrder,
    /// A round looks for victims for at most so many waiting jobs.
    pub depth: u32,
    /// Elastic jobs grow once they have run so long since they last started.
    pub grow_after: Seconds,
}

/// Which of several sets of victims is taken. Ties go to the younger jobs, then to higher ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VictimOrder {
    /// The fewest jobs, then the least work lost.
    #[default]
    Fewest,
    /// The least work lost (GPU-seconds since the last checkpoint, then CPU-seconds), then the
    /// fewest jobs.
    LeastLost,
}

impl Default for Preemption {
    fn default() -> Self {
        Self {
            mode: PreemptMode::Off,
            tiers: false,
            priorities: false,
            reservations: false,
            reclaim: PreemptMode::Off,
            grace: Seconds(0),
            exempt: Seconds(0),
            order: VictimOrder::Fewest,
            depth: 16,
            grow_after: Seconds(600),
        }
    }
}

/// How many of some jobs may be told to make room now (Kubernetes' `PodDisruptionBudget`).
///
/// It is no ban: victims that keep to all budgets are taken before any that do not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DisruptionBudget {
    /// Its name, unique.
    pub name: String,
    /// Which jobs, by their labels.
    pub jobs: Term,
    /// So many of them at most.
    pub allowed: u32,
}

impl DisruptionBudget {
    /// True where it counts this job.
    pub fn counts(&self, spec: &JobSpec) -> bool {
        self.jobs.selects(|key| spec.labels.get(key).map(String::as_str))
    }
}

/// What an account can always have of the cluster, with all accounts below it.
///
/// What they use beyond is borrowed. The most that they may have is the account's `GrpTRES` limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// Its own; jobs inside it are never preempted by other accounts.
    #[serde(skip_serializing_if = "is_default")]
    pub guarantee: Option<QuotaAmount>,
}

/// Amounts of a quota; `None` is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuotaAmount {
    /// CPUs.
    #[serde(skip_serializing_if = "is_default")]
    pub cpus: Option<u64>,
    /// GPUs.
    #[serde(skip_serializing_if = "is_default")]
    pub gpus: Option<u64>,
    /// Memory.
    #[serde(skip_serializing_if = "is_default")]
    pub memory: Option<Mib>,
}

impl QuotaAmount {
    /// True where `used` is inside everything that is counted.
    pub fn holds(&self, used: &Amounts) -> bool {
        self.cpus.is_none_or(|most| used.cpus <= most)
            && self.gpus.is_none_or(|most| used.gpus <= most)
            && self.memory.is_none_or(|most| used.memory <= most.0)
    }
}

/// CPUs, GPUs and memory that placements hold, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amounts {
    /// CPUs.
    pub cpus: u64,
    /// GPUs; a share of one counts as one.
    pub gpus: u64,
    /// Memory in MiB.
    pub memory: u64,
}

impl Amounts {
    /// What a placement holds.
    pub fn of(placement: &Placement) -> Self {
        Self {
            cpus: u64::from(placement.cpus()),
            gpus: u64::from(placement.devices()),
            memory: placement.memory().0,
        }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            cpus: self.cpus.saturating_add(other.cpus),
            gpus: self.gpus.saturating_add(other.gpus),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    /// What is left without the other.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            cpus: self.cpus.saturating_sub(other.cpus),
            gpus: self.gpus.saturating_sub(other.gpus),
            memory: self.memory.saturating_sub(other.memory),
        }
    }
}

/// A running job that makes room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victim {
    /// Which.
    pub job: JobId,
    /// Which attempt.
    pub attempt: u32,
    /// How: never [`PreemptMode::Off`].
    pub mode: PreemptMode,
    /// When it is told to end; later than the decision where a checkpoint comes first.
    pub stop_at: Timestamp,
    /// When its room is free at the latest.
    pub until: Timestamp,
    /// What an elastic job has after it: fewer of its nodes, on which it starts again or goes on,
    /// or, where it grows, more.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keeps: Option<Arc<Placement>>,
}

/// Room that is being made for a waiting job, or is made and not yet used: nobody else gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// When it was decided.
    pub since: Timestamp,
    /// When all of it is free at the latest.
    pub until: Timestamp,
    /// The room.
    pub placement: Arc<Placement>,
    /// The limit that the job will have.
    pub time_limit: TimeLimit,
    /// Who makes it.
    pub victims: Vec<Victim>,
}

/// The mark on a job that makes, or has made, room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    /// For whom.
    pub by: JobId,
    /// How.
    pub mode: PreemptMode,
    /// When it was decided.
    pub at: Timestamp,
    /// When it is told to end.
    pub stop_at: Timestamp,
    /// When it is gone at the latest; where it only stands still, when the other is.
    pub until: Timestamp,
    /// What an elastic job has after it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keeps: Option<Arc<Placement>>,
}
