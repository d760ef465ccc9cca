//! When every waiting job would start, if nobody else came and every job took its whole limit.
//!
//! The next round is carried out first: its starts, and the room that it or the state makes for
//! somebody, who starts when that is there. Then come those to whom the round promised a start, at
//! that start. Then the queue is laid out on the timeline in order, as under conservative backfill
//! without a bound: each job at the earliest instant that delays none before it. Those who make room
//! and go back to the queue have their turn there again; as no promise knows of them, all others have
//! theirs in order then. A job costs one walk over the stretches that its shape has not been refused
//! yet.
//!
//! Whoever tells when a waiting job starts tells what this says.

mod bounds;

use crate::ask::Ask;
use crate::cache::Cache;
use crate::order::{Keys, OrderKey};
use crate::outcome::Outcome;
use crate::preempt::{Place, expected};
use crate::promised::promise_of;
use crate::queue::group;
use crate::timeline;
use crate::world::World;
use bounds::{Bounds, Need};
use muster_model::{
    Decision, DeviceGrant, Eviction, Job, JobId, LimitHit, NodeId, Placement, Plan, PreemptMode,
    Promise, PromisedShare, Reason, State, TimeLimit, Timestamp, Work,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// So many turns of the queue are laid out for those who look at it; who comes after them has no
/// start to tell.
pub const FORESEEN_MAX: usize = 5_000;

/// How far an outlook is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Far {
    /// As far as the start of this job.
    pub(crate) only: Option<JobId>,
    /// So many turns at most.
    pub(crate) turns: usize,
}

impl Far {
    /// The whole queue.
    pub(crate) const ALL: Self = Self { only: None, turns: usize::MAX };
}

/// What the queue comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The start of each waiting job that has one, with its nodes, and the next start of each
    /// running job that makes room and goes back to the queue. Held jobs, those whose dependency is
    /// not met, those that can never start, and those under a limit that no end of a job sets free
    /// have none.
    pub starts: BTreeMap<JobId, Promise>,
    /// The running jobs that make room, as it was decided or as the next round decides.
    pub evicted: BTreeMap<JobId, Eviction>,
    /// The work it took.
    pub work: Work,
}

/// Whose turn it is in the queue.
enum Turn {
    /// A waiting job of this shape.
    Waits(usize),
    /// Jobs that made room, by their place in the list.
    Again(usize),
    /// A job that is free to start only then.
    Later(Timestamp),
}

/// Jobs that start together, from when on, and what they ask for.
struct Asking {
    jobs: Vec<JobId>,
    from: Timestamp,
    asks: Arc<Vec<Vec<Ask>>>,
}

struct Laying<'a> {
    state: &'a State,
    now: Timestamp,
    world: World,
    bounds: Bounds,
    settled: BTreeSet<JobId>,
    found: Outlook,
}

/// Lays the queue out, as far as it is asked for. The cache is left as it was.
pub(crate) fn outlook(
    cache: &Cache,
    state: &State,
    now: Timestamp,
    outcome: &Outcome,
    far: Far,
) -> Outlook {
    let mut laying = Laying {
        state,
        now,
        world: cache.world.clone(),
        bounds: Bounds::default(),
        settled: BTreeSet::new(),
        found: Outlook::default(),
    };
    laying.carry_out(outcome);
    let again = laying.who_comes_back();
    let keys = Keys::of_queue(state, now, &cache.queue.terms);
    let mut turns: Vec<(OrderKey, Turn)> = Vec::new();
    for (at, shape) in cache.queue.shapes.iter().enumerate() {
        let waiting = shape.iter().flat_map(|shape| &shape.waiting);
        let terms = cache.queue.terms.of(at);
        turns.extend(waiting.map(|key| (keys.live(*key, terms), Turn::Waits(at))));
    }
    for (at, (first, _)) in again.iter().enumerate() {
        turns.push((keys.of(first), Turn::Again(at)));
    }
    let promises: &[Promise] =
        if comes_back(state, &outcome.plan) { &[] } else { &outcome.plan.promises };
    let promised: BTreeMap<JobId, usize> =
        promises.iter().enumerate().map(|(at, promise)| (promise.job, at)).collect();
    let rank = |key: &OrderKey| promised.get(&key.3).copied().unwrap_or(usize::MAX);
    turns.sort_unstable_by_key(|(key, _)| (rank(key), *key));
    // Nobody who waits now is held back for those who are not free to start yet.
    let later = cache.queue.later.iter().filter_map(|(at, id)| Some((*at, state.jobs.get(id)?)));
    turns.extend(later.map(|(at, job)| (keys.of(job), Turn::Later(at))));
    let held = cache.queue.by_number(&outcome.held);
    let mut shapes: Vec<Option<Shape>> = Vec::new();
    shapes.resize_with(cache.queue.shapes.len(), || None);
    for (key, turn) in turns {
        let told = far.only.is_some_and(|job| laying.found.starts.contains_key(&job));
        if told || laying.found.work.jobs >= far.turns as u64 {
            break;
        }
        if laying.settled.contains(&key.3) {
            continue;
        }
        laying.found.work.jobs += 1;
        match turn {
            Turn::Again(at) => laying.lay_alone(outcome, &again[at].0, &again[at].1),
            Turn::Later(from) => {
                let Some(job) = state.jobs.get(&key.3) else { continue };
                if let Some(asking) = laying.later(job, from) {
                    laying.lay_alone(outcome, job, &asking);
                }
            }
            Turn::Waits(at) => {
                let Some(job) = state.jobs.get(&key.3) else { continue };
                let Some(group) = group(state, job) else { continue };
                let shape = shapes[at].get_or_insert_with(|| {
                    let asks = cache.queue.shapes[at].as_ref().map(|s| Arc::clone(&s.asks));
                    let limit = held.get(&at).map(|reason| limit_of(reason));
                    let needs = match limit {
                        Some(None) => None,
                        limit => laying.bounds.needs(state, &outcome.plan, job, limit.flatten()),
                    };
                    Shape { not_before: Some(now), asks: asks.unwrap_or_default(), needs }
                });
                let (Some(from), Some(needs)) = (shape.not_before, &shape.needs) else { continue };
                let jobs: Vec<JobId> = group.iter().map(|job| job.id).collect();
                let bound = laying.bounds.earliest(needs, jobs.len() as u64, now);
                let from = bound.map(|at| at.max(from));
                let asks = Arc::clone(&shape.asks);
                shape.not_before = from.and_then(|from| {
                    let needs = needs.clone();
                    laying.lay(&Asking { jobs, from, asks }, &needs)
                });
            }
        }
    }
    laying.found
}

/// True where somebody makes room and goes back to the queue: promises know of nobody who does.
pub(crate) fn comes_back(state: &State, plan: &Plan) -> bool {
    let goes_back = |mode| matches!(mode, PreemptMode::Requeue | PreemptMode::Checkpoint);
    let evicted = state.index.evicted.iter().filter_map(|id| state.jobs.get(id));
    let told = evicted.filter_map(|job| job.eviction.as_ref()).any(|one| goes_back(one.mode));
    let victims = plan.decisions.iter().flat_map(|decision| match decision {
        Decision::Preempt(preempt) => preempt.victims.as_slice(),
        _ => &[],
    });
    told || victims.into_iter().any(|victim| goes_back(victim.mode))
}

/// What is known of the waiting jobs of one shape.
struct Shape {
    /// The earliest start that they may still have; `None` where they have none.
    not_before: Option<Timestamp>,
    asks: Arc<Vec<Vec<Ask>>>,
    /// What they need under which bounds; `None` where one holds them for good.
    needs: Option<Vec<Need>>,
}

/// The limit that a reason is about.
const fn limit_of(reason: &Reason) -> Option<&LimitHit> {
    match reason {
        Reason::AssociationLimit(hit) | Reason::QosLimit(hit) => Some(hit),
        _ => None,
    }
}

impl Laying<'_> {
    /// Puts on the world what the round decides and what the state makes room for.
    fn carry_out(&mut self, outcome: &Outcome) {
        let (state, now) = (self.state, self.now);
        let decisions = &outcome.plan.decisions;
        for start in decisions.iter().flat_map(Decision::starts) {
            self.settled.insert(start.job);
            let Some(job) = state.jobs.get(&start.job) else { continue };
            if let Some(turn) = start.turn {
                // What it shares is held by those who have it already.
                let mut placement = Placement::clone(&start.placement);
                for share in &mut placement.nodes {
                    share.cpus = muster_model::CpuSet::new();
                    share.devices.clear();
                }
                self.world.occupy(job, &placement, turn.until, false);
                continue;
            }
            self.world.occupy(job, &start.placement, now.plus_limit(start.time_limit), false);
            self.found.starts.insert(job.id, promise_in(job.id, &start.placement, now));
        }
        for claim in expected::of_state(state) {
            if claim.places.iter().all(|place| !self.settled.contains(&place.job.id)) {
                self.make_room(&claim);
            }
        }
        for decision in decisions {
            match decision {
                Decision::Reject { job, .. } => {
                    self.settled.insert(*job);
                }
                Decision::Preempt(preempt) => {
                    self.make_room(&expected::of_decision(state, preempt));
                    self.evict(preempt);
                }
                // It comes back where it is held for it.
                Decision::Grow(victim) => {
                    if let (Some(job), Some(placement)) =
                        (state.jobs.get(&victim.job), &victim.keeps)
                    {
                        let limit = job.spec.time_limit.unwrap_or(job.time_limit);
                        self.world.release(job.id, placement);
                        self.world.occupy(job, placement, victim.until.plus_limit(limit), false);
                    }
                }
                Decision::Start(_)
                | Decision::Resume { .. }
                | Decision::Evict { .. }
                | Decision::Turns(_) => {}
            }
        }
        let evicted = state.index.evicted.iter().filter_map(|id| state.jobs.get(id));
        for job in evicted {
            if let Some(eviction) = &job.eviction {
                self.found.evicted.insert(job.id, Eviction::clone(eviction));
            }
        }
    }

    /// Holds the room that is made, and lets those start in it for whom it is.
    fn make_room(&mut self, claim: &expected::Expected) {
        let start = claim.lay(&mut self.world, self.state, self.now);
        for Place { job, placement, .. } in &claim.places {
            self.settled.insert(job.id);
            self.found.starts.insert(job.id, promise_in(job.id, placement, start));
        }
    }

    /// Notes who goes for a decision of the round.
    fn evict(&mut self, preempt: &muster_model::Preempt) {
        for event in preempt.events(self.now) {
            if let muster_model::EventKind::JobPreempted { victim, by } = event {
                self.found.evicted.insert(victim.job, victim.eviction(by, self.now));
            }
        }
    }

    /// Those who make room and go back to the queue then, whole gangs, each with its first job.
    fn who_comes_back(&self) -> Vec<(Arc<Job>, Asking)> {
        let (state, mut seen) = (self.state, BTreeSet::new());
        let mut found = Vec::new();
        for (id, eviction) in &self.found.evicted {
            let Some(job) = state.jobs.get(id) else { continue };
            let goes_back = matches!(eviction.mode, PreemptMode::Requeue | PreemptMode::Checkpoint)
                && eviction.by != job.id;
            let cancelled = job
                .stop
                .as_ref()
                .is_some_and(|stop| !matches!(stop.cause, muster_model::StopCause::Preempted(_)));
            if !goes_back || cancelled || seen.contains(id) {
                continue;
            }
            let jobs = crate::together::running_with(state, job);
            seen.extend(jobs.iter().copied());
            let ends = jobs.iter().filter_map(|id| self.found.evicted.get(id)).map(|e| e.until);
            let from = crate::free::effective_end(ends.max().unwrap_or(eviction.until), self.now);
            let waits = |id: &JobId| state.jobs.get(id).map(|job| waiting_again(job));
            let Some(waiting) = jobs.iter().map(waits).collect::<Option<Vec<Job>>>() else {
                continue;
            };
            let asks = waiting.iter().map(|job| crate::queue::asks(state, job, self.now)).collect();
            let Some(first) = waiting.into_iter().next() else { continue };
            found.push((Arc::new(first), Asking { jobs, from, asks: Arc::new(asks) }));
        }
        found
    }

    /// What a job asks for that is free to start only later.
    fn later(&self, job: &Arc<Job>, from: Timestamp) -> Option<Asking> {
        let group = group(self.state, job)?;
        let asks = group.iter().map(|job| crate::queue::asks(self.state, job, self.now)).collect();
        let jobs = group.iter().map(|job| job.id).collect();
        Some(Asking { jobs, from, asks: Arc::new(asks) })
    }

    /// As [`Self::lay`], for jobs that do not stand in a shape: under the throttle of their array.
    fn lay_alone(&mut self, outcome: &Outcome, job: &Job, asking: &Asking) {
        let (state, now) = (self.state, self.now);
        let Some(needs) = self.bounds.needs(state, &outcome.plan, job, None) else { return };
        let count = asking.jobs.len() as u64;
        let Some(bound) = self.bounds.earliest(&needs, count, now) else { return };
        let (jobs, asks) = (asking.jobs.clone(), Arc::clone(&asking.asks));
        self.lay(&Asking { jobs, from: asking.from.max(bound), asks }, &needs);
    }

    /// Puts jobs on the world at their earliest start; `None` where they have none.
    fn lay(&mut self, asking: &Asking, needs: &[Need]) -> Option<Timestamp> {
        let parts: Vec<Vec<_>> = asking.asks.iter().map(|part| part.iter().collect()).collect();
        if parts.is_empty() || parts.iter().any(Vec::is_empty) {
            return None;
        }
        let work = &mut self.found.work;
        let (start, places) = timeline::earliest(&mut self.world, &parts, asking.from, work)?;
        let mut ends = Vec::with_capacity(places.len());
        for (job, (ask, picks)) in asking.jobs.iter().zip(&places) {
            let promise = promise_of(&self.world, start, *job, ask, picks);
            if start != Timestamp::NEVER {
                self.found.starts.insert(*job, promise);
            }
            ends.push((*job, start.plus_limit(ask.limit)));
        }
        self.bounds.count(needs, &ends);
        Some(start)
    }
}

/// A running job as it will be once it waits again.
fn waiting_again(job: &Job) -> Job {
    let time_limit: TimeLimit = job.spec.time_limit.unwrap_or(job.time_limit);
    Job { time_limit, ..Job::clone(job) }
}

/// A start that is placed already, as a promise.
pub(crate) fn promise_in(job: JobId, placement: &Placement, start: Timestamp) -> Promise {
    let nodes: Vec<NodeId> = placement.nodes.iter().map(|share| share.node).collect();
    // GPUs are counted where all are whole ones, as in other promises.
    let whole = placement.nodes.iter().flat_map(|share| &share.devices).all(DeviceGrant::is_whole);
    let shares = placement.nodes.iter().map(|share| PromisedShare {
        tasks: share.tasks,
        cpus: share.cpu_count(),
        memory: share.memory,
        gpus: if whole { share.devices.len() as u32 } else { 0 },
    });
    let shares = shares.collect();
    Promise { job, start, nodes, shares, partition: placement.partition.clone() }
}
