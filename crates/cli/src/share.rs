//! What makes one job more important than another, and who used how much of their share.

use clap::Args;
use muster_api::{PriorityQuery, PriorityRow, ShareLine};
use muster_client::Client;
use serde_json::json;

use crate::say::{self, Failure, Outcome, note, print};
use crate::table::{Table, Yield, terminal_width};

/// `muster priority`.
#[derive(Args)]
pub(crate) struct PriorityArgs {
    /// These jobs; without any, every waiting job
    jobs: Vec<String>,
    /// Of these users, joined by commas
    #[arg(long, short)]
    user: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `muster share`.
#[derive(Args)]
pub(crate) struct ShareArgs {
    /// These accounts, joined by commas
    #[arg(long, short = 'A')]
    account: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `muster priority`.
pub(crate) fn priority(args: &PriorityArgs) -> Outcome {
    let jobs = (!args.jobs.is_empty()).then(|| args.jobs.join(","));
    let query = PriorityQuery { jobs, users: args.user.clone(), ..PriorityQuery::default() };
    let mut page = Client::connect()?.priorities(&query)?;
    page.rows.sort_by_key(|row| (-row.priority, row.id));
    if args.json {
        return say::json(&json!(page));
    }
    if page.rows.is_empty() {
        if args.jobs.is_empty() && args.user.is_none() {
            note("no job waits");
            return Ok(0);
        }
        let asked: Vec<&str> = args.jobs.iter().chain(&args.user).map(String::as_str).collect();
        let text = format!("none of {} waits for its turn [E_NOT_FOUND]", asked.join(", "));
        return Err(Failure::new(text + "\nhint: `muster queue` lists what waits and runs"));
    }
    if !page.multifactor {
        say::tell("these factors count only under policy.order = \"multifactor\"\n");
    }
    let mut table = priority_table();
    for row in &page.rows {
        table.row(priority_cells(row));
    }
    print(&table.text(terminal_width()));
    Ok(0)
}

fn priority_table() -> Table {
    Table::new(&[
        "JOB",
        "USER",
        "ACCOUNT",
        "PARTITION",
        "QOSNAME",
        ">PRIORITY",
        ">AGE",
        ">ASSOC",
        ">SHARE",
        ">SIZE",
        ">PART",
        ">QOS",
        ">TRES",
        ">SITE",
        ">NICE",
    ])
    .yielding(PRIORITY_YIELDS)
}

/// What all rows have in common goes first, then terms that are nothing, then names; every term that
/// counts stays.
const PRIORITY_YIELDS: &[Yield] = &[
    Yield::DropSame("QOSNAME"),
    Yield::DropSame("PARTITION"),
    Yield::DropZero("ASSOC"),
    Yield::DropZero("SITE"),
    Yield::DropZero("NICE"),
    Yield::DropZero("TRES"),
    Yield::DropZero("PART"),
    Yield::DropZero("QOS"),
    Yield::DropZero("SIZE"),
    Yield::DropZero("AGE"),
    Yield::DropZero("SHARE"),
    Yield::DropSame("ACCOUNT"),
    Yield::Drop("QOSNAME"),
    Yield::Drop("PARTITION"),
    Yield::Shorten("ACCOUNT", 10),
    Yield::Shorten("USER", 8),
    Yield::Drop("ACCOUNT"),
    Yield::Shorten("JOB", 12),
    Yield::Drop("USER"),
];

/// The terms that have a column of their own; the rest are of resources.
const COLUMNS: [&str; 8] =
    ["age", "association", "fair_share", "job_size", "partition", "qos", "site", "nice"];

fn priority_cells(row: &PriorityRow) -> Vec<String> {
    let term = |name: &str| row.terms.get(name).copied().unwrap_or(0);
    let tres: i64 =
        row.terms.iter().filter(|(name, _)| !COLUMNS.contains(&name.as_str())).map(|t| t.1).sum();
    let shown = |n: i64| if row.by_hand { String::new() } else { n.to_string() };
    vec![
        row.job.clone(),
        row.user.clone(),
        row.account.clone(),
        row.partition.clone(),
        row.qos.clone(),
        row.priority.to_string(),
        shown(term("age")),
        shown(term("association")),
        shown(term("fair_share")),
        shown(term("job_size")),
        shown(term("partition")),
        shown(term("qos")),
        shown(tres),
        shown(term("site")),
        shown(-term("nice")),
    ]
}

/// Runs `muster share`.
pub(crate) fn share(args: &ShareArgs) -> Outcome {
    let mut page = Client::connect()?.shares()?;
    if let Some(accounts) = &args.account {
        for name in accounts.split(',') {
            if !page.rows.iter().any(|row| row.account == name) {
                let names = page.rows.iter().map(|row| row.account.as_str());
                return Err(say::unknown("account", name, names));
            }
        }
        page.rows.retain(|row| accounts.split(',').any(|name| name == row.account));
    }
    if args.json {
        return say::json(&json!(page));
    }
    let mut table = Table::new(&[
        "ACCOUNT", ">SHARES", ">PART", ">USED", ">OF IT", ">LEVEL", ">FACTOR", ">RUNNING", "IN USE",
    ])
    .yielding(&[
        Yield::DropZero("RUNNING"),
        Yield::Drop("LEVEL"),
        Yield::Shorten("ACCOUNT", 16),
    ]);
    for row in &page.rows {
        table.row(share_cells(row));
    }
    print(&table.text(terminal_width()));
    Ok(0)
}

fn share_cells(row: &ShareLine) -> Vec<String> {
    let name = row.user.as_ref().map_or_else(|| row.account.clone(), |user| format!("@{user}"));
    vec![
        format!("{}{name}", "  ".repeat(row.depth as usize)),
        row.shares.map_or_else(|| "parent".to_owned(), |shares| shares.to_string()),
        percent(row.norm_shares),
        hours(row.raw_usage),
        percent(row.effective_usage),
        row.level.map_or_else(|| "inf".to_owned(), |level| fraction(level, 3)),
        if row.user.is_some() || row.fair_share > 0 {
            fraction(row.fair_share, 4)
        } else {
            String::new()
        },
        row.running.to_string(),
        row.in_use.clone(),
    ]
}

/// Billionths with so many places, cut.
fn fraction(billionths: u64, places: usize) -> String {
    let part = format!("{:09}", billionths % 1_000_000_000);
    format!("{}.{}", billionths / 1_000_000_000, &part[..places])
}

fn percent(billionths: u64) -> String {
    format!("{}.{} %", billionths / 10_000_000, billionths / 1_000_000 % 10)
}

/// Billed seconds as hours.
fn hours(seconds: u64) -> String {
    format!("{}.{} h", seconds / 3600, seconds % 3600 / 360)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn terms_of_a_row_add_up_to_its_priority() {
        let terms = [
            ("age", 100),
            ("association", 20),
            ("fair_share", 50),
            ("gres/gpu", 7),
            ("cpu", 3),
            ("site", -20),
            ("nice", 10),
        ];
        let terms: BTreeMap<String, i64> =
            terms.into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
        let row = PriorityRow { job: "7".into(), priority: 150, terms, ..PriorityRow::default() };
        let cells = priority_cells(&row);
        let sum: i64 = cells[6..].iter().map(|cell| cell.parse::<i64>().unwrap_or(0)).sum();
        assert_eq!(sum, 150);
    }

    #[test]
    fn eighty_columns_hold_every_term_that_counts() {
        let terms =
            ["age", "association", "fair_share", "job_size", "partition", "qos", "gres/gpu"];
        let terms = terms.into_iter().map(|name| (name.to_owned(), 10_000)).collect();
        let row = |job: &str, partition: &str| PriorityRow {
            job: job.into(),
            user: "a-long-user-name".into(),
            account: "an-account-with-a-name".into(),
            partition: partition.into(),
            qos: format!("qos-of-{partition}"),
            priority: 70_000,
            terms: BTreeMap::clone(&terms),
            ..PriorityRow::default()
        };
        let mut table = priority_table();
        table.row(priority_cells(&row("1234567_[1-1000%10]", "gpu,cpu,long")));
        table.row(priority_cells(&row("7", "main")));
        let text = table.text(Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for title in ["PRIORITY", "AGE", "ASSOC", "SHARE", "SIZE", "PART", "QOS", "TRES"] {
            assert!(text.lines().next().is_some_and(|line| line.contains(title)), "{text}");
        }
        assert_eq!(text.matches("10000").count(), 14, "{text}");
    }

    #[test]
    fn shares_read_as_parts() {
        let row = ShareLine {
            account: "lab".into(),
            user: Some("ada".into()),
            depth: 1,
            shares: Some(3),
            norm_shares: 750_000_000,
            raw_usage: 5400,
            effective_usage: 333_333_333,
            level: Some(2_250_000_000),
            fair_share: 500_000_000,
            ..ShareLine::default()
        };
        let cells = share_cells(&row);
        assert_eq!(cells, ["  @ada", "3", "75.0 %", "1.5 h", "33.3 %", "2.250", "0.5000", "0", ""]);
    }
}
