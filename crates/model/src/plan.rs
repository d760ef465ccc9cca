//! A plan: decisions as values, the promises they rest on, and the work they took.

use crate::{
    Claim, EventKind, JobId, Mib, NodeId, Placement, PreemptMode, Reason, State, TimeLimit,
    Timestamp, Turn, TurnChange, Victim, WaitRecord,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// What a planning round decided. A plan changes nothing by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The instant it was made for.
    pub now: Timestamp,
    /// The state's sequence number it was made from.
    pub seq: u64,
    /// What to do, in order.
    pub decisions: Vec<Decision>,
    /// The reserved starts that backfill worked around, the most important first.
    pub promises: Vec<Promise>,
    /// The work it took.
    pub work: Work,
    /// The work it was allowed, in steps ([`Work::total`]).
    #[serde(default)]
    pub steps_max: u64,
    /// From where it went on, where an earlier round had ended for want of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Resume>,
    /// False where this round did not look at every job: its budget ended, or it went on where
    /// an earlier round had ended.
    pub complete: bool,
    /// Where the next round has to go on, where the budget ended this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
}

/// Where a round ended for want of steps.
///
/// A round that goes on from there walks the queue as if it had never ended: what the rounds before
/// started on the same walk counts only from its place in the queue on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The last job that was looked at.
    pub after: JobId,
    /// The jobs that were started on this walk so far.
    pub started: Vec<JobId>,
    /// The longest waits on record when the walk began: its starts are on record meanwhile, and
    /// would change who comes first. Absent in what older releases saved: as the state has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitRecord>,
}

impl Resume {
    /// The state as a walk that goes on sees it: the queue keeps the order that it began with.
    pub fn seen<'a>(resumed: Option<&Self>, state: &'a State) -> Cow<'a, State> {
        match resumed.and_then(|resume| resume.waits) {
            Some(waits) if waits != state.waits => Cow::Owned(State { waits, ..state.clone() }),
            _ => Cow::Borrowed(state),
        }
    }
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Starts these jobs, all or none: one job, or all components of a heterogeneous job.
    Start(Vec<Start>),
    /// Ends a waiting job that can never run any more (a missed deadline, a dependency that can
    /// never be met where the policy cancels those).
    Reject {
        /// The job.
        job: JobId,
        /// Why.
        reason: Reason,
    },
    /// Makes running jobs give up their room, and holds that room for waiting ones.
    Preempt(Box<Preempt>),
    /// Lets an elastic job start again on more nodes, which are held for it: its own, and idle ones
    /// that nobody waiting can use.
    Grow(Box<Victim>),
    /// Gives jobs that have the same CPUs or GPUs their turns: all of these, or none.
    Turns(Vec<TurnChange>),
    /// Lets a job go on that stood still for another.
    Resume {
        /// The job.
        job: JobId,
    },
    /// Ends a running job for a taint with `NoExecute` that it does not tolerate, or not any
    /// longer.
    Evict {
        /// The job.
        job: JobId,
        /// Which attempt.
        attempt: u32,
        /// The node that has the taint.
        node: NodeId,
        /// The taint as it is written.
        taint: String,
    },
}

/// Room made for jobs that then start together: all victims, or the decision is void.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preempt {
    /// Where the waiting jobs will start once the victims are gone; the room is held for them.
    pub starts: Vec<Start>,
    /// Who makes room: whole gangs, and no one without whom it would do.
    pub victims: Vec<Victim>,
    /// When all of them have made it at the latest.
    pub until: Timestamp,
}

/// The start of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The job.
    pub job: JobId,
    /// Which attempt this is: one more than the job's.
    pub attempt: u32,
    /// Where.
    pub placement: Arc<Placement>,
    /// Its limit from now, perhaps cut down as far as its `time_min`.
    pub time_limit: TimeLimit,
    /// Where it has CPUs or GPUs that others have too: whether it runs first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
}

impl Start {
    /// The events that carry it out.
    pub fn events(&self) -> impl Iterator<Item = EventKind> {
        let (job, attempt) = (self.job, self.attempt);
        let placed = EventKind::JobPlaced {
            job,
            attempt,
            placement: Arc::clone(&self.placement),
            time_limit: self.time_limit,
        };
        let turn = self.turn.map(|turn| EventKind::JobTurn { job, attempt, turn: Some(turn) });
        std::iter::once(placed).chain(turn)
    }
}

/// A reserved start: backfill may not delay it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// The job.
    pub job: JobId,
    /// Its expected start, if every running job takes its whole limit.
    pub start: Timestamp,
    /// The nodes it would start on, in rank order.
    pub nodes: Vec<NodeId>,
    /// What it would take of each of them, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<PromisedShare>,
    /// The partition it would start in.
    #[serde(default)]
    pub partition: String,
}

/// What a promise takes of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromisedShare {
    /// Tasks.
    pub tasks: u32,
    /// CPUs.
    pub cpus: u32,
    /// Memory.
    pub memory: Mib,
    /// GPUs as a whole.
    pub gpus: u32,
}

impl Preempt {
    /// The events that carry it out, all or none of them: the room is claimed first, then made.
    pub fn events(&self, now: Timestamp) -> Vec<EventKind> {
        let claims = self.starts.iter().map(|start| EventKind::JobClaimed {
            job: start.job,
            claim: Arc::new(Claim {
                since: now,
                until: self.until,
                placement: Arc::clone(&start.placement),
                time_limit: start.time_limit,
                victims: self.victims.clone(),
            }),
        });
        let by = self.starts.first().map(|start| start.job);
        let last = self.starts.iter().map(|s| self.until.plus_limit(s.time_limit)).max();
        let victims = self.victims.iter().filter_map(move |victim| {
            let mut victim = victim.clone();
            // One that only stands still goes on when the other is over.
            if victim.mode == PreemptMode::Suspend {
                victim.until = last.unwrap_or(victim.until);
            }
            Some(EventKind::JobPreempted { victim, by: by? })
        });
        claims.chain(victims).collect()
    }
}

impl Decision {
    /// The jobs that it starts; empty for other decisions.
    pub fn starts(&self) -> &[Start] {
        match self {
            Self::Start(starts) => starts,
            _ => &[],
        }
    }
}

impl Work {
    /// All steps, the unit of budgets.
    pub const fn total(self) -> u64 {
        self.jobs.saturating_add(self.fits).saturating_add(self.slots)
    }
}

/// Counted work: the unit of budgets and of benches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Jobs looked at.
    pub jobs: u64,
    /// Requests tried against nodes.
    pub fits: u64,
    /// Points of a timeline walked.
    pub slots: u64,
}
