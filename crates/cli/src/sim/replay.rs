//! `muster sim replay` and `muster sim compare`: a trace under other policies.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::thread;

use clap::{Args, ValueEnum};
use muster_model::RunTimeCorrection;
use muster_sim::report::{self, Picture, Recorder};
use muster_sim::trace::{
    Cleaned, Cleaning, Counts, Oversized, Swf, TraceError, Unrequested, unpacked,
};
use muster_sim::twin::{
    self, Estimates, Finished, PolicyName, Setting, Summary, Totals, TwinError, learned,
};
use serde_json::json;

use crate::say::{self, Failure, Outcome, note, print};
use crate::table::{Table, terminal_width};

/// The words of `muster sim replay`.
#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// fifo, easy, easy-sjbf, conservative or muster
    #[arg(long, default_value = "muster")]
    policy: PolicyName,
    /// Write every job to this file, as CSV in the order of their ends
    #[arg(long, value_name = "FILE")]
    jobs: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// The words of `muster sim compare`.
#[derive(Args)]
pub(crate) struct CompareArgs {
    /// A policy, given once for each; without any, all of them
    #[arg(long = "policy")]
    policies: Vec<PolicyName>,
    /// Write a report to this file: one HTML page with the table and charts
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// What both take.
#[derive(Args)]
struct Common {
    /// The trace, in the Standard Workload Format, packed by gzip or not
    trace: PathBuf,
    /// What jobs say of their run times: what they asked for, what they run, twice what they asked
    /// for, or what is learned of their user's last jobs
    #[arg(long, value_enum)]
    estimates: Option<Told>,
    /// What becomes of a learned run time that its job outlives
    #[arg(long, value_enum, default_value_t = Correction::Limit)]
    correction: Correction,
    /// How many processors the machine has, in place of what the header says
    #[arg(long, value_name = "N")]
    processors: Option<u32>,
    /// What is done with jobs larger than the machine
    #[arg(long, value_enum, default_value_t = Large::Drop)]
    oversized: Large,
    /// What is done with jobs that ask for no time
    #[arg(long, value_enum, default_value_t = Unasked::Auto)]
    unrequested: Unasked,
    /// Let jobs run on beyond what they asked for
    #[arg(long)]
    overrun: bool,
    /// Keep lines that tell of a part of a job (status 2, 3 and 4)
    #[arg(long)]
    parts: bool,
    /// Count malformed lines and go on
    #[arg(long)]
    lenient: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Told {
    Requested,
    Clairvoyant,
    Doubled,
    Learned,
}

#[derive(Clone, Copy, ValueEnum)]
enum Correction {
    Limit,
    Double,
    Steps,
}

#[derive(Clone, Copy, ValueEnum)]
enum Large {
    Drop,
    Cut,
    Refuse,
}

#[derive(Clone, Copy, ValueEnum)]
enum Unasked {
    Auto,
    Drop,
    RunTime,
}

/// Replays under one policy.
pub(crate) fn run(args: &ReplayArgs) -> Outcome {
    let common = &args.common;
    let mut out = match &args.jobs {
        Some(path) => Some(csv(path)?),
        None => None,
    };
    let row = |done: &Finished| out.as_mut().map_or(Ok(()), |out| write_row(out, done));
    let (summary, counts, _) = replayed(common, args.policy, row)?;
    if let (Some(out), Some(path)) = (&mut out, &args.jobs) {
        out.flush().map_err(|error| at(path, &error))?;
    }
    if common.json {
        return say::json(&summary);
    }
    tell_of(&counts);
    print(&table(&[summary]).text(terminal_width()));
    Ok(0)
}

/// Replays under several, each on a thread of its own.
pub(crate) fn compare(args: &CompareArgs) -> Outcome {
    let mut policies = args.policies.clone();
    if policies.is_empty() {
        policies = twin::NAMES.iter().filter_map(|name| name.parse().ok()).collect();
    }
    let most = thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<Result<(Picture, Counts, u32), Failure>> = Vec::new();
    for some in policies.chunks(most) {
        thread::scope(|scope| {
            let replay = |policy: PolicyName| seen(&args.common, policy);
            let threads: Vec<_> =
                some.iter().map(|policy| scope.spawn(move || replay(*policy))).collect();
            let lost = || Failure::new("a replay ended by a fault of muster");
            found.extend(threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(lost()))));
        });
    }
    let found: Vec<(Picture, Counts, u32)> = found.into_iter().collect::<Result<_, _>>()?;
    let told = found.first().map(|(_, counts, processors)| (*counts, *processors));
    let pictures: Vec<Picture> = found.into_iter().map(|(picture, _, _)| picture).collect();
    if let (Some(path), Some((_, processors))) = (&args.report, told) {
        let trace = args.common.trace.file_name().map(|name| name.to_string_lossy().into_owned());
        let page = report::page(&trace.unwrap_or_default(), processors, &pictures);
        std::fs::write(path, page).map_err(|error| at(path, &error))?;
    }
    let summaries: Vec<Summary> = pictures.iter().map(|p| p.summary.clone()).collect();
    if args.common.json {
        return say::json(&json!({ "policies": summaries }));
    }
    if let Some((counts, _)) = told {
        tell_of(&counts);
    }
    print(&table(&summaries).text(terminal_width()));
    Ok(0)
}

/// A replay with all that a report shows of it.
fn seen(common: &Common, name: PolicyName) -> Result<(Picture, Counts, u32), Failure> {
    let mut recorder = Recorder::default();
    let row = |done: &Finished| {
        recorder.add(done);
        Ok(())
    };
    let (summary, counts, processors) = replayed(common, name, row)?;
    Ok((recorder.picture(summary), counts, processors))
}

/// The aggregates, what was left out, and how many processors there are.
fn replayed(
    common: &Common,
    name: PolicyName,
    mut row: impl FnMut(&Finished) -> std::io::Result<()>,
) -> Result<(Summary, Counts, u32), Failure> {
    let failed = |error: TwinError| match error {
        TwinError::Trace(error) => wrong(&common.trace, &error),
        other => Failure::new(other.to_string()),
    };
    let trace = |error: TraceError| failed(error.into());
    let file = File::open(&common.trace).map_err(|error| trace(error.into()))?;
    let swf = Swf::new(unpacked(file).map_err(trace)?).map_err(trace)?;
    let mut jobs = Cleaned::new(swf, common.cleaning()).map_err(trace)?;
    let setting = common.setting(name, jobs.machine());
    let mut totals = Totals::default();
    let done = |done: &Finished| {
        totals.add(done);
        row(done)
    };
    twin::replay(&setting, &mut jobs, done).map_err(failed)?;
    if totals.jobs() == 0 {
        return Err(trace(TraceError::Empty));
    }
    let summary = totals.summary(&name.to_string(), setting.processors);
    Ok((summary, *jobs.counts(), setting.processors))
}

impl Common {
    fn cleaning(&self) -> Cleaning {
        Cleaning {
            processors: self.processors,
            oversized: match self.oversized {
                Large::Drop => Oversized::Drop,
                Large::Cut => Oversized::Cut,
                Large::Refuse => Oversized::Refuse,
            },
            unrequested: match self.unrequested {
                Unasked::Auto => Unrequested::Auto,
                Unasked::Drop => Unrequested::Drop,
                Unasked::RunTime => Unrequested::RunTime,
            },
            cut_to_limit: !self.overrun,
            drop_parts: !self.parts,
            lenient: self.lenient,
        }
    }

    fn setting(&self, name: PolicyName, processors: u32) -> Setting {
        let mut policy = name.policy();
        let estimates = match self.estimates {
            None | Some(Told::Requested | Told::Learned) => Estimates::Requested,
            Some(Told::Clairvoyant) => Estimates::Clairvoyant,
            Some(Told::Doubled) => Estimates::Doubled,
        };
        match self.estimates {
            // The policy's own.
            None => {}
            Some(Told::Learned) => {
                policy.run_time = learned(match self.correction {
                    Correction::Limit => RunTimeCorrection::Limit,
                    Correction::Double => RunTimeCorrection::Double,
                    Correction::Steps => RunTimeCorrection::Steps,
                });
            }
            Some(_) => policy.run_time = muster_model::RunTimePolicy::default(),
        }
        Setting { processors, policy, estimates }
    }
}

fn wrong(trace: &Path, error: &TraceError) -> Failure {
    let hint = match error {
        TraceError::Line { .. } | TraceError::Order { .. } => {
            "\nhint: --lenient counts such lines and goes on"
        }
        TraceError::Machine => "\nhint: --processors N says how large it was",
        TraceError::Oversized { .. } => "\nhint: --oversized=drop or --oversized=cut goes on",
        TraceError::Io(_) | TraceError::Empty => "",
    };
    Failure::new(format!("{}: {}: {error}{hint}", trace.display(), error.code()))
}

fn at(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

fn csv(path: &Path) -> Result<BufWriter<File>, Failure> {
    let begin = || {
        let mut out = BufWriter::new(File::create(path)?);
        let title = "job,user,processors,submit_s,start_s,wait_s,run_s,requested_s";
        writeln!(out, "{title},bounded_slowdown")?;
        Ok(out)
    };
    begin().map_err(|error| at(path, &error))
}

fn write_row(out: &mut impl std::io::Write, done: &Finished) -> std::io::Result<()> {
    let job = &done.job;
    writeln!(
        out,
        "{},{},{},{},{},{},{},{},{}",
        job.number,
        job.user,
        job.requested,
        job.submit,
        done.start,
        done.wait(),
        job.run,
        job.requested_time,
        done.bounded_slowdown(),
    )
}

/// What the rules of cleaning did, where they did anything.
fn tell_of(counts: &Counts) {
    let said = [
        (counts.malformed, "malformed lines left out"),
        (counts.oversized_dropped, "jobs larger than the machine left out"),
        (counts.oversized_cut, "jobs larger than the machine cut to it"),
        (counts.processors_filled, "jobs with one number of processors for the other"),
        (counts.no_processors, "jobs without processors left out"),
        (counts.no_run_time, "jobs that did not run left out"),
        (counts.no_requested_time, "jobs that asked for no time left out"),
        (counts.request_is_run_time, "jobs whose run time stands for what they asked for"),
        (counts.cut_to_limit, "jobs cut to what they asked for"),
        (counts.before_start, "jobs before the start of the log left out"),
        (counts.parts, "parts of jobs left out"),
        (counts.reordered, "jobs put in order of submission"),
    ];
    let mut text = format!("{} jobs in the trace", counts.lines);
    for (count, what) in said.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, "\n{count:>8} {what}");
    }
    note(&text);
}

fn table(summaries: &[Summary]) -> Table {
    let mut table = Table::new(&[
        "POLICY",
        ">JOBS",
        ">SLOWDOWN",
        ">WORST",
        ">FLOW s",
        ">WORST s",
        ">WAIT s",
        ">WORST s",
        ">USE %",
    ]);
    for one in summaries {
        table.row(vec![
            one.policy.clone(),
            one.jobs.to_string(),
            format!("{:.3}", one.average_bounded_slowdown),
            format!("{:.1}", one.max_bounded_slowdown),
            format!("{:.0}", one.average_flow_time_s),
            one.max_flow_time_s.to_string(),
            format!("{:.0}", one.average_wait_s),
            one.max_wait_s.to_string(),
            format!("{:.1}", one.utilisation * 100.0),
        ]);
    }
    table
}
