//! Records of what ran on a machine, read one job at a time.

mod clean;
mod jitter;
mod openb;
mod sacct_json;
mod swf;
mod table;

pub use clean::{Cleaned, Cleaning, Counts, Oversized, Unrequested};
pub use jitter::Jittered;
pub use openb::{OpenbNode, OpenbPod, OpenbRun, OpenbRuns, openb_nodes, openb_pods, openb_runs};
pub use sacct_json::sacct_json;
pub use swf::{Header, LINE_BYTES_MAX, Swf, SwfJob};
pub use table::{KEYS, Mapping, Table, write_swf, write_swf_header};

use std::fmt;
use std::io::{BufRead, BufReader, Read};

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file is not there, or cannot be read on.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A line is not what the format says.
    #[error("line {line}{field}: expected {expected}, found {found}")]
    Line {
        /// Which line, from 1.
        line: u64,
        /// Which field of it.
        field: Field,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A job was submitted before jobs that came long before it in the file.
    #[error("line {line}: submitted at {submit} s, but the file is at {at} s already")]
    Order {
        /// Which line.
        line: u64,
        /// Its instant.
        submit: i64,
        /// How far the reader is.
        at: i64,
    },
    /// A job asks for more than the machine has, and such jobs are to be refused.
    #[error("line {line}: {processors} processors on a machine of {machine}")]
    Oversized {
        /// Which line.
        line: u64,
        /// What it asks for.
        processors: i64,
        /// What there is.
        machine: u32,
    },
    /// Nobody says how large the machine is.
    #[error("the header has neither MaxProcs nor MaxNodes")]
    Machine,
    /// There is no job in it.
    #[error("no job is left of the trace")]
    Empty,
}

/// A field of a line, where one is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field(pub(crate) Option<(usize, &'static str)>);

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |(number, name)| write!(f, ", field {number} ({name})"))
    }
}

impl TraceError {
    /// The stable code: the name of its page in `docs/errors`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "E_TRACE_FILE",
            Self::Line { .. } => "E_TRACE_LINE",
            Self::Order { .. } => "E_TRACE_ORDER",
            Self::Oversized { .. } => "E_TRACE_OVERSIZED",
            Self::Machine => "E_TRACE_MACHINE",
            Self::Empty => "E_TRACE_EMPTY",
        }
    }
}

/// The text of an open file, packed by gzip or not; which one is told by its first bytes.
///
/// # Errors
/// It cannot be read.
pub fn unpacked(file: impl Read + Send + 'static) -> Result<Box<dyn BufRead + Send>, TraceError> {
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let packed = reader.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    if !packed {
        return Ok(Box::new(reader));
    }
    let plain: Box<dyn Read + Send> = Box::new(flate2::bufread::MultiGzDecoder::new(reader));
    Ok(Box::new(BufReader::with_capacity(1 << 16, plain)))
}
