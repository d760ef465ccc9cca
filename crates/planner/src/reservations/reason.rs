//! Why a reservation keeps a job waiting: its own, or another's.

use super::ways;
use crate::ask::Ask;
use crate::free::{NodeView, Span};
use crate::gang::{Cursor, Picks, place_with_cursor};
use crate::world::World;
use muster_model::{Job, NodeCause, Reason, State, Timestamp, Window, Work};

/// What the reservations that a job names lack: they are not there, not for it, not now or not long
/// enough. `None` where it names none, or one of them takes it now as far as time goes.
pub(crate) fn blocked(state: &State, world: &World, job: &Job, now: Timestamp) -> Option<Reason> {
    let name = job.spec.request.reservations().next()?.to_owned();
    let known = job.spec.request.reservations().any(|n| state.reservations.contains_key(n));
    if !known {
        return Some(Reason::ReservationAbsent { name });
    }
    let inside: Vec<String> = ways(state, job).into_iter().flatten().collect();
    if inside.is_empty() {
        return Some(Reason::ReservationDenied { name });
    }
    let limit = job.spec.time_min.map_or(job.time_limit, muster_model::TimeLimit::Of);
    let span = Span::of(now, now, limit);
    let mut reason = None;
    for name in inside {
        let bookings = world.bookings();
        let Some(own) = bookings.by_name.get(&name).map(|at| &bookings.list[*at]) else { continue };
        if own.flex || own.holds(span) {
            return None;
        }
        let present = own.windows.iter().find(|w| now < w.end);
        let found = match present {
            Some(w) if w.start > now => Reason::ReservationWaits { name, start: w.start },
            Some(w) => Reason::ReservationTooShort { name, end: w.end },
            None => Reason::ReservationWaits { name, start: Timestamp::NEVER },
        };
        reason.get_or_insert(found);
    }
    reason
}

/// The reservation that alone keeps a job from starting beside what runs: without reservations it
/// would fit, with them it does not.
pub(crate) fn reserved(
    world: &World,
    asks: &[Ask],
    order: &[usize],
    now: Timestamp,
) -> Option<Reason> {
    if world.bookings().is_empty() {
        return None;
    }
    let (mut work, mut found) = (Work::default(), None);
    for ask in asks {
        let span = Span::of(now, now, ask.length());
        let mut try_on = |ask: &Ask| -> Option<Picks> {
            place_with_cursor(world, ask, span, order, &mut Cursor::default(), &mut work)
        };
        if try_on(ask).is_some() {
            return None;
        }
        if found.is_none()
            && let Some(picks) = try_on(&ask.heedless())
        {
            found = in_the_way(world, ask, &picks, span);
        }
    }
    let (name, window, maintenance) = found?;
    Some(Reason::Reserved { name, start: window.start, end: window.end, maintenance })
}

/// The first reservation that meets the span on these nodes or has licences that are needed.
fn in_the_way(
    world: &World,
    ask: &Ask,
    picks: &Picks,
    span: Span,
) -> Option<(String, Window, bool)> {
    let bookings = world.bookings();
    let against = bookings.against(ask);
    let here = picks.iter().filter_map(|p| bookings.on_node.get(&p.node)).flatten().copied();
    let licences = (0..bookings.list.len()).filter(|at| {
        bookings.list[*at].licences.keys().any(|name| ask.licences.contains_key(name))
    });
    here.chain(licences)
        .filter_map(against)
        .filter_map(|other| Some((other.met(span)?, other)))
        .min_by_key(|(window, other)| (window.start, &other.name))
        .map(|(window, other)| (other.name.clone(), window, other.maintenance))
}

/// The reservation that keeps a job from one node over the span: its own, which has not enough of
/// it, or another's. `None` where what is left of the node, empty, would do.
pub(crate) fn on_node(
    world: &World,
    ask: &Ask,
    node: usize,
    span: Span,
    would_do: impl Fn(&NodeView) -> bool,
) -> Option<NodeCause> {
    let bookings = world.bookings();
    if bookings.is_empty() || ask.heedless {
        return None;
    }
    let outside = |name: &str| NodeCause::OutsideReservation { name: name.to_owned() };
    let own = bookings.own(ask).map(|(_, own)| own).filter(|own| !own.flex);
    if let Some(own) = own {
        if own.bound && !own.nodes.contains_key(&node) {
            return Some(outside(&own.name));
        }
        if !own.holds(span) {
            // The present occurrence, or the next one.
            let window = own.windows.iter().find(|w| span.from < w.end);
            return Some(match window {
                Some(Window { start, end }) => {
                    let (name, start, end) = (own.name.clone(), *start, *end);
                    NodeCause::ReservationTime { name, start, end }
                }
                None => outside(&own.name),
            });
        }
    }
    if world.view_for(node, ask, span).is_some_and(|left| would_do(&left)) {
        return None;
    }
    let against = bookings.against(ask);
    let here = bookings.on_node.get(&node).into_iter().flatten().copied();
    let met = here.filter_map(against).filter_map(|other| Some((other.met(span)?, other)));
    let Some((window, other)) = met.min_by_key(|(window, other)| (window.start, &other.name))
    else {
        return own.map(|own| outside(&own.name));
    };
    Some(NodeCause::Reserved {
        name: other.name.clone(),
        start: window.start,
        end: window.end,
        maintenance: other.maintenance,
    })
}
