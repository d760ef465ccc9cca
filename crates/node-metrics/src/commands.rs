//! What the tools of drivers and filesystems answer; in a captured tree, what they once did.
//!
//! A captured tree has each answer as a file below `commands/`. On the machine itself the tool is
//! run with a limit of time and size, and only where it is installed.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::files::{ReadError, read_up_to};

/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// A tool that takes longer is ended.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Where tools are looked for beside `PATH`.
const PLACES: [&str; 2] = ["/usr/lpp/mmfs/bin", "/usr/sbin"];

/// A question to a tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    /// The file of its answer in a captured tree.
    pub(crate) name: &'a str,
    /// The program.
    pub(crate) program: &'a str,
    /// Its arguments.
    pub(crate) arguments: &'a [&'a str],
    /// What it reads.
    pub(crate) input: &'a str,
}

/// What a tool said, and why it failed after that, where it did.
pub(crate) struct Said {
    /// All that it said.
    pub(crate) text: String,
    /// How it ended, where that was no success.
    pub(crate) failed: Option<String>,
}

/// The answer to a question, of a tool that ended well.
pub(crate) fn ask(root: &Path, question: &Question<'_>) -> Result<String, ReadError> {
    let said = ask_anyway(root, question)?;
    match said.failed {
        None => Ok(said.text),
        Some(why) => Err(ReadError::Failed(question.program.to_owned(), why)),
    }
}

/// What a tool says, also where it fails after that: of what it could see it may have told.
pub(crate) fn ask_anyway(root: &Path, question: &Question<'_>) -> Result<Said, ReadError> {
    if root != Path::new("/") {
        let text = read_up_to(root, &format!("commands/{}", question.name), ANSWER_BYTES_MAX)?;
        return Ok(Said { text, failed: None });
    }
    let absent = || ReadError::Absent(question.program.to_owned());
    let program = find(question.program).ok_or_else(absent)?;
    run(&program, question, TIME_MAX)
        .map_err(|why| ReadError::Failed(question.program.to_owned(), why))
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(PLACES.iter().map(PathBuf::from));
    places.map(|place| place.join(program)).find(|file| file.is_file())
}

fn run(program: &Path, question: &Question<'_>, limit: Duration) -> Result<Said, String> {
    let mut child = Command::new(program)
        .args(question.arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that reads nothing may be gone already.
        let _ = stdin.write_all(question.input.as_bytes());
    }
    let Some(stdout) = child.stdout.take() else { return Err("it has no output".to_owned()) };
    let (send, receive) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
        let _ = send.send(read.map(|_| bytes));
    });
    let answer = receive.recv_timeout(limit);
    if answer.is_err() {
        let _ = child.kill();
    }
    let ended = end(&mut child);
    let answer = answer.map_err(|_| "it took too long and was ended".to_owned())?;
    let _ = reader.join();
    let bytes = answer.map_err(|error| error.to_string())?;
    Ok(Said { text: String::from_utf8_lossy(&bytes).into_owned(), failed: ended.err() })
}

fn end(child: &mut Child) -> Result<(), String> {
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("it ended with {status}")) }
}

#[cfg(test)]
mod tests {
    use super::{Question, ask, ask_anyway, run};
    use crate::files::ReadError;
    use crate::test_tree::tree;
    use std::time::Duration;

    fn shell<'a>(arguments: &'a [&'a str]) -> Question<'a> {
        Question { name: "answer.txt", program: "sh", arguments, input: "what?\n" }
    }

    #[test]
    fn a_tool_is_asked_and_a_captured_answer_read() {
        let live = ask("/".as_ref(), &shell(&["-c", "read a; echo $a"]));
        assert_eq!(live.as_deref(), Ok("what?\n"));
        let root = tree("commands/answer.txt: as it was\n");
        assert_eq!(ask(root.path(), &shell(&[])).as_deref(), Ok("as it was"));
        let none = Question { program: "no-such-tool", ..shell(&[]) };
        assert_eq!(ask("/".as_ref(), &none), Err(ReadError::Absent("no-such-tool".to_owned())));
        assert!(matches!(ask("/".as_ref(), &shell(&["-c", "exit 3"])), Err(ReadError::Failed(..))));
    }

    #[test]
    fn a_tool_that_hangs_is_ended() {
        let question = shell(&["-c", "exec tail -f /dev/null"]);
        let hung = run("/bin/sh".as_ref(), &question, Duration::from_millis(1));
        assert_eq!(hung.err().as_deref(), Some("it took too long and was ended"));
    }

    #[test]
    fn what_a_tool_said_before_it_failed_is_not_lost() {
        let fails = shell(&["-c", "echo most of it; exit 3"]);
        let said = ask_anyway("/".as_ref(), &fails).expect("an answer");
        assert_eq!(said.text, "most of it\n");
        assert_eq!(said.failed.as_deref(), Some("it ended with exit status: 3"));
        assert!(ask("/".as_ref(), &fails).is_err());
    }
}
