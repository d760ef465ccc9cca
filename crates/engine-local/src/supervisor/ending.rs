//! How a job ends: the clock, the order to end, the last process, the record.

use std::time::Duration;

use muster_api::step::{EndCause, Event, ExitStatus, SignalScope};
use muster_model::{ExitReport, StepId, StepRecord, StopCause, Timestamp};
use nix::sys::signal::Signal;

use super::timer::Due;
use super::wait::{Source, wait};
use super::{Body, Ending, Supervisor, reap};
use crate::directory::write_exit_record;
use crate::failpoint::failpoint;
use crate::machine::{boot_clock_ms, now_ms};
use crate::spec::{ExitRecord, Poke, STEP_RECORDS_MAX};

/// How long none of the processes may die of KILL before the record is written without them. Ten
/// thousand on a busy machine take minutes, but are fewer at each look.
const UNKILLABLE_MS: u64 = 60_000;

/// How long the last output of a terminal may take to reach those attached to it.
const LAST_WORDS_MS: u64 = 2_000;

/// How often an exit record that could not be written is tried again.
const RECORD_RETRY: Duration = Duration::from_secs(1);

/// What Slurm records for a job that ran out of memory: `ExitCode 0:125`.
const OOM_STATUS: ExitStatus = ExitStatus { code: 0, signal: 125 };

impl Supervisor<'_> {
    /// When something is due next, on the boot clock.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let held = match &self.body {
            Body::Held { until } => *until,
            _ => None,
        };
        let own = match &self.ending {
            Some(ending) => Some(ending.kill_at),
            None => [self.timer.next(), held].into_iter().flatten().min(),
        };
        [own, self.steps.next_deadline(), self.bind_at, self.tell_at].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn look_at_clock(&mut self) {
        let now = boot_clock_ms();
        if self.tell_at.is_some_and(|at| at <= now) {
            self.report_started();
        }
        if let Some(ending) = &mut self.ending {
            if ending.kill_at <= now {
                // Again each second until the script is gone: a kill can miss what just forked.
                ending.killed = true;
                ending.kill_at = now + 1_000;
                self.group.kill();
            }
            return;
        }
        if self.bind_at.is_some_and(|at| at <= now) {
            self.bind_at = None;
            if let Err(error) = self.group.bind_cpus() {
                log!("supervisor of job {}: cannot bind to CPUs: {error}", self.key);
            }
        }
        while let Some(due) = self.timer.take_due(now) {
            match due {
                Due::Warning(warning) => {
                    let scope = if warning.batch { SignalScope::Batch } else { SignalScope::Steps };
                    self.signal(warning.signal, scope);
                }
                Due::Limit => {
                    let grace_s = u64::from(self.spec.limits.grace_s);
                    self.begin_ending(EndCause::TimeLimit, grace_s);
                    return;
                }
            }
        }
        if matches!(self.body, Body::Held { until: Some(at) } if at <= now) {
            self.body = super::not_started(super::StartFailure {
                code: 1,
                message: "nobody connected to the allocation in time".to_owned(),
            });
        }
    }

    /// Ends the job as ordered. A later order may have a graver cause: the job's file says that.
    pub(super) fn begin_stop(&mut self, cause: Option<StopCause>, grace_s: u64) {
        self.begin_ending(EndCause::Stopped, grace_s);
        if let Some(ending) = &mut self.ending
            && ending.cause == EndCause::Stopped
        {
            ending.stop = cause.or(ending.stop.take());
        }
    }

    /// Asks every process to end; KILL follows after the grace.
    pub(super) fn begin_ending(&mut self, cause: EndCause, grace_s: u64) {
        let now = boot_clock_ms();
        let kill_at = now.saturating_add(grace_s.saturating_mul(1_000));
        match &mut self.ending {
            Some(ending) => ending.kill_at = ending.kill_at.min(kill_at),
            None => {
                let since_ms = now_ms();
                self.ending = Some(Ending { cause, stop: None, since_ms, kill_at, killed: false });
            }
        }
        if self.timer.is_suspended() {
            self.resume();
        }
        let pids = self.group.pids();
        for signal in [Signal::SIGCONT, Signal::SIGTERM] {
            super::signal_pids(&pids, signal);
        }
        self.tell_holders(&Event::Ending { cause });
    }

    /// Sends a signal as `scancel --signal` does.
    pub(super) fn signal(&mut self, number: u8, scope: SignalScope) {
        let Ok(signal) = Signal::try_from(i32::from(number)) else { return };
        let script = match &self.body {
            Body::Launching { pid, .. } | Body::Running { pid } => Some(*pid),
            _ => None,
        };
        match scope {
            SignalScope::Batch => super::signal_pids(&Vec::from_iter(script), signal),
            SignalScope::Steps => self.steps.signal_all(signal),
            SignalScope::All => self.group.signal(signal),
            SignalScope::Step(step) => self.steps.signal(step, signal),
        }
    }

    pub(super) fn suspend(&mut self) {
        if self.ending.is_none() && !self.timer.is_suspended() {
            self.timer.suspend(boot_clock_ms());
            if let Err(error) = self.group.freeze() {
                log!("supervisor of job {}: cannot suspend: {error}", self.key);
            }
            self.tell(&Poke::Suspended { key: self.key, suspended: true });
        }
    }

    pub(super) fn resume(&mut self) {
        if self.timer.is_suspended() {
            self.timer.resume(boot_clock_ms());
            if let Err(error) = self.group.thaw() {
                log!("supervisor of job {}: cannot resume: {error}", self.key);
            }
            self.tell(&Poke::Suspended { key: self.key, suspended: false });
        }
    }

    /// Kills what is left, writes the record, pokes the daemon. Returns whether this process is as
    /// it was before the job and may look after another.
    pub(super) fn finish(&mut self) -> bool {
        let counted_kib = self.group.memory_peak_kib();
        let oom_kills = self.group.oom_kills();
        let left = self.kill_the_rest();
        self.steps.end_all();
        self.last_words();
        self.note_the_end(oom_kills);
        self.listener = None;
        let record = ExitRecord {
            job: self.key.job,
            attempt: self.key.attempt,
            report: self.report(counted_kib, oom_kills, left),
        };
        failpoint("supervisor.before_exit_record");
        let written = write_exit_record(&self.directory, &record);
        failpoint("supervisor.after_exit_record");
        let poke = Poke::Exited { key: self.key, record: Some(Box::new(record.clone())) };
        let heard = self.shared.poker.send(&poke);
        if let Err(error) = written {
            log!("supervisor of job {}: cannot write the exit record: {error}", self.key);
            self.insist(&record);
            return false;
        }
        heard
            && left == 0
            && self.client_next == 0
            && self.terminal.is_none()
            && !reap::has_children()
    }

    /// Keeps trying to write the record until it stands or the daemon removed the directory.
    fn insist(&self, record: &ExitRecord) {
        while self.directory.exists() {
            wait(&[], Some(boot_clock_ms() + RECORD_RETRY.as_millis() as u64));
            if write_exit_record(&self.directory, record).is_ok() {
                let record = Some(Box::new(record.clone()));
                self.shared.poker.send(&Poke::Exited { key: self.key, record });
                return;
            }
        }
    }

    /// Kills until nothing is left; returns how many processes would not die.
    fn kill_the_rest(&mut self) -> usize {
        let mut give_up = boot_clock_ms() + UNKILLABLE_MS;
        let mut fewest: Option<usize> = None;
        let mut pause_ms = 2;
        self.reap();
        self.steps.remove_groups();
        while !self.group.remove_if_empty() {
            let now = boot_clock_ms();
            let before = *fewest.get_or_insert_with(|| self.group.pids().len());
            if now >= give_up {
                let left = self.group.pids().len();
                if left >= before {
                    return left;
                }
                fewest = Some(left);
                give_up = now + UNKILLABLE_MS;
            }
            self.group.kill();
            let signals = std::os::fd::AsRawFd::as_raw_fd(self.signals);
            wait(&[(Source::Signals, signals, false)], Some(now + pause_ms));
            pause_ms = (pause_ms * 2).min(250);
            self.reap();
            self.steps.remove_groups();
        }
        // Those that died just now are still to be counted.
        while reap::has_children() && boot_clock_ms() < give_up {
            let signals = std::os::fd::AsRawFd::as_raw_fd(self.signals);
            wait(&[(Source::Signals, signals, false)], Some(boot_clock_ms() + 100));
            self.reap();
        }
        0
    }

    /// Lets those attached see the end of the output.
    fn last_words(&mut self) {
        self.terminal_output();
        self.queue_step_events();
        let cause = self.ending.as_ref().map_or(EndCause::Exited, |e| e.cause);
        self.tell_holders(&Event::Ending { cause });
        let give_up = boot_clock_ms() + LAST_WORDS_MS;
        loop {
            self.flush_clients();
            let waiting = self.queued_sources();
            if waiting.is_empty() || boot_clock_ms() >= give_up {
                return;
            }
            wait(&waiting, Some(give_up));
        }
    }

    fn report(&mut self, counted_kib: Option<u64>, oom_kills: u64, left: usize) -> ExitReport {
        let (own_status, failure) = match &self.body {
            Body::Over { status, failure } => (*status, failure.clone()),
            _ => (ExitStatus::SUCCESS, None),
        };
        let cause = match (&self.ending, &failure) {
            (Some(ending), _) => ending.cause,
            (None, Some(_)) => EndCause::LaunchFailed,
            // Whatever the script makes of it: its results are not to be trusted, as in Slurm.
            (None, None) if oom_kills > 0 => EndCause::OutOfMemory,
            (None, None) => EndCause::Exited,
        };
        let status = if cause == EndCause::OutOfMemory { OOM_STATUS } else { own_status };
        let usage = self.usage.usage(counted_kib);
        let message = match (failure, cause) {
            (Some(failure), EndCause::LaunchFailed) => failure.message,
            (_, EndCause::OutOfMemory) => format!(
                "{oom_kills} process(es) killed for memory: the job has {} MiB and used {} MiB",
                self.spec.limits.memory_mib.unwrap_or(0),
                usage.memory_peak_kib.div_ceil(1024)
            ),
            _ if left > 0 => format!("{left} processes could not be ended"),
            _ => String::new(),
        };
        let started = (cause != EndCause::LaunchFailed).then_some(timestamp(self.start_ms));
        let ended = timestamp(now_ms());
        let mut steps = Vec::new();
        if started.is_some() && self.runs_a_script() {
            steps.push(StepRecord {
                id: StepId::Batch,
                name: "batch".to_owned(),
                tasks: 1,
                nodes: 1,
                started: timestamp(self.start_ms),
                ended: Some(ended),
                paused_ms: 0,
                status,
                usage,
            });
        }
        steps.extend(self.steps.records());
        steps.truncate(STEP_RECORDS_MAX);
        ExitReport { status, cause, started, ended, usage, message, steps }
    }
}

pub(super) fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms as i64)
}
