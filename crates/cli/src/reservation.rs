//! `muster reservation`: plan, make, list, show, change and end reservations.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use muster_api::{ReservationPlan, ReservationRequest, ReservationView};
use muster_client::Client;
use muster_model::Timestamp;
use muster_slurm_syntax::hostlist;

use crate::args::Json;
use crate::say::{self, Failure, Outcome, instant, note, plural, print, tell};
use crate::table::{Table, Yield, terminal_width};

/// What there is to do with reservations.
#[derive(Subcommand)]
pub(crate) enum Reservation {
    /// Find the earliest time for one, and whom it would delay; nothing is made
    Plan(What),
    /// Make one
    Create(What),
    /// Every reservation
    List(Json),
    /// One reservation whole
    Show {
        /// Its name
        name: String,
        #[command(flatten)]
        json: Json,
    },
    /// Change one; what is not given stays
    Update(What),
    /// End one; jobs that wait for it are held
    Delete {
        /// Its name
        name: String,
    },
}

/// What a reservation is.
#[derive(Args)]
pub(crate) struct What {
    /// Its name [default: made up from the user's]
    name: Option<String>,
    /// When it begins: now+1hour, 2026-12-07T09:00 [default: now; plan: the earliest]
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// When it is over
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// How long it is: 3h, 90 (minutes), 1-12:00:00, infinite
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// The time of day at which it begins
    #[arg(long, value_name = "HH:MM")]
    at: Option<String>,
    /// The time zone of its times: Asia/Seoul [default: the daemon's]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// When it comes again: daily, weekly, weekday, hourly, or a rule (RFC 5545); never
    #[arg(long, value_name = "RULE")]
    every: Option<String>,
    /// So many nodes, or their names: 2, n[1-4], ALL
    #[arg(long, value_name = "COUNT|NAMES")]
    nodes: Option<String>,
    /// So many GPUs on all nodes together: 8, a100:4
    #[arg(long, value_name = "GPUS")]
    gpus: Option<String>,
    /// Only nodes whose GPUs are joined by NVLink
    #[arg(long)]
    nvlink: bool,
    /// So many CPUs on each node
    #[arg(long, value_name = "COUNT")]
    cores_per_node: Option<String>,
    /// So many CPUs on all nodes together
    #[arg(long, value_name = "COUNT")]
    cores: Option<String>,
    /// Whole nodes, also where GPUs or CPUs are asked for
    #[arg(long)]
    whole: bool,
    /// Amounts: node=2,cpu=8,gres/gpu:a100=4,license/sim=2
    #[arg(long, value_name = "TRES")]
    tres: Option<String>,
    /// Features of the nodes
    #[arg(long, value_name = "FEATURES")]
    features: Option<String>,
    /// Only nodes of this partition
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Licences: sim:2
    #[arg(long, value_name = "LICENCES")]
    licences: Option<String>,
    /// Users who may use it, or -NAME for those who may not [default: you]
    #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
    users: Option<String>,
    /// Accounts, as users
    #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
    accounts: Option<String>,
    /// Groups of the operating system
    #[arg(long, value_name = "NAMES")]
    groups: Option<String>,
    /// Flags: MAINT,IGNORE_JOBS,OVERLAP,FLEX,MAGNETIC,…
    #[arg(long, value_name = "FLAGS")]
    flags: Option<String>,
    /// Flags that it no longer has
    #[arg(long, value_name = "FLAGS")]
    without_flags: Option<String>,
    /// Removed once idle for so long (with PURGE_COMP)
    #[arg(long, value_name = "TIME")]
    purge: Option<String>,
    /// Free text
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    json: Json,
}

impl What {
    fn request(self) -> (ReservationRequest, bool) {
        // A plain number counts nodes, anything else names them.
        let counts = |text: &String| text.chars().all(|c| c.is_ascii_digit() || c == '-');
        let (node_count, nodes) = match self.nodes {
            Some(text) if counts(&text) => (Some(text), None),
            names => (None, names),
        };
        let request = ReservationRequest {
            name: self.name,
            start: self.start,
            end: self.end,
            duration: self.duration,
            at: self.at,
            tz: self.tz,
            every: self.every,
            nodes,
            node_count,
            cores: self.cores,
            cores_per_node: self.cores_per_node,
            gpus: self.gpus,
            tres: self.tres,
            features: self.features,
            partition: self.partition,
            licences: self.licences,
            nvlink: self.nvlink.then_some(true),
            whole: self.whole.then_some(true),
            users: self.users,
            accounts: self.accounts,
            groups: self.groups,
            flags: self.flags,
            without_flags: self.without_flags,
            purge: self.purge,
            comment: self.comment,
        };
        (request, self.json.json)
    }
}

/// Runs the command.
pub(crate) fn run(command: Reservation) -> Outcome {
    let client = Client::connect()?;
    match command {
        Reservation::Plan(what) => {
            let (request, json) = what.request();
            let plan = client.plan_reservation(&request)?;
            if json {
                return say::json(&plan);
            }
            tell(&planned(&plan));
            Ok(0)
        }
        Reservation::Create(what) => {
            let (request, json) = what.request();
            made(&client.reserve(&request)?, json)
        }
        Reservation::Update(what) => {
            let (mut request, json) = what.request();
            let Some(name) = request.name.take() else {
                return Err(Failure::usage("the reservation's name is needed"));
            };
            made(&client.update_reservation(&name, &request)?, json)
        }
        Reservation::List(json) => list(&client.reservations()?, json.json),
        Reservation::Show { name, json } => {
            let all = client.reservations()?;
            let Some(found) = all.iter().find(|r| r.name == name) else {
                let names = all.iter().map(|r| r.name.as_str());
                return Err(say::unknown("reservation", &name, names));
            };
            if json.json {
                return say::json(found);
            }
            tell(&whole(found));
            Ok(0)
        }
        Reservation::Delete { name } => {
            client.delete_reservation(&name)?;
            note(&format!("reservation {name} deleted"));
            Ok(0)
        }
    }
}

fn made(made: &ReservationView, json: bool) -> Outcome {
    if json {
        return say::json(made);
    }
    tell(&whole(made));
    Ok(0)
}

fn list(all: &[ReservationView], json: bool) -> Outcome {
    if json {
        return say::json(&all);
    }
    if all.is_empty() {
        note("no reservations");
        return Ok(0);
    }
    let mut table = Table::new(&["NAME", "STATE", "START", "END", "NODES", "FOR"])
        .yielding(&[Yield::Shorten("NODES", 12), Yield::Shorten("NAME", 12)]);
    for r in all {
        let state = if r.active { "active" } else { "to come" };
        let whom = [&r.users, &r.accounts, &r.groups];
        let whom: Vec<&str> =
            whom.into_iter().map(String::as_str).filter(|t| !t.is_empty()).collect();
        table.row(vec![
            r.name.clone(),
            state.to_owned(),
            instant(r.start_ms),
            r.end_ms.map_or_else(|| "never".to_owned(), instant),
            nodes(r),
            whom.join(" "),
        ]);
    }
    print(&table.text(terminal_width()));
    Ok(0)
}

fn nodes(r: &ReservationView) -> String {
    let names: Vec<&str> = r.nodes.iter().map(|n| n.name.as_str()).collect();
    hostlist::fold(&names)
}

/// One reservation, a line for each thing.
fn whole(r: &ReservationView) -> String {
    let mut text = format!("reservation {}\n", r.name);
    let mut line = |what: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {what:<10} {value}");
        }
    };
    let zone = Zone::of(r);
    match r.float_s {
        Some(away) => {
            let long = r.end_ms.map_or_else(
                || "without an end".to_owned(),
                |end| format!("for {}", say::seconds(end.since(r.start_ms).0)),
            );
            line("time", format!("always {} from now, {long}", say::seconds(away)));
        }
        None => line("time", zone.span(r.start_ms, r.end_ms)),
    }
    line("here", zone.here(r.start_ms, r.end_ms));
    if let Some(rule) = &r.rule {
        line("again", format!("{rule}, by the clock of {}", r.tz.as_deref().unwrap_or("UTC")));
        let later: Vec<String> = r.later_ms.iter().take(3).map(|at| zone.instant(*at)).collect();
        line("then", later.join(", "));
    }
    line("nodes", nodes(r));
    for node in r.nodes.iter().filter(|n| !n.whole) {
        let gpus: Vec<String> = node.gpus.iter().map(ToString::to_string).collect();
        let gpus =
            if gpus.is_empty() { String::new() } else { format!(", GPUs {}", gpus.join(",")) };
        line("part", format!("{}: CPUs {}{gpus}", node.name, node.cpus));
    }
    let amounts = [(r.cpus, "CPU"), (r.gpus, "GPU")].into_iter().filter(|(n, _)| *n > 0);
    let amounts: Vec<String> = amounts.map(|(n, what)| plural(u64::from(n), what)).collect();
    line("amounts", amounts.join(", "));
    let licences: Vec<String> = r.licences.iter().map(|(n, c)| format!("{n}:{c}")).collect();
    line("licences", licences.join(","));
    line("users", r.users.clone());
    line("accounts", r.accounts.clone());
    line("groups", r.groups.clone());
    line("flags", r.flags.join(","));
    line("comment", r.comment.clone());
    let stands = "in the configuration file; it is changed there";
    line("stands", if r.standing { stands.to_owned() } else { String::new() });
    text
}

/// The zone that a reservation's times are shown in: the one that they were given in.
struct Zone {
    zone: TimeZone,
    /// Its name, where its clock is not the one of this machine.
    other: Option<String>,
}

impl Zone {
    fn of(r: &ReservationView) -> Self {
        let known = r.tz.as_deref().and_then(|name| TimeZone::get(name).ok().zip(Some(name)));
        let here = TimeZone::system();
        match known {
            Some((zone, name)) if shown(&zone, r.start_ms) != shown(&here, r.start_ms) => {
                Self { zone, other: Some(name.to_owned()) }
            }
            _ => Self { zone: here, other: None },
        }
    }

    fn instant(&self, at: Timestamp) -> String {
        shown(&self.zone, at)
    }

    /// `2026-12-07 09:00 to 12:00 (3:00:00), Asia/Seoul`.
    fn span(&self, start: Timestamp, end: Option<Timestamp>) -> String {
        let name = self.other.as_ref().map_or_else(String::new, |name| format!(", {name}"));
        format!("{}{name}", span(&self.zone, start, end))
    }

    /// The same by the clock of this machine, where that is another.
    fn here(&self, start: Timestamp, end: Option<Timestamp>) -> String {
        match self.other {
            Some(_) => span(&TimeZone::system(), start, end),
            None => String::new(),
        }
    }
}

fn span(zone: &TimeZone, start: Timestamp, end: Option<Timestamp>) -> String {
    let Some(end) = end else { return format!("{} without an end", shown(zone, start)) };
    let (from, to) = (shown(zone, start), shown(zone, end));
    // The day is said once where it is the same.
    let to = match (from.split_once(' '), to.split_once(' ')) {
        (Some((one, _)), Some((other, time))) if one == other => time.to_owned(),
        _ => to,
    };
    format!("{from} to {to} ({})", say::seconds(end.since(start).0))
}

/// With its day, and without seconds where there are none.
fn shown(zone: &TimeZone, at: Timestamp) -> String {
    let Ok(instant) = jiff::Timestamp::from_millisecond(at.millis()) else {
        return "unknown".to_owned();
    };
    let text = instant.to_zoned_datetime(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    text.strip_suffix(":00").map_or(text.clone(), str::to_owned)
}

/// The plan in words and a table.
fn planned(plan: &ReservationPlan) -> String {
    let mut text = whole(&plan.reservation);
    if plan.later == 0 {
        let _ = writeln!(text, "it would delay nobody ({} unchanged)", plan.unmoved);
    } else {
        let later = plural(u64::from(plan.later), "waiting job");
        let _ = writeln!(text, "it would delay {later}; {} unchanged", plan.unmoved);
    }
    text.push_str(&crate::whatif::moved(&plan.moved, plan.left_out, plan.now_ms));
    text.push_str("nothing was made: muster reservation create with the same options makes it\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_by_the_clock_that_they_were_given_in() {
        let at = |text: &str| {
            let at: jiff::Timestamp = text.parse().expect("an instant");
            Timestamp::from_millis(at.as_millisecond())
        };
        let view = ReservationView {
            start_ms: at("2026-12-07T00:00:00Z"),
            end_ms: Some(at("2026-12-07T03:00:00Z")),
            later_ms: vec![at("2026-12-14T00:00:00Z")],
            rule: Some("FREQ=WEEKLY".to_owned()),
            // No machine that runs tests has this clock.
            tz: Some("Asia/Kathmandu".to_owned()),
            ..ReservationView::default()
        };
        let text = whole(&view);
        assert!(
            text.contains("time       2026-12-07 05:45 to 08:45 (3:00:00), Asia/Kathmandu\n"),
            "{text}"
        );
        assert!(text.contains("then       2026-12-14 05:45\n"), "{text}");
        assert!(text.contains("\n  here       2026-12-0"), "{text}");
    }

    #[test]
    fn a_plan_that_delays_nobody_says_so() {
        let plan = ReservationPlan { unmoved: 2, ..ReservationPlan::default() };
        let text = planned(&plan);
        assert!(text.contains("it would delay nobody (2 unchanged)"), "{text}");
        assert!(text.ends_with("with the same options makes it\n"));
    }
}
