//! Everything about one waiting job: what blocks it, when it may start, what would help.

use crate::cache::Cache;
use crate::gates::gate_reasons;
use crate::order::{Keys, OrderKey};
use crate::outcome::Outcome;
use crate::preempt::RoomMakers;
use crate::queue::group;
use crate::reasons::Reasoner;
use crate::suggest::{Suggestion, suggestions};
use crate::timeline;
use crate::together::first;
use crate::unblock::{Unblock, unblock};
use muster_model::{Job, JobId, NodeId, NodeTally, Reason, State, Timestamp, Work};
use std::sync::Arc;

/// Why a job waits, until when, and what would start it now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// All that blocks it, the binding reason first; empty where it does not wait.
    pub reasons: Vec<Reason>,
    /// When it starts; `None` where that depends on more than the ends of jobs.
    pub start: Option<StartWindow>,
    /// The nodes it was promised, in rank order; empty where it has no promise.
    pub nodes: Vec<NodeId>,
    /// How many waiting jobs come before it; `None` while it is not free to start.
    pub ahead: Option<u32>,
    /// The smallest changes that would start it now, each tried by planning with it.
    pub suggestions: Vec<Suggestion>,
    /// Every node of its partitions, counted under the cause that keeps the job from it now.
    pub tally: Vec<NodeTally>,
    /// For each reason, who holds what it is about and until when.
    pub unblocks: Vec<Unblock>,
    /// Who could make room for it, and who is kept from that; `None` where no rule lets it preempt
    /// anybody, or it does not wait for others.
    pub room_makers: Option<RoomMakers>,
}

/// A start, if running jobs take their whole limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartWindow {
    /// Not before this, unless jobs end before their limits: its start if nobody else waited.
    pub not_before: Timestamp,
    /// Its start as [`Planner::foreseen`](crate::Planner::foreseen) has it: not after this, unless
    /// more important jobs come. `None` where a job before it has no limit, or too many are before
    /// it.
    pub expected: Option<Timestamp>,
}

pub(crate) fn explain(cache: &mut Cache, state: &State, id: JobId, now: Timestamp) -> Explanation {
    let Some(job) = state.jobs.get(&id).filter(|j| j.is_pending()) else {
        return Explanation::default();
    };
    let memo = cache.planned(state, now);
    let outcome = &memo.outcome;
    let reasoner = Reasoner::new(cache, state, now, outcome);
    let keys = &reasoner.keys;
    let ahead = jobs_ahead(cache, keys, keys.of(first(state, job)));
    let reasons = all_reasons(&reasoner, state, job, ahead.len());
    let starts_now = reasoner.starts_now(id);
    let tally = match starts_now {
        true => Vec::new(),
        false => {
            let laid = reasoner.laid_before(job);
            let with_group = (!laid.is_empty()).then(|| reasoner.coming().with_group(laid));
            let coming = with_group.as_ref().unwrap_or_else(|| reasoner.coming());
            crate::tally::tally(&cache.world, state, job, outcome, coming, now)
        }
    };
    let unblocks = reasons.iter().map(|reason| unblock(state, job, reason, now)).collect();
    let is_free = job.eligible.is_some_and(|at| at <= now);
    let promise = outcome.plan.promises.iter().find(|p| p.job == id);
    let is_owed = promise.is_some() || crate::preempt::room_of(&outcome.plan, job).is_some();
    let foreseen = cache.foreseen(&memo).starts.get(&id);
    let expected = foreseen.map(|foreseen| foreseen.start);
    let nodes = foreseen.filter(|_| is_owed).map_or_else(Vec::new, |f| f.nodes.clone());
    let start = match reasons.iter().all(waits_for_others) && !starts_now {
        true => window(cache, state, job, now, expected),
        false => expected.map(|at| StartWindow { not_before: at, expected: Some(at) }),
    };
    let room_makers = match !starts_now && reasons.iter().all(waits_for_others) {
        true => room_makers(cache, state, job, now, outcome),
        false => None,
    };
    let suggestions = if starts_now {
        Vec::new()
    } else {
        suggestions(cache, state, job, now, &outcome.plan, &reasons)
    };
    Explanation {
        reasons,
        start,
        nodes,
        ahead: is_free.then_some(ahead.len() as u32),
        suggestions,
        tally,
        unblocks,
        room_makers,
    }
}

/// Who could make room for a job and all that start with it.
fn room_makers(
    cache: &Cache,
    state: &State,
    job: &Arc<Job>,
    now: Timestamp,
    outcome: &Outcome,
) -> Option<RoomMakers> {
    let group = group(state, first(state, job))?;
    let asks: Vec<_> = group.iter().map(|job| crate::queue::asks(state, job, now)).collect();
    let mut found = crate::preempt::room_makers(state, &cache.world, now, &asks, &group)?;
    found.in_vain = outcome.in_vain.contains(&group[0].id);
    Some(found)
}

/// All reasons for which one job waits, the binding one first; empty where it does not wait.
pub(crate) fn reasons(cache: &mut Cache, state: &State, id: JobId, now: Timestamp) -> Vec<Reason> {
    let Some(job) = state.jobs.get(&id).filter(|j| j.is_pending()) else { return Vec::new() };
    let memo = cache.planned(state, now);
    let order = Keys::of_queue(state, now, &cache.queue.terms);
    let key = order.of(first(state, job));
    let ahead = memo.outcome.count_ahead(&cache.queue, &order, key);
    all_reasons(&Reasoner::new(cache, state, now, &memo.outcome), state, job, ahead)
}

/// True for what ends when other jobs end.
const fn waits_for_others(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Resources { .. }
            | Reason::Priority { .. }
            | Reason::Licences { .. }
            | Reason::HetPeer { .. }
            | Reason::Reserved { .. }
            | Reason::ReservationWaits { .. }
            | Reason::ReservationTooShort { .. }
    )
}

/// The waiting jobs before this place in the queue, in order.
fn jobs_ahead(cache: &Cache, order: &Keys<'_>, key: OrderKey) -> Vec<JobId> {
    let shapes = cache.queue.shapes.iter().enumerate();
    let mut keys: Vec<OrderKey> = shapes
        .filter_map(|(at, shape)| Some((cache.queue.terms.of(at), shape.as_ref()?)))
        .flat_map(|(terms, shape)| {
            // Jobs of a shape keep their order, so the first that is behind ends it.
            let places = shape.waiting.iter().map(move |own| order.live(*own, terms));
            places.take_while(|own| *own < key)
        })
        .collect();
    keys.sort_unstable();
    keys.into_iter().map(|key| key.3).collect()
}

fn all_reasons(
    reasoner: &Reasoner<'_>,
    state: &State,
    job: &Arc<Job>,
    ahead: usize,
) -> Vec<Reason> {
    if reasoner.starts_now(job.id) {
        return vec![Reason::NotPlannedYet];
    }
    let mut reasons = gate_reasons(state, job, reasoner.now);
    reasons.extend(reasoner.blocked_alone(job));
    if !reasons.is_empty() {
        return reasons;
    }
    if let Some(reason) = reasoner.room_is_made(job.id) {
        return vec![reason];
    }
    if let Some(missing) = crate::together::missing(state, reasoner.now, job) {
        return vec![missing];
    }
    let limits = reasoner.limits_on(job);
    if !limits.is_empty() {
        return limits;
    }
    if let Some(peer) = reasoner.split_peer(job) {
        return vec![Reason::HetPeer { peer }];
    }
    let leader = first(state, job);
    if let Some(group) = group(state, leader).filter(|group| group.len() > 1) {
        let mut world = reasoner.next_world().clone();
        match reasoner.culprit(&mut world, &group) {
            Some(culprit) if culprit.job == job.id => return vec![culprit.own],
            Some(culprit) => return vec![culprit.peer(job)],
            None if job.het.is_some() && leader.id != job.id => {
                return vec![Reason::HetPeer { peer: leader.id }];
            }
            None => {}
        }
    }
    // What holds the first of a group holds them all.
    let job = leader;
    if let Some(reserved) = reasoner.reserved_alone(job) {
        return vec![reserved];
    }
    if let Some(lonely) = reasoner.near_nobody(job) {
        return vec![lonely];
    }
    let behind = reasoner.head_of(job).filter(|head| *head != job.id);
    let key = reasoner.keys.of(job);
    let waits = reasoner.wait_reason(job, key, ahead as u32, behind);
    let is_behind = matches!(waits, Reason::Priority { .. });
    reasons.push(waits);
    if is_behind && !reasoner.fits_beside_running(job) {
        reasons.push(reasoner.shortage(job));
    }
    reasons
}

/// The start, with the bound on it: as if nobody else waited.
fn window(
    cache: &mut Cache,
    state: &State,
    job: &Arc<Job>,
    now: Timestamp,
    expected: Option<Timestamp>,
) -> Option<StartWindow> {
    let group = group(state, first(state, job))?;
    let asks: Vec<_> = group.iter().map(|job| crate::queue::asks(state, job, now)).collect();
    let parts: Vec<Vec<&crate::ask::Ask>> = asks.iter().map(|asks| asks.iter().collect()).collect();
    let mut work = Work::default();
    let alone = timeline::earliest(&mut cache.world, &parts, now, &mut work).map(|(at, places)| {
        timeline::undo(&mut cache.world, &places);
        at
    });
    let known = |at: &Timestamp| *at != Timestamp::NEVER;
    let expected = expected.filter(known);
    let not_before = alone.filter(known).into_iter().chain(expected).min()?;
    Some(StartWindow { not_before, expected })
}
