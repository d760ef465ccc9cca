//! Why a job waits: every reason there is, with its numbers.

use crate::{JobId, LimitHit, LimitName, Mib, Seconds, TimeLimit, Timestamp, TresKind};
use serde::{Deserialize, Serialize};

mod sentence;

/// Why a job waits, or why it ended without running.
///
/// Each variant has a stable code ([`Reason::code`]), a Slurm word ([`Reason::slurm_word`]) and a
/// page in the docs (`docs/reasons/<CODE>.md`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// No planning round has looked at it yet.
    NotPlannedYet,
    /// Its owner holds it.
    HeldByUser,
    /// An admin holds it.
    HeldByAdmin,
    /// Its begin time has not come.
    BeginTime {
        /// When it comes.
        at: Timestamp,
    },
    /// Jobs that it depends on are not done.
    Dependency {
        /// The unmet terms as text, at most eight.
        waiting_for: Vec<String>,
    },
    /// A job that it depends on can never meet the condition.
    DependencyNeverSatisfied {
        /// The failed term as text.
        term: String,
    },
    /// Its array already runs as many tasks as its throttle allows.
    ArrayTaskLimit {
        /// The throttle.
        limit: u32,
    },
    /// It asks for more time than the partition gives.
    PartitionTimeLimit {
        /// The partition.
        partition: String,
        /// What it gives.
        limit: TimeLimit,
    },
    /// It asks for more or fewer nodes than the partition gives.
    PartitionNodeLimit {
        /// The partition.
        partition: String,
        /// What it asks for.
        wanted: u32,
    },
    /// The partition starts no jobs.
    PartitionDown {
        /// The partition.
        partition: String,
    },
    /// The partition starts and takes no jobs.
    PartitionInactive {
        /// The partition.
        partition: String,
    },
    /// No node of the partition, even if empty, satisfies the request.
    NoNodeFits {
        /// The partition.
        partition: String,
        /// Nodes it needs.
        wanted: u32,
        /// Nodes that satisfy everything but this.
        found: u32,
        /// What they lack, as a sentence.
        lacking: String,
    },
    /// Nodes that it needs are down, drained or named and absent.
    NodesUnavailable {
        /// Their names, at most eight.
        nodes: Vec<String>,
    },
    /// What it needs is in use.
    Resources {
        /// The resource that is shortest, as a word: `gpus`, `cpus`, `memory`, `nodes`.
        resource: String,
        /// How much it needs of it, on all its nodes together.
        wanted: u64,
        /// How much is free where it could go, on as many nodes; parts that are too small for what
        /// one node has to give count as they are.
        free: u64,
        /// Nodes that it needs; 0 where any number would do.
        nodes: u32,
        /// Jobs that hold some of it where the job could go, soonest end first, at most eight.
        held_by: Vec<JobId>,
        /// Its expected start, if every running job takes its whole limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start: Option<Timestamp>,
    },
    /// Jobs before it in the queue come first.
    Priority {
        /// The job whose start it would delay, or that is directly before it.
        behind: JobId,
        /// How many waiting jobs are before it.
        ahead: u32,
    },
    /// Licences are in use.
    Licences {
        /// Which.
        name: String,
        /// How many it needs.
        wanted: u32,
        /// How many are free.
        free: u32,
    },
    /// A licence is not given out, because a filesystem is saturated.
    FilesystemBusy {
        /// The licence.
        licence: String,
        /// The filesystem.
        filesystem: String,
        /// By which figure, in words.
        figure: String,
        /// Since when.
        since: Timestamp,
    },
    /// Licences that do not exist in that number.
    LicencesNeverEnough {
        /// Which.
        name: String,
        /// How many it needs.
        wanted: u32,
        /// How many there are.
        total: u32,
    },
    /// It names a reservation that is not there.
    ReservationAbsent {
        /// The name.
        name: String,
    },
    /// The reservation that it named is over; it is held until somebody looks.
    ReservationDeleted {
        /// The name.
        name: String,
    },
    /// Its owner or account may not use the reservation that it names.
    ReservationDenied {
        /// The name.
        name: String,
    },
    /// The reservation that it names has not begun.
    ReservationWaits {
        /// The name.
        name: String,
        /// When it begins.
        start: Timestamp,
    },
    /// It could run on after the reservation that it names is over.
    ReservationTooShort {
        /// The name.
        name: String,
        /// When it is over.
        end: Timestamp,
    },
    /// It could run into a reservation that is not its own.
    Reserved {
        /// The name.
        name: String,
        /// When it begins.
        start: Timestamp,
        /// When it is over; [`Timestamp::NEVER`] is without an end.
        end: Timestamp,
        /// It is for maintenance.
        maintenance: bool,
    },
    /// A GPU's free memory is too small.
    GpuMemory {
        /// What each GPU must have free.
        wanted: Mib,
        /// The largest that any GPU of the partition has.
        largest: Mib,
    },
    /// It waits for few switches.
    Switches {
        /// At most so many.
        count: u32,
        /// Waits so long at most.
        wait: Seconds,
    },
    /// Too few free nodes are near enough to each other.
    Topology {
        /// What it asks for, as words: `in one rack`.
        rule: String,
        /// Nodes that it needs.
        wanted: u32,
        /// The most free nodes that are so.
        nearest: u32,
        /// Where they are; empty where that is no one place.
        place: String,
        /// Free nodes wherever they are.
        free: u32,
    },
    /// Labels, taints or the jobs beside it leave too few nodes.
    Rules {
        /// The kind of rule without which it would fit.
        kind: RuleKind,
        /// The rule as it is written.
        rule: String,
        /// Nodes that it needs.
        wanted: u32,
        /// How many nodes each rule leaves of those that the rules before it leave, from all nodes
        /// of the partition on.
        tally: Vec<RuleTally>,
        /// Jobs that stand in the way, at most eight.
        held_by: Vec<JobId>,
    },
    /// It could not end by its deadline.
    Deadline {
        /// The deadline.
        at: Timestamp,
    },
    /// Another component of its heterogeneous job waits.
    HetPeer {
        /// Which.
        peer: JobId,
    },
    /// It was put back in the queue and waits for a moment.
    Requeued {
        /// Until when.
        until: Timestamp,
    },
    /// It lost its node as often as the policy allows and is held until somebody looks
    /// (Slurm's `MaxBatchRequeue`).
    #[serde(alias = "launch_failed_held")]
    RestartedTooOften {
        /// What happened.
        message: String,
    },
    /// The plan that would start it broke a rule; it is held and an alarm is raised.
    PlanRefused {
        /// Which rule.
        rule: String,
    },
    /// Running jobs make room for it; the room is held for it.
    MakingRoom {
        /// Who, at most eight.
        victims: Vec<JobId>,
        /// When all of them have made it at the latest.
        until: Timestamp,
    },
    /// Its GPUs did nothing while it ran: they were taken back, and it is held until somebody looks.
    GpusIdle {
        /// How many it had.
        gpus: u32,
        /// How long they did nothing.
        after: Seconds,
    },
    /// Members of its gang are not submitted, or not free to start.
    GangIncomplete {
        /// The gang's name.
        gang: String,
        /// How many members it has.
        size: u32,
        /// How many of them are submitted.
        submitted: u32,
        /// How many of those wait and are free to start.
        ready: u32,
        /// Those that are not, at most eight.
        not_free: Vec<JobId>,
    },
    /// The planning budget ended before it was looked at.
    BudgetEnded,
    /// Its account, or its user's part of it, is limited.
    AssociationLimit(LimitHit),
    /// Its QOS, or that of its partition, is limited.
    QosLimit(LimitHit),
}

/// A kind of rule on nodes and on the jobs beside a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleKind {
    /// Taints that it does not tolerate.
    Taints,
    /// Labels and fields of nodes.
    NodeAffinity,
    /// Jobs to be near.
    JobAffinity,
    /// Jobs to be away from, or jobs that want to be away from it.
    AntiAffinity,
    /// Even spreading.
    Spread,
}

/// How many nodes a rule leaves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuleTally {
    /// The rule in words.
    pub rule: String,
    /// Nodes that it leaves.
    pub left: u32,
}

impl RuleKind {
    /// Every kind, in the order in which they are told.
    pub const ALL: [Self; 5] =
        [Self::Taints, Self::NodeAffinity, Self::JobAffinity, Self::AntiAffinity, Self::Spread];

    /// The code of the reason.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Taints => "TAINTS",
            Self::NodeAffinity => "NODE_AFFINITY",
            Self::JobAffinity => "JOB_AFFINITY",
            Self::AntiAffinity => "ANTI_AFFINITY",
            Self::Spread => "SPREAD",
        }
    }

    /// What people call it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Taints => "taints",
            Self::NodeAffinity => "node affinity",
            Self::JobAffinity => "job affinity",
            Self::AntiAffinity => "anti-affinity",
            Self::Spread => "spread",
        }
    }
}

impl Reason {
    /// The stable code, also the name of its page.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotPlannedYet => "NOT_PLANNED_YET",
            Self::HeldByUser => "HELD_BY_USER",
            Self::HeldByAdmin => "HELD_BY_ADMIN",
            Self::BeginTime { .. } => "BEGIN_TIME",
            Self::Dependency { .. } => "DEPENDENCY",
            Self::DependencyNeverSatisfied { .. } => "DEPENDENCY_NEVER_SATISFIED",
            Self::ArrayTaskLimit { .. } => "ARRAY_TASK_LIMIT",
            Self::PartitionTimeLimit { .. } => "PARTITION_TIME_LIMIT",
            Self::PartitionNodeLimit { .. } => "PARTITION_NODE_LIMIT",
            Self::PartitionDown { .. } => "PARTITION_DOWN",
            Self::PartitionInactive { .. } => "PARTITION_INACTIVE",
            Self::NoNodeFits { .. } => "NO_NODE_FITS",
            Self::NodesUnavailable { .. } => "NODES_UNAVAILABLE",
            Self::Resources { .. } => "RESOURCES",
            Self::Priority { .. } => "PRIORITY",
            Self::Licences { .. } => "LICENCES",
            Self::FilesystemBusy { .. } => "FILESYSTEM_BUSY",
            Self::LicencesNeverEnough { .. } => "LICENCES_NEVER_ENOUGH",
            Self::ReservationAbsent { .. } => "RESERVATION_ABSENT",
            Self::ReservationDeleted { .. } => "RESERVATION_DELETED",
            Self::ReservationDenied { .. } => "RESERVATION_DENIED",
            Self::ReservationWaits { .. } => "RESERVATION_WAITS",
            Self::ReservationTooShort { .. } => "RESERVATION_TOO_SHORT",
            Self::Reserved { .. } => "RESERVED",
            Self::GpuMemory { .. } => "GPU_MEMORY",
            Self::Switches { .. } => "SWITCHES",
            Self::Topology { .. } => "TOPOLOGY",
            Self::Rules { kind, .. } => kind.code(),
            Self::Deadline { .. } => "DEADLINE",
            Self::HetPeer { .. } => "HET_PEER",
            Self::Requeued { .. } => "REQUEUED",
            Self::RestartedTooOften { .. } => "RESTARTED_TOO_OFTEN",
            Self::PlanRefused { .. } => "PLAN_REFUSED",
            Self::MakingRoom { .. } => "MAKING_ROOM",
            Self::GpusIdle { .. } => "GPUS_IDLE",
            Self::GangIncomplete { .. } => "GANG_INCOMPLETE",
            Self::BudgetEnded => "BUDGET_ENDED",
            Self::AssociationLimit(_) => "ASSOCIATION_LIMIT",
            Self::QosLimit(_) => "QOS_LIMIT",
        }
    }

    /// Slurm's word for it, as `squeue -o %r` prints it (Slurm's job reason codes page).
    pub const fn slurm_word(&self) -> &'static str {
        match self {
            Self::NotPlannedYet => "None",
            Self::HeldByUser | Self::GpusIdle { .. } => "JobHeldUser",
            Self::HeldByAdmin | Self::PlanRefused { .. } => "JobHeldAdmin",
            Self::BeginTime { .. } | Self::Requeued { .. } => "BeginTime",
            Self::Dependency { .. } => "Dependency",
            Self::DependencyNeverSatisfied { .. } => "DependencyNeverSatisfied",
            Self::ArrayTaskLimit { .. } => "JobArrayTaskLimit",
            Self::PartitionTimeLimit { .. } => "PartitionTimeLimit",
            Self::PartitionNodeLimit { .. } => "PartitionNodeLimit",
            Self::PartitionDown { .. } => "PartitionDown",
            Self::PartitionInactive { .. } => "PartitionInactive",
            Self::NoNodeFits { .. } | Self::GpuMemory { .. } => "BadConstraints",
            Self::NodesUnavailable { .. } => "ReqNodeNotAvail",
            Self::Resources { .. } | Self::Switches { .. } | Self::MakingRoom { .. } => "Resources",
            Self::GangIncomplete { .. } => "Dependency",
            Self::Topology { .. } | Self::Rules { .. } => "Resources",
            Self::Priority { .. } | Self::HetPeer { .. } | Self::BudgetEnded => "Priority",
            Self::Licences { .. }
            | Self::FilesystemBusy { .. }
            | Self::LicencesNeverEnough { .. } => "Licenses",
            Self::ReservationDeleted { .. } => "ReservationDeleted",
            // Slurm's words for this one are two, with a comma.
            Self::Reserved { maintenance: true, .. } => "ReqNodeNotAvail, Reserved for maintenance",
            Self::ReservationAbsent { .. }
            | Self::ReservationDenied { .. }
            | Self::ReservationWaits { .. }
            | Self::ReservationTooShort { .. }
            | Self::Reserved { .. } => "Reservation",
            Self::Deadline { .. } => "DeadLine",
            Self::RestartedTooOften { .. } => "JobHoldMaxRequeue",
            Self::AssociationLimit(hit) => hit.association_word(),
            Self::QosLimit(hit) => hit.qos_word(),
        }
    }

    /// A sample of a rule of this kind.
    fn of_rules(kind: RuleKind) -> Self {
        Self::Rules {
            kind,
            rule: "gpu=h100:NoSchedule".to_owned(),
            wanted: 1,
            tally: vec![RuleTally { rule: kind.word().to_owned(), left: 0 }],
            held_by: Vec::new(),
        }
    }

    /// One of each kind, for tests that walk all of them.
    pub fn samples() -> Vec<Self> {
        let partition = || "main".to_owned();
        vec![
            Self::NotPlannedYet,
            Self::HeldByUser,
            Self::HeldByAdmin,
            Self::BeginTime { at: Timestamp::from_secs(60) },
            Self::Dependency { waiting_for: vec!["afterok:7".to_owned()] },
            Self::DependencyNeverSatisfied { term: "afterok:7".to_owned() },
            Self::ArrayTaskLimit { limit: 2 },
            Self::PartitionTimeLimit {
                partition: partition(),
                limit: TimeLimit::Of(Seconds(3600)),
            },
            Self::PartitionNodeLimit { partition: partition(), wanted: 9 },
            Self::PartitionDown { partition: partition() },
            Self::PartitionInactive { partition: partition() },
            Self::NoNodeFits {
                partition: partition(),
                wanted: 1,
                found: 0,
                lacking: "needs 16 GPUs on one node; the largest node has 8".to_owned(),
            },
            Self::NodesUnavailable { nodes: vec!["n1".to_owned()] },
            Self::Resources {
                resource: "gpus".to_owned(),
                wanted: 8,
                free: 2,
                nodes: 1,
                held_by: vec![JobId(7)],
                start: Some(Timestamp::from_secs(60)),
            },
            Self::Priority { behind: JobId(7), ahead: 1 },
            Self::Licences { name: "sim".to_owned(), wanted: 2, free: 1 },
            Self::FilesystemBusy {
                licence: "work_io".to_owned(),
                filesystem: "work".to_owned(),
                figure: "93 % busy, more than 90 %".to_owned(),
                since: Timestamp::from_secs(60),
            },
            Self::LicencesNeverEnough { name: "sim".to_owned(), wanted: 9, total: 4 },
            Self::ReservationAbsent { name: "demo".to_owned() },
            Self::ReservationDeleted { name: "demo".to_owned() },
            Self::ReservationDenied { name: "demo".to_owned() },
            Self::ReservationWaits { name: "demo".to_owned(), start: Timestamp::from_secs(60) },
            Self::ReservationTooShort { name: "demo".to_owned(), end: Timestamp::from_secs(60) },
            Self::Reserved {
                name: "demo".to_owned(),
                start: Timestamp::from_secs(60),
                end: Timestamp::from_secs(120),
                maintenance: true,
            },
            Self::GpuMemory { wanted: Mib(81_920), largest: Mib(40_960) },
            Self::Switches { count: 1, wait: Seconds(600) },
            Self::Topology {
                rule: "in one rack".to_owned(),
                wanted: 4,
                nearest: 3,
                place: "r2".to_owned(),
                free: 9,
            },
            Self::of_rules(RuleKind::Taints),
            Self::of_rules(RuleKind::NodeAffinity),
            Self::of_rules(RuleKind::JobAffinity),
            Self::of_rules(RuleKind::AntiAffinity),
            Self::of_rules(RuleKind::Spread),
            Self::Deadline { at: Timestamp::from_secs(60) },
            Self::HetPeer { peer: JobId(8) },
            Self::Requeued { until: Timestamp::from_secs(60) },
            Self::RestartedTooOften { message: "its node was lost 11 times".to_owned() },
            Self::PlanRefused { rule: "over-allocated".to_owned() },
            Self::MakingRoom { victims: vec![JobId(7)], until: Timestamp::from_secs(60) },
            Self::GpusIdle { gpus: 2, after: Seconds(2_700) },
            Self::GangIncomplete {
                gang: "ensemble".to_owned(),
                size: 4,
                submitted: 3,
                ready: 2,
                not_free: vec![JobId(7)],
            },
            Self::BudgetEnded,
            Self::AssociationLimit(LimitHit {
                limit: LimitName::GrpTres,
                tres: Some(TresKind::Gpu(None)),
                whose: "account lab".to_owned(),
                most: 8,
                used: 8,
                asked: 4,
            }),
            Self::QosLimit(LimitHit {
                limit: LimitName::MaxJobs,
                tres: None,
                whose: "user ada in QOS normal".to_owned(),
                most: 2,
                used: 2,
                asked: 1,
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_has_a_code_of_its_own_and_a_word_and_a_sentence() {
        let samples = Reason::samples();
        let codes: BTreeSet<_> = samples.iter().map(Reason::code).collect();
        assert_eq!(codes.len(), samples.len());
        for reason in samples {
            let maintenance = matches!(reason, Reason::Reserved { maintenance: true, .. });
            assert_eq!(reason.slurm_word().contains(' '), maintenance, "{reason:?}");
            let text = reason.to_string();
            assert!(!text.ends_with('.') && !text.is_empty(), "{text}");
        }
    }
}
