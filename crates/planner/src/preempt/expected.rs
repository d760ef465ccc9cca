//! Room that is being made, laid out over time: who has it until when, and who from then on.

use super::claims::{claims, free_part, lay_over};
use super::{Place, makers};
use crate::free::effective_end;
use crate::world::World;
use muster_model::{Preempt, PreemptMode, State, Timestamp, Victim};
use std::sync::Arc;

/// Room for a group, who makes it, and until when.
pub(crate) struct Expected {
    pub(crate) places: Vec<Place>,
    victims: Vec<Victim>,
    until: Timestamp,
}

/// The room that the state has claimed and that is not all made yet.
pub(crate) fn of_state(state: &State) -> Vec<Expected> {
    let groups = claims(state).into_iter();
    let expected = groups.filter_map(|places| {
        let claim = Arc::clone(places.first()?.job.claim.as_ref()?);
        let is_awaited = makers(state, &claim.victims).any(|(_, job)| !job.yields_cpus());
        is_awaited.then(|| Expected { places, victims: claim.victims.clone(), until: claim.until })
    });
    expected.collect()
}

/// The room that a decision makes.
pub(crate) fn of_decision(state: &State, preempt: &Preempt) -> Expected {
    let place = |start: &muster_model::Start| {
        let job = Arc::clone(state.jobs.get(&start.job)?);
        Some(Place { job, placement: Arc::clone(&start.placement), limit: start.time_limit })
    };
    let places = preempt.starts.iter().filter_map(place).collect();
    Expected { places, victims: preempt.victims.clone(), until: preempt.until }
}

impl Expected {
    /// Puts it on a world that is nobody else's; gives the instant at which the group starts.
    ///
    /// What is free of the room is held at once, the rest from when its victims are gone. Where one
    /// of them only stands still or gives up some nodes, it keeps what it has for everybody but the group.
    pub(crate) fn lay(&self, world: &mut World, state: &State, now: Timestamp) -> Timestamp {
        let start = effective_end(self.until, now);
        let keeps = |v: &Victim| v.mode == PreemptMode::Suspend || v.keeps.is_some();
        if self.victims.iter().any(keeps) {
            lay_over(world, state, now, &self.places, &self.victims, start);
            return start;
        }
        for (victim, job) in makers(state, &self.victims) {
            let end = state.expected_end(job, now);
            let (Some(placement), Some(end)) = (&job.placement, end) else {
                continue;
            };
            world.release(job.id, placement);
            world.occupy(job, placement, end.min(victim.until), false);
        }
        for place in &self.places {
            let free = free_part(state, &place.placement, &self.victims);
            world.occupy(&place.job, &free, start, false);
            let end = start.plus_limit(place.limit);
            world.expect(&place.job, &place.placement, start, end);
        }
        start
    }
}
