//! What is wrong with a text: the place, what was found there, and what to write instead.

use muster_model::{ApplyError, nearest};
use muster_slurm_syntax::problem::{Problem, quoted};
use std::fmt;

use crate::text::Word;

/// What a reader gives.
pub type Read<T> = Result<T, ScenarioError>;

/// The kinds of what can be wrong, each with a stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no such command, or its words are not those that it takes.
    Command,
    /// There is no such option or field.
    Option,
    /// A value cannot be read.
    Value,
    /// A job, node or another thing of that name is not there.
    Name,
    /// It is well written and cannot be done now.
    Order,
    /// It is more than a scenario may hold.
    Large,
}

impl Fault {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Command => "E_SCENARIO_COMMAND",
            Self::Option => "E_SCENARIO_OPTION",
            Self::Value => "E_SCENARIO_VALUE",
            Self::Name => "E_SCENARIO_NAME",
            Self::Order => "E_SCENARIO_ORDER",
            Self::Large => "E_SCENARIO_LARGE",
        }
    }
}

/// Why a text cannot be read or carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ScenarioError {
    /// The kind.
    pub fault: Fault,
    /// What was found: lowercase, no full stop.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
    /// The line, from 1; `None` where the text is a single line.
    pub line: Option<u32>,
    /// The column, from 1, in characters.
    pub column: Option<u32>,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{} [{}]", self.message, self.fault.code())?;
        self.hint.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

impl ScenarioError {
    /// Something wrong somewhere.
    pub(crate) fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), hint: None, line: None, column: None }
    }

    /// A value that cannot be read: `what` says what was expected.
    pub(crate) fn value(text: &str, what: &str) -> Self {
        Self::new(Fault::Value, format!("{} is not {what}", quoted(text)))
    }

    /// `whose` has no field `key`; `known` are those that it has.
    pub(crate) fn option(whose: &str, key: &str, known: &[&str]) -> Self {
        let hint = match nearest(key, known.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("it has {}", known.join(", ")),
        };
        Self::new(Fault::Option, format!("{whose} has no {}", quoted(key))).hint(hint)
    }

    /// No `what` has this name; `known` are those that there are.
    pub(crate) fn name<'a>(
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let error = Self::new(Fault::Name, format!("there is no {what} {}", quoted(name)));
        match nearest(name, known) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error,
        }
    }

    /// More than the `most` of them that a scenario may hold.
    pub(crate) fn large(what: &str, most: impl fmt::Display) -> Self {
        Self::new(Fault::Large, format!("a scenario holds at most {most} {what}"))
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same at a word, unless the place is known more exactly.
    #[must_use]
    pub(crate) fn at(mut self, word: &Word) -> Self {
        self.column.get_or_insert(word.column);
        self
    }

    /// The same in a line of a file, whose text begins so many columns further right.
    #[must_use]
    pub(crate) fn in_line(mut self, line: u32, indent: u32) -> Self {
        self.line = Some(line);
        self.column = self.column.map(|column| column + indent);
        self
    }
}

impl From<ApplyError> for ScenarioError {
    fn from(error: ApplyError) -> Self {
        Self::new(Fault::Order, error.to_string())
            .hint("say what comes before it first, or take the command out")
    }
}

impl From<Problem> for ScenarioError {
    fn from(problem: Problem) -> Self {
        let error = Self::new(Fault::Value, problem.what);
        match problem.hints.into_iter().next() {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}
