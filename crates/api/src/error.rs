//! Errors as values: a stable code, what happened, where, what next.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Why a request was not done. The HTTP status says the kind, the code the exact case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiError {
    /// A stable code in capitals, also the name of its page in the docs.
    pub code: String,
    /// What was expected and found; lower case, no full stop.
    pub message: String,
    /// Where, if it is at a place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// All that is wrong, where it is more than one thing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// One thing that is wrong, or a warning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A stable code in capitals.
    pub code: String,
    /// What was expected and found.
    pub message: String,
    /// Where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// What to do next, or the nearest right word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A place in a script, on a command line, in the environment or in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Place {
    /// The script's or file's name, `command line`, or the variable's name.
    pub source: String,
    /// The line, counted from 1; absent where there are no lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column in characters, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl ApiError {
    /// An error with a code and a sentence.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), ..Self::default() }
    }

    /// The same with what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// An error made of problems: the first speaks for all of them.
    pub fn of_problems(problems: Vec<Problem>) -> Self {
        let first = problems.first().cloned().unwrap_or_default();
        Self {
            code: first.code,
            message: first.message,
            place: first.place,
            hint: first.hint,
            problems,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{} [{}]", self.message, self.code)?;
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ApiError {
    /// Every problem on lines of its own, each with its place, code and hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.problems.is_empty() {
            let Self { code, message, place, hint, .. } = self.clone();
            return Problem { code, message, place, hint }.fmt(f);
        }
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_what_next() {
        let problem = Problem {
            code: "TIME_INVALID".to_owned(),
            message: "found 1:2:3:4 where a time was expected".to_owned(),
            place: Some(Place { source: "a.sh".to_owned(), line: Some(2), column: Some(9) }),
            hint: Some("write days-hours:minutes".to_owned()),
        };
        let error = ApiError::of_problems(vec![problem]);
        assert_eq!(
            error.to_string(),
            "a.sh:2:9: found 1:2:3:4 where a time was expected [TIME_INVALID]\n\
             hint: write days-hours:minutes"
        );
    }
}
