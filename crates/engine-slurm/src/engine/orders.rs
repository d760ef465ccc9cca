//! Orders about attempts that were launched: scancel and scontrol.

use super::Shared;
use super::launch::{is_unreachable, words_of};
use super::request::{mark, minutes};
use crate::SlurmError;
use muster_engine::book::{Key, Phase};
use muster_engine::now;
use muster_engine::{EngineError, Observation};
use muster_model::{EndCause, ExitReport, Seconds, SignalScope, TimeLimit};
use std::time::{Duration, Instant};

/// The polite signal.
const TERM: &str = "--signal=TERM";

/// A job that does not go is cancelled again so often.
const AGAIN: Duration = Duration::from_mins(1);

/// What Slurm says of a job that is over, or about to be: nothing is left to do.
const OVER: [&str; 4] = [
    "Invalid job id",
    "already completing or completed",
    "has already finished",
    "Job/step already",
];

fn is_over(error: &SlurmError) -> bool {
    matches!(error, SlurmError::Failed { said, .. } if OVER.iter().any(|word| said.contains(word)))
}

impl Shared {
    /// Ends an attempt, whether or not it was launched: the polite signal, and after the grace
    /// Slurm's own end, which kills what does not go within Slurm's `KillWait`.
    pub(super) fn stop(&self, key: Key, grace: Seconds) -> Result<(), EngineError> {
        let (attempt, mark) = {
            let mut book = self.book();
            if book.is_acknowledged(key) {
                return Ok(());
            }
            book.stopping(key).map_err(|error| self.unreachable(error))?;
            (book.get(key).cloned(), mark(book.instance(), key))
        };
        let Some(attempt) = attempt else { return self.never(key) };
        if !attempt.is_open() {
            return Ok(());
        }
        let id = match attempt.id {
            Some(id) => id,
            // sbatch was asked, and nobody heard its answer.
            None => match self.find(key, &mark).map_err(|error| self.unreachable(error))? {
                Some(id) => {
                    self.book().submitted(key, id).map_err(|error| self.unreachable(error))?;
                    id
                }
                None => return self.never(key),
            },
        };
        let due = Instant::now() + Duration::from_secs(grace.0.min(u64::from(u32::MAX)));
        if grace.0 == 0 || attempt.phase == Phase::Accepted {
            self.ended(self.cancel(id))?;
            self.book().change(key, |attempt| attempt.kill_at = Some(Instant::now() + AGAIN));
        } else if let Some(before) = attempt.kill_at {
            self.book().change(key, |attempt| attempt.kill_at = Some(before.min(due)));
        } else {
            if attempt.suspended {
                // What stands still hears no polite signal.
                self.ended(self.scontrol(&["resume", &id.to_string()]).map(drop))?;
            }
            self.ended(self.scancel(&["--full", TERM, &id.to_string()]))?;
            self.book().change(key, |attempt| attempt.kill_at = Some(due));
        }
        self.bell.ring();
        Ok(())
    }

    /// It never ran and never will.
    fn never(&self, key: Key) -> Result<(), EngineError> {
        match self.exited(key, ExitReport::never_ran(EndCause::Stopped, "", now())) {
            true => Ok(()),
            false => Err(self.unreachable("the journal cannot be written")),
        }
    }

    /// What a command that ends something came to: one that is over needs no end.
    fn ended(&self, done: Result<(), SlurmError>) -> Result<(), EngineError> {
        match done {
            Err(error) if is_unreachable(&error) => Err(self.unreachable(error)),
            Err(error) if !is_over(&error) => Err(self.refused(words_of(&error))),
            _ => Ok(()),
        }
    }

    fn scancel(&self, words: &[&str]) -> Result<(), SlurmError> {
        self.config.commands.run(&self.scancel, words).map(drop)
    }

    /// Slurm's own end of a job.
    pub(super) fn cancel(&self, id: u32) -> Result<(), SlurmError> {
        self.scancel(&[&id.to_string()])
    }

    /// Cancels what has had its grace.
    pub(super) fn end_overdue(&self) {
        let due: Vec<(Key, u32)> = {
            let book = self.book();
            let open = book.iter().filter(|(_, attempt)| attempt.is_open());
            let due = open.filter(|(_, a)| a.kill_at.is_some_and(|at| at <= Instant::now()));
            due.filter_map(|(key, attempt)| Some((*key, attempt.id?))).collect()
        };
        for (key, id) in due {
            if let Err(error) = self.ended(self.cancel(id)) {
                tracing::warn!(job = %key.job, %error, "cannot be cancelled, will be tried again");
            }
            self.book().change(key, |attempt| attempt.kill_at = Some(Instant::now() + AGAIN));
        }
    }

    /// How long until something has had its grace.
    pub(super) fn next_overdue(&self) -> Option<Duration> {
        let book = self.book();
        let open = book.iter().filter(|(_, attempt)| attempt.is_open());
        let next = open.filter_map(|(_, attempt)| attempt.kill_at).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Slurm's number of an attempt that runs; `None` for one that is over or unknown.
    fn running(
        &self,
        key: Key,
    ) -> Result<Option<(u32, muster_engine::book::Attempt)>, EngineError> {
        let book = self.book();
        match book.get(key).filter(|attempt| attempt.is_open()) {
            None => Ok(None),
            Some(attempt) => match (attempt.id, &attempt.phase) {
                (Some(id), Phase::Running(_)) => Ok(Some((id, attempt.clone()))),
                _ => Err(self.unreachable("Slurm has not started the job yet")),
            },
        }
    }

    /// Delivers a signal once: it counts as delivered before it is sent, and no more where it is
    /// certain that it was not.
    pub(super) fn signal(
        &self,
        key: Key,
        number: u32,
        signal: u8,
        scope: SignalScope,
    ) -> Result<(), EngineError> {
        let Some((id, attempt)) = self.running(key)? else { return Ok(()) };
        if number > attempt.signalled {
            let noted = self.book().signalled(key, number);
            noted.map_err(|error| self.unreachable(error))?;
            let option = format!("--signal={signal}");
            let sent = match scope {
                SignalScope::Steps => self.scancel(&[&option, &id.to_string()]),
                SignalScope::Batch => self.scancel(&["--batch", &option, &id.to_string()]),
                SignalScope::All => self.scancel(&["--full", &option, &id.to_string()]),
                SignalScope::Step(step) => self.scancel(&[&option, &format!("{id}.{step}")]),
            };
            match sent {
                // Nobody knows whether one that got no answer in time was delivered.
                Err(error @ SlurmError::Failed { .. }) if is_unreachable(&error) => {
                    let undone = self.book().signalled(key, attempt.signalled);
                    undone.map_err(|error| self.unreachable(error))?;
                    return Err(self.unreachable(error));
                }
                Err(error) => tracing::warn!(job = %key.job, %error, "a signal may be lost"),
                Ok(()) => {}
            }
        }
        self.tell(Observation::Signalled { job: key.job, number });
        Ok(())
    }

    /// Makes a job stand still or go on, which Slurm lets its operators do.
    pub(super) fn suspend(&self, key: Key, suspend: bool) -> Result<(), EngineError> {
        let Some((id, attempt)) = self.running(key)? else { return Ok(()) };
        if attempt.suspended == suspend {
            return Ok(());
        }
        let word = if suspend { "suspend" } else { "resume" };
        let done = self.scontrol(&[word, &id.to_string()]).map(drop);
        self.bell.ring();
        self.ended(done)
    }

    /// Slurm counts limits in whole minutes.
    pub(super) fn limit(&self, key: Key, limit: TimeLimit) -> Result<(), EngineError> {
        let Some(id) = self.book().get(key).filter(|a| a.is_open()).and_then(|a| a.id) else {
            return Ok(());
        };
        let (job, time) = (format!("JobId={id}"), format!("TimeLimit={}", minutes(limit)));
        self.ended(self.scontrol(&["update", &job, &time]).map(drop))
    }

    /// Gives up all nodes but these, at once: Slurm knows no grace here.
    pub(super) fn resize(&self, key: Key, nodes: &[String]) -> Result<(), EngineError> {
        let Some((id, _)) = self.running(key)? else { return Ok(()) };
        let (job, list) = (format!("JobId={id}"), format!("NodeList={}", nodes.join(",")));
        self.ended(self.scontrol(&["update", &job, &list]).map(drop))?;
        self.book().change(key, |attempt| {
            attempt.spots.retain(|spot| nodes.contains(&spot.node));
        });
        let (job, attempt, nodes) = (key.job, key.attempt, nodes.to_vec());
        self.tell(Observation::Resized { job, attempt, nodes });
        Ok(())
    }

    /// Forgets an attempt that is over.
    pub(super) fn acknowledge(&self, key: Key) -> Result<(), EngineError> {
        let mut book = self.book();
        match book.get(key).is_some_and(|attempt| !attempt.is_open()) {
            true => book.acknowledge(key).map_err(|error| self.unreachable(error)),
            false => Ok(()),
        }
    }
}
