//! `squeue`: the queue as a table (squeue manual).

pub(crate) mod fields;
pub(crate) mod json;
mod steps;

use std::cmp::Ordering;

use muster_api::{QueueQuery, QueueRow};
use muster_client::Client;
use muster_model::Timestamp;
use muster_slurm_syntax::state::{self, SlurmState};

use crate::columns::{self, Column, Layout};
use crate::fail::{Failure, Outcome};
use crate::getopt::{self, NO_SHORT, Opt, Order, Parsed, Takes, alias, flag, value};
use crate::{clock, ident, out};
pub(crate) use fields::Field;

const DEFAULT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";
const STATE_ONLY: &str = "%.18i %.2t";

const TABLE: &[Opt] = &[
    value("account", 'A'),
    alias("accounts", "account", Takes::Value),
    flag("all", 'a'),
    flag("array", 'r'),
    flag("array-unique", NO_SHORT),
    value("clusters", 'M'),
    value("cluster", NO_SHORT),
    flag("expand-patterns", NO_SHORT),
    flag("federation", NO_SHORT),
    value("format", 'o'),
    value("Format", 'O'),
    flag("help", NO_SHORT),
    flag("hide", NO_SHORT),
    value("iterate", 'i'),
    getopt::maybe("json", NO_SHORT),
    getopt::maybe("jobs", 'j'),
    alias("job", "jobs", Takes::MaybeValue),
    value("licenses", 'L'),
    flag("local", NO_SHORT),
    flag("long", 'l'),
    flag("me", NO_SHORT),
    value("name", 'n'),
    alias("names", "name", Takes::Value),
    flag("noconvert", NO_SHORT),
    value("nodelist", 'w'),
    alias("nodes", "nodelist", Takes::Value),
    flag("noheader", 'h'),
    flag("notme", NO_SHORT),
    flag("only-job-state", NO_SHORT),
    value("partition", 'p'),
    alias("partitions", "partition", Takes::Value),
    flag("priority", 'P'),
    value("qos", 'q'),
    value("reservation", 'R'),
    flag("sibling", NO_SHORT),
    value("sort", 'S'),
    flag("start", NO_SHORT),
    getopt::maybe("steps", 's'),
    alias("step", "steps", Takes::MaybeValue),
    value("states", 't'),
    alias("state", "states", Takes::Value),
    flag("usage", NO_SHORT),
    value("user", 'u'),
    alias("users", "user", Takes::Value),
    flag("verbose", 'v'),
    flag("version", 'V'),
    getopt::maybe("yaml", NO_SHORT),
];

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Outcome {
    // squeue takes an optional number behind -j and -s.
    let args = attach_numbers(args);
    let parsed = getopt::parse("squeue", TABLE, &args, Order::Mixed)
        .map_err(|message| Failure::usage("squeue", &message, 1))?;
    if parsed.has("version") {
        return crate::version();
    }
    if parsed.has("help") || parsed.has("usage") {
        return crate::help("squeue", TABLE);
    }
    if let Some(word) = parsed.words.first() {
        return Err(Failure::usage("squeue", &format!("Unrecognized option: {word}"), 1));
    }
    if parsed.has("yaml") {
        return Err(Failure::error("squeue", "--yaml is not offered; --json has the same content"));
    }
    let Some(seconds) = parsed.last("iterate") else { return once(&parsed) };
    let seconds: u64 = seconds.parse().ok().filter(|s| *s > 0).ok_or_else(|| {
        Failure::error("squeue", &format!("{seconds} is not a number of seconds"))
    })?;
    loop {
        out::print(&format!("{}\n", clock::sentence(clock::now())));
        once(&parsed)?;
        std::thread::sleep(std::time::Duration::from_secs(seconds));
    }
}

/// Joins `-j 12` and `-s 12.0` into one word, as squeue takes the word behind these options for theirs.
fn attach_numbers(args: &[String]) -> Vec<String> {
    let mut joined: Vec<String> = Vec::with_capacity(args.len());
    for word in args {
        let number = !word.starts_with('-');
        match joined.last_mut() {
            Some(last) if number && (last == "-j" || last == "-s") => last.push_str(word),
            Some(last)
                if number && ["--jobs", "--job", "--steps", "--step"].contains(&last.as_str()) =>
            {
                last.push('=');
                last.push_str(word);
            }
            _ => joined.push(word.clone()),
        }
    }
    joined
}

fn once(parsed: &Parsed) -> Outcome {
    let states = states(parsed)?;
    let client = Client::connect().map_err(|error| Failure::client("squeue", &error))?;
    if parsed.has("steps") {
        return steps::run(&client, parsed);
    }
    let layout = layout(parsed)?;
    let wide = parsed.has("json") || layout.columns.iter().any(|column| column.field.wide);
    let keys = sort_keys(parsed);
    // Starts are worked out where they show or order the rows.
    let shown =
        layout.columns.iter().map(|column| column.field).chain(keys.iter().map(|key| key.0));
    let starts =
        parsed.has("json") || shown.into_iter().any(|field| matches!(field.letter, 'S' | 'e'));
    let mut query = QueueQuery {
        jobs: parsed.last("jobs").map(str::to_owned),
        users: users(parsed)?,
        partitions: asked(parsed, "partition", "SQUEUE_PARTITION"),
        accounts: asked(parsed, "account", "SQUEUE_ACCOUNT"),
        names: asked(parsed, "name", "SQUEUE_NAMES"),
        qos: asked(parsed, "qos", "SQUEUE_QOS"),
        nodes: nodes(parsed)?,
        states: Some(states.join(",")),
        expand: Some(parsed.has("array") || std::env::var_os("SQUEUE_ARRAY").is_some()),
        wide: Some(wide),
        starts: Some(starts),
        ..QueueQuery::default()
    };
    // A single job that is over says nothing, one that never was is an error.
    let single = query.jobs.as_ref().is_some_and(|jobs| !jobs.contains(','));
    if single {
        query.states = Some("all".to_owned());
    }
    let rows = match client.queue_all(&query) {
        Ok(rows) if !(single && rows.is_empty()) => rows,
        Err(error) if !crate::fail::is_unknown(&error) => {
            return Err(Failure::client("squeue", &error));
        }
        Ok(_) | Err(_) if single => {
            return Err(Failure::says("slurm_load_jobs error: Invalid job id specified"));
        }
        Ok(_) | Err(_) => Vec::new(),
    };
    let mut rows: Vec<QueueRow> =
        rows.into_iter().filter(|row| keeps(parsed, &states, row)).collect();
    let now = clock::now();
    sort(&mut rows, &keys, now);
    if parsed.has("json") {
        let cluster = client.ping().map(|ping| ping.cluster).unwrap_or_default();
        let jobs: Vec<_> = rows.iter().map(|row| json::job(row, &cluster)).collect();
        out::print_json(&json::envelope("jobs", &jobs));
        return Ok(0);
    }
    if parsed.has("long") && !parsed.has("noheader") {
        out::print(&format!("{}\n", clock::sentence(now)));
    }
    out::print(&table(&layout, &rows, now, parsed.has("noheader")));
    Ok(0)
}

/// The whole table as text.
fn table(layout: &Layout<Field>, rows: &[QueueRow], now: Timestamp, plain: bool) -> String {
    let mut text = String::new();
    if !plain {
        text.push_str(&layout.line(|field| field.title.to_owned()));
        text.push('\n');
    }
    for row in rows {
        text.push_str(&layout.line(|field| field.text(row, now)));
        text.push('\n');
    }
    text
}

fn layout(parsed: &Parsed) -> Result<Layout<Field>, Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    if let Some(format) = parsed.last("Format") {
        return named_layout(format);
    }
    if let Some(format) = parsed.last("format") {
        return Ok(percent_layout(format));
    }
    if parsed.has("start") {
        return Ok(percent_layout(START));
    }
    if parsed.has("long") {
        return Ok(percent_layout(LONG));
    }
    if parsed.has("only-job-state") {
        return Ok(percent_layout(STATE_ONLY));
    }
    if let Some(format) = variable("SQUEUE_FORMAT") {
        return Ok(percent_layout(&format));
    }
    match variable("SQUEUE_FORMAT2") {
        Some(format) => named_layout(&format),
        None => Ok(percent_layout(DEFAULT)),
    }
}

fn percent_layout(format: &str) -> Layout<Field> {
    let (layout, unknown) = columns::percent(format, fields::by_letter);
    for letter in unknown {
        out::say(&format!("squeue: error: Invalid job format specification: {letter}"));
    }
    layout
}

fn named_layout(format: &str) -> Result<Layout<Field>, Failure> {
    let mut layout = Layout { before: String::new(), columns: Vec::new() };
    for item in columns::named(format) {
        let field = fields::by_name(item.name).ok_or_else(|| {
            Failure::error("squeue", &format!("Invalid job format specification: {}", item.name))
        })?;
        layout.columns.push(Column { field, width: item.width, after: item.after.to_owned() });
    }
    Ok(layout)
}

fn asked(parsed: &Parsed, key: &str, variable: &str) -> Option<String> {
    parsed.last(key).map(str::to_owned).or_else(|| std::env::var(variable).ok())
}

fn users(parsed: &Parsed) -> Result<Option<String>, Failure> {
    if parsed.has("me") {
        return Ok(Some(ident::own_name()));
    }
    let Some(text) = asked(parsed, "user", "SQUEUE_USERS") else { return Ok(None) };
    let mut names = Vec::new();
    for name in text.split(',').filter(|name| !name.is_empty()) {
        match ident::uid_of(name) {
            Some(uid) => names.push(ident::user_name(uid)),
            None => return Err(Failure::error("squeue", &format!("Invalid user: {name}"))),
        }
    }
    Ok(Some(names.join(",")))
}

fn nodes(parsed: &Parsed) -> Result<Option<String>, Failure> {
    let Some(text) = parsed.last("nodelist") else { return Ok(None) };
    let names = muster_slurm_syntax::hostlist::expand(text, 65_536)
        .map_err(|problem| Failure::error("squeue", &problem.to_string()))?;
    Ok(Some(names.join(",")))
}

/// The states asked for, as the daemon names them.
fn states(parsed: &Parsed) -> Result<Vec<String>, Failure> {
    let Some(text) = asked(parsed, "states", "SQUEUE_STATES") else {
        let live = ["pending", "starting", "running", "suspended", "completing"];
        let live = if parsed.has("start") { &live[..1] } else { &live[..] };
        return Ok(live.iter().map(ToString::to_string).collect());
    };
    if text.eq_ignore_ascii_case("all") {
        return Ok(vec!["all".to_owned()]);
    }
    text.split(',')
        .filter(|word| !word.is_empty())
        .map(|word| {
            state::parse(word).map(wire_state).map_err(|_| {
                let known: Vec<&str> = SlurmState::ALL.iter().map(|state| state.name()).collect();
                Failure::error(
                    "squeue",
                    &format!(
                        "Invalid job state specified: {word}\nValid job states include: {}",
                        known.join(",")
                    ),
                )
            })
        })
        .collect()
}

/// A state of Slurm's as the daemon's lists name it.
pub(crate) fn wire_state(state: SlurmState) -> String {
    match state {
        SlurmState::Configuring => "starting".to_owned(),
        other => other.name().to_ascii_lowercase(),
    }
}

/// What the daemon was not asked to leave out.
fn keeps(parsed: &Parsed, states: &[String], row: &QueueRow) -> bool {
    let reservation = || row.detail.as_ref().map_or("", |detail| &detail.reservation);
    let state = wire_state(fields::state(row));
    (states == ["all"] || states.contains(&state))
        && (!parsed.has("notme") || row.user != ident::own_name())
        && parsed.last("reservation").is_none_or(|name| name == reservation())
}

/// Sort keys: a column and whether it goes down.
type SortKey = (Field, bool);

fn sort_keys(parsed: &Parsed) -> Vec<SortKey> {
    let text = asked(parsed, "sort", "SQUEUE_SORT")
        .unwrap_or_else(|| if parsed.has("start") { "S".to_owned() } else { "P,t,-p".to_owned() });
    let key = |word: &str| {
        let down = word.starts_with('-');
        let letter = word.trim_start_matches(['-', '+']).chars().next()?;
        fields::by_letter(letter).map(|field| (field, down))
    };
    text.split(',').filter_map(key).collect()
}

fn sort(rows: &mut Vec<QueueRow>, keys: &[SortKey], now: Timestamp) {
    let mut keyed: Vec<(Vec<String>, QueueRow)> = std::mem::take(rows)
        .into_iter()
        .map(|row| (keys.iter().map(|(field, _)| sort_text(field, &row, now)).collect(), row))
        .collect();
    keyed.sort_by(|(a, left), (b, right)| {
        for (index, (_, down)) in keys.iter().enumerate() {
            let order = if *down { b[index].cmp(&a[index]) } else { a[index].cmp(&b[index]) };
            if order != Ordering::Equal {
                return order;
            }
        }
        left.id.cmp(&right.id)
    });
    rows.extend(keyed.into_iter().map(|(_, row)| row));
}

/// A text that sorts as the column's value does.
fn sort_text(field: &Field, row: &QueueRow, now: Timestamp) -> String {
    match field.letter {
        'i' | 'A' => format!("{:010}", row.id),
        'p' | 'Q' => format!("{:010}", fields::priority(row)),
        'M' => format!("{:012}", fields::used_s(row, now)),
        'l' | 'L' => format!("{:020}", row.time_limit_s.unwrap_or(u64::MAX)),
        'D' => format!("{:010}", row.nodes),
        'C' => format!("{:010}", row.cpus),
        'S' => format!(
            "{:020}",
            row.started_ms.or(row.expected_ms).map_or(i64::MAX, Timestamp::millis)
        ),
        'e' => format!("{:020}", fields::end(row).map_or(i64::MAX, Timestamp::millis)),
        'V' => format!("{:020}", row.submitted_ms.millis()),
        _ => field.text(row, now),
    }
}

#[cfg(test)]
mod tests;
