//! A round that goes on: what the rounds before started on this walk has its turn again.
//!
//! All that such a start counts in is taken back when the round begins (its place on the nodes, its
//! part of the limits, its task of a throttled array) and put back when the walk comes to the place
//! of its group in the queue. So whoever is ahead of it is looked at as it was the first time, and
//! gets the same promise. Before the walk comes to a job that no round looked at, all is put back.

use crate::order::OrderKey;
use crate::round::Round;
use muster_model::{Job, JobId, Placement, State, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A start of a round before.
#[derive(Clone, Debug)]
struct Earlier {
    job: Arc<Job>,
    placement: Arc<Placement>,
    end: Timestamp,
}

/// What is not put back yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replay {
    /// By the place in the queue of the first of the group.
    groups: BTreeMap<OrderKey, Vec<Earlier>>,
    /// Tasks by array.
    tasks: BTreeMap<JobId, u32>,
}

impl Replay {
    /// How many tasks of an array are not put back yet.
    pub(crate) fn tasks(&self, array: JobId) -> u32 {
        self.tasks.get(&array).copied().unwrap_or(0)
    }
}

/// Who had its turn for each of the started jobs: the first of its group.
///
/// Groups stand in order of their starts, each with its first job first; a gang that is new starts
/// as many as it has at a time, one that comes back all it has.
fn with_leaders<'a>(state: &'a State, started: &[JobId]) -> Vec<(&'a Arc<Job>, &'a Arc<Job>)> {
    let mut all: Vec<(&Arc<Job>, &Arc<Job>)> = Vec::with_capacity(started.len());
    // The group that the last job was of: its first, and how many more it may have.
    let mut last: Option<(&Arc<Job>, u32)> = None;
    for job in started.iter().filter_map(|id| state.jobs.get(id)) {
        let goes_on = |(first, more): &(&Arc<Job>, u32)| {
            *more > 0
                && first.spec.owner.uid == job.spec.owner.uid
                && first.spec.gang == job.spec.gang
                && (first.attempt > 1) == (job.attempt > 1)
        };
        let leader = match (job.het, &job.spec.gang) {
            (Some(part), _) => state.jobs.get(&part.leader).unwrap_or(job),
            (None, Some(gang)) => {
                let size = if job.attempt > 1 { u32::MAX } else { gang.size.max(1) };
                let (first, more) = last.filter(goes_on).unwrap_or((job, size));
                last = Some((first, more - 1));
                first
            }
            (None, None) => job,
        };
        all.push((leader, job));
    }
    all
}

impl Round<'_> {
    /// Takes back what the rounds before started on this walk; its turn comes again.
    pub(crate) fn take_back(&mut self) {
        let Some(resume) = &self.budget.resume else { return };
        for (leader, job) in with_leaders(self.state, &resume.started) {
            let (Some(placement), Some(end)) =
                (&job.placement, self.state.expected_end(job, self.now))
            else {
                continue;
            };
            self.cache.world.release(job.id, placement);
            self.limits.take_back(job);
            if let Some(task) = job.array {
                *self.replay.tasks.entry(task.array).or_default() += 1;
            }
            let key = self.keys.of(leader);
            let (job, placement) = (Arc::clone(job), Arc::clone(placement));
            let group = self.replay.groups.entry(key).or_default();
            group.push(Earlier { job, placement, end });
        }
    }

    /// Puts back what has its place in the queue before `key`; all of it where that is `None`.
    pub(crate) fn replay(&mut self, key: Option<OrderKey>, behind: bool) {
        while let Some(first) = self.replay.groups.first_entry() {
            if key.is_some_and(|key| *first.key() > key) {
                return;
            }
            for one in first.remove() {
                self.cache.world.occupy(&one.job, &one.placement, one.end, behind);
                self.limits.put_back(&one.job);
                if let Some(task) = one.job.array {
                    let tasks = self.replay.tasks.entry(task.array).or_default();
                    *tasks = tasks.saturating_sub(1);
                }
            }
        }
    }
}
