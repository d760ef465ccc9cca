//! `muster sim import`: tables of jobs as a trace in the Standard Workload Format.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use muster_engine_slurm::read::processors;
use muster_engine_slurm::{Commands, Past, SlurmError};
use muster_sim::trace::{
    Mapping, SwfJob, Table, TraceError, sacct_json, unpacked, write_swf, write_swf_header,
};

use crate::history::said;
use crate::say::{Failure, Outcome, note};

/// The words of `muster sim import`.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// What `sacct -P` or `sacct --json` wrote, or another table with --mapping; packed by gzip or
    /// not. `slurm` asks the sacct of this machine's Slurm itself
    table: PathBuf,
    /// Which column is what, where the table is not sacct's
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// How many processors the machine has; without it those of Slurm's nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    processors: Option<u32>,
    /// Where the trace goes; without it, to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Count lines that are wrong and go on
    #[arg(long)]
    lenient: bool,
    /// With `slurm`: jobs submitted since then, such as 2025-01-01 or now-30days
    #[arg(long, value_name = "WHEN", default_value = "now-30days")]
    since: String,
    /// With `slurm`: jobs that had ended by then
    #[arg(long, value_name = "WHEN", default_value = "now")]
    until: String,
    /// With `slurm`: the slurm.conf of the Slurm to ask, in place of the machine's
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
}

/// Reads and writes, a line at a time.
pub(crate) fn run(args: &ImportArgs) -> Outcome {
    if args.table.as_os_str() == "slurm" {
        return of_slurm(args);
    }
    let Some(processors) = args.processors else {
        return Err(Failure::usage("--processors N says how large the machine was".to_owned()));
    };
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
    let mut out = Out::new(args, processors)?;
    let done = if json {
        sacct_json(text, |job| out.take(job))
    } else {
        Table::new(text, mapping)
            .map_err(Ended::In)
            .and_then(|mut all| all.try_for_each(|job| out.take(job)))
    };
    done.map_err(|error| out.failed(&args.table, error))?;
    out.end()
}

/// So many jobs are held to be put into order: 0.8 GB of them.
const SORTED_MAX: usize = 5_000_000;

/// Asks a Slurm's accounting itself.
fn of_slurm(args: &ImportArgs) -> Outcome {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let failed = |error: SlurmError| Failure::new(format!("{error} [{}]", error.code()));
    let mut commands = Commands::find(&path).map_err(failed)?;
    if let Some(conf) = &args.conf {
        commands = commands.with_conf(conf);
    }
    let (since, until) = (said(&args.since)?.secs(), said(&args.until)?.secs());
    if since >= until {
        return Err(Failure::usage("--since is not before --until".to_owned()));
    }
    let processors = match args.processors {
        Some(number) => number,
        None => processors(&commands).map_err(failed)?,
    };
    let past = Past::new(&commands, since, until).map_err(failed)?;
    let mut out = Out::new(args, processors)?;
    let (mut earlier, mut jobs) = (0u64, Vec::new());
    let done =
        Table::new(BufReader::new(past), Mapping::sacct()).map_err(Ended::In).and_then(|all| {
            all.from_instant(since).try_for_each(|job| match job {
                Ok(job) if job.submit < 0 => {
                    earlier += 1;
                    Ok(())
                }
                Ok(job) if jobs.len() < SORTED_MAX => {
                    jobs.push(job);
                    Ok(())
                }
                Ok(_) => Err(Ended::Long),
                wrong => out.take(wrong),
            })
        });
    done.map_err(|error| match error {
        Ended::In(TraceError::Io(error)) => match error.downcast::<SlurmError>() {
            Ok(error) => failed(error),
            Err(error) => at(Path::new("sacct"), &error),
        },
        error => out.failed(Path::new("sacct"), error),
    })?;
    // They came as they ended, and a trace is in order of submission.
    jobs.sort_by_key(|job| (job.submit, job.number));
    jobs.into_iter()
        .try_for_each(|job| out.take(Ok(job)))
        .map_err(|error| out.failed(Path::new("sacct"), error))?;
    if earlier > 0 {
        note(&format!("{earlier} jobs left out that were submitted before --since"));
    }
    out.end()
}

/// Where the trace goes.
struct Out {
    to: Box<dyn Write>,
    target: PathBuf,
    lenient: bool,
    jobs: u64,
    skipped: u64,
}

impl Out {
    fn new(args: &ImportArgs, processors: u32) -> Result<Self, Failure> {
        let to: Box<dyn Write> = match &args.output {
            Some(path) => Box::new(BufWriter::new(File::create(path).map_err(|e| at(path, &e))?)),
            None => Box::new(BufWriter::new(io::stdout().lock())),
        };
        let target = args.output.clone().unwrap_or_else(|| PathBuf::from("standard output"));
        let mut out = Self { to, target, lenient: args.lenient, jobs: 0, skipped: 0 };
        let notes = "written by muster sim import; users, groups and queues are numbers";
        write_swf_header(&mut out.to, processors, notes).map_err(|e| at(&out.target, &e))?;
        Ok(out)
    }

    fn take(&mut self, job: Result<SwfJob, TraceError>) -> Result<(), Ended> {
        match job {
            Ok(job) => {
                self.jobs += 1;
                write_swf(&mut self.to, &job).map_err(Ended::Out)
            }
            Err(TraceError::Line { .. }) if self.lenient => {
                self.skipped += 1;
                Ok(())
            }
            Err(error) => Err(Ended::In(error)),
        }
    }

    fn failed(&self, table: &Path, error: Ended) -> Failure {
        match error {
            Ended::In(error) => wrong(table, &error),
            Ended::Out(error) => at(&self.target, &error),
            Ended::Long => Failure::new(format!(
                "more than {SORTED_MAX} jobs: a shorter time between --since and --until is taken"
            )),
        }
    }

    fn end(mut self) -> Outcome {
        self.to.flush().map_err(|error| at(&self.target, &error))?;
        note(&format!("{} jobs written, {} lines left out", self.jobs, self.skipped));
        Ok(0)
    }
}

/// What ended an import early.
enum Ended {
    /// The table is wrong.
    In(TraceError),
    /// The trace cannot be written.
    Out(io::Error),
    /// There are more jobs than are put into order.
    Long,
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
