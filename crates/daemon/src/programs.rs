//! Programs of the site that are handed something and left to themselves: mail, webhooks.
//!
//! They never keep anybody waiting: what a slow program cannot take in time is dropped, with a line
//! in the log.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Programs that run at once; more is dropped, and said so.
const RUNNING_MAX: usize = 16;

/// A program that takes longer is ended.
const PATIENCE: Duration = Duration::from_mins(1);

/// The longest text: what a pipe takes without a reader.
const INPUT_MAX: usize = 32 * 1024;

/// What runs of one kind.
pub(crate) struct Programs {
    /// What each is there for, in a sentence of the log.
    what: &'static str,
    running: Vec<(Child, Instant)>,
}

impl Programs {
    /// Of this kind.
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, running: Vec::new() }
    }

    /// Starts one with a text as its standard input. Never waits.
    pub(crate) fn hand(&mut self, mut command: Command, text: &str) {
        if self.reap() >= RUNNING_MAX {
            tracing::warn!("{}: the programs are slow; one was not started", self.what);
            return;
        }
        let end = text.floor_char_boundary(INPUT_MAX);
        command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(mut child) => {
                if let Some(mut input) = child.stdin.take() {
                    // One that does not read is as good.
                    let _ = input.write_all(&text.as_bytes()[..end]);
                }
                self.running.push((child, Instant::now()));
            }
            Err(error) => {
                let program = command.get_program().to_string_lossy().into_owned();
                tracing::warn!(program, %error, "{}: the program cannot be started", self.what);
            }
        }
    }

    /// Takes leave of ended programs, ends stuck ones, and says how many still run.
    pub(crate) fn reap(&mut self) -> usize {
        let what = self.what;
        self.running.retain_mut(|(child, since)| {
            if since.elapsed() > PATIENCE {
                tracing::warn!("{what}: the program took too long and was ended");
                // It may have ended by itself just now.
                child.kill().ok();
            }
            match child.try_wait() {
                Ok(None) => true,
                Ok(Some(status)) if !status.success() => {
                    tracing::warn!(%status, "{what}: the program failed");
                    false
                }
                _ => false,
            }
        });
        self.running.len()
    }

    /// Waits for all of them; only in tests.
    #[cfg(test)]
    pub(crate) fn wait(&mut self) {
        for (mut child, _) in self.running.drain(..) {
            assert!(child.wait().unwrap().success());
        }
    }
}
