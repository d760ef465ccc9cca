//! `sprio`, `sdiag` and `sattach`: as much of them as clients and admins look at.

use muster_api::PriorityQuery;
use muster_client::Client;
use std::fmt::Write as _;

use crate::fail::{Failure, Outcome};
use crate::getopt::{self, NO_SHORT, Opt, Order, flag, value};
use crate::{clock, out, sprio};

const SPRIO: &[Opt] = &[
    value("clusters", 'M'),
    value("format", 'o'),
    flag("help", NO_SHORT),
    value("jobs", 'j'),
    flag("long", 'l'),
    flag("noheader", 'h'),
    flag("norm", 'n'),
    value("partition", 'p'),
    value("sort", 'S'),
    value("user", 'u'),
    flag("verbose", 'v'),
    flag("version", 'V'),
    flag("weights", 'w'),
];

/// `sprio`: the priority of waiting jobs.
pub(crate) fn sprio(args: &[String]) -> Outcome {
    let parsed = getopt::parse("sprio", SPRIO, args, Order::Mixed)
        .map_err(|message| Failure::usage("sprio", &message, 1))?;
    if parsed.has("version") {
        return crate::version();
    }
    if parsed.has("help") {
        return crate::help("sprio", SPRIO);
    }
    let text = |key: &str| parsed.last(key).map(str::to_owned);
    let query = PriorityQuery {
        jobs: text("jobs"),
        users: text("user"),
        partitions: text("partition"),
        ..PriorityQuery::default()
    };
    let failed = |error| Failure::client("sprio", &error);
    let page = Client::connect().map_err(failed)?.priorities(&query).map_err(failed)?;
    if page.rows.is_empty() && !parsed.has("weights") {
        out::print("Unable to find jobs matching user/id(s) specified\n");
        return Ok(0);
    }
    let look = sprio::Look {
        long: parsed.has("long"),
        norm: parsed.has("norm"),
        header: !parsed.has("noheader"),
        weights_only: parsed.has("weights"),
    };
    out::print(&sprio::table(&page, look));
    Ok(0)
}

/// `sdiag`: what the daemon counts, in sdiag's words where it has them.
pub(crate) fn sdiag(args: &[String]) -> Outcome {
    const TABLE: &[Opt] = &[
        flag("all", 'a'),
        flag("help", 'h'),
        flag("reset", 'r'),
        flag("sort-by-id", 'i'),
        flag("sort-by-time", 't'),
        flag("usage", NO_SHORT),
        flag("version", 'V'),
    ];
    let parsed = getopt::parse("sdiag", TABLE, args, Order::Mixed)
        .map_err(|message| Failure::usage("sdiag", &message, 1))?;
    if parsed.has("version") {
        return crate::version();
    }
    if parsed.has("help") {
        return crate::help("sdiag", TABLE);
    }
    if parsed.has("reset") {
        return Err(Failure::error(
            "sdiag",
            "counters are not reset; they count from the daemon's start",
        ));
    }
    let failed = |error| Failure::client("sdiag", &error);
    let client = Client::connect().map_err(failed)?;
    let (ping, stats) = (client.ping().map_err(failed)?, client.stats().map_err(failed)?);
    let rule = "*******************************************************";
    let moment = |at: muster_model::Timestamp| format!("{} ({})", clock::sentence(at), at.secs());
    let mut text = format!(
        "{rule}\nsdiag output at {}\nData since      {}\n{rule}\nServer thread count:  1\nAgent queue size:     0\n\n",
        moment(clock::now()),
        moment(ping.started_ms)
    );
    let _ = write!(text, "Jobs pending:   {}\nJobs running:   {}\n\n", stats.pending, stats.active);
    text.push_str("Main schedule statistics (microseconds):\n");
    let count = |name: &str| stats.counters.get(name).copied().unwrap_or(0);
    let (plans, spent_us) = (count("plans"), count("plan_us"));
    let _ = write!(
        text,
        "\tTotal cycles: {plans}\n\tMean cycle:   {}\n\tLast queue length: {}\n\n",
        spent_us.checked_div(plans).unwrap_or(0),
        stats.pending
    );
    text.push_str("Counters of muster:\n");
    for (name, count) in &stats.counters {
        let _ = writeln!(text, "\t{name}: {count}");
    }
    for alarm in &stats.alarms {
        let _ = writeln!(text, "\talarm: {alarm}");
    }
    out::print(&text);
    Ok(0)
}

/// `sattach`: not offered for steps; jobs with a terminal have `muster attach`.
pub(crate) fn sattach(args: &[String]) -> Outcome {
    if args.iter().any(|word| word == "-V" || word == "--version") {
        return crate::version();
    }
    Err(Failure::error(
        "sattach",
        "attaching to a step's streams is not offered\nhint: `muster attach JOB` connects to a job with a terminal, `muster logs -f JOB` follows its output",
    ))
}
