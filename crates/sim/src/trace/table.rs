//! Jobs from tables: what `sacct -P` writes, and comma-separated files of any columns by a mapping.
//!
//! A mapping says which column is what, a line each: `submit = submit_time`. Its names are those of
//! [`KEYS`]; `separator` is one character (a comma without it), `limit_unit` is `seconds` or
//! `minutes`. Instants are seconds since 1970 or `2025-01-31 12:00:00` (a `T` between will do), taken
//! as they stand; names of users, accounts and queues become numbers in the order in which they come,
//! so what is written of them names nobody.

use super::swf::read_line;
use super::{Field, SwfJob, TraceError};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};

/// What a mapping may name.
pub const KEYS: [&str; 12] = [
    "job",
    "user",
    "group",
    "queue",
    "submit",
    "start",
    "end",
    "run",
    "limit",
    "requested",
    "allocated",
    "state",
];

const SUBMIT: usize = 4;
const RUN: usize = 7;
const LIMIT: usize = 8;

/// Which column of a table is what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    separator: char,
    limit_seconds: i64,
    /// The column of each of [`KEYS`].
    columns: BTreeMap<usize, String>,
}

impl Mapping {
    /// That of `sacct -P` with the format that the documentation gives.
    pub fn sacct() -> Self {
        let names = [
            ("job", "JobIDRaw"),
            ("user", "User"),
            ("group", "Account"),
            ("queue", "Partition"),
            ("submit", "Submit"),
            ("start", "Start"),
            ("run", "ElapsedRaw"),
            ("limit", "TimelimitRaw"),
            ("requested", "ReqCPUS"),
            ("allocated", "AllocCPUS"),
            ("state", "State"),
        ];
        let at = |key| KEYS.iter().position(|known| *known == key);
        let columns = names.iter().filter_map(|(key, name)| Some((at(*key)?, (*name).to_owned())));
        Self { separator: '|', limit_seconds: 60, columns: columns.collect() }
    }

    /// Reads a mapping.
    ///
    /// # Errors
    /// A line is not of the form, names nothing known, or the submission or the processors are not
    /// named.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut mapping = Self { separator: ',', limit_seconds: 1, columns: BTreeMap::new() };
        for (at, line) in text.lines().enumerate() {
            let wrong = |expected, found: &str| wrong(at as u64 + 1, None, expected, found);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                return Err(wrong("a line such as submit = submit_time", line));
            };
            let (key, value) = (key.trim(), value.trim().trim_matches('"'));
            match (key, value) {
                ("separator", "tab" | "\\t") => mapping.separator = '\t',
                ("separator", _) => {
                    let mut chars = value.chars();
                    mapping.separator = match (chars.next(), chars.next()) {
                        (Some(one), None) => one,
                        _ => return Err(wrong("one character, or tab", value)),
                    };
                }
                ("limit_unit", "seconds") => mapping.limit_seconds = 1,
                ("limit_unit", "minutes") => mapping.limit_seconds = 60,
                _ => {
                    let known = KEYS.iter().position(|known| *known == key);
                    let known = known.ok_or_else(|| {
                        wrong("separator, limit_unit, or a name of the documentation", key)
                    })?;
                    mapping.columns.insert(known, value.to_owned());
                }
            }
        }
        let has = |key: &str| mapping.columns.keys().any(|at| KEYS[*at] == key);
        let run = has("run") || (has("start") && has("end"));
        if !has("submit") || !run || !(has("requested") || has("allocated")) {
            let expected = "submit, run (or start and end), and requested or allocated";
            return Err(wrong(1, None, expected, "a mapping without them"));
        }
        Ok(mapping)
    }
}

/// The jobs of a table, in the order of the file. It holds one line, and every name once.
pub struct Table<R> {
    reader: R,
    buffer: Vec<u8>,
    line: u64,
    mapping: Mapping,
    /// By key of [`KEYS`]: which field, from 0.
    at: [Option<usize>; KEYS.len()],
    /// Names by kind: users, groups, queues.
    names: [BTreeMap<String, i64>; 3],
    first: Option<i64>,
}

impl Table<std::io::Empty> {
    /// A table without lines, whose fields stand in the order of [`KEYS`].
    pub(super) fn by_key(mapping: Mapping) -> Self {
        let mut at = [None; KEYS.len()];
        for key in mapping.columns.keys() {
            at[*key] = Some(*key);
        }
        let names = Default::default();
        let reader = std::io::empty();
        Self { reader, buffer: Vec::new(), line: 0, mapping, at, names, first: None }
    }
}

impl<R: BufRead> Table<R> {
    /// Reads the title line.
    ///
    /// # Errors
    /// The file cannot be read, or a column of the mapping is not there.
    pub fn new(reader: R, mapping: Mapping) -> Result<Self, TraceError> {
        let (at, names) = ([None; KEYS.len()], Default::default());
        let mut table =
            Self { reader, buffer: Vec::new(), line: 0, mapping, at, names, first: None };
        let titles = table.words()?.unwrap_or_default();
        for (key, name) in &table.mapping.columns {
            let found = titles.iter().position(|title| title.eq_ignore_ascii_case(name));
            if found.is_none() {
                return Err(wrong(1, None, "the titles of the columns", &format!("no {name}")));
            }
            table.at[*key] = found;
        }
        Ok(table)
    }

    /// Counts submissions from this instant on (seconds since 1970), in place of the first one.
    #[must_use]
    pub fn from_instant(self, origin: i64) -> Self {
        Self { first: Some(origin), ..self }
    }

    /// The job of fields that stand in the order of [`KEYS`].
    pub(super) fn job_of(&mut self, words: &[String]) -> Result<SwfJob, TraceError> {
        self.line += 1;
        self.job(words)
    }

    /// The fields of the next line that is not empty.
    fn words(&mut self) -> Result<Option<Vec<String>>, TraceError> {
        loop {
            self.buffer.clear();
            if read_line(&mut self.reader, &mut self.buffer)? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if !self.buffer.trim_ascii().is_empty() {
                let text = String::from_utf8_lossy(&self.buffer);
                let text = text.trim_end_matches(['\n', '\r']);
                return Ok(Some(split(text, self.mapping.separator)));
            }
        }
    }

    fn text<'a>(&self, words: &'a [String], key: usize) -> Option<&'a str> {
        let word = words.get(self.at[key]?)?.trim();
        (!word.is_empty()).then_some(word)
    }

    fn wrong(&self, key: usize, expected: &'static str, found: &str) -> TraceError {
        wrong(self.line, self.at[key].map(|at| (at + 1, KEYS[key])), expected, found)
    }

    /// A number; -1 where there is none, or it is not known or not bounded.
    fn number(&self, words: &[String], key: usize) -> Result<i64, TraceError> {
        let Some(word) = self.text(words, key) else { return Ok(-1) };
        if matches!(
            word.to_ascii_lowercase().as_str(),
            "unlimited" | "partition_limit" | "unknown" | "none" | "null" | "nan" | "-"
        ) {
            return Ok(-1);
        }
        let whole = word.split_once('.').map_or(word, |(whole, _)| whole);
        whole.parse().map_err(|_| self.wrong(key, "a number", word))
    }

    /// An instant in seconds; `None` where there is none.
    fn instant(&self, words: &[String], key: usize) -> Result<Option<i64>, TraceError> {
        let Some(word) = self.text(words, key) else { return Ok(None) };
        if matches!(word, "Unknown" | "None" | "null" | "-") {
            return Ok(None);
        }
        let expected = "seconds since 1970, or 2025-01-31 12:00:00";
        instant_of(word).map(Some).ok_or_else(|| self.wrong(key, expected, word))
    }

    fn name(&mut self, words: &[String], key: usize) -> i64 {
        let Some(word) = self.text(words, key).map(str::to_owned) else { return -1 };
        let known = &mut self.names[key - 1];
        let next = known.len() as i64 + 1;
        *known.entry(word).or_insert(next)
    }

    fn job(&mut self, words: &[String]) -> Result<SwfJob, TraceError> {
        let submit = self.instant(words, SUBMIT)?;
        let submit = submit.ok_or_else(|| self.wrong(SUBMIT, "an instant", "nothing"))?;
        let (start, end) = (self.instant(words, 5)?, self.instant(words, 6)?);
        let run = match (self.at[RUN], start, end) {
            (Some(_), _, _) => self.number(words, RUN)?,
            (None, Some(start), Some(end)) => end - start,
            _ => -1,
        };
        let limit = self.number(words, LIMIT)?;
        let state = self.text(words, 11).unwrap_or("").to_ascii_lowercase();
        let first = *self.first.get_or_insert(submit);
        Ok(SwfJob {
            line: self.line,
            number: self.number(words, 0).unwrap_or(self.line as i64),
            submit: submit - first,
            wait: start.map_or(-1, |start| (start - submit).max(0)),
            run,
            allocated: self.number(words, 10)?,
            cpu_time: -1.0,
            memory: -1,
            requested: self.number(words, 9)?,
            requested_time: if limit > 0 {
                limit.saturating_mul(self.mapping.limit_seconds)
            } else {
                -1
            },
            requested_memory: -1,
            status: status_of(&state),
            user: self.name(words, 1),
            group: self.name(words, 2),
            executable: -1,
            queue: self.name(words, 3),
            partition: -1,
            preceding: -1,
            think_time: -1,
        })
    }
}

impl<R: BufRead> Iterator for Table<R> {
    type Item = Result<SwfJob, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let words = self.words().transpose()?;
        Some(words.and_then(|words| self.job(&words)))
    }
}

/// The state of a job as the Standard Workload Format has it.
fn status_of(state: &str) -> i64 {
    match state.split_whitespace().next().unwrap_or("") {
        "completed" | "complete" | "pass" | "passed" | "success" | "succeeded" => 1,
        "cancelled" | "canceled" | "killed" => 5,
        "" => -1,
        _ => 0,
    }
}

pub(super) fn wrong(
    line: u64,
    field: Option<(usize, &'static str)>,
    expected: &'static str,
    found: &str,
) -> TraceError {
    let found = found.chars().filter(|c| !c.is_control()).take(40).collect();
    TraceError::Line { line, field: Field(field), expected, found }
}

/// The fields of a line; a separator between double quotes is none.
fn split(text: &str, separator: char) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for c in text.chars() {
        if c == '"' {
            quoted = !quoted;
        } else if c == separator && !quoted {
            words.push(String::new());
        } else if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    words
}

fn instant_of(word: &str) -> Option<i64> {
    let whole = word.split_once('.').map_or(word, |(whole, _)| whole);
    if let Ok(seconds) = whole.parse() {
        return Some(seconds);
    }
    let (date, time) = whole.split_once(['T', ' ']).unwrap_or((whole, "00:00:00"));
    let three = |text: &str, between: char| -> Option<[i64; 3]> {
        let mut parts = text.trim_end_matches('Z').split(between).map(|n| n.parse::<i64>().ok());
        let found = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(found)
    };
    let ([year, month, day], [hour, minute, second]) = (three(date, '-')?, three(time, ':')?);
    let sound = (1900..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    // Years begin in March, so that the leap day is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    sound.then(|| (days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Writes the header of a trace in the Standard Workload Format.
///
/// # Errors
/// It cannot be written.
pub fn write_swf_header(out: &mut impl Write, processors: u32, notes: &str) -> std::io::Result<()> {
    writeln!(out, "; Version: 2.2\n; MaxProcs: {processors}\n; Note: {notes}")
}

/// Writes a job as a line of the Standard Workload Format.
///
/// # Errors
/// It cannot be written.
pub fn write_swf(out: &mut impl Write, job: &SwfJob) -> std::io::Result<()> {
    let number = if job.number > 0 { job.number } else { job.line as i64 };
    writeln!(
        out,
        "{number} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}",
        job.submit,
        job.wait,
        job.run,
        job.allocated,
        job.cpu_time,
        job.memory,
        job.requested,
        job.requested_time,
        job.requested_memory,
        job.status,
        job.user,
        job.group,
        job.executable,
        job.queue,
        job.partition,
        job.preceding,
        job.think_time,
    )
}
