//! Steps: resources of the allocation lent to `srun`, and the tasks it starts on them.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use muster_api::step::{EndCause, Event, ExitStatus, RunningStep, StepRecord, StepSpec, worse};
use muster_model::{StepId, Usage};
use nix::sys::signal::Signal;

use super::child::{self, StartFailure};
use super::ending::timestamp;
use super::layout::{Busy, Layout};
use super::reap::{Ended, Totals};
use super::signal_pids;
use super::wait::Source;
use crate::cgroup::Group;
use crate::machine::{boot_clock_ms, now_ms};
use crate::spec::{LaunchSpec, STEP_RECORDS_MAX};

mod resize;
mod serve;

/// The most steps of a job at a time, those that wait among them.
const STEPS_MAX: usize = 512;

/// How often a step whose tasks ended looks whether the rest of its processes is gone.
const DRAIN_MS: u64 = 20;

/// All steps of a job.
pub(super) struct Steps {
    next: u32,
    busy: Busy,
    running: Vec<Step>,
    waiting: Vec<(u64, StepSpec)>,
    /// Something was given back since waiting steps were last tried.
    freed: bool,
    events: Vec<(u64, Event)>,
    leaving: Option<resize::Leaving>,
    done: Vec<StepRecord>,
    fresh_records: Vec<StepRecord>,
    grace_s: u64,
}

struct Step {
    id: u32,
    /// The client's connection; absent once it left.
    client: Option<u64>,
    spec: StepSpec,
    name: String,
    layout: Layout,
    nodelist: String,
    group: Group,
    tasks: Vec<Task>,
    start_ms: u64,
    usage: Totals,
    status: ExitStatus,
    cause: Option<EndCause>,
    limit_at: Option<u64>,
    /// `--wait`: when the rest is ended after the first task's end.
    wait_until: Option<u64>,
    kill_at: Option<u64>,
    /// Tasks on nodes that the job gives up: how they end says nothing of the step.
    given_up: BTreeSet<u32>,
}

enum Task {
    /// Its descriptors have not come yet.
    Awaited,
    Launching {
        pid: i32,
        verdict: OwnedFd,
    },
    Running {
        pid: i32,
    },
    Over,
}

impl Task {
    fn pid(&self) -> Option<i32> {
        match self {
            Self::Launching { pid, .. } | Self::Running { pid } => Some(*pid),
            Self::Awaited | Self::Over => None,
        }
    }
}

impl Steps {
    pub(super) fn new(spec: &LaunchSpec) -> Self {
        Self {
            next: 0,
            busy: Busy::none(&spec.nodes),
            running: Vec::new(),
            waiting: Vec::new(),
            freed: false,
            events: Vec::new(),
            leaving: None,
            done: Vec::new(),
            fresh_records: Vec::new(),
            grace_s: u64::from(spec.limits.grace_s),
        }
    }

    pub(super) fn any_running(&self) -> bool {
        !self.running.is_empty()
    }

    pub(super) fn take_events(&mut self) -> Vec<(u64, Event)> {
        std::mem::take(&mut self.events)
    }

    /// Steps that began or ended since the last call.
    pub(super) fn take_records(&mut self) -> Vec<StepRecord> {
        std::mem::take(&mut self.fresh_records)
    }

    /// Every step so far, those that run among them.
    pub(super) fn records(&self) -> Vec<StepRecord> {
        self.done.iter().cloned().chain(self.running.iter().map(Step::record)).collect()
    }

    pub(super) fn running(&self) -> Vec<RunningStep> {
        self.running
            .iter()
            .map(|s| RunningStep {
                step: s.id,
                name: s.name.clone(),
                tasks: s.tasks.len() as u32,
                nodelist: s.nodelist.clone(),
                start_ms: s.start_ms,
            })
            .collect()
    }

    pub(super) fn verdicts(&self) -> Vec<(Source, RawFd, bool)> {
        let mut found = Vec::new();
        for step in &self.running {
            for (procid, task) in step.tasks.iter().enumerate() {
                if let Task::Launching { verdict, .. } = task {
                    let source = Source::StepVerdict(step.id, procid as u32);
                    found.push((source, verdict.as_raw_fd(), false));
                }
            }
        }
        found
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        let steps = self.running.iter().filter_map(Step::next_deadline).min();
        let leaving = self.leaving.as_ref().map(resize::Leaving::next_look);
        [steps, leaving].into_iter().flatten().min()
    }

    pub(super) fn signal_all(&self, signal: Signal) {
        for step in &self.running {
            step.group.signal(signal);
        }
    }

    pub(super) fn signal(&self, step: u32, signal: Signal) {
        if let Some(step) = self.running.iter().find(|s| s.id == step) {
            step.group.signal(signal);
        }
    }

    pub(super) fn forget_waiting(&mut self, client: u64) {
        self.waiting.retain(|(id, _)| *id != client);
    }

    /// The client of a step is gone: the step ends, as it does when `srun` is killed.
    pub(super) fn client_left(&mut self, step: u32) {
        let grace_s = self.grace_s;
        if let Some(step) = self.running.iter_mut().find(|s| s.id == step) {
            step.client = None;
            step.abandon_awaited();
            step.end(EndCause::Stopped, grace_s);
        }
    }

    /// Takes a child in if it is a task; false when it is not.
    pub(super) fn take_in(&mut self, ended: &Ended) -> bool {
        let grace_s = self.grace_s;
        for step in &mut self.running {
            let Some(at) = step.tasks.iter().position(|t| t.pid() == Some(ended.pid)) else {
                continue;
            };
            step.usage.add(ended);
            let events = step.task_ended(at, ended, grace_s);
            self.events.extend(events);
            return true;
        }
        false
    }

    /// Removes the cgroups of steps, as far as they are empty.
    pub(super) fn remove_groups(&mut self) {
        for step in &self.running {
            step.group.remove_if_empty();
        }
    }

    /// The job is over and so is every step.
    pub(super) fn end_all(&mut self) {
        for mut step in std::mem::take(&mut self.running) {
            step.cause.get_or_insert(EndCause::Stopped);
            self.close(&step);
        }
        for (client, _) in std::mem::take(&mut self.waiting) {
            let message = "the job ended while the step waited".to_owned();
            let code = "step.job_ended".to_owned();
            self.events.push((client, Event::Refused { code, message, hint: None }));
        }
    }

    fn close(&mut self, step: &Step) {
        self.busy.mark(&step.layout, false);
        self.freed = true;
        let mut record = step.record();
        record.ended = Some(timestamp(now_ms()));
        if let Some(client) = step.client {
            let cause = step.cause.unwrap_or(EndCause::Exited);
            self.events
                .push((client, Event::StepEnded { step: step.id, status: step.status, cause }));
        }
        self.fresh_records.push(record.clone());
        if self.done.len() < STEP_RECORDS_MAX {
            self.done.push(record);
        }
    }
}

impl Step {
    fn record(&self) -> StepRecord {
        StepRecord {
            id: StepId::Number(self.id),
            name: self.name.clone(),
            tasks: self.tasks.len() as u32,
            nodes: self.layout.parts.len() as u32,
            started: timestamp(self.start_ms),
            ended: None,
            paused_ms: 0,
            status: self.status,
            usage: Usage { ..self.usage.usage(None) },
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        let drain = self.is_over().then(|| boot_clock_ms() + DRAIN_MS);
        [self.limit_at, self.wait_until, self.kill_at, drain].into_iter().flatten().min()
    }

    fn is_over(&self) -> bool {
        self.tasks.iter().all(|t| matches!(t, Task::Over))
    }

    /// Tasks whose descriptors will not come any more.
    fn abandon_awaited(&mut self) {
        for task in &mut self.tasks {
            if matches!(task, Task::Awaited) {
                *task = Task::Over;
            }
        }
    }

    /// Asks the step's processes to end; KILL follows.
    fn end(&mut self, cause: EndCause, grace_s: u64) {
        self.cause.get_or_insert(cause);
        self.limit_at = None;
        self.wait_until = None;
        self.abandon_awaited();
        if self.kill_at.is_none() {
            self.kill_at = Some(boot_clock_ms().saturating_add(grace_s.saturating_mul(1_000)));
            let pids = self.group.pids();
            signal_pids(&pids, Signal::SIGCONT);
            signal_pids(&pids, Signal::SIGTERM);
        }
    }

    fn task_ended(&mut self, at: usize, ended: &Ended, grace_s: u64) -> Vec<(u64, Event)> {
        let mut events = Vec::new();
        let procid = at as u32;
        if let Task::Launching { .. } = self.tasks[at] {
            events.extend(self.read_verdict(procid));
            if matches!(self.tasks[at], Task::Over) {
                return events;
            }
        }
        self.tasks[at] = Task::Over;
        let given_up = self.given_up.contains(&procid);
        if !given_up {
            self.status = worse(self.status, ended.status);
        }
        if let Some(client) = self.client {
            let (status, core_dumped) = (ended.status, ended.core_dumped);
            events.push((client, Event::TaskExited { procid, status, core_dumped, given_up }));
        }
        if given_up {
            return events;
        }
        if self.spec.kill_on_bad_exit && !ended.status.success() {
            self.end(EndCause::Exited, grace_s);
        }
        if let (Some(wait_s), None) = (self.spec.wait_s, self.wait_until) {
            self.wait_until = Some(boot_clock_ms().saturating_add(u64::from(wait_s) * 1_000));
        }
        events
    }

    /// Learns whether a task runs.
    fn read_verdict(&mut self, procid: u32) -> Vec<(u64, Event)> {
        let Some(task) = self.tasks.get_mut(procid as usize) else { return Vec::new() };
        let (pid, verdict) = match std::mem::replace(task, Task::Over) {
            Task::Launching { pid, verdict } => (pid, verdict),
            other => {
                *task = other;
                return Vec::new();
            }
        };
        let event = match child::read_verdict(verdict) {
            None => {
                *task = Task::Running { pid };
                if self.kill_at.is_some() {
                    // Asked to end before its program ran: that was not heard.
                    self.group.signal(Signal::SIGTERM);
                }
                Event::TaskStarted { procid, pid }
            }
            Some(StartFailure { code, message }) => {
                self.status = worse(self.status, ExitStatus { code, signal: 0 });
                Event::TaskFailed { procid, code: i32::from(code), message }
            }
        };
        self.client.map(|client| (client, event)).into_iter().collect()
    }
}
