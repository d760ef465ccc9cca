//! `squeue -s`: the steps of running jobs.

use muster_api::{HistoryQuery, HistoryRow, StepView};
use muster_client::Client;
use muster_model::{Seconds, TimeLimit};
use muster_slurm_syntax::duration::print_short;

use crate::columns;
use crate::fail::{Failure, Outcome};
use crate::getopt::Parsed;
use crate::{clock, out};

const DEFAULT: &str = "%.15i %.8j %.9P %.8u %.9M %N";

/// Prints the table of steps.
pub(super) fn run(client: &Client, parsed: &Parsed) -> Outcome {
    let query = HistoryQuery {
        live: Some(true),
        states: Some("starting,running,suspended,completing".to_owned()),
        jobs: parsed.last("steps").map(|text| text.split('.').next().unwrap_or(text).to_owned()),
        users: parsed.last("user").map(str::to_owned),
        partitions: parsed.last("partition").map(str::to_owned),
        ..HistoryQuery::default()
    };
    let rows = crate::sacct::history(client, query).map_err(|e| Failure::client("squeue", &e))?;
    let format = parsed.last("format").unwrap_or(DEFAULT);
    let known = "ijPuMNATSU";
    let (layout, _) = columns::percent(format, |letter| known.contains(letter).then_some(letter));
    let mut text = String::new();
    if !parsed.has("noheader") {
        text.push_str(&layout.line(|letter| title(*letter).to_owned()));
        text.push('\n');
    }
    for row in &rows {
        for step in row.steps.iter().filter(|step| step.ended_ms.is_none()) {
            text.push_str(&layout.line(|letter| cell(*letter, row, step)));
            text.push('\n');
        }
    }
    out::print(&text);
    Ok(0)
}

fn title(letter: char) -> &'static str {
    match letter {
        'i' => "STEPID",
        'j' => "NAME",
        'P' => "PARTITION",
        'u' => "USER",
        'U' => "UID",
        'M' => "TIME",
        'A' => "NODES",
        'T' => "TASKS",
        'S' => "START_TIME",
        _ => "NODELIST",
    }
}

fn cell(letter: char, row: &HistoryRow, step: &StepView) -> String {
    let used = row.step_run_time(step, clock::now()).0;
    match letter {
        'i' => format!("{}.{}", row.job, step.id),
        'j' => step.name.clone(),
        'P' => row.partition.clone(),
        'u' => row.user.clone(),
        'U' => row.uid.to_string(),
        'M' => print_short(TimeLimit::Of(Seconds(used))),
        'A' => step.nodes.to_string(),
        'T' => step.tasks.to_string(),
        'S' => clock::instant(step.started_ms),
        _ => row.node_list.clone(),
    }
}
