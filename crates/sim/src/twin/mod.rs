//! The twin: a recorded past under another policy, on the core that the daemon runs.
//!
//! There is no second scheduler here. Jobs of a trace become the events that they would be in the
//! daemon's log, [`State::apply`] takes them up, and [`Planner::plan`] decides; this module only
//! keeps the time and lets jobs end after what they ran. It looks at the clock where something
//! happens and nowhere else, and holds what waits and runs, not what is over.
//!
//! # The order within one instant
//! A trace counts whole seconds, so much happens at once. As in predictsim, whose results are
//! published (Gaussier, Glesser, Reis and Trystram, SC 2015): all submissions in the order of the
//! trace, each with a round of its own; then all ends in the order in which the jobs were started,
//! each with a round of its own. A job that ends at the very instant at which the planner expects it
//! to is known to be over from the beginning of that instant: its processors are free for the
//! submissions too.

mod metrics;
mod named;

pub use metrics::{BOUND_S, Summary, Totals};
pub use named::{Estimates, NAMES, PolicyName, UnknownPolicy, learned};

use crate::trace::{SwfJob, TraceError};
use muster_model::{
    ApplyError, EndCause, EngineName, Event, EventKind, ExitReport, ExitStatus, JobId, JobSpec,
    NOBODY, Node, NodeId, Owner, Partition, Policy, Request, Seconds, State, TimeLimit, Timestamp,
    Usage,
};
use muster_planner::{Budget, Planner};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

/// The partition of a pool of processors, and its node.
const POOL: &str = "pool";

/// So many ended jobs are forgotten together.
const FORGET_AT: usize = 64;

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum TwinError {
    /// The trace cannot be read on.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A fault of muster: an event of the replay does not fit the state.
    #[error("{0}")]
    Fault(#[from] ApplyError),
    /// What the caller does with finished jobs failed.
    #[error("{0}")]
    Out(#[from] std::io::Error),
}

/// A machine, a policy, and what the planner is told of run times.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How many processors.
    pub processors: u32,
    /// The policy.
    pub policy: Policy,
    /// What jobs ask for.
    pub estimates: Estimates,
}

/// A job that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finished {
    /// The job as the trace has it.
    pub job: SwfJob,
    /// When it started in the replay, seconds from the start of the log.
    pub start: i64,
}

impl Finished {
    /// How long it waited.
    pub const fn wait(&self) -> i64 {
        self.start - self.job.submit
    }

    /// How long it was there: wait and run.
    pub const fn flow(&self) -> i64 {
        self.wait() + self.job.run
    }

    /// How many times longer it was there than it ran, at least 1; a job of less than ten seconds
    /// counts as one of ten.
    pub fn bounded_slowdown(&self) -> f64 {
        (self.flow() as f64 / self.job.run.max(BOUND_S) as f64).max(1.0)
    }
}

/// A job that waits or runs.
#[derive(Clone, Copy, Debug)]
struct Live {
    job: SwfJob,
    start: Option<i64>,
    /// Its end is applied already; its round is still to come.
    gone: bool,
    over: bool,
}

/// A replay under way.
struct Twin {
    state: State,
    planner: Planner,
    estimates: Estimates,
    partitions: Vec<String>,
    /// Jobs by id from `first` on; those that are over at the front are dropped.
    live: VecDeque<Live>,
    first: u32,
    /// Ends to come: when, in which order they were started, which.
    ends: BinaryHeap<Reverse<(i64, u64, u32)>>,
    started: u64,
    forget: Vec<JobId>,
}

/// Replays jobs, which come in order of submission, and tells of each when it is over.
///
/// # Errors
/// The trace cannot be read on, or `finished` fails.
pub fn replay(
    setting: &Setting,
    jobs: impl IntoIterator<Item = Result<SwfJob, TraceError>>,
    mut finished: impl FnMut(&Finished) -> std::io::Result<()>,
) -> Result<(), TwinError> {
    let mut twin = Twin::new(setting)?;
    let mut jobs = jobs.into_iter();
    let mut next = jobs.next().transpose()?;
    loop {
        let end = twin.ends.peek().map(|Reverse(end)| end.0);
        let submit = next.as_ref().map(|job| job.submit);
        let Some(at) = end.into_iter().chain(submit).min() else { return Ok(()) };
        let due = twin.due(at);
        twin.release_expected(at, &due)?;
        while let Some(job) = next.take_if(|job| job.submit == at) {
            twin.submit(job)?;
            next = jobs.next().transpose()?;
            twin.round(at)?;
        }
        for id in due {
            let done = twin.end(at, id)?;
            finished(&done)?;
            twin.round(at)?;
        }
        twin.forget(at)?;
    }
}

impl Twin {
    fn new(setting: &Setting) -> Result<Self, TwinError> {
        let node = Node {
            id: NodeId(0),
            name: POOL.to_owned(),
            engine: EngineName("trace".to_owned()),
            cpu_pool: setting.processors,
            threads_per_core: 1,
            ..Node::default()
        };
        let partition = Partition {
            name: POOL.to_owned(),
            nodes: BTreeSet::from([POOL.to_owned()]),
            default: true,
            ..Partition::default()
        };
        let set_up = [
            EventKind::PolicySet { policy: Box::new(setting.policy.clone()) },
            EventKind::NodeSet { node: Box::new(node) },
            EventKind::PartitionSet { partition: Box::new(partition) },
        ];
        let mut state = State::default();
        for kind in set_up {
            state.apply(&Event { at: Timestamp::from_millis(i64::MIN), kind })?;
        }
        Ok(Self {
            planner: Planner::new(&state),
            state,
            estimates: setting.estimates,
            partitions: vec![POOL.to_owned()],
            live: VecDeque::new(),
            first: 1,
            ends: BinaryHeap::new(),
            started: 0,
            forget: Vec::new(),
        })
    }

    fn event(&mut self, at: i64, kind: EventKind) -> Result<(), ApplyError> {
        let event = Event { at: Timestamp::from_secs(at), kind };
        self.state.apply(&event)?;
        self.planner.observe_event(&event, &self.state);
        Ok(())
    }

    fn live(&mut self, id: u32) -> Option<&mut Live> {
        self.live.get_mut(id.checked_sub(self.first)? as usize)
    }

    fn submit(&mut self, job: SwfJob) -> Result<(), ApplyError> {
        let id = self.first + self.live.len() as u32;
        let asked = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
        let spec = JobSpec {
            owner: Owner {
                uid: u32::try_from(job.user).unwrap_or(NOBODY),
                gid: asked(job.group.max(0)),
                user: String::new(),
            },
            partitions: self.partitions.clone(),
            request: Request { cpus_per_task: Some(asked(job.requested)), ..Request::default() },
            time_limit: Some(TimeLimit::Of(self.estimates.limit(&job))),
            ..JobSpec::default()
        };
        self.live.push_back(Live { job, start: None, gone: false, over: false });
        let kind = EventKind::JobSubmitted { first: JobId(id), specs: vec![Arc::new(spec)] };
        self.event(job.submit, kind)
    }

    /// Plans and carries out.
    fn round(&mut self, at: i64) -> Result<(), ApplyError> {
        let plan = self.planner.plan(&self.state, Timestamp::from_secs(at), Budget::UNLIMITED);
        for start in plan.decisions.iter().flat_map(muster_model::Decision::starts) {
            let (job, attempt) = (start.job, start.attempt);
            let (placement, time_limit) = (Arc::clone(&start.placement), start.time_limit);
            self.event(at, EventKind::JobPlaced { job, attempt, placement, time_limit })?;
            let order = self.started;
            self.started += 1;
            if let Some(live) = self.live(job.0) {
                live.start = Some(at);
                let end = at.saturating_add(live.job.run);
                self.ends.push(Reverse((end, order, job.0)));
            }
        }
        Ok(())
    }

    /// The jobs that end at this instant, in the order in which they were started.
    fn due(&mut self, at: i64) -> Vec<u32> {
        let mut due = Vec::new();
        while self.ends.peek().is_some_and(|Reverse(end)| end.0 == at) {
            due.extend(self.ends.pop().map(|Reverse((_, _, id))| id));
        }
        due
    }

    /// Ends those that the planner expects to be over now.
    fn release_expected(&mut self, at: i64, due: &[u32]) -> Result<(), ApplyError> {
        let now = Timestamp::from_secs(at);
        let before = Timestamp::from_millis(now.millis() - 1);
        for id in due {
            let job = self.state.job(JobId(*id)).cloned();
            let expected = job.and_then(|job| self.state.expected_end(&job, before));
            if expected == Some(now) {
                self.exit(at, *id)?;
            }
        }
        Ok(())
    }

    fn exit(&mut self, at: i64, id: u32) -> Result<(), ApplyError> {
        let Some(live) = self.live(id) else { return Ok(()) };
        if std::mem::replace(&mut live.gone, true) {
            return Ok(());
        }
        let started = live.start.map(Timestamp::from_secs);
        let report = ExitReport {
            status: ExitStatus::default(),
            cause: EndCause::Exited,
            started,
            ended: Timestamp::from_secs(at),
            usage: Usage::default(),
            message: String::new(),
            steps: Vec::new(),
        };
        self.forget.push(JobId(id));
        self.event(at, EventKind::JobExited { job: JobId(id), attempt: 1, report })
    }

    fn end(&mut self, at: i64, id: u32) -> Result<Finished, ApplyError> {
        self.exit(at, id)?;
        let mut done = Finished { job: SwfJob::default(), start: at };
        if let Some(live) = self.live(id) {
            live.over = true;
            done = Finished { job: live.job, start: live.start.unwrap_or(at) };
        }
        while self.live.front().is_some_and(|live| live.over) {
            self.live.pop_front();
            self.first += 1;
        }
        Ok(done)
    }

    /// Lets go of jobs that are over: an event costs no more at the end of a long trace.
    fn forget(&mut self, at: i64) -> Result<(), ApplyError> {
        if self.forget.len() < FORGET_AT {
            return Ok(());
        }
        let jobs = std::mem::take(&mut self.forget);
        self.event(at, EventKind::JobsForgotten { jobs })
    }
}

impl Estimates {
    /// The limit that a job is submitted with.
    fn limit(self, job: &SwfJob) -> Seconds {
        let asked = u64::try_from(job.requested_time).unwrap_or(0);
        Seconds(match self {
            Self::Requested => asked,
            Self::Clairvoyant => u64::try_from(job.run).unwrap_or(0),
            Self::Doubled => asked.saturating_mul(2),
        })
    }
}
