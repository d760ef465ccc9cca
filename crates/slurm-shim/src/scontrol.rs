//! `scontrol`: shows and changes jobs and nodes (scontrol manual).

mod assoc_mgr;
mod change;
mod config;
mod job;
mod node;
mod partition;
pub(crate) mod reservation;
mod resize;
mod show;

use muster_api::JobRef;
use muster_client::{Client, ClientError};

use crate::fail::{Failure, Outcome};
use crate::getopt::{self, NO_SHORT, Opt, Order, flag, value};
use crate::out;
pub(crate) use node::{allocated, configured, gres, gres_used};

const TABLE: &[Opt] = &[
    flag("all", 'a'),
    value("clusters", 'M'),
    value("cluster", NO_SHORT),
    flag("details", 'd'),
    flag("federation", NO_SHORT),
    flag("future", 'F'),
    flag("help", 'h'),
    flag("hide", NO_SHORT),
    getopt::maybe("json", NO_SHORT),
    flag("local", NO_SHORT),
    flag("oneliner", 'o'),
    flag("quiet", 'Q'),
    value("uid", 'u'),
    flag("verbose", 'v'),
    flag("version", 'V'),
    getopt::maybe("yaml", NO_SHORT),
];

/// How things are shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// One line a record.
    pub(crate) one_line: bool,
    /// What is held on each node, too.
    pub(crate) details: bool,
    /// JSON.
    pub(crate) json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Outcome {
    let parsed = getopt::parse("scontrol", TABLE, args, Order::Mixed)
        .map_err(|message| Failure::usage("scontrol", &message, 1))?;
    if parsed.has("version") {
        return crate::version();
    }
    let words: Vec<&str> = parsed.words.iter().map(String::as_str).collect();
    let Some((command, rest)) = words.split_first().filter(|_| !parsed.has("help")) else {
        return crate::help("scontrol", TABLE);
    };
    let style = Style {
        one_line: parsed.has("oneliner"),
        details: parsed.has("details"),
        json: parsed.has("json"),
    };
    match named(command) {
        Some("version") => crate::version(),
        Some("help") => crate::help("scontrol", TABLE),
        Some("show") => show::run(rest, style),
        Some("ping") => Ok(ping(style)),
        Some("create") => reservation::create(&connect()?, rest),
        Some("delete") => reservation::delete(&connect()?, rest),
        Some("update") if names_reservation(rest) => reservation::update(&connect()?, rest),
        Some("update") => change::update(&connect()?, rest),
        Some("write") => write(&connect()?, rest),
        Some("wait_job") => wait_job(&connect()?, rest),
        Some("reconfigure") => {
            connect()?.reload().map(|_| 0).map_err(|error| Failure::client("scontrol", &error))
        }
        Some("shutdown") => {
            connect()?.shutdown().map(|_| 0).map_err(|error| Failure::client("scontrol", &error))
        }
        Some(action) if change::action(action).is_some() => change::act(&connect()?, action, rest),
        Some(later) => Err(Failure::error(
            "scontrol",
            &format!("{later} is not offered yet\nhint: docs/reference/slurm.md lists what is"),
        )),
        None => Err(Failure::says(format!("invalid keyword: {command}"))),
    }
}

/// True where an update is one of a reservation: `ReservationName=` comes first, or there is no job.
fn names_reservation(words: &[&str]) -> bool {
    let key = |word: &&str| word.split('=').next().unwrap_or_default().to_ascii_lowercase();
    let first = words.first().map(key).unwrap_or_default();
    first.len() >= 3 && "reservationname".starts_with(&first)
}

/// The command that a word, or the beginning of one, names.
fn named(word: &str) -> Option<&'static str> {
    const COMMANDS: &[&str] = &[
        "cancel_reboot",
        "completing",
        "create",
        "delete",
        "fsdampeningfactor",
        "help",
        "hold",
        "listpids",
        "notify",
        "ping",
        "power",
        "reboot",
        "reboot_nodes",
        "reconfigure",
        "release",
        "requeue",
        "requeuehold",
        "resume",
        "schedloglevel",
        "setdebug",
        "setdebugflags",
        "show",
        "shutdown",
        "suspend",
        "takeover",
        "token",
        "top",
        "uhold",
        "update",
        "version",
        "wait_job",
        "write",
    ];
    let lower = word.to_ascii_lowercase();
    let exact = COMMANDS.iter().find(|command| **command == lower);
    let begins = || COMMANDS.iter().find(|c| lower.len() >= 3 && c.starts_with(&lower));
    exact.or_else(begins).copied()
}

fn connect() -> Result<Client, Failure> {
    Client::connect().map_err(|error| Failure::client("scontrol", &error))
}

fn ping(style: Style) -> i32 {
    let host = crate::submit::host();
    let up = Client::connect().and_then(|client| client.ping()).is_ok();
    let word = if up { "UP" } else { "DOWN" };
    if style.json {
        let ping = serde_json::json!({"hostname": host, "pinged": word, "mode": "primary"});
        out::print_json(&crate::squeue::json::envelope("pings", &[ping]));
    } else {
        out::print(&format!("Slurmctld(primary) at {host} is {word}\n"));
    }
    i32::from(!up)
}

/// `write batch_script ID [FILE]`.
fn write(client: &Client, words: &[&str]) -> Outcome {
    let [what, id, rest @ ..] = words else { return Err(too_few("write")) };
    if !what.starts_with("batch") {
        return Err(Failure::says(format!("invalid write argument: {what}")));
    }
    let job = job_of(id)?;
    let view = client.script(&job).map_err(|error| told(&error, id))?;
    let path = rest.first().map_or_else(|| format!("slurm-{id}.sh"), ToString::to_string);
    if path == "-" {
        out::print(&view.script);
        return Ok(0);
    }
    std::fs::write(&path, view.script)
        .map_err(|error| Failure::error("scontrol", &format!("{path}: {error}")))?;
    out::print(&format!("batch script for job {id} written to {path}\n"));
    Ok(0)
}

/// Returns when the job has its nodes.
fn wait_job(client: &Client, words: &[&str]) -> Outcome {
    let [id, ..] = words else { return Err(too_few("wait_job")) };
    let job = job_of(id)?;
    let query = muster_api::WaitQuery { timeout_s: Some(60), started: Some(true) };
    loop {
        let answer = client.wait(&job, &query).map_err(|error| told(&error, id))?;
        if !answer.over {
            continue;
        }
        if answer.jobs.iter().all(|end| end.state.is_over()) {
            out::say(&format!("scontrol: Job {id} is no longer running"));
            return Ok(1);
        }
        out::say(&format!("scontrol: Nodes are ready for job {id}"));
        return Ok(0);
    }
}

/// Slurm's message for a command without its operands.
pub(crate) fn too_few(command: &str) -> Failure {
    Failure::says(format!("too few arguments for keyword:{command}"))
}

/// Reads a job's number.
pub(crate) fn job_of(text: &str) -> Result<JobRef, Failure> {
    text.parse().map_err(|_| Failure::says(format!("Invalid job id specified for job {text}")))
}

/// What the daemon said about a job.
pub(crate) fn told(error: &ClientError, job: &str) -> Failure {
    if crate::fail::is_unknown(error) {
        return Failure::says(format!("Invalid job id specified for job {job}"));
    }
    match error.refusal() {
        Some(refusal) => match crate::fail::slurm_sentence(refusal) {
            Some(sentence) => Failure::says(format!("{sentence} for job {job}")),
            None => Failure::says(format!("{refusal} for job {job}")),
        },
        None => Failure::client("scontrol", error),
    }
}
