//! One round of a pool.

use super::lines::By;
use super::profile::Profile;
use super::walk::Walk;
use super::{Pool, Waiting};
use crate::depth::nearly_as_old;
use crate::free::effective_end;
use muster_model::{BackfillDepth, BackfillMode, JobId, Timestamp, Work};
use std::collections::BTreeSet;
use std::ops::Bound;

/// A round under way.
pub(super) struct Round<'a> {
    pub(super) pool: &'a Pool,
    pub(super) now: Timestamp,
    /// CPUs that are free now.
    pub(super) free: u32,
    pub(super) starts: Vec<Waiting>,
    /// The same by number.
    pub(super) taken: BTreeSet<JobId>,
    pub(super) promises: Vec<(Timestamp, Waiting)>,
    pub(super) work: Work,
}

/// So many seconds are left up to an instant, for a job that is to be over by then.
pub(super) fn seconds_to(now: Timestamp, until: Timestamp) -> i64 {
    if until == Timestamp::NEVER {
        return i64::MAX;
    }
    until.millis().saturating_sub(now.millis()).div_euclid(1000)
}

impl<'a> Round<'a> {
    pub(super) fn new(pool: &'a Pool, now: Timestamp) -> Self {
        Self {
            pool,
            now,
            free: pool.free,
            starts: Vec::new(),
            taken: BTreeSet::new(),
            promises: Vec::new(),
            work: Work::default(),
        }
    }

    /// The waiting jobs in the order of the queue, from behind a place on.
    fn queue(&self, after: Option<&Waiting>) -> impl Iterator<Item = Waiting> + use<'a> {
        let pool = self.pool;
        let from = after.map_or(Bound::Unbounded, |w| Bound::Excluded((w.submitted, w.id)));
        pool.queue
            .range((from, Bound::Unbounded))
            .filter_map(move |(job, group)| pool.waiting(*job, *group))
    }

    /// Starts from the head while it fits; then the head has its promise, and the others start where
    /// they leave it whole: they end before it, or leave it what it needs.
    pub(super) fn easy(&mut self, mode: BackfillMode, depth: BackfillDepth) {
        let Some(head) = self.queue(None).find(|w| !self.starts_now(w)) else { return };
        let (start, mut spare) = self.earliest(&head);
        self.promises.push((start, head));
        if mode == BackfillMode::None {
            return;
        }
        match depth.by_wait {
            Some(part) => self.easy_by_wait(&head, part, depth.total),
            None => self.backfill(start, &mut spare),
        }
    }

    /// The order in which jobs are tried behind the head.
    fn behind(&self) -> Walk<'a> {
        let pool = self.pool;
        let lines = if pool.orders.by_rank { &pool.by_rank } else { &pool.by_submission };
        Walk::new(pool, lines)
    }

    /// What is free from each instant on beside what starts, and beside the first promise.
    pub(super) fn promised(&self) -> Profile {
        let mut profile = Profile::of(self.pool, self.now);
        for started in &self.starts {
            profile.reserve(self.now, self.ends(started), started.cpus);
        }
        if let Some((start, head)) = self.promises.first() {
            profile.reserve(*start, start.plus(head.length), head.cpus);
        }
        profile
    }

    /// Starts a job, or promises it the earliest start that leaves all before it whole.
    pub(super) fn promise(&mut self, waiting: &Waiting, profile: &mut Profile) {
        self.work.jobs += 1;
        let at = profile.earliest(waiting, &mut self.work.slots);
        if at == self.now {
            self.take(waiting);
        } else {
            self.promises.push((at, *waiting));
        }
        profile.reserve(at, at.plus(waiting.length), waiting.cpus);
    }

    /// Behind the first, those that have waited nearly as long have promises too; then come the
    /// others, where they leave all of these whole.
    fn easy_by_wait(&mut self, head: &Waiting, part: u32, total: u32) {
        let now = self.now;
        let mut profile = self.promised();
        let mut queue = self.queue(Some(head));
        let old = |w: &Waiting| nearly_as_old(now, head.submitted, w.submitted, part);
        while (self.promises.len() as u64) < u64::from(total) {
            let Some(waiting) = queue.next().filter(|w| old(w)) else { break };
            self.promise(&waiting, &mut profile);
        }
        self.fill(self.behind(), &mut profile);
    }

    /// Starts what leaves all promises whole. Who has a promise itself does not fit any more.
    fn fill(&mut self, mut walk: Walk<'_>, profile: &mut Profile) {
        while self.free > 0 {
            let lasts = profile.lasts();
            let bound = |cpus: u32| lasts.seconds(cpus);
            let next = walk.next(self.free, By::Length, bound, &mut self.work.jobs);
            let Some(waiting) = next else { return };
            if !self.taken.contains(&waiting.id) {
                self.take(&waiting);
                profile.reserve(self.now, self.ends(&waiting), waiting.cpus);
            }
        }
    }

    /// When a job that starts now is taken to be gone.
    pub(super) fn ends(&self, waiting: &Waiting) -> Timestamp {
        effective_end(self.now.plus(waiting.length), self.now)
    }

    pub(super) fn starts_now(&mut self, waiting: &Waiting) -> bool {
        self.work.jobs += 1;
        self.take(waiting)
    }

    pub(super) fn take(&mut self, waiting: &Waiting) -> bool {
        let fits = waiting.cpus <= self.free;
        if fits {
            self.free -= waiting.cpus;
            self.starts.push(*waiting);
            self.taken.insert(waiting.id);
        }
        fits
    }

    /// Starts what is over before the promise, or leaves it what it needs.
    fn backfill(&mut self, promised: Timestamp, spare: &mut u32) {
        let left = seconds_to(self.now, promised);
        let mut walk = self.behind();
        while self.free > 0 {
            let bound = |cpus: u32| Some(if cpus <= *spare { i64::MAX } else { left });
            let next = walk.next(self.free, By::Length, bound, &mut self.work.jobs);
            let Some(waiting) = next else { return };
            if self.taken.contains(&waiting.id) {
                continue;
            }
            self.take(&waiting);
            if self.now.plus(waiting.length) > promised {
                *spare -= waiting.cpus;
            }
        }
    }

    /// When so many CPUs are free at the earliest, beside what this round started, and how many are
    /// left then.
    pub(super) fn earliest(&mut self, head: &Waiting) -> (Timestamp, u32) {
        let mut new: Vec<(Timestamp, u32)> =
            self.starts.iter().map(|w| (self.ends(w), w.cpus)).collect();
        new.sort_unstable();
        let mut new = new.into_iter().peekable();
        let mut old = self.pool.running.iter().map(|r| (effective_end(r.end, self.now), r.cpus));
        let mut next_old = old.next();
        let (mut at, mut free) = (self.now, self.free);
        loop {
            if free >= head.cpus {
                return (at, free - head.cpus);
            }
            let next = [next_old.map(|o| o.0), new.peek().map(|n| n.0)].into_iter().flatten().min();
            let Some(next) = next else { return (at, free.saturating_sub(head.cpus)) };
            at = next;
            while let Some((_, cpus)) = next_old.filter(|o| o.0 == at) {
                free += cpus;
                next_old = old.next();
                self.work.slots += 1;
            }
            while let Some((_, cpus)) = new.next_if(|n| n.0 == at) {
                free += cpus;
                self.work.slots += 1;
            }
        }
    }

    /// Every job down to a depth has its promise; each starts where it leaves all before it whole.
    pub(super) fn conservative(&mut self, depth: u32) {
        let mut profile = Profile::of(self.pool, self.now);
        for waiting in self.queue(None) {
            if !self.promises.is_empty() && (self.promises.len() as u64) >= u64::from(depth) {
                self.fill(self.behind(), &mut profile);
                return;
            }
            self.promise(&waiting, &mut profile);
        }
    }
}
