//! `muster history`: jobs of the past.

use std::collections::VecDeque;

use jiff::tz::TimeZone;
use muster_api::{HistoryQuery, HistoryRow, PAGE_MAX};
use muster_client::Client;
use muster_model::Timestamp;
use muster_slurm_syntax::when;
use serde_json::json;

use crate::args::HistoryArgs;
use crate::say::{self, Failure, Outcome, note, print};
use crate::table::{Table, Yield, terminal_width};

/// Rows of a table unless `--limit` says otherwise.
const LIMIT: usize = 1000;

/// What gives way in a narrow terminal.
const YIELDS: &[Yield] = &[
    Yield::DropSame("USER"),
    Yield::Shorten("NAME", 14),
    Yield::Drop("CPUS"),
    Yield::Drop("GPUS"),
    Yield::Drop("STARTED"),
    Yield::Drop("USER"),
    Yield::Shorten("NODES", 12),
];

/// The instant that a word of a command names: `2026-12-01`, `now-7days`, `today`.
pub(crate) fn said(text: &str) -> Result<Timestamp, Failure> {
    if text.eq_ignore_ascii_case("yesterday") {
        return yesterday(say::now(), &TimeZone::system());
    }
    // "today" alone is this day's beginning here, not this moment.
    let text = if text.eq_ignore_ascii_case("today") { "00:00" } else { text };
    let read = when::parse(text, say::now(), &TimeZone::system());
    let at = read.map_err(|problem| Failure::usage(problem.to_string()))?;
    let today = text.as_bytes().get(2) == Some(&b':') && at > say::now();
    Ok(if today { Timestamp::from_secs(at.secs() - 86_400) } else { at })
}

/// The beginning of the day before, which is not always 24 hours before that of today.
fn yesterday(now: Timestamp, zone: &TimeZone) -> Result<Timestamp, Failure> {
    let beginning = || {
        let now =
            jiff::Timestamp::from_millisecond(now.millis()).ok()?.to_zoned_datetime(zone.clone());
        now.date().yesterday().ok()?.to_zoned_datetime(zone.clone()).ok()
    };
    let beginning = beginning().ok_or_else(|| Failure::usage("no calendar has that day"))?;
    Ok(Timestamp::from_millis(beginning.timestamp().as_millisecond()))
}

/// Runs the command.
pub(crate) fn run(args: &HistoryArgs) -> Outcome {
    let instant = |text: &Option<String>| -> Result<Option<i64>, Failure> {
        text.as_deref().map(|text| Ok(said(text)?.millis())).transpose()
    };
    let today = args.jobs.is_empty() && args.since.is_none() && args.until.is_none();
    let since = if today { Some("today".to_owned()) } else { args.since.clone() };
    let mut query = HistoryQuery {
        jobs: (!args.jobs.is_empty()).then(|| args.jobs.join(",")),
        users: args.user.clone(),
        states: args.state.clone(),
        from_ms: instant(&since)?,
        to_ms: instant(&args.until)?,
        limit: Some(PAGE_MAX),
        ..HistoryQuery::default()
    };
    let client = Client::connect()?;
    if today {
        note("jobs that ended today; --since now-7days, for example, shows earlier ones");
    }
    let most = most(args);
    let (mut rows, mut left_out) = (VecDeque::new(), 0);
    loop {
        let page = client.history(&query)?;
        rows.extend(page.rows);
        left_out += keep_newest(&mut rows, most);
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    if left_out > 0 {
        note(&format!("{left_out} earlier jobs are not shown; --limit 0 shows all"));
    }
    let rows = Vec::from(rows);
    if args.json {
        return say::json(&json!({ "jobs": rows }));
    }
    if rows.is_empty() && !args.jobs.is_empty() {
        return Err(say::no_such_jobs(
            &args.jobs,
            "`muster queue` knows those that have not ended",
        ));
    }
    if rows.is_empty() {
        note("no jobs");
    }
    print(&table(&rows).text(terminal_width()));
    Ok(0)
}

/// Rows to show at most: JSON is for programs and whole unless a bound is asked.
fn most(args: &HistoryArgs) -> usize {
    match args.limit {
        Some(0) => usize::MAX,
        Some(limit) => limit,
        None if args.json => usize::MAX,
        None => LIMIT,
    }
}

/// Drops the oldest rows above the bound; how many.
fn keep_newest<T>(rows: &mut VecDeque<T>, most: usize) -> usize {
    let over = rows.len().saturating_sub(most);
    rows.drain(..over);
    over
}

fn table(rows: &[HistoryRow]) -> Table {
    let mut table = Table::new(&[
        "JOB", "NAME", "USER", "STATE", ">EXIT", "STARTED", ">RAN", ">CPUS", ">GPUS", "NODES",
        "MESSAGE",
    ])
    .yielding(YIELDS);
    for row in rows {
        let times = row.started_ms.zip(row.ended_ms);
        let ran = times.map(|(_, end)| say::seconds(row.run_time(end).0));
        table.row(vec![
            row.job.clone(),
            row.name.clone(),
            row.user.clone(),
            say::word(row.state).to_ascii_lowercase(),
            row.exit.to_string(),
            row.started_ms.map(say::instant).unwrap_or_default(),
            ran.unwrap_or_default(),
            row.cpus.to_string(),
            if row.gpus > 0 { row.gpus.to_string() } else { String::new() },
            row.node_list.clone(),
            row.message.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yesterday_begins_with_its_own_midnight() {
        // Berlin went from summer to winter on 2026-10-25: that day has 25 hours.
        let zone = jiff::tz::TimeZone::get("Europe/Berlin").expect("a zone");
        let at = |text: &str| {
            let at: jiff::Timestamp = text.parse().expect("an instant");
            super::Timestamp::from_millis(at.as_millisecond())
        };
        let begun = super::yesterday(at("2026-10-26T10:00:00Z"), &zone).expect("a day");
        assert_eq!(begun, at("2026-10-24T22:00:00Z"));
    }

    #[test]
    fn the_newest_rows_are_kept() {
        let mut rows = VecDeque::from([1, 2, 3]);
        assert_eq!(keep_newest(&mut rows, 2), 1);
        assert_eq!(rows, [2, 3]);
        assert_eq!(keep_newest(&mut rows, usize::MAX), 0);
    }
}
