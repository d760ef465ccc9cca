//! Starting jobs now: which nodes, which limit, all components or none.

use crate::ask::Ask;
use crate::free::Span;
use crate::gang::{Cursor, Picks, place_with_cursor};
use crate::orders::Orders;
use crate::profile::tick;
use crate::promised::Promised;
use crate::round::{Round, Started, Walk};
use muster_model::{BackfillMode, Job, NodeChoice, Placement, Seconds, TimeLimit, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Up to so many nodes that could do are looked at one by one; of more the first in order.
pub(crate) const FEW_NODES: usize = 256;

/// An ask of a walk: shape, component, partition.
pub(crate) type AskAt = (usize, usize, usize);

impl Round<'_> {
    /// Starts all jobs of a group or none.
    pub(crate) fn start(
        &mut self,
        walk: &mut Walk,
        at: usize,
        asks: &[Vec<Ask>],
        group: &[&Arc<Job>],
    ) -> bool {
        if group.len() == 1 {
            let Ok(starts) = self.occupy_all(walk, at, asks, group, &[0]) else { return false };
            self.note(starts);
            return true;
        }
        let (mut orders, mut failed) = (Orders::of(asks), None);
        while let Some(order) = orders.next(failed) {
            match self.occupy_all(walk, at, asks, group, &order) {
                Ok(starts) => {
                    self.note(starts);
                    return true;
                }
                Err(component) => failed = Some(component),
            }
        }
        walk.unsure = true;
        false
    }

    /// Takes down what starts.
    fn note(&mut self, starts: Vec<Started>) {
        for started in &starts {
            self.settled.insert(started.job.id);
            if let Some(task) = started.job.array {
                *self.tasks_started.entry(task.array).or_default() += 1;
            }
        }
        self.started.push(starts);
    }

    /// Takes the last start back.
    pub(crate) fn unstart(&mut self, walk: &mut Walk, at: usize) {
        for started in self.started.pop().into_iter().flatten().rev() {
            self.cache.world.release(started.job.id, &started.placement);
            self.settled.remove(&started.job.id);
            if let Some(task) = started.job.array {
                let started = self.tasks_started.entry(task.array).or_default();
                *started = started.saturating_sub(1);
            }
        }
        Self::free_again(walk, at);
    }

    /// What was taken for jobs of a shape is free again: what is known of their places no longer is.
    fn free_again(walk: &mut Walk, at: usize) {
        walk.cursors.retain(|(shape, ..), _| *shape != at);
        walk.shut.clear();
    }

    /// Finds places for all components, one after the other in this order, and puts them on the
    /// world. Where one finds none, nothing is left there, and that component is the answer.
    fn occupy_all(
        &mut self,
        walk: &mut Walk,
        at: usize,
        asks: &[Vec<Ask>],
        group: &[&Arc<Job>],
        order: &[usize],
    ) -> Result<Vec<Started>, usize> {
        let mut starts: Vec<(usize, Started)> = Vec::with_capacity(group.len());
        let counted = self.limits.counted(group.len() > 1);
        for part in order.iter().copied() {
            let job = group[part];
            let mut ways = asks[part].iter().enumerate();
            let found = ways
                .find_map(|(nth, ask)| self.place_within_limits(walk, (at, part, nth), job, ask));
            let Some((placement, limit)) = found else {
                self.limits.restore(&counted);
                for (_, started) in starts.drain(..).rev() {
                    self.cache.world.release(started.job.id, &started.placement);
                }
                if group.len() > 1 {
                    Self::free_again(walk, at);
                }
                return Err(part);
            };
            let end = self.now.plus_limit(self.state.expected_run(job, limit));
            let behind = !walk.promises.is_empty();
            self.cache.world.occupy(job, &placement, end, behind);
            self.limits.count_placement(job, &placement, limit);
            let placement = Arc::new(placement);
            starts.push((part, Started { job: Arc::clone(job), placement, end, limit, behind }));
        }
        starts.sort_by_key(|(part, _)| *part);
        Ok(starts.into_iter().map(|(_, started)| started).collect())
    }

    /// Where a component fits now, and the limit it gets: its own, or less where that is allowed
    /// and lets it end before a promise begins (case S-35).
    pub(crate) fn place_now(
        &mut self,
        walk: &mut Walk,
        at: AskAt,
        ask: &Ask,
    ) -> Option<(Placement, TimeLimit)> {
        if self.state.policy.backfill == BackfillMode::None && walk.depth.is_promised(ask.lane()) {
            return None;
        }
        let limit = limit_by_deadline(ask, self.now)?;
        let span = Span::of(self.now, self.now, ask.length_within(limit));
        if let Some(picks) = self.picks_now(walk, Some(at), ask, span) {
            return Some((self.cache.world.materialise(ask, &picks, span)?, limit));
        }
        // Only a job with a least limit may have less than its own.
        ask.time_min?;
        let bounds = self.cache.world.bookings().bounds(ask, self.now);
        for limit in shorter_limits(ask, limit, &walk.promises, &bounds, self.now) {
            let span = Span::of(self.now, self.now, ask.length_within(limit));
            if let Some(picks) = self.picks_now(walk, None, ask, span) {
                return Some((self.cache.world.materialise(ask, &picks, span)?, limit));
            }
        }
        None
    }

    /// Nodes for a component now. `at` names the ask where what does not do for it is remembered.
    pub(crate) fn picks_now(
        &mut self,
        walk: &mut Walk,
        at: Option<AskAt>,
        ask: &Ask,
        span: Span,
    ) -> Option<Picks> {
        let least = ask.node_bounds()?.0 as usize;
        let level = self.cache.world.level_of(ask);
        let holes = &self.cache.world.level(level)?.holes;
        let spreads = self.state.policy.nodes == NodeChoice::Spread;
        let most = if spreads { usize::MAX } else { FEW_NODES };
        let open = holes.open_at(tick(span.from), span.end());
        let mut nodes = std::mem::take(&mut walk.nodes);
        nodes.clear();
        nodes.extend(open.map(|h| h.node as usize).take(most));
        self.work.slots += 1;
        let enough = nodes.len() >= least;
        let picks = enough.then(|| self.picks_of(walk, (at, level), ask, span, &mut nodes));
        walk.nodes = nodes;
        picks.flatten()
    }

    /// As [`Self::picks_now`], of the nodes that are open at the level: all of them, or the first.
    fn picks_of(
        &mut self,
        walk: &mut Walk,
        (at, level): (Option<AskAt>, usize),
        ask: &Ask,
        span: Span,
        nodes: &mut [usize],
    ) -> Option<Picks> {
        let world = &self.cache.world;
        let mut anew = Cursor::default();
        if self.state.policy.nodes == NodeChoice::Spread {
            let idle = world.idle_beside();
            let key = |node: &usize| world.preference(*node, NodeChoice::Spread, &idle);
            nodes.sort_by_cached_key(key);
        } else if nodes.len() < FEW_NODES {
            nodes.sort_unstable_by_key(|node| self.rank[*node]);
        } else {
            let cursor = match at {
                Some(at) if !ask.is_restless() => walk.cursors.entry(at).or_default(),
                _ => &mut anew,
            };
            // What has not the least of the level has not enough for any job of it.
            let shut = walk.shut.entry(level).or_default();
            let is_open = |node: usize| {
                world.level(level).is_some_and(|l| l.is_open_now(node, world.free_now(node)))
            };
            while self.order.get(*shut).is_some_and(|node| !is_open(*node)) {
                *shut += 1;
            }
            cursor.skip(*shut);
            return place_with_cursor(world, ask, span, &self.order, cursor, &mut self.work);
        }
        place_with_cursor(world, ask, span, nodes, &mut anew, &mut self.work)
    }
}

/// The limit of a job that starts now, cut to its deadline; `None` where that leaves too little.
///
/// A job without a limit but with a deadline gets the deadline as its end.
pub(crate) fn limit_by_deadline(ask: &Ask, now: Timestamp) -> Option<TimeLimit> {
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

/// The limits below the asked one that end where a promise begins or at a reservation's bound, the
/// longest first.
fn shorter_limits(
    ask: &Ask,
    limit: TimeLimit,
    promises: &[Promised],
    bounds: &[Timestamp],
    now: Timestamp,
) -> Vec<TimeLimit> {
    let Some(least) = ask.time_min else { return Vec::new() };
    let gaps: BTreeSet<Seconds> = promises
        .iter()
        .map(|p| p.start)
        .chain(bounds.iter().copied())
        .filter(|at| *at != Timestamp::NEVER)
        .map(|at| at.since(now))
        .filter(|gap| gap.0 >= least.max(1) && limit.seconds().is_none_or(|l| *gap < l))
        .collect();
    gaps.into_iter().rev().map(TimeLimit::Of).collect()
}
