//! A scenario file: commands with the transcript that must come out.
//!
//! Lines that begin with `> ` are commands; the lines below each that begin with two blanks are
//! what it must print. Comments (`#`) and blank lines stand as they are.

use crate::command::{Scheduler, obey};
use crate::error::{Fault, Read, ScenarioError};
use crate::lab::Lab;
use std::fmt::Write as _;

/// Characters of a line.
const LINE_MAX: usize = 16_384;

/// A scenario that was run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The file as it should be.
    pub text: String,
    /// Where it first is otherwise.
    pub difference: Option<Difference>,
    /// How many commands it has.
    pub commands: u32,
    /// Where everything stood at the end.
    pub lab: Lab,
}

/// Where the transcript in a file is not what came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line in the file, from 1: the one that is otherwise, or the last one before what it
    /// lacks.
    pub line: u32,
    /// The command.
    pub command: String,
    /// The line in the file; `None` where the file lacks one.
    pub expected: Option<String>,
    /// What came out; `None` where nothing more did.
    pub happened: Option<String>,
}

/// Runs a scenario.
///
/// # Errors
/// A line cannot be read, or a command not be carried out.
pub fn run(text: &str, scheduler: &mut dyn Scheduler) -> Read<Ran> {
    let mut run = Run { lab: Lab::default(), out: String::new(), difference: None, open: None };
    let mut commands = 0;
    for (number, line) in (1u32..).zip(text.lines()) {
        if line.chars().nth(LINE_MAX).is_some() {
            let error = ScenarioError::large("characters in a line", LINE_MAX);
            return Err(error.in_line(number, 0));
        }
        if let Some(command) = line.strip_prefix("> ") {
            run.close();
            commands += 1;
            let printed = obey(&mut run.lab, scheduler, command);
            run.open(number, command, printed.map_err(|error| error.in_line(number, 2))?);
        } else if let Some(printed) = line.strip_prefix("  ").filter(|l| !l.trim().is_empty()) {
            run.expect(number, printed)?;
        } else if line.trim().is_empty() || line.starts_with('#') {
            run.close();
            let _ = writeln!(run.out, "{line}");
        } else {
            return Err(neither(line).in_line(number, 0));
        }
    }
    run.close();
    Ok(Ran { text: run.out, difference: run.difference, commands, lab: run.lab })
}

/// A line that is no command, no comment, and not what one printed.
fn neither(line: &str) -> ScenarioError {
    let mut error =
        ScenarioError::new(Fault::Command, "this line is neither a command nor a comment")
            .hint(match line.strip_prefix('>') {
            Some(command) => format!("write > {}", command.trim_start()),
            None => {
                "write > before a command, # before a comment, two blanks before what is printed"
                    .to_owned()
            }
        });
    error.column = Some(1);
    error
}

/// A scenario on the way.
struct Run {
    lab: Lab,
    out: String,
    difference: Option<Difference>,
    /// The command whose transcript is being read.
    open: Option<Open>,
}

struct Open {
    /// The last line of it so far.
    line: u32,
    command: String,
    /// What it printed and has not been compared.
    left: std::collections::VecDeque<String>,
}

impl Run {
    fn open(&mut self, line: u32, command: &str, printed: Vec<String>) {
        let _ = writeln!(self.out, "> {command}");
        for line in &printed {
            let _ = writeln!(self.out, "  {line}");
        }
        self.open = Some(Open { line, command: command.to_owned(), left: printed.into() });
    }

    /// Compares a line of the transcript.
    fn expect(&mut self, line: u32, expected: &str) -> Read<()> {
        let Some(open) = &mut self.open else {
            let error = ScenarioError::new(Fault::Command, "what is printed here is of no command")
                .hint("write it below its command, without a line between");
            return Err(error.in_line(line, 0));
        };
        open.line = line;
        let happened = open.left.pop_front();
        if happened.as_deref() != Some(expected) {
            let (command, expected) = (open.command.clone(), Some(expected.to_owned()));
            self.differ(Difference { line, command, expected, happened });
        }
        Ok(())
    }

    /// The transcript of the command ends here.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if let Some(happened) = open.left.into_iter().next() {
            let (line, command, happened) = (open.line, open.command, Some(happened));
            self.differ(Difference { line, command, expected: None, happened });
        }
    }

    fn differ(&mut self, difference: Difference) {
        self.difference.get_or_insert(difference);
    }
}
