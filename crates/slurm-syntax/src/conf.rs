//! Lines of Slurm's configuration files: `NAME=VALUE` words, `#` begins a remark.

use crate::hostlist;
use crate::problem::{Code, Problem, quoted};
use std::collections::BTreeMap;

/// A problem with its line, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The line, from 1; zero for the file as a whole.
    pub line: u32,
    /// The column of the word, in characters from 1.
    pub column: u32,
    /// What is wrong.
    pub problem: Problem,
}

impl std::fmt::Display for FileProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.problem)
    }
}

/// A kind of file: its name, the words it has in lower case, and the code of what is wrong in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form<'a> {
    pub(crate) file: &'a str,
    pub(crate) known: &'a [&'a str],
    pub(crate) code: Code,
}

/// A line: its words by name in lower case, with their columns.
#[derive(Clone, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) number: u32,
    pub(crate) words: BTreeMap<String, (u32, &'a str)>,
    code: Code,
}

impl Form<'_> {
    /// Reads a line; `None` where it says nothing.
    pub(crate) fn line<'a>(
        &self,
        number: u32,
        line: &'a str,
    ) -> Result<Option<Line<'a>>, FileProblem> {
        let code = line.split('#').next().unwrap_or_default();
        let mut found = Line { number, words: BTreeMap::new(), code: self.code };
        let mut rest = code;
        while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
            rest = &rest[start..];
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let column = code[..code.len() - rest.len()].chars().count() as u32 + 1;
            let word = &rest[..end];
            let bad = |what: String| FileProblem {
                line: number,
                column,
                problem: Problem::new(self.code, what),
            };
            let Some((key, value)) = word.split_once('=') else {
                return Err(bad(format!("{} is not NAME=VALUE", quoted(word))));
            };
            let key = key.to_ascii_lowercase();
            if !self.known.contains(&key.as_str()) {
                return Err(bad(format!("{} has no {}", self.file, quoted(&key))));
            }
            if value.is_empty() {
                return Err(bad(format!("{key} has no value")));
            }
            if found.words.insert(key.clone(), (column, value)).is_some() {
                return Err(bad(format!("{key} is said twice")));
            }
            rest = &rest[end..];
        }
        Ok((!found.words.is_empty()).then_some(found))
    }
}

impl Line<'_> {
    pub(crate) fn wrong(&self, key: &str, what: impl Into<String>) -> FileProblem {
        let column = self.words.get(key).map_or(1, |w| w.0);
        FileProblem { line: self.number, column, problem: Problem::new(self.code, what) }
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.words.get(key).map(|w| w.1)
    }

    pub(crate) fn hosts(&self, key: &str) -> Result<Vec<String>, FileProblem> {
        let Some(text) = self.text(key) else { return Ok(Vec::new()) };
        hostlist::expand(text, hostlist::HOSTS_MAX)
            .map_err(|problem| FileProblem { problem, ..self.wrong(key, "") })
    }
}
