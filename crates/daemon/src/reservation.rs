//! Orders for reservations, read from texts: one grammar for `muster reservation` and `scontrol`.

use crate::http::error::Refusal;
use jiff::tz::TimeZone;
use muster_api::ReservationRequest;
use muster_control::reservations::{ReservationOrder, Start};
use muster_model::{
    Access, Exclusive, GpuCount, GpuScope, Group, LicenceRequest, MemoryRequest, Mib, Names,
    NodeCount, ReservationFlag as Flag, Seconds, State, TimeLimit, Timestamp, Want,
};
use muster_slurm_syntax::problem::Problem;
use muster_slurm_syntax::{constraint, count, duration, gres, hostlist, license, tres, when};
use std::collections::BTreeSet;

/// Nodes that one list may name.
const NODES_MAX: usize = 65_536;
/// Names of users, accounts or groups that one list may have.
const NAMES_MAX: usize = 1000;

/// The present, and the zone of times that name none.
pub(crate) struct Clock<'a> {
    /// The present.
    pub(crate) now: Timestamp,
    /// The machine's zone.
    pub(crate) zone: &'a TimeZone,
}

/// Reads an order.
///
/// # Errors
/// The first field that cannot be read, with its name.
pub(crate) fn read(
    request: &ReservationRequest,
    state: &State,
    clock: &Clock<'_>,
) -> Result<ReservationOrder, Refusal> {
    let flags = flags(request.flags.as_deref())?;
    let zone = match request.tz.as_deref() {
        None => clock.zone.clone(),
        Some(name) => zone_of(name)?,
    };
    let zone_name = request.tz.clone().or_else(|| clock.zone.iana_name().map(str::to_owned));
    let zone_name = zone_name.unwrap_or_else(|| "UTC".to_owned());
    let instant = |field: &'static str, text: &str| {
        when::parse(text, clock.now, &zone).map_err(|problem| wrong(field, &problem))
    };
    let mut start = match &request.start {
        Some(text) => Some(instant("start", text)?),
        None => None,
    };
    if let Some(text) = &request.at {
        let time: jiff::civil::Time =
            text.parse().map_err(|_| bad("at", format!("{text} is not a time of day")))?;
        let zone = muster_recurrence::zone(&zone_name)
            .map_err(|error| Refusal::invalid("E_TIMEZONE_UNKNOWN", error.to_string()))?;
        start = Some(zone.next_time(start.unwrap_or(clock.now), time));
    }
    let floats = flags.contains(&Flag::TimeFloat);
    let start = start.map(|at| match floats {
        true => Start::Away(at.since(clock.now)),
        false => Start::At(at),
    });
    let end = match &request.end {
        Some(text) if endless(text) => None,
        Some(text) => Some(instant("end", text)?),
        None => None,
    };
    let length = match &request.duration {
        Some(text) => Some(length(text)?),
        None => request.end.as_ref().filter(|text| endless(text)).map(|_| None),
    };
    Ok(ReservationOrder {
        name: request.name.clone().unwrap_or_default(),
        start,
        end,
        length,
        repeat: repeat(request.every.as_deref(), &flags).map(|rule| (rule, zone_name)),
        want: want(request, &flags, state)?,
        access: access(request)?,
        without: self::flags(request.without_flags.as_deref())?,
        purge: match &request.purge {
            Some(text) => length_of("purge", text)?,
            None => None,
        },
        flags,
        comment: request.comment.clone(),
    })
}

fn bad(field: &str, why: impl std::fmt::Display) -> Refusal {
    Refusal::invalid("E_VALUE_BAD", format!("{field}: {why}"))
}

fn wrong(field: &str, problem: &Problem) -> Refusal {
    let refusal = Refusal::invalid(&problem.code.to_string(), format!("{field}: {}", problem.what));
    match problem.hints.first() {
        Some(hint) => refusal.hint(hint.clone()),
        None => refusal,
    }
}

/// A zone of the bundled database, as the rule will be read.
fn zone_of(name: &str) -> Result<TimeZone, Refusal> {
    let known = muster_recurrence::zone(name);
    known.map(muster_recurrence::Zone::into_inner).map_err(|error| {
        Refusal::invalid("E_TIMEZONE_UNKNOWN", error.to_string())
            .hint("name one of the IANA database, such as Europe/Berlin or Asia/Seoul")
    })
}

fn endless(text: &str) -> bool {
    ["infinite", "unlimited", "-1"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// `3h`, `90m`, `2d`, or as Slurm writes durations; `None` is without an end.
fn length(text: &str) -> Result<Option<Seconds>, Refusal> {
    length_of("duration", text)
}

fn length_of(field: &str, text: &str) -> Result<Option<Seconds>, Refusal> {
    if endless(text) {
        return Ok(None);
    }
    let unit = text.chars().last().and_then(|c| match c.to_ascii_lowercase() {
        's' => Some(1u64),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        _ => None,
    });
    if let Some(unit) = unit
        && let Ok(number) = text[..text.len() - 1].parse::<u64>()
    {
        let seconds = number.checked_mul(unit).filter(|s| *s > 0 && *s < 1 << 40);
        return match seconds {
            Some(seconds) => Ok(Some(Seconds(seconds))),
            None => Err(bad(field, format!("{text} is no length of time"))),
        };
    }
    match duration::parse_limit(text).map_err(|problem| wrong(field, &problem))? {
        // Slurm's words for no end are known by now; zero is none of them here.
        TimeLimit::Unlimited | TimeLimit::Of(Seconds(0)) => Err(bad(field, "it is zero")),
        TimeLimit::Of(seconds) => Ok(Some(seconds)),
    }
}

/// A word for a rule, a rule, or the rule of a flag.
fn repeat(every: Option<&str>, flags: &BTreeSet<Flag>) -> Option<String> {
    match every {
        Some(word) if word.eq_ignore_ascii_case("never") => Some(String::new()),
        Some(word) => {
            let of_word = Flag::of_word(word).and_then(Flag::rule);
            Some(of_word.map_or_else(|| word.to_owned(), str::to_owned))
        }
        None => flags.iter().find_map(|flag| flag.rule()).map(str::to_owned),
    }
}

fn flags(text: Option<&str>) -> Result<BTreeSet<Flag>, Refusal> {
    let words = text.unwrap_or_default().split(',').map(str::trim).filter(|w| !w.is_empty());
    let flag = |word: &str| {
        let name = word.split('=').next().unwrap_or(word);
        Flag::of_word(name).ok_or_else(|| {
            let known: Vec<&str> = Flag::WORDS.iter().map(|(_, word)| *word).collect();
            bad("flags", format!("there is no flag {word}")).hint(known.join(", "))
        })
    };
    words.map(flag).collect()
}

/// What it shall hold; `None` where nothing of that is said.
fn want(
    request: &ReservationRequest,
    flags: &BTreeSet<Flag>,
    state: &State,
) -> Result<Option<Want>, Refusal> {
    let said = [
        &request.nodes,
        &request.node_count,
        &request.cores,
        &request.cores_per_node,
        &request.gpus,
        &request.tres,
        &request.features,
        &request.partition,
        &request.licences,
    ];
    if said.iter().all(|text| text.is_none()) && request.nvlink.is_none() {
        return Ok(None);
    }
    let mut want = Want { nvlink: request.nvlink.unwrap_or(false), ..Want::default() };
    want.partition.clone_from(&request.partition);
    want.request.memory = MemoryRequest::PerNode(Mib(0));
    nodes(request, flags, &mut want)?;
    let (mut cores, mut gpus) = (None, Vec::new());
    if let Some(text) = &request.cores {
        cores = Some(count::parse_count(text, 1).map_err(|p| wrong("cores", &p))?);
    }
    if let Some(text) = &request.gpus {
        gpus = gres::parse_gpus(text).map_err(|p| wrong("gpus", &p))?;
    }
    let mut licences = match &request.licences {
        Some(text) => license::parse(text).map_err(|p| wrong("licenses", &p))?,
        None => Vec::new(),
    };
    let listed = tres::parse(request.tres.as_deref().unwrap_or_default());
    for one in listed.map_err(|p| wrong("tres", &p))? {
        let number =
            u32::try_from(one.amount).map_err(|_| bad("tres", "an amount is too large"))?;
        match (one.kind.as_str(), one.name.as_str()) {
            ("cpu", _) => cores = Some(number),
            ("node", _) => want.request.nodes = Some(NodeCount::exactly(number)),
            ("license", name) => {
                licences.push(LicenceRequest { name: name.to_owned(), count: number });
            }
            ("gres", name) if name == "gpu" || name.starts_with("gpu:") => {
                let kind = name.split_once(':').map(|(_, kind)| kind.to_owned());
                gpus.push(gres::Gres { name: "gpu".to_owned(), kind, count: one.amount });
            }
            (kind, _) => return Err(bad("tres", format!("{kind} cannot be reserved by itself"))),
        }
    }
    want.request.licences = licences;
    let each = match &request.cores_per_node {
        Some(text) => Some(count::parse_count(text, 1).map_err(|p| wrong("cores-per-node", &p))?),
        None => None,
    };
    let part = cores.is_some() || each.is_some() || !gpus.is_empty();
    if !part || request.whole == Some(true) {
        want.request.exclusive = Exclusive::Node;
    }
    want.request.tasks = cores;
    want.request.cpus_per_task = each;
    for gpu in &gpus {
        let count = u32::try_from(gpu.count).map_err(|_| bad("gpus", "too many"))?;
        let scope = GpuScope::Job;
        want.request.gpus.push(GpuCount { model: gpu.kind.clone(), count, scope });
    }
    if !gpus.is_empty() && cores.is_none() && each.is_none() {
        want.request.cpus_per_gpu = Some(cpus_beside(state));
    }
    let nothing = want.request.nodes.is_none()
        && want.request.node_list.is_empty()
        && !want.all_nodes
        && !part
        && want.partition.is_none();
    want.no_nodes = flags.contains(&Flag::AnyNodes)
        || (nothing && !want.request.licences.is_empty() && want.request.constraint.is_none());
    Ok(Some(want))
}

/// The CPUs that a GPU's share of its node is, on the node where that is least.
fn cpus_beside(state: &State) -> u32 {
    let nodes = state.nodes.values().filter(|node| !node.devices.is_empty());
    nodes.map(|node| node.cpus.len() / node.devices.len() as u32).min().unwrap_or(1).max(1)
}

fn nodes(
    request: &ReservationRequest,
    flags: &BTreeSet<Flag>,
    want: &mut Want,
) -> Result<(), Refusal> {
    if let Some(text) = &request.node_count {
        let nodes = count::parse_nodes(text).map_err(|p| wrong("nodes", &p))?;
        want.request.nodes = Some(nodes);
    }
    match request.nodes.as_deref() {
        Some(text) if text.eq_ignore_ascii_case("all") => want.all_nodes = true,
        Some(text) => {
            let names = hostlist::expand(text, NODES_MAX).map_err(|p| wrong("nodes", &p))?;
            let count = NodeCount::exactly(names.len() as u32);
            want.request.nodes.get_or_insert(count);
            want.request.node_list = names.into_iter().collect();
        }
        None => {}
    }
    want.all_nodes |= flags.contains(&Flag::PartNodes) && want.partition.is_some();
    if let Some(text) = &request.features {
        let features = constraint::parse(text).map_err(|p| wrong("features", &p))?;
        want.request.constraint = Some(features);
    }
    Ok(())
}

fn access(request: &ReservationRequest) -> Result<Option<Access>, Refusal> {
    if request.users.is_none() && request.accounts.is_none() && request.groups.is_none() {
        return Ok(None);
    }
    let users = names("users", request.users.as_deref())?;
    let accounts = names("accounts", request.accounts.as_deref())?;
    for user in &users.names {
        let known = nix::unistd::User::from_name(user);
        if !matches!(known, Ok(Some(_))) {
            return Err(Refusal::invalid("E_NAME_UNKNOWN", format!("there is no user {user:?}")));
        }
    }
    let mut groups = Vec::new();
    for name in &names("groups", request.groups.as_deref())?.names {
        let Ok(Some(found)) = nix::unistd::Group::from_name(name) else {
            return Err(Refusal::invalid("E_NAME_UNKNOWN", format!("there is no group {name:?}")));
        };
        let members = found.mem.into_iter().collect();
        groups.push(Group { name: name.clone(), gid: found.gid.as_raw(), members });
    }
    Ok(Some(Access { users, accounts, groups }))
}

/// Names that are let in, or with `-` before each that are kept out.
fn names(field: &str, text: Option<&str>) -> Result<Names, Refusal> {
    let words: Vec<&str> =
        text.unwrap_or_default().split(',').map(str::trim).filter(|w| !w.is_empty()).collect();
    if words.len() > NAMES_MAX {
        return Err(bad(field, format!("at most {NAMES_MAX} names")));
    }
    let out = words.iter().filter(|word| word.starts_with('-')).count();
    if out > 0 && out < words.len() {
        return Err(bad(field, "either all names have a '-' before them or none"));
    }
    let names = words.iter().map(|word| word.trim_start_matches('-').to_owned()).collect();
    Ok(Names { names, excluded: out > 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(request: &ReservationRequest) -> Result<ReservationOrder, Refusal> {
        let clock = Clock { now: Timestamp::from_secs(1_796_000_000), zone: &TimeZone::UTC };
        read(request, &State::default(), &clock)
    }

    #[allow(clippy::unnecessary_wraps)] // every field of a request is an option
    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn eight_gpus_on_two_joined_nodes_every_monday_at_nine_in_seoul() {
        let request = ReservationRequest {
            gpus: text("8"),
            node_count: text("2"),
            nvlink: Some(true),
            duration: text("3h"),
            every: text("FREQ=WEEKLY;BYDAY=MO"),
            at: text("09:00"),
            tz: text("Asia/Seoul"),
            ..ReservationRequest::default()
        };
        let order = order(&request).expect("it can be read");
        let want = order.want.expect("it says what");
        assert!(want.nvlink && want.request.exclusive == Exclusive::No);
        assert_eq!(want.request.nodes, Some(NodeCount::exactly(2)));
        assert_eq!(want.request.gpus[0].count, 8);
        assert_eq!(order.length, Some(Some(Seconds(3 * 3600))));
        assert_eq!(order.repeat.expect("it comes again").1, "Asia/Seoul");
        let Some(Start::At(start)) = order.start else { panic!("{:?}", order.start) };
        let local = muster_recurrence::local_text("Asia/Seoul", start).expect("a zone");
        assert!(local.ends_with("T09:00:00"), "{local}");
    }

    type Change = fn(&mut ReservationRequest);

    #[test]
    fn what_cannot_be_read_is_refused_with_its_field() {
        let with = |change: Change| {
            let mut request = ReservationRequest::default();
            change(&mut request);
            let refusal = order(&request).expect_err("it should be refused");
            (refusal.error.code, refusal.error.message)
        };
        let cases: [(Change, &str); 9] = [
            (|r| r.start = Some("someday".to_owned()), "E_WHEN_BAD"),
            (|r| r.tz = Some("Asia/Atlantis".to_owned()), "E_TIMEZONE_UNKNOWN"),
            (|r| r.duration = Some("0".to_owned()), "E_VALUE_BAD"),
            (|r| r.flags = Some("SOMETIMES".to_owned()), "E_VALUE_BAD"),
            (|r| r.users = Some("root,-daemon".to_owned()), "E_VALUE_BAD"),
            (|r| r.users = Some("no-such-user".to_owned()), "E_NAME_UNKNOWN"),
            (|r| r.tres = Some("mem=4G".to_owned()), "E_VALUE_BAD"),
            (|r| r.nodes = Some("n[1-".to_owned()), "E_HOSTLIST_BAD"),
            (|r| r.at = Some("noonish".to_owned()), "E_VALUE_BAD"),
        ];
        for (change, code) in cases {
            let (found, message) = with(change);
            assert_eq!(found, code, "{message}");
        }
    }
}
