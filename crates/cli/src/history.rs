//! `muster history`: jobs of the past.

use jiff::tz::TimeZone;
use muster_api::{HistoryQuery, HistoryRow, PAGE_MAX};
use muster_client::Client;
use muster_model::Timestamp;
use muster_slurm_syntax::when;
use serde_json::json;

use crate::args::HistoryArgs;
use crate::say::{self, Failure, Outcome, print};
use crate::table::{Table, terminal_width};

/// Runs the command.
pub(crate) fn run(args: &HistoryArgs) -> Outcome {
    let instant = |text: &Option<String>| -> Result<Option<i64>, Failure> {
        let Some(text) = text else { return Ok(None) };
        // "today" alone is this day's beginning here, not this moment.
        let text = if text.eq_ignore_ascii_case("today") { "00:00" } else { text };
        let read = when::parse(text, say::now(), &TimeZone::system());
        let at = read.map_err(|problem| Failure::usage(problem.to_string()))?;
        let today = text.as_bytes().get(2) == Some(&b':') && at > say::now();
        let at = if today { Timestamp::from_secs(at.secs() - 86_400) } else { at };
        Ok(Some(at.millis()))
    };
    let mut query = HistoryQuery {
        jobs: (!args.jobs.is_empty()).then(|| args.jobs.join(",")),
        users: args.user.clone(),
        states: args.state.clone(),
        from_ms: instant(&args.since)?,
        to_ms: instant(&args.until)?,
        limit: Some(PAGE_MAX),
        ..HistoryQuery::default()
    };
    let client = Client::connect()?;
    let mut rows = Vec::new();
    loop {
        let page = client.history(&query)?;
        rows.extend(page.rows);
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    if args.json {
        return say::json(&json!({ "jobs": rows }));
    }
    let text = table(&rows).text(terminal_width());
    print(if rows.is_empty() { "no jobs\n" } else { &text });
    Ok(0)
}

fn table(rows: &[HistoryRow]) -> Table {
    let mut table = Table::new(&[
        "JOB", "NAME", "USER", "STATE", ">EXIT", "STARTED", ">RAN", ">CPUS", ">GPUS", "NODES",
        "MESSAGE",
    ]);
    for row in rows {
        let ran =
            row.started_ms.zip(row.ended_ms).map(|(start, end)| say::seconds(end.since(start).0));
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
