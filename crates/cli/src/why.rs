//! `muster why` and `muster when`: what holds a job back, who, until when, and what would help.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use muster_api::{
    BesideRow, BesideView, QueueQuery, ReasonView, RunningJobsView, StillView, TurnView, WhyQuery,
    WhyView,
};
use muster_client::Client;
use muster_model::Reason;

use crate::act;
use crate::args::{One, WhyArgs};
use crate::say::{self, Outcome, tell};

/// Runs `muster why`.
pub(crate) fn why(args: &WhyArgs) -> Outcome {
    let job = act::job(&args.job)?;
    let client = Client::connect()?;
    let query = WhyQuery { node: args.node.clone(), over: args.over.clone() };
    let page = client.why_beside(&job, &query)?;
    if args.json {
        return say::json(&page);
    }
    if page.jobs.iter().any(|view| view.beside.is_some()) {
        let answers = page.jobs.iter().filter_map(|view| view.beside.as_ref());
        tell(&answers.map(beside).collect::<Vec<_>>().join("\n"));
        return Ok(0);
    }
    let holders = holders(&client, &page.jobs);
    let texts: Vec<String> = page.jobs.iter().map(|view| explained(view, &holders)).collect();
    tell(&texts.join("\n"));
    Ok(0)
}

/// Runs `muster when`.
pub(crate) fn when(args: &One) -> Outcome {
    let job = act::job(&args.job)?;
    let page = Client::connect()?.why(&job)?;
    if args.json {
        return say::json(&page);
    }
    for view in &page.jobs {
        tell(&format!("job {}: {}\n", view.job, start(view)));
    }
    Ok(0)
}

/// Who holds what a reason is about.
fn held_by(reason: &ReasonView) -> Vec<u32> {
    if !reason.held_by.is_empty() {
        return reason.held_by.clone();
    }
    match &reason.data {
        Some(Reason::Resources { held_by, .. }) => held_by.iter().map(|id| id.0).collect(),
        Some(Reason::Priority { behind, .. }) => vec![behind.0],
        Some(Reason::HetPeer { peer }) => vec![peer.0],
        _ => Vec::new(),
    }
}

/// The jobs that hold what others wait for, described.
fn holders(client: &Client, views: &[WhyView]) -> BTreeMap<u32, String> {
    let mut ids: Vec<String> = Vec::new();
    for reason in views.iter().flat_map(|view| &view.reasons) {
        ids.extend(held_by(reason).iter().map(ToString::to_string));
    }
    if ids.is_empty() {
        return BTreeMap::new();
    }
    let query =
        QueueQuery { jobs: Some(ids.join(",")), expand: Some(true), ..QueueQuery::default() };
    let rows = client.queue_all(&query).unwrap_or_default();
    let line = |row: muster_api::QueueRow| {
        let end = row.ended_ms.map_or("has no time limit".to_owned(), |at| {
            format!("ends by {} at the latest", say::instant(at))
        });
        let end = if row.node_list.is_empty() { "waits too".to_owned() } else { end };
        let gpus = if row.gpus > 0 { format!(", {} GPUs", row.gpus) } else { String::new() };
        (row.id, format!("job {} ({}, {}{gpus}): {end}", row.job, row.user, row.name))
    };
    rows.into_iter().map(line).collect()
}

fn explained(view: &WhyView, holders: &BTreeMap<u32, String>) -> String {
    let mut text = format!("{}\n", say::bold(&format!("job {} is {}", view.job, view.state)));
    if !view.message.is_empty() {
        let _ = writeln!(text, "  {}", view.message);
    }
    if let Some(there) = &view.there {
        let start = there.expected_ms.map(|at| format!(", and expects it at {}", say::instant(at)));
        let (engine, word) = (&there.engine, &there.word);
        let _ = writeln!(text, "  {engine} lets it wait: {word}{}", start.unwrap_or_default());
    }
    if let Some(turn) = &view.turn {
        let _ = writeln!(text, "  {}", turns(turn));
    }
    if let Some(held_up) = &view.still {
        text.push_str(&still(held_up));
    }
    for (at, reason) in view.reasons.iter().enumerate() {
        let lead = if at == 0 { "because" } else { "also" };
        let _ = writeln!(text, "  {lead}: {} [{}]", reason.text, reason.code);
        let held = held_by(reason);
        for line in held.iter().filter_map(|id| holders.get(id)) {
            let _ = writeln!(text, "    {line}");
        }
        if let Some(since) = reason.since_ms {
            let _ = writeln!(text, "    since {}", say::instant(since));
        }
        let until = match &reason.data {
            Some(Reason::Deadline { at }) => Some(*at),
            Some(Reason::Resources { .. }) => None,
            _ => reason.until_ms,
        };
        if let Some(at) = until {
            let _ = writeln!(text, "    until {}", say::instant(at));
        }
    }
    if view.state == "pending" {
        let _ = writeln!(text, "  start: {}", start(view));
    }
    for advice in &view.advice {
        let _ = writeln!(text, "  measured: {advice}");
    }
    text.push_str(&preempted(view));
    text.push_str(&room_makers(view));
    text.push_str(&tally(view));
    if nothing_would_do(view) {
        text.push_str(
            "  no single change would start it now (tried: limit, GPUs, CPUs, nodes, memory, partition)",
        );
        text.push_str(match view.expected_ms {
            Some(_) => "; it starts as said above\n",
            None => "; `muster whatif submit` tries several together\n",
        });
    }
    if !view.suggestions.is_empty() {
        text.push_str("  what would start it now (each was tried):\n");
        for suggestion in &view.suggestions {
            let _ = writeln!(text, "    {}", suggestion.text);
            if !suggestion.displaces.is_empty() {
                let _ = writeln!(text, "      later then: job {}", suggestion.displaces.join(", "));
            }
            let _ = writeln!(text, "      {}", update_command(&view.job, &suggestion.change));
        }
    }
    text
}

/// With whom a job takes turns, and when: `takes turns with 12, next turn 10:04:30`.
fn turns(turn: &TurnView) -> String {
    let with = turn.with.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let next = match (turn.runs, turn.next_ms) {
        (true, Some(at)) => format!(", runs until {}", say::instant(at)),
        (true, None) => ", runs".to_owned(),
        (false, Some(at)) => format!(", next turn {}", say::instant(at)),
        (false, None) => ", next turn not known".to_owned(),
    };
    format!("takes turns with {with}{next}")
}

/// What holds up a job that has its nodes, and by whom.
fn still(view: &StillView) -> String {
    let since = view.since_ms.map_or(String::new(), |at| format!(" (since {})", say::instant(at)));
    let mut text = format!("  {}{since}\n", view.text);
    if !view.jobs.is_empty() {
        let _ = writeln!(text, "    job {}", view.jobs.join(", "));
    }
    text
}

/// For whom it made room.
fn preempted(view: &WhyView) -> String {
    let Some(last) = &view.preempted else { return String::new() };
    let user = if last.user.is_empty() { String::new() } else { format!(" of {}", last.user) };
    let times =
        if last.times > 1 { format!(", {} times in all", last.times) } else { String::new() };
    let how = match last.mode.as_str() {
        "suspend" => "suspended",
        "cancel" => "cancelled",
        _ => "put back in the queue",
    };
    let (by, at) = (&last.by, say::instant(last.at_ms));
    if *by == view.job {
        return format!("  started again on more nodes at {at}{times}\n");
    }
    format!("  preempted: for job {by}{user} at {at}, {how}{times}\n")
}

/// Who could make room for it, and who is kept from that.
fn room_makers(view: &WhyView) -> String {
    let jobs = |row: &RunningJobsView| {
        let more = if row.count as usize > row.jobs.len() { ", …" } else { "" };
        let noun = if row.count == 1 { "job" } else { "jobs" };
        format!("{} {noun} {} ({}{more})", row.count, row.what, row.jobs.join(", "))
    };
    let mut text = String::new();
    for row in &view.may_make_room {
        let _ = writeln!(text, "  could make room: {}", jobs(row));
    }
    if view.room_in_vain && !view.may_make_room.is_empty() {
        text.push_str("    even without them all it would not fit\n");
    }
    for row in &view.kept_running {
        let until = row.until_ms.map_or(String::new(), |at| format!(" until {}", say::instant(at)));
        let _ = writeln!(text, "  cannot make room: {}{until}", jobs(row));
    }
    text
}

/// Two nodes or jobs side by side.
fn beside(view: &BesideView) -> String {
    let mut text = view.text.clone();
    if let Some(cause) = &view.cause {
        let _ = write!(text, ": {}", cause.told(&say::instant));
    }
    text.push('\n');
    for reason in &view.reasons {
        let _ = writeln!(text, "  {} [{}]", reason.text, reason.code);
    }
    let [own, other] = view.heads.as_slice() else { return text };
    let value = |text: &str, at: Option<muster_model::Timestamp>| match at {
        Some(at) => say::instant(at),
        None if text.is_empty() => "-".to_owned(),
        None => text.to_owned(),
    };
    let line = |row: &BesideRow| {
        let mark = if row.decides { "  <- decides" } else { "" };
        let cells = (value(&row.own, row.own_ms), value(&row.other, row.other_ms));
        (row.what.clone(), cells, mark)
    };
    let head = (String::new(), (own.clone(), other.clone()), "");
    let lines: Vec<_> = std::iter::once(head).chain(view.rows.iter().map(line)).collect();
    let wide = |texts: Vec<&String>| texts.iter().map(|t| t.chars().count()).max().unwrap_or(0);
    let first = wide(lines.iter().map(|l| &l.0).collect());
    let second = wide(lines.iter().map(|l| &l.1.0).collect());
    let third = wide(lines.iter().map(|l| &l.1.1).collect());
    for (what, (own, other), mark) in &lines {
        let _ = writeln!(text, "  {what:first$}  {own:>second$}  {other:>third$}{mark}");
    }
    text
}

/// What keeps it from each node, counted.
fn tally(view: &WhyView) -> String {
    let all: u32 = view.nodes.iter().map(|row| row.count).sum();
    let mut text = String::new();
    for (at, row) in view.nodes.iter().enumerate() {
        let of = match (at, all) {
            (0, 1) => "1 of 1 node".to_owned(),
            (0, all) => format!("{} of {all} nodes", row.count),
            _ => row.count.to_string(),
        };
        let more = if row.count > muster_api::NODES_NAMED { ", …" } else { "" };
        let cause = row.cause.told(&say::instant);
        let lead = if at == 0 { "nodes: " } else { "       " };
        let _ = writeln!(text, "  {lead}{of}: {cause} [{}{more}]", row.names);
    }
    text
}

/// True where changes to the request were tried and none helps: it waits for what others have, and
/// is no part of a heterogeneous job, for which none are tried.
/// Reasons for which changes to the job are tried.
const HELPED: [&str; 10] = [
    "RESOURCES",
    "PRIORITY",
    "LICENCES",
    "SWITCHES",
    "RESERVED",
    "TOPOLOGY",
    "GPU_MEMORY",
    "NODES_UNAVAILABLE",
    "ASSOCIATION_LIMIT",
    "QOS_LIMIT",
];

fn nothing_would_do(view: &WhyView) -> bool {
    let waits = view.reasons.first().is_some_and(|reason| HELPED.contains(&reason.code.as_str()));
    view.suggestions.is_empty() && waits && !view.job.contains('+')
}

fn start(view: &WhyView) -> String {
    let word = view.state.as_str();
    if word != "pending" {
        return format!("it is {word}");
    }
    let told = |at| format!("{} ({})", say::from_now(at), say::instant(at));
    let earlier = "or earlier where jobs end before their limits";
    match (view.expected_ms.map(told), view.not_before_ms.map(told)) {
        (Some(expected), bound) => {
            let place = if view.expected_nodes.is_empty() {
                String::new()
            } else {
                format!(" on {}", view.expected_nodes)
            };
            match bound {
                // Instants that read the same are one.
                Some(bound) if bound != expected => format!(
                    "{expected}{place} at the latest, {bound} if nobody waited before it, {earlier}"
                ),
                _ => format!("{expected}{place}, {earlier}"),
            }
        }
        (None, Some(bound)) => format!(
            "not before {bound}; of those before it too many wait, or one has no limit, to say when"
        ),
        (None, None) => "cannot be foreseen: that depends on more than the ends of jobs".to_owned(),
    }
}

/// A change, or two, as a command to paste, which `scontrol update` takes of the job's owner while
/// it waits.
pub fn update_command(job: &str, change: &str) -> String {
    let parts: Option<Vec<String>> = change.split(" and ").map(update_of).collect();
    match parts {
        Some(parts) => format!("scontrol update JobId={job} {}", parts.join(" ")),
        None => {
            let options = change.replace("#MUSTER ", "").replace(" and ", " ");
            format!("sbatch {options} … (submit it anew)")
        }
    }
}

/// What `scontrol update` is told for a change; `None` where it has no word for it.
fn update_of(change: &str) -> Option<String> {
    let change = change.trim_start_matches("#MUSTER ");
    let (option, value) = change.split_once('=').unwrap_or((change, ""));
    let key = match option {
        "--time" => "TimeLimit",
        "--nodes" => "NumNodes",
        "--ntasks" => "NumTasks",
        "--cpus-per-task" => "CPUsPerTask",
        "--mem" => "MinMemoryNode",
        "--partition" => "Partition",
        "--constraint" | "without --constraint" => "Features",
        "--nodelist" => "ReqNodeList",
        "--exclude" => "ExcNodeList",
        "--gpu-share" => "GpuShare",
        "--topology" => "Topology",
        "--reservation" => "ReservationName",
        "--account" => "Account",
        "--qos" => "QOS",
        "--gpus" => "Gpus",
        "--gpus-per-task" => "GpusPerTask",
        "--gpus-per-socket" => "GpusPerSocket",
        "--gpu-memory" => "GpuMemory",
        "without --exclusive" => return Some("OverSubscribe=YES".to_owned()),
        "--gpus-per-node" | "--gres" => {
            let value = value.trim_start_matches("gpu:");
            return Some(format!("Gres=gpu:{value}"));
        }
        _ => return None,
    };
    Some(format!("{key}={value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::Suggestion;
    use muster_model::{JobId, Timestamp};

    #[test]
    fn who_could_make_room_is_told_with_who_could_not_and_why() {
        let row = |what: &str, jobs: &[&str], until_ms| RunningJobsView {
            what: what.to_owned(),
            count: jobs.len() as u32,
            jobs: jobs.iter().map(|job| (*job).to_owned()).collect(),
            until_ms,
        };
        let view = WhyView {
            may_make_room: vec![row(
                "of QOS scavenger, which high may preempt",
                &["12", "13"],
                None,
            )],
            kept_running: vec![row(
                "in their exempt time",
                &["14"],
                Some(Timestamp::from_secs(60)),
            )],
            room_in_vain: true,
            ..WhyView::default()
        };
        let text = room_makers(&view);
        let first = "  could make room: 2 jobs of QOS scavenger, which high may preempt (12, 13)\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("even without them all it would not fit"), "{text}");
        assert!(
            text.contains("cannot make room: 1 job in their exempt time (14) until "),
            "{text}"
        );
        let last = muster_api::PreemptedView {
            by: "30".to_owned(),
            user: "ada".to_owned(),
            mode: "requeue".to_owned(),
            at_ms: Timestamp::from_secs(60),
            times: 2,
        };
        let view = WhyView { preempted: Some(last), ..WhyView::default() };
        let text = preempted(&view);
        assert!(text.starts_with("  preempted: for job 30 of ada at "), "{text}");
        assert!(text.ends_with("put back in the queue, 2 times in all\n"), "{text}");
    }

    #[test]
    fn the_binding_reason_comes_first_with_who_holds_what() {
        let resources = Reason::Resources {
            resource: "gpus".into(),
            wanted: 8,
            free: 2,
            nodes: 1,
            held_by: vec![JobId(7)],
            start: None,
        };
        let view = WhyView {
            id: 12,
            job: "12".into(),
            state: "pending".into(),
            reasons: vec![ReasonView::full(&resources), ReasonView::full(&Reason::HeldByUser)],
            expected_ms: Some(Timestamp::from_secs(0)),
            not_before_ms: Some(Timestamp::from_secs(0)),
            expected_nodes: "node1".into(),
            suggestions: vec![Suggestion {
                change: "--gpus-per-node=2".into(),
                text: "ask for 2 GPUs in place of 8".into(),
                displaces: Vec::new(),
            }],
            ..WhyView::default()
        };
        let holders = BTreeMap::from([(
            7,
            "job 7 (mara, train, 8 GPUs): ends by 15:00:00 at the latest".to_owned(),
        )]);
        let text = anstream::adapter::strip_str(&explained(&view, &holders)).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "job 12 is pending");
        assert!(lines[1].starts_with("  because: ") && lines[1].ends_with("[RESOURCES]"), "{text}");
        assert_eq!(lines[2], "    job 7 (mara, train, 8 GPUs): ends by 15:00:00 at the latest");
        assert_eq!(lines[3], "  also: held by its owner [HELD_BY_USER]");
        assert!(lines[4].starts_with("  start: now ("), "{text}");
        let later = WhyView { expected_ms: Some(Timestamp::NEVER), ..view.clone() };
        assert!(start(&later).contains(" at the latest, now ("), "{}", start(&later));
        let unknown = WhyView { expected_ms: None, ..view };
        assert!(start(&unknown).starts_with("not before now ("), "{}", start(&unknown));
        assert_eq!(lines[7], "      scontrol update JobId=12 Gres=gpu:2");
    }

    #[test]
    fn changes_become_commands() {
        let of = |change: &str| update_command("12", change);
        assert_eq!(of("--time=30"), "scontrol update JobId=12 TimeLimit=30");
        assert_eq!(of("--nodelist="), "scontrol update JobId=12 ReqNodeList=");
        assert_eq!(of("--gpus=4"), "scontrol update JobId=12 Gpus=4");
        let both = of("--time=30 and #MUSTER --gpu-memory=20G");
        assert_eq!(both, "scontrol update JobId=12 TimeLimit=30 GpuMemory=20G");
        assert_eq!(of("without --constraint"), "scontrol update JobId=12 Features=");
    }

    #[test]
    fn where_nothing_helps_it_says_what_to_do() {
        let reason =
            ReasonView { code: "RESERVED".into(), ..ReasonView::full(&Reason::HeldByUser) };
        let mut view =
            WhyView { state: "pending".into(), reasons: vec![reason], ..WhyView::default() };
        let text = explained(&view, &BTreeMap::new());
        assert!(text.contains("partition); `muster whatif submit` tries several"), "{text}");
        view.expected_ms = Some(Timestamp::from_secs(0));
        let text = explained(&view, &BTreeMap::new());
        assert!(text.contains("partition); it starts as said above\n"), "{text}");
        view.reasons[0].code = "DEPENDENCY".into();
        assert!(!explained(&view, &BTreeMap::new()).contains("no single change"));
    }
}
