//! Scenarios: commands with the transcript that must come out, in one file that people can read.
//!
//! Lines that begin with `> ` are commands; the indented lines below each are what it must print.
//! Comments (`#`) and blank lines stand as they are. Running a file gives the file again, or the
//! test fails and shows both.

use crate::lab::Lab;
use crate::text::{node_names, words};
use crate::{fixture, job_text};
use muster_model::node::ForeignUse;
use muster_model::placement::DeviceGrant;
use muster_model::{
    Availability, Decision, Drain, EndCause, EventKind, ExitStatus, FairShare, Hold, JobId,
    JobUpdate, NodeTally, Plan, Preempt, Priorities, Reason, Seconds, ShareRow, State, TimeLimit,
    Timestamp,
};
use std::fmt::Write as _;
use std::sync::Arc;

/// What a scenario is run against.
pub trait Scheduler {
    /// Plans one round.
    fn plan(&mut self, state: &State, now: Timestamp) -> Plan;
    /// Why a job waits: the binding reason first.
    fn reasons(&mut self, state: &State, now: Timestamp, job: JobId) -> Vec<Reason>;
    /// Why each waiting job waits, in order of number.
    fn queue(&mut self, state: &State, now: Timestamp) -> Vec<(JobId, Reason)>;
    /// What would help a job, a sentence each.
    fn suggestions(&mut self, state: &State, now: Timestamp, job: JobId) -> Vec<String>;
    /// What keeps a job from each node, counted.
    fn tally(&mut self, state: &State, now: Timestamp, job: JobId) -> Vec<NodeTally>;
    /// Rules that a plan breaks, a sentence each.
    fn violations(&mut self, state: &State, plan: &Plan) -> Vec<String>;
}

/// Runs a scenario; gives the file as it should be.
pub fn run_scenario(text: &str, scheduler: &mut dyn Scheduler) -> String {
    let mut lab = Lab::new("");
    let mut out = String::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            let _ = writeln!(out, "{line}");
            for printed in run_command(&mut lab, scheduler, command) {
                let _ = writeln!(out, "  {printed}");
            }
        } else if !line.starts_with("  ") {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

fn run_command(lab: &mut Lab, scheduler: &mut dyn Scheduler, command: &str) -> Vec<String> {
    if let Some(events) = fixture::line_events(&lab.state, command) {
        for kind in events {
            lab.event(kind);
        }
        return Vec::new();
    }
    let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
    let args = words(rest);
    let job = |lab: &Lab| lab.find(args.first().map_or("", String::as_str));
    match verb {
        "submit" => {
            let first = lab.submit(rest);
            return vec![submitted(&lab.state, first)];
        }
        "submit-het" => {
            let first = lab.submit_het(rest);
            return vec![submitted(&lab.state, first)];
        }
        "at" => {
            lab.at_minute(crate::text::number(rest));
            lab.enforce_limits();
            lab.pass_reservations();
        }
        "plan" => return plan(lab, scheduler),
        "priority" => return priority(lab),
        "share" => return share(lab),
        "queue" => {
            let queue = scheduler.queue(&lab.state, lab.now);
            return queue
                .into_iter()
                .map(|(id, reason)| format!("{} {}", title(&lab.state, id), reason.slurm_word()))
                .collect();
        }
        "why" => return why(lab, scheduler, job(lab)),
        "help" => return scheduler.suggestions(&lab.state, lab.now, job(lab)),
        "tally" => {
            let rows = scheduler.tally(&lab.state, lab.now, job(lab));
            let row = |row: &NodeTally| {
                let nodes = node_names(&lab.state, row.nodes.iter().copied());
                let more = if row.count as usize > row.nodes.len() { ", ..." } else { "" };
                format!("{}: {} ({nodes}{more})", row.count, row.cause.told(&time))
            };
            return rows.iter().map(row).collect();
        }
        "exit" => {
            let code = args.get(1).map_or(0, |c| crate::text::number(c));
            lab.exit(job(lab), code);
        }
        "lose" => {
            lab.end(job(lab), ExitStatus::default(), EndCause::NodeLost);
        }
        "cancel" => lab.cancel(job(lab)),
        "where" => return whereabouts(&lab.state, job(lab)),
        "foreign" => foreign(lab, &args),
        "show" => {
            let id = job(lab);
            let record = &lab.state.jobs[&id];
            return vec![format!("{} {:?}", title(&lab.state, id), record.state)];
        }
        "hold" => lab.event(EventKind::JobHeld { job: job(lab), hold: Hold::User }),
        "hold-admin" => lab.event(EventKind::JobHeld { job: job(lab), hold: Hold::Admin }),
        "release" => lab.event(EventKind::JobReleased { job: job(lab) }),
        "update" => update(lab, job(lab), &args[1..]),
        "drain" | "resume" | "down" | "up" => node_command(lab, verb, rest),
        _ => panic!("no command {verb:?}"),
    }
    Vec::new()
}

/// What a running job has on each of its nodes.
fn whereabouts(state: &State, job: JobId) -> Vec<String> {
    let Some(placement) = &state.jobs[&job].placement else { return vec!["nowhere".to_owned()] };
    let grant = |node: &muster_model::Node, grant: &DeviceGrant| {
        let device = &node.devices[grant.index as usize];
        match grant.mig {
            Some(slot) => {
                let name = device.profile_name(slot).unwrap_or("unknown");
                format!("gpu {} {name} at {}", grant.index, slot.start)
            }
            None if grant.is_whole() => format!("gpu {}", grant.index),
            None => format!("gpu {} {}/1000 {}", grant.index, grant.share.0, grant.memory),
        }
    };
    let line = |share: &muster_model::NodeShare| {
        let node = &state.nodes[&share.node];
        let grants = share.devices.iter().map(|g| format!(", {}", grant(node, g)));
        format!("{}: cpus {}{}", node.name, share.cpus, grants.collect::<String>())
    };
    placement.nodes.iter().map(line).collect()
}

/// `foreign NODE gpu=0:4G`: what is not ours takes memory of a GPU; without more, it lets go.
fn foreign(lab: &mut Lab, args: &[String]) {
    let (name, uses) = args.split_first().unwrap_or_else(|| panic!("foreign NODE ..."));
    let node = lab.state.node_named(name).unwrap_or_else(|| panic!("no node {name:?}")).id;
    let of = |word: &String| {
        let (_, value) = crate::text::field(word);
        let (index, memory) = value.split_once(':').unwrap_or((value, "0"));
        ForeignUse {
            device: Some(crate::text::number(index)),
            memory: crate::text::memory(memory),
            owner: "someone".to_owned(),
            what: "1 python".to_owned(),
            ..ForeignUse::default()
        }
    };
    let foreign = uses.iter().map(of).collect();
    lab.event(EventKind::NodeForeign { node, foreign });
}

/// Every waiting job with its priority and the terms that add up to it.
fn priority(lab: &Lab) -> Vec<String> {
    let priorities = Priorities::new(&lab.state, lab.now);
    let jobs = lab.state.index.pending.iter().filter_map(|id| lab.state.jobs.get(id));
    jobs.map(|job| {
        let f = priorities.factors(job);
        if let Some(by_hand) = f.by_hand {
            return format!("{} {by_hand} = set by hand", title(&lab.state, job.id));
        }
        let tres: i64 = f.tres.values().map(|(_, term)| term).sum();
        format!(
            "{} {} = site {} + age {} + fair share {} + size {} + partition {} + qos {} + tres {tres} - nice {}",
            title(&lab.state, job.id),
            f.sum(),
            f.site,
            f.age.1,
            f.fair_share.1,
            f.job_size.1,
            f.partition.1,
            f.qos.1,
            f.nice,
        )
    })
    .collect()
}

/// The tree of accounts with what fair share makes of it.
fn share(lab: &Lab) -> Vec<String> {
    let shares = FairShare::new(&lab.state, lab.now);
    let row = |row: &ShareRow| {
        let indent = "  ".repeat(row.depth as usize);
        let name = row.user.as_ref().unwrap_or(&row.account);
        let part = |n: u64| format!("{}.{:03}", n / 1_000_000_000, n / 1_000_000 % 1000);
        let level =
            if row.level == ShareRow::INFINITE { "inf".to_owned() } else { part(row.level) };
        let (used, effective) = (row.raw_usage, part(row.effective_usage));
        format!(
            "{indent}{name} usage {used} effective {effective} level {level} factor {}",
            part(row.factor)
        )
    };
    shares.rows().iter().map(row).collect()
}

fn node_command(lab: &mut Lab, verb: &str, names: &str) {
    for name in crate::text::names(names) {
        let node = lab.state.node_named(&name).unwrap_or_else(|| panic!("no node {name:?}")).id;
        let since = lab.now;
        lab.event(match verb {
            "drain" => EventKind::NodeDrain {
                node,
                drain: Some(Drain { reason: "test".to_owned(), by: "root".to_owned(), since }),
            },
            "resume" => EventKind::NodeDrain { node, drain: None },
            "down" => EventKind::NodeAvailability {
                node,
                availability: Availability::Down { reason: "no answer".to_owned(), since },
            },
            _ => EventKind::NodeAvailability { node, availability: Availability::Up },
        });
    }
}

fn update(lab: &mut Lab, job: JobId, fields: &[String]) {
    let mut update = JobUpdate::default();
    for (key, value) in fields.iter().map(|w| crate::text::field(w)) {
        match key {
            "time" => update.time_limit = Some(fixture::minutes(value)),
            "throttle" => update.array_throttle = Some(value.parse().ok().filter(|n| *n > 0)),
            "depend" => {
                let mut spec = lab.state.jobs[&job].spec.as_ref().clone();
                spec.dependency = Some(job_text::dependency(value, &|name| lab.find(name)));
                update.spec = Some(Arc::new(spec));
            }
            _ => panic!("update has no {key:?}"),
        }
    }
    lab.event(EventKind::JobUpdated { job, update: Box::new(update) });
}

fn submitted(state: &State, first: JobId) -> String {
    let name = &state.jobs[&first].spec.name;
    match state.family(first).len() {
        1 => format!("job {first} {name}"),
        n => format!("jobs {first}-{} {name}", first.0 + n as u32 - 1),
    }
}

fn title(state: &State, id: JobId) -> String {
    state.jobs.get(&id).map_or_else(
        || id.to_string(),
        |job| match job.array {
            Some(task) => format!("{}_{}", job.spec.name, task.index),
            None => job.spec.name.clone(),
        },
    )
}

fn time(at: Timestamp) -> String {
    match at {
        Timestamp::NEVER => "no known time".to_owned(),
        at if at.secs() % 60 == 0 => format!("t={}", at.secs() / 60),
        at => format!("t={}:{:02}", at.secs() / 60, at.secs() % 60),
    }
}

fn limit(limit: TimeLimit) -> String {
    match limit {
        TimeLimit::Unlimited => "no limit".to_owned(),
        TimeLimit::Of(Seconds(s)) if s % 60 == 0 => format!("limit {}", s / 60),
        TimeLimit::Of(Seconds(s)) => format!("limit {}:{:02}", s / 60, s % 60),
    }
}

/// Plans, checks and carries out; prints starts, rejections and promises.
fn plan(lab: &mut Lab, scheduler: &mut dyn Scheduler) -> Vec<String> {
    let plan = scheduler.plan(&lab.state, lab.now);
    let mut lines = scheduler.violations(&lab.state, &plan);
    for decision in &plan.decisions {
        match decision {
            Decision::Start(starts) => {
                for start in starts {
                    let placement = &start.placement;
                    let nodes = node_names(&lab.state, placement.nodes.iter().map(|n| n.node));
                    lines.push(format!(
                        "start {} on {nodes}, {} cpus, {} gpus, {}",
                        title(&lab.state, start.job),
                        placement.cpus(),
                        placement.devices(),
                        limit(start.time_limit)
                    ));
                }
            }
            Decision::Reject { job, reason } => {
                lines.push(format!("reject {}: {reason}", title(&lab.state, *job)));
            }
            Decision::Preempt(preempt) => lines.extend(preemption(&lab.state, preempt)),
            Decision::Resume { job } => lines.push(format!("resume {}", title(&lab.state, *job))),
        }
    }
    for promise in &plan.promises {
        let nodes = node_names(&lab.state, promise.nodes.iter().copied());
        let title = title(&lab.state, promise.job);
        lines.push(format!("promise {title} at {} on {nodes}", time(promise.start)));
    }
    if lines.is_empty() {
        lines.push("nothing to do".to_owned());
    }
    lab.carry_out(&plan);
    lines
}

fn preemption(state: &State, preempt: &Preempt) -> Vec<String> {
    let who = preempt.starts.iter().map(|s| title(state, s.job)).collect::<Vec<_>>().join(" + ");
    let mut lines: Vec<String> = preempt
        .victims
        .iter()
        .map(|victim| {
            let mode = format!("{:?}", victim.mode).to_lowercase();
            let title = title(state, victim.job);
            format!("preempt {title} for {who}: {mode}, gone by {}", time(victim.until))
        })
        .collect();
    for start in &preempt.starts {
        let nodes = node_names(state, start.placement.nodes.iter().map(|n| n.node));
        let title = title(state, start.job);
        lines.push(format!("hold room for {title} on {nodes} from {}", time(preempt.until)));
    }
    lines
}

fn why(lab: &Lab, scheduler: &mut dyn Scheduler, job: JobId) -> Vec<String> {
    let reasons = scheduler.reasons(&lab.state, lab.now, job);
    let line = |reason: &Reason| {
        let start = match reason {
            Reason::Resources { start: Some(start), .. } => format!("; {}", time(*start)),
            Reason::BeginTime { at } | Reason::Deadline { at } => format!("; {}", time(*at)),
            Reason::MakingRoom { until, .. } => {
                format!("; {}", time(*until))
            }
            Reason::Reserved { start, end, .. } => {
                format!("; from {} to {}", time(*start), time(*end))
            }
            Reason::ReservationWaits { start, .. } => format!("; {}", time(*start)),
            Reason::ReservationTooShort { end, .. } => format!("; {}", time(*end)),
            _ => String::new(),
        };
        format!("{}: {reason}{start}", reason.code())
    };
    reasons.iter().map(line).collect()
}
