//! A step from its creation to its end, over the connection to the job's supervisor.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use muster_api::step::{
    Connection, EndCause, Event, ExitStatus, Request, StepNode, StepSpec, TaskLaunch, WireError,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};

use super::multi_prog;
use super::options::{Options, Target};
use super::report::{Failures, shell_code};
use super::streams::{Broadcast, Descriptors, Job, Opener, Pump, Stream, Who, own_input};
use super::terminal::{self, Terminal};
use crate::clock;
use crate::out;
use crate::signals::Signals;

/// Tasks launched with one frame: their three streams fit into its descriptors.
const TASKS_PER_FRAME: usize = 64;

/// Tasks that fail within this time share a line, in milliseconds.
const FAILURES_MS: u16 = 100;

/// A second interrupt within this time goes to the tasks (srun manual).
const INTERRUPT_WINDOW: Duration = Duration::from_secs(1);

/// A step to be run.
pub(crate) struct Step<'a> {
    /// What srun was asked for.
    pub(crate) options: &'a Options,
    /// What the supervisor is asked for.
    pub(crate) spec: StepSpec,
    /// The job around it.
    pub(crate) job: Job,
}

/// What became of the tasks so far.
struct Progress {
    step: u32,
    nodes: Vec<StepNode>,
    places: Vec<u32>,
    running: Vec<bool>,
    worst: i32,
    failures: Failures,
    ended: Option<(ExitStatus, EndCause)>,
}

impl Step<'_> {
    /// Runs it; returns the exit code, the highest of all tasks.
    ///
    /// # Errors
    /// A message without `srun: error: `: the step could not be made or its files not be opened.
    pub(crate) fn run(self, connection: &mut Connection) -> Result<i32, String> {
        let mut signals = Signals::take(&[
            SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGWINCH,
        ])
        .map_err(|error| format!("signals: {error}"))?;
        let wire = |error: WireError| error.to_string();
        connection.send(&Request::CreateStep(Box::new(self.spec.clone())), &[]).map_err(wire)?;
        let Some(mut progress) = self.created(connection, &mut signals)? else {
            return Ok(128 + SIGINT);
        };
        let directory = PathBuf::from(&self.spec.cwd);
        let tasks = progress.places.len() as u32;
        let mut opener = Opener::new(self.options, &self.job, progress.step, tasks, &directory);
        let mut broadcast = None;
        let mut pty = None;
        self.launch(connection, &progress, &mut opener, &mut broadcast, &mut pty)?;
        let mut pumps = std::mem::take(&mut opener.pumps);
        drop(opener);
        let mut terminal = pty.map(Terminal::beside).transpose()?;
        self.follow(
            connection,
            &mut signals,
            &mut progress,
            &mut pumps,
            broadcast.as_mut(),
            terminal.as_mut(),
        )?;
        drain(&mut pumps, terminal.as_mut());
        drop(terminal);
        complain(&mut progress, false);
        Ok(self.close(&mut progress))
    }

    /// Waits for the step's resources; `None` where an interrupt ended the wait.
    fn created(
        &self,
        connection: &mut Connection,
        signals: &mut Signals,
    ) -> Result<Option<Progress>, String> {
        let mut waited = false;
        loop {
            while let Some(event) = next_event(connection)? {
                match event {
                    Event::Refused { message, hint, .. } => {
                        let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                        return Err(format!(
                            "Unable to create step for job {}: {message}{hint}",
                            self.job.id
                        ));
                    }
                    Event::Waiting { reason } => {
                        if !waited && !self.options.quiet {
                            out::say(&format!(
                                "srun: Job {} step creation temporarily disabled, retrying ({reason})",
                                self.job.id
                            ));
                        }
                        waited = true;
                    }
                    Event::Created { step, nodes, places } => {
                        if waited && !self.options.quiet {
                            out::say(&format!(
                                "srun: Step created for StepId={}.{step}",
                                self.job.id
                            ));
                        }
                        let running = vec![true; places.len()];
                        return Ok(Some(Progress {
                            step,
                            nodes,
                            places,
                            running,
                            worst: 0,
                            failures: Failures::default(),
                            ended: None,
                        }));
                    }
                    Event::Ending { cause } => return Err(format!("the job ends ({cause:?})")),
                    _ => {}
                }
            }
            wait(&mut [(connection.as_fd(), false), (signals.as_fd(), false)], PollTimeout::NONE)?;
            if signals.came().iter().any(|signal| [SIGINT, SIGTERM, SIGQUIT].contains(signal)) {
                out::say("srun: Cancelled pending job step");
                return Ok(None);
            }
        }
    }

    fn launch(
        &self,
        connection: &mut Connection,
        progress: &Progress,
        opener: &mut Opener<'_>,
        broadcast: &mut Option<Broadcast>,
        pty: &mut Option<File>,
    ) -> Result<(), String> {
        let tasks = progress.places.len();
        let programs = self.programs(tasks as u32)?;
        let ranks: Vec<usize> = (0..tasks).collect();
        for part in ranks.chunks(TASKS_PER_FRAME) {
            let mut descriptors = Descriptors::default();
            let mut launches = Vec::with_capacity(part.len());
            for &rank in part {
                let [stdin, stdout, stderr] =
                    self.streams(rank, progress, opener, broadcast, pty)?;
                launches.push(TaskLaunch {
                    procid: rank as u32,
                    stdin: descriptors.number(&stdin),
                    stdout: descriptors.number(&stdout),
                    stderr: descriptors.number(&stderr),
                    argv: programs.as_ref().map(|programs| programs[rank].clone()),
                });
            }
            debug_assert!(descriptors.len() <= 3 * TASKS_PER_FRAME);
            connection
                .send(&Request::Launch { tasks: launches }, &descriptors.borrowed())
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The command line of each task, where `--multi-prog` gives them their own.
    fn programs(&self, tasks: u32) -> Result<Option<Vec<Vec<String>>>, String> {
        if !self.options.multi_prog {
            return Ok(None);
        }
        let path = self.spec.argv.first().map(String::as_str).unwrap_or_default();
        let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
        let mut text = String::new();
        file.take(multi_prog::FILE_BYTES_MAX as u64)
            .read_to_string(&mut text)
            .map_err(|error| format!("{path}: {error}"))?;
        multi_prog::read(&text, path, tasks).map(Some)
    }

    /// Standard input, output and error of a task.
    fn streams(
        &self,
        rank: usize,
        progress: &Progress,
        opener: &mut Opener<'_>,
        broadcast: &mut Option<Broadcast>,
        pty: &mut Option<File>,
    ) -> Result<[Stream; 3], String> {
        if self.options.pty && rank == 0 {
            let pair = terminal::open()?;
            *pty = Some(pair.master);
            let slave = Rc::new(pair.slave);
            return Ok([Some(Rc::clone(&slave)), Some(Rc::clone(&slave)), Some(slave)]);
        }
        let place = progress.places[rank];
        let name = progress.nodes.get(place as usize).map_or("", |node| node.name.as_str());
        let who = Who { task: rank as u32, node_index: place, node_name: name };
        let stdin = match &self.options.input {
            Target::File(_) => opener.input(who)?,
            Target::Nothing => None,
            _ if self.options.pty => None,
            Target::Task(task) if *task != who.task => None,
            Target::Srun if progress.places.len() > 1 => {
                if broadcast.is_none() {
                    *broadcast = Some(Broadcast::new()?);
                }
                broadcast.as_mut().map(Broadcast::add).transpose()?.map(Rc::new)
            }
            Target::Task(_) | Target::Srun => Some(Rc::new(own_input()?)),
        };
        Ok([stdin, opener.output(who)?, opener.error(who)?])
    }

    /// Passes data and signals on until the step has ended.
    fn follow(
        &self,
        connection: &mut Connection,
        signals: &mut Signals,
        progress: &mut Progress,
        pumps: &mut Vec<Pump>,
        mut broadcast: Option<&mut Broadcast>,
        mut terminal: Option<&mut Terminal>,
    ) -> Result<(), String> {
        let mut interrupted: Option<Instant> = None;
        loop {
            Self::take_events(connection, progress)?;
            // What is left to say at the end waits until the caller's terminal is its own again.
            if progress.ended.is_some() {
                return Ok(());
            }
            if progress.failures.are_due() {
                complain(progress, terminal.is_some());
            }
            let timeout = match progress.failures.is_empty() {
                true => PollTimeout::NONE,
                false => PollTimeout::from(FAILURES_MS),
            };
            let ready = {
                let mut fds = vec![(connection.as_fd(), false), (signals.as_fd(), false)];
                fds.extend(pumps.iter().map(|pump| (pump.pipe.as_fd(), false)));
                let copying = broadcast.as_deref().filter(|b| b.is_open());
                fds.extend(copying.map(|b| (b.source(), false)));
                if let Some(terminal) = terminal.as_deref() {
                    fds.extend(terminal.output_open.then(|| (terminal.master.as_fd(), false)));
                    fds.extend(terminal.input_open.then(|| (terminal.input.as_fd(), false)));
                }
                wait(&mut fds, timeout)?;
                fds.into_iter().map(|(_, ready)| ready).collect::<Vec<bool>>()
            };
            let mut ready = ready.into_iter().skip(1);
            if ready.next() == Some(true) {
                for signal in signals.came() {
                    self.on_signal(
                        signal,
                        connection,
                        progress,
                        &mut interrupted,
                        terminal.as_deref(),
                    )?;
                }
            }
            pumps.retain_mut(|pump| ready.next() != Some(true) || pump.pump());
            if let Some(broadcast) = broadcast.as_deref_mut().filter(|b| b.is_open())
                && ready.next() == Some(true)
            {
                broadcast.copy();
            }
            if let Some(terminal) = terminal.as_deref_mut() {
                if terminal.output_open && ready.next() == Some(true) {
                    terminal.output_open = terminal.show();
                }
                if terminal.input_open && ready.next() == Some(true) {
                    terminal.type_in();
                }
            }
        }
    }

    fn take_events(connection: &mut Connection, progress: &mut Progress) -> Result<(), String> {
        loop {
            match next_event(connection) {
                Ok(Some(event)) => Self::on_event(event, progress),
                Ok(None) => break,
                Err(message) => {
                    if progress.ended.is_none() {
                        return Err(message);
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    fn on_event(event: Event, progress: &mut Progress) {
        match event {
            Event::TaskFailed { procid, code, message } => {
                // Slurm's step daemon gives the system's error number as the exit code.
                let code = match code {
                    127 => 2,
                    126 => 13,
                    other => other as u8,
                };
                let node = progress.node_of(procid).to_owned();
                out::say(&format!("slurmstepd-{node}: error: {message}"));
                progress.over(procid, ExitStatus { code, signal: 0 });
            }
            Event::TaskExited { procid, given_up: true, .. } => {
                out::say(&format!("srun: task {procid}: its node was given up"));
                progress.over(procid, ExitStatus::SUCCESS);
            }
            Event::TaskExited { procid, status, .. } => progress.over(procid, status),
            Event::StepEnded { status, cause, .. } => progress.ended = Some((status, cause)),
            _ => {}
        }
    }

    fn on_signal(
        &self,
        signal: i32,
        connection: &mut Connection,
        progress: &Progress,
        interrupted: &mut Option<Instant>,
        terminal: Option<&Terminal>,
    ) -> Result<(), String> {
        let step = format!("{}.{}", self.job.id, progress.step);
        let send = match signal {
            SIGWINCH => {
                if let Some(terminal) = terminal {
                    terminal::resize(&terminal.master);
                }
                None
            }
            SIGCONT => None,
            SIGINT if self.options.disable_status => Some(SIGINT),
            SIGINT => match *interrupted {
                Some(at) if at.elapsed() < INTERRUPT_WINDOW => {
                    out::say(&format!("srun: sending Ctrl-C to StepId={step}"));
                    Some(SIGINT)
                }
                _ => {
                    out::say("srun: interrupt (one more within 1 sec to abort)");
                    let tasks: muster_model::IndexRanges = progress
                        .running
                        .iter()
                        .zip(0_u32..)
                        .filter_map(|(running, rank)| running.then_some(rank))
                        .collect();
                    let many = if tasks.len() == 1 { "task" } else { "tasks" };
                    out::say(&format!("srun: StepId={step} {many} {tasks}: running"));
                    *interrupted = Some(Instant::now());
                    None
                }
            },
            SIGTERM | SIGHUP if interrupted.is_some_and(|at| at.elapsed() < INTERRUPT_WINDOW) => {
                Some(SIGKILL)
            }
            SIGTERM | SIGHUP => {
                if !self.options.quiet {
                    out::say("srun: forcing job termination");
                }
                *interrupted = Some(Instant::now());
                Some(SIGTERM)
            }
            other => Some(other),
        };
        let Some(signal) = send else { return Ok(()) };
        match connection.send(&Request::Signal { signal: signal as u8, step: None }, &[]) {
            Ok(()) | Err(WireError::Closed) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Says how it ended, where that was not by itself; returns the exit code.
    fn close(&self, progress: &mut Progress) -> i32 {
        let Some((status, cause)) = progress.ended else { return progress.worst };
        let id = format!("{}.{}", self.job.id, progress.step);
        let node = progress.nodes.first().map_or("", |node| node.name.as_str());
        let why = match cause {
            EndCause::TimeLimit => Some(" DUE TO TIME LIMIT"),
            EndCause::Stopped => Some(""),
            EndCause::OutOfMemory => {
                out::say(&format!(
                    "slurmstepd-{node}: error: Detected 1 oom_kill event in StepId={id}. Some of the step tasks have been OOM Killed."
                ));
                None
            }
            _ => None,
        };
        if let Some(why) = why.filter(|_| !self.options.quiet) {
            let now = clock::instant(clock::now());
            out::say(&format!(
                "slurmstepd-{node}: error: *** STEP {id} ON {node} CANCELLED AT {now}{why} ***"
            ));
        }
        // What every task said itself counts; the step's own word is for those that said nothing.
        let all_said = !progress.running.contains(&true);
        if all_said { progress.worst } else { progress.worst.max(shell_code(status)) }
    }
}

impl Progress {
    fn node_of(&self, task: u32) -> &str {
        let place = self.places.get(task as usize).copied().unwrap_or(0);
        self.nodes.get(place as usize).map_or("", |node| node.name.as_str())
    }

    fn over(&mut self, task: u32, status: ExitStatus) {
        if let Some(running) = self.running.get_mut(task as usize) {
            *running = false;
        }
        self.worst = self.worst.max(shell_code(status));
        let node = self.node_of(task).to_owned();
        self.failures.note(&node, task, status);
    }
}

/// Says which tasks failed. A raw terminal does not go back to the first column by itself.
fn complain(progress: &mut Progress, raw: bool) {
    let back = if raw { "\r" } else { "" };
    for line in progress.failures.take() {
        out::say(&format!("srun: error: {line}{back}"));
    }
}

/// What is still in the pipes when every process of the step is gone.
fn drain(pumps: &mut Vec<Pump>, terminal: Option<&mut Terminal>) {
    for pump in pumps.iter_mut() {
        while has_data(pump.pipe.as_fd()) && pump.pump() {}
    }
    pumps.clear();
    if let Some(terminal) = terminal {
        while has_data(terminal.master.as_fd()) && terminal.show() {}
    }
}

/// Whether a read would not wait.
fn has_data(fd: std::os::fd::BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

/// The next event if one is there.
fn next_event(connection: &mut Connection) -> Result<Option<Event>, String> {
    match connection.try_recv() {
        Ok(Some(frame)) => frame.message.parse().map(Some).map_err(|error| error.to_string()),
        Ok(None) => Ok(None),
        Err(WireError::Closed) => Err("the job ended, and the step with it".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Waits until one of the descriptors has something, and marks those that do.
fn wait(
    fds: &mut [(std::os::fd::BorrowedFd<'_>, bool)],
    timeout: PollTimeout,
) -> Result<(), String> {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().map(|(fd, _)| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    match poll(&mut polled, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => {}
        Err(errno) => return Err(format!("poll: {errno}")),
    }
    let marks: Vec<bool> = polled.iter().map(|fd| fd.any().unwrap_or(false)).collect();
    for ((_, ready), mark) in fds.iter_mut().zip(marks) {
        *ready = mark;
    }
    Ok(())
}

/// Connects to a supervisor.
///
/// # Errors
/// It is gone, or its socket is another user's.
pub(crate) fn connect(socket: &str) -> Result<Connection, String> {
    Connection::open(std::path::Path::new(socket)).map_err(|error| error.to_string())
}
