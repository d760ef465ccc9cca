//! `muster sim replay` and `muster sim compare`: a trace under other policies.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::Args;
use muster_sim::confidence::{Confidence, Interval, Weeks, confidence};
use muster_sim::report::{self, Picture, Recorder};
use muster_sim::rows::{Format, Rows};
use muster_sim::twin::{self, Finished, LogCounts, PolicyName, Summary, UserSummary};
use serde_json::json;

use super::common::{Common, Replayed, Run, at, cut_short};
use super::own_log::Logged;
use super::past::Past;
use super::watch::{Watch, in_parallel};
use crate::say::{self, Failure, Outcome, note, print};
use crate::table::{Table, terminal_width};

/// The seed of the draws behind intervals: the same figures every time.
pub(super) const SEED: u64 = 1;

/// So many users are in a table, those who ran most.
const USERS_SHOWN: usize = 20;

/// The words of `muster sim replay`.
#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// fifo, easy, easy-sjbf, conservative or muster; without it muster, and for muster's own log the
    /// policy that it was under
    #[arg(long)]
    policy: Option<PolicyName>,
    /// Write every job to this file in the order of their ends, as CSV; as Parquet where its name ends
    /// in .parquet
    #[arg(long, value_name = "FILE")]
    jobs: Option<PathBuf>,
    /// Tell of each user's jobs too
    #[arg(long)]
    by_user: bool,
    #[command(flatten)]
    common: Common,
}

/// The words of `muster sim compare`.
#[derive(Args)]
pub(crate) struct CompareArgs {
    /// A policy, given once for each; without any, all of them. For muster's own log the policy that
    /// it was under comes first
    #[arg(long = "policy")]
    policies: Vec<PolicyName>,
    /// Write a report to this file: one HTML page with the table and charts
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Tell of each user's jobs too
    #[arg(long)]
    by_user: bool,
    #[command(flatten)]
    common: Common,
}

/// What `replay --json` prints.
#[derive(serde::Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<LogCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_user: Option<&'a [UserSummary]>,
}

/// Replays under one policy.
pub(crate) fn run(args: &ReplayArgs) -> Outcome {
    let common = &args.common;
    let mut out = match &args.jobs {
        Some(path) => Some(rows(path)?),
        None => None,
    };
    let row = |done: &Finished| out.as_mut().map_or(Ok(()), |out| out.add(done));
    let watch = Watch::begin();
    let past = Past::open(common)?;
    let run = match (args.policy, past.log()) {
        (None, Some(log)) => log.own_run(),
        (policy, _) => Run::of(policy.unwrap_or(PolicyName::Muster)),
    };
    watch.expect(past.size());
    let Replayed { summary, users, left, .. } = watch.show(|| past.replay(&run, &watch, row))?;
    if let (Some(out), Some(path)) = (out, &args.jobs) {
        out.finish().map_err(|error| at(path, &error))?;
    }
    let jobs = summary.jobs;
    if common.json {
        let by_user = args.by_user.then_some(users.as_slice());
        say::json(&Told { summary: &summary, log: left.log(), by_user })?;
    } else {
        left.tell();
        print_tables(&[(&summary, &users)], args.by_user);
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
    let past = Past::open(common)?;
    let mut runs: Vec<Run> = policies.into_iter().map(Run::of).collect();
    if let Some(own) = past.log().map(Logged::own_run)
        && !runs.iter().any(|run| run.name == own.name)
    {
        runs.insert(0, own);
    }
    watch.expect(past.size() * runs.len() as u64);
    let busiest = args.report.as_ref().map(|_| past.busiest_day(&watch)).transpose()?;
    let replay = |which: usize| {
        let (mut recorder, mut weeks) = (Recorder::with_gantt(busiest.flatten()), Weeks::default());
        let row = |done: &Finished| {
            recorder.add(done);
            weeks.add(done);
            Ok(())
        };
        let Replayed { summary, users, left, processors } =
            past.replay(&runs[which], &watch, row)?;
        if watch.is_interrupted() {
            return Err(cut_short(summary.jobs));
        }
        Ok((recorder.picture(summary, users), weeks, left, processors))
    };
    let found = watch.show(|| in_parallel(runs.len(), replay))?;
    let told = found.first().map(|(_, _, left, processors)| (*left, *processors));
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
                let row = with(&one.summary, &json!({ "confidence_95": of(at) }));
                let users = if args.by_user { json!({ "by_user": one.users }) } else { json!({}) };
                with(&row, &users)
            })
            .collect();
        let log = told.and_then(|(left, _)| left.log());
        let log = log.map_or_else(|| json!({}), |log| json!({ "log": log }));
        return say::json(&with(&json!({ "policies": rows }), &log));
    }
    if let Some((left, _)) = told {
        left.tell();
    }
    let rows: Vec<(&Summary, &[UserSummary])> =
        pictures.iter().map(|one| (&one.summary, one.users.as_slice())).collect();
    print_tables(&rows, args.by_user);
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

/// Begins the table of jobs; what it is to be is told by its name.
fn rows(path: &Path) -> Result<Rows<BufWriter<File>>, Failure> {
    let format = Format::of(path);
    if !format.is_built() {
        let code = "E_PARQUET_NOT_BUILT";
        let text = "this muster was built without Parquet";
        let hint = "hint: a released binary has it; a name in .csv writes lines";
        return Err(Failure::new(format!("{text} [{code}]\n{hint}")));
    }
    let begin = || Rows::new(BufWriter::new(File::create(path)?), format);
    begin().map_err(|error| at(path, &error))
}

/// The tables for people: of all jobs; what broke and what it cost, where that is known; of users.
fn print_tables(rows: &[(&Summary, &[UserSummary])], by_user: bool) {
    let width = terminal_width();
    let summaries = || rows.iter().map(|(summary, _)| *summary);
    print(&table(summaries()).text(width));
    for more in [gpus(summaries()), costs(summaries())] {
        if !more.is_empty() {
            print(&format!("\n{}", more.text(width)));
        }
    }
    if by_user {
        print(&format!("\n{}", users(rows).text(width)));
        let left = rows.first().map_or(0, |(_, users)| users.len().saturating_sub(USERS_SHOWN));
        if left > 0 {
            note(&format!("{left} users more, who ran less: --json has all"));
        }
    }
}

fn table<'a>(summaries: impl Iterator<Item = &'a Summary>) -> Table {
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

/// What became of GPUs; empty where nodes are not known or have none.
fn gpus<'a>(summaries: impl Iterator<Item = &'a Summary>) -> Table {
    let mut table = Table::new(&["POLICY", ">GPUS", ">GIVEN %", ">USABLE %", ">FRAGMENTS %"]);
    for (one, gpus) in summaries.filter_map(|one| one.gpus.map(|gpus| (one, gpus))) {
        let percent = |part: f64| format!("{:.2}", part * 100.0);
        table.row(vec![
            one.policy.clone(),
            format!("{:.0}", gpus.gpus),
            percent(gpus.given),
            percent(gpus.usable),
            percent(gpus.fragmented),
        ]);
    }
    table
}

/// What was lost, drawn and paid; empty where nothing is known of that.
fn costs<'a>(summaries: impl Iterator<Item = &'a Summary>) -> Table {
    let mut table = Table::new(&[
        "POLICY",
        ">FAILURES",
        ">JOBS HIT",
        ">LOST h",
        ">ENERGY kWh",
        ">ENERGY COST",
        ">HOURS COST",
    ]);
    let text = |value: Option<f64>, decimals: usize| {
        value.map_or(String::new(), |value| format!("{value:.decimals$}"))
    };
    for one in summaries.filter(|one| one.faults.is_some() || one.costs.is_some()) {
        let count = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        table.row(vec![
            one.policy.clone(),
            count(one.faults.map(|faults| faults.failures)),
            count(one.faults.map(|faults| faults.jobs_hit)),
            text(one.faults.map(|faults| faults.lost_processor_hours), 1),
            text(one.costs.and_then(|costs| costs.energy_kwh), 1),
            text(one.costs.and_then(|costs| costs.energy_cost), 2),
            text(one.costs.and_then(|costs| costs.processor_cost), 2),
        ]);
    }
    table
}

/// Those who ran most, under each policy.
fn users(rows: &[(&Summary, &[UserSummary])]) -> Table {
    let mut table = Table::new(&[
        ">USER",
        "POLICY",
        ">JOBS",
        ">HOURS",
        ">LOST h",
        ">SLOWDOWN",
        ">WAIT s",
        ">WORST s",
    ]);
    let shown = rows.first().map_or(&[][..], |(_, users)| users).iter().take(USERS_SHOWN);
    for user in shown {
        for (summary, users) in rows {
            let Some(one) = users.iter().find(|one| one.user == user.user) else { continue };
            let lost = summary.faults.map(|_| format!("{:.1}", one.lost_processor_hours));
            table.row(vec![
                one.user.to_string(),
                summary.policy.clone(),
                one.jobs.to_string(),
                format!("{:.1}", one.processor_hours),
                lost.unwrap_or_default(),
                format!("{:.3}", one.average_bounded_slowdown),
                format!("{:.0}", one.average_wait_s),
                one.max_wait_s.to_string(),
            ]);
        }
    }
    table
}
