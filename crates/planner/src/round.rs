//! One planning round: rejections, then starts in order, promises, and starts that harm none.
//!
//! # How a round goes
//! Waiting jobs are walked in order, the first of every shape at a time. One that fits starts. One
//! that does not answers for all of its shape until the round ends. The first such job of each
//! partition gets a promise: the earliest instant at which it fits if every running job takes its
//! whole limit, with the nodes it would have. Later jobs start only where they leave every promise
//! whole: they end before it, or use what it leaves (EASY: Lifka, JSSPP 1995; cases S-30 to S-35).
//!
//! When something was started behind a promise, the walk is done again: the promise may now be
//! better placed and leave room for more. So a plan that was carried out leaves nothing to plan.

use crate::ask::Ask;
use crate::cache::Cache;
use crate::free::Span;
use crate::gang::{Cursor, Picks, place_with_cursor};
use crate::order::{OrderKey, order_key};
use crate::queue::group;
use crate::timeline;
use muster_model::{
    BackfillMode, Decision, Job, JobId, NodeChoice, Placement, Plan, Promise, Reason, Seconds,
    Start, State, TimeLimit, Timestamp, Work,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// How much work a round may do, in counted steps ([`Work::total`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// At most so many steps; the step under way when they are used up is finished.
    pub steps: u64,
    /// Where the last round ended for want of steps ([`Plan::resume_after`]): jobs up to this one
    /// are walked only as far as promises need it.
    pub resume_after: Option<JobId>,
}

impl Budget {
    /// No bound.
    pub const UNLIMITED: Self = Self { steps: u64::MAX, resume_after: None };

    /// So many steps, from the start of the queue.
    pub const fn steps(steps: u64) -> Self {
        Self { steps, resume_after: None }
    }
}

/// A start that the round decided, with what undoes it.
#[derive(Clone, Debug)]
struct Started {
    job: Arc<Job>,
    placement: Arc<Placement>,
    end: Timestamp,
    limit: TimeLimit,
}

/// What a round found, beside its plan: for reasons.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    /// For each partition the job that has its promise.
    pub(crate) promised: BTreeMap<String, JobId>,
    /// The first job that was not looked at because the budget ended.
    pub(crate) stopped_at: Option<OrderKey>,
}

/// A round under way.
struct Round<'a> {
    cache: &'a mut Cache,
    state: &'a State,
    now: Timestamp,
    budget: Budget,
    work: Work,
    order: Vec<usize>,
    started: Vec<Vec<Started>>,
    /// Jobs that are dealt with: started or rejected in this round.
    settled: BTreeSet<JobId>,
    /// Tasks that this round starts, by array.
    tasks_started: BTreeMap<JobId, u32>,
}

/// What one walk through the queue found.
#[derive(Default)]
struct Walk {
    promises: Vec<Promised>,
    /// Partitions whose first blocked job has its promise.
    promised: BTreeMap<String, JobId>,
    /// By shape, component and partition.
    cursors: BTreeMap<(usize, usize, usize), Cursor>,
    /// Something started behind a promise.
    behind_promise: bool,
    /// Something was not started though another order of trying might have done it.
    unsure: bool,
    last_looked_at: Option<JobId>,
    stopped_at: Option<OrderKey>,
}

/// Plans one round on the cache, which is left as it was.
pub(crate) fn plan(cache: &mut Cache, state: &State, now: Timestamp, budget: Budget) -> Outcome {
    cache.follow(state, now);
    let rejects = crate::reject::rejections(cache, state, now);
    let mut round = Round {
        cache,
        state,
        now,
        budget,
        work: Work::default(),
        order: Vec::new(),
        started: Vec::new(),
        settled: rejects.keys().copied().collect(),
        tasks_started: BTreeMap::new(),
    };
    let walk = loop {
        let before = round.started.len();
        round.order = round.cache.world.order_now(state.policy.nodes);
        let walk = round.walk();
        let again = (walk.behind_promise || walk.unsure) && round.started.len() > before;
        if !again || walk.stopped_at.is_some() {
            break walk;
        }
        round.forget_promises(&walk.promises);
    };
    round.finish(rejects, walk)
}

impl Round<'_> {
    /// Goes once through the queue, the first waiting job of every shape at a time.
    fn walk(&mut self) -> Walk {
        let mut walk = Walk::default();
        let mut heads: BTreeSet<(OrderKey, usize)> = BTreeSet::new();
        for (at, shape) in self.cache.queue.shapes.iter().enumerate() {
            let first = shape.as_ref().and_then(|s| s.waiting.first());
            heads.extend(first.map(|key| (*key, at)));
        }
        let resume = self.budget.resume_after.and_then(|id| self.state.jobs.get(&id));
        let resume = resume.map(|job| order_key(self.state, job));
        while let Some((key, at)) = heads.pop_first() {
            let known = resume.filter(|resume| key <= *resume);
            if self.work.total() >= self.budget.steps && walk.last_looked_at.is_some() {
                walk.stopped_at = Some(key);
                break;
            }
            let answer = match known {
                Some(_) if self.is_promised(&walk, at) => Answer::No,
                _ => self.consider(&mut walk, at, key.3),
            };
            if known.is_none() {
                walk.last_looked_at = Some(key.3);
            }
            let after = match (answer, known) {
                (Answer::Settled, _) => key,
                // The rest of the shape was not looked at in the rounds before.
                (Answer::No, Some(resume)) => resume,
                (Answer::No, None) => continue,
            };
            heads.extend(self.next_of(at, after).map(|next| (next, at)));
        }
        walk
    }

    /// The next waiting job of a shape.
    fn next_of(&self, at: usize, after: OrderKey) -> Option<OrderKey> {
        let shape = self.cache.queue.shapes.get(at)?.as_ref()?;
        shape.waiting.range((Bound::Excluded(after), Bound::Unbounded)).next().copied()
    }

    /// True where no partition of the shape is without a promise.
    fn is_promised(&self, walk: &Walk, at: usize) -> bool {
        self.asks(at).iter().flatten().all(|ask| walk.promised.contains_key(&ask.partition.name))
    }

    fn asks(&self, at: usize) -> Arc<Vec<Vec<Ask>>> {
        self.cache.queue.shapes[at].as_ref().map(|s| Arc::clone(&s.asks)).unwrap_or_default()
    }

    /// Starts a job, promises it a start, or neither.
    fn consider(&mut self, walk: &mut Walk, at: usize, id: JobId) -> Answer {
        self.work.jobs += 1;
        if self.settled.contains(&id) {
            return Answer::Settled;
        }
        let asks = self.asks(at);
        if self.array_is_full(at) || asks.iter().any(Vec::is_empty) {
            return Answer::No;
        }
        let strict = self.state.policy.backfill == BackfillMode::None;
        let barred = |ask: &Ask| strict && walk.promised.contains_key(&ask.partition.name);
        if asks.iter().any(|part| part.iter().all(barred)) {
            return Answer::No;
        }
        let Some(job) = self.state.jobs.get(&id) else { return Answer::No };
        let Some(group) = group(self.state, job) else { return Answer::No };
        if self.start(walk, at, &asks, &group) {
            walk.behind_promise |= !walk.promises.is_empty();
            return Answer::Settled;
        }
        self.promise(walk, &asks, &group);
        Answer::No
    }

    /// True where the throttle of the shape's array lets no further task start.
    fn array_is_full(&self, at: usize) -> bool {
        let Some(array) = self.cache.queue.shapes[at].as_ref().and_then(|s| s.array) else {
            return false;
        };
        let Some(record) = self.state.index.arrays.get(&array) else { return false };
        let started = self.tasks_started.get(&array).copied().unwrap_or(0);
        record.throttle.is_some_and(|most| record.active.saturating_add(started) >= most)
    }

    /// Starts all jobs of a group or none.
    fn start(
        &mut self,
        walk: &mut Walk,
        at: usize,
        asks: &[Vec<Ask>],
        group: &[&Arc<Job>],
    ) -> bool {
        let forwards: Vec<usize> = (0..group.len()).collect();
        let backwards: Vec<usize> = forwards.iter().rev().copied().collect();
        let mut found = self.occupy_all(walk, at, asks, group, &forwards);
        if found.is_none() && group.len() > 1 {
            // Which component comes first can decide; these two orders are tried, not all.
            found = self.occupy_all(walk, at, asks, group, &backwards);
            walk.unsure |= found.is_none();
        }
        let Some(starts) = found else { return false };
        for started in &starts {
            self.settled.insert(started.job.id);
            if let Some(task) = started.job.array {
                *self.tasks_started.entry(task.array).or_default() += 1;
            }
        }
        self.started.push(starts);
        true
    }

    /// Finds places for all components, one after the other in this order, and puts them on the
    /// world; nothing is left there where one finds none.
    fn occupy_all(
        &mut self,
        walk: &mut Walk,
        at: usize,
        asks: &[Vec<Ask>],
        group: &[&Arc<Job>],
        order: &[usize],
    ) -> Option<Vec<Started>> {
        let mut starts: Vec<(usize, Started)> = Vec::with_capacity(group.len());
        for part in order.iter().copied() {
            let job = group[part];
            let mut ways = asks[part].iter().enumerate();
            let found = ways.find_map(|(nth, ask)| self.place_now(walk, (at, part, nth), ask));
            let Some((placement, limit)) = found else {
                for (_, started) in starts.drain(..).rev() {
                    self.cache.world.release(started.job.id, &started.placement, started.end);
                }
                if group.len() > 1 {
                    // What was tried for the first components is free again.
                    walk.cursors.retain(|(shape, ..), _| *shape != at);
                }
                return None;
            };
            let end = self.now.plus_limit(limit);
            let behind = !walk.promises.is_empty();
            self.cache.world.occupy(job, &placement, end, behind);
            let placement = Arc::new(placement);
            starts.push((part, Started { job: Arc::clone(job), placement, end, limit }));
        }
        starts.sort_by_key(|(part, _)| *part);
        Some(starts.into_iter().map(|(_, started)| started).collect())
    }

    /// Where a component fits now, and the limit it gets: its own, or less where that is allowed
    /// and lets it end before a promise begins (case S-35).
    fn place_now(
        &mut self,
        walk: &mut Walk,
        cursor: (usize, usize, usize),
        ask: &Ask,
    ) -> Option<(Placement, TimeLimit)> {
        if self.state.policy.backfill == BackfillMode::None
            && walk.promised.contains_key(&ask.partition.name)
        {
            return None;
        }
        let limit = limit_by_deadline(ask, self.now)?;
        let span = Span::of(self.now, self.now, limit);
        let mut anew = Cursor::default();
        let cursor = match self.state.policy.nodes {
            NodeChoice::Pack => walk.cursors.entry(cursor).or_default(),
            NodeChoice::Spread => {
                self.order = self.cache.world.order_now(NodeChoice::Spread);
                &mut anew
            }
        };
        let found =
            place_with_cursor(&self.cache.world, ask, span, &self.order, cursor, &mut self.work);
        if let Some(picks) = found {
            return Some((self.cache.world.materialise(ask, &picks, span)?, limit));
        }
        for limit in shorter_limits(ask, limit, &walk.promises, self.now) {
            let span = Span::of(self.now, self.now, limit);
            let found = place_with_cursor(
                &self.cache.world,
                ask,
                span,
                &self.order,
                &mut Cursor::default(),
                &mut self.work,
            );
            if let Some(picks) = found {
                return Some((self.cache.world.materialise(ask, &picks, span)?, limit));
            }
        }
        None
    }

    /// Promises the group a start, where a partition it may use has no promise yet.
    fn promise(&mut self, walk: &mut Walk, asks: &[Vec<Ask>], group: &[&Arc<Job>]) {
        let open = |ask: &&Ask| !walk.promised.contains_key(&ask.partition.name);
        let parts: Vec<Vec<&Ask>> = match asks {
            [one] => vec![one.iter().filter(open).collect()],
            several if several.iter().flatten().any(|ask| open(&ask)) => {
                several.iter().map(|part| part.iter().collect()).collect()
            }
            _ => return,
        };
        if parts.iter().any(Vec::is_empty) {
            return;
        }
        let alone = walk.promises.is_empty();
        let found = timeline::earliest(
            &mut self.cache.world,
            &parts,
            self.now,
            &self.order,
            alone,
            &mut self.work,
        );
        let Some((start, places)) = found else { return };
        let leader = group[0].id;
        for ask in parts.iter().flatten() {
            walk.promised.entry(ask.partition.name.clone()).or_insert(leader);
        }
        let jobs = group.iter().map(|job| job.id).zip(places).collect();
        walk.promises.push(Promised { jobs, start });
    }

    fn forget_promises(&mut self, promises: &[Promised]) {
        for promised in promises.iter().rev() {
            for (_, (ask, picks)) in promised.jobs.iter().rev() {
                self.cache.world.unreserve(ask, picks);
            }
        }
    }

    /// The plan, with the cache put back to what the state says.
    fn finish(mut self, rejects: BTreeMap<JobId, Reason>, walk: Walk) -> Outcome {
        self.forget_promises(&walk.promises);
        let world = &self.cache.world;
        let promises = walk
            .promises
            .iter()
            .flat_map(|p| p.jobs.iter().map(move |(job, (_, picks))| (p.start, *job, picks)))
            .map(|(start, job, picks)| Promise {
                job,
                start,
                nodes: picks.iter().map(|p| world.view(p.node).node.id).collect(),
            })
            .collect();
        let mut decisions: Vec<Decision> =
            rejects.into_iter().map(|(job, reason)| Decision::Reject { job, reason }).collect();
        for group in self.started.iter().rev() {
            for started in group.iter().rev() {
                self.cache.world.release(started.job.id, &started.placement, started.end);
            }
        }
        decisions.extend(self.started.into_iter().map(|group| {
            Decision::Start(
                group
                    .into_iter()
                    .map(|s| Start {
                        job: s.job.id,
                        attempt: s.job.attempt.saturating_add(1),
                        placement: s.placement,
                        time_limit: s.limit,
                    })
                    .collect(),
            )
        }));
        let plan = Plan {
            now: self.now,
            seq: self.state.seq,
            decisions,
            promises,
            work: self.work,
            steps_max: self.budget.steps,
            resumed_after: self.budget.resume_after,
            complete: walk.stopped_at.is_none() && self.budget.resume_after.is_none(),
            resume_after: walk.stopped_at.and(walk.last_looked_at),
        };
        Outcome { plan, promised: walk.promised, stopped_at: walk.stopped_at }
    }
}

/// What a job's turn came to.
enum Answer {
    /// It starts, or ends: the next of its shape has its turn.
    Settled,
    /// It cannot start, and so none of its shape can.
    No,
}

/// A promise on the nodes.
struct Promised {
    jobs: Vec<(JobId, (Ask, Picks))>,
    start: Timestamp,
}

/// The limit of a job that starts now, cut to its deadline; `None` where that leaves too little.
///
/// A job without a limit but with a deadline gets the deadline as its end.
fn limit_by_deadline(ask: &Ask, now: Timestamp) -> Option<TimeLimit> {
    let Some(deadline) = ask.deadline else { return Some(ask.limit) };
    let left = deadline.since(now);
    match ask.limit {
        TimeLimit::Of(limit) if limit <= left => Some(ask.limit),
        TimeLimit::Of(limit) => {
            let least = ask.time_min.map_or(limit, Seconds);
            (least <= left).then_some(TimeLimit::Of(left))
        }
        TimeLimit::Unlimited => {
            let least = ask.time_min.map_or(Seconds(1), Seconds);
            (least <= left).then_some(TimeLimit::Of(left))
        }
    }
}

/// The limits below the asked one that end where a promise begins, the longest first.
fn shorter_limits(
    ask: &Ask,
    limit: TimeLimit,
    promises: &[Promised],
    now: Timestamp,
) -> Vec<TimeLimit> {
    let Some(least) = ask.time_min else { return Vec::new() };
    let gaps: BTreeSet<Seconds> = promises
        .iter()
        .filter(|p| p.start != Timestamp::NEVER)
        .map(|p| p.start.since(now))
        .filter(|gap| gap.0 >= least.max(1) && limit.seconds().is_none_or(|l| *gap < l))
        .collect();
    gaps.into_iter().rev().map(TimeLimit::Of).collect()
}
