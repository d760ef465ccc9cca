//! An engine that runs nothing: attempts start and end when a test says so, or at once.
//!
//! It passes the contract suite, so what a test proves with it holds for real engines too. The
//! script in the payload says how an attempt ends: a line `exit N` ends it with that code, a line
//! that begins with `sleep` keeps it running until it is stopped, and a working directory below
//! `/nonexistent` cannot be launched in.

use crate::{Capabilities, Engine, EngineError, Inventory, Launch, Observation, Order, Running};
use muster_model::{
    EndCause, EngineName, ExitReport, ExitStatus, JobId, Node, TimeLimit, Timestamp, Usage,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Sink = Arc<dyn Fn(Observation) + Send + Sync>;
type Attempt = (JobId, u32);

/// Whether attempts go on by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// An attempt starts, and ends where its script ends, within the order that launches it.
    AtOnce,
    /// Attempts start and end in [`ScriptedEngine::step`].
    Stepped,
}

/// An engine without processes.
pub struct ScriptedEngine {
    name: EngineName,
    pace: Pace,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    nodes: Vec<Node>,
    running: BTreeMap<Attempt, Going>,
    exited: BTreeMap<Attempt, ExitReport>,
    /// Every attempt that was ever accepted or stopped.
    known: BTreeSet<Attempt>,
    /// How often each attempt began: never more than once.
    begun: BTreeMap<Attempt, u32>,
    fence: u64,
    sink: Option<Sink>,
    seen: VecDeque<Observation>,
    unreachable: bool,
    delivered: BTreeMap<JobId, Vec<(u32, u8)>>,
}

/// An attempt that is not over.
struct Going {
    started: Option<Timestamp>,
    suspended: bool,
    signalled: u32,
    limit: TimeLimit,
    /// How its script ends; `None` keeps it running.
    end: Option<u8>,
}

impl ScriptedEngine {
    /// An engine with these nodes.
    pub fn new(
        name: EngineName,
        nodes: Vec<Node>,
        pace: Pace,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let inner = Inner { nodes, ..Inner::default() };
        Self { name, pace, clock: Arc::new(clock), inner: Mutex::new(inner) }
    }

    /// Starts every accepted attempt and ends every running one whose script ends or whose limit
    /// has come.
    pub fn step(&self) {
        self.step_some(|_| true);
    }

    /// As [`ScriptedEngine::step`], for the attempts that `which` picks.
    pub fn step_some(&self, mut which: impl FnMut(Attempt) -> bool) {
        let now = (self.clock)();
        let mut inner = self.lock();
        let attempts: Vec<Attempt> = inner.running.keys().copied().collect();
        for attempt in attempts {
            if which(attempt) {
                inner.advance(attempt, now);
            }
        }
        Self::deliver(inner);
    }

    /// Ends an attempt in this way, whatever its script says. False where it does not run.
    pub fn end(&self, job: JobId, attempt: u32, status: ExitStatus, cause: EndCause) -> bool {
        let now = (self.clock)();
        let mut inner = self.lock();
        let ended = inner.end((job, attempt), status, cause, now, "");
        Self::deliver(inner);
        ended
    }

    /// Forgets an attempt without a trace, as a machine that lost its disk does: not even that it
    /// was ever there is known.
    pub fn forget(&self, job: JobId, attempt: u32) {
        let mut inner = self.lock();
        inner.known.remove(&(job, attempt));
        inner.begun.remove(&(job, attempt));
        inner.running.remove(&(job, attempt));
        inner.exited.remove(&(job, attempt));
    }

    /// From now on every call fails as unreachable, or works again.
    pub fn set_unreachable(&self, unreachable: bool) {
        self.lock().unreachable = unreachable;
    }

    /// Replaces the nodes.
    pub fn set_nodes(&self, nodes: Vec<Node>) {
        let mut inner = self.lock();
        inner.nodes = nodes;
        inner.seen.push_back(Observation::NodesChanged);
        Self::deliver(inner);
    }

    /// What was seen and not told to anybody, oldest first: everything, while nobody watches.
    pub fn take_seen(&self) -> Vec<Observation> {
        self.lock().seen.drain(..).collect()
    }

    /// How often an attempt began.
    pub fn times_begun(&self, job: JobId, attempt: u32) -> u32 {
        self.lock().begun.get(&(job, attempt)).copied().unwrap_or(0)
    }

    /// Every attempt that ever began.
    pub fn all_begun(&self) -> Vec<Attempt> {
        self.lock().begun.keys().copied().collect()
    }

    /// The signals that a job got: number and signal, in order.
    pub fn delivered(&self, job: JobId) -> Vec<(u32, u8)> {
        self.lock().delivered.get(&job).cloned().unwrap_or_default()
    }

    /// The limit in force of an attempt that is not over.
    pub fn limit(&self, job: JobId, attempt: u32) -> Option<TimeLimit> {
        self.lock().running.get(&(job, attempt)).map(|going| going.limit)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the watcher, where there is one, without holding the lock.
    fn deliver(mut inner: MutexGuard<'_, Inner>) {
        let Some(sink) = inner.sink.clone() else { return };
        let seen: Vec<Observation> = inner.seen.drain(..).collect();
        drop(inner);
        for observation in seen {
            sink(observation);
        }
    }

    fn unreachable(&self) -> EngineError {
        EngineError::Unreachable { engine: self.name.clone(), why: "a test says so".to_owned() }
    }

    fn launch(&self, inner: &mut Inner, launch: &Launch, now: Timestamp) {
        let attempt = (launch.job.id, launch.job.attempt);
        if !inner.known.insert(attempt) {
            return;
        }
        let going = Going {
            started: None,
            suspended: false,
            signalled: 0,
            limit: launch.job.time_limit,
            end: end_of(&launch.payload.script),
        };
        inner.running.insert(attempt, going);
        if launch.job.spec.cwd.starts_with("/nonexistent") {
            let status = ExitStatus { code: 1, signal: 0 };
            let why = format!("there is no directory {}", launch.job.spec.cwd);
            inner.end(attempt, status, EndCause::LaunchFailed, now, &why);
        } else if self.pace == Pace::AtOnce {
            inner.advance(attempt, now);
            inner.advance(attempt, now);
        }
    }
}

/// How a script ends: with its last `exit N`, never where it sleeps, else with 0.
fn end_of(script: &str) -> Option<u8> {
    let mut end = Some(0);
    for line in script.lines().map(str::trim) {
        if line.starts_with("sleep") {
            return None;
        }
        if let Some(code) = line.strip_prefix("exit ") {
            end = Some(code.trim().parse().unwrap_or(1));
        }
    }
    end
}

impl Inner {
    /// Starts an attempt that waits; ends one that runs and is done.
    fn advance(&mut self, attempt: Attempt, now: Timestamp) {
        let (job, number) = attempt;
        let Some(going) = self.running.get_mut(&attempt) else { return };
        let Some(started) = going.started else {
            going.started = Some(now);
            *self.begun.entry(attempt).or_insert(0) += 1;
            self.seen.push_back(Observation::Started { job, attempt: number });
            return;
        };
        if going.suspended {
            return;
        }
        if let Some(code) = going.end {
            self.end(attempt, ExitStatus { code, signal: 0 }, EndCause::Exited, now, "");
        } else if started.plus_limit(going.limit) <= now {
            let status = ExitStatus { code: 0, signal: 15 };
            self.end(attempt, status, EndCause::TimeLimit, now, "");
        }
    }

    fn end(
        &mut self,
        attempt: Attempt,
        status: ExitStatus,
        cause: EndCause,
        now: Timestamp,
        message: &str,
    ) -> bool {
        let Some(going) = self.running.remove(&attempt) else { return false };
        let report = ExitReport {
            status,
            cause,
            started: going.started,
            ended: now,
            usage: Usage::default(),
            message: message.to_owned(),
            steps: Vec::new(),
        };
        self.exited.insert(attempt, report.clone());
        let (job, attempt) = attempt;
        self.seen.push_back(Observation::Exited { job, attempt, report });
        true
    }

    /// Ends an attempt; one that is not known yet is over before it began.
    fn stop(&mut self, attempt: Attempt, now: Timestamp) {
        let status = ExitStatus { code: 0, signal: 15 };
        if self.known.insert(attempt) {
            let limit = TimeLimit::Unlimited;
            let never = Going { started: None, suspended: false, signalled: 0, limit, end: None };
            self.running.insert(attempt, never);
        }
        self.end(attempt, status, EndCause::Stopped, now, "");
    }

    fn signal(&mut self, attempt: Attempt, number: u32, signal: u8) {
        let Some(going) = self.running.get_mut(&attempt) else { return };
        if going.started.is_none() {
            // Comes again with the next listing.
            return;
        }
        if number > going.signalled {
            going.signalled = number;
            self.delivered.entry(attempt.0).or_default().push((number, signal));
        }
        self.seen.push_back(Observation::Signalled { job: attempt.0, number });
    }

    fn suspend(&mut self, attempt: Attempt, suspended: bool) {
        let Some(going) = self.running.get_mut(&attempt) else { return };
        if going.started.is_some() && going.suspended != suspended {
            going.suspended = suspended;
            let (job, attempt) = attempt;
            self.seen.push_back(Observation::Suspended { job, attempt, suspended });
        }
    }
}

impl Engine for ScriptedEngine {
    fn name(&self) -> EngineName {
        self.name.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { places_devices: true, suspends: true, preempts: true }
    }

    fn inventory(&self) -> Result<Inventory, EngineError> {
        let inner = self.lock();
        if inner.unreachable {
            return Err(self.unreachable());
        }
        let running = inner.running.iter().map(|((job, attempt), going)| Running {
            job: *job,
            attempt: *attempt,
            started: going.started,
            suspended: going.suspended,
            signalled: going.signalled,
            steps: Vec::new(),
        });
        let exited =
            inner.exited.iter().map(|((job, attempt), report)| (*job, *attempt, report.clone()));
        Ok(Inventory {
            nodes: inner.nodes.clone(),
            running: running.collect(),
            exited: exited.collect(),
            highest: JobId(0),
        })
    }

    fn execute(&self, fence: u64, order: &Order) -> Result<(), EngineError> {
        let now = (self.clock)();
        let mut inner = self.lock();
        if inner.unreachable {
            return Err(self.unreachable());
        }
        if fence < inner.fence {
            return Err(EngineError::Fenced { fence, seen: inner.fence });
        }
        inner.fence = fence;
        match order {
            Order::Launch(launch) => self.launch(&mut inner, launch, now),
            Order::Stop { job, attempt, .. } => inner.stop((*job, *attempt), now),
            Order::Signal { job, attempt, number, signal, .. } => {
                inner.signal((*job, *attempt), *number, *signal);
            }
            Order::Suspend { job, attempt, suspend } => inner.suspend((*job, *attempt), *suspend),
            Order::Resize { job, attempt, nodes, .. } => {
                let (job, attempt, nodes) = (*job, *attempt, nodes.clone());
                if inner.running.contains_key(&(job, attempt)) {
                    inner.seen.push_back(Observation::Resized { job, attempt, nodes });
                }
            }
            Order::Limit { job, attempt, limit } => {
                if let Some(going) = inner.running.get_mut(&(*job, *attempt)) {
                    going.limit = *limit;
                }
            }
            Order::Acknowledge { job, attempt } => {
                inner.exited.remove(&(*job, *attempt));
            }
        }
        Self::deliver(inner);
        Ok(())
    }

    fn watch(&self, sink: Sink) {
        let mut inner = self.lock();
        inner.sink = Some(sink);
        Self::deliver(inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Subject;

    fn subject() -> Subject {
        let node = Node {
            name: "n1".to_owned(),
            cpus: muster_model::CpuSet::first(4),
            memory: muster_model::Mib(4096),
            threads_per_core: 1,
            ..Node::default()
        };
        let now = || Timestamp::from_secs(1);
        let engine = ScriptedEngine::new(EngineName::local(), vec![node], Pace::AtOnce, now);
        Subject::new(Arc::new(engine), std::env::temp_dir())
    }

    crate::contract_suite!(subject());
}
