//! What commands print.

use crate::text::node_names;
use muster_model::placement::DeviceGrant;
use muster_model::{
    Decision, FairShare, Job, JobId, Node, NodeShare, NodeTally, Plan, Preempt, Priorities, Reason,
    Seconds, ShareRow, State, TimeLimit, Timestamp, TurnChange,
};

/// `job 3 train`, `jobs 3-5 train`.
pub(crate) fn submitted(state: &State, first: JobId) -> String {
    let name = state.jobs.get(&first).map_or("", |job| &job.spec.name);
    match state.family(first).len() {
        0 | 1 => format!("job {first} {name}"),
        n => format!("jobs {first}-{} {name}", first.0 + n as u32 - 1),
    }
}

/// A job as people call it here: its name, with the index of an array's task.
pub(crate) fn title(state: &State, id: JobId) -> String {
    state.jobs.get(&id).map_or_else(
        || id.to_string(),
        |job| match job.array {
            Some(task) => format!("{}_{}", job.spec.name, task.index),
            None => job.spec.name.clone(),
        },
    )
}

/// `t=90`, `t=90:30`.
pub(crate) fn time(at: Timestamp) -> String {
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

/// Starts, rejections, preemptions and promises.
pub(crate) fn plan(state: &State, plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for decision in &plan.decisions {
        match decision {
            Decision::Start(starts) => {
                for start in starts {
                    let placement = &start.placement;
                    let nodes = node_names(state, placement.nodes.iter().map(|n| n.node));
                    let turn = match start.turn {
                        None => "",
                        Some(turn) if turn.runs => ", shares and runs",
                        Some(_) => ", shares and waits for its turn",
                    };
                    lines.push(format!(
                        "start {} on {nodes}, {} cpus, {} gpus, {}{turn}",
                        title(state, start.job),
                        placement.cpus(),
                        placement.devices(),
                        limit(start.time_limit)
                    ));
                }
            }
            Decision::Reject { job, reason } => {
                lines.push(format!("reject {}: {reason}", title(state, *job)));
            }
            Decision::Preempt(preempt) => lines.extend(preemption(state, preempt)),
            Decision::Grow(victim) => {
                let placement = victim.keeps.iter().flat_map(|keeps| &keeps.nodes);
                let nodes = node_names(state, placement.map(|share| share.node));
                let mode = victim.mode.word();
                let (title, by) = (title(state, victim.job), time(victim.until));
                lines.push(format!("grow {title} to {nodes}: {mode}, gone by {by}"));
            }
            Decision::Evict { job, node, taint, .. } => {
                let node = state.node_name(*node);
                lines.push(format!("evict {} from {node}: {taint}", title(state, *job)));
            }
            Decision::Resume { job } => lines.push(format!("resume {}", title(state, *job))),
            Decision::Turns(changes) => {
                lines.extend(changes.iter().filter_map(|change| turn(state, change)));
            }
        }
    }
    for promise in &plan.promises {
        let nodes = node_names(state, promise.nodes.iter().copied());
        let title = title(state, promise.job);
        lines.push(format!("promise {title} at {} on {nodes}", time(promise.start)));
    }
    if lines.is_empty() {
        lines.push("nothing to do".to_owned());
    }
    lines
}

/// Whose turn comes or is over, who shares from now on, and who has all for itself again.
fn turn(state: &State, change: &TurnChange) -> Option<String> {
    let job = state.jobs.get(&change.job)?;
    let title = title(state, job.id);
    Some(match change.turn {
        None => format!("{title} has its nodes to itself"),
        Some(turn) if turn.runs && job.waits_for_turn() => {
            format!("turn of {title}, over by {}", time(turn.until))
        }
        Some(turn) if !turn.runs && job.is_to_run() => format!("{title} stands still"),
        Some(turn) => format!("{title} shares, over by {}", time(turn.until)),
    })
}

/// Where a job stands; of one that takes turns, how long it ran.
pub(crate) fn standing(job: &Job, title: &str, now: Timestamp) -> String {
    match job.turn {
        Some(_) => format!("{title} {:?}, ran {} min", job.state, job.run_time(now).0 / 60),
        None => format!("{title} {:?}", job.state),
    }
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

/// A reason with its code and the instant that it names.
pub(crate) fn reason(reason: &Reason) -> String {
    let when = match reason {
        Reason::Resources { start: Some(start), .. } => format!("; {}", time(*start)),
        Reason::BeginTime { at } | Reason::Deadline { at } => format!("; {}", time(*at)),
        Reason::MakingRoom { until, .. } => format!("; {}", time(*until)),
        Reason::Reserved { start, end, .. } => {
            format!("; from {} to {}", time(*start), time(*end))
        }
        Reason::ReservationWaits { start, .. } => format!("; {}", time(*start)),
        Reason::ReservationTooShort { end, .. } => format!("; {}", time(*end)),
        _ => String::new(),
    };
    format!("{}: {reason}{when}", reason.code())
}

/// One row of the tally of nodes.
pub(crate) fn tally(state: &State, row: &NodeTally) -> String {
    let nodes = node_names(state, row.nodes.iter().copied());
    let more = if row.count as usize > row.nodes.len() { ", ..." } else { "" };
    format!("{}: {} ({nodes}{more})", row.count, row.cause.told(&time))
}

/// What a running job has on each of its nodes.
pub(crate) fn whereabouts(state: &State, job: &Job) -> Vec<String> {
    let Some(placement) = &job.placement else { return vec!["nowhere".to_owned()] };
    let line = |share: &NodeShare| {
        let name = state.node_name(share.node);
        let node = state.nodes.get(&share.node);
        let grants =
            share.devices.iter().map(|g| format!(", {}", grant(node.map(AsRef::as_ref), g)));
        format!("{name}: cpus {}{}", share.cpus, grants.collect::<String>())
    };
    placement.nodes.iter().map(line).collect()
}

fn grant(node: Option<&Node>, grant: &DeviceGrant) -> String {
    let device = node.and_then(|node| node.devices.get(grant.index as usize));
    match grant.mig {
        Some(slot) => {
            let name = device.and_then(|device| device.profile_name(slot)).unwrap_or("unknown");
            format!("gpu {} {name} at {}", grant.index, slot.start)
        }
        None if grant.is_whole() => format!("gpu {}", grant.index),
        None => format!("gpu {} {}/1000 {}", grant.index, grant.share.0, grant.memory),
    }
}

/// Every waiting job with its priority and the terms that add up to it.
pub(crate) fn priority(state: &State, now: Timestamp) -> Vec<String> {
    let priorities = Priorities::new(state, now);
    let jobs = state.index.pending.iter().filter_map(|id| state.jobs.get(id));
    jobs.map(|job| {
        let f = priorities.factors(job);
        if let Some(by_hand) = f.by_hand {
            return format!("{} {by_hand} = set by hand", title(state, job.id));
        }
        let tres: i64 = f.tres.values().map(|(_, term)| term).sum();
        let association = match state.policy.priority.weights.association {
            0 => String::new(),
            _ => format!(" + association {}", f.association.1),
        };
        format!(
            "{} {} = site {} + age {}{association} + fair share {} + size {} + partition {} + qos {} + tres {tres} - nice {}",
            title(state, job.id),
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
pub(crate) fn share(state: &State, now: Timestamp) -> Vec<String> {
    let shares = FairShare::new(state, now);
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
