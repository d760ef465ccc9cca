//! Handing mail to the mail program.

use super::letters::Letter;
use crate::programs::Programs;
use std::path::PathBuf;
use std::process::Command;

/// The longest subject.
const SUBJECT_MAX: usize = 400;

/// The mail program and what of it runs.
pub(crate) struct Post {
    program: PathBuf,
    running: Programs,
}

impl Post {
    /// Sends by this program, called as `PROGRAM -s SUBJECT ADDRESS` with the text as its input.
    pub(crate) fn new(program: PathBuf) -> Self {
        Self { program, running: Programs::new("mail") }
    }

    /// Hands a mail over. Never waits.
    pub(crate) fn send(&mut self, letter: &Letter, text: &str) {
        if !is_address(&letter.to) {
            tracing::warn!(to = %letter.to, "no mail is sent to what is no address");
            return;
        }
        let mut command = Command::new(&self.program);
        command.args(["-s", &one_line(&letter.subject), &letter.to]);
        self.running.hand(command, text);
    }

    /// Takes leave of ended programs, ends stuck ones, and says how many still run.
    pub(crate) fn reap(&mut self) -> usize {
        self.running.reap()
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
    fn the_program_gets_subject_address_and_text() {
        let dir = tempfile::tempdir().unwrap();
        let (program, out) = (dir.path().join("mail"), dir.path().join("out"));
        let text = format!("#!/bin/sh\n(printf '%s|' \"$@\"; cat) > {}\n", out.display());
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut post = Post::new(program);
        let subject = "Slurm Job_id=1\nBcc: x".to_owned();
        let letter = Letter { to: "mara".to_owned(), subject, about: None };
        post.send(&letter, "a report\n");
        post.running.wait();
        let said = std::fs::read_to_string(out).unwrap();
        assert_eq!(said, "-s|Slurm Job_id=1 Bcc: x|mara|a report\n");
    }
}
