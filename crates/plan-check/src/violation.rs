//! What can be wrong with a plan.

use muster_model::{JobId, NodeId};
use std::fmt;

/// A broken rule, with the jobs to hold back for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// The jobs whose decisions break it; never empty for a plan.
    pub jobs: Vec<JobId>,
    /// Where, where it is on one node.
    pub node: Option<NodeId>,
    /// What was expected and what was found, without a full stop.
    pub detail: String,
}

/// The rules a plan has to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A decision names a job that is not there or does not wait.
    NotWaiting,
    /// The attempt is not one more than the job's last.
    WrongAttempt,
    /// A job is decided on twice.
    DecidedTwice,
    /// A held job, a begin time to come, or an unmet dependency.
    NotEligible,
    /// More tasks of an array than its throttle allows.
    ArrayThrottle,
    /// A limit above the one asked for, below `time_min`, or beyond the deadline.
    TimeLimit,
    /// A heterogeneous job without all its components.
    HetNotWhole,
    /// A rejection without its cause.
    GroundlessReject,
    /// A partition the job did not name, that starts no jobs, or does not admit its account.
    Partition,
    /// Beyond the partition's limits on time or nodes.
    PartitionLimit,
    /// A reservation that is not there, that the job does not name or may not use.
    Reservation,
    /// Nodes, parts of nodes or licences that are reserved for others at some time of the limit.
    Reserved,
    /// A job in a reservation beyond its nodes or its time.
    OutsideReservation,
    /// A node that is not there, or is listed twice.
    UnknownNode,
    /// A node that is not of the partition.
    NotInPartition,
    /// Nodes that different engines run.
    SeveralEngines,
    /// A node that is down or drained.
    NodeUnusable,
    /// A number of nodes that the request does not allow.
    NodeCount,
    /// A required node is missing, or an excluded one is there.
    NodeList,
    /// The nodes lack the features asked for.
    Constraint,
    /// The nodes are not neighbours.
    Contiguous,
    /// Too little local disk.
    Scratch,
    /// More leaf switches than the job waits for.
    Switches,
    /// Jobs that are spread too unevenly.
    Spread,
    /// A job beside one that it, or the other, has to be away from.
    AntiAffinity,
    /// A node that is not near the jobs that the job requires.
    JobAffinity,
    /// A node whose labels are not such as the job requires.
    NodeAffinity,
    /// A node with a taint that the job does not tolerate.
    Taint,
    /// The nodes are farther apart than the job or the site allows, or do not part into segments.
    Topology,
    /// Tasks are not laid out as asked.
    Tasks,
    /// CPUs do not follow from the request.
    Cpus,
    /// Memory does not follow from the request.
    Memory,
    /// GPUs do not follow from the request.
    Gpus,
    /// A GPU, or a part of one, that is not what was asked.
    GpuMemory,
    /// More thousandths or memory of one GPU than it has.
    GpuShare,
    /// MIG instances where the card cannot have them.
    MigLayout,
    /// A GPU that fences its users less than was asked, or that serves one user at a time.
    GpuIsolation,
    /// Other resources do not follow from the request.
    Gres,
    /// Licences do not follow from the request.
    Licences,
    /// CPUs that are not there, foreign, or given twice.
    CpusOverallocated,
    /// More memory than there is.
    MemoryOverallocated,
    /// A GPU that is not there, not healthy, foreign, or given twice.
    GpuOverallocated,
    /// More of another resource than there is.
    GresOverallocated,
    /// More licences than there are.
    LicencesOverallocated,
    /// A job beside one that wants its nodes for itself or its user.
    Exclusive,
    /// A start that delays a promised one, or a promise that does not hold.
    PromiseDelayed,
    /// A start beyond a limit of its association or QOS.
    Limit,
    /// A job started before one that comes first, and nothing protects that one.
    Overtaken,
    /// A victim that does not run, or makes room already.
    VictimLeaving,
    /// A victim whom the waiting job is not above, or who makes room otherwise.
    VictimProtected,
    /// A victim that is left alone until it has run longer.
    VictimExempt,
    /// A victim without the rest of its gang.
    VictimGang,
    /// A victim without whom it would do.
    VictimNeedless,
    /// A job that shrinks although it is not elastic, below its least, or to nodes that are not its.
    ShrinkWrong,
    /// A job that grows although it may not, or where it is not worth it.
    GrowthWrong,
    /// A start on room that is held for another, or room that is not enough.
    ClaimTaken,
    /// A job that goes on while others run on its CPUs.
    ResumeInUse,
    /// A job that is ended for a taint that does not ask for it.
    GroundlessEviction,
    /// A job that stays though a taint of its node ends it.
    TaintIgnored,
    /// A turn for one that has nothing, or shares with nobody; or none for one that shares.
    TurnGroundless,
    /// Two jobs that run at once on one CPU or GPU.
    TurnClash,
    /// A job made to stand still before its slice is over, or for nobody.
    TurnEarly,
    /// A job that goes on before one that has waited longer for its turn.
    TurnOrder,
    /// An end of a turn before all who share can be over.
    TurnEnd,
    /// A job that stands still although nobody runs on what it has.
    TurnIdle,
    /// More jobs on one CPU or GPU than the partition lets take turns.
    SharedTooOften,
    /// A job that may start now was left waiting.
    LeftWaiting,
}

impl Rule {
    /// A stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::NotWaiting => "NOT_WAITING",
            Self::WrongAttempt => "WRONG_ATTEMPT",
            Self::DecidedTwice => "DECIDED_TWICE",
            Self::NotEligible => "NOT_ELIGIBLE",
            Self::ArrayThrottle => "ARRAY_THROTTLE",
            Self::TimeLimit => "TIME_LIMIT",
            Self::HetNotWhole => "HET_NOT_WHOLE",
            Self::GroundlessReject => "GROUNDLESS_REJECT",
            Self::Partition => "PARTITION",
            Self::PartitionLimit => "PARTITION_LIMIT",
            Self::Reservation => "RESERVATION",
            Self::Reserved => "RESERVED",
            Self::OutsideReservation => "OUTSIDE_RESERVATION",
            Self::UnknownNode => "UNKNOWN_NODE",
            Self::NotInPartition => "NOT_IN_PARTITION",
            Self::SeveralEngines => "SEVERAL_ENGINES",
            Self::NodeUnusable => "NODE_UNUSABLE",
            Self::NodeCount => "NODE_COUNT",
            Self::NodeList => "NODE_LIST",
            Self::Constraint => "CONSTRAINT",
            Self::Contiguous => "CONTIGUOUS",
            Self::Scratch => "SCRATCH",
            Self::Switches => "SWITCHES",
            Self::Spread => "SPREAD",
            Self::AntiAffinity => "ANTI_AFFINITY",
            Self::JobAffinity => "JOB_AFFINITY",
            Self::NodeAffinity => "NODE_AFFINITY",
            Self::Taint => "TAINT",
            Self::Topology => "TOPOLOGY",
            Self::Tasks => "TASKS",
            Self::Cpus => "CPUS",
            Self::Memory => "MEMORY",
            Self::Gpus => "GPUS",
            Self::GpuMemory => "GPU_MEMORY",
            Self::GpuShare => "GPU_SHARE",
            Self::MigLayout => "MIG_LAYOUT",
            Self::GpuIsolation => "GPU_ISOLATION",
            Self::Gres => "GRES",
            Self::Licences => "LICENCES",
            Self::CpusOverallocated => "CPUS_OVERALLOCATED",
            Self::MemoryOverallocated => "MEMORY_OVERALLOCATED",
            Self::GpuOverallocated => "GPU_OVERALLOCATED",
            Self::GresOverallocated => "GRES_OVERALLOCATED",
            Self::LicencesOverallocated => "LICENCES_OVERALLOCATED",
            Self::Exclusive => "EXCLUSIVE",
            Self::PromiseDelayed => "PROMISE_DELAYED",
            Self::Limit => "LIMIT",
            Self::Overtaken => "OVERTAKEN",
            Self::VictimLeaving => "VICTIM_LEAVING",
            Self::VictimProtected => "VICTIM_PROTECTED",
            Self::VictimExempt => "VICTIM_EXEMPT",
            Self::VictimGang => "VICTIM_GANG",
            Self::VictimNeedless => "VICTIM_NEEDLESS",
            Self::ShrinkWrong => "SHRINK_WRONG",
            Self::GrowthWrong => "GROWTH_WRONG",
            Self::ClaimTaken => "CLAIM_TAKEN",
            Self::ResumeInUse => "RESUME_IN_USE",
            Self::GroundlessEviction => "GROUNDLESS_EVICTION",
            Self::TaintIgnored => "TAINT_IGNORED",
            Self::TurnGroundless => "TURN_GROUNDLESS",
            Self::TurnClash => "TURN_CLASH",
            Self::TurnEarly => "TURN_EARLY",
            Self::TurnOrder => "TURN_ORDER",
            Self::TurnEnd => "TURN_END",
            Self::TurnIdle => "TURN_IDLE",
            Self::SharedTooOften => "SHARED_TOO_OFTEN",
            Self::LeftWaiting => "LEFT_WAITING",
        }
    }

    /// Every rule, for tests that walk all of them.
    pub const ALL: [Self; 67] = [
        Self::NotWaiting,
        Self::WrongAttempt,
        Self::DecidedTwice,
        Self::NotEligible,
        Self::ArrayThrottle,
        Self::TimeLimit,
        Self::HetNotWhole,
        Self::GroundlessReject,
        Self::Partition,
        Self::PartitionLimit,
        Self::Reservation,
        Self::Reserved,
        Self::OutsideReservation,
        Self::UnknownNode,
        Self::NotInPartition,
        Self::SeveralEngines,
        Self::NodeUnusable,
        Self::NodeCount,
        Self::NodeList,
        Self::Constraint,
        Self::Contiguous,
        Self::Scratch,
        Self::Switches,
        Self::Topology,
        Self::Taint,
        Self::NodeAffinity,
        Self::JobAffinity,
        Self::AntiAffinity,
        Self::Spread,
        Self::Tasks,
        Self::Cpus,
        Self::Memory,
        Self::Gpus,
        Self::GpuMemory,
        Self::GpuShare,
        Self::MigLayout,
        Self::GpuIsolation,
        Self::Gres,
        Self::Licences,
        Self::CpusOverallocated,
        Self::MemoryOverallocated,
        Self::GpuOverallocated,
        Self::GresOverallocated,
        Self::LicencesOverallocated,
        Self::Exclusive,
        Self::PromiseDelayed,
        Self::Limit,
        Self::Overtaken,
        Self::VictimLeaving,
        Self::VictimProtected,
        Self::VictimExempt,
        Self::VictimGang,
        Self::VictimNeedless,
        Self::ShrinkWrong,
        Self::GrowthWrong,
        Self::ClaimTaken,
        Self::ResumeInUse,
        Self::GroundlessEviction,
        Self::TaintIgnored,
        Self::TurnGroundless,
        Self::TurnClash,
        Self::TurnEarly,
        Self::TurnOrder,
        Self::TurnEnd,
        Self::TurnIdle,
        Self::SharedTooOften,
        Self::LeftWaiting,
    ];
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs = self.jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "{}: job {jobs}: {}", self.rule.code(), self.detail)
    }
}

impl Violation {
    pub(crate) fn of(rule: Rule, job: JobId, detail: impl Into<String>) -> Self {
        Self { rule, jobs: vec![job], node: None, detail: detail.into() }
    }
}
