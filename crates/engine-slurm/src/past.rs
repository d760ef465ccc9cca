//! Jobs that are over, as `sacct` tells of them: a table, a stretch of time after the other.

use crate::{Commands, SlurmError};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// What is asked of each job: the columns that the twin reads a table of `sacct -P` by.
const COLUMNS: &str = "JobIDRaw,User,Account,Partition,Submit,Start,ElapsedRaw,TimelimitRaw,\
                           ReqCPUS,AllocCPUS,State";

/// How jobs end. With these, sacct tells of those that ended in the stretch that it is asked for.
const OVER: &str = "CD,F,TO,CA,NF,OOM,DL,BF,PR";

/// One question is about a week at most: slurmdbd builds the whole answer in its memory first.
const STRETCH_S: i64 = 7 * 86_400;

/// slurmdbd may think so long, or stand still so long in the middle.
const SILENCE: Duration = Duration::from_mins(10);

/// An answer is read in parts of this size, of which so many may wait to be read.
const PART: usize = 64 * 1024;
const PARTS_MAX: usize = 16;

/// The table of the jobs that ended between two instants. It is read as it comes, and nothing of it
/// is kept.
pub struct Past {
    commands: Commands,
    sacct: PathBuf,
    stretches: VecDeque<(i64, i64)>,
    titled: bool,
    asked: Option<Asked>,
}

/// A `sacct` that runs.
struct Asked {
    child: Child,
    command: String,
    parts: Receiver<io::Result<Vec<u8>>>,
    complaint: Receiver<Vec<u8>>,
    part: Vec<u8>,
    at: usize,
}

impl Past {
    /// Of the jobs of all users that ended from `since` up to, but not at, `until`; seconds since
    /// 1970.
    ///
    /// # Errors
    /// [`SlurmError::Missing`] where there is no `sacct` beside `squeue`.
    pub fn new(commands: &Commands, since: i64, until: i64) -> Result<Self, SlurmError> {
        let sacct = commands.beside("sacct")?;
        let mut stretches = VecDeque::new();
        let mut from = since;
        while from < until {
            let to = from.saturating_add(STRETCH_S).min(until);
            // Both ends belong to what sacct is asked for.
            stretches.push_back((from, to - 1));
            from = to;
        }
        Ok(Self { commands: commands.clone(), sacct, stretches, titled: false, asked: None })
    }

    fn ask(&mut self, (from, to): (i64, i64)) -> Result<Asked, SlurmError> {
        let (from, to) = (format!("uts{from}"), format!("uts{to}"));
        let mut words = vec!["-aXP", "-s", OVER, "-S", &from, "-E", &to, "-o", COLUMNS];
        // The titles stand once.
        words.extend(self.titled.then_some("-n"));
        self.titled = true;
        Asked::new(&self.commands, &self.sacct, &words)
    }
}

impl Read for Past {
    /// An error of sacct is a [`SlurmError`] within the error of the stream.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(asked) = &mut self.asked {
                let count = asked.read(into)?;
                if count > 0 || into.is_empty() {
                    return Ok(count);
                }
                self.asked = None;
            }
            let Some(stretch) = self.stretches.pop_front() else { return Ok(0) };
            self.asked = Some(self.ask(stretch).map_err(io::Error::other)?);
        }
    }
}

impl Asked {
    fn new(commands: &Commands, program: &Path, words: &[&str]) -> Result<Self, SlurmError> {
        let command = crate::commands::line(program, words);
        let (child, mut out, complaint) = commands.begin(program, words)?;
        let (sender, parts) = sync_channel(PARTS_MAX);
        std::thread::spawn(move || {
            loop {
                let mut part = vec![0; PART];
                let read = out.read(&mut part).map(|count| {
                    part.truncate(count);
                    part
                });
                let ends = !matches!(&read, Ok(part) if !part.is_empty());
                // Nobody reads on where the import has ended early.
                if sender.send(read).is_err() || ends {
                    return;
                }
            }
        });
        Ok(Self { child, command, parts, complaint, part: Vec::new(), at: 0 })
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() {
            self.at = 0;
            self.part = match self.parts.recv_timeout(SILENCE) {
                Ok(part) => part?,
                Err(RecvTimeoutError::Disconnected) => Vec::new(),
                Err(RecvTimeoutError::Timeout) => {
                    let (command, limit) = (self.command.clone(), SILENCE);
                    return Err(io::Error::other(SlurmError::Late { command, limit }));
                }
            };
            if self.part.is_empty() {
                return self.end().map(|()| 0);
            }
        }
        let count = into.len().min(self.part.len() - self.at);
        into[..count].copy_from_slice(&self.part[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }

    /// Its output is over; whether it did well.
    fn end(&mut self) -> io::Result<()> {
        let status = self.child.wait()?;
        if status.success() {
            return Ok(());
        }
        let complaint = self.complaint.recv_timeout(SILENCE).unwrap_or_default();
        let said = format!("{status}: {}", String::from_utf8_lossy(&complaint).trim());
        Err(io::Error::other(SlurmError::Failed { command: self.command.clone(), said }))
    }
}

impl Drop for Asked {
    /// One that is not read to its end is ended.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn slurm(sacct: &str) -> (tempfile::TempDir, Commands) {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [("squeue", "exit 0"), ("scontrol", "exit 0"), ("sacct", sacct)] {
            let file = folder.path().join(name);
            std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("a script");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(file, mode).expect("its mode");
        }
        let commands = Commands::of(folder.path()).expect("all");
        (folder, commands)
    }

    fn text(sacct: &str, since: i64, until: i64) -> io::Result<String> {
        let (_folder, commands) = slurm(sacct);
        let mut text = String::new();
        Past::new(&commands, since, until).expect("sacct").read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn long_times_are_asked_for_in_weeks_with_one_line_of_titles() {
        let said = text(r#"echo "$5 $7 ${10}" "$SLURM_TIME_FORMAT""#, 0, STRETCH_S + 10);
        let said = said.expect("read");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines, ["uts0 uts604799  %s", "uts604800 uts604809 -n %s"]);
        assert_eq!(text("echo never", 5, 5).expect("read"), "");
    }

    #[test]
    fn a_sacct_that_fails_ends_it_with_what_it_complained_of() {
        let failed = text("echo a line; echo 'accounting storage is disabled' >&2; exit 1", 0, 9);
        let error = failed.expect_err("failed");
        assert!(error.to_string().contains("accounting storage is disabled"), "{error}");
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<SlurmError>());
        assert_eq!(inner.map(SlurmError::code), Some("E_SLURM_FAILED"));
    }

    #[test]
    fn more_than_waits_in_memory_is_read_whole() {
        let said = text("yes 123456789012345 | head -n 200000", 0, 9).expect("read");
        assert_eq!(said.len(), 200_000 * 16);
    }

    #[test]
    fn one_that_is_not_read_to_its_end_is_ended() {
        let (_folder, commands) = slurm("exec yes");
        let mut past = Past::new(&commands, 0, 9).expect("sacct");
        let mut some = [0; 10];
        past.read_exact(&mut some).expect("some of it");
        drop(past);
    }
}
