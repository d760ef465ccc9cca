//! Reservations as `scontrol` makes, changes and shows them (scontrol manual).

use muster_api::{ReservationRequest, ReservationView};
use muster_client::{Client, ClientError};
use muster_model::{ReservationFlag as Flag, Seconds, TimeLimit, Timestamp};
use muster_slurm_syntax::duration::print_long;
use muster_slurm_syntax::{duration, hostlist};
use std::fmt::Write as _;

use super::Style;
use crate::fail::{Failure, Outcome};
use crate::{clock, out};

/// Shows one reservation or all.
pub(super) fn show(client: &Client, name: Option<&str>, style: Style) -> Outcome {
    let all = client.reservations().map_err(|error| Failure::client("scontrol", &error))?;
    let shown: Vec<&ReservationView> =
        all.iter().filter(|r| name.is_none_or(|name| r.name == name)).collect();
    if style.json {
        let values: Vec<_> = shown.iter().map(|r| json(r)).collect();
        out::print_json(&crate::squeue::json::envelope("reservations", &values));
        return Ok(0);
    }
    match (shown.is_empty(), name) {
        (true, Some(name)) => Err(Failure::says(format!("Reservation {name} not found"))),
        (true, None) => {
            out::print("No reservations in the system\n");
            Ok(0)
        }
        (false, _) => {
            out::print(&shown.iter().map(|r| record(r, style)).collect::<String>());
            Ok(0)
        }
    }
}

/// `YES` names what is; Slurm writes `(null)` where there is nothing.
fn or_null(text: &str) -> &str {
    if text.is_empty() { "(null)" } else { text }
}

/// The nodes as a folded list.
pub(crate) fn node_list(r: &ReservationView) -> String {
    let names: Vec<&str> = r.nodes.iter().map(|n| n.name.as_str()).collect();
    hostlist::fold(&names)
}

/// When it is over. One without an end is a year long to Slurm's clients.
pub(crate) fn end(r: &ReservationView) -> Timestamp {
    const YEAR: Seconds = Seconds(365 * 24 * 3600);
    r.end_ms.unwrap_or_else(|| r.start_ms.plus(YEAR))
}

/// How long it is, as Slurm writes it.
pub(crate) fn length(r: &ReservationView) -> String {
    print_long(TimeLimit::Of(end(r).since(r.start_ms)))
}

/// The flags in Slurm's order and words, with the time of `PURGE_COMP`.
fn flags(r: &ReservationView) -> String {
    const ORDER: [Flag; 20] = [
        Flag::Maint,
        Flag::Flex,
        Flag::Overlap,
        Flag::IgnoreJobs,
        Flag::Hourly,
        Flag::Daily,
        Flag::Weekday,
        Flag::Weekend,
        Flag::Weekly,
        Flag::SpecNodes,
        Flag::AnyNodes,
        Flag::StaticAlloc,
        Flag::PartNodes,
        Flag::TimeFloat,
        Flag::Replace,
        Flag::ReplaceDown,
        Flag::PurgeComp,
        Flag::NoHoldJobsAfter,
        Flag::Magnetic,
        Flag::UserDelete,
    ];
    let has = |flag: &Flag| r.flags.iter().any(|word| word == flag.word());
    let told = |flag: Flag| match (flag, r.purge_s) {
        (Flag::StaticAlloc, _) => "STATIC".to_owned(),
        (Flag::PurgeComp, Some(after)) => {
            format!("PURGE_COMP={}", print_long(TimeLimit::Of(Seconds(after))))
        }
        _ => flag.word().to_owned(),
    };
    ORDER.into_iter().filter(has).map(told).collect::<Vec<_>>().join(",")
}

/// `ACTIVE` while it lies over the present.
pub(crate) fn state(r: &ReservationView) -> &'static str {
    if r.active { "ACTIVE" } else { "INACTIVE" }
}

fn record(r: &ReservationView, style: Style) -> String {
    let nodes = node_list(r);
    let end = clock::instant(end(r));
    let licences: Vec<String> = r.licences.iter().map(|(n, c)| format!("{n}:{c}")).collect();
    let mut tres = format!("cpu={}", r.cpus);
    if r.gpus > 0 {
        let _ = write!(tres, ",gres/gpu={}", r.gpus);
    }
    let mut lines = vec![
        format!(
            "ReservationName={} StartTime={} EndTime={end} Duration={}",
            r.name,
            clock::instant(r.start_ms),
            length(r)
        ),
        format!(
            "Nodes={} NodeCnt={} CoreCnt={} Features={} PartitionName={} Flags={}",
            or_null(&nodes),
            r.nodes.len(),
            r.cpus,
            or_null(r.features.as_deref().unwrap_or_default()),
            or_null(r.partition.as_deref().unwrap_or_default()),
            flags(r)
        ),
    ];
    for node in r.nodes.iter().filter(|n| !n.whole) {
        lines.push(format!("  NodeName={} CoreIDs={}", node.name, node.cpus));
    }
    lines.push(format!("TRES={tres}"));
    lines.push(format!(
        "Users={} Groups={} Accounts={} Licenses={} State={} BurstBuffer=(null)",
        or_null(&r.users),
        or_null(&r.groups),
        or_null(&r.accounts),
        or_null(&licences.join(",")),
        state(r)
    ));
    lines.push("MaxStartDelay=(null)".to_owned());
    if !r.comment.is_empty() {
        lines.push(format!("Comment={}", r.comment));
    }
    if style.one_line {
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_start()).collect();
        return lines.join(" ") + "\n";
    }
    lines.join("\n   ") + "\n\n"
}

fn json(r: &ReservationView) -> serde_json::Value {
    let number = |n: i64| serde_json::json!({"set": true, "infinite": false, "number": n});
    serde_json::json!({
        "name": r.name,
        "start_time": number(r.start_ms.secs()),
        "end_time": r.end_ms.map_or_else(
            || serde_json::json!({"set": false, "infinite": true, "number": 0}),
            |end| number(end.secs())
        ),
        "node_list": node_list(r),
        "node_count": r.nodes.len(),
        "core_count": r.cpus,
        "features": r.features.clone().unwrap_or_default(),
        "partition": r.partition.clone().unwrap_or_default(),
        "flags": r.flags,
        "users": r.users,
        "groups": r.groups,
        "accounts": r.accounts,
        "licenses": r.licences.iter().map(|(n, c)| format!("{n}:{c}")).collect::<Vec<_>>().join(","),
        "tres": format!("cpu={},gres/gpu={}", r.cpus, r.gpus),
    })
}

/// `create reservation …`, also written `create ReservationName=…`.
pub(super) fn create(client: &Client, words: &[&str]) -> Outcome {
    let words = match words.split_first() {
        Some((first, rest)) if is_entity(first) => rest,
        Some((first, _)) if first.contains('=') => words,
        _ => return Err(super::too_few("create")),
    };
    let request = read(words)?;
    let amounts = [
        &request.nodes,
        &request.node_count,
        &request.cores,
        &request.tres,
        &request.licences,
        &request.partition,
    ];
    if amounts.iter().all(|text| text.is_none()) {
        return Err(Failure::error(
            "scontrol",
            "CoreCnt, Nodes, NodeCnt, TRES or Watts must be specified.  No reservation created.",
        ));
    }
    let made =
        client.reserve(&request).map_err(|error| told("creating the reservation", &error))?;
    out::print(&format!("Reservation created: {}\n", made.name));
    Ok(0)
}

/// `update ReservationName=NAME …`.
pub(super) fn update(client: &Client, words: &[&str]) -> Outcome {
    let mut request = read(words)?;
    let name = request.name.take().unwrap_or_default();
    client
        .update_reservation(&name, &request)
        .map_err(|error| told("updating the reservation", &error))?;
    out::print("Reservation updated.\n");
    Ok(0)
}

/// `delete ReservationName=NAME`, or `delete reservation NAME`.
pub(super) fn delete(client: &Client, words: &[&str]) -> Outcome {
    let name = match words {
        [word, ..] if word.contains('=') => word.split_once('=').map_or("", |(_, name)| name),
        [entity, name, ..] if is_entity(entity) => name.split_once('=').map_or(*name, |p| p.1),
        _ => return Err(super::too_few("delete")),
    };
    client.delete_reservation(name).map_err(|error| told("deleting the reservation", &error))?;
    Ok(0)
}

fn is_entity(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    lower.len() >= 3 && "reservation".starts_with(&lower)
}

/// Slurm's frame around what was wrong.
fn told(doing: &str, error: &ClientError) -> Failure {
    match error.refusal() {
        Some(refusal) => Failure::says(format!("Error {doing}: {refusal}")),
        None => Failure::client("scontrol", error),
    }
}

/// The fields of `scontrol create reservation`, in any case and by Slurm's short names.
fn read(words: &[&str]) -> Result<ReservationRequest, Failure> {
    let mut request = ReservationRequest::default();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(Failure::says(format!("Unknown parameter {word}")));
        };
        let (key, sign) = match key.chars().last() {
            Some(sign @ ('+' | '-')) => (&key[..key.len() - 1], Some(sign)),
            _ => (key, None),
        };
        let lower = key.to_ascii_lowercase();
        let is = |name: &str, least: usize| lower.len() >= least && name.starts_with(&lower);
        if sign.is_some() && !is("flags", 2) {
            let text = format!("{key} can only be set as a whole");
            return Err(Failure::error("scontrol", &text));
        }
        let field = if is("reservationname", 3) || lower == "name" {
            &mut request.name
        } else if is("starttime", 1) {
            &mut request.start
        } else if is("endtime", 1) {
            &mut request.end
        } else if is("duration", 1) {
            &mut request.duration
        } else if is("nodecnt", 5) || is("nodecount", 5) {
            &mut request.node_count
        } else if is("nodes", 1) {
            &mut request.nodes
        } else if is("corecnt", 1) && !lower.starts_with("com") {
            &mut request.cores
        } else if is("features", 2) {
            &mut request.features
        } else if is("flags", 2) {
            if sign == Some('-') { &mut request.without_flags } else { &mut request.flags }
        } else if is("partitionname", 1) {
            &mut request.partition
        } else if is("users", 1) {
            &mut request.users
        } else if is("groups", 1) {
            &mut request.groups
        } else if is("accounts", 1) {
            &mut request.accounts
        } else if is("licenses", 1) {
            &mut request.licences
        } else if is("trespernode", 5) || is("tres", 1) {
            &mut request.tres
        } else if is("comment", 3) {
            &mut request.comment
        } else {
            return Err(Failure::says(format!("Unknown parameter {word}")));
        };
        *field = Some(value.to_owned());
    }
    if let Some(text) = &request.duration {
        slurm_duration(text)?;
    }
    let flags = request.flags.clone().unwrap_or_default();
    for flag in flags.split(',') {
        if let Some((name, after)) = flag.split_once('=')
            && name.eq_ignore_ascii_case("PURGE_COMP")
        {
            request.purge = Some(after.to_owned());
        }
    }
    Ok(request)
}

/// A duration as Slurm reads it: what it would not take is refused here, though `muster reservation`
/// knows more forms (case S-02).
fn slurm_duration(text: &str) -> Result<(), Failure> {
    let endless = text.eq_ignore_ascii_case("unlimited") || text.eq_ignore_ascii_case("infinite");
    if endless || duration::parse_limit(text).is_ok() {
        return Ok(());
    }
    Err(Failure::says(format!("Invalid duration {text:?}")))
}

/// The table of `sinfo --reservation`.
pub(crate) fn table(all: &[ReservationView], header: bool) -> String {
    let mut text = String::new();
    if header {
        let _ = writeln!(
            text,
            "{:<10.10}  {:>8.8} {:>19.19} {:>19.19} {:>11.11}  NODELIST",
            "RESV_NAME", "STATE", "START_TIME", "END_TIME", "DURATION"
        );
    }
    for r in all {
        let _ = writeln!(
            text,
            "{:<10}  {:>8} {:>19} {:>19} {:>11}  {}",
            r.name,
            state(r),
            clock::instant(r.start_ms),
            clock::instant(end(r)),
            length(r),
            node_list(r)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_any_case_and_by_short_names() {
        let words = [
            "ReservationName=fix",
            "starttime=now",
            "dur=120",
            "user=root",
            "Nodes=ALL",
            "flags=maint,ignore_jobs,PURGE_COMP=10",
        ];
        let read = read(&words).expect("they are fields");
        assert_eq!(read.name.as_deref(), Some("fix"));
        assert_eq!(read.duration.as_deref(), Some("120"));
        assert_eq!(read.users.as_deref(), Some("root"));
        assert_eq!(read.nodes.as_deref(), Some("ALL"));
        assert_eq!(read.purge.as_deref(), Some("10"));
        let counts = super::read(&["NodeCnt=2", "CoreCnt=4", "Flags-=MAINT"]).expect("fields");
        assert_eq!(counts.node_count.as_deref(), Some("2"));
        assert_eq!(counts.cores.as_deref(), Some("4"));
        assert_eq!(counts.without_flags.as_deref(), Some("MAINT"));
        assert!(super::read(&["Colour=blue"]).is_err());
        // S-02: a bad time is an error, never "no limit" and never "leave unchanged".
        for text in ["", "60:", "1::1", "1:2:3:4", "1-2-3", "4h", "1.5", "-60:10", " 10"] {
            let word = format!("Duration={text}");
            assert!(super::read(&[&word]).is_err(), "{word}");
        }
    }

    #[test]
    fn one_that_floats_is_shown_as_it_would_be_now_and_flags_are_slurms() {
        // slurmctld sends a floating start as now and so much more, and no end as a year.
        let view = ReservationView {
            name: "soon".to_owned(),
            start_ms: Timestamp::from_secs(3600),
            float_s: Some(3600),
            flags: ["USER_DELETE", "TIME_FLOAT", "STATIC_ALLOC", "PURGE_COMP", "MAINT"]
                .map(str::to_owned)
                .to_vec(),
            purge_s: Some(600),
            ..ReservationView::default()
        };
        let text = record(&view, Style::default());
        assert!(text.contains(" Duration=365-00:00:00\n"), "{text}");
        assert!(!text.contains("Unknown") && !text.contains("UNLIMITED"), "{text}");
        assert!(
            text.contains(" Flags=MAINT,STATIC,TIME_FLOAT,PURGE_COMP=00:10:00,USER_DELETE\n"),
            "{text}"
        );
    }

    #[test]
    fn every_flag_has_its_place_in_slurms_order() {
        let all: Vec<String> = Flag::WORDS.iter().map(|(_, word)| (*word).to_owned()).collect();
        let count = all.len();
        let view = ReservationView { flags: all, ..ReservationView::default() };
        assert_eq!(flags(&view).split(',').count(), count);
    }

    #[test]
    fn a_record_has_slurms_lines() {
        let view = ReservationView {
            name: "fix".to_owned(),
            nodes: vec![muster_api::ReservedNodeView {
                name: "n1".to_owned(),
                whole: true,
                ..Default::default()
            }],
            cpus: 8,
            users: "root".to_owned(),
            flags: vec!["MAINT".to_owned(), "SPEC_NODES".to_owned()],
            ..ReservationView::default()
        };
        let text = record(&view, Style::default());
        assert!(text.starts_with("ReservationName=fix StartTime="));
        assert!(text.contains(
            "\n   Nodes=n1 NodeCnt=1 CoreCnt=8 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES\n"
        ));
        assert!(
            text.contains(
                "Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE"
            )
        );
    }
}
