//! The Standard Workload Format, version 2.2.
//!
//! Definition: <https://www.cs.huji.ac.il/labs/parallel/workload/swf.html> (Feitelson, Parallel
//! Workloads Archive). A line is 18 numbers parted by blanks, `-1` where nothing is known; lines that
//! begin with `;` are the header (`; Label: value`) and notes. A reader holds one line at a time, so
//! a trace may be larger than memory.

use super::{Field, TraceError};
use std::collections::BTreeMap;
use std::io::BufRead;

/// A longer line is none of this format.
pub const LINE_BYTES_MAX: usize = 1 << 16;

/// The names of the fields, in order.
const FIELDS: [&str; 18] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
];

/// One line: times in seconds, memory in KiB a processor, -1 where nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SwfJob {
    /// The line it stands in, from 1.
    pub line: u64,
    /// Its number.
    pub number: i64,
    /// When it was submitted, from the start of the log.
    pub submit: i64,
    /// How long it waited then.
    pub wait: i64,
    /// How long it ran.
    pub run: i64,
    /// How many processors it had.
    pub allocated: i64,
    /// CPU time a processor used on average; logs have fractions of a second here.
    pub cpu_time: f64,
    /// Memory a processor used on average.
    pub memory: i64,
    /// How many processors it asked for.
    pub requested: i64,
    /// How long it asked to run.
    pub requested_time: i64,
    /// Memory a processor asked for.
    pub requested_memory: i64,
    /// 1 completed, 0 failed, 5 cancelled; 2, 3 and 4 are parts of a job that was checkpointed.
    pub status: i64,
    /// Whose it is.
    pub user: i64,
    /// The user's group.
    pub group: i64,
    /// Which program.
    pub executable: i64,
    /// Which queue; 0 is interactive use by convention.
    pub queue: i64,
    /// Which partition.
    pub partition: i64,
    /// It was not submitted before this job had ended,
    pub preceding: i64,
    /// and so long after that.
    pub think_time: i64,
}

/// What the header says: every label with its values in order. A label may come several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    fields: BTreeMap<String, Vec<String>>,
}

impl Header {
    /// The values of a label, whatever its case.
    pub fn all(&self, label: &str) -> &[String] {
        self.fields.get(&label.to_ascii_lowercase()).map_or(&[], Vec::as_slice)
    }

    /// The first value of a label.
    pub fn first(&self, label: &str) -> Option<&str> {
        self.all(label).first().map(String::as_str)
    }

    /// The number at the start of a label's first value; what stands behind it is a remark.
    pub fn number(&self, label: &str) -> Option<i64> {
        let text = self.first(label)?.trim_start();
        let sign = usize::from(text.starts_with('-'));
        let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
        text[..sign + digits].parse().ok()
    }

    /// How many processors the machine had: `MaxProcs`, else `MaxNodes`.
    pub fn processors(&self) -> Option<u32> {
        let count = |label| self.number(label).filter(|n| *n > 0);
        count("MaxProcs").or_else(|| count("MaxNodes")).and_then(|n| u32::try_from(n).ok())
    }

    /// When the log begins, in seconds since 1970.
    pub fn unix_start(&self) -> Option<i64> {
        self.number("UnixStartTime").filter(|at| *at >= 0)
    }

    fn take(&mut self, line: &str) {
        let text = line.trim_start_matches(';').trim();
        let Some((label, value)) = text.split_once(':') else { return };
        if !label.is_empty() && !label.contains(char::is_whitespace) {
            let values = self.fields.entry(label.to_ascii_lowercase()).or_default();
            values.push(value.trim().to_owned());
        }
    }
}

/// The jobs of a trace, in the order of the file.
pub struct Swf<R> {
    reader: R,
    buffer: Vec<u8>,
    line: u64,
    header: Header,
    /// The first job, read while the header's end was looked for.
    first: Option<Result<SwfJob, TraceError>>,
}

impl<R: BufRead> Swf<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn new(reader: R) -> Result<Self, TraceError> {
        let header = Header::default();
        let mut swf = Self { reader, buffer: Vec::new(), line: 0, header, first: None };
        match swf.read() {
            Some(Err(TraceError::Io(error))) => return Err(error.into()),
            first => swf.first = first,
        }
        Ok(swf)
    }

    /// What the header says, as far as the file is read.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The next line with a job in it.
    fn read(&mut self) -> Option<Result<SwfJob, TraceError>> {
        loop {
            self.buffer.clear();
            match read_line(&mut self.reader, &mut self.buffer) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(error.into())),
            }
            self.line += 1;
            let text = self.buffer.trim_ascii();
            if text.is_empty() {
                continue;
            }
            if text[0] == b';' {
                let text = String::from_utf8_lossy(text).into_owned();
                self.header.take(&text);
                continue;
            }
            return Some(job_of(text, self.line));
        }
    }
}

impl<R: BufRead> Iterator for Swf<R> {
    type Item = Result<SwfJob, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.first.take().or_else(|| self.read())
    }
}

/// Reads up to the end of a line, and no more than a line may have; the rest of a longer one is
/// passed over.
pub(super) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut length = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(length);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(buffer.len(), |at| at + 1);
        let room = (LINE_BYTES_MAX + 1).saturating_sub(line.len());
        line.extend_from_slice(&buffer[..taken.min(room)]);
        reader.consume(taken);
        length += taken;
        if end.is_some() {
            return Ok(length);
        }
    }
}

fn job_of(text: &[u8], line: u64) -> Result<SwfJob, TraceError> {
    let mut numbers = [0i64; FIELDS.len()];
    let mut cpu_time = -1.0;
    let wrong = |at: Option<usize>, expected, found: &[u8]| TraceError::Line {
        line,
        field: Field(at.map(|at| (at + 1, FIELDS[at]))),
        expected,
        found: shown(found),
    };
    if text.len() > LINE_BYTES_MAX {
        return Err(wrong(None, "at most 65536 bytes", b"more"));
    }
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for (at, number) in numbers.iter_mut().enumerate() {
        let Some(word) = words.next() else {
            return Err(wrong(Some(at), "18 fields", b"the end of the line"));
        };
        if at == 5 {
            cpu_time = float(word).ok_or_else(|| wrong(Some(at), "a number", word))?;
        } else {
            let expected = "a whole number";
            *number = whole(word).ok_or_else(|| wrong(Some(at), expected, word))?;
        }
    }
    if let Some(word) = words.next() {
        return Err(wrong(None, "18 fields", word));
    }
    let [number, submit, wait, run, allocated, _, memory, rest @ ..] = numbers;
    let [requested, requested_time, requested_memory, status, user, group, rest @ ..] = rest;
    let [executable, queue, partition, preceding, think_time] = rest;
    Ok(SwfJob {
        line,
        number,
        submit,
        wait,
        run,
        allocated,
        cpu_time,
        memory,
        requested,
        requested_time,
        requested_memory,
        status,
        user,
        group,
        executable,
        queue,
        partition,
        preceding,
        think_time,
    })
}

/// A whole number; a fraction of zeros behind it, as some logs write, says nothing.
fn whole(word: &[u8]) -> Option<i64> {
    let (negative, digits) = match word.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, word),
    };
    let end = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
    let (digits, fraction) = digits.split_at(end);
    if digits.is_empty() || !fraction.iter().skip(1).all(|byte| *byte == b'0') {
        return None;
    }
    let number = digits.iter().try_fold(0i64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if negative { -number } else { number })
}

fn float(word: &[u8]) -> Option<f64> {
    if let Some(number) = whole(word) {
        return Some(number as f64);
    }
    let number: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}

/// A piece of a line as an error shows it.
fn shown(found: &[u8]) -> String {
    let text = String::from_utf8_lossy(&found[..found.len().min(40)]);
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    if found.len() > 40 { format!("{text}…") } else { text }
}
