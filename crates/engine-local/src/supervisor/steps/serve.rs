//! What the supervisor does for steps: lends resources, starts tasks, watches deadlines.

use std::fmt::Write as _;
use std::os::fd::{AsRawFd, OwnedFd};

use muster_api::step::{
    CpuBind, EndCause, Event, ExitStatus, StepNode, StepSpec, Stream, TaskLaunch, fold_hosts, worse,
};
use muster_model::{CpuBindKind, IndexRanges, Mask};

use super::{STEPS_MAX, Step, Task};
use crate::environment::{TaskFacts, task_environment};
use crate::machine::{boot_clock_ms, now_ms};
use crate::supervisor::Supervisor;
use crate::supervisor::child::{self, ChildSpec, Executable, Streams};
use crate::supervisor::layout::{self, Allocation, Layout, NoLayout, lay_out};
use crate::supervisor::reap::Totals;
use crate::supervisor::serve::Role;

impl Supervisor<'_> {
    pub(in crate::supervisor) fn create_step(&mut self, client: u64, spec: StepSpec) {
        if self.steps.running.len() + self.steps.waiting.len() >= STEPS_MAX {
            let message = format!("the job has {STEPS_MAX} steps at a time already");
            return self.refuse(client, "step.too_many", &message, None);
        }
        match lay_out(&spec, self.allocation(), &self.steps.busy) {
            Ok(layout) => self.open_step(client, spec, layout),
            Err(NoLayout::Refused { code, message }) => self.refuse(client, code, &message, None),
            Err(NoLayout::Wait { reason }) if spec.immediate => {
                let hint = "without --immediate it waits; --overlap shares; --exact takes less";
                self.refuse(client, "step.busy", &reason, Some(hint));
            }
            Err(NoLayout::Wait { reason }) => {
                if let Some(found) = self.client(client) {
                    found.role = Role::Waiting;
                }
                self.steps.waiting.push((client, spec));
                self.send(client, &Event::Waiting { reason });
            }
        }
    }

    fn allocation(&self) -> Allocation<'_> {
        let gpus_fenced = self.run_facts().gpus_fenced;
        Allocation { nodes: &self.spec.nodes, job: &self.spec.tasks, gpus_fenced }
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
            given_up: std::collections::BTreeSet::new(),
        };
        self.steps.fresh_records.push(step.record());
        self.steps.running.push(step);
        self.steps.events.push((client, created));
    }

    pub(in crate::supervisor) fn launch_tasks(
        &mut self,
        client: u64,
        tasks: &[TaskLaunch],
        fds: &[OwnedFd],
    ) {
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
        let share = &self.spec.nodes[part.share];
        let (task_cpus, task_gpus) =
            (&part.task_cpus[localid as usize], &part.task_gpus[localid as usize]);
        let cpus: Vec<u32> =
            task_cpus.iter().filter_map(|at| share.cpu_ids.get(*at).copied()).collect();
        let cpu_bind = layout::cpu_bind(&step.spec);
        let notice = self.notice(step, task.procid, &cpu_bind);
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
                first_share: step.layout.parts.first().map_or(0, |first| first.share),
                nodelist: &step.nodelist,
                per_node: &per_node,
                neighbours: &neighbours.join(","),
                cpus_on_node: part.cpus.len() as u32,
                cpus_per_task: step.spec.cpus_per_task,
                distribution: step.spec.distribution,
                cpu_bind: step.spec.cpu_bind.as_ref().map(|_| &cpu_bind),
                step_gpus: &part.gpus,
                task_gpus,
            },
        );
        let argv = task.argv.as_deref().unwrap_or(&step.spec.argv);
        let elsewhere = self.elsewhere(part.share, argv);
        child::start(&ChildSpec {
            program: Executable::Command { argv: elsewhere.as_deref().unwrap_or(argv) },
            environment: child::render_environment(&environment),
            cwd: &step.spec.cwd,
            umask: step.spec.umask.unwrap_or(self.spec.umask),
            resources: &self.spec.limits.resources,
            user: &self.spec.user,
            group: &step.group,
            streams: Streams::Descriptors(streams),
            owns_terminal: step.spec.pty && task.procid == 0,
            transcript: None,
            cpus: &cpus,
            notice: &notice,
        })
    }

    /// The command that runs a task on one of the job's nodes, where that is another machine.
    fn elsewhere(&self, share: usize, argv: &[String]) -> Option<Vec<String>> {
        if share == 0 || self.spec.reach.is_empty() {
            return None;
        }
        let place = [self.spec.nodes[share].name.clone(), "--".to_owned()];
        Some([&self.spec.reach, &place[..], argv].concat())
    }

    /// What a task that is bound verbosely says on its standard error before its program runs, as
    /// Slurm words it; `{pid}` is its process.
    fn notice(&self, step: &Step, procid: u32, cpu_bind: &CpuBind) -> String {
        let (node, localid) = step.layout.places[procid as usize];
        let part = &step.layout.parts[node];
        let share = &self.spec.nodes[part.share];
        let mut text = String::new();
        if cpu_bind.verbose {
            let own = part.task_cpus[localid as usize].iter();
            let mask: Mask = own.filter_map(|at| Some(share.places.get(*at)?.id)).collect();
            let kind = match cpu_bind.kind {
                CpuBindKind::None => "NONE",
                _ => "MASK",
            };
            let done = if share.cpu_ids.is_empty() { "not set on a practice node" } else { "set" };
            let _ = writeln!(
                text,
                "cpu-bind={kind} - {}, task {procid:2} {localid:2} [{{pid}}]: mask {mask} {done}",
                share.name
            );
        }
        if layout::gpu_bind(&step.spec).verbose {
            let own = &part.task_gpus[localid as usize];
            let index = |at: &usize| Some(share.gpus.get(*at)?.index);
            let all: Mask = part.gpus.iter().filter_map(index).collect();
            let usable: Mask =
                (0..).zip(&part.gpus).filter(|(_, at)| own.contains(at)).map(|(n, _)| n).collect();
            let list: IndexRanges = own.iter().filter_map(index).collect();
            let _ = writeln!(
                text,
                "gpu-bind: usable_gres={usable}; bit_alloc={all}; local_inx={}; global_list={list}",
                own.len()
            );
        }
        text
    }

    pub(in crate::supervisor) fn read_step_verdict(&mut self, step: u32, procid: u32) {
        if let Some(step) = self.steps.running.iter_mut().find(|s| s.id == step) {
            let events = step.read_verdict(procid);
            self.steps.events.extend(events);
        }
    }

    /// Deadlines of steps, steps that are over, steps that can begin now.
    pub(in crate::supervisor) fn advance_steps(&mut self) {
        self.advance_resize();
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
            match lay_out(&spec, self.allocation(), &self.steps.busy) {
                Ok(layout) => self.open_step(client, spec, layout),
                // The job gave up nodes that it needs.
                Err(NoLayout::Refused { code, message }) => {
                    self.refuse(client, code, &message, None);
                }
                Err(NoLayout::Wait { .. }) => self.steps.waiting.push((client, spec)),
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
