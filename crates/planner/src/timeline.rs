//! When a job could start at the earliest, if everything that runs takes its whole limit.

use crate::ask::Ask;
use crate::free::Span;
use crate::gang::{Picks, place};
use crate::world::World;
use muster_model::{Timestamp, Work};

/// The places of all components, each with the ask that found it.
pub(crate) type Places = Vec<(Ask, Picks)>;

/// The earliest start of all components together, put on the world as a promise.
///
/// `parts` holds, for each component, the ways to ask for it. `alone` says that no other promise
/// stands: then a later instant never fits worse than an earlier one, and the search halves.
/// `None` where it fits at no time: it could not even run when all else is over, or what was
/// promised before takes its place for good.
pub(crate) fn earliest(
    world: &mut World,
    parts: &[Vec<&Ask>],
    now: Timestamp,
    order: &[usize],
    alone: bool,
    work: &mut Work,
) -> Option<(Timestamp, Places)> {
    let times = world.release_times(now);
    // What others were promised may end a gap again, so only the search without promises halves.
    let halving = alone || parts.len() == 1;
    let first = if halving {
        let mut fits = |at: Timestamp| {
            work.slots += 1;
            fits_at(world, parts, now, at, order, !alone, work)
        };
        if !fits(Timestamp::NEVER) {
            return None;
        }
        let (mut low, mut high) = (0, times.len().saturating_sub(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if fits(times[middle]) { high = middle } else { low = middle + 1 }
        }
        low
    } else {
        0
    };
    times[first..].iter().find_map(|at| {
        work.slots += 1;
        let later = world.order_later(*at, now);
        reserve_at(world, parts, now, *at, &later, false, work).map(|places| (*at, places))
    })
}

fn fits_at(
    world: &mut World,
    parts: &[Vec<&Ask>],
    now: Timestamp,
    at: Timestamp,
    order: &[usize],
    ignore_promises: bool,
    work: &mut Work,
) -> bool {
    match reserve_at(world, parts, now, at, order, ignore_promises, work) {
        Some(places) => {
            undo(world, &places);
            true
        }
        None => false,
    }
}

/// Puts all components on the world at one instant, or none.
fn reserve_at(
    world: &mut World,
    parts: &[Vec<&Ask>],
    now: Timestamp,
    at: Timestamp,
    order: &[usize],
    ignore_promises: bool,
    work: &mut Work,
) -> Option<Places> {
    let mut places: Places = Vec::with_capacity(parts.len());
    for asks in parts {
        let found = asks.iter().find_map(|ask| {
            let mut span = Span::of(now, at, ask.limit);
            span.ignore_promises = ignore_promises;
            if !world.licences_fit(ask, span) {
                return None;
            }
            place(world, ask, span, order, work).map(|picks| (*ask, picks, span))
        });
        let Some((ask, picks, span)) = found else {
            undo(world, &places);
            return None;
        };
        world.reserve(ask, &picks, span);
        places.push((ask.clone(), picks));
    }
    Some(places)
}

/// Takes the places off the world again; the last put on first.
pub(crate) fn undo(world: &mut World, places: &Places) {
    for (ask, picks) in places.iter().rev() {
        world.unreserve(ask, picks);
    }
}
