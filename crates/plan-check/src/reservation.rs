//! Reservations: nobody runs on what is set aside for others, and a job in one stays in it.
//!
//! Known again from the state alone: every start is held against every reservation, over the whole
//! of its limit.

use crate::fit::{New, When, still_there};
use crate::promise::new_starts;
use crate::{Rule, Violation};
use muster_model::{
    Exclusive, Job, NodeId, NodeShare, Plan, Reservation, ReservationFlag, Start, State, TimeLimit,
    Timestamp, Window,
};
use std::collections::BTreeSet;

pub(crate) fn check(state: &State, plan: &Plan, starts: &[&Start], found: &mut Vec<Violation>) {
    for start in starts {
        let Some(job) = state.jobs.get(&start.job) else { continue };
        let end = plan.now.plus_limit(start.time_limit);
        let own = start.placement.reservation.as_deref();
        if let Some(why) = no_access(state, job, own) {
            found.push(Violation::of(Rule::Reservation, job.id, why));
        }
        let own = own.and_then(|name| state.reservations.get(name));
        for share in &start.placement.nodes {
            if let Some(own) = own
                && let Some(why) = not_within(own, job, share)
            {
                let node = Some(share.node);
                let (rule, jobs) = (Rule::OutsideReservation, vec![job.id]);
                found.push(Violation { rule, jobs, node, detail: why });
            }
            for other in in_the_way(state, own.map(AsRef::as_ref), plan.now, end) {
                if takes_of(other, job, share) {
                    let detail = format!(
                        "could run into reservation {} on node {}",
                        other.name,
                        state.node_name(share.node)
                    );
                    let (rule, jobs) = (Rule::Reserved, vec![job.id]);
                    found.push(Violation { rule, jobs, node: Some(share.node), detail });
                }
            }
        }
        if let Some(own) = own
            && !own.has(ReservationFlag::Flex)
            && !in_time(own, plan.now, end)
        {
            let detail = format!("is not within the time of reservation {}", own.name);
            found.push(Violation::of(Rule::OutsideReservation, job.id, detail));
        }
    }
    check_licences(state, plan, starts, found);
}

/// Why the job may not run in this reservation (or in none).
fn no_access(state: &State, job: &Job, own: Option<&str>) -> Option<String> {
    let named: Vec<&str> = job.spec.request.reservations().collect();
    let Some(own) = own else {
        let names = named.join(",");
        return (!named.is_empty()).then(|| format!("names reservation {names}, runs in none"));
    };
    let Some(reservation) = state.reservations.get(own) else {
        return Some(format!("reservation {own} is not there"));
    };
    let magnetic = named.is_empty() && reservation.has(ReservationFlag::Magnetic);
    if !magnetic && !named.contains(&own) {
        return Some(format!("does not name reservation {own}"));
    }
    let allowed = state.may_use(reservation, &job.spec.owner, &job.spec.account);
    (!allowed).then(|| format!("may not use reservation {own}"))
}

fn windows(r: &Reservation) -> Vec<Window> {
    let mut all = vec![r.window];
    all.extend(&r.later);
    all
}

/// The whole of the time from `from` to `end` lies in one occurrence.
fn in_time(own: &Reservation, from: Timestamp, end: Timestamp) -> bool {
    own.float.is_none() && windows(own).iter().any(|w| w.start <= from && end <= w.end)
}

/// The reservations, other than its own, that a job meets between two instants and that do not
/// give way to its own.
fn in_the_way<'a>(
    state: &'a State,
    own: Option<&'a Reservation>,
    from: Timestamp,
    end: Timestamp,
) -> impl Iterator<Item = &'a Reservation> {
    state.reservations.values().map(AsRef::as_ref).filter(move |other: &&Reservation| {
        let gives_way = own.is_some_and(|own| {
            own.name == other.name
                || own.has(ReservationFlag::Maint)
                || (own.has(ReservationFlag::Overlap) && !other.has(ReservationFlag::Maint))
        });
        !gives_way && meets(other, from, end)
    })
}

fn meets(other: &Reservation, from: Timestamp, end: Timestamp) -> bool {
    let endless = end == Timestamp::NEVER;
    match other.float {
        Some(away) => endless || from.plus(away) < end,
        None => windows(other)
            .iter()
            .any(|w| (w.start < end || endless) && (from < w.end || w.end == Timestamp::NEVER)),
    }
}

/// True where the share has something that the reservation has too.
pub(crate) fn takes_of(other: &Reservation, job: &Job, share: &NodeShare) -> bool {
    let Some(reserved) = other.on(share.node) else { return false };
    let alone = share.exclusive || job.spec.request.exclusive != Exclusive::No;
    reserved.part.as_ref().is_none_or(|part| {
        alone
            || part.cpus.intersects(&share.cpus)
            || share.devices.iter().any(|grant| part.devices.contains(&grant.index))
    })
}

/// Why the share is not within what the job's own reservation has.
fn not_within(own: &Reservation, job: &Job, share: &NodeShare) -> Option<String> {
    if own.has(ReservationFlag::Flex) || own.want.no_nodes {
        return None;
    }
    let Some(reserved) = own.on(share.node) else {
        return Some(format!("is on a node that reservation {} does not have", own.name));
    };
    let part = reserved.part.as_ref()?;
    let beyond = !share.cpus.is_subset(&part.cpus)
        || share.devices.iter().any(|grant| !part.devices.contains(&grant.index))
        || share.exclusive
        || job.spec.request.exclusive != Exclusive::No;
    beyond.then(|| format!("has more of the node than reservation {}", own.name))
}

/// What each start leaves of a licence covers what is reserved, at every instant of its limit at
/// which a reservation begins.
fn check_licences(state: &State, plan: &Plan, starts: &[&Start], found: &mut Vec<Violation>) {
    let new = new_starts(state, plan, starts);
    for start in starts {
        let Some(job) = state.jobs.get(&start.job) else { continue };
        let end = plan.now.plus_limit(start.time_limit);
        let own = start.placement.reservation.as_ref();
        let own = own.and_then(|name| state.reservations.get(name)).map(AsRef::as_ref);
        let others: Vec<&Reservation> = in_the_way(state, own, plan.now, end).collect();
        for name in start.placement.licences.keys() {
            let mut points = BTreeSet::from([plan.now]);
            let begins = others.iter().filter(|r| r.licences.contains_key(name));
            points.extend(begins.flat_map(|r| windows(r)).map(|w| w.start));
            let short = points
                .range(plan.now..end)
                .any(|at| is_short(state, plan.now, &new, &others, name, *at));
            if short {
                let detail = format!("takes licences {name} that are reserved");
                found.push(Violation::of(Rule::Reserved, job.id, detail));
            }
        }
    }
}

fn is_short(
    state: &State,
    now: Timestamp,
    new: &[New<'_>],
    others: &[&Reservation],
    name: &str,
    at: Timestamp,
) -> bool {
    let when = if at == now { When::Now } else { When::At(at) };
    let active = state.index.active.iter().filter_map(|id| state.jobs.get(id));
    let running =
        active.filter_map(|job| Some((job.placement.as_deref()?, job.ends_at_latest()?, false)));
    let starting = new.iter().map(|n| (n.placement, n.end, true));
    let there: Vec<_> = running
        .chain(starting)
        .filter(|(_, end, new)| still_there(when, now, *end, *new))
        .collect();
    let held = |inside: Option<&str>| {
        let those = there.iter().filter(|(placement, ..)| {
            inside.is_none_or(|name| placement.reservation.as_deref() == Some(name))
        });
        crate::total(those.filter_map(|(placement, ..)| placement.licences.get(name)).copied())
    };
    let kept = others.iter().filter_map(|r| {
        let active = r.float.is_some() || windows(r).iter().any(|w| w.start <= at && at < w.end);
        let count = r.licences.get(name).filter(|_| active)?;
        Some(count.saturating_sub(held(Some(&r.name))))
    });
    let total = state.licences.get(name).map_or(0, |l| l.total);
    let kept = crate::total(kept);
    kept > 0 && held(None).saturating_add(kept) > total
}

/// True where nothing on the node is reserved at any time that the job could need it: only then do
/// the rules on waiting jobs count the node.
pub(crate) fn is_free_of(state: &State, node: NodeId, from: Timestamp, end: Timestamp) -> bool {
    state.reservations.values().all(|r| r.on(node).is_none() || !meets(r, from, end))
}

/// True where no reservation has this licence.
pub(crate) fn licence_is_free(state: &State, name: &str) -> bool {
    state.reservations.values().all(|r| !r.licences.contains_key(name))
}

/// Why a promised start cannot be meant: its nodes are reserved for others then, whichever of its
/// reservations the job would be in.
pub(crate) fn promise_in_the_way(
    state: &State,
    job: &Job,
    start: Timestamp,
    nodes: &[NodeId],
) -> Option<String> {
    if state.reservations.is_empty() || start == Timestamp::NEVER {
        return None;
    }
    let least = job.spec.time_min.map_or(job.time_limit, TimeLimit::Of);
    let end = start.plus_limit(least);
    let whole = |r: &Reservation| {
        nodes.iter().find(|id| r.on(**id).is_some_and(|n| n.part.is_none())).copied()
    };
    let stands = |own: Option<&Reservation>| {
        let other = in_the_way(state, own, start, end).find_map(|r| whole(r).map(|_| r));
        let outside = own.filter(|own| {
            !own.has(ReservationFlag::Flex)
                && (!in_time(own, start, end)
                    || (!own.want.no_nodes && nodes.iter().any(|id| own.on(*id).is_none())))
        });
        other.is_none() && outside.is_none()
    };
    let ways = state
        .reservations
        .values()
        .map(AsRef::as_ref)
        .filter(|r: &&Reservation| no_access(state, job, Some(&r.name)).is_none());
    let plain = job.spec.request.reservation.is_none() && stands(None);
    (!plain && !ways.into_iter().any(|own| stands(Some(own))))
        .then(|| "its nodes are reserved for others then".to_owned())
}
