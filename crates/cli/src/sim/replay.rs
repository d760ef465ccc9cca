//! `muster sim replay` and `muster sim compare`: a trace under other policies.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use muster_sim::confidence::{Confidence, Interval, Weeks, confidence};
use muster_sim::report::{self, Picture, Recorder};
use muster_sim::twin::{self, Finished, PolicyName, Summary};
use serde_json::json;

use super::common::{Common, Replayed, Run, at, cut_short, tell_of};
use super::watch::{Watch, in_parallel};
use crate::say::{self, Failure, Outcome, print};
use crate::table::{Table, terminal_width};

/// The seed of the draws behind intervals: the same figures every time.
pub(super) const SEED: u64 = 1;

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

/// Replays under one policy.
pub(crate) fn run(args: &ReplayArgs) -> Outcome {
    let common = &args.common;
    let mut out = match &args.jobs {
        Some(path) => Some(csv(path)?),
        None => None,
    };
    let row = |done: &Finished| out.as_mut().map_or(Ok(()), |out| write_row(out, done));
    let watch = Watch::begin();
    watch.expect(common.bytes());
    let replayed = watch.show(|| common.replay(&Run::of(args.policy), &watch, row))?;
    let Replayed { summary, counts, .. } = replayed;
    if let (Some(out), Some(path)) = (&mut out, &args.jobs) {
        out.flush().map_err(|error| at(path, &error))?;
    }
    let jobs = summary.jobs;
    if common.json {
        say::json(&summary)?;
    } else {
        tell_of(&counts);
        print(&table(&[summary]).text(terminal_width()));
    }
    if watch.is_interrupted() { Err(cut_short(jobs)) } else { Ok(0) }
}

/// Replays under several, as many at a time as there are processors.
pub(crate) fn compare(args: &CompareArgs) -> Outcome {
    let common = &args.common;
    let mut policies = args.policies.clone();
    if policies.is_empty() {
        policies = twin::NAMES.iter().filter_map(|name| name.parse().ok()).collect();
    }
    let watch = Watch::begin();
    watch.expect(common.bytes() * policies.len() as u64);
    let busiest = args.report.as_ref().map(|_| common.busiest_day(&watch)).transpose()?;
    let replay = |which: usize| {
        let (mut recorder, mut weeks) = (Recorder::with_gantt(busiest.flatten()), Weeks::default());
        let row = |done: &Finished| {
            recorder.add(done);
            weeks.add(done);
            Ok(())
        };
        let Replayed { summary, counts, processors } =
            common.replay(&Run::of(policies[which]), &watch, row)?;
        if watch.is_interrupted() {
            return Err(cut_short(summary.jobs));
        }
        Ok((recorder.picture(summary), weeks, counts, processors))
    };
    let found = watch.show(|| in_parallel(policies.len(), replay))?;
    let told = found.first().map(|(_, _, counts, processors)| (*counts, *processors));
    let (pictures, weeks): (Vec<Picture>, Vec<Weeks>) =
        found.into_iter().map(|(picture, weeks, _, _)| (picture, weeks)).unzip();
    let sure = confidence(&weeks, SEED);
    if let (Some(path), Some((_, processors))) = (&args.report, told) {
        let trace = common.trace.file_name().map(|name| name.to_string_lossy().into_owned());
        let page = report::page(&trace.unwrap_or_default(), processors, &pictures);
        std::fs::write(path, page).map_err(|error| at(path, &error))?;
    }
    let summaries: Vec<Summary> = pictures.iter().map(|p| p.summary.clone()).collect();
    if common.json {
        let of = |at: usize| sure.as_ref().and_then(|sure| sure.get(at));
        let rows: Vec<_> = pictures
            .iter()
            .enumerate()
            .map(|(at, one)| {
                with(
                    &one.summary,
                    &json!({
                        "jain_fairness_users": one.jain_fairness_users,
                        "confidence_95": of(at),
                    }),
                )
            })
            .collect();
        return say::json(&json!({ "policies": rows }));
    }
    if let Some((counts, _)) = told {
        tell_of(&counts);
    }
    print(&table(&summaries).text(terminal_width()));
    if let Some(sure) = &sure
        && sure.len() > 1
    {
        print(&format!("\n{}", intervals(&summaries, sure).text(terminal_width())));
    }
    Ok(0)
}

/// A value's fields with more behind them.
pub(super) fn with(value: &impl serde::Serialize, more: &serde_json::Value) -> serde_json::Value {
    let mut value = json!(value);
    if let (Some(fields), Some(more)) = (value.as_object_mut(), more.as_object()) {
        fields.extend(more.clone());
    }
    value
}

/// Between which bounds the figures lie in 95 of 100 draws of weeks.
fn intervals(summaries: &[Summary], sure: &[Confidence]) -> Table {
    let mut table =
        Table::new(&["95 % OF WEEKS", ">SLOWDOWN", ">LESS FIRST", ">WAIT s", ">LESS FIRST"]);
    for (summary, one) in summaries.iter().zip(sure) {
        table.row(vec![
            summary.policy.clone(),
            span(one.average_bounded_slowdown, 2),
            span(one.slowdown_less_first, 2),
            span(one.average_wait_s, 0),
            span(one.wait_less_first_s, 0),
        ]);
    }
    table
}

/// An interval in so many decimals.
pub(super) fn span(interval: Interval, decimals: usize) -> String {
    let Interval { low, high } = interval;
    // Nought has no sign.
    let (low, high) = (low + 0.0, high + 0.0);
    format!("{low:.decimals$} to {high:.decimals$}")
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
