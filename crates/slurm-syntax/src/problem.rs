//! What went wrong with a text, where it stood, and what to write instead.
//!
//! Parsers of single values return a [`Problem`]: they do not know where their text came from.
//! The readers of scripts, command lines and environments add the [`Place`] and make it a
//! [`Diagnostic`]. Each kind of problem has a [`Code`] that never changes its meaning; a page of
//! that name stands in `docs/errors`.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::codes::Code;

/// Longest piece of the user's text that is repeated in a message, in characters.
const QUOTED_MAX: usize = 120;

/// A value that cannot be read, before anybody knows where it stood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The kind of problem.
    pub code: Code,
    /// What happened: lowercase, no full stop, names the offending text.
    pub what: String,
    /// What to do next, one suggestion each.
    pub hints: Vec<String>,
}

impl Problem {
    /// A problem with no hint yet.
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), hints: Vec::new() }
    }

    /// The same problem with one more hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The message with its code in brackets, then its hints: what a command prints.
    pub fn told(&self) -> String {
        let first = format!("{} [{}]", self.what, self.code);
        let hints = self.hints.iter().map(|hint| format!("hint: {hint}"));
        std::iter::once(first).chain(hints).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for hint in &self.hints {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// Where a text stood.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the batch script; line and column count from one, the column in characters.
    Script {
        /// Line of the script, from 1.
        line: u32,
        /// Column of the word, in characters from 1.
        column: u32,
    },
    /// On the command line; words count from one.
    CommandLine {
        /// Position of the word, from 1.
        word: u32,
    },
    /// In an environment variable.
    Environment {
        /// Name of the variable.
        variable: String,
    },
    /// Nowhere in particular: the request as a whole, or something that is missing.
    Request,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script { line, column } => write!(f, "script line {line}, column {column}"),
            Self::CommandLine { word } => write!(f, "command line, word {word}"),
            Self::Environment { variable } => write!(f, "environment variable {variable}"),
            Self::Request => f.write_str("request"),
        }
    }
}

/// A problem or a warning with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// The kind of problem.
    pub code: Code,
    /// Where the text stood.
    pub place: Place,
    /// The option concerned as the user would write it (`--time`), if there is one.
    pub option: Option<String>,
    /// What happened: lowercase, no full stop.
    pub what: String,
    /// What to do next.
    pub hints: Vec<String>,
}

impl Diagnostic {
    /// Gives a problem its place.
    pub fn at(place: Place, option: Option<String>, problem: Problem) -> Self {
        Self { code: problem.code, place, option, what: problem.what, hints: problem.hints }
    }

    /// True when the request can still be accepted: a warning, not an error.
    pub fn is_warning(&self) -> bool {
        self.code.is_warning()
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_warning() { "warning" } else { "error" };
        write!(f, "{kind}[{}]: ", self.code)?;
        if self.place != Place::Request {
            write!(f, "{}: ", self.place)?;
        }
        if let Some(option) = &self.option {
            write!(f, "{option}: ")?;
        }
        f.write_str(&self.what)?;
        for hint in &self.hints {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

/// The user's text in quotes, cut to a bounded length and free of control characters.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("`");
    for (index, c) in text.chars().enumerate() {
        if index == QUOTED_MAX {
            out.push('…');
            break;
        }
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.push('`');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_says_code_place_option_and_hint() {
        let problem = Problem::new(Code::TimeBad, "`4h` is not a time").hint("write 4:00:00");
        let place = Place::Script { line: 3, column: 9 };
        let text = Diagnostic::at(place, Some("--time".into()), problem).to_string();
        assert_eq!(
            text,
            "error[E_TIME_BAD]: script line 3, column 9: --time: `4h` is not a time\nhint: write 4:00:00"
        );
    }

    #[test]
    fn quoted_text_is_bounded_and_printable() {
        assert_eq!(quoted("a\tb"), "`a\\tb`");
        assert!(quoted(&"x".repeat(100_000)).chars().count() < 130);
    }
}
