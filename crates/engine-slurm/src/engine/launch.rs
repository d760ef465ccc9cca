//! Launching: sbatch, asked once for each attempt, as the user whose job it is.

use super::Shared;
use super::request::{Submission, mark, submission};
use super::user::{Person, person};
use crate::SlurmError;
use crate::commands::line;
use muster_engine::book::{Key, Spot};
use muster_engine::now;
use muster_engine::{EngineError, Launch};
use muster_model::{EndCause, ExitReport};
use std::process::{Command, Stdio};

/// What Slurm's commands say where they could not ask slurmctld, or it could not answer now
/// (`slurm_errno.c` of 22.05 to 24.11). Everything else is a refusal.
const UNREACHABLE: [&str; 16] = [
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Connection reset",
    "Connection timed out",
    "No route to host",
    "Transport endpoint is not connected",
    "Unable to process configuration file",
    "Unable to establish configuration source",
    "Zero Bytes were transmitted",
    "temporarily unable to accept job",
    "Resource temporarily unavailable",
    "Protocol authentication error",
    "Invalid authentication credential",
    "standby mode",
    "unge",
];

impl Shared {
    /// Hands an attempt to Slurm. One that was handed over already, also without anybody having
    /// heard the answer, is not handed over again.
    pub(super) fn launch(&self, launch: &Launch) -> Result<(), EngineError> {
        let key = Key { job: launch.job.id, attempt: launch.job.attempt };
        let (known, mark) = {
            let book = self.book();
            let known = book.get(key).map(|attempt| (attempt.is_open(), attempt.id));
            if book.is_acknowledged(key) || matches!(known, Some((false, _) | (_, Some(_)))) {
                return Ok(());
            }
            (known.is_some(), mark(book.instance(), key))
        };
        let asked = submission(launch, &mark, &self.config.partitions)
            .and_then(|submission| Ok((submission, person(&launch.job.spec.owner)?)));
        let (submission, person) = match asked {
            Ok(both) => both,
            Err(why) => return self.fail(key, &why),
        };
        if known {
            let found = self.find(key, &mark).map_err(|error| self.unreachable(error))?;
            if let Some(id) = found {
                return self.submitted(key, id);
            }
        } else {
            let owner = launch.job.spec.owner.clone();
            let noted = self.book().accept(key, now(), owner, Spot::of(launch));
            noted.map_err(|error| self.unreachable(error))?;
        }
        match self.ask(&submission, person) {
            Ok(id) => self.submitted(key, id),
            Err(error) if is_unreachable(&error) => Err(self.unreachable(error)),
            Err(error) => self.fail(key, &format!("Slurm refused it: {}", words_of(&error))),
        }
    }

    fn submitted(&self, key: Key, id: u32) -> Result<(), EngineError> {
        let noted = self.book().submitted(key, id);
        self.bell.ring();
        noted.map_err(|error| self.unreachable(error))
    }

    /// It ends as an attempt that could not be launched.
    fn fail(&self, key: Key, why: &str) -> Result<(), EngineError> {
        let report = ExitReport::never_ran(EndCause::LaunchFailed, why, now());
        match self.exited(key, report) {
            true => Ok(()),
            false => Err(self.unreachable("the journal cannot be written")),
        }
    }

    fn ask(&self, submission: &Submission, person: Person) -> Result<u32, SlurmError> {
        let words: Vec<&str> = submission.words.iter().map(String::as_str).collect();
        let command = line(&self.sbatch, &words);
        let mut run = Command::new(&self.sbatch);
        run.args(&words).stdin(Stdio::piped()).env_clear();
        run.envs(&person.variables).envs(&submission.environment);
        if let Some(conf) = self.config.commands.conf() {
            run.env("SLURM_CONF", conf);
        }
        person.runs(&mut run, &submission.directory);
        let script = submission.script.clone().into_bytes();
        let said = self.config.commands.finish(run, command.clone(), Some(script))?;
        // `4711`, or `4711;cluster`.
        let text = String::from_utf8_lossy(&said);
        let number = text.trim().split(';').next().and_then(|id| id.parse().ok());
        number.ok_or_else(|| SlurmError::Answer { command, what: format!("no number: {text}") })
    }
}

/// True where the command may be tried again as it is: nobody refused anything.
pub(super) fn is_unreachable(error: &SlurmError) -> bool {
    match error {
        SlurmError::Failed { said, .. } => {
            // A command that could not be run, or was killed, has no exit status.
            !said.starts_with("exit status") || UNREACHABLE.iter().any(|word| said.contains(word))
        }
        // An answer that is no number may be one of a job that was taken.
        SlurmError::Late { .. } | SlurmError::Answer { .. } | SlurmError::Long { .. } => true,
        SlurmError::Missing { .. } | SlurmError::Own { .. } | SlurmError::Rest { .. } => true,
    }
}

/// What a command complained of, without its name and status.
pub(super) fn words_of(error: &SlurmError) -> String {
    let SlurmError::Failed { said, .. } = error else { return error.to_string() };
    let words: Vec<&str> = said
        .lines()
        .map(|line| line.rsplit_once("error: ").or_else(|| line.rsplit_once("fatal: ")))
        .map_while(|parts| parts.map(|(_, words)| words.trim()))
        .map(|words| words.trim_start_matches("Batch job submission failed: "))
        .collect();
    if words.is_empty() { said.clone() } else { words.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(said: &str) -> SlurmError {
        SlurmError::Failed { command: "sbatch".to_owned(), said: said.to_owned() }
    }

    #[test]
    fn a_slurmctld_that_is_away_is_no_refusal() {
        for said in [
            "exit status: 1: sbatch: error: Batch job submission failed: Unable to contact slurm \
             controller (connect failure)",
            "exit status: 1: sbatch: error: Batch job submission failed: Socket timed out on \
             send/recv operation",
            "signal: 9 (SIGKILL): ",
            "Permission denied (os error 13)",
        ] {
            assert!(is_unreachable(&failed(said)), "{said}");
        }
        let refused = failed(
            "exit status: 1: sbatch: error: invalid partition specified: x\n\
                              sbatch: error: Batch job submission failed: Invalid partition name specified",
        );
        assert!(!is_unreachable(&refused));
        assert_eq!(
            words_of(&refused),
            "invalid partition specified: x; Invalid partition name specified"
        );
    }
}
