//! An order made into a reservation: everything checked, every node and occurrence found.

use super::conflict::{check, running_into, taken};
use super::error::in_zone;
use super::order::free_name;
use super::{ReservationError, ReservationOrder, Start};
use crate::command::{CommandError, Principal, limits};
use muster_model::{
    Names, Repeat, Reservation, ReservationFlag as Flag, ReservedNode, Seconds, State, Timestamp,
    Want, Window,
};
use muster_planner::Slot;
use std::collections::BTreeSet;

/// So many further occurrences are kept in the state.
pub(super) const LATER: usize = 8;
/// A start may be so long past: the order was on its way.
const PAST: Seconds = Seconds(60);
/// An idle reservation is purged after this where nothing else is said (scontrol manual).
const PURGE: Seconds = Seconds(300);
/// So many occurrences are tried for the earliest one.
const TRIES: usize = 60;

/// The reservation that an order for a new one means.
///
/// # Errors
/// Why it is refused.
pub fn made(
    state: &State,
    at: Timestamp,
    principal: &Principal,
    order: &ReservationOrder,
) -> Result<Reservation, CommandError> {
    let draft = draft(state, at, principal, order)?;
    settled(state, at, draft)
}

/// Whether what is wanted is a number or a list of anything.
fn says_how_much(want: &Want) -> bool {
    let request = &want.request;
    request.nodes.is_some()
        || !request.node_list.is_empty()
        || want.all_nodes
        || request.tasks.is_some()
        || request.cpus_per_task.is_some()
        || !request.gpus.is_empty()
        || !request.licences.is_empty()
}

/// As [`made`], at the earliest time from its start on at which its nodes are free of jobs and other
/// reservations: the occurrences of its rule, or any time where it has none.
///
/// # Errors
/// Why it is refused; that there is no such time, as [`ReservationError::Nodes`].
pub fn earliest(
    state: &State,
    at: Timestamp,
    principal: &Principal,
    order: &ReservationOrder,
) -> Result<Reservation, CommandError> {
    let mut draft = draft(state, at, principal, order)?;
    let Some(length) = draft.window.length() else {
        let why = "a length is needed, such as 3h".to_owned();
        return Err(ReservationError::Time { field: "duration", why }.into());
    };
    if let Some(repeat) = draft.repeat.clone() {
        let starts = muster_recurrence::windows(&repeat, length, draft.window.start, TRIES);
        let mut refused = None;
        for window in starts.map_err(ReservationError::Rule)? {
            if window.start < at {
                continue;
            }
            draft.window = window;
            draft.repeat = Some(Repeat { first: window.start, ..repeat.clone() });
            match settled(state, at, draft.clone()) {
                Err(CommandError::Reservation(
                    error @ (ReservationError::Nodes { .. }
                    | ReservationError::Overlap { .. }
                    | ReservationError::Jobs { .. }),
                )) => refused = Some(error),
                other => return other,
            }
        }
        return Err(match refused {
            Some(error @ (ReservationError::Overlap { .. } | ReservationError::Jobs { .. })) => {
                error
            }
            _ => lacking(&draft, true),
        }
        .into());
    }
    let without = BTreeSet::new();
    let slot = slot(&draft, &without);
    let found = slot.earliest(state, at, draft.window.start, length);
    let (window, nodes) = found.ok_or_else(|| lacking(&draft, true))?;
    draft.window = window;
    draft.nodes = nodes;
    settled(state, at, draft)
}

/// The reservation that a change makes of one that is there.
pub(super) fn remade(
    state: &State,
    at: Timestamp,
    old: &Reservation,
    order: &ReservationOrder,
) -> Result<Reservation, CommandError> {
    let mut draft = old.clone();
    draft.flags.extend(&order.flags);
    draft.flags.retain(|flag| !order.without.contains(flag));
    if let Some(want) = &order.want {
        check_want(state, want)?;
        draft.want = want.clone();
        draft.nodes.clear();
        draft.licences.clear();
    }
    if let Some(access) = &order.access {
        check_access(state, access)?;
        draft.access = access.clone();
    }
    set_time(at, &mut draft, order)?;
    describe(&mut draft, order)?;
    check_flags(&draft)?;
    settled(state, at, draft)
}

/// Everything but nodes and later occurrences.
fn draft(
    state: &State,
    at: Timestamp,
    principal: &Principal,
    order: &ReservationOrder,
) -> Result<Reservation, CommandError> {
    if !principal.admin {
        return Err(CommandError::AdminOnly { what: "make reservations" });
    }
    let name = free_name(state, principal, order)?;
    let want = order.want.clone().filter(says_how_much).ok_or(ReservationError::Empty)?;
    check_want(state, &want)?;
    let mut access = order.access.clone().unwrap_or_default();
    if access == muster_model::Access::default() {
        access.users = Names::only([principal.user.clone()]);
    }
    check_access(state, &access)?;
    let window = Window { start: at, end: Timestamp::NEVER };
    let mut draft = Reservation {
        name,
        want,
        window,
        access,
        flags: order.flags.clone(),
        by: principal.user.clone(),
        made: at,
        standing: order.standing.clone(),
        ..Reservation::default()
    };
    // One that stood there before keeps the nodes that it was given for the same.
    if let Some(before) = state.reservations.get(&draft.name).filter(|r| r.want == draft.want) {
        draft.nodes.clone_from(&before.nodes);
    }
    set_time(at, &mut draft, order)?;
    describe(&mut draft, order)?;
    check_flags(&draft)?;
    Ok(draft)
}

fn describe(draft: &mut Reservation, order: &ReservationOrder) -> Result<(), CommandError> {
    if let Some(comment) = &order.comment {
        if comment.len() > limits::TEXT_MAX {
            let why = format!("expected at most {} bytes", limits::TEXT_MAX);
            return Err(limits::bad("comment", why));
        }
        draft.comment.clone_from(comment);
    }
    draft.purge = match (order.purge, draft.has(Flag::PurgeComp)) {
        (_, false) => None,
        (given, true) => Some(given.or(draft.purge).unwrap_or(PURGE)),
    };
    let request = &draft.want.request;
    for (flag, holds) in [
        (Flag::SpecNodes, !request.node_list.is_empty()),
        (Flag::PartNodes, draft.want.all_nodes && draft.want.partition.is_some()),
        (Flag::AnyNodes, draft.want.no_nodes),
        (Flag::TimeFloat, draft.float.is_some()),
    ] {
        if holds {
            draft.flags.insert(flag);
        } else {
            draft.flags.remove(&flag);
        }
    }
    draft.licences = std::collections::BTreeMap::new();
    for licence in &request.licences {
        *draft.licences.entry(licence.name.clone()).or_default() += licence.count;
    }
    Ok(())
}

fn wrong(field: &'static str, why: String) -> CommandError {
    ReservationError::Time { field, why }.into()
}

fn set_time(
    at: Timestamp,
    draft: &mut Reservation,
    order: &ReservationOrder,
) -> Result<(), CommandError> {
    let length = order.length.unwrap_or_else(|| draft.window.length());
    if order.zone.is_some() {
        draft.zone.clone_from(&order.zone);
    }
    match order.start {
        Some(Start::At(start)) => {
            draft.window.start = start;
            draft.float = None;
        }
        Some(Start::Away(away)) => {
            draft.window.start = at.plus(away);
            draft.float = Some(away);
        }
        None => {}
    }
    let start = draft.window.start;
    draft.window.end = match (order.end, length) {
        (Some(end), _) => end,
        (None, Some(length)) => start.plus(length),
        (None, None) => Timestamp::NEVER,
    };
    agrees(at, draft, order)?;
    match &order.repeat {
        Some((rule, _)) if rule.is_empty() => draft.repeat = None,
        Some((rule, zone)) => {
            let (rule, zone) = (rule.clone(), zone.clone());
            draft.repeat = Some(Repeat { rule, zone, first: start });
        }
        None => {}
    }
    if let Some(repeat) = &mut draft.repeat {
        if order.start.is_some() {
            repeat.first = start;
        }
        let Some(length) = draft.window.length() else {
            let why = "one that comes again needs a length, such as 3h".to_owned();
            return Err(wrong("duration", why));
        };
        muster_recurrence::check(repeat, length).map_err(ReservationError::Rule)?;
    }
    Ok(())
}

/// Start, end and duration do not contradict each other, nor the clock. What stands in the
/// configuration may have begun long ago.
fn agrees(
    at: Timestamp,
    draft: &Reservation,
    order: &ReservationOrder,
) -> Result<(), CommandError> {
    let Window { start, end } = draft.window;
    let told = |at: Timestamp| in_zone(at, draft.zone.as_ref());
    let stands = order.standing.is_some();
    if matches!(order.start, Some(Start::At(_))) && start.plus(PAST) < at && !stands {
        return Err(wrong("start", format!("{} is in the past", told(start))));
    }
    let leave = "leave one of them out";
    match (order.end, order.length) {
        (Some(end), Some(Some(length))) if start.plus(length) != end => {
            let (begins, ends) = (told(start), told(start.plus(length)));
            let why = format!("it begins {begins} and so ends {ends}, but end is {}", told(end));
            return Err(wrong("duration", format!("{why}; {leave}")));
        }
        (Some(end), Some(None)) => {
            let why = format!("it is without an end, but end is {}; {leave}", told(end));
            return Err(wrong("duration", why));
        }
        _ => {}
    }
    if end <= start {
        let why = format!("{} is not after its start, {}", told(end), told(start));
        return Err(wrong("end", why));
    }
    if end <= at && !stands {
        return Err(wrong("end", format!("{} is in the past", told(end))));
    }
    Ok(())
}

fn check_flags(draft: &Reservation) -> Result<(), CommandError> {
    let has = |flag| draft.has(flag);
    let named = !draft.want.request.node_list.is_empty() || draft.want.all_nodes;
    let replaces = has(Flag::Replace) || has(Flag::ReplaceDown);
    let repeats = [Flag::Hourly, Flag::Daily, Flag::Weekly, Flag::Weekday, Flag::Weekend];
    let repeats = repeats.into_iter().filter(|flag| has(*flag)).count();
    let why = if repeats > 1 {
        "at most one of HOURLY, DAILY, WEEKLY, WEEKDAY and WEEKEND"
    } else if draft.float.is_some() && draft.repeat.is_some() {
        "one that floats does not come again"
    } else if replaces && named {
        "REPLACE and REPLACE_DOWN are for nodes that are chosen, not named"
    } else if replaces && has(Flag::StaticAlloc) {
        "STATIC_ALLOC keeps the nodes that REPLACE exchanges"
    } else if draft.want.no_nodes && draft.licences.is_empty() {
        "ANY_NODES is for licences, and none are asked for"
    } else if draft.float.is_some() && has(Flag::Magnetic) {
        "one that floats never begins, so MAGNETIC would draw nobody"
    } else {
        return Ok(());
    };
    Err(ReservationError::Flags { why: why.to_owned() }.into())
}

fn check_want(state: &State, want: &Want) -> Result<(), CommandError> {
    let unknown = |kind: &'static str, name: &str, known: Vec<&str>| CommandError::UnknownName {
        kind,
        name: name.to_owned(),
        nearest: muster_model::nearest(name, known).map(str::to_owned),
    };
    if let Some(name) = &want.partition
        && !state.partitions.contains_key(name)
    {
        return Err(unknown(
            "partition",
            name,
            state.partitions.keys().map(String::as_str).collect(),
        ));
    }
    let request = &want.request;
    for name in request.node_list.iter().chain(&request.exclude) {
        if state.node_named(name).is_none() {
            let names = state.nodes.values().map(|n| n.name.as_str()).collect();
            return Err(unknown("node", name, names));
        }
    }
    if let Some(constraint) = &request.constraint {
        let features: BTreeSet<&str> =
            state.nodes.values().flat_map(|n| &n.features).map(String::as_str).collect();
        if let Some(name) = constraint.names().into_iter().find(|name| !features.contains(name)) {
            return Err(unknown("feature", name, features.into_iter().collect()));
        }
    }
    for licence in &request.licences {
        let names = || state.licences.keys().map(String::as_str).collect();
        let known = state.licences.get(&licence.name);
        let known = known.ok_or_else(|| unknown("licence", &licence.name, names()))?;
        if licence.count == 0 || licence.count > known.total {
            let (count, name, total) = (licence.count, &known.name, known.total);
            return Err(limits::bad("licenses", format!("{count} of {name}; there are {total}")));
        }
    }
    Ok(())
}

fn check_access(state: &State, access: &muster_model::Access) -> Result<(), CommandError> {
    for name in &access.accounts.names {
        if !state.accounts.contains_key(name) {
            return Err(CommandError::UnknownName {
                kind: "account",
                name: name.clone(),
                nearest: muster_model::nearest(name, state.accounts.keys().map(String::as_str))
                    .map(str::to_owned),
            });
        }
    }
    Ok(())
}

fn slot<'a>(draft: &'a Reservation, without: &'a BTreeSet<muster_model::NodeId>) -> Slot<'a> {
    Slot {
        want: &draft.want,
        without,
        ignore_jobs: draft.has(Flag::IgnoreJobs),
        ignore_reservations: draft.has(Flag::Overlap) || draft.has(Flag::Maint),
    }
}

/// What could not be had: at one time, or at any.
fn lacking(draft: &Reservation, ever: bool) -> ReservationError {
    let request = &draft.want.request;
    let gpus: u32 = request.gpus.iter().map(|gpus| gpus.count).sum();
    let counts = [
        (request.nodes.as_ref().map_or(0, |_| request.nodes_min()), "node"),
        (gpus, "GPU"),
        (request.tasks.unwrap_or(0), "CPU"),
    ];
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    let some = some.map(|(n, what)| format!("{n} {what}{}", if n == 1 { "" } else { "s" }));
    let asked = some.collect::<Vec<_>>().join(" and ");
    let asked = if asked.is_empty() { "what is asked for".to_owned() } else { asked };
    let why = match ever {
        true => format!("at no time are {asked} of that kind free for so long"),
        false => format!("{asked} of that kind are not free then"),
    };
    ReservationError::Nodes { why, ever }
}

/// Finds the nodes that are not found yet, and the later occurrences; then holds it against running
/// jobs and other reservations.
fn settled(
    state: &State,
    at: Timestamp,
    mut draft: Reservation,
) -> Result<Reservation, CommandError> {
    if let (Some(repeat), Some(length)) = (&draft.repeat, draft.window.length()) {
        let found =
            muster_recurrence::windows(repeat, length, draft.window.start.max(at), LATER + 1);
        let mut found = found.map_err(ReservationError::Rule)?.into_iter();
        let Some(first) = found.next() else {
            let why = "its rule does not come again".to_owned();
            return Err(ReservationError::Time { field: "every", why }.into());
        };
        draft.window = first;
        draft.later = found.collect();
    } else {
        draft.later.clear();
    }
    if draft.nodes.is_empty() {
        // One that is changed does not stand in its own way.
        let mut others = state.clone();
        others.reservations.remove(&draft.name);
        draft.nodes = nodes_for(&others, at, &draft)?;
        draft.nodes.sort_by_key(|n| n.node);
    }
    if !draft.has(Flag::IgnoreJobs) {
        let jobs = running_into(state, at, &draft);
        if !jobs.is_empty() {
            return Err(ReservationError::Jobs { jobs }.into());
        }
    }
    check(state, at, &draft)?;
    Ok(draft)
}

/// The nodes for a reservation: those named, all, or chosen as for a job.
pub(super) fn nodes_for(
    state: &State,
    at: Timestamp,
    draft: &Reservation,
) -> Result<Vec<ReservedNode>, ReservationError> {
    let want = &draft.want;
    let request = &want.request;
    if want.no_nodes {
        return Ok(Vec::new());
    }
    let whole = request.exclusive == muster_model::Exclusive::Node;
    let named = |name: &String| {
        state.node_named(name).map(|node| ReservedNode { node: node.id, part: None })
    };
    if want.all_nodes {
        let all: Vec<ReservedNode> = match want.partition.as_ref().map(|p| state.partitions.get(p))
        {
            Some(partition) => {
                partition.into_iter().flat_map(|p| &p.nodes).filter_map(named).collect()
            }
            None => state.nodes.keys().map(|id| ReservedNode { node: *id, part: None }).collect(),
        };
        return if all.is_empty() { Err(lacking(draft, false)) } else { Ok(all) };
    }
    // Nodes that are named whole are had as they are, also those that are down.
    if whole
        && !request.node_list.is_empty()
        && request.nodes_min() as usize <= request.node_list.len()
    {
        return Ok(request.node_list.iter().filter_map(named).collect());
    }
    let without = match draft.has(Flag::Overlap) || draft.has(Flag::Maint) || !whole {
        true => BTreeSet::new(),
        false => taken(state, at, draft),
    };
    let window = draft
        .float
        .map_or(draft.window, |away| Window { start: at.plus(away), end: Timestamp::NEVER });
    slot(draft, &without).at(state, at, window).ok_or_else(|| lacking(draft, false))
}
