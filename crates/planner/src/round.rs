//! One planning round: rejections, then starts in order, promises, and starts that harm none.
//!
//! # How a round goes
//! Waiting jobs are walked in order. One that fits starts. One that does not answers for all of its
//! shape: none of them starts in this walk. It gets a promise where the policy has one for it: the
//! earliest instant at which it fits if every running job takes its whole limit and every promise
//! before it is kept, with the nodes it would have. Later jobs start only where they leave every
//! promise whole: they end before it, or use what it leaves (cases S-30 to S-35).
//!
//! Under `easy` the first blocked job of each partition has a promise (Lifka, JSSPP 1995), under
//! `conservative` all of them down to a depth (Mu'alem and Feitelson, IEEE TPDS 2001), under
//! `mixed` those within the bounds of the policy: module `depth`.
//!
//! When something was started behind a promise, the walk is done again: the promise may now be
//! better placed and leave room for more. So a plan that was carried out leaves nothing to plan.
//!
//! # Where a budget ends
//! The walk stops, and the next round takes it up again there: it puts the starts of the rounds
//! before back in their places of the queue, so that promises come out as they did. A walk in
//! pieces starts what a whole one starts (module `replay`). After one that made room for somebody
//! the next round begins anew: its victims go meanwhile.

use crate::ask::Ask;
use crate::behind::Deferred;
use crate::budget::Budget;
use crate::cache::Cache;
use crate::depth::Depth;
use crate::gang::Cursor;
use crate::gate;
use crate::levels::Saved;
use crate::limits::Limits;
use crate::order::{Keys, OrderKey};
use crate::outcome::{First, Outcome};
use crate::preempt::Preempting;
use crate::promised::{Promised, promise_of, take_off};
use crate::queue::group;
use crate::replay::Replay;
use crate::timeline;
use crate::turns::Joined;
use crate::world::World;
use muster_model::{
    BackfillMode, Decision, Job, JobId, Placement, Plan, Reason, Resume, Start, State, TimeLimit,
    Timestamp, Work,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A start that the round decided, with what undoes it.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    pub(crate) job: Arc<Job>,
    pub(crate) placement: Arc<Placement>,
    pub(crate) end: Timestamp,
    pub(crate) limit: TimeLimit,
    /// It was started behind a promise.
    pub(crate) behind: bool,
}

/// A round under way.
pub(crate) struct Round<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) state: &'a State,
    pub(crate) now: Timestamp,
    pub(crate) budget: Budget,
    pub(crate) work: Work,
    /// The nodes in the order in which starts take them, and each node's place in it.
    pub(crate) order: Arc<Vec<usize>>,
    /// That order as it was when the round began.
    first_order: Arc<Vec<usize>>,
    /// The first waiting job of every shape, in order.
    firsts: Arc<Vec<First>>,
    pub(crate) rank: Vec<u32>,
    pub(crate) started: Vec<Vec<Started>>,
    /// Jobs that are dealt with: started or rejected in this round.
    pub(crate) settled: BTreeSet<JobId>,
    /// Tasks that this round starts, by array.
    pub(crate) tasks_started: BTreeMap<JobId, u32>,
    pub(crate) keys: Keys<'a>,
    pub(crate) limits: Limits<'a>,
    /// What the rounds before started on this walk and is not put back yet; empty but in a round
    /// that goes on.
    pub(crate) replay: Replay,
    /// Room that is made for waiting jobs.
    pub(crate) preempting: Preempting<'a>,
    /// Shapes that a limit held in an earlier walk of this round for the nodes that were found for
    /// them. What started behind them is not in the way of a promise that they did not have, so
    /// their turn comes in the next round.
    passed: BTreeMap<usize, Reason>,
    /// Turns on CPUs and GPUs that several jobs have.
    pub(crate) joined: Joined,
}

/// What one walk through the queue found.
pub(crate) struct Walk {
    pub(crate) promises: Vec<Promised>,
    pub(crate) depth: Depth,
    /// By shape, component and partition.
    pub(crate) cursors: BTreeMap<(usize, usize, usize), Cursor>,
    /// By level: how many nodes at the start of the order have not the least of it.
    pub(crate) shut: BTreeMap<usize, usize>,
    /// By level: who is open there now, as of some stamp.
    pub(crate) open: BTreeMap<usize, gate::Open>,
    /// By what a shape asks for ([`Shape::fit`](crate::queue::Shape)): what is known of it.
    pub(crate) known: Vec<Known>,
    /// Shapes that cannot start in some partition for a limit.
    pub(crate) limited: BTreeSet<usize>,
    /// Shapes that limits hold, with the first that does.
    pub(crate) held: BTreeMap<usize, Reason>,
    /// Something started behind a promise.
    pub(crate) behind_promise: bool,
    /// Something was not started though another order of trying might have done it.
    pub(crate) unsure: bool,
    /// A job that came after the walk had passed its place would start.
    newcomers: bool,
    /// Shapes that a limit holds only for the nodes that were found for them: once others have
    /// those, they may find some that they may have.
    pub(crate) held_by_choice: BTreeSet<usize>,
    /// Its promises are off the world.
    pub(crate) promises_are_off: bool,
    last_looked_at: Option<JobId>,
    pub(crate) stopped_at: Option<OrderKey>,
    /// Room for a list of nodes.
    pub(crate) nodes: Vec<usize>,
    /// Promises that the guard of waits gives are made when somebody would pass.
    pub(crate) owes: bool,
    /// Who has such a promise to come, with its shape; true where the others of the shape have one
    /// after it.
    pub(crate) owed: BTreeMap<(OrderKey, usize), bool>,
}

/// What a walk knows of a shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// None of it can start.
    pub(crate) fails: bool,
    /// None of it is promised anything any more.
    pub(crate) hopeless: bool,
    /// None of it can have a promise before this.
    not_before: Timestamp,
}

/// What a job's turn came to.
pub(crate) enum Answer {
    /// It starts, or ends: the next of its shape has its turn.
    Settled,
    /// It cannot start, and so none of its shape can; others of it may be promised a start.
    Waits,
    /// Nothing can be done for any of its shape.
    No,
}

/// Takes starts off the world, the last first.
fn let_go(world: &mut World, started: &[Vec<Started>]) {
    for one in started.iter().rev().flat_map(|group| group.iter().rev()) {
        world.release(one.job.id, &one.placement);
    }
}

/// Plans one round on the cache, which is left as it was.
pub(crate) fn plan(cache: &mut Cache, state: &State, now: Timestamp, budget: Budget) -> Outcome {
    let state = &*Resume::seen(budget.resume.as_ref(), state);
    cache.follow(state, now);
    let rejects = crate::reject::rejections(cache, state, now);
    let resumes = budget.resume.is_some();
    let keys = Keys::of_queue(state, now, &cache.queue.terms);
    let mut round = Round {
        cache,
        state,
        now,
        budget,
        work: Work::default(),
        order: Arc::default(),
        first_order: Arc::default(),
        firsts: Arc::default(),
        rank: Vec::new(),
        started: Vec::new(),
        settled: rejects.keys().copied().collect(),
        tasks_started: BTreeMap::new(),
        keys,
        limits: Limits::new(state, now),
        replay: Replay::default(),
        preempting: Preempting::default(),
        passed: BTreeMap::new(),
        joined: Joined::default(),
    };
    round.make_levels();
    let begin = round.cache.world.save();
    round.set_order();
    round.first_order = Arc::clone(&round.order);
    round.set_firsts();
    let mut first = Walk::blank(state, 0, now);
    let under_way = round.budget.resume.as_ref().map(|r| r.started.clone());
    round.preempting.spared.extend(under_way.unwrap_or_default());
    round.heed_taints();
    // A claimant's room is made only when those are gone that have it.
    round.take_up_claims(&mut first);
    round.take_back();
    let (mut walk, before) = loop {
        let before = round.started.len();
        round.set_order();
        let saved = round.cache.world.save();
        let walk = round.walk();
        let again = (walk.behind_promise || walk.unsure) && round.started.len() > before;
        if !again || resumes || walk.stopped_at.is_some() {
            break (walk, before);
        }
        round.forget_promises(&walk.promises, before, saved);
        let held = |at: &usize| Some((*at, walk.held.get(at)?.clone()));
        round.passed.extend(walk.held_by_choice.iter().filter_map(held));
    };
    round.take_turns(&mut walk);
    round.grow(&walk);
    round.finish(rejects, walk, before, begin)
}

impl Walk {
    /// A walk that has not begun, over so many shapes.
    pub(crate) fn blank(state: &State, shapes: usize, now: Timestamp) -> Self {
        let blank = Known { fails: false, hopeless: false, not_before: now };
        Self {
            promises: Vec::new(),
            depth: Depth::new(state, now),
            cursors: BTreeMap::new(),
            shut: BTreeMap::new(),
            open: BTreeMap::new(),
            known: vec![blank; shapes],
            limited: BTreeSet::new(),
            held: BTreeMap::new(),
            behind_promise: false,
            unsure: false,
            newcomers: false,
            held_by_choice: BTreeSet::new(),
            promises_are_off: false,
            last_looked_at: None,
            stopped_at: None,
            nodes: Vec::new(),
            owes: false,
            owed: BTreeMap::new(),
        }
    }

    /// True where it ended for want of steps.
    pub(crate) fn is_cut(&self) -> bool {
        self.stopped_at.is_some()
    }
}

impl Round<'_> {
    /// Makes the levels of all shapes before anything is put on the world. Levels stay, so only new
    /// shapes need a look.
    fn make_levels(&mut self) {
        let (queue, world) = (&mut self.cache.queue, &mut self.cache.world);
        for shape in queue.fresh() {
            for ask in shape.asks.iter().flatten() {
                world.level_of(ask);
            }
            shape.gate = gate::of(world, shape);
        }
    }

    /// Ends jobs for the taints of their nodes; what they have is nobody's yet.
    fn heed_taints(&mut self) {
        let evictions = crate::taints::evictions(self.state, self.now);
        let leaving = evictions.iter().filter_map(|decision| match decision {
            Decision::Evict { job, .. } => Some(*job),
            _ => None,
        });
        self.preempting.spared.extend(leaving);
        self.preempting.decisions.extend(evictions);
    }

    fn set_order(&mut self) {
        self.order = Arc::new(self.cache.world.order_now(self.state.policy.nodes));
        self.rank = vec![0; self.order.len()];
        for (rank, node) in self.order.iter().enumerate() {
            self.rank[*node] = rank as u32;
        }
    }

    fn set_firsts(&mut self) {
        let queue = &mut self.cache.queue;
        let mut firsts: Vec<First> = Vec::with_capacity(queue.shapes.len());
        let known = queue.sorted.len();
        let all = queue.sorted.iter().copied().chain(known as u32..queue.shapes.len() as u32);
        for at in all {
            let Some(Some(shape)) = queue.shapes.get(at as usize) else { continue };
            let Some(first) = shape.waiting.first() else { continue };
            let key = self.keys.live(*first, queue.terms.of(at as usize));
            firsts.push(First { key, at, waiting: shape.waiting.len() as u32 });
        }
        // Mostly in order already: this sort makes use of that.
        firsts.sort();
        queue.keep_sorted(&firsts);
        self.firsts = Arc::new(firsts);
    }

    /// Goes once through the queue, the first waiting job of every shape at a time.
    fn walk(&mut self) -> Walk {
        let shapes = self.cache.queue.fits_len();
        let mut walk = Walk::blank(self.state, shapes, self.now);
        // The first of every shape in order, and those that come after their first.
        let firsts = Arc::clone(&self.firsts);
        let mut firsts = firsts.iter().map(|first| (first.key, first.at as usize)).peekable();
        let mut others: BTreeSet<(OrderKey, usize)> = BTreeSet::new();
        let resume = self.budget.resume.as_ref().and_then(|r| self.state.jobs.get(&r.after));
        let resume = resume.map(|job| self.keys.of(job));
        // Where jobs are tried shortest first, those behind promises wait for their turn.
        let shortest = self.state.policy.backfills_shortest_first();
        let mut deferred: Vec<Deferred> = Vec::new();
        walk.owes = self.may_owe(&walk);
        loop {
            let comes_first = match (firsts.peek(), others.first()) {
                (Some(first), Some(other)) => first < other,
                (first, _) => first.is_some(),
            };
            let next = if comes_first { firsts.next() } else { others.pop_first() };
            let Some((key, at)) = next else { break };
            // What the rounds before looked at and left waiting cannot start now.
            let was_seen = resume.is_some_and(|resume| key <= resume);
            self.replay(was_seen.then_some(key), !walk.promises.is_empty());
            if self.work.total() >= self.budget.steps && walk.last_looked_at.is_some() {
                walk.stopped_at = Some(key);
                break;
            }
            if shortest && self.is_behind(&walk, at, key) {
                deferred.extend(self.deferred(at, key));
                continue;
            }
            let answer = self.consider(&mut walk, at, key, !was_seen);
            if !was_seen {
                walk.last_looked_at = Some(key.3);
            }
            match answer {
                Answer::Settled => {}
                Answer::Waits if walk.depth.goes_on() && !walk.known[self.fit(at)].hopeless => {}
                Answer::Waits | Answer::No => continue,
            }
            others.extend(self.next_of(at, key).map(|next| (next, at)));
        }
        self.replay(None, !walk.promises.is_empty());
        self.backfill(&mut walk, deferred);
        walk
    }

    pub(crate) fn fit(&self, at: usize) -> usize {
        self.cache.queue.shapes[at].as_ref().map_or(at, |shape| shape.fit)
    }

    pub(crate) fn asks(&self, at: usize) -> Arc<Vec<Vec<Ask>>> {
        self.cache.queue.shapes[at].as_ref().map(|s| Arc::clone(&s.asks)).unwrap_or_default()
    }

    /// Starts a job, promises it a start, or neither. `may_start`: no round before left it waiting.
    pub(crate) fn consider(
        &mut self,
        walk: &mut Walk,
        at: usize,
        key: OrderKey,
        may_start: bool,
    ) -> Answer {
        let id = key.3;
        self.work.jobs += 1;
        if self.settled.contains(&id) {
            return Answer::Settled;
        }
        if may_start && self.is_shut_out(walk, at) {
            self.owe(walk, at, key, true);
            return Answer::No;
        }
        let asks = self.asks(at);
        if self.array_is_full(at) || asks.iter().any(Vec::is_empty) {
            return Answer::No;
        }
        let strict = self.state.policy.backfill == BackfillMode::None;
        let barred = |ask: &Ask| strict && walk.depth.is_promised(ask.lane());
        if asks.iter().any(|part| part.iter().all(barred)) {
            return Answer::No;
        }
        if let Some(reason) = self.passed.get(&at) {
            walk.held.insert(at, reason.clone());
            return Answer::No;
        }
        let Some(job) = self.state.jobs.get(&id) else { return Answer::No };
        let Some(group) = group(self.state, job) else { return Answer::No };
        // Who is held by a limit holds nobody: nothing is promised (case S-45).
        if let Some(reason) = self.limit_on(&asks, &group) {
            walk.held.insert(at, reason);
            return Answer::No;
        }
        let fit = self.fit(at);
        let failed = walk.known[fit].fails || walk.limited.contains(&at);
        // A limit that only the placement shows is found by placing it again.
        let may_try = may_start || !self.limits.is_idle();
        let counted = self.limits.counted(!may_start);
        if may_try && !failed && self.start_if_nobody_is_owed(walk, (at, key), &asks, &group) {
            if !may_start {
                // It came between two pieces of this walk: its turn is in the next one.
                self.unstart(walk, at);
                self.limits.restore(&counted);
                walk.newcomers = true;
                return Answer::No;
            }
            walk.behind_promise |= !walk.promises.is_empty();
            return Answer::Settled;
        }
        walk.unsure |= asks.iter().flatten().any(|ask| ask.is_restless());
        walk.known[fit].fails |= may_try && !walk.limited.contains(&at);
        if walk.held.contains_key(&at) {
            return Answer::No;
        }
        if may_try && !walk.limited.contains(&at) && self.make_room(&asks, &group) {
            return Answer::Settled;
        }
        if walk.owes {
            self.promise_or_owe(walk, (at, key), (&asks, &group), may_start);
            // The others of its shape cannot start either: they are owed after it.
            return if may_start { Answer::No } else { Answer::Waits };
        }
        if !walk.known[fit].hopeless && self.may_be_promised(&asks, &group) {
            self.promise(walk, fit, &asks, &group);
        }
        Answer::Waits
    }

    /// True where the throttle of the shape's array lets no further task start.
    pub(crate) fn array_is_full(&self, at: usize) -> bool {
        let Some(array) = self.cache.queue.shapes[at].as_ref().and_then(|s| s.array) else {
            return false;
        };
        self.is_at_throttle(array)
    }

    /// True where an array has as many tasks at work as its throttle allows.
    pub(crate) fn is_at_throttle(&self, array: JobId) -> bool {
        let Some(record) = self.state.index.arrays.get(&array) else { return false };
        let started = self.tasks_started.get(&array).copied().unwrap_or(0);
        let active = record.active.saturating_add(started).saturating_sub(self.replay.tasks(array));
        record.throttle.is_some_and(|most| active >= most)
    }

    /// Promises the group a start, where the policy has a promise for it.
    pub(crate) fn promise(
        &mut self,
        walk: &mut Walk,
        fit: usize,
        asks: &[Vec<Ask>],
        group: &[&Arc<Job>],
    ) {
        let Some(allowed) = walk.depth.allows(asks, group) else {
            // The next of the shape came later, so none of them may have one either.
            walk.known[fit].hopeless |= walk.depth.by_wait().is_some();
            return;
        };
        let world = &mut self.cache.world;
        let not_before = walk.known[fit].not_before;
        let found = timeline::earliest(world, &allowed.parts, not_before, &mut self.work);
        let Some((start, places)) = found else {
            walk.known[fit].hopeless = true;
            return;
        };
        if allowed.within.is_some_and(|within| start > self.now.plus(within)) {
            timeline::undo(world, &places);
            walk.known[fit].hopeless = true;
            return;
        }
        if allowed.parts.iter().map(Vec::len).eq(asks.iter().map(Vec::len)) {
            walk.known[fit].not_before = start;
        }
        let asked = allowed.parts.iter().flatten().copied();
        walk.depth.count(asked, places.iter().map(|(ask, _)| ask), group[0]);
        let jobs = group.iter().map(|job| job.id).zip(places).collect();
        walk.promises.push(Promised { jobs, start });
    }

    /// Takes the promises of a walk back, which began with `saved` and `before` groups started.
    fn forget_promises(&mut self, promises: &[Promised], before: usize, saved: Saved) {
        let world = &mut self.cache.world;
        let starts = &self.started[before..];
        if starts.len() > promises.len() / 4 || !self.preempting.decisions.is_empty() {
            take_off(world, promises);
            return;
        }
        // Few starts are put on again sooner than many promises are taken off.
        world.hush(&saved);
        take_off(world, promises);
        let_go(world, starts);
        world.restore(saved);
        for one in starts.iter().flatten() {
            world.occupy(&one.job, &one.placement, one.end, one.behind);
        }
    }

    /// The plan, with the cache put back to what the state says. `before` is how many groups had
    /// been started when the last walk began, `begin` what the round began with.
    fn finish(
        mut self,
        rejects: BTreeMap<JobId, Reason>,
        walk: Walk,
        before: usize,
        begin: Saved,
    ) -> Outcome {
        let (steps_max, resumed) = (self.budget.steps, self.budget.resume.take());
        let was_resumed = resumed.is_some();
        let mut walked = resumed.as_ref().map(|r| r.started.clone()).unwrap_or_default();
        self.cache.world.hush(&begin);
        if !walk.promises_are_off {
            take_off(&mut self.cache.world, &walk.promises);
        }
        let_go(&mut self.cache.world, &self.started);
        self.forget_claims();
        for job in walked.iter().filter_map(|id| self.state.jobs.get(id)) {
            if let Some(placement) = &job.placement {
                self.cache.world.release(job.id, placement);
                self.cache.world.hold_as(self.state, job);
            }
        }
        self.cache.world.restore(begin);
        let world = &self.cache.world;
        let joined = self.joined.jobs();
        let joins = |p: &&Promised| p.jobs.iter().any(|(job, _)| joined.contains(job));
        // Where turns took longer than was thought, what was promised there is promised anew.
        let late: Vec<_> = self.joined.put_off(self.state).collect();
        let holds = |p: &&Promised| {
            let picks = || p.jobs.iter().flat_map(|(_, (_, picks))| picks);
            let meets = |job: &Job| {
                let shares = job.placement.iter().flat_map(|placement| &placement.nodes);
                let mut slots = shares.filter_map(|share| world.slot_of(share.node));
                slots.any(|slot| picks().any(|pick| pick.node == slot))
            };
            !late.iter().any(|(job, until)| *until > p.start && meets(job))
        };
        let promises = walk
            .promises
            .iter()
            .filter(|p| !joins(p) && holds(p))
            .flat_map(|p| p.jobs.iter().map(move |(job, (ask, picks))| (p.start, *job, ask, picks)))
            .map(|(start, job, ask, picks)| promise_of(world, start, job, ask, picks))
            .collect();
        let mut decisions: Vec<Decision> =
            rejects.into_iter().map(|(job, reason)| Decision::Reject { job, reason }).collect();
        // Victims that go change what the walk saw so far: the next round begins anew.
        let made_room = !self.preempting.decisions.is_empty();
        decisions.append(&mut self.preempting.decisions);
        let in_vain = std::mem::take(&mut self.preempting.in_vain);
        walked.extend(self.started[before..].iter().flatten().map(|s| s.job.id));
        let any_started = !self.started.is_empty();
        decisions.extend(self.started.into_iter().map(|group| {
            Decision::Start(
                group
                    .into_iter()
                    .map(|s| Start {
                        job: s.job.id,
                        attempt: s.job.attempt.saturating_add(1),
                        placement: s.placement,
                        time_limit: s.limit,
                        turn: None,
                    })
                    .collect(),
            )
        }));
        let is_passed = !walk.held_by_choice.is_empty() || !self.passed.is_empty();
        let has_more = (is_passed && any_started) || self.joined.has_more;
        decisions.extend(self.joined.into_decisions());
        let resume = walk.stopped_at.filter(|_| !made_room).and(walk.last_looked_at);
        let plan = Plan {
            now: self.now,
            seq: self.state.seq,
            decisions,
            promises,
            work: self.work,
            steps_max,
            resumed,
            // What a walk in pieces started may have given its first pieces more room.
            complete: walk.stopped_at.is_none()
                && !walk.newcomers
                && !has_more
                && (!was_resumed || walked.is_empty()),
            resume: resume.map(|after| {
                let waits = Some(self.state.waits);
                Resume { after, started: walked, waits }
            }),
        };
        let held = match walk.held.is_empty() {
            true => BTreeMap::new(),
            false => self.cache.queue.by_shape(&walk.held),
        };
        let (promised, stopped_at) = (walk.depth.into_heads(), walk.stopped_at);
        Outcome {
            plan,
            promised,
            stopped_at,
            held,
            in_vain,
            order: self.first_order,
            firsts: self.firsts,
        }
    }
}
