//! `muster queue`: what waits and runs, and where or why.

use std::time::Duration;

use muster_api::{QueueQuery, QueueRow};
use muster_client::Client;
use muster_model::{JobState, Timestamp};
use serde_json::json;

use crate::args::QueueArgs;
use crate::say::{self, Failure, Outcome, note, print};
use crate::table::{Table, Yield, cut, terminal_width};

/// Time between two looks with `--watch`.
const WATCH: Duration = Duration::from_secs(2);

/// What gives way in a narrow terminal: the least useful first, never where or why.
const YIELDS: &[Yield] = &[
    Yield::DropSame("PARTITION"),
    Yield::Drop("LIMIT"),
    Yield::Shorten("NAME", 14),
    Yield::DropSame("USER"),
    Yield::Drop("PARTITION"),
    Yield::DropSame("NODES"),
    Yield::DropSame("CPUS"),
    Yield::Shorten("USER", 8),
    Yield::Drop("CPUS"),
    Yield::Shorten("NAME", 8),
    Yield::Drop("NODES"),
    Yield::Drop("USER"),
    Yield::Drop("TIME"),
];

/// Runs the command.
pub(crate) fn run(args: &QueueArgs) -> Outcome {
    let client = Client::connect()?;
    if !args.watch {
        return once(&client, args);
    }
    loop {
        let page = page(&client, args)?;
        // Home, text, clear what is below: no flicker.
        print(&format!(
            "\u{1b}[H{}\n{}\u{1b}[J",
            say::bold(&format!("muster queue  {}", say::instant(say::now()))),
            page.replace('\n', "\u{1b}[K\n")
        ));
        std::thread::sleep(WATCH);
    }
}

fn once(client: &Client, args: &QueueArgs) -> Outcome {
    if args.json {
        let rows = rows(client, args)?;
        return say::json(&json!({ "jobs": rows }));
    }
    let rows = rows(client, args)?;
    if rows.is_empty() && !args.jobs.is_empty() {
        return Err(say::no_such_jobs(&args.jobs, "`muster history` knows those that ended"));
    }
    if rows.is_empty() {
        note("no jobs");
    }
    print(&table(&rows, say::now()).text(terminal_width()));
    Ok(0)
}

fn page(client: &Client, args: &QueueArgs) -> Result<String, Failure> {
    let rows = rows(client, args)?;
    if rows.is_empty() {
        return Ok("no jobs\n".to_owned());
    }
    Ok(table(&rows, say::now()).text(terminal_width()))
}

fn rows(client: &Client, args: &QueueArgs) -> Result<Vec<QueueRow>, Failure> {
    let own = || {
        let uid = nix::unistd::Uid::current();
        nix::unistd::User::from_uid(uid).ok().flatten().map_or(uid.to_string(), |user| user.name)
    };
    let query = QueueQuery {
        jobs: (!args.jobs.is_empty()).then(|| args.jobs.join(",")),
        users: if args.me { Some(own()) } else { args.user.clone() },
        partitions: args.partition.clone(),
        states: args.all.then(|| "all".to_owned()),
        expand: Some(args.expand),
        starts: Some(true),
        ..QueueQuery::default()
    };
    Ok(client.queue_all(&query)?)
}

fn table(rows: &[QueueRow], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        "JOB",
        "NAME",
        "USER",
        "PARTITION",
        "STATE",
        ">TIME",
        ">LIMIT",
        ">NODES",
        ">CPUS",
        ">GPUS",
        "WHERE OR WHY",
    ])
    .yielding(YIELDS);
    let mut rows: Vec<&QueueRow> = rows.iter().collect();
    rows.sort_by_key(|row| {
        (row.state == JobState::Pending, std::cmp::Reverse(row.priority), row.id)
    });
    for row in rows {
        table.row(vec![
            row.job.clone(),
            cut(&row.name, Some(24)),
            row.user.clone(),
            row.partition.clone(),
            say::word(row.state).to_ascii_lowercase(),
            used(row, now),
            row.time_limit_s.map(say::seconds).unwrap_or_default(),
            row.nodes.to_string(),
            row.cpus.to_string(),
            if row.gpus > 0 { row.gpus.to_string() } else { String::new() },
            place(row),
        ]);
    }
    table
}

/// Where it runs, or the sentence on why it waits with the start where that is known.
fn place(row: &QueueRow) -> String {
    if row.state != JobState::Pending {
        return row.node_list.clone();
    }
    let reason = row.reason.as_ref().map(|reason| reason.text.clone()).unwrap_or_default();
    match row.expected_ms {
        Some(at) => format!("{reason} (starts {})", say::from_now(at)),
        None => reason,
    }
}

fn used(row: &QueueRow, now: Timestamp) -> String {
    row.started_ms.map(|_| say::seconds(row.run_time(now).0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: serde_json::Value) -> QueueRow {
        let mut whole = json!({
            "name": "train", "user": "mara", "uid": 1, "account": "default", "partition": "main",
            "qos": "normal", "submitted_ms": 0, "nodes": 1, "tasks": 1, "cpus": 4, "gpus": 2,
            "tres": "", "priority": 1, "time_limit_s": 3600,
        });
        if let (Some(whole), serde_json::Value::Object(more)) = (whole.as_object_mut(), value) {
            whole.extend(more);
        }
        serde_json::from_value(whole).expect("a row")
    }

    #[test]
    fn running_jobs_come_first_and_waiting_ones_say_why() {
        let rows = [
            row(json!({"id": 2, "job": "2", "state": "pending",
                "reason": {"code": "RESOURCES", "word": "Resources", "text": "needs 8 gpus on one node; 2 are free"}})),
            row(
                json!({"id": 1, "job": "1", "state": "running", "started_ms": 1000, "node_list": "node1"}),
            ),
        ];
        assert_eq!(
            table(&rows, Timestamp::from_secs(18)).text(None),
            "JOB  NAME   USER  PARTITION  STATE    TIME    LIMIT  NODES  CPUS  GPUS  WHERE OR WHY
1    train  mara  main       running  0:17  1:00:00      1     4     2  node1
2    train  mara  main       pending        1:00:00      1     4     2  needs 8 gpus on one node; 2 are free
"
        );
    }

    #[test]
    fn eighty_columns_show_where_or_why() {
        let text = "needs 8 gpus on one node; 2 are free";
        let rows = [
            row(json!({"id": 100_067, "job": "100067", "state": "running", "started_ms": 1000,
                "name": "한글-학습-작업-이름이-아주-길다-1", "node_list": "node1"})),
            row(json!({"id": 2, "job": "900_[3-9%2]", "state": "pending", "user": "jo",
                "reason": {"code": "RESOURCES", "word": "Resources", "text": text}})),
        ];
        let table = table(&rows, Timestamp::from_secs(18)).text(Some(80));
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].ends_with("WHERE OR WHY") && lines[0].contains("GPUS"), "{table}");
        assert!(lines[1].ends_with("node1"), "{table}");
        assert!(lines[2].contains("needs 8 gpus on one node"), "{table}");
    }
}
