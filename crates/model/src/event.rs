//! Events: the only things that change the state.

use crate::{
    Account, Availability, Claim, DisruptionBudget, Drain, ExitReport, ForeignUse, Hold, IdleGpus,
    JobId, JobSpec, Labels, Licence, LicenceHold, Node, NodeId, Partition, Placement, Policy, Qos,
    Reason, Reservation, ReservedNode, SignalScope, StepRecord, StopCause, TimeLimit, Timestamp,
    Topology, Turn, Victim, Window, is_default,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Something that happened, with its instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When the writer took it.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
///
/// Inputs are commands that were accepted and observations of engines; decisions come out of a
/// checked plan. Every name is stable: it is written to the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    // ---- inputs: the site
    /// A node is there, or is described anew. Drain and jobs on it stay as they are.
    NodeSet {
        /// The description; `id` is an index that no other name has had.
        node: Box<Node>,
    },
    /// A node without jobs is gone for good.
    NodeRemoved {
        /// Which.
        node: NodeId,
    },
    /// A node can be reached, or cannot.
    NodeAvailability {
        /// Which.
        node: NodeId,
        /// What is known.
        availability: Availability,
    },
    /// A node gets no new work, or again does (`None`).
    NodeDrain {
        /// Which.
        node: NodeId,
        /// The order.
        #[serde(default, skip_serializing_if = "is_default")]
        drain: Option<Drain>,
    },
    /// What on a node is not muster's.
    NodeForeign {
        /// Which.
        node: NodeId,
        /// All of it.
        foreign: Vec<ForeignUse>,
    },
    /// A partition is there, or is described anew.
    PartitionSet {
        /// The description.
        partition: Box<Partition>,
    },
    /// A partition is gone.
    PartitionRemoved {
        /// Its name.
        name: String,
    },
    /// An account is there, or is described anew.
    AccountSet {
        /// The description.
        account: Account,
    },
    /// A quality of service is there, or is described anew.
    QosSet {
        /// The description.
        qos: Qos,
    },
    /// A licence is there, or has another count.
    LicenceSet {
        /// The description.
        licence: Licence,
    },
    /// A disruption budget is there, or is described anew.
    BudgetSet {
        /// The description.
        budget: DisruptionBudget,
    },
    /// A disruption budget is gone.
    BudgetRemoved {
        /// Its name.
        name: String,
    },
    /// A licence is not given out, or again is (`None`). What jobs hold of it stays theirs.
    LicenceHeld {
        /// Its name.
        name: String,
        /// Why.
        #[serde(default, skip_serializing_if = "is_default")]
        hold: Option<LicenceHold>,
    },
    /// How the nodes are joined from here on.
    TopologySet {
        /// All of it.
        topology: Box<Topology>,
    },
    /// An account that no unfinished job names is gone.
    AccountRemoved {
        /// Its name.
        name: String,
    },
    /// A quality of service that no unfinished job names is gone.
    QosRemoved {
        /// Its name.
        name: String,
    },
    /// A licence that no unfinished job names is gone.
    LicenceRemoved {
        /// Its name.
        name: String,
    },
    /// A reservation is there, or is described anew.
    ReservationSet {
        /// The description.
        reservation: Box<Reservation>,
    },
    /// A reservation is gone; its waiting jobs are held or let go, as it says.
    ReservationRemoved {
        /// Its name.
        name: String,
    },
    /// A repeated reservation goes on to its next occurrence.
    ReservationAdvanced {
        /// Its name.
        name: String,
        /// The occurrence that counts from here on.
        window: Window,
        /// Those after it that are worked out.
        #[serde(default, skip_serializing_if = "is_default")]
        later: Vec<Window>,
    },
    /// A reservation has other nodes.
    ReservationNodes {
        /// Its name.
        name: String,
        /// All that it has from here on.
        nodes: Vec<ReservedNode>,
    },
    /// A reservation that has begun has no job any more, or again has one (`None`).
    ReservationIdle {
        /// Its name.
        name: String,
        /// Since when.
        #[serde(default, skip_serializing_if = "is_default")]
        since: Option<Timestamp>,
    },
    /// The policy from here on.
    PolicySet {
        /// All of it.
        policy: Box<Policy>,
    },

    // ---- inputs: jobs
    /// A job was accepted: one spec, or one for each component of a heterogeneous job.
    ///
    /// It takes consecutive ids from `first`: one for each array task (in index order) or component.
    JobSubmitted {
        /// The first id.
        first: JobId,
        /// The specs; more than one only for a heterogeneous job, which is never an array.
        specs: Vec<Arc<JobSpec>>,
    },
    /// A job's request was changed.
    JobUpdated {
        /// Which.
        job: JobId,
        /// What of it.
        update: Box<JobUpdate>,
    },
    /// A waiting job is held.
    JobHeld {
        /// Which.
        job: JobId,
        /// By whom.
        hold: Hold,
    },
    /// A held job is let go.
    JobReleased {
        /// Which.
        job: JobId,
    },
    /// A job shall end. A waiting one ends at once.
    JobStop {
        /// Which.
        job: JobId,
        /// Why.
        cause: StopCause,
        /// Without any grace (`scancel --hurry`).
        #[serde(default, skip_serializing_if = "is_default")]
        hurry: bool,
    },
    /// A signal for a running job.
    JobSignal {
        /// Which.
        job: JobId,
        /// The signal's number on Linux.
        signal: u8,
        /// Who gets it.
        scope: SignalScope,
    },
    /// A running job shall give up nodes and go on with the others.
    JobResize {
        /// Which.
        job: JobId,
        /// Which attempt.
        attempt: u32,
        /// What it keeps: its own shares of fewer nodes.
        placement: Arc<Placement>,
    },
    /// A running job shall stand still, or go on.
    JobSuspend {
        /// Which.
        job: JobId,
        /// True to stand still.
        suspend: bool,
    },

    // ---- observations
    /// An attempt's processes run.
    JobStarted {
        /// Which.
        job: JobId,
        /// Which attempt.
        attempt: u32,
    },
    /// A running attempt stands still, or goes on.
    JobSuspended {
        /// Which.
        job: JobId,
        /// Which attempt.
        attempt: u32,
        /// True where it stands still.
        suspended: bool,
    },
    /// Nothing of an attempt runs any more on the nodes that it gave up.
    JobResized {
        /// Which.
        job: JobId,
        /// Which attempt.
        attempt: u32,
    },
    /// A signal was delivered (or cannot be any more).
    JobSignalled {
        /// Which.
        job: JobId,
        /// The signal's number among the job's.
        number: u32,
    },
    /// A step began or ended inside a running job.
    StepObserved {
        /// Which.
        job: JobId,
        /// Which attempt.
        attempt: u32,
        /// The step as it stands.
        step: StepRecord,
    },
    /// An attempt is over: nothing of it runs any more.
    JobExited {
        /// Which.
        job: JobId,
        /// Which attempt.
        attempt: u32,
        /// How.
        report: ExitReport,
    },

    // ---- decisions
    /// A job starts: these resources are its own from here on.
    JobPlaced {
        /// Which.
        job: JobId,
        /// Which attempt.
        attempt: u32,
        /// Where.
        placement: Arc<Placement>,
        /// Its limit in force.
        time_limit: TimeLimit,
    },
    /// A waiting job can never run: it ends without having run.
    JobRejected {
        /// Which.
        job: JobId,
        /// Why.
        reason: Reason,
    },
    /// Room is made for a waiting job; it is held until the job starts.
    JobClaimed {
        /// Which.
        job: JobId,
        /// The room.
        claim: Arc<Claim>,
    },
    /// A running job makes room for another.
    JobPreempted {
        /// The job that makes it, and how.
        #[serde(flatten)]
        victim: Victim,
        /// For whom.
        by: JobId,
    },
    /// A job that shares CPUs or GPUs runs, or stands still until its turn comes.
    JobTurn {
        /// Which.
        job: JobId,
        /// Which attempt.
        attempt: u32,
        /// What from here on; `None` where nobody shares with it any more.
        #[serde(default, skip_serializing_if = "is_default")]
        turn: Option<Turn>,
    },
    /// A checkpoint of a running job is complete: what it did before is not lost any more.
    JobCheckpointed {
        /// Which.
        job: JobId,
        /// Which attempt.
        attempt: u32,
    },
    /// All GPUs of a running job do nothing, or again do something (`None`).
    JobIdle {
        /// Which.
        job: JobId,
        /// Which attempt.
        attempt: u32,
        /// What was measured.
        #[serde(default, skip_serializing_if = "is_default")]
        idle: Option<IdleGpus>,
    },
    /// Ended jobs leave the live list. Their history stays in its own tables.
    JobsForgotten {
        /// Which.
        jobs: Vec<JobId>,
    },
    /// A planning round began; its `now` is the event's instant.
    Round,
}

/// A change to a job's request (`scontrol update`). `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobUpdate {
    /// A new limit; a running job's may be changed too.
    #[serde(skip_serializing_if = "is_default")]
    pub time_limit: Option<TimeLimit>,
    /// A whole new spec for a waiting job: what the writer made of the change.
    #[serde(skip_serializing_if = "is_default")]
    pub spec: Option<Arc<JobSpec>>,
    /// Other labels; a running job's may be changed too.
    #[serde(skip_serializing_if = "is_default")]
    pub labels: Option<Labels>,
    /// A new throttle for its array; `Some(None)` is no bound.
    #[serde(skip_serializing_if = "is_default")]
    pub array_throttle: Option<Option<u32>>,
    /// A new comment.
    #[serde(skip_serializing_if = "is_default")]
    pub comment: Option<String>,
}

impl EventKind {
    /// The job that the event is about, where it is one: not a submission, which makes jobs, and
    /// not what takes several out of the list.
    pub const fn job(&self) -> Option<JobId> {
        match self {
            Self::JobUpdated { job, .. }
            | Self::JobHeld { job, .. }
            | Self::JobReleased { job }
            | Self::JobStop { job, .. }
            | Self::JobResize { job, .. }
            | Self::JobResized { job, .. }
            | Self::JobSignal { job, .. }
            | Self::JobSuspend { job, .. }
            | Self::JobStarted { job, .. }
            | Self::JobSuspended { job, .. }
            | Self::JobSignalled { job, .. }
            | Self::StepObserved { job, .. }
            | Self::JobExited { job, .. }
            | Self::JobPlaced { job, .. }
            | Self::JobRejected { job, .. }
            | Self::JobClaimed { job, .. }
            | Self::JobTurn { job, .. }
            | Self::JobCheckpointed { job, .. }
            | Self::JobIdle { job, .. } => Some(*job),
            Self::JobPreempted { victim, .. } => Some(victim.job),
            _ => None,
        }
    }
}
