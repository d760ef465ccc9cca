//! Elastic jobs give up nodes above their least, before anybody is preempted.
//!
//! A waiting job that does not fit is laid out on a world without one of them, the one that loses
//! the least, then without all of them. Where it fits, and each of them still has its least on those
//! of its own nodes that the waiting job leaves, they are asked for a checkpoint and start again on
//! those at once. So nobody may preempt for it: what is above the least is only lent. One that lives
//! with losing nodes gives up those that the other takes, never its first, and goes on.

use super::search::Found;
use super::units::lost;
use crate::ask::Ask;
use crate::free::Span;
use crate::preempt::Place;
use crate::round::Round;
use muster_model::{Job, NodeId, Placement, PreemptMode, Victim, Work};
use std::collections::BTreeSet;
use std::sync::Arc;

/// So many elastic jobs are tried one by one.
const SINGLES_MAX: usize = 16;

impl Round<'_> {
    /// Elastic jobs with more than their least, those that lose the least first.
    fn elastic(&mut self) -> Vec<(Arc<Job>, PreemptMode)> {
        let (state, now) = (self.state, self.now);
        let all = state.index.elastic.iter().filter_map(|id| state.jobs.get(id));
        let spared = self.preempting.spared.clone();
        let permits = self.permits();
        let mut found: Vec<(Arc<Job>, PreemptMode)> = all
            .filter(|job| !spared.contains(&job.id))
            .filter_map(|job| Some((Arc::clone(job), permits.shrinks(job)?)))
            .collect();
        // Who goes on loses nothing.
        found.sort_by_key(|(job, mode)| {
            (*mode != PreemptMode::Shrink, lost(job, *mode, now), job.id)
        });
        found
    }

    /// Makes room for a group by letting elastic jobs shrink; false where that is not enough, `None`
    /// where there is none that can.
    pub(super) fn shrink(&mut self, asks: &[Vec<&Ask>], group: &[&Arc<Job>]) -> Option<bool> {
        let elastic = self.elastic();
        if elastic.is_empty() {
            return None;
        }
        let singles = elastic.iter().take(SINGLES_MAX).map(std::slice::from_ref);
        let all = (elastic.len() > 1).then_some(elastic.as_slice());
        let sets: Vec<&[(Arc<Job>, PreemptMode)]> = singles.chain(all).collect();
        for set in sets {
            if let Some(found) = self.shrink_these(asks, group, set) {
                self.claim(found);
                return Some(true);
            }
        }
        Some(false)
    }

    fn shrink_these(
        &mut self,
        asks: &[Vec<&Ask>],
        group: &[&Arc<Job>],
        set: &[(Arc<Job>, PreemptMode)],
    ) -> Option<Found> {
        let mut victims: Vec<Victim> =
            set.iter().map(|(job, mode)| self.permits().victim(job, *mode)).collect();
        for (job, mode) in set {
            self.step_aside(job, *mode);
        }
        let places = self.lay_aside(asks, group, &victims);
        let kept = places.as_ref().and_then(|places| self.keep(set, places));
        for (job, mode) in set.iter().rev() {
            self.step_back(job, *mode);
        }
        let (places, kept) = (places?, kept?);
        let mut needed = Vec::new();
        for (victim, keeps) in victims.iter_mut().zip(kept) {
            // One that loses nothing is left alone.
            if let Some(keeps) = keeps {
                victim.keeps = Some(Arc::new(keeps));
                needed.push(victim.clone());
            }
        }
        (!needed.is_empty()).then_some(Found { places, victims: needed })
    }

    /// What each of them has on the nodes that are left to it: `None` for one that all of its nodes
    /// are left to; nothing where one has not its least.
    fn keep(
        &mut self,
        set: &[(Arc<Job>, PreemptMode)],
        places: &[Place],
    ) -> Option<Vec<Option<Placement>>> {
        let taken: BTreeSet<NodeId> =
            places.iter().flat_map(|p| p.placement.nodes.iter().map(|share| share.node)).collect();
        let mut laid: Vec<(Arc<Job>, Placement)> = Vec::new();
        let mut kept = Vec::new();
        for (job, mode) in set {
            let own = job.placement.as_ref()?;
            if *mode == PreemptMode::Shrink {
                let first = own.nodes.first().map(|share| share.node);
                let left = own.on_nodes(|id| Some(id) == first || !taken.contains(&id));
                let allowed = job.spec.request.nodes.as_ref();
                if !allowed.is_some_and(|count| count.allows(left.nodes.len() as u32)) {
                    kept.clear();
                    break;
                }
                self.rehold(job, |placement| placement.clone_from(&left));
                kept.push((left.nodes.len() < own.nodes.len()).then_some(left));
                continue;
            }
            let left: Vec<usize> = own
                .nodes
                .iter()
                .filter(|share| !taken.contains(&share.node))
                .filter_map(|share| self.cache.world.slot_of(share.node))
                .collect();
            if left.len() == own.nodes.len() {
                kept.push(None);
                continue;
            }
            let found = crate::queue::asks(self.state, job, self.now).into_iter().find_map(|ask| {
                let span = Span::of(self.now, self.now, ask.limit);
                let world = &self.cache.world;
                let mut work = Work::default();
                let picks = crate::gang::place(world, &ask, span, &left, &mut work)?;
                world.materialise(&ask, &picks, span)
            });
            let Some(placement) = found else {
                kept.clear();
                break;
            };
            let end = self.now.plus_limit(job.time_limit);
            self.cache.world.occupy(job, &placement, end, false);
            laid.push((Arc::clone(job), placement.clone()));
            kept.push(Some(placement));
        }
        for (job, placement) in laid.iter().rev() {
            self.cache.world.release(job.id, placement);
        }
        (kept.len() == set.len()).then_some(kept)
    }
}
