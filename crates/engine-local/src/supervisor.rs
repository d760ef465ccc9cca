//! The supervisor: one small process with one thread that looks after one job.
//!
//! Forked by the shepherd, it claims the job's directory, starts the script, enforces the time
//! limit and orders, serves the job's steps, kills what is left at the end, writes the exit record
//! and pokes the daemon. It needs nobody: daemon and shepherd may come and go.
// `_exit` at the end of the forked process.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

use muster_api::step::{EndCause, ExitStatus};
use muster_model::StopCause;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::cgroup::{Group, GroupLimits};
use crate::environment::{RunFacts, batch_environment};
use crate::failpoint::failpoint;
use crate::machine::{boot_clock_ms, now_ms, this_process};
use crate::pool::Seat;
use crate::shepherd::Shared;
use crate::spec::{HOLD_CONNECT_S, JobKey, LaunchSpec, Poke, ProcessId, Program, StdioSpec};

mod child;
mod claim;
mod ending;
mod layout;
mod notes;
mod quick;
mod reap;
mod serve;
mod steps;
mod terminal;
mod timer;
mod transcript;
mod wait;

use child::{ChildSpec, Executable, StartFailure, Streams};
use serve::Client;
use steps::Steps;
use terminal::Terminal;
use wait::{Source, wait};

/// A job that ends within this time is not told of before: what it costs the daemon to hear of its
/// start would be a good part of what the job costs.
const TELL_AFTER_MS: u64 = 10;

/// How long after a start processes are moved into their cpuset.
const BIND_AFTER_MS: u64 = 100;

/// Runs a supervisor in the forked child of the shepherd; never returns.
pub(crate) fn run(shared: &Shared, launch: &[u8], seat: Option<Seat>) -> ! {
    let code = match own_session_and_signals() {
        Ok(signals) => {
            let own = Own { process: this_process(), signals };
            serve(shared, &own, launch, seat)
        }
        Err(error) => {
            log!("supervisor: {error}");
            1
        }
    };
    // SAFETY: ends this process without running the shepherd's exit handling.
    unsafe { libc::_exit(code) }
}

/// Looks after one job, and after others as long as they come and the last left nothing behind.
fn serve(shared: &Shared, own: &Own, launch: &[u8], mut seat: Option<Seat>) -> i32 {
    let mut next = None;
    loop {
        let spec: LaunchSpec = match serde_json::from_slice(next.as_deref().unwrap_or(launch)) {
            Ok(spec) => spec,
            Err(error) => {
                log!("supervisor: launch not understood: {error}");
                return 1;
            }
        };
        let key = spec.key();
        match Supervisor::start(shared, own, spec) {
            Ok(Some(mut supervisor)) => {
                supervisor.watch();
                if !supervisor.finish() {
                    return 0;
                }
            }
            // Another launch of the same attempt was first.
            Ok(None) => return 0,
            Err(error) => {
                log!("supervisor of job {key}: {error}");
                return 1;
            }
        }
        next = seat.as_mut().and_then(Seat::next);
        if next.is_none() {
            return 0;
        }
    }
}

/// What a supervisor process is, whichever job it looks after.
pub(crate) struct Own {
    process: ProcessId,
    signals: SignalFd,
}

/// One job under supervision.
pub(crate) struct Supervisor<'a> {
    shared: &'a Shared,
    spec: LaunchSpec,
    key: JobKey,
    process: ProcessId,
    directory: PathBuf,
    socket_path: String,
    listener: Option<OwnedFd>,
    signals: &'a SignalFd,
    group: Group,
    gpus_fenced: bool,
    start_ms: u64,
    body: Body,
    ending: Option<Ending>,
    timer: timer::Timer,
    /// When the daemon is told that the job runs, on the boot clock.
    tell_at: Option<u64>,
    /// When processes started lately are bound to their CPUs for good, on the boot clock.
    bind_at: Option<u64>,
    signalled: u32,
    usage: reap::Totals,
    clients: Vec<Client>,
    client_next: u64,
    steps: Steps,
    terminal: Option<Terminal>,
}

/// What the job is about: its script, or the client that holds it.
#[derive(Debug)]
enum Body {
    /// The script's process is on its way to exec.
    Launching { pid: i32, verdict: OwnedFd },
    /// The script runs.
    Running { pid: i32 },
    /// Nothing runs by itself; `until` is when a client must have connected, on the boot clock.
    Held { until: Option<u64> },
    /// The script ended, or the client gave the allocation back.
    Over { status: ExitStatus, failure: Option<StartFailure> },
}

/// The job is being ended.
#[derive(Debug)]
struct Ending {
    cause: EndCause,
    /// Why it was ordered to end, where it was.
    stop: Option<StopCause>,
    /// When it began, UTC milliseconds.
    since_ms: u64,
    /// When KILL follows, on the boot clock.
    kill_at: u64,
    killed: bool,
}

impl<'a> Supervisor<'a> {
    /// Claims the job and starts its script; `None` when it was claimed before.
    fn start(shared: &'a Shared, own: &'a Own, spec: LaunchSpec) -> std::io::Result<Option<Self>> {
        let key = spec.key();
        failpoint("supervisor.before_claim");
        let Some(listener) = claim::claim(shared, own.process, &spec)? else { return Ok(None) };
        failpoint("supervisor.after_claim");
        let directory = shared.state.job(key);
        let socket_path =
            directory.join(muster_api::step::SOCKET_NAME).to_string_lossy().into_owned();
        let (group, refused) = make_group(shared, &spec);
        let start_ms = now_ms();
        let clock_ms = boot_clock_ms();
        let gpus_fenced = shared.cgroups.enforcement().devices
            && spec.nodes.iter().any(|n| n.gpus.iter().any(|g| g.minor.is_some()));
        let mut supervisor = Self {
            shared,
            key,
            process: own.process,
            directory,
            socket_path,
            listener: Some(listener),
            signals: &own.signals,
            group,
            gpus_fenced,
            start_ms,
            body: Body::Held { until: Some(clock_ms + HOLD_CONNECT_S * 1_000) },
            ending: None,
            timer: timer::Timer::new(clock_ms, &spec.limits),
            tell_at: None,
            bind_at: None,
            signalled: 0,
            usage: reap::Totals::default(),
            clients: Vec::new(),
            client_next: 0,
            steps: Steps::new(&spec),
            terminal: None,
            spec,
        };
        match refused {
            Some(message) => supervisor.body = not_started(StartFailure { code: 1, message }),
            None => supervisor.start_body(),
        }
        Ok(Some(supervisor))
    }

    fn start_body(&mut self) {
        let started = match &self.spec.program {
            Program::Hold => None,
            Program::Stay => {
                self.body = Body::Held { until: None };
                None
            }
            Program::Script { .. } | Program::Command { .. } => Some(self.start_script()),
        };
        match started {
            None => self.report_started(),
            Some(Ok((pid, Some(verdict)))) => {
                self.body = Body::Launching { pid: pid.as_raw(), verdict };
            }
            Some(Ok((pid, None))) => {
                self.body = Body::Running { pid: pid.as_raw() };
                self.report_started_soon();
            }
            Some(Err(error)) => {
                let message = format!("cannot start a process: {error}");
                self.body = not_started(StartFailure { code: 1, message });
            }
        }
    }

    /// Starts the script; gives its process and, where it is only on its way, its verdict.
    fn start_script(&mut self) -> std::io::Result<(Pid, Option<OwnedFd>)> {
        let environment = batch_environment(&self.spec, self.run_facts());
        let script = self.directory.join(crate::directory::SCRIPT_FILE);
        let login = self.spec.login_environment.then(|| login_command(&self.spec, &script));
        let program = match (&login, &self.spec.program) {
            (Some(argv), _) | (None, Program::Command { argv }) => Executable::Command { argv },
            (None, Program::Script { text, arguments }) => {
                Executable::Script { path: &script, text, arguments }
            }
            (None, Program::Hold | Program::Stay) => {
                return Err(std::io::ErrorKind::InvalidInput.into());
            }
        };
        let (mut terminal, slave) = match self.spec.terminal {
            Some(size) => Terminal::open(size).map(|(t, s)| (Some(t), Some(s)))?,
            None => (None, None),
        };
        let mut transcript = None;
        if let (Some(terminal), Some(path)) = (&mut terminal, &self.spec.stdio.output) {
            let sender = terminal.keep_transcript()?;
            let StdioSpec { open_mode, output_required: required, .. } = self.spec.stdio;
            transcript = Some(child::TranscriptFile { path, open_mode, required, sender });
        }
        let streams = match &slave {
            Some(slave) => Streams::Descriptors([Some(slave.as_raw_fd()); 3]),
            None => Streams::Files {
                input: self.spec.stdio.input.as_deref(),
                output: self.spec.stdio.output.as_deref(),
                error: self.spec.stdio.error.as_deref(),
                open_mode: self.spec.stdio.open_mode,
            },
        };
        let spec = ChildSpec {
            program,
            environment: child::render_environment(&environment),
            cwd: &self.spec.cwd,
            umask: self.spec.umask,
            resources: &self.spec.limits.resources,
            user: &self.spec.user,
            group: &self.group,
            streams,
            owns_terminal: slave.is_some(),
            transcript,
            cpus: self.spec.nodes.first().map_or(&[], |n| n.cpu_ids.as_slice()),
            notice: "",
        };
        let started = match quick::start(&spec, self.spec.limits.memory_mib) {
            Some(pid) => (pid, None),
            None => child::start(&spec).map(|started| (started.pid, Some(started.verdict)))?,
        };
        self.terminal = terminal;
        self.bind_soon();
        Ok(started)
    }

    /// Binds to CPUs by cpuset a little later: where that means moving processes it takes longer
    /// than most short jobs run, and affinity holds them until then.
    fn bind_soon(&mut self) {
        if self.spec.nodes.iter().any(|n| !n.cpu_ids.is_empty()) {
            self.bind_at.get_or_insert(boot_clock_ms() + BIND_AFTER_MS);
        }
    }

    fn run_facts(&self) -> RunFacts<'_> {
        RunFacts {
            start_ms: self.start_ms,
            socket: &self.socket_path,
            gpus_fenced: self.gpus_fenced,
        }
    }

    /// Tells the daemon that the job runs, unless it ends in a moment: its end says so too.
    fn report_started_soon(&mut self) {
        self.tell_at = Some(boot_clock_ms() + TELL_AFTER_MS);
    }

    fn report_started(&mut self) {
        self.tell_at = None;
        let (supervisor, start_ms) = (self.process, self.start_ms);
        self.shared.poker.send(&Poke::Started { key: self.key, supervisor, start_ms });
    }

    /// Tells the daemon something of a job that runs.
    fn tell(&mut self, poke: &Poke) {
        if self.tell_at.is_some() {
            self.report_started();
        }
        self.shared.poker.send(poke);
    }

    /// Waits and acts until the job is over, apart from what is left to kill.
    fn watch(&mut self) {
        while !self.is_over() {
            self.turn();
        }
    }

    /// One round: wait for something, do what it asks for, look at the clock.
    fn turn(&mut self) {
        for (source, _) in wait(&self.sources(), self.next_deadline()) {
            match source {
                Source::Signals => self.reap(),
                Source::Verdict => self.read_verdict(),
                Source::StepVerdict(step, procid) => self.read_step_verdict(step, procid),
                Source::Listener => self.accept(),
                Source::Terminal => self.terminal_output(),
                Source::Client(id) => self.client_ready(id),
            }
        }
        self.look_at_clock();
        self.advance_steps();
        self.flush_clients();
    }

    /// What can wake this process.
    fn sources(&self) -> Vec<(Source, i32, bool)> {
        let mut sources = vec![(Source::Signals, self.signals.as_fd().as_raw_fd(), false)];
        if let Body::Launching { verdict, .. } = &self.body {
            sources.push((Source::Verdict, verdict.as_raw_fd(), false));
        }
        if let Some(listener) = &self.listener {
            sources.push((Source::Listener, listener.as_raw_fd(), false));
        }
        if let Some(fd) = self.terminal.as_ref().and_then(Terminal::descriptor) {
            let more = self.terminal.as_ref().is_some_and(Terminal::has_input_queued);
            sources.push((Source::Terminal, fd, more));
        }
        sources.extend(self.steps.verdicts());
        for client in &self.clients {
            let fd = client.connection.as_fd().as_raw_fd();
            sources.push((Source::Client(client.id), fd, client.connection.has_queued()));
        }
        sources
    }

    fn read_verdict(&mut self) {
        let over = Body::Over { status: ExitStatus::SUCCESS, failure: None };
        match std::mem::replace(&mut self.body, over) {
            Body::Launching { pid, verdict } => match child::read_verdict(verdict) {
                None => {
                    self.body = Body::Running { pid };
                    self.report_started_soon();
                    if self.ending.is_some() {
                        // Asked to end before its program ran: that was not heard.
                        self.group.signal(Signal::SIGTERM);
                    }
                }
                Some(failure) => self.body = not_started(failure),
            },
            other => self.body = other,
        }
    }

    /// Whether nothing of the job is wanted any more; what still runs is then killed.
    fn is_over(&self) -> bool {
        match &self.body {
            Body::Launching { .. } | Body::Running { .. } => false,
            Body::Over { .. } => true,
            Body::Held { .. } => {
                self.ending.as_ref().is_some_and(|e| e.killed || !self.steps.any_running())
            }
        }
    }

    fn runs_a_script(&self) -> bool {
        matches!(self.spec.program, Program::Script { .. } | Program::Command { .. })
    }

    /// Takes in every child that ended.
    fn reap(&mut self) {
        while let Ok(Some(_)) = self.signals.read_signal() {}
        for ended in reap::collect() {
            self.usage.add(&ended);
            if self.steps.take_in(&ended) {
                continue;
            }
            let is_script = match &self.body {
                Body::Running { pid } => *pid == ended.pid,
                Body::Launching { pid, .. } => {
                    if *pid == ended.pid {
                        // It may have run and ended already: the pipe knows.
                        self.read_verdict();
                    }
                    *pid_of(&self.body) == ended.pid
                }
                _ => false,
            };
            if is_script {
                self.body = Body::Over { status: ended.status, failure: None };
            }
        }
    }
}

/// The program run by the user's login shell, which first sets up what a login sets up.
fn login_command(spec: &LaunchSpec, script: &std::path::Path) -> Vec<String> {
    let shell = if spec.user.shell.is_empty() { "/bin/sh" } else { &spec.user.shell };
    let mut argv: Vec<String> =
        [shell, "-l", "-c", r#"exec "$0" "$@""#].iter().map(|w| (*w).to_owned()).collect();
    match &spec.program {
        Program::Script { arguments, .. } => {
            argv.push(script.to_string_lossy().into_owned());
            argv.extend(arguments.iter().cloned());
        }
        Program::Command { argv: own } => argv.extend(own.iter().cloned()),
        Program::Hold | Program::Stay => {}
    }
    argv
}

fn signal_pids(pids: &[i32], signal: Signal) {
    for pid in pids {
        // One that is gone already needs no signal.
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), signal).ok();
    }
}

fn pid_of(body: &Body) -> &i32 {
    match body {
        Body::Launching { pid, .. } | Body::Running { pid } => pid,
        _ => &0,
    }
}

fn not_started(failure: StartFailure) -> Body {
    Body::Over { status: ExitStatus { code: failure.code, signal: 0 }, failure: Some(failure) }
}

/// The job's cgroup; without one that was wanted, the job must not run.
fn make_group(shared: &Shared, spec: &LaunchSpec) -> (Group, Option<String>) {
    let limits = GroupLimits {
        cpu_ids: spec.nodes.first().map_or(&[], |n| n.cpu_ids.as_slice()),
        memory_mib: spec.limits.memory_mib,
        processes_max: spec.limits.processes_max,
        denied_gpu_minors: &spec.limits.denied_gpu_minors,
    };
    match shared.cgroups.create(&spec.key().to_string(), &limits) {
        Ok(group) => (group, None),
        Err(error) => {
            let message = format!("cannot make the job's cgroup: {error}");
            (Group::of_descendants(), Some(message))
        }
    }
}

/// Becomes a session of its own that adopts orphans and hears of ended children.
fn own_session_and_signals() -> std::io::Result<SignalFd> {
    // Fails only for a leader, which a fresh child is not.
    nix::unistd::setsid().ok();
    nix::sys::prctl::set_child_subreaper(true)?;
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGPIPE] {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigIgn) }?;
    }
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&mask), None)?;
    Ok(SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}
