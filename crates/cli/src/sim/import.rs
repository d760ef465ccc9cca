//! `muster sim import`: tables of jobs as a trace in the Standard Workload Format.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use muster_sim::trace::{
    Mapping, SwfJob, Table, TraceError, sacct_json, unpacked, write_swf, write_swf_header,
};

use crate::say::{Failure, Outcome, note};

/// The words of `muster sim import`.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// What `sacct -P` or `sacct --json` wrote, or another table with --mapping; packed by gzip or not
    table: PathBuf,
    /// Which column is what, where the table is not sacct's
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// How many processors the machine has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    processors: u32,
    /// Where the trace goes; without it, to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Count lines that are wrong and go on
    #[arg(long)]
    lenient: bool,
}

/// Reads and writes, a line at a time.
pub(crate) fn run(args: &ImportArgs) -> Outcome {
    let mapping = match &args.mapping {
        None => Mapping::sacct(),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| at(path, &error))?;
            Mapping::parse(&text).map_err(|error| wrong(path, &error))?
        }
    };
    let text = || -> Result<_, TraceError> {
        let mut text = unpacked(File::open(&args.table)?)?;
        let json = text.fill_buf()?.trim_ascii_start().starts_with(b"{");
        Ok((text, json))
    };
    let (text, json) = text().map_err(|error| wrong(&args.table, &error))?;
    let mut out: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(BufWriter::new(File::create(path).map_err(|e| at(path, &e))?)),
        None => Box::new(BufWriter::new(io::stdout().lock())),
    };
    let target = args.output.clone().unwrap_or_else(|| PathBuf::from("standard output"));
    let failed = |error: io::Error| at(&target, &error);
    let notes = "written by muster sim import; users, groups and queues are numbers";
    write_swf_header(&mut out, args.processors, notes).map_err(failed)?;
    let (mut jobs, mut left_out) = (0u64, 0u64);
    let take = |job: Result<SwfJob, TraceError>| {
        match job {
            Ok(job) => {
                jobs += 1;
                write_swf(&mut out, &job).map_err(Ended::Out)?;
            }
            Err(TraceError::Line { .. }) if args.lenient => left_out += 1,
            Err(error) => return Err(Ended::In(error)),
        }
        Ok(())
    };
    let done = if json {
        sacct_json(text, take)
    } else {
        Table::new(text, mapping).map_err(Ended::In).and_then(|mut all| all.try_for_each(take))
    };
    done.map_err(|error| match error {
        Ended::In(error) => wrong(&args.table, &error),
        Ended::Out(error) => failed(error),
    })?;
    out.flush().map_err(failed)?;
    note(&format!("{jobs} jobs written, {left_out} lines left out"));
    Ok(0)
}

/// What ended an import early.
enum Ended {
    /// The table is wrong.
    In(TraceError),
    /// The trace cannot be written.
    Out(io::Error),
}

impl From<TraceError> for Ended {
    fn from(error: TraceError) -> Self {
        Self::In(error)
    }
}

fn at(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

fn wrong(path: &Path, error: &TraceError) -> Failure {
    let line = matches!(error, TraceError::Line { .. });
    let hint = if line { "\nhint: --lenient counts such lines and goes on" } else { "" };
    Failure::new(format!("{}: {}: {error}{hint}", path.display(), error.code()))
}
