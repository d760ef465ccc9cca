//! A job's record: what was asked, what has become of it.

use crate::{
    Claim, Eviction, ExitReport, ExitStatus, Gate, IdleGpus, JobId, JobSpec, Placement,
    PreemptMode, Reason, Seconds, StepRecord, TimeLimit, Timestamp, Tres, Turn, Usage, is_default,
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
    /// It stands still by hand and has left its CPUs to others: all but those stay its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lends: bool,
    /// It shall go on as soon as nobody else runs on them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resumes: bool,
    /// Room held for it while it waits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claim: Option<Arc<Claim>>,
    /// It makes room for another, or stands still for one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub eviction: Option<Arc<Eviction>>,
    /// What it shall keep of its nodes, once the engine has ended what it runs on the others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resize: Option<Arc<Placement>>,
    /// Its part in turns with others that have the same CPUs or GPUs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub turn: Option<Turn>,
    /// Since when it stands still.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stands_since: Option<Timestamp>,
    /// When it last began to run again after it stood still.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resumed: Option<Timestamp>,
    /// How long this attempt has stood still before; that time does not count to its limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: Seconds,
    /// Milliseconds of that beyond whole seconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused_ms: u32,
    /// When this attempt's last complete checkpoint was written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub checkpointed: Option<Timestamp>,
    /// Its GPUs do nothing; where they were taken back for that, kept until it starts again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle: Option<IdleGpus>,
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
    /// Counted from its start, or from the decision while the start is not known. While it stands
    /// still its limit does not run: it has as much left when it goes on.
    pub fn ends_at_latest(&self) -> Option<Timestamp> {
        if !self.state.holds_resources() {
            return None;
        }
        let end = self.started.or(self.placed)?.plus_limit(self.time_limit);
        let end = end.plus_ms(self.paused_before_ms());
        let left = |since: Timestamp| match end {
            Timestamp::NEVER => u64::MAX,
            end => end.ms_since(since),
        };
        let stands = self.stands_since.filter(|_| self.state == JobState::Suspended);
        Some(match (&self.eviction, stands) {
            // It goes on where it stood once the other is gone.
            (Some(eviction), stands) if eviction.mode == PreemptMode::Suspend => {
                eviction.until.plus_ms(left(stands.unwrap_or(eviction.at)))
            }
            // It only gives up some of its nodes.
            (Some(eviction), None) if eviction.mode == PreemptMode::Shrink => end,
            (Some(eviction), _) => end.min(eviction.until),
            (None, _) if self.turn.is_some() && self.state != JobState::Completing => {
                self.turn.map_or(end, |turn| turn.until)
            }
            // Nobody knows when it is let go on.
            (None, Some(_)) => Timestamp::NEVER,
            (None, None) => end,
        })
    }

    /// How long its attempt has run by an instant, without the time that it stood still: Slurm's
    /// `RunTime`, which stands while the job does. Zero before its start.
    pub fn run_time(&self, now: Timestamp) -> Seconds {
        let Some(start) = self.started.or(self.placed).filter(|_| !self.is_pending()) else {
            return Seconds(0);
        };
        let end = if self.state.is_over() { self.ended.unwrap_or(now) } else { now };
        let ran = end.ms_since(start);
        Seconds(ran.saturating_sub(self.pause_ms(end)) / 1000)
    }

    /// How long this attempt has stood still by an instant.
    pub fn pause_ms(&self, now: Timestamp) -> u64 {
        let this = self.stands_since.map_or(0, |since| now.ms_since(since));
        self.paused_before_ms().saturating_add(this)
    }

    fn paused_before_ms(&self) -> u64 {
        self.paused.0.saturating_mul(1000).saturating_add(u64::from(self.paused_ms))
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
        self.end_pause(report.ended);
        let whole = self.paused_before_ms();
        let before = std::mem::replace(&mut self.steps, report.steps.clone());
        for step in &mut self.steps {
            // The script's step is first heard of at its end: it was there all the time.
            let known = before.iter().find(|known| known.id == step.id);
            let unknown = if step.id == crate::StepId::Batch { whole } else { 0 };
            step.paused_ms = known.map_or(unknown, |known| known.paused_ms);
        }
        self.signals.clear();
        self.suspend = false;
        self.eviction = None;
        (self.lends, self.resumes) = (false, false);
        self.resize = None;
        self.turn = None;
    }

    /// It does not stand still any more: what it stood is counted, for its unfinished steps too.
    pub(crate) fn end_pause(&mut self, at: Timestamp) {
        let Some(since) = self.stands_since.take() else { return };
        for step in self.steps.iter_mut().filter(|step| step.ended.is_none_or(|end| end > since)) {
            let end = step.ended.unwrap_or(at).min(at);
            step.paused_ms = step.paused_ms.saturating_add(end.ms_since(since.max(step.started)));
        }
        let ms = at.ms_since(since).saturating_add(u64::from(self.paused_ms));
        self.paused = Seconds(self.paused.0.saturating_add(ms / 1000));
        self.paused_ms = (ms % 1000) as u32;
    }
}
