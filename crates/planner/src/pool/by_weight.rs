//! A pool in the order for a low slowdown.

use super::lines::By;
use super::profile::Profile;
use super::round::{Round, seconds_to};
use super::walk::Walk;
use super::{Pool, Waiting};
use crate::slowdown::{Weigher, is_more, promised_after};
use muster_model::{BackfillMode, JobId, Seconds, State, Timestamp};
use std::collections::btree_map::Range;
use std::ops::Bound;

/// Those who have waited too long, in order of waiting.
struct First<'a> {
    pool: &'a Pool,
    /// By their wait alone: then all before them are, too.
    waited: Option<Range<'a, (Timestamp, JobId), u32>>,
    /// By how long they will have been there.
    stays: Walk<'a>,
    bound: i64,
}

impl<'a> First<'a> {
    fn new(pool: &'a Pool, now: Timestamp, weigher: &Weigher<'_>) -> Self {
        Self {
            pool,
            waited: Some(pool.queue.range(..)),
            stays: Walk::new(pool, &pool.by_submission),
            bound: weigher.stays_from(now),
        }
    }

    fn next(&mut self, first: impl Fn(&Waiting) -> bool, looked_at: &mut u64) -> Option<Waiting> {
        if let Some((job, group)) = self.waited.as_mut().and_then(Iterator::next) {
            let waiting = self.pool.waiting(*job, *group)?;
            *looked_at += 1;
            if first(&waiting) {
                return Some(waiting);
            }
        }
        self.waited = None;
        let total = self.pool.total;
        self.stays.next(total, By::Stay, |_| Some(self.bound), looked_at)
    }
}

/// What who starts behind the head has to leave whole.
struct Kept {
    /// The promise of the head, and the CPUs that are left beside it.
    start: Timestamp,
    spare: u32,
    /// All promises, where there are more.
    profile: Option<Profile>,
    /// So many promises are there at most.
    total: u64,
}

impl Kept {
    /// How long a job of so many CPUs may be there that starts now.
    fn bounds(&self, now: Timestamp) -> impl Fn(u32) -> Option<i64> + use<> {
        let lasts = self.profile.as_ref().map(Profile::lasts);
        let (spare, left) = (self.spare, seconds_to(now, self.start));
        move |cpus| match &lasts {
            Some(lasts) => lasts.seconds(cpus),
            None => Some(if cpus <= spare { i64::MAX } else { left }),
        }
    }
}

/// Those who are owed a promise: who waited longer than a part of the record, behind the head.
struct Owed<'a> {
    pool: &'a Pool,
    now: Timestamp,
    part: u32,
    record: Seconds,
    /// All up to here started, or have their promises.
    done: (Timestamp, JobId),
}

impl<'a> Owed<'a> {
    fn is_due(&self, waiting: (Timestamp, JobId)) -> bool {
        waiting > self.done && is_more(self.now.since(waiting.0), self.part, self.record)
    }

    /// Those before a place, or all.
    fn before(&self, place: Option<(Timestamp, JobId)>) -> impl Iterator<Item = Waiting> + use<'a> {
        let (pool, now, part, record) = (self.pool, self.now, self.part, self.record);
        pool.queue
            .range((Bound::Excluded(self.done), Bound::Unbounded))
            .take_while(move |(job, _)| {
                place.is_none_or(|place| **job < place) && is_more(now.since(job.0), part, record)
            })
            .filter_map(move |(job, group)| pool.waiting(*job, *group))
    }
}

impl Round<'_> {
    /// Starts by rank, after those who have waited too long; then as [`Self::easy`]. Who has waited
    /// so long by the record is owed a promise (module `behind`).
    pub(super) fn slowdown(&mut self, mode: BackfillMode, state: &State) {
        let (pool, now) = (self.pool, self.now);
        let weigher = pool.weigher(state, now);
        let mut first = First::new(pool, now, &weigher);
        let comes_first = |w: &Waiting| weigher.comes_first(now.since(w.submitted), w.likely);
        let old = loop {
            let next = first.next(comes_first, &mut self.work.jobs);
            match next {
                Some(one) if self.taken.contains(&one.id) => {}
                Some(one) if !self.starts_now(&one) => break Some(one),
                Some(_) => {}
                None => break None,
            }
        };
        let head = old.or_else(|| {
            let mut walk = Walk::new(pool, &pool.by_rank);
            loop {
                let all = |_| Some(i64::MAX);
                let next = walk.next(pool.total, By::Length, all, &mut self.work.jobs)?;
                if !self.taken.contains(&next.id) && !self.starts_now(&next) {
                    return Some(next);
                }
            }
        });
        let Some(head) = head else { return };
        let (part, record) = promised_after(state);
        let total = u64::from(state.policy.backfill_depth.total);
        loop {
            let before = self.starts.len();
            let (start, spare) = self.earliest(&head);
            self.promises = vec![(start, head)];
            if mode == BackfillMode::None {
                return;
            }
            let kept = Kept { spare, start, profile: None, total };
            // Where nobody waited too long, nobody behind the head did.
            let done = old.map(|old| (old.submitted, old.id));
            let owed = done.map(|done| Owed { pool, now, part, record, done });
            self.pass(kept, owed);
            // What started may have been all that would pass somebody.
            if self.starts.len() == before {
                return;
            }
        }
    }

    /// Goes once through all that wait behind the head, those who are owed a promise first.
    fn pass(&mut self, mut kept: Kept, mut owed: Option<Owed<'_>>) {
        let pool = self.pool;
        let mut walk = Walk::new(pool, &pool.by_submission);
        while let Some(owed) = &mut owed
            && self.free > 0
            && (self.promises.len() as u64) < kept.total
        {
            let bounds = kept.bounds(self.now);
            let Some(next) = walk.next(self.free, By::Length, bounds, &mut self.work.jobs) else {
                break;
            };
            if self.taken.contains(&next.id) {
                continue;
            }
            let place = (next.submitted, next.id);
            if !owed.is_due(place) {
                break;
            }
            self.starts_behind(&next, &mut kept, Some(owed), Some(place));
        }
        let mut walk = Walk::new(pool, &pool.by_rank);
        while self.free > 0 {
            let bounds = kept.bounds(self.now);
            let Some(next) = walk.next(self.free, By::Length, bounds, &mut self.work.jobs) else {
                return;
            };
            if !self.taken.contains(&next.id) {
                self.starts_behind(&next, &mut kept, owed.as_mut(), None);
            }
        }
    }

    /// Starts a job that leaves whole what is promised, where it leaves whole what is owed to those
    /// before a place too.
    fn starts_behind(
        &mut self,
        waiting: &Waiting,
        kept: &mut Kept,
        owed: Option<&mut Owed<'_>>,
        place: Option<(Timestamp, JobId)>,
    ) {
        if let Some(owed) = owed
            && self.keeps_word(kept, owed, place)
        {
            let bound = kept.bounds(self.now)(waiting.cpus);
            let fits = bound.is_some_and(|bound| waiting.values()[By::Length as usize] <= bound);
            if !fits || waiting.cpus > self.free {
                return;
            }
        }
        self.take(waiting);
        let end = self.ends(waiting);
        if let Some(profile) = &mut kept.profile {
            profile.reserve(self.now, end, waiting.cpus);
        } else if self.now.plus(waiting.length) > kept.start {
            kept.spare -= waiting.cpus;
        }
    }

    /// Makes the promises that are owed to those before a place; false where there are none.
    fn keeps_word(
        &mut self,
        kept: &mut Kept,
        owed: &mut Owed<'_>,
        place: Option<(Timestamp, JobId)>,
    ) -> bool {
        let mut made = false;
        for one in owed.before(place) {
            if (self.promises.len() as u64) >= kept.total {
                break;
            }
            self.work.jobs += 1;
            owed.done = (one.submitted, one.id);
            if self.taken.contains(&one.id) {
                continue;
            }
            let mut profile = kept.profile.take().unwrap_or_else(|| self.promised());
            self.promise(&one, &mut profile);
            kept.profile = Some(profile);
            made = true;
        }
        made
    }
}
