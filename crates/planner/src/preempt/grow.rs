//! Elastic jobs get nodes that nobody waiting can use.
//!
//! Once everybody has had a turn and all promises are made, each elastic job that runs below its
//! most, and has run for the policy's `grow_after`, is laid out on its own nodes and idle ones, over
//! the whole of the time that it could then run: so it delays no promise, and meets no reservation.
//! Where that pays (see [`State::growth_pays`](muster_model::State::growth_pays)), it is asked for a
//! checkpoint and starts again there; the nodes are held for it meanwhile. What it has on its own
//! nodes stays as it is.
//!
//! Cost: nothing without elastic jobs; else a layout for at most [`GROW_MAX`] of them a round.

use crate::ask::Ask;
use crate::free::Span;
use crate::preempt::permit::restart_mode;
use crate::round::{Round, Walk};
use muster_model::{Decision, Job, NodeShare, Placement, Timestamp, Victim};
use std::collections::BTreeMap;
use std::sync::Arc;

/// At most so many jobs are laid out in a round, those that have run longest.
const GROW_MAX: usize = 16;

impl Round<'_> {
    /// Lets elastic jobs grow, where the round is through with everybody who waits.
    pub(crate) fn grow(&mut self, walk: &Walk) {
        let state = self.state;
        let busy = walk.is_cut() || walk.promises_are_off || self.budget.resume.is_some();
        if state.index.elastic.is_empty() || busy || !self.preempting.decisions.is_empty() {
            return;
        }
        let elastic = state.index.elastic.iter().filter_map(|id| state.jobs.get(id));
        let permits = self.permits();
        let mut may: Vec<&Arc<Job>> = elastic.filter(|job| permits.may_grow(job)).collect();
        may.sort_by_key(|job| (job.started, job.id));
        for job in may.into_iter().take(GROW_MAX) {
            let permits = self.permits();
            let victim = permits.victim(job, restart_mode(job));
            if let Some((placement, end)) = self.grown(job, &victim) {
                self.cache.world.release(job.id, &placement);
                self.cache.world.occupy(job, &placement, end, false);
                self.preempting.grown.push(Arc::clone(job));
                let victim = Victim { keeps: Some(Arc::new(placement)), ..victim };
                self.preempting.decisions.push(Decision::Grow(Box::new(victim)));
            }
        }
    }

    /// Where it would be, and until when at the latest; the world is left as it was.
    fn grown(&mut self, job: &Arc<Job>, victim: &Victim) -> Option<(Placement, Timestamp)> {
        let own = job.placement.as_ref()?;
        let asks = crate::queue::asks(self.state, job, self.now);
        let same =
            |ask: &&Ask| ask.partition.name == own.partition && ask.inside == own.reservation;
        let ask = asks.iter().find(same)?;
        let limit = job.spec.time_limit.unwrap_or(job.time_limit);
        let end = victim.until.plus_limit(limit);
        if ask.deadline.is_some_and(|deadline| end > deadline) {
            return None;
        }
        let slots: Option<Vec<usize>> =
            own.nodes.iter().map(|share| self.cache.world.slot_of(share.node)).collect();
        let mut order = slots?;
        let others: Vec<usize> =
            self.order.iter().copied().filter(|at| !order.contains(at)).collect();
        order.extend(others);
        self.cache.world.release(job.id, own);
        self.limits.take_back(job);
        let span = Span { now: self.now, from: self.now, to: end };
        let world = &self.cache.world;
        let picks = crate::gang::place(world, ask, span, &order, &mut self.work);
        let found = picks
            .filter(|picks| picks.len() > own.nodes.len())
            .and_then(|picks| world.materialise(ask, &picks, span))
            .and_then(|laid| beside(own, laid))
            .filter(|laid| self.state.growth_pays(job, laid.nodes.len() as u64, self.now))
            .filter(|laid| self.limits.after_placement(job, laid, limit).is_empty());
        self.limits.put_back(job);
        self.cache.world.hold_as(self.state, job);
        Some((found?, end))
    }
}

/// A layout with the shares that the job has already on its own nodes; `None` where one of those is
/// missing, or has to be another.
fn beside(own: &Placement, mut laid: Placement) -> Option<Placement> {
    let mut had: BTreeMap<_, &NodeShare> =
        own.nodes.iter().map(|share| (share.node, share)).collect();
    for share in &mut laid.nodes {
        let Some(old) = had.remove(&share.node) else { continue };
        let same = old.tasks == share.tasks
            && old.cpu_count() == share.cpu_count()
            && old.memory == share.memory
            && old.devices.len() == share.devices.len()
            && old.gres == share.gres
            && old.exclusive == share.exclusive;
        if !same {
            return None;
        }
        share.clone_from(old);
    }
    had.is_empty().then_some(laid)
}
