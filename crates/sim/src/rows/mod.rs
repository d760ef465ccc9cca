//! The jobs of a replay as rows of a table: text with commas, or columns in Apache Parquet.

#[cfg(feature = "parquet")]
mod parquet;

use crate::twin::Finished;
use std::io::{self, Write};
use std::path::Path;

/// The columns before the last one, which is a float; in order.
pub const NUMBERS: [&str; 8] =
    ["job", "user", "processors", "submit_s", "start_s", "wait_s", "run_s", "requested_s"];

/// The last column.
pub const SLOWDOWN: &str = "bounded_slowdown";

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line for each job, after one with the titles.
    Csv,
    /// Columns, packed by Snappy. Only where muster was built with the feature `parquet`.
    Parquet,
}

impl Format {
    /// By the name of the file: `.parquet` is one, all else the other.
    pub fn of(path: &Path) -> Self {
        let is = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("parquet"));
        if is { Self::Parquet } else { Self::Csv }
    }

    /// True where this muster can write it.
    pub const fn is_built(self) -> bool {
        cfg!(feature = "parquet") || matches!(self, Self::Csv)
    }
}

/// Where rows go.
pub enum Rows<W: Write + Send> {
    /// Lines.
    Csv(W),
    /// Columns.
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Columns<W>>),
}

/// A job's row, but for the last column.
const fn numbers(done: &Finished) -> [i64; 8] {
    let job = &done.job;
    let (wait, run) = (done.wait(), job.run);
    [job.number, job.user, job.requested, job.submit, done.start, wait, run, job.requested_time]
}

impl<W: Write + Send> Rows<W> {
    /// Begins a table.
    ///
    /// # Errors
    /// It cannot be written; [`io::ErrorKind::Unsupported`] where the format is not built in.
    pub fn new(mut out: W, format: Format) -> io::Result<Self> {
        match format {
            Format::Csv => {
                writeln!(out, "{},{SLOWDOWN}", NUMBERS.join(","))?;
                Ok(Self::Csv(out))
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => Ok(Self::Parquet(Box::new(parquet::Columns::new(out)?))),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Writes a job.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, done: &Finished) -> io::Result<()> {
        match self {
            Self::Csv(out) => {
                for number in numbers(done) {
                    write!(out, "{number},")?;
                }
                writeln!(out, "{}", done.bounded_slowdown())
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(columns) => columns.add(numbers(done), done.bounded_slowdown()),
        }
    }

    /// Writes what is left to write.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Csv(mut out) => out.flush(),
            #[cfg(feature = "parquet")]
            Self::Parquet(columns) => columns.finish(),
        }
    }
}
