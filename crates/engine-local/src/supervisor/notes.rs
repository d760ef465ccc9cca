//! What a job's own error file says of its end, in the words of Slurm's `slurmstepd`.
//!
//! The file is opened by a short-lived child that became the job's user, so that it is judged by
//! the user's rights and a file system that hangs does not hold the supervisor.
// Fork and what follows it in the child.
#![allow(unsafe_code)]

use std::io::Write;
use std::path::Path;

use muster_api::step::EndCause;
use muster_model::StopCause;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use super::wait::{Source, wait};
use super::{Ending, Supervisor, child};
use crate::machine::boot_clock_ms;

/// How long writing may take; a network file system that is away must not keep the job.
const WRITE_MS: u64 = 5_000;

impl Supervisor<'_> {
    /// Appends to the job's error file why the job was ended, if it did not end by itself.
    pub(super) fn note_the_end(&mut self, oom_kills: u64) {
        if !self.runs_a_script() {
            return;
        }
        let stdio = &self.spec.stdio;
        let Some(file) = stdio.error.as_ref().or(stdio.output.as_ref()).cloned() else { return };
        let node = self.spec.nodes.first().map_or("", |n| n.name.as_str());
        let text = end_text(self.key.job, node, oom_kills, self.ending.as_ref());
        if text.is_empty() {
            return;
        }
        // SAFETY: this process has one thread, so the child may do anything.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { child }) => self.wait_for_note(child),
            Ok(ForkResult::Child) => {
                let written = self.append_as_user(&file, &text);
                // SAFETY: ends the child at once, without the supervisor's own exit handling.
                unsafe { libc::_exit(i32::from(written.is_none())) }
            }
            Err(errno) => log!("supervisor of job {}: cannot fork: {errno}", self.key),
        }
    }

    /// In the child: becomes the user and writes.
    fn append_as_user(&self, file: &str, text: &str) -> Option<()> {
        child::become_user(&self.spec.user).ok()?;
        child::enter_directory(&self.spec.cwd).ok()?;
        // A pipe that nobody reads must not block; a file the job removed is not made again.
        let flags = OFlag::O_WRONLY
            | OFlag::O_APPEND
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY
            | OFlag::O_CLOEXEC;
        let file = open(Path::new(file), flags, Mode::empty()).ok()?;
        std::fs::File::from(file).write_all(text.as_bytes()).ok()
    }

    fn wait_for_note(&self, child: Pid) {
        let give_up = boot_clock_ms() + WRITE_MS;
        let signals = std::os::fd::AsRawFd::as_raw_fd(self.signals);
        loop {
            while let Ok(Some(_)) = self.signals.read_signal() {}
            match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) if boot_clock_ms() < give_up => {
                    wait(&[(Source::Signals, signals, false)], Some(give_up));
                }
                Ok(WaitStatus::StillAlive) => {
                    super::signal_pids(&[child.as_raw()], Signal::SIGKILL);
                    log!("supervisor of job {}: the error file takes too long", self.key);
                    return;
                }
                Ok(WaitStatus::Exited(_, 0)) => return,
                _ => {
                    log!("supervisor of job {}: cannot write to the error file", self.key);
                    return;
                }
            }
        }
    }
}

/// The lines for the file; empty where the job ended by itself.
fn end_text(
    job: impl std::fmt::Display,
    node: &str,
    kills: u64,
    ending: Option<&Ending>,
) -> String {
    let killed = (kills > 0).then(|| {
        let events = if kills == 1 { "event" } else { "events" };
        format!(
            "slurmstepd: error: Detected {kills} oom_kill {events} in StepId={job}.batch. \
             Some of the step tasks have been OOM Killed.\n"
        )
    });
    let ended = ending.map(|ending| {
        // A deadline is a time limit to `slurmstepd` too, and so is the end of a reservation.
        let due = match (ending.cause, &ending.stop) {
            (EndCause::TimeLimit, _)
            | (_, Some(StopCause::Deadline | StopCause::ReservationOver)) => " DUE TO TIME LIMIT",
            (_, Some(StopCause::Preempted(_))) => " DUE TO PREEMPTION",
            (_, Some(StopCause::Requeue { .. })) => " DUE TO JOB REQUEUE",
            // The nearest that Slurm has: the node is none for this job any more.
            (_, Some(StopCause::Taint(_))) => " DUE TO NODE FAILURE",
            (_, Some(StopCause::Cancelled(_) | StopCause::HetPeer) | None) => "",
        };
        let at = local_time(ending.since_ms);
        format!("slurmstepd: error: *** JOB {job} ON {node} CANCELLED AT {at}{due} ***\n")
    });
    [killed, ended].into_iter().flatten().collect()
}

/// `2026-12-01T16:04:05` in this machine's time zone.
fn local_time(ms: u64) -> String {
    let at = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let at =
        at.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_zoned_datetime(jiff::tz::TimeZone::system());
    at.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// In a job's child whose streams are set up already: says why its script does not run.
pub(super) fn script_not_run(interpreter: &str, errno: Errno, hint: &str) {
    let why = errno.desc();
    let text = match errno {
        Errno::ENOENT => {
            format!("slurmstepd: error: execve(): bad interpreter({interpreter}): {why}{hint}\n")
        }
        _ => format!("slurmstepd: error: execve(): {interpreter}: {why}{hint}\n"),
    };
    // Nowhere else to say it; the exit record says it too.
    std::io::stderr().write_all(text.as_bytes()).ok();
}

#[cfg(test)]
mod tests {
    use super::{EndCause, Ending, StopCause, end_text};
    use muster_model::JobId;

    #[test]
    fn the_lines_are_those_of_slurm() {
        let end = |cause, stop| Ending { cause, stop, since_ms: 0, kill_at: 0, killed: false };
        let ending = |cause| end(cause, None);
        let at = super::local_time(0);
        assert_eq!(
            end_text(12, "node1", 0, Some(&ending(EndCause::TimeLimit))),
            format!(
                "slurmstepd: error: *** JOB 12 ON node1 CANCELLED AT {at} DUE TO TIME LIMIT ***\n"
            )
        );
        assert_eq!(
            end_text(12, "node1", 0, Some(&ending(EndCause::Stopped))),
            format!("slurmstepd: error: *** JOB 12 ON node1 CANCELLED AT {at} ***\n")
        );
        for (stop, due) in [
            (StopCause::Cancelled(1000), ""),
            (StopCause::HetPeer, ""),
            (StopCause::Requeue { hold: false }, " DUE TO JOB REQUEUE"),
            (StopCause::Preempted(JobId(3)), " DUE TO PREEMPTION"),
            (StopCause::Deadline, " DUE TO TIME LIMIT"),
            (StopCause::Taint("maint:NoExecute".to_owned()), " DUE TO NODE FAILURE"),
        ] {
            assert_eq!(
                end_text(12, "node1", 0, Some(&end(EndCause::Stopped, Some(stop)))),
                format!("slurmstepd: error: *** JOB 12 ON node1 CANCELLED AT {at}{due} ***\n")
            );
        }
        assert_eq!(
            end_text(12, "node1", 1, None),
            "slurmstepd: error: Detected 1 oom_kill event in StepId=12.batch. \
             Some of the step tasks have been OOM Killed.\n"
        );
        assert_eq!(end_text(12, "node1", 0, None), "");
    }
}
