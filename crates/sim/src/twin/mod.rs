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
//! submissions too. Where nodes break, that comes first.

mod cluster;
mod costs;
mod faults;
mod foresee;
mod gpus;
mod metrics;
mod named;
mod own;
mod users;

pub use cluster::{ClusterLog, cluster_log};
pub use costs::{Costs, Rates};
pub use faults::{FaultCounts, Faults};
pub use foresee::{Foreseeing, Foreseen, QUANTILES, Score, foresee, score};
pub use gpus::GpuUse;
pub use metrics::{BOUND_S, Summary, Totals};
pub use named::{Estimates, NAMES, PolicyName, UnknownPolicy, learned};
pub use own::{Ended, Instead, LogCounts, LoggedRuns, OwnLog};
pub use users::{UserSummary, Users};

use crate::trace::{SwfJob, TraceError};
use muster_model::{
    ApplyError, EndCause, EngineName, Event, EventKind, ExitReport, ExitStatus, JobId, JobSpec,
    NOBODY, Node, NodeId, Owner, Partition, Policy, Request, Seconds, State, TimeLimit, Timestamp,
    Usage,
};
use muster_planner::{Budget, Planner};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

use faults::{Breakage, HITS_MAX, Turn};

/// The partition of a pool of processors, and its node.
const POOL: &str = "pool";

/// The name of every job: traces have none.
const JOB: &str = "job";

/// So many requests are kept to be shared.
const SPECS_MOST: usize = 256;

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
    /// How nodes break, where they do.
    pub faults: Option<Faults>,
    /// When a submission is followed by a round.
    pub rounds: Rounds,
}

/// When a submission is followed by a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounds {
    /// Always.
    #[default]
    Each,
    /// Where what the job asks for is free, as in predictsim's backfilling in the order of the queue.
    /// It makes a difference only where run times are guessed and guesses are mended in between.
    Fitting,
}

/// A job that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finished {
    /// The job as the trace has it.
    pub job: SwfJob,
    /// When it started in the replay, seconds from the start of the log; of several starts the last.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// How long it ran in vain, seconds: what a node that broke took of it.
    pub lost: i64,
}

impl Finished {
    /// A job that ran once, without a break.
    pub const fn once(job: SwfJob, start: i64) -> Self {
        Self { job, start, end: start + job.run, lost: 0 }
    }

    /// How long it was there without getting on: it waited, or ran in vain.
    pub const fn wait(&self) -> i64 {
        self.flow() - self.job.run
    }

    /// How long it was there: wait and run.
    pub const fn flow(&self) -> i64 {
        self.end - self.job.submit
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
    /// Which start it is.
    attempt: u32,
    /// What earlier starts did for good, seconds.
    kept: i64,
    /// What they did in vain, seconds.
    lost: i64,
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
    /// What jobs ask for, once for all alike: user, group, processors, time.
    specs: BTreeMap<(u32, u32, u32, Seconds), Arc<JobSpec>>,
    /// Jobs by id from `first` on; those that are over at the front are dropped.
    live: VecDeque<Live>,
    first: u32,
    /// Ends to come: when, in which order they were started, which, and which start of it.
    ends: BinaryHeap<Reverse<(i64, u64, u32, u32)>>,
    breakage: Option<Breakage>,
    /// Processors that are given out.
    busy: i64,
    started: u64,
    forget: Vec<JobId>,
}

/// Replays jobs, which come in order of submission, and tells of each when it is over. What is told
/// in the end is what broke; zeros where nothing is to.
///
/// # Errors
/// The trace cannot be read on, or `finished` fails.
pub fn replay(
    setting: &Setting,
    jobs: impl IntoIterator<Item = Result<SwfJob, TraceError>>,
    finished: impl FnMut(&Finished) -> std::io::Result<()>,
) -> Result<FaultCounts, TwinError> {
    drive(setting, jobs, &mut Finishing(finished))
}

/// Who looks on while a trace is replayed.
trait Watcher {
    /// A job was submitted, and its round is over.
    fn submitted(&mut self, twin: &Twin, at: i64, id: u32) -> Result<(), ApplyError>;

    /// A job is over.
    fn finished(&mut self, done: &Finished) -> std::io::Result<()>;
}

/// Who is told only of what is over.
struct Finishing<F>(F);

impl<F: FnMut(&Finished) -> std::io::Result<()>> Watcher for Finishing<F> {
    fn submitted(&mut self, _: &Twin, _: i64, _: u32) -> Result<(), ApplyError> {
        Ok(())
    }

    fn finished(&mut self, done: &Finished) -> std::io::Result<()> {
        (self.0)(done)
    }
}

/// Replays jobs with somebody looking on.
fn drive(
    setting: &Setting,
    jobs: impl IntoIterator<Item = Result<SwfJob, TraceError>>,
    watcher: &mut impl Watcher,
) -> Result<FaultCounts, TwinError> {
    let mut twin = Twin::new(setting)?;
    let mut jobs = jobs.into_iter();
    let mut next = jobs.next().transpose()?;
    if let (Some(faults), Some(job)) = (setting.faults, &next) {
        twin.breakage = Some(Breakage::begin(faults, setting.processors, job.submit));
    }
    loop {
        let submit = next.as_ref().map(|job| job.submit);
        let Some(at) = twin.next(submit) else { return Ok(twin.broken()) };
        twin.turn_nodes(at)?;
        let due = twin.due(at);
        twin.release_expected(at, &due)?;
        while let Some(job) = next.take_if(|job| job.submit == at) {
            let asked = job.requested;
            let id = twin.submit(job)?;
            next = jobs.next().transpose()?;
            if setting.rounds == Rounds::Each || i64::from(setting.processors) - twin.busy >= asked
            {
                twin.round(at)?;
            }
            watcher.submitted(&twin, at, id)?;
        }
        for id in due {
            let done = twin.end(at, id)?;
            watcher.finished(&done)?;
            twin.round(at)?;
        }
        twin.forget(at)?;
    }
}

impl Twin {
    fn new(setting: &Setting) -> Result<Self, TwinError> {
        let node = pool(setting.processors);
        let partition = Partition {
            name: POOL.to_owned(),
            nodes: BTreeSet::from([POOL.to_owned()]),
            default: true,
            ..Partition::default()
        };
        let mut policy = setting.policy.clone();
        if setting.faults.is_some() {
            // Nobody is there to let go of a job that was hit too often.
            policy.max_restarts = u32::MAX;
        }
        let set_up = [
            EventKind::PolicySet { policy: Box::new(policy) },
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
            specs: BTreeMap::new(),
            live: VecDeque::new(),
            first: 1,
            ends: BinaryHeap::new(),
            breakage: None,
            busy: 0,
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

    fn live_at(&self, id: u32) -> Option<&Live> {
        self.live.get(id.checked_sub(self.first)? as usize)
    }

    /// Runs on with nobody to come until a job starts; `None` where it never does.
    fn until(&mut self, id: u32) -> Result<Option<i64>, ApplyError> {
        loop {
            if let Some(start) = self.live_at(id).and_then(|live| live.start) {
                return Ok(Some(start));
            }
            let Some(at) = self.next(None) else { return Ok(None) };
            let due = self.due(at);
            self.release_expected(at, &due)?;
            for id in due {
                self.end(at, id)?;
                self.round(at)?;
            }
        }
    }

    /// Submits a job; its number here.
    fn submit(&mut self, job: SwfJob) -> Result<u32, ApplyError> {
        let id = self.first + self.live.len() as u32;
        let asked = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
        let owner = Owner {
            uid: u32::try_from(job.user).unwrap_or(NOBODY),
            gid: asked(job.group.max(0)),
            user: String::new(),
        };
        let (cpus, limit) = (asked(job.requested), self.estimates.limit(&job));
        let key = (owner.uid, owner.gid, cpus, limit);
        if self.specs.len() >= SPECS_MOST {
            self.specs.clear();
        }
        let requeue = self.breakage.is_some();
        let partitions = &self.partitions;
        let spec = self.specs.entry(key).or_insert_with(|| {
            Arc::new(JobSpec {
                name: JOB.to_owned(),
                owner,
                partitions: partitions.clone(),
                request: Request { cpus_per_task: Some(cpus), ..Request::default() },
                time_limit: Some(TimeLimit::Of(limit)),
                requeue,
                ..JobSpec::default()
            })
        });
        let specs = vec![Arc::clone(spec)];
        let new = Live { job, start: None, attempt: 0, kept: 0, lost: 0, gone: false, over: false };
        self.live.push_back(new);
        let kind = EventKind::JobSubmitted { first: JobId(id), specs };
        self.event(job.submit, kind)?;
        Ok(id)
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
                live.attempt = attempt;
                let end = at.saturating_add(live.job.run - live.kept);
                self.busy += live.job.requested;
                self.ends.push(Reverse((end, order, job.0, attempt)));
            }
        }
        Ok(())
    }

    /// The next instant at which something happens; `None` where nothing is left to happen.
    fn next(&mut self, submit: Option<i64>) -> Option<i64> {
        while let Some(Reverse((_, _, id, attempt))) = self.ends.peek().copied() {
            let runs = |live: &Live| live.start.is_some() && live.attempt == attempt;
            if self.live(id).is_some_and(|live| runs(live)) {
                break;
            }
            // A node broke under that start.
            self.ends.pop();
        }
        let end = self.ends.peek().map(|Reverse(end)| end.0);
        let next = end.into_iter().chain(submit).min();
        let Some(breakage) = &self.breakage else { return next };
        match next {
            Some(next) => Some(next.min(breakage.next())),
            // Nothing runs and nothing comes: who waits, waits for a node.
            None => (!self.live.is_empty() && breakage.next_repair() < i64::MAX)
                .then(|| breakage.next()),
        }
    }

    /// What broke.
    fn broken(&self) -> FaultCounts {
        self.breakage.as_ref().map_or_else(FaultCounts::default, Breakage::counts)
    }

    /// Lets nodes break and come back that are to by this instant, each with a round of its own.
    fn turn_nodes(&mut self, at: i64) -> Result<(), ApplyError> {
        while let Some(turn) = self.breakage.as_mut().and_then(|breakage| breakage.turn(at)) {
            let size = self.breakage.as_ref().map_or(0, |breakage| breakage.size);
            let there = self.state.nodes.get(&NodeId(0)).map_or(0, |node| node.cpu_pool);
            let left = match turn {
                Turn::Repaired => there + size,
                Turn::Breaks { first } => {
                    self.hit(at, i64::from(first), i64::from(size))?;
                    there - size
                }
            };
            self.event(at, EventKind::NodeSet { node: Box::new(pool(left)) })?;
            self.round(at)?;
        }
        Ok(())
    }

    /// Takes their run from the jobs that have processors in a piece of the machine.
    fn hit(&mut self, at: i64, first: i64, size: i64) -> Result<(), ApplyError> {
        let mut order: Vec<(u64, u32)> = Vec::new();
        for Reverse((_, order_of, id, attempt)) in &self.ends {
            if self
                .live_at(*id)
                .is_some_and(|live| live.start.is_some() && live.attempt == *attempt)
            {
                order.push((*order_of, *id));
            }
        }
        order.sort_unstable();
        let mut from = 0;
        for (_, id) in order {
            let Some(live) = self.live(id).copied() else { continue };
            let to = from + live.job.requested;
            if from < first + size && first < to {
                self.lose(at, id, &live)?;
            }
            from = to;
        }
        Ok(())
    }

    /// Takes its run from a job: it waits again.
    fn lose(&mut self, at: i64, id: u32, hit: &Live) -> Result<(), ApplyError> {
        let ran = at - hit.start.unwrap_or(at);
        self.busy -= hit.job.requested;
        let kept = self.breakage.as_mut().map_or(0, |one| one.hit(ran, hit.job.requested));
        if let Some(live) = self.live(id) {
            live.start = None;
            live.lost += ran - kept;
            // What is left is at least a second, or its end would have come.
            live.kept = (live.kept + kept).min(live.job.run - 1);
        }
        let mut report = ExitReport { cause: EndCause::NodeLost, ..report(at, hit) };
        if hit.attempt >= HITS_MAX {
            (report.cause, report.status.code) = (EndCause::Exited, 1);
            if let Some(breakage) = &mut self.breakage {
                breakage.counts.jobs_given_up += 1;
            }
            self.over(id);
            self.forget.push(JobId(id));
        }
        self.event(at, EventKind::JobExited { job: JobId(id), attempt: hit.attempt, report })
    }

    /// The jobs that end at this instant, in the order in which they were started.
    fn due(&mut self, at: i64) -> Vec<u32> {
        let mut due = Vec::new();
        while self.ends.peek().is_some_and(|Reverse(end)| end.0 == at) {
            let Some(Reverse((_, _, id, attempt))) = self.ends.pop() else { continue };
            if self.live(id).is_some_and(|live| live.start.is_some() && live.attempt == attempt) {
                due.push(id);
            }
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
        let live = *live;
        let (attempt, report) = (live.attempt, report(at, &live));
        self.busy -= live.job.requested;
        self.forget.push(JobId(id));
        self.event(at, EventKind::JobExited { job: JobId(id), attempt, report })
    }

    fn end(&mut self, at: i64, id: u32) -> Result<Finished, ApplyError> {
        self.exit(at, id)?;
        let mut done = Finished { job: SwfJob::default(), start: at, end: at, lost: 0 };
        if let Some(live) = self.live(id) {
            let (job, start) = (live.job, live.start.unwrap_or(at));
            done = Finished { job, start, end: at, lost: live.lost };
        }
        self.over(id);
        Ok(done)
    }

    /// Lets go of a job that is over, as soon as those before it are.
    fn over(&mut self, id: u32) {
        if let Some(live) = self.live(id) {
            live.over = true;
        }
        while self.live.front().is_some_and(|live| live.over) {
            self.live.pop_front();
            self.first += 1;
        }
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

/// The machine as one node.
fn pool(processors: u32) -> Node {
    Node {
        id: NodeId(0),
        name: POOL.to_owned(),
        engine: EngineName("trace".to_owned()),
        cpu_pool: processors,
        threads_per_core: 1,
        ..Node::default()
    }
}

/// What an engine would say of a job that ends now by itself.
fn report(at: i64, live: &Live) -> ExitReport {
    ExitReport {
        status: ExitStatus::default(),
        cause: EndCause::Exited,
        started: live.start.map(Timestamp::from_secs),
        ended: Timestamp::from_secs(at),
        usage: Usage::default(),
        message: String::new(),
        steps: Vec::new(),
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
