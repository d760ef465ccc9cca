//! The node and pod lists of Alibaba's GPU cluster trace of 2023 (cluster-trace-gpu-v2023, "openb").
//!
//! Comma-separated, with a title line. Nodes: `sn,cpu_milli,memory_mib,gpu,model`. Pods:
//! `name,cpu_milli,memory_mib,num_gpu,gpu_milli` and, where they are known, `gpu_spec` and more that
//! is not read. CPUs are in thousandths, memory in MiB, `gpu_milli` is the part of each GPU in
//! thousandths, and `gpu_spec` lists the models that will do, parted by `|`. Columns are found by
//! their titles.

use super::{Field, TraceError};
use std::io::BufRead;

/// A node of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenbNode {
    /// Its name.
    pub name: String,
    /// CPUs in thousandths.
    pub cpu_milli: u32,
    /// Memory.
    pub memory_mib: u64,
    /// How many GPUs.
    pub gpus: u32,
    /// Their model; empty where there are none.
    pub model: String,
}

/// A pod of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenbPod {
    /// CPUs in thousandths.
    pub cpu_milli: u32,
    /// Memory.
    pub memory_mib: u64,
    /// How many GPUs.
    pub gpus: u32,
    /// The part of each of them, in thousandths; 0 without GPUs.
    pub gpu_milli: u32,
    /// The models that will do; empty is any.
    pub models: Vec<String>,
}

impl OpenbPod {
    /// GPUs in all, in thousandths.
    pub fn gpu_total(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.gpu_milli)
    }
}

/// A pod with its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenbRun {
    /// What it asks for.
    pub pod: OpenbPod,
    /// When it came, seconds from the start of the trace.
    pub submit: i64,
    /// How long it ran, seconds.
    pub run: i64,
}

/// The pods of a list with times, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenbRuns {
    /// Those that ran.
    pub runs: Vec<OpenbRun>,
    /// So many were never scheduled and are left out: nobody knows how long they would have run.
    pub never_ran: u64,
}

/// The lines of a list with the columns asked for.
struct Lines<R> {
    reader: R,
    line: u64,
    /// Where the columns are; `None` for one that may be missing.
    at: Vec<Option<usize>>,
    names: &'static [&'static str],
}

impl<R: BufRead> Lines<R> {
    fn new(
        mut reader: R,
        names: &'static [&'static str],
        needed: usize,
    ) -> Result<Self, TraceError> {
        let mut title = String::new();
        reader.read_line(&mut title)?;
        let titles: Vec<&str> = title.trim_end().split(',').collect();
        let find = |name: &&str| titles.iter().position(|title| title.trim() == *name);
        let at: Vec<Option<usize>> = names.iter().map(find).collect();
        if let Some(missing) = at[..needed].iter().position(Option::is_none) {
            return Err(TraceError::Line {
                line: 1,
                field: Field(None),
                expected: "the titles of the columns",
                found: format!("none called {}", names[missing]),
            });
        }
        Ok(Self { reader, line: 1, at, names })
    }

    fn next(&mut self) -> Result<Option<Vec<String>>, TraceError> {
        let mut text = String::new();
        loop {
            text.clear();
            if self.reader.read_line(&mut text)? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if !text.trim().is_empty() {
                break;
            }
        }
        let words: Vec<&str> = text.trim_end().split(',').collect();
        let word = |at: &Option<usize>| at.and_then(|at| words.get(at)).map_or("", |w| w.trim());
        Ok(Some(self.at.iter().map(|at| word(at).to_owned()).collect()))
    }

    fn number<N: std::str::FromStr>(&self, words: &[String], at: usize) -> Result<N, TraceError> {
        words[at].parse().map_err(|_| self.wrong(words, at, "a whole number, at least 0"))
    }

    fn wrong(&self, words: &[String], at: usize, expected: &'static str) -> TraceError {
        TraceError::Line {
            line: self.line,
            field: Field(Some((self.at[at].unwrap_or(0) + 1, self.names[at]))),
            expected,
            found: words[at].chars().filter(|c| !c.is_control()).take(40).collect(),
        }
    }

    /// The pod of a line whose first four columns are what it asks for; `models` is the column of
    /// GPU models.
    fn pod(&self, words: &[String], models: usize) -> Result<OpenbPod, TraceError> {
        let gpus: u32 = self.number(words, 2)?;
        let part: u32 = self.number(words, 3)?;
        let models = words[models].split('|').filter(|model| !model.is_empty());
        Ok(OpenbPod {
            cpu_milli: self.number(words, 0)?,
            memory_mib: self.number(words, 1)?,
            gpus,
            gpu_milli: if gpus == 0 { 0 } else { part.clamp(1, 1000) },
            models: models.map(str::to_owned).collect(),
        })
    }
}

/// Reads a list of nodes.
///
/// # Errors
/// It cannot be read, or a line is not of the format.
pub fn openb_nodes(reader: impl BufRead) -> Result<Vec<OpenbNode>, TraceError> {
    const COLUMNS: &[&str] = &["sn", "cpu_milli", "memory_mib", "gpu", "model"];
    let mut lines = Lines::new(reader, COLUMNS, 4)?;
    let mut nodes = Vec::new();
    while let Some(words) = lines.next()? {
        nodes.push(OpenbNode {
            name: words[0].clone(),
            cpu_milli: lines.number(&words, 1)?,
            memory_mib: lines.number(&words, 2)?,
            gpus: lines.number(&words, 3)?,
            model: words[4].clone(),
        });
    }
    if nodes.is_empty() { Err(TraceError::Empty) } else { Ok(nodes) }
}

/// Reads a list of pods.
///
/// # Errors
/// It cannot be read, or a line is not of the format.
pub fn openb_pods(reader: impl BufRead) -> Result<Vec<OpenbPod>, TraceError> {
    const COLUMNS: &[&str] = &["cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"];
    let mut lines = Lines::new(reader, COLUMNS, 4)?;
    let mut pods = Vec::new();
    while let Some(words) = lines.next()? {
        pods.push(lines.pod(&words, 4)?);
    }
    if pods.is_empty() { Err(TraceError::Empty) } else { Ok(pods) }
}

/// Reads a list of pods with the instants at which they came (`creation_time`), started
/// (`scheduled_time`) and were over (`deletion_time`), in seconds.
///
/// # Errors
/// It cannot be read, a line is not of the format, or the list tells no times.
pub fn openb_runs(reader: impl BufRead) -> Result<OpenbRuns, TraceError> {
    const COLUMNS: &[&str] = &[
        "cpu_milli",
        "memory_mib",
        "num_gpu",
        "gpu_milli",
        "creation_time",
        "deletion_time",
        "scheduled_time",
        "gpu_spec",
    ];
    let mut lines = Lines::new(reader, COLUMNS, 7)?;
    let mut all = OpenbRuns::default();
    while let Some(words) = lines.next()? {
        let pod = lines.pod(&words, 7)?;
        if words[6].is_empty() {
            all.never_ran += 1;
            continue;
        }
        let [submit, end, start] = [4, 5, 6].map(|at| lines.number::<u32>(&words, at));
        let (end, start) = (end?, start?);
        let run = i64::from(end) - i64::from(start);
        if run < 0 {
            return Err(lines.wrong(&words, 5, "no less than scheduled_time"));
        }
        all.runs.push(OpenbRun { pod, submit: i64::from(submit?), run });
    }
    all.runs.sort_by_key(|one| one.submit);
    if all.runs.is_empty() { Err(TraceError::Empty) } else { Ok(all) }
}
