//! Steps: resources of the allocation lent to `srun`, and the tasks it starts on them.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use muster_api::step::{
    EndCause, Event, ExitStatus, RunningStep, StepNode, StepRecord, StepSpec, Stream, TaskLaunch,
    fold_hosts, worse,
};
use muster_model::{StepId, Usage};
use nix::sys::signal::Signal;

use super::child::{self, ChildSpec, Executable, StartFailure, Streams};
use super::ending::timestamp;
use super::layout::{Busy, Layout, NoLayout, lay_out};
use super::reap::{Ended, Totals};
use super::wait::Source;
use super::{Supervisor, signal_pids};
use crate::cgroup::Group;
use crate::environment::{TaskFacts, task_environment};
use crate::machine::{boot_clock_ms, now_ms};
use crate::spec::{LaunchSpec, STEP_RECORDS_MAX};

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
        self.running.iter().filter_map(Step::next_deadline).min()
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
        self.status = worse(self.status, ended.status);
        if let Some(client) = self.client {
            let (status, core_dumped) = (ended.status, ended.core_dumped);
            events.push((client, Event::TaskExited { procid, status, core_dumped }));
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

impl Supervisor<'_> {
    pub(super) fn create_step(&mut self, client: u64, spec: StepSpec) {
        if self.steps.running.len() + self.steps.waiting.len() >= STEPS_MAX {
            let message = format!("the job has {STEPS_MAX} steps at a time already");
            return self.refuse(client, "step.too_many", &message, None);
        }
        match lay_out(&spec, &self.spec.nodes, &self.spec.tasks, &self.steps.busy) {
            Ok(layout) => self.open_step(client, spec, layout),
            Err(NoLayout::Refused { code, message }) => self.refuse(client, code, &message, None),
            Err(NoLayout::Wait { reason }) if spec.immediate => {
                let hint = "without --immediate it waits; --overlap shares; --exact takes less";
                self.refuse(client, "step.busy", &reason, Some(hint));
            }
            Err(NoLayout::Wait { reason }) => {
                if let Some(found) = self.client(client) {
                    found.role = super::serve::Role::Waiting;
                }
                self.steps.waiting.push((client, spec));
                self.send(client, &Event::Waiting { reason });
            }
        }
    }

    fn open_step(&mut self, client: u64, spec: StepSpec, layout: Layout) {
        let id = self.steps.next;
        let group = match self.group.step(id) {
            Ok(group) => group,
            Err(error) => {
                let message = format!("cannot make the step's cgroup: {error}");
                return self.refuse(client, "step.cgroup", &message, None);
            }
        };
        self.steps.next += 1;
        self.steps.busy.mark(&layout, true);
        let node = |share: usize| &self.spec.nodes[share];
        let names: Vec<&str> = layout.parts.iter().map(|p| node(p.share).name.as_str()).collect();
        let nodelist = fold_hosts(&names);
        let nodes = layout.parts.iter().map(|p| StepNode {
            name: node(p.share).name.clone(),
            tasks: p.tasks,
            cpus: p.cpus.len() as u32,
            gpus: p.gpus.iter().map(|at| node(p.share).gpus[*at].index).collect(),
        });
        let places = layout.places.iter().map(|(node, _)| *node as u32).collect();
        let created = Event::Created { step: id, nodes: nodes.collect(), places };
        let now = boot_clock_ms();
        let step = Step {
            id,
            client: Some(client),
            name: step_name(&spec),
            tasks: layout.places.iter().map(|_| Task::Awaited).collect(),
            limit_at: spec.time_limit_s.map(|s| now.saturating_add(s.saturating_mul(1_000))),
            spec,
            layout,
            nodelist,
            group,
            start_ms: now_ms(),
            usage: Totals::default(),
            status: ExitStatus::SUCCESS,
            cause: None,
            wait_until: None,
            kill_at: None,
        };
        self.steps.fresh_records.push(step.record());
        self.steps.running.push(step);
        self.steps.events.push((client, created));
    }

    pub(super) fn launch_tasks(&mut self, client: u64, tasks: &[TaskLaunch], fds: &[OwnedFd]) {
        let Some(at) = self.steps.running.iter().position(|s| s.client == Some(client)) else {
            return self.refuse(client, "step.none", "this connection has no step", None);
        };
        for task in tasks {
            let procid = task.procid;
            let awaited = self.steps.running[at].tasks.get(procid as usize);
            if !matches!(awaited, Some(Task::Awaited)) {
                let message = format!("task {procid} is not waiting to be launched");
                self.refuse(client, "step.task", &message, None);
                continue;
            }
            match self.start_task(at, task, fds) {
                Ok(started) => {
                    self.bind_soon();
                    let step = &mut self.steps.running[at];
                    let pid = started.pid.as_raw();
                    step.group.adopt(pid);
                    step.tasks[procid as usize] = Task::Launching { pid, verdict: started.verdict };
                }
                Err(error) => {
                    let step = &mut self.steps.running[at];
                    step.tasks[procid as usize] = Task::Over;
                    step.status = worse(step.status, ExitStatus { code: 1, signal: 0 });
                    let message = format!("cannot start a process: {error}");
                    self.send(client, &Event::TaskFailed { procid, code: 1, message });
                }
            }
        }
    }

    fn start_task(
        &self,
        at: usize,
        task: &TaskLaunch,
        fds: &[OwnedFd],
    ) -> std::io::Result<child::Started> {
        let step = &self.steps.running[at];
        let descriptor = |stream: Stream| match stream {
            Stream::Null => Ok(None),
            Stream::Fd(number) => fds
                .get(usize::from(number))
                .map(|fd| Some(fd.as_raw_fd()))
                .ok_or_else(|| std::io::Error::other("a descriptor did not come with the frame")),
        };
        let streams = [descriptor(task.stdin)?, descriptor(task.stdout)?, descriptor(task.stderr)?];
        let (node, localid) = step.layout.places[task.procid as usize];
        let part = &step.layout.parts[node];
        let neighbours: Vec<String> = (0..step.layout.places.len())
            .filter(|p| step.layout.places[*p].0 == node)
            .map(|p| p.to_string())
            .collect();
        let per_node: Vec<u32> = step.layout.parts.iter().map(|p| p.tasks).collect();
        let own = |all: &[usize], count: Option<u32>| -> Vec<usize> {
            match count {
                None => all.to_vec(),
                Some(n) => {
                    all.iter().copied().skip((localid * n) as usize).take(n as usize).collect()
                }
            }
        };
        let task_gpus = own(&part.gpus, step.layout.gpus_per_task);
        let cpu_ids = &self.spec.nodes[part.share].cpu_ids;
        let cpus: Vec<u32> = own(&part.cpus, step.layout.cpus_per_task)
            .iter()
            .filter_map(|at| cpu_ids.get(*at).copied())
            .collect();
        let environment = task_environment(
            &self.spec,
            self.run_facts(),
            &step.spec.environment,
            &TaskFacts {
                step: step.id,
                procid: task.procid,
                localid,
                nodeid: node as u32,
                share: part.share,
                nodelist: &step.nodelist,
                per_node: &per_node,
                neighbours: &neighbours.join(","),
                cpus_on_node: part.cpus.len() as u32,
                cpus_per_task: step.spec.cpus_per_task,
                step_gpus: &part.gpus,
                task_gpus: &task_gpus,
            },
        );
        child::start(&ChildSpec {
            program: Executable::Command { argv: task.argv.as_deref().unwrap_or(&step.spec.argv) },
            environment: child::render_environment(&environment),
            cwd: &step.spec.cwd,
            umask: step.spec.umask.unwrap_or(self.spec.umask),
            resources: &self.spec.limits.resources,
            user: &self.spec.user,
            group: &step.group,
            streams: Streams::Descriptors(streams),
            owns_terminal: step.spec.pty && task.procid == 0,
            cpus: &cpus,
        })
    }

    pub(super) fn read_step_verdict(&mut self, step: u32, procid: u32) {
        if let Some(step) = self.steps.running.iter_mut().find(|s| s.id == step) {
            let events = step.read_verdict(procid);
            self.steps.events.extend(events);
        }
    }

    /// Deadlines of steps, steps that are over, steps that can begin now.
    pub(super) fn advance_steps(&mut self) {
        if self.steps.running.is_empty() && self.steps.waiting.is_empty() {
            return;
        }
        let now = boot_clock_ms();
        let grace_s = self.steps.grace_s;
        let mut over = Vec::new();
        for (at, step) in self.steps.running.iter_mut().enumerate() {
            if step.limit_at.is_some_and(|t| t <= now) {
                step.end(EndCause::TimeLimit, grace_s);
            }
            if step.wait_until.is_some_and(|t| t <= now) {
                step.end(EndCause::Exited, grace_s);
            }
            if step.kill_at.is_some_and(|t| t <= now) {
                step.kill_at = Some(now + 1_000);
                step.group.kill();
            }
            if step.is_over() {
                // What a task left behind ends with the step.
                step.group.kill();
                if step.group.remove_if_empty() {
                    over.push(at);
                }
            }
        }
        for at in over.into_iter().rev() {
            let step = self.steps.running.remove(at);
            self.steps.close(&step);
        }
        if std::mem::take(&mut self.steps.freed) {
            self.try_waiting();
        }
    }

    fn try_waiting(&mut self) {
        for (client, spec) in std::mem::take(&mut self.steps.waiting) {
            match lay_out(&spec, &self.spec.nodes, &self.spec.tasks, &self.steps.busy) {
                Ok(layout) => self.open_step(client, spec, layout),
                Err(_) => self.steps.waiting.push((client, spec)),
            }
        }
    }
}

fn step_name(spec: &StepSpec) -> String {
    if !spec.name.is_empty() {
        return spec.name.clone();
    }
    let program = spec.argv.first().map_or("step", String::as_str);
    program.rsplit('/').next().unwrap_or(program).to_owned()
}
