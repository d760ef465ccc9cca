//! Jobs behind promises: who is tried when, and promises that are made when somebody would pass.
//!
//! Where jobs are tried shortest first, or by what their wait weighs, those behind the promises of
//! all their partitions wait until the queue has been walked, and are tried in that order.
//!
//! Under the order for a low slowdown who has waited long by the record has a promise beside the
//! first of a partition ([`WaitGuard::promised`](muster_model::WaitGuard)). Such a promise is good
//! for one thing: that nobody behind takes what it needs. In a long queue that waits for one thing
//! there is mostly nobody who could. So it is *owed*: made, with those before it and in their order,
//! once somebody behind would start, who then has to leave it whole; else never. Jobs of one shape
//! are owed as one. What starts is what would start if all of them were made at once.

use crate::ask::Ask;
use crate::order::OrderKey;
use crate::queue::group;
use crate::round::{Answer, Round, Walk};
use muster_model::Job;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// A job that waits for its turn behind promises: its place there, its place in the queue, and its
/// shape.
pub(crate) type Deferred = (u128, OrderKey, usize);

impl Round<'_> {
    /// The turn of a job behind promises.
    pub(crate) fn deferred(&self, at: usize, key: OrderKey) -> Option<Deferred> {
        let queue = &self.cache.queue;
        let shape = queue.shapes.get(at)?.as_ref()?;
        Some((self.keys.behind(queue.terms.of(at), &shape.asks), self.keys.waiting(key), at))
    }

    /// Tries jobs behind promises, in the order of those. This is not cut by the budget: the order
    /// is another than the queue's, so that no job tells where it ended.
    pub(crate) fn backfill(&mut self, walk: &mut Walk, mut waiting: Vec<Deferred>) {
        if walk.stopped_at.is_some() {
            return;
        }
        waiting.sort_unstable();
        // The first of every shape in order, and those that come after their first.
        let mut firsts = waiting.into_iter().peekable();
        let mut others: BTreeSet<Deferred> = BTreeSet::new();
        loop {
            let comes_first = match (firsts.peek(), others.first()) {
                (Some(first), Some(other)) => first < other,
                (first, _) => first.is_some(),
            };
            let next = if comes_first { firsts.next() } else { others.pop_first() };
            let Some((_, key, at)) = next else { break };
            let live = self.keys.live(key, self.cache.queue.terms.of(at));
            if matches!(self.consider(walk, at, live, true), Answer::Settled) {
                others.extend(self.next_of(at, live).and_then(|next| self.deferred(at, next)));
            }
        }
    }

    /// True where each way to start a job of a shape is behind a promise, and it may have none
    /// itself.
    pub(crate) fn is_behind(&self, walk: &Walk, at: usize, key: OrderKey) -> bool {
        let Some(shape) = self.cache.queue.shapes.get(at).and_then(Option::as_ref) else {
            return false;
        };
        let lane = shape.gate.and_then(|gate| self.cache.world.level(gate.level));
        let promised = |ask: &Ask| walk.depth.is_promised(ask.lane());
        let all = match lane {
            // One look at the partition that it is of does.
            Some(level) => walk.depth.is_promised(level.partition()),
            None => shape.asks.iter().flatten().all(promised),
        };
        all && !walk.depth.is_due(key)
            && !(walk.depth.by_wait().is_some()
                && self
                    .state
                    .jobs
                    .get(&key.3)
                    .is_some_and(|job| walk.depth.is_old(&shape.asks, job)))
    }

    /// The next waiting job of a shape.
    pub(crate) fn next_of(&self, at: usize, after: OrderKey) -> Option<OrderKey> {
        let shape = self.cache.queue.shapes.get(at)?.as_ref()?;
        let after = self.keys.waiting(after);
        let next = shape.waiting.range((Bound::Excluded(after), Bound::Unbounded)).next();
        next.map(|key| self.keys.live(*key, self.cache.queue.terms.of(at)))
    }

    /// True where promises of the guard may be owed: nothing else than starts looks at promises.
    pub(crate) fn may_owe(&mut self, walk: &Walk) -> bool {
        let turns = self.state.partitions.values().any(|partition| partition.has_turns());
        walk.depth.is_guarded() && !turns && !self.can_make_room()
    }

    /// Owes a job a promise, if it has waited so long. `others`: those of its shape are owed one
    /// after it.
    pub(crate) fn owe(&mut self, walk: &mut Walk, at: usize, key: OrderKey, others: bool) {
        let hopeless = walk.known[self.fit(at)].hopeless;
        if walk.owes && !hopeless && walk.depth.goes_on() && walk.depth.is_due(key) {
            walk.owed.insert((key, at), others);
        }
    }

    /// Promises a start to a job that is the first of a partition; owes it one else.
    pub(crate) fn promise_or_owe(
        &mut self,
        walk: &mut Walk,
        (at, key): (usize, OrderKey),
        (asks, group): (&[Vec<Ask>], &[&Arc<Job>]),
        others: bool,
    ) {
        let fit = self.fit(at);
        let is_behind = |ask: &Ask| walk.depth.is_promised(ask.lane());
        if asks.iter().flatten().all(is_behind) {
            return self.owe(walk, at, key, others);
        }
        if !walk.known[fit].hopeless && self.may_be_promised(asks, group) {
            if self.stands_in_the_way(walk, asks) {
                self.keep_word(walk, Some(key));
            }
            self.promise(walk, fit, asks, group);
        }
        if others && let Some(next) = self.next_of(at, key) {
            self.owe(walk, at, next, true);
        }
    }

    /// True where a promise could take something of what is owed: nodes of another partition, or
    /// licences.
    fn stands_in_the_way(&self, walk: &Walk, asks: &[Vec<Ask>]) -> bool {
        let owed: BTreeSet<usize> = walk.owed.keys().map(|(_, at)| *at).collect();
        let world = &self.cache.world;
        let meet = |own: &Ask, other: &Ask| {
            let (own_name, other_name) = (&own.partition.name, &other.partition.name);
            let licences = !own.licences.is_empty() && !other.licences.is_empty();
            let (Some(mine), Some(its)) = (world.members(own_name), world.members(other_name))
            else {
                return true;
            };
            licences || own_name == other_name || mine.list().iter().any(|node| its.contains(*node))
        };
        let mut seen: BTreeSet<String> = BTreeSet::new();
        owed.into_iter().any(|at| {
            self.asks(at).iter().flatten().any(|other| {
                let is_new =
                    !other.licences.is_empty() || seen.insert(other.partition.name.clone());
                is_new && asks.iter().flatten().any(|own| meet(own, other))
            })
        })
    }

    /// Makes the promises that are owed to jobs before a place in the queue, in order; all of them
    /// where that is `None`.
    fn keep_word(&mut self, walk: &mut Walk, before: Option<OrderKey>) {
        while let Some(first) = walk.owed.first_entry() {
            let (key, at) = *first.key();
            if before.is_some_and(|before| key >= before) {
                return;
            }
            let others = first.remove();
            if !walk.depth.goes_on() {
                walk.owed.clear();
                return;
            }
            self.work.jobs += 1;
            let (fit, asks) = (self.fit(at), self.asks(at));
            let group = self.state.jobs.get(&key.3).and_then(|job| group(self.state, job));
            let Some(group) = group.filter(|_| !walk.known[fit].hopeless) else { continue };
            if self.may_be_promised(&asks, &group) {
                self.promise(walk, fit, &asks, &group);
            }
            if others && let Some(next) = self.next_of(at, key) {
                self.owe(walk, at, next, true);
            }
        }
    }

    /// Starts all jobs of a group or none, leaving whole what is promised and what is owed.
    pub(crate) fn start_if_nobody_is_owed(
        &mut self,
        walk: &mut Walk,
        (at, key): (usize, OrderKey),
        asks: &[Vec<Ask>],
        group: &[&Arc<Job>],
    ) -> bool {
        let counted = self.limits.counted(!walk.owed.is_empty());
        if !self.start(walk, at, asks, group) {
            return false;
        }
        // Behind all promises everybody owed comes before, by whatever those are ordered.
        let deferred = walk.depth.is_guarded()
            && !walk.depth.is_due(key)
            && asks.iter().flatten().all(|ask| walk.depth.is_promised(ask.lane()));
        let before = (!deferred).then_some(key);
        let owes = walk.owed.first_key_value();
        if owes.is_none_or(|((first, _), _)| before.is_some_and(|before| *first >= before)) {
            return true;
        }
        self.unstart(walk, at);
        self.limits.restore(&counted);
        self.keep_word(walk, before);
        self.start(walk, at, asks, group)
    }
}
