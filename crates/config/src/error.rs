//! What is wrong with a configuration, and where.

use std::fmt;

/// A file that cannot be used: everything that is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigError {
    /// Never empty, in the order of the file.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// The stable code.
    pub code: &'static str,
    /// The file, or what else the text is.
    pub source: String,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column in characters, from 1.
    pub column: Option<u32>,
    /// What was expected and found.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl ConfigError {
    /// One problem with a file as a whole.
    pub(crate) fn of_file(code: &'static str, source: &str, message: String, hint: &str) -> Self {
        let problem = Problem {
            code,
            source: source.to_owned(),
            message,
            hint: Some(hint.to_owned()),
            ..Problem::default()
        };
        Self { problems: vec![problem] }
    }

    /// The code of the first.
    pub fn code(&self) -> &'static str {
        self.problems.first().map_or("E_CONFIG_INVALID", |p| p.code)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        write!(f, ": {} [{}]", self.message, self.code)?;
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
