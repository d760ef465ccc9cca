//! `muster machine`: what a machine did over time, as sar shows it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use muster_api::shown::bytes;
use muster_api::{LineView, MachineSeries, MachineSeriesQuery};
use muster_client::Client;
use muster_model::Timestamp;
use muster_node_metrics::files::Skipped;
use muster_node_metrics::past::{Layout, Point, lines, sadf, stretches};

use crate::history::said;
use crate::say::{self, Failure, Outcome, note, print};
use crate::table::{Table, Yield, terminal_width};

/// The longest answer of `sadf -j` that is read: a busy day of a large machine.
const BYTES_MAX: u64 = 256 << 20;

/// Rows unless `--rows` says otherwise.
const ROWS: u32 = 24;

/// What gives way in a narrow terminal.
const YIELDS: &[Yield] = &[
    Yield::DropZero("MEM-WAIT"),
    Yield::Drop("GPU-WATTS"),
    Yield::Drop("READS"),
    Yield::Drop("LOAD"),
    Yield::Drop("CPU-WAIT"),
    Yield::Drop("GPU-MEM"),
    Yield::Drop("MEM-FREE"),
];

/// The words of `muster machine`.
#[derive(Args)]
pub(crate) struct MachineArgs {
    /// From then on: now-1day (the default), today, 2026-12-01
    #[arg(long, short = 'S', value_name = "WHEN")]
    since: Option<String>,
    /// Up to then [default: now]
    #[arg(long, short = 'E', value_name = "WHEN")]
    until: Option<String>,
    /// At most about so many rows
    #[arg(long, value_name = "COUNT", default_value_t = ROWS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rows: u32,
    /// A node in place of the daemon's machine: what jobs held of it
    #[arg(long, value_name = "NAME", conflicts_with = "sadf")]
    node: Option<String>,
    /// What `sadf -j` printed, of any machine, in place of the daemon's; - for standard input
    #[arg(long, value_name = "FILE")]
    sadf: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &MachineArgs) -> Outcome {
    let instant = |text: &Option<String>| -> Result<Option<i64>, Failure> {
        text.as_deref().map(|text| Ok(said(text)?.millis())).transpose()
    };
    let (from_ms, to_ms) = (instant(&args.since)?, instant(&args.until)?);
    let points = Some(args.rows);
    let query = MachineSeriesQuery { from_ms, to_ms, points };
    let series = match (&args.sadf, &args.node) {
        (Some(file), _) => of_file(file, &query)?,
        (None, Some(node)) => Client::connect()?.node_series(node, &query)?,
        (None, None) => Client::connect()?.machine_series(&query)?,
    };
    if args.json {
        return say::json(&series);
    }
    for text in &series.notes {
        note(text);
    }
    let table = table(&series);
    if table.is_empty() {
        note("nothing is known of that time");
    }
    print(&table.text(terminal_width()));
    if let Some(own) = series.own_from_ms.filter(|own| *own > series.from_ms) {
        let own = say::instant(Timestamp::from_millis(own));
        let before = if args.node.is_some() { "not known" } else { "sysstat's, if there is any" };
        note(&format!("what was before {own} is {before}"));
    }
    Ok(0)
}

fn of_file(file: &Path, query: &MachineSeriesQuery) -> Result<MachineSeries, Failure> {
    let fails = |why: String| Failure::new(format!("{}: {why}", file.display()));
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text))
    };
    read.map_err(|error| fails(error.to_string()))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(fails(format!("longer than {}", bytes(BYTES_MAX))));
    }
    let mut skipped = Skipped::default();
    let points = sadf::parse(&text, &mut skipped).map_err(|_| {
        let hint = "hint: make it with `sadf -j FILE -- -A > OUT.json`";
        fails(format!("this is not what sadf -j prints\n{hint}"))
    })?;
    Ok(of_points(&points, &skipped, query))
}

/// All of them, unless a time is asked for.
fn of_points(points: &[Point], skipped: &Skipped, query: &MachineSeriesQuery) -> MachineSeries {
    let first = points.iter().map(Point::begin_ms).min().unwrap_or_default();
    let last = points.last().map_or(first, |point| point.end_ms);
    let (from_ms, to_ms) = (query.from_ms.unwrap_or(first), query.to_ms.unwrap_or(last));
    let most = query.points.unwrap_or(ROWS) as usize;
    let layout = Layout::over(from_ms, to_ms, most);
    let line = |(figure, values): (muster_node_metrics::past::Figure, _)| LineView {
        name: figure.name().to_owned(),
        unit: figure.unit().to_owned(),
        values,
    };
    let left_out = (skipped.count > 0).then(|| {
        let first = skipped.first.clone().unwrap_or_default();
        format!(
            "{} left out, whose time is not in UTC or not told: {first}",
            say::plural(skipped.count, "entry")
        )
    });
    MachineSeries {
        from_ms: layout.from_ms,
        step_ms: layout.step_ms,
        lines: lines(&stretches(points, layout)).into_iter().map(line).collect(),
        own_from_ms: None,
        notes: left_out.into_iter().collect(),
    }
}

/// The columns: title, line.
const COLUMNS: [(&str, &str); 18] = [
    (">CPUS-HELD", "cpus_held"),
    (">MEM-HELD", "memory_held"),
    (">GPUS-HELD", "gpus_held"),
    (">CPU", "cpu"),
    (">CPU-WAIT", "cpu_waiting"),
    (">MEM-WAIT", "memory_waiting"),
    (">I/O-WAIT", "io_waiting"),
    (">LOAD", "load"),
    (">MEM-FREE", "memory_free"),
    (">READ", "read"),
    (">WRITTEN", "written"),
    (">READS", "reads"),
    (">DISK", "disk_busy"),
    (">RECEIVED", "received"),
    (">SENT", "sent"),
    (">GPU", "gpu"),
    (">GPU-MEM", "gpu_memory"),
    (">GPU-WATTS", "gpu_power"),
];

/// A row for each stretch of which something is known.
fn table(series: &MachineSeries) -> Table {
    let titles: Vec<&str> =
        std::iter::once("FROM").chain(COLUMNS.map(|(title, _)| title)).collect();
    let mut table = Table::new(&titles).yielding(YIELDS);
    let found = COLUMNS.map(|(_, name)| series.lines.iter().find(|line| line.name == name));
    let stretches = series.lines.iter().map(|line| line.values.len()).max().unwrap_or(0);
    for at in 0..stretches {
        let cells = found.map(|line| {
            let line = line?;
            Some(shown(line.values.get(at).copied().flatten()?, &line.unit))
        });
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let begun = series.from_ms.saturating_add_unsigned(series.step_ms * at as u64);
        let first = say::instant(Timestamp::from_millis(begun));
        let rest = cells.map(Option::unwrap_or_default);
        table.row(std::iter::once(first).chain(rest).collect());
    }
    table
}

fn shown(value: f64, unit: &str) -> String {
    match unit {
        "share" => format!("{:.0} %", value * 100.0),
        "bytes" => bytes(value as u64),
        "bytes_per_s" => format!("{}/s", bytes(value as u64)),
        "per_s" | "watts" => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURED: &str = include_str!("../../node-metrics/tests/sadf/12.6.1.json");

    fn series(query: &MachineSeriesQuery) -> MachineSeries {
        let mut skipped = Skipped::default();
        let points = sadf::parse(CAPTURED, &mut skipped).expect("sadf -j");
        of_points(&points, &skipped, query)
    }

    #[test]
    fn a_file_is_shown_whole_in_rows_of_what_is_known() {
        let series = series(&MachineSeriesQuery::default());
        assert_eq!(series.step_ms, 1_000);
        let text = table(&series).text(None);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 3, "{text}");
        assert!(rows[0].contains("I/O-WAIT") && !rows[0].contains("GPU"), "{text}");
        assert!(rows[2].contains("22.2 GiB") && rows[2].contains("4.2 MiB/s"), "{text}");
    }

    #[test]
    fn a_time_that_nobody_knows_has_no_rows() {
        let query = MachineSeriesQuery { from_ms: Some(0), to_ms: Some(60_000), points: Some(5) };
        assert!(table(&series(&query)).is_empty());
    }
}
