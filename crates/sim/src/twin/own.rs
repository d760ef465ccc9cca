//! A log of muster's own, planned anew from its inputs alone.
//!
//! What people and machines did is taken from the log at its instant: submissions and changes,
//! nodes, partitions, accounts, reservations. What was decided is left out and decided anew: the
//! planner plans on the real nodes and engines answer at once. A job holds what it gets for as long as
//! it did in the log (its last attempt that was not cut short); one that the log does not see end takes
//! its whole limit and is in no figure.

use super::Finished;
use super::gpus::{Asks, GpuUse, Meter, NodeAsk};
use crate::trace::SwfJob;
use muster_model::{
    ApplyError, Availability, EndCause, Event, EventKind, ExitStatus, Hold, Job, JobId, JobState,
    NodeId, Policy, PreemptMode, State, StopCause, Timestamp,
};
use muster_planner::{Budget, Planner};
use muster_scenario::{Stage, carry_out, end};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// So many rounds follow each other at one instant at most.
const ROUNDS_MAX: u32 = 1000;

/// What a log says of its jobs' ends: a few bytes for each job.
#[derive(Clone, Debug, Default)]
pub struct LoggedRuns {
    placed: BTreeMap<JobId, Timestamp>,
    runs: BTreeMap<JobId, LoggedRun>,
    events: u64,
    policy: Arc<Policy>,
    asks: Asks,
}

/// What holds in place of a log's policy.
#[derive(Clone, Debug)]
pub enum Instead {
    /// Of this one its order, its backfill and where run times are from.
    Order(Policy),
    /// All of this one.
    All(Policy),
}

#[derive(Clone, Copy, Debug)]
struct LoggedRun {
    ms: u64,
    status: ExitStatus,
    cause: EndCause,
}

/// What could not be replayed as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogCounts {
    /// Events of the log.
    pub events: u64,
    /// Decisions and answers of engines, which are made anew.
    pub made_anew: u64,
    /// Inputs that did not fit any more: the job was over, or did not run yet.
    pub unfit: u64,
    /// Jobs that the log does not see end.
    pub endless: u64,
}

impl LoggedRuns {
    /// Begins with what has resources where the log begins.
    pub fn new(begin: &State) -> Self {
        let active = begin.index.active.iter().filter_map(|id| begin.jobs.get(id));
        let placed = active.filter_map(|job| Some((job.id, job.placed?))).collect();
        Self { placed, policy: Arc::clone(&begin.policy), ..Self::default() }
    }

    /// How many events there were.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// The policy that holds after the last of them.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Takes up how long a job runs that ends well.
    pub(super) fn add_run(&mut self, job: JobId, ms: u64) {
        let (status, cause) = (ExitStatus::default(), EndCause::Exited);
        self.runs.insert(job, LoggedRun { ms, status, cause });
    }

    /// Takes up what a job asks of a node.
    pub(super) fn add_ask(&mut self, ask: Option<NodeAsk>) {
        if let Some(ask) = ask {
            *self.asks.entry(ask).or_default() += 1;
        }
    }

    /// Takes up an event of the log.
    pub fn add(&mut self, event: &Event) {
        self.events += 1;
        match &event.kind {
            EventKind::PolicySet { policy } => self.policy = Arc::new((**policy).clone()),
            EventKind::JobPlaced { job, placement, .. } => {
                self.placed.insert(*job, event.at);
                placement.nodes.iter().for_each(|share| self.add_ask(NodeAsk::of(share)));
            }
            EventKind::JobExited { job, report, .. } => {
                let Some(placed) = self.placed.remove(job) else { return };
                let cut = matches!(
                    report.cause,
                    EndCause::NodeLost | EndCause::NodeReboot | EndCause::LaunchFailed
                );
                if !cut {
                    let ms = event.at.ms_since(placed);
                    let (status, cause) = (report.status, report.cause);
                    self.runs.insert(*job, LoggedRun { ms, status, cause });
                }
            }
            _ => {}
        }
    }
}

/// A log under way.
pub struct OwnLog<F> {
    state: State,
    now: Timestamp,
    planner: Planner,
    logged: LoggedRuns,
    instead: Option<Instead>,
    /// What is to be looked at, and when: the end of an attempt.
    ends: BTreeSet<(Timestamp, JobId, u32)>,
    /// Attempts that stand still: they are looked at when they go on.
    still: BTreeSet<(JobId, u32)>,
    /// When somebody is free to start, or a reservation begins or ends.
    wakes: BTreeSet<Timestamp>,
    counts: LogCounts,
    gpus: Meter,
    finished: F,
}

/// What a log came to.
pub struct Ended {
    /// What could not be replayed as it was.
    pub counts: LogCounts,
    /// The state at its end.
    pub state: State,
    /// What became of the GPUs, where there were any.
    pub gpus: Option<GpuUse>,
}

impl<F> Stage for OwnLog<F> {
    type Error = ApplyError;

    fn state(&self) -> &State {
        &self.state
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn apply(&mut self, kind: EventKind) -> Result<(), ApplyError> {
        let event = Event { at: self.now, kind };
        let mut nodes = nodes_of(&self.state, &event.kind);
        self.state.apply(&event)?;
        self.planner.observe_event(&event, &self.state);
        if matches!(event.kind, EventKind::JobSubmitted { .. }) {
            self.gpus.submitted(self.now);
        }
        nodes.append(&mut nodes_of(&self.state, &event.kind));
        if !nodes.is_empty() {
            self.gpus.changed(&self.state, &nodes, self.now);
        }
        Ok(())
    }
}

/// The nodes of which an event may change what is left.
fn nodes_of(state: &State, kind: &EventKind) -> BTreeSet<NodeId> {
    match kind {
        EventKind::NodeSet { node } => [node.id].into(),
        EventKind::NodeRemoved { node }
        | EventKind::NodeAvailability { node, .. }
        | EventKind::NodeDrain { node, .. } => [*node].into(),
        _ => {
            let job = kind.job().and_then(|id| state.job(id));
            let placement = job.and_then(|job| job.placement.as_ref());
            placement.iter().flat_map(|placement| &placement.nodes).map(|one| one.node).collect()
        }
    }
}

impl<F: FnMut(&Finished) -> std::io::Result<()>> OwnLog<F> {
    /// Begins where the log does, under its own policy or another one.
    pub fn new(begin: State, logged: LoggedRuns, instead: Option<Instead>, finished: F) -> Self {
        let mut log = Self {
            planner: Planner::new(&begin),
            now: begin.now,
            state: begin,
            gpus: Meter::new(&logged.asks),
            logged,
            instead,
            ends: BTreeSet::new(),
            still: BTreeSet::new(),
            wakes: BTreeSet::new(),
            counts: LogCounts::default(),
            finished,
        };
        let nodes = log.state.nodes.keys().copied().collect();
        log.gpus.changed(&log.state, &nodes, log.now);
        let active: Vec<JobId> = log.state.index.active.iter().copied().collect();
        for job in active {
            log.expect_end(job);
        }
        log
    }

    /// The state so far.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// What became of the log so far.
    pub const fn counts(&self) -> LogCounts {
        self.counts
    }

    /// Takes up an event of the log, after all that ends before it.
    ///
    /// # Errors
    /// A decision does not fit the state (a fault of muster), or `finished` fails.
    pub fn add(&mut self, event: Event) -> Result<(), super::TwinError> {
        self.counts.events += 1;
        if self.counts.events == 1
            && let Some(instead) = &self.instead
        {
            let policy = Box::new(instead.of(&self.state.policy));
            self.now = self.now.max(event.at);
            self.apply(EventKind::PolicySet { policy })?;
        }
        self.pass(event.at)?;
        self.now = self.now.max(event.at);
        let Some(kind) = self.input(event.kind) else {
            self.counts.made_anew += 1;
            return Ok(());
        };
        let is_down = match &kind {
            EventKind::NodeAvailability { node, availability: Availability::Down { .. } } => {
                Some(*node)
            }
            _ => None,
        };
        self.wake_for(&kind);
        let stops = if let EventKind::JobStop { job, .. } = &kind { Some(*job) } else { None };
        if self.apply(kind).is_err() {
            self.counts.unfit += 1;
            return Ok(());
        }
        if let Some(job) = stops
            && self.state.job(job).is_some_and(|job| job.state.holds_resources())
        {
            self.over(job, ExitStatus { code: 0, signal: 15 }, EndCause::Stopped)?;
        }
        if let Some(node) = is_down {
            self.lose(node)?;
        }
        self.round()
    }

    /// Lets what runs and waits come to its end; what there was.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn finish(mut self) -> Result<Ended, super::TwinError> {
        self.pass(Timestamp::NEVER)?;
        Ok(Ended { counts: self.counts, state: self.state, gpus: self.gpus.used() })
    }

    /// What of the log is an input: `None` for what is decided anew, and for the answers to that.
    fn input(&self, kind: EventKind) -> Option<EventKind> {
        match kind {
            EventKind::PolicySet { policy } => {
                let policy = match &self.instead {
                    Some(instead) => Box::new(instead.of(&policy)),
                    None => policy,
                };
                Some(EventKind::PolicySet { policy })
            }
            EventKind::JobHeld { hold: Hold::System(_), .. }
            | EventKind::JobSignal { .. }
            | EventKind::JobSuspend { .. }
            | EventKind::JobResize { .. }
            | EventKind::JobStarted { .. }
            | EventKind::JobSuspended { .. }
            | EventKind::JobResized { .. }
            | EventKind::JobSignalled { .. }
            | EventKind::StepObserved { .. }
            | EventKind::JobExited { .. }
            | EventKind::JobPlaced { .. }
            | EventKind::JobRejected { .. }
            | EventKind::JobClaimed { .. }
            | EventKind::JobPreempted { .. }
            | EventKind::JobTurn { .. }
            | EventKind::JobCheckpointed { .. }
            | EventKind::JobIdle { .. } => None,
            EventKind::JobStop { job, cause, hurry } => {
                let running = self.state.job(job).is_some_and(|job| job.state.holds_resources());
                let own = match cause {
                    StopCause::Cancelled(_) | StopCause::Requeue { .. } => true,
                    StopCause::Deadline => !running,
                    StopCause::ReservationOver => running,
                    StopCause::Preempted(_) | StopCause::HetPeer | StopCause::Taint(_) => false,
                };
                own.then_some(EventKind::JobStop { job, cause, hurry })
            }
            EventKind::JobsForgotten { mut jobs } => {
                jobs.retain(|id| self.state.job(*id).is_some_and(|job| job.state.is_over()));
                Some(EventKind::JobsForgotten { jobs })
            }
            other => Some(other),
        }
    }

    /// Notes when something becomes due that no event of the log may stand for.
    fn wake_for(&mut self, kind: &EventKind) {
        match kind {
            EventKind::JobSubmitted { specs, .. } => {
                self.wakes.extend(specs.iter().filter_map(|spec| spec.begin));
            }
            EventKind::ReservationSet { reservation } => {
                self.wakes.extend([reservation.window.start, reservation.window.end]);
            }
            EventKind::ReservationAdvanced { window, .. } => {
                self.wakes.extend([window.start, window.end]);
            }
            _ => {}
        }
    }

    /// Lets all end that is to before an instant, and wakes who is to wake.
    fn pass(&mut self, until: Timestamp) -> Result<(), super::TwinError> {
        loop {
            let end = self.ends.first().copied();
            let wake = self.wakes.first().copied();
            let next = end.map(|end| end.0).into_iter().chain(wake).min();
            let Some(at) = next.filter(|at| *at <= until && *at != Timestamp::NEVER) else {
                return Ok(());
            };
            self.now = self.now.max(at);
            if wake == Some(at) {
                self.wakes.remove(&at);
            } else if let Some(due) = end {
                self.ends.remove(&due);
                self.look(due.1, due.2)?;
            }
            self.round()?;
        }
    }

    /// An attempt's end has come, unless it stood still meanwhile.
    fn look(&mut self, id: JobId, attempt: u32) -> Result<(), super::TwinError> {
        let Some(job) = self.state.job(id).filter(|job| job.attempt == attempt).cloned() else {
            return Ok(());
        };
        if !job.state.holds_resources() {
            return Ok(());
        }
        if job.state == JobState::Suspended {
            self.still.insert((id, attempt));
            return Ok(());
        }
        if self.end_of(&job).is_some_and(|at| at > self.now) {
            self.expect_end(id);
            return Ok(());
        }
        if let Some(eviction) = &job.eviction
            && job.stop.is_none()
            && eviction.mode == PreemptMode::Checkpoint
        {
            let cause = eviction.stop_cause(&job);
            self.apply(EventKind::JobStop { job: id, cause, hurry: false })?;
        }
        let logged = self.logged.runs.get(&id).filter(|_| job.eviction.is_none());
        let (status, cause) = match logged {
            Some(logged) => (logged.status, logged.cause),
            None => (ExitStatus { code: 0, signal: 15 }, EndCause::TimeLimit),
        };
        // What was stopped in the log for a reason that does not hold here ends by itself.
        let stopped = self.state.job(id).is_some_and(|job| job.stop.is_some());
        let cause = match cause {
            _ if stopped => EndCause::Stopped,
            EndCause::Stopped => EndCause::Exited,
            other => other,
        };
        self.over(id, status, cause)
    }

    /// When an attempt is to end.
    fn end_of(&self, job: &Job) -> Option<Timestamp> {
        let latest = job.ends_at_latest()?;
        let (Some(logged), None) = (self.logged.runs.get(&job.id), &job.eviction) else {
            return Some(latest);
        };
        let paused = job.paused.0.saturating_mul(1000).saturating_add(u64::from(job.paused_ms));
        Some(job.placed?.plus_ms(logged.ms.saturating_add(paused)))
    }

    fn expect_end(&mut self, id: JobId) {
        let Some(job) = self.state.job(id) else { return };
        if let Some(at) = self.end_of(job) {
            self.ends.insert((at.max(self.now), id, job.attempt));
        }
    }

    /// A job's attempt is over; it is told of, where the job is and the log saw it end.
    fn over(
        &mut self,
        id: JobId,
        status: ExitStatus,
        cause: EndCause,
    ) -> Result<(), super::TwinError> {
        let Some(job) = self.state.job(id).cloned() else { return Ok(()) };
        end(self, id, status, cause)?;
        if !self.state.job(id).is_some_and(|job| job.state.is_over()) {
            return Ok(());
        }
        if !self.logged.runs.contains_key(&id) {
            self.counts.endless += 1;
            return Ok(());
        }
        let done = finished(&job, self.now);
        (self.finished)(&done)?;
        Ok(())
    }

    /// The jobs on a node that is gone lose their run.
    fn lose(&mut self, node: NodeId) -> Result<(), super::TwinError> {
        let jobs = self.state.index.on_node.get(&node);
        let jobs: Vec<JobId> = jobs.into_iter().flatten().copied().collect();
        for job in jobs {
            self.over(job, ExitStatus::default(), EndCause::NodeLost)?;
        }
        Ok(())
    }

    /// Plans and carries out until nothing is left to do at this instant.
    fn round(&mut self) -> Result<(), super::TwinError> {
        for _ in 0..ROUNDS_MAX {
            let plan = self.planner.plan(&self.state, self.now, Budget::UNLIMITED);
            if plan.decisions.is_empty() {
                break;
            }
            for decision in &plan.decisions {
                carry_out(self, decision)?;
                let starts = decision.starts();
                for start in starts {
                    self.expect_end(start.job);
                }
            }
            let evicted: Vec<JobId> = self.state.index.evicted.iter().copied().collect();
            for job in evicted {
                self.expect_end(job);
            }
            let goes_on = |(id, attempt): &(JobId, u32)| {
                let job = self.state.job(*id).filter(|job| job.attempt == *attempt);
                job.is_none_or(|job| job.state != JobState::Suspended)
            };
            let (go_on, still) = std::mem::take(&mut self.still).into_iter().partition(goes_on);
            self.still = still;
            let go_on: BTreeSet<(JobId, u32)> = go_on;
            for (job, _) in go_on {
                self.expect_end(job);
            }
            // A plan that was carried out leaves nothing to plan, but for room that was made at once.
            if self.state.index.claimants.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

impl Instead {
    /// The policy that holds where the log has this one.
    fn of(&self, logged: &Policy) -> Policy {
        match self {
            Self::All(own) => own.clone(),
            Self::Order(own) => Policy {
                order: own.order,
                backfill: own.backfill,
                backfill_order: own.backfill_order,
                run_time: own.run_time,
                ..logged.clone()
            },
        }
    }
}

/// A job as those of traces are told.
fn finished(job: &Job, now: Timestamp) -> Finished {
    let start = job.placed.unwrap_or(now).secs();
    let submit = job.submitted.secs();
    let requested = i64::from(job.placement.as_ref().map_or(0, |placement| placement.cpus()));
    let asked = job.time_limit.seconds().map_or(-1, |s| i64::try_from(s.0).unwrap_or(i64::MAX));
    let told = SwfJob {
        number: i64::from(job.id.0),
        submit,
        run: now.secs() - start,
        allocated: requested,
        requested,
        requested_time: asked,
        user: i64::from(job.spec.owner.uid),
        group: i64::from(job.spec.owner.gid),
        ..SwfJob::default()
    };
    Finished::once(told, start)
}
