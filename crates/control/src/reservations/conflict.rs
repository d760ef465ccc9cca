//! Whether two reservations want the same at the same time, now or at any later occurrence.

use super::ReservationError;
use muster_model::{
    JobId, Reservation, ReservationFlag, ReservedNode, Seconds, State, Timestamp, Window,
};
use muster_recurrence::windows;

/// Occurrences are held against each other so far ahead.
const HORIZON: Seconds = Seconds(366 * 24 * 3600);
/// At most so many occurrences of one: a year of hours.
const OCCURRENCES_MAX: usize = 9000;

/// Every occurrence within the horizon.
pub(super) fn occurrences(r: &Reservation, now: Timestamp) -> Vec<Window> {
    if r.float.is_some() {
        return Vec::new();
    }
    let (Some(repeat), Some(length)) = (&r.repeat, r.window.length()) else {
        return vec![r.window];
    };
    let found = windows(repeat, length, now.max(r.window.start), OCCURRENCES_MAX);
    let mut found = found.unwrap_or_default();
    let last = now.plus(HORIZON);
    found.retain(|w| w.start < last);
    if found.first().is_none_or(|w| r.window.start < w.start) {
        found.insert(0, r.window);
    }
    found
}

/// The first instant at which two ascending lists of windows meet.
fn first_meeting(a: &[Window], b: &[Window]) -> Option<Timestamp> {
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        if x.meets(y) {
            return Some(x.start.max(y.start));
        }
        if x.end <= y.end { i += 1 } else { j += 1 }
    }
    None
}

fn share(a: &ReservedNode, b: &ReservedNode) -> bool {
    match (&a.part, &b.part) {
        (Some(x), Some(y)) => {
            x.cpus.intersects(&y.cpus) || x.devices.iter().any(|d| y.devices.contains(d))
        }
        _ => true,
    }
}

fn lies_over(r: &Reservation) -> bool {
    r.has(ReservationFlag::Overlap) || r.has(ReservationFlag::Maint)
}

/// The other reservation that stands in this one's way (cases S-26, S-27).
///
/// Costs its occurrences with those of each other that has a node or licence in common.
pub(super) fn check(
    state: &State,
    now: Timestamp,
    new: &Reservation,
) -> Result<(), ReservationError> {
    if lies_over(new) {
        return Ok(());
    }
    let own = occurrences(new, now);
    for other in state.reservations.values() {
        if other.name == new.name || lies_over(other) {
            continue;
        }
        let nodes = new.nodes.iter().any(|a| other.on(a.node).is_some_and(|b| share(a, b)));
        let licences = new.licences.iter().any(|(name, count)| {
            let total = state.licences.get(name).map_or(0, |l| l.total);
            other.licences.get(name).is_some_and(|theirs| count.saturating_add(*theirs) > total)
        });
        if !nodes && !licences {
            continue;
        }
        if let Some(at) = first_meeting(&own, &occurrences(other, now)) {
            let (other, zone) = (other.name.clone(), new.zone.clone());
            return Err(ReservationError::Overlap { other, at, zone });
        }
    }
    Ok(())
}

/// The nodes that another reservation has at one of these times.
pub(super) fn taken(
    state: &State,
    now: Timestamp,
    new: &Reservation,
) -> std::collections::BTreeSet<muster_model::NodeId> {
    let own = occurrences(new, now);
    let others = state.reservations.values().filter(|o| o.name != new.name && !lies_over(o));
    let met = others.filter(|o| first_meeting(&own, &occurrences(o, now)).is_some());
    met.flat_map(|o| &o.nodes).map(|n| n.node).collect()
}

/// Running jobs that could still be on its nodes when it begins, and are not its own.
pub(super) fn running_into(state: &State, now: Timestamp, new: &Reservation) -> Vec<JobId> {
    let start = new.float.map_or(new.window.start, |away| now.plus(away));
    let mut jobs = std::collections::BTreeSet::new();
    for reserved in &new.nodes {
        for id in state.index.on_node.get(&reserved.node).into_iter().flatten() {
            let Some(job) = state.jobs.get(id) else { continue };
            let Some(placement) = &job.placement else { continue };
            let own = placement.reservation.as_ref() == Some(&new.name);
            let takes = placement.nodes.iter().filter(|s| s.node == reserved.node).any(|s| {
                reserved.part.as_ref().is_none_or(|part| {
                    part.cpus.intersects(&s.cpus)
                        || s.devices.iter().any(|d| part.devices.contains(&d.index))
                })
            });
            if !own && takes && job.ends_at_latest().is_some_and(|end| end > start) {
                jobs.insert(*id);
            }
        }
    }
    jobs.into_iter().collect()
}
