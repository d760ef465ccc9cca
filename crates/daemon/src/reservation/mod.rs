//! Orders for reservations, read from texts: one grammar for `muster reservation`, `scontrol` and the
//! configuration.

mod time;
mod want;

use crate::http::error::Refusal;
use jiff::tz::TimeZone;
use muster_api::ReservationRequest;
use muster_control::reservations::ReservationOrder;
use muster_model::{Access, Group, Names, Reservation, ReservationFlag as Flag, State, Timestamp};
use muster_slurm_syntax::problem::Problem;
use std::collections::BTreeSet;

/// Names of users, accounts or groups that one list may have.
const NAMES_MAX: usize = 1000;

/// The present, and the zone of times that name none.
pub(crate) struct Clock<'a> {
    /// The present.
    pub(crate) now: Timestamp,
    /// The machine's zone.
    pub(crate) zone: &'a TimeZone,
}

/// Reads an order for a new one, or for a change of one that is there.
///
/// # Errors
/// The first field that cannot be read or contradicts another, with its name.
pub(crate) fn read(
    request: &ReservationRequest,
    before: Option<&Reservation>,
    state: &State,
    clock: &Clock<'_>,
) -> Result<ReservationOrder, Refusal> {
    let mut flags = flags(request.flags.as_deref())?;
    let purge = match &request.purge {
        Some(text) => time::length_of("purge", text)?,
        None => None,
    };
    if purge.is_some() {
        flags.insert(Flag::PurgeComp);
    }
    let time::Times { start, end, length, repeat, zone } = time::times(request, &flags, clock)?;
    Ok(ReservationOrder {
        name: request.name.clone().unwrap_or_default(),
        start,
        end,
        length,
        repeat,
        zone: (request.tz.is_some() || before.is_none()).then_some(zone),
        standing: None,
        want: want::want(request, &flags, before.map(|r| &r.want), state)?,
        access: access(request)?,
        without: self::flags(request.without_flags.as_deref())?,
        purge,
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
    use muster_control::reservations::Start;
    use muster_model::{Exclusive, NodeCount, Seconds};

    fn order(request: &ReservationRequest) -> Result<ReservationOrder, Refusal> {
        let clock = Clock { now: Timestamp::from_secs(1_796_000_000), zone: &TimeZone::UTC };
        read(request, None, &State::default(), &clock)
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
        let cases: Vec<(Change, &str)> = vec![
            (|r| r.start = text("someday"), "E_WHEN_BAD"),
            (|r| r.tz = text("Asia/Atlantis"), "E_TIMEZONE_UNKNOWN"),
            (|r| r.duration = text("0"), "E_TIME_BAD"),
            (|r| r.flags = text("SOMETIMES"), "E_VALUE_BAD"),
            (|r| r.users = text("root,-daemon"), "E_VALUE_BAD"),
            (|r| r.users = text("no-such-user"), "E_NAME_UNKNOWN"),
            (|r| r.tres = text("mem=4G"), "E_VALUE_BAD"),
            (|r| r.nodes = text("n[1-"), "E_HOSTLIST_BAD"),
            (|r| r.at = text("noonish"), "E_VALUE_BAD"),
            (|r| r.every = text("fortnightly"), "E_VALUE_BAD"),
        ];
        for (change, code) in cases {
            let (found, message) = with(change);
            assert_eq!(found, code, "{message}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_its_field() {
        let cases: [(Change, &str); 8] = [
            (
                |r| (r.start, r.at) = (text("2027-01-04T08:00"), text("09:00")),
                "at: start says 08:00, not 09:00",
            ),
            (
                |r| (r.at, r.every) = (text("09:00"), text("FREQ=DAILY;BYHOUR=10")),
                "at: the rule of every names its own times of day",
            ),
            (
                |r| (r.at, r.flags) = (text("09:00"), text("TIME_FLOAT")),
                "at: one that floats is always so long from now, at no time of day",
            ),
            (
                |r| (r.end, r.duration) = (text("infinite"), text("3h")),
                "duration: end says that it is without one; leave one of them out",
            ),
            (
                |r| (r.every, r.flags) = (text("daily"), text("WEEKLY")),
                "every: daily is not what the flag WEEKLY says",
            ),
            (
                |r| (r.gpus, r.tres) = (text("4"), text("gres/gpu=8")),
                "tres: GPUs are counted twice; say them once",
            ),
            (
                |r| (r.node_count, r.tres) = (text("4"), text("node=8")),
                "tres: nodes are counted twice; say them once",
            ),
            (
                |r| (r.cores, r.tres) = (text("4"), text("cpu=8")),
                "tres: CPUs are counted twice; say them once",
            ),
        ];
        for (change, message) in cases {
            let mut request = ReservationRequest::default();
            change(&mut request);
            let refusal = order(&request).expect_err(message);
            assert_eq!(refusal.error.message, message);
        }
        let agree = ReservationRequest {
            start: text("2027-01-04"),
            at: text("09:00"),
            every: text("daily"),
            flags: text("DAILY"),
            ..ReservationRequest::default()
        };
        assert!(order(&agree).is_ok());
    }

    #[test]
    fn what_floats_is_whole_seconds_away() {
        let request = ReservationRequest {
            start: text("now+1hour"),
            flags: text("TIME_FLOAT"),
            ..ReservationRequest::default()
        };
        let clock = Clock { now: Timestamp::from_millis(1_796_000_000_900), zone: &TimeZone::UTC };
        let order = read(&request, None, &State::default(), &clock).expect("it can be read");
        assert_eq!(order.start, Some(Start::Away(Seconds(3600))));
    }

    #[test]
    fn a_change_keeps_what_it_does_not_name() {
        let change = |before: &Reservation, change: Change| {
            let mut request = ReservationRequest::default();
            change(&mut request);
            let clock = Clock { now: Timestamp::from_secs(1_796_000_000), zone: &TimeZone::UTC };
            let order = read(&request, Some(before), &State::default(), &clock);
            let want = order.expect("it can be read").want;
            Reservation { want: want.expect("something is said"), ..before.clone() }
        };
        let none = Reservation::default();
        let two = change(&none, |r| r.node_count = text("2"));
        let sim = change(&two, |r| r.licences = text("sim:2"));
        assert_eq!(sim.want.request.nodes, Some(NodeCount::exactly(2)));
        assert!(!sim.want.no_nodes && sim.want.request.exclusive == Exclusive::Node);
        let named = change(&sim, |r| r.nodes = text("n[1-3]"));
        assert_eq!(named.want.request.node_list.len(), 3);
        assert_eq!(named.want.request.licences.len(), 1);
        let counted = change(&named, |r| r.node_count = text("1"));
        assert!(counted.want.request.node_list.is_empty());
        let gpus = change(&counted, |r| r.gpus = text("4"));
        assert_eq!(gpus.want.request.exclusive, Exclusive::No);
        let only = change(&none, |r| r.partition = text("main"));
        assert!(only.want.all_nodes, "a partition by itself is all of it");
        let licences = change(&none, |r| r.licences = text("sim:2"));
        assert!(licences.want.no_nodes);
    }
}
