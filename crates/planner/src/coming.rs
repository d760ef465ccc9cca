//! What comes to the nodes before those that wait on: what the round starts, room that is held or
//! made for others, and those of the job's own group that come before it.

use crate::affinity::apart;
use crate::outcome::Outcome;
use crate::preempt;
use crate::world::World;
use muster_model::{Decision, Job, JobId, Placement, State, TimeLimit, Timestamp};
use std::cell::OnceCell;
use std::sync::Arc;

/// All that comes, and the world with it where somebody asks for that: a copy costs as much as the
/// cluster is large.
#[derive(Clone)]
pub(crate) struct Coming<'a> {
    pub(crate) starts: Vec<(&'a Arc<Job>, &'a Placement, TimeLimit)>,
    pub(crate) kept: Vec<Kept>,
    now: Timestamp,
    after: OnceCell<World>,
}

/// Room that is kept for a job.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) job: Arc<Job>,
    /// What nobody has yet.
    pub(crate) placement: Placement,
    pub(crate) limit: TimeLimit,
    /// When it starts; [`Timestamp::NEVER`] is not known.
    pub(crate) from: Timestamp,
}

impl Kept {
    /// When it is over at the latest.
    pub(crate) fn end(&self, now: Timestamp) -> Timestamp {
        let from = if self.from == Timestamp::NEVER { now } else { self.from };
        from.plus_limit(self.limit)
    }
}

impl<'a> Coming<'a> {
    /// What comes by an outcome, without what it has for one job itself.
    pub(crate) fn of(
        state: &'a State,
        outcome: &'a Outcome,
        now: Timestamp,
        but: Option<JobId>,
    ) -> Self {
        let starts = outcome.plan.decisions.iter().flat_map(Decision::starts);
        let starts = starts.filter(|start| Some(start.job) != but).filter_map(|start| {
            Some((state.jobs.get(&start.job)?, start.placement.as_ref(), start.time_limit))
        });
        let mut kept = preempt::held(state, &outcome.plan);
        kept.retain(|kept| Some(kept.job.id) != but);
        Self { starts: starts.collect(), kept, now, after: OnceCell::new() }
    }

    /// The same with those of a job's group that come before it.
    pub(crate) fn with_group(&self, laid: Vec<(Arc<Job>, Placement)>) -> Self {
        let kept = laid.into_iter().map(|(job, placement)| {
            let (limit, from) = (job.time_limit, Timestamp::NEVER);
            Kept { job, placement, limit, from }
        });
        let kept = self.kept.iter().cloned().chain(kept).collect();
        Self { starts: self.starts.clone(), kept, now: self.now, after: OnceCell::new() }
    }

    /// True where nothing comes.
    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty() && self.kept.is_empty()
    }

    /// True where somebody who comes wants to be away from others.
    pub(crate) fn has_apart(&self) -> bool {
        let starts = self.starts.iter().map(|(job, ..)| *job);
        let mut jobs = starts.chain(self.kept.iter().map(|kept| &kept.job));
        jobs.any(|job| !apart(&job.spec).required.is_empty())
    }

    /// This world, which is always the same one, with all that comes.
    pub(crate) fn after<'w>(&'w self, world: &'w World) -> &'w World {
        if self.is_empty() {
            return world;
        }
        self.after.get_or_init(|| {
            let mut after = world.clone();
            for (job, placement, limit) in &self.starts {
                after.occupy(job, placement, self.now.plus_limit(*limit), false);
            }
            for kept in &self.kept {
                after.occupy(&kept.job, &kept.placement, kept.end(self.now), false);
            }
            after
        })
    }
}
