//! `sacct`: accounting as a table (sacct manual).

mod fields;
mod json;

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use muster_api::{HistoryQuery, HistoryRow, JobRef, PAGE_MAX, QueueQuery};
use muster_client::{Client, ClientError};
use muster_model::{IndexRanges, JobState, Timestamp};
use muster_slurm_syntax::state::SlurmState;
use muster_slurm_syntax::{state, when};

use crate::fail::{Failure, Outcome};
use crate::getopt::{self, NO_SHORT, Opt, Order, Parsed, Takes, alias, flag, value};
use crate::squeue::wire_state;
use crate::{clock, ident, out};
pub(crate) use fields::mebibytes;
use fields::{FIELDS, Field, Line};

const DEFAULT: &str = "jobid,jobname,partition,account,alloccpus,state,exitcode";
const BRIEF: &str = "jobid,state,exitcode";
const LONG: &str = "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,alloccpus,elapsed,state,exitcode,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite,reqtres,alloctres,tresusageinave,tresusageinmax,tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,tresusageinmintask,tresusageintot,tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutave,tresusageouttot";

const TABLE: &[Opt] = &[
    value("accounts", 'A'),
    alias("account", "accounts", Takes::Value),
    flag("allclusters", 'L'),
    flag("allocations", 'X'),
    flag("allusers", 'a'),
    flag("array", NO_SHORT),
    value("associations", 'x'),
    flag("batch-script", 'B'),
    flag("brief", 'b'),
    value("cluster", NO_SHORT),
    value("clusters", 'M'),
    flag("completion", 'c'),
    value("constraints", 'C'),
    value("delimiter", NO_SHORT),
    flag("duplicates", 'D'),
    value("endtime", 'E'),
    flag("env-vars", NO_SHORT),
    flag("expand-patterns", NO_SHORT),
    flag("federation", NO_SHORT),
    value("file", 'f'),
    value("flags", 'F'),
    value("format", 'o'),
    value("gid", 'g'),
    alias("group", "gid", Takes::Value),
    flag("help", 'h'),
    flag("helpformat", 'e'),
    value("jobs", 'j'),
    alias("job", "jobs", Takes::Value),
    getopt::maybe("json", NO_SHORT),
    flag("local", NO_SHORT),
    flag("long", 'l'),
    value("name", NO_SHORT),
    alias("names", "name", Takes::Value),
    value("ncpus", 'I'),
    value("nnodes", 'i'),
    flag("noconvert", NO_SHORT),
    value("nodelist", 'N'),
    flag("noheader", 'n'),
    flag("parsable", 'p'),
    flag("parsable2", 'P'),
    value("partition", 'r'),
    value("qos", 'q'),
    value("reason", 'R'),
    value("starttime", 'S'),
    value("state", 's'),
    value("timelimit-max", 'K'),
    value("timelimit-min", 'k'),
    flag("truncate", 'T'),
    value("uid", 'u'),
    alias("user", "uid", Takes::Value),
    value("units", NO_SHORT),
    flag("usage", 'U'),
    flag("use-local-uid", NO_SHORT),
    flag("verbose", 'v'),
    flag("version", 'V'),
    value("wckeys", 'W'),
    getopt::maybe("yaml", NO_SHORT),
];

/// A column: a field and its width as asked for; below zero to the left.
type Column = (Field, i32);

/// How the table is written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Style {
    /// Columns are filled with blanks to their widths.
    wide: bool,
    /// What stands between columns.
    delimiter: String,
    /// It stands behind the last one too.
    trailing: bool,
    /// No titles.
    plain: bool,
}

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Outcome {
    let parsed = getopt::parse("sacct", TABLE, args, Order::Mixed).map_err(Failure::says)?;
    if parsed.has("version") {
        return crate::version();
    }
    if parsed.has("help") || parsed.has("usage") {
        return crate::help("sacct", TABLE);
    }
    if parsed.has("helpformat") {
        out::print(&help_format());
        return Ok(0);
    }
    let columns = columns(&format_of(&parsed))?;
    let now = clock::now();
    let query = query(&parsed, now)?;
    let client = Client::connect().map_err(|error| Failure::client("sacct", &error))?;
    let mut rows = match history(&client, query) {
        Ok(rows) => rows,
        Err(error) if crate::fail::is_unknown(&error) => Vec::new(),
        Err(error) => return Err(Failure::client("sacct", &error)),
    };
    if parsed.has("batch-script") {
        return script(&client, &rows);
    }
    rows.sort_by_key(|row| (row.id, row.attempt));
    if !parsed.has("duplicates") {
        last_attempts(&mut rows);
    }
    rows.retain(|row| keeps(&parsed, row));
    if !parsed.has("array") {
        let throttles = throttles(&client, &rows);
        fold_waiting(&mut rows, &throttles);
    }
    let cluster = client.ping().map(|ping| ping.cluster).unwrap_or_default();
    if parsed.has("json") {
        let jobs: Vec<_> = rows.iter().map(|row| json::job(row, &cluster, now)).collect();
        out::print_json(&crate::squeue::json::envelope("jobs", &jobs));
        return Ok(0);
    }
    let steps = !parsed.has("allocations");
    let wanted = parsed.all("jobs").map(|jobs| step_filter(&jobs)).unwrap_or_default();
    out::print(&table(&columns, &style(&parsed), &lines(&rows, &cluster, now, steps, &wanted)));
    Ok(0)
}

/// Every row that matches, page by page.
pub(crate) fn history(
    client: &Client,
    query: HistoryQuery,
) -> Result<Vec<HistoryRow>, ClientError> {
    let mut query = HistoryQuery { limit: Some(PAGE_MAX), ..query };
    let mut rows = Vec::new();
    loop {
        let page = client.history(&query)?;
        rows.extend(page.rows);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(rows),
        }
    }
}

fn query(parsed: &Parsed, now: Timestamp) -> Result<HistoryQuery, Failure> {
    let text = |key: &str| parsed.all(key);
    let states = states(parsed)?;
    let jobs = parsed.all("jobs").map(|jobs| bases(&jobs)).transpose()?;
    let from = match parsed.last("starttime") {
        Some(text) => Some(instant(text, now)?),
        None if jobs.is_some() => None,
        None if states.is_some() => Some(now),
        None => Some(instant("today", now)?),
    };
    let to = parsed.last("endtime").map(|text| instant(text, now)).transpose()?;
    Ok(HistoryQuery {
        users: users(parsed, jobs.is_some())?,
        states,
        partitions: text("partition"),
        accounts: text("accounts"),
        names: text("name"),
        from_ms: from.map(Timestamp::millis),
        // "Now" is to contain what was submitted in this very second.
        to_ms: to.filter(|to| to.secs() < now.secs()).map(Timestamp::millis),
        live: Some(true),
        jobs,
        ..HistoryQuery::default()
    })
}

/// The job of each word; step numbers are left to [`step_filter`].
fn bases(text: &str) -> Result<String, Failure> {
    let mut jobs = Vec::new();
    for word in split_jobs(text) {
        let base = word.split('.').next().unwrap_or(word);
        base.parse::<JobRef>()
            .map_err(|_| Failure::says(format!("sacct: fatal: Bad job/step specified: {word}")))?;
        jobs.push(base);
    }
    Ok(jobs.join(","))
}

/// Splits at commas outside brackets.
fn split_jobs(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0
    })
    .filter(|word| !word.is_empty())
}

/// Words that name a step.
fn step_filter(text: &str) -> Vec<String> {
    split_jobs(text).filter(|word| word.contains('.')).map(str::to_owned).collect()
}

fn instant(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    let read = |text: &str| when::parse(text, now, &TimeZone::system());
    // "today" alone is this day's beginning here, not this moment.
    let text = if text.eq_ignore_ascii_case("today") { "00:00" } else { text };
    match read(text) {
        // A clock time means today's, even where it is past.
        Ok(at) if text.as_bytes().get(2) == Some(&b':') && at > now => {
            Ok(Timestamp::from_secs(at.secs() - 86_400))
        }
        Ok(at) => Ok(at),
        Err(_) => {
            Err(Failure::says(format!("sacct: error: Invalid time specification (pos=0): {text}")))
        }
    }
}

fn users(parsed: &Parsed, by_job: bool) -> Result<Option<String>, Failure> {
    let all = parsed.has("allusers") || by_job || nix::unistd::Uid::current().is_root();
    let Some(text) = parsed.all("uid") else {
        return Ok((!all).then(ident::own_name));
    };
    let mut names = Vec::new();
    for name in text.split(',').filter(|name| !name.is_empty()) {
        let uid = ident::uid_of(name)
            .ok_or_else(|| Failure::error("sacct", &format!("Invalid user id: {name}")))?;
        names.push(ident::user_name(uid));
    }
    Ok(Some(names.join(",")))
}

fn states(parsed: &Parsed) -> Result<Option<String>, Failure> {
    let Some(text) = parsed.all("state") else { return Ok(None) };
    let mut words = Vec::new();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let state = state::parse(word).map_err(|_| {
            Failure::says(format!("sacct: fatal: unrecognized job state value '{word}'"))
        })?;
        words.push(wire_state(state));
        if state == SlurmState::Running {
            // Both are running for accounting: see `fields::accounted`.
            words.extend([SlurmState::Configuring, SlurmState::Completing].map(wire_state));
        }
    }
    Ok(Some(words.join(",")))
}

fn keeps(parsed: &Parsed, row: &HistoryRow) -> bool {
    parsed.all("qos").is_none_or(|names| names.split(',').any(|name| name == row.qos))
}

fn last_attempts(rows: &mut Vec<HistoryRow>) {
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for row in rows.iter() {
        let attempt = last.entry(row.id).or_default();
        // A job back in the queue is the last word on it.
        *attempt = (*attempt).max(if row.state.is_over() { row.attempt } else { u32::MAX });
    }
    rows.retain(|row| {
        let attempt = if row.state.is_over() { row.attempt } else { u32::MAX };
        last.get(&row.id) == Some(&attempt)
    });
}

/// How many tasks of each waiting array may run at once.
fn throttles(client: &Client, rows: &[HistoryRow]) -> BTreeMap<u32, u32> {
    if !rows.iter().any(|row| row.state == JobState::Pending && row.array.is_some()) {
        return BTreeMap::new();
    }
    let query = QueueQuery { states: Some("pending".to_owned()), ..QueueQuery::default() };
    let rows = client.queue_all(&query).unwrap_or_default();
    let bound = |array: muster_api::ArrayView| Some((array.id, array.throttle?));
    rows.into_iter().filter_map(|row| row.array.and_then(bound)).collect()
}

/// Joins the waiting tasks of each array into one row: `900_[3-9%2]`.
fn fold_waiting(rows: &mut Vec<HistoryRow>, throttles: &BTreeMap<u32, u32>) {
    let waits = |row: &HistoryRow| row.state == JobState::Pending && !row.job.contains('[');
    let mut tasks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for row in rows.iter().filter(|row| waits(row)) {
        if let (Some(array), Some(task)) = (row.array, row.task) {
            tasks.entry(array).or_default().push(task);
        }
    }
    rows.retain_mut(|row| {
        let Some(array) = row.array.filter(|_| waits(row)) else { return true };
        let Some(indices) = tasks.remove(&array) else { return false };
        let ranges: IndexRanges = indices.into_iter().collect();
        row.job = match throttles.get(&array) {
            Some(throttle) => format!("{array}_[{ranges}%{throttle}]"),
            None => format!("{array}_[{ranges}]"),
        };
        true
    });
}

fn lines<'a>(
    rows: &'a [HistoryRow],
    cluster: &'a str,
    now: Timestamp,
    steps: bool,
    wanted: &[String],
) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    let line = |row, step| Line { row, step, cluster, now };
    for row in rows {
        let named = |step: &&muster_api::StepView| {
            let name = format!("{}.{}", row.job, step.id);
            let raw = format!("{}.{}", row.id, step.id);
            wanted.is_empty() || wanted.contains(&name) || wanted.contains(&raw)
        };
        if wanted.is_empty() {
            lines.push(line(row, None));
        }
        if steps {
            lines.extend(row.steps.iter().filter(named).map(|step| line(row, Some(step))));
        }
    }
    lines
}

fn script(client: &Client, rows: &[HistoryRow]) -> Outcome {
    for row in rows {
        let job = JobRef::Job(muster_model::JobId(row.id));
        let view = client.script(&job).map_err(|error| Failure::client("sacct", &error))?;
        let rule = "-".repeat(80);
        out::print(&format!("Batch Script for {}\n{rule}\n{}\n", row.job, view.script));
    }
    Ok(0)
}

fn format_of(parsed: &Parsed) -> String {
    if let Some(format) = parsed.all("format") {
        return format;
    }
    if parsed.has("long") {
        return LONG.to_owned();
    }
    if parsed.has("brief") {
        return BRIEF.to_owned();
    }
    std::env::var("SACCT_FORMAT").unwrap_or_else(|_| DEFAULT.to_owned())
}

fn columns(format: &str) -> Result<Vec<Column>, Failure> {
    let mut columns = Vec::new();
    for item in format.split([',', ' ']).filter(|item| !item.is_empty()) {
        let (name, width) = match item.split_once('%') {
            Some((name, width)) => (name, width.parse::<i32>().ok().filter(|w| w.abs() <= 4096)),
            None => (item, None),
        };
        if name.eq_ignore_ascii_case("all") {
            columns.extend(FIELDS.iter().map(|field| (*field, field.width)));
            continue;
        }
        let field = fields::by_name(name).ok_or_else(|| {
            Failure::error("sacct", &format!("Invalid field requested: \"{name}\""))
        })?;
        columns.push((field, width.filter(|width| *width != 0).unwrap_or(field.width)));
    }
    Ok(columns)
}

fn style(parsed: &Parsed) -> Style {
    let parsable = parsed.has("parsable") || parsed.has("parsable2");
    Style {
        wide: !parsable,
        delimiter: parsed.last("delimiter").unwrap_or("|").to_owned(),
        trailing: !parsed.has("parsable2"),
        plain: parsed.has("noheader"),
    }
}

fn table(columns: &[Column], style: &Style, lines: &[Line<'_>]) -> String {
    let mut text = String::new();
    if !style.plain {
        text.push_str(&join(columns, style, |(field, _)| field.name.to_owned(), title_cell));
        if style.wide {
            let rule = |(_, width): &Column| "-".repeat(width.unsigned_abs() as usize);
            text.push_str(&join(columns, style, rule, cell));
        }
    }
    for line in lines {
        text.push_str(&join(columns, style, |(field, _)| (field.text)(line), cell));
    }
    text
}

fn join(
    columns: &[Column],
    style: &Style,
    text: impl Fn(&Column) -> String,
    fit: impl Fn(&str, i32) -> String,
) -> String {
    if style.wide {
        let cells = columns.iter().map(|column| fit(&text(column), column.1) + " ");
        return cells.collect::<String>() + "\n";
    }
    let cells: Vec<String> = columns.iter().map(text).collect();
    let end = if style.trailing { &style.delimiter } else { "" };
    format!("{}{end}\n", cells.join(&style.delimiter))
}

/// A title is cut, a value is cut with a plus sign at its end.
fn title_cell(text: &str, width: i32) -> String {
    let chars = width.unsigned_abs() as usize;
    pad(&text.chars().take(chars).collect::<String>(), width)
}

fn cell(text: &str, width: i32) -> String {
    let chars = width.unsigned_abs() as usize;
    if text.chars().count() <= chars {
        return pad(text, width);
    }
    let kept: String = text.chars().take(chars.saturating_sub(1)).collect();
    kept + "+"
}

fn pad(text: &str, width: i32) -> String {
    let chars = width.unsigned_abs() as usize;
    if width < 0 { format!("{text:<chars$}") } else { format!("{text:>chars$}") }
}

/// All names in four columns.
fn help_format() -> String {
    let mut text = String::new();
    for row in FIELDS.chunks(4) {
        let cells: Vec<String> = row.iter().map(|field| format!("{:<19}", field.name)).collect();
        text.push_str(&cells.join(" "));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
