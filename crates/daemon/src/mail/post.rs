//! Handing mail to the mail program.

use super::letters::Letter;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Mail programs that run at once; more mail is dropped, and said so.
const RUNNING_MAX: usize = 16;

/// A mail program that takes longer is ended.
const PATIENCE: Duration = Duration::from_mins(1);

/// The longest subject.
const SUBJECT_MAX: usize = 400;

/// The mail program and what of it runs.
pub(crate) struct Post {
    program: PathBuf,
    running: Vec<(Child, Instant)>,
}

impl Post {
    /// Sends by this program, called as `PROGRAM -s SUBJECT ADDRESS` with an empty text.
    pub(crate) fn new(program: PathBuf) -> Self {
        Self { program, running: Vec::new() }
    }

    /// Hands a mail over. Never waits.
    pub(crate) fn send(&mut self, letter: &Letter) {
        if !is_address(&letter.to) {
            tracing::warn!(to = %letter.to, "no mail is sent to what is no address");
            return;
        }
        if self.reap() >= RUNNING_MAX {
            tracing::warn!(to = %letter.to, "the mail program is slow; a mail was dropped");
            return;
        }
        let child = Command::new(&self.program)
            .args(["-s", &one_line(&letter.subject), &letter.to])
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match child {
            Ok(child) => self.running.push((child, Instant::now())),
            Err(error) => {
                tracing::warn!(program = %self.program.display(), %error, "mail cannot be sent");
            }
        }
    }

    /// Takes leave of ended programs, ends stuck ones, and says how many still run.
    pub(crate) fn reap(&mut self) -> usize {
        self.running.retain_mut(|(child, since)| {
            if since.elapsed() > PATIENCE {
                tracing::warn!("the mail program took too long and was ended");
                // It may have ended by itself just now.
                child.kill().ok();
            }
            matches!(child.try_wait(), Ok(None))
        });
        self.running.len()
    }
}

/// An address or a user's name, and nothing that a program takes for an option.
fn is_address(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._%+@,=-".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(fine)
}

fn one_line(subject: &str) -> String {
    subject.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SUBJECT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_addresses_get_mail() {
        assert!(is_address("mara@example.org") && is_address("mara"));
        for bad in ["", "-X", "a b", "a;b", "$(x)", "a\nb"] {
            assert!(!is_address(bad), "{bad:?}");
        }
    }

    #[test]
    fn the_program_gets_subject_and_address() {
        let dir = tempfile::tempdir().unwrap();
        let (program, out) = (dir.path().join("mail"), dir.path().join("out"));
        let text = format!("#!/bin/sh\nprintf '%s|' \"$@\" > {}\n", out.display());
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut post = Post::new(program);
        post.send(&Letter { to: "mara".to_owned(), subject: "Slurm Job_id=1\nBcc: x".to_owned() });
        for (mut child, _) in post.running.drain(..) {
            assert!(child.wait().unwrap().success());
        }
        let said = std::fs::read_to_string(out).unwrap();
        assert_eq!(said, "-s|Slurm Job_id=1 Bcc: x|mara|");
    }
}
