//! A job's record: what was asked, what has become of it.

use crate::{
    Claim, Eviction, ExitReport, ExitStatus, Gate, JobId, JobSpec, Placement, PreemptMode, Reason,
    Seconds, StepRecord, TimeLimit, Timestamp, Tres, Usage, is_default,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One job, array task or het component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What was asked; shared with its array siblings until one is changed.
    pub spec: Arc<JobSpec>,
    /// Its place in an array.
    #[serde(default, skip_serializing_if = "is_default")]
    pub array: Option<ArrayTask>,
    /// Its place in a heterogeneous job.
    #[serde(default, skip_serializing_if = "is_default")]
    pub het: Option<HetPart>,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// When it last became free to start: dependencies met, begin time reached, not held.
    /// `None` while it is not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub eligible: Option<Timestamp>,
    /// Where it stands.
    pub state: JobState,
    /// Who holds it back.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hold: Option<Hold>,
    /// The limit in force: asked, or the partition's default, or cut down at its start.
    pub time_limit: TimeLimit,
    /// What it was expected to run when it was submitted; `None` is its limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub estimate: Option<Seconds>,
    /// Its dependency, resolved.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gates: Vec<Gate>,
    /// Counts its starts: 0 before the first. Orders and reports name the attempt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempt: u32,
    /// Where it runs or ran last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placement: Option<Arc<Placement>>,
    /// What it has, or had last, by kind; billed as the partition says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub charge: Arc<Tres>,
    /// When the present (or last) attempt was decided.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placed: Option<Timestamp>,
    /// The number of the event that decided it: which of two jobs of one instant started first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placed_seq: u64,
    /// When its processes began.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started: Option<Timestamp>,
    /// A standing wish to end it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stop: Option<Stop>,
    /// Signals asked for and not yet known to be delivered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub signals: Vec<PendingSignal>,
    /// Counts the signals ever asked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub signals_asked: u32,
    /// Should stand still (`scontrol suspend`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspend: bool,
    /// Room held for it while it waits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claim: Option<Arc<Claim>>,
    /// It makes room for another, or stands still for one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub eviction: Option<Arc<Eviction>>,
    /// When it last began to run again after it stood still.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resumed: Option<Timestamp>,
    /// How long this attempt stood still for others; that time does not count to its limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: Seconds,
    /// When this attempt's last complete checkpoint was written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub checkpointed: Option<Timestamp>,
    /// How often it was preempted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preemptions: u32,
    /// By whom and how it was preempted last; kept when it waits, runs again or is over.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preempted: Option<Arc<Eviction>>,
    /// When its last attempt ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ended: Option<Timestamp>,
    /// How its last attempt ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exit: Option<ExitStatus>,
    /// A sentence about its end, for the user.
    #[serde(default, skip_serializing_if = "is_default")]
    pub message: String,
    /// What its last attempt used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub usage: Usage,
    /// The steps of its last attempt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub steps: Vec<StepRecord>,
}

/// A task of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ArrayTask {
    /// The array's number: the id of its first task.
    pub array: JobId,
    /// The task's index.
    pub index: u32,
}

/// A component of a heterogeneous job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HetPart {
    /// The id of component 0.
    pub leader: JobId,
    /// 0 for the leader.
    pub offset: u32,
    /// How many components.
    pub size: u32,
}

/// Where a job stands (Slurm's state names, squeue manual).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waits.
    Pending,
    /// Placed; its processes are not known to run yet. Slurm's CONFIGURING.
    Starting,
    /// Its processes run.
    Running,
    /// Its processes stand still.
    Suspended,
    /// Its processes are being ended.
    Completing,
    /// Ended with code 0.
    Completed,
    /// Ended with another code.
    Failed,
    /// Stopped at its limit.
    Timeout,
    /// Cancelled by a person.
    Cancelled,
    /// Killed for memory.
    OutOfMemory,
    /// Its node failed.
    NodeFail,
    /// Ended for a more important job.
    Preempted,
    /// Could not end by its deadline.
    Deadline,
}

/// Who holds a job back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Its owner.
    User,
    /// An admin; the owner cannot lift it.
    Admin,
    /// The scheduler, for this reason.
    System(Reason),
}

/// A standing wish to end a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Why.
    pub cause: StopCause,
    /// Since when.
    pub at: Timestamp,
    /// Without any grace (`scancel --hurry`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub hurry: bool,
}

/// Why a job shall end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// Cancelled by this user id.
    Cancelled(u32),
    /// To be put back in the queue; held there where `hold` is set.
    Requeue {
        /// Held afterwards (`scontrol requeuehold`).
        hold: bool,
    },
    /// To make room for this job.
    Preempted(JobId),
    /// Its deadline has come.
    Deadline,
    /// Another component of its heterogeneous job is gone.
    HetPeer,
    /// The reservation that it ran in is over.
    ReservationOver,
    /// A node of it has this taint, which it does not tolerate (any more).
    Taint(String),
}

/// A signal to deliver once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingSignal {
    /// Its number among the job's signals, from 1; engines deliver each number at most once.
    pub number: u32,
    /// The signal's number on Linux.
    pub signal: u8,
    /// Who gets it.
    pub scope: SignalScope,
}

/// Which processes a signal goes to (scancel manual: `--batch`, `--full`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalScope {
    /// The steps, not the batch shell.
    #[default]
    Steps,
    /// The batch shell only.
    Batch,
    /// The batch shell, its children and all steps.
    All,
    /// One step.
    Step(u32),
}

impl JobState {
    /// True where nothing of the job is left to run.
    pub const fn is_over(self) -> bool {
        !matches!(
            self,
            Self::Pending | Self::Starting | Self::Running | Self::Suspended | Self::Completing
        )
    }

    /// True where the job has resources.
    pub const fn holds_resources(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Suspended | Self::Completing)
    }
}

impl Job {
    /// True while it waits.
    pub fn is_pending(&self) -> bool {
        self.state == JobState::Pending
    }

    /// When its time limit ends it at the latest; `None` while it has no resources.
    ///
    /// Counted from its start, or from the decision while the start is not known.
    pub fn ends_at_latest(&self) -> Option<Timestamp> {
        if !self.state.holds_resources() {
            return None;
        }
        let end = self.started.or(self.placed)?.plus_limit(self.time_limit).plus(self.paused);
        let Some(eviction) = &self.eviction else { return Some(end) };
        Some(match eviction.mode {
            // It goes on where it stood once the other is gone.
            PreemptMode::Suspend => eviction.until.plus(end.since(eviction.at)),
            _ => end.min(eviction.until),
        })
    }

    /// True where it stands still for others: its CPUs may be theirs until it goes on.
    pub fn yields_cpus(&self) -> bool {
        let still = match self.state {
            JobState::Suspended => self.suspend,
            JobState::Completing => true,
            _ => false,
        };
        still && self.makes_way_by(PreemptMode::Suspend)
    }

    /// True where it makes room in this way.
    pub fn makes_way_by(&self, mode: PreemptMode) -> bool {
        self.eviction.as_ref().is_some_and(|e| e.mode == mode)
    }

    /// The number users see: `12`, `12_3`, `12+1`.
    pub fn display_id(&self) -> String {
        match (self.array, self.het) {
            (Some(task), _) => format!("{}_{}", task.array, task.index),
            (None, Some(part)) => format!("{}+{}", part.leader, part.offset),
            (None, None) => self.id.to_string(),
        }
    }

    /// Takes over what the engine said of a finished attempt.
    pub(crate) fn record_exit(&mut self, report: &ExitReport) {
        self.started = report.started.or(self.started);
        self.ended = Some(report.ended);
        self.exit = Some(report.status);
        self.message.clone_from(&report.message);
        self.usage = report.usage;
        self.steps.clone_from(&report.steps);
        self.signals.clear();
        self.suspend = false;
        self.eviction = None;
        self.resumed = None;
        self.paused = Seconds(0);
    }
}
