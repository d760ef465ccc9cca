//! A pool in the order for a low slowdown.

use super::{Round, Waiting};
use crate::pool::profile::Profile;
use crate::slowdown::{is_more, promised_after};
use muster_model::{BackfillMode, JobId, State, Timestamp};
use std::collections::BTreeSet;

/// What who starts behind the head has to leave whole.
struct Kept {
    /// The promise of the head, and the CPUs that are left beside it.
    start: Timestamp,
    spare: u32,
    /// All promises, where there are more.
    profile: Option<Profile>,
    /// Who is promised a start once somebody would pass; in order.
    owed: Vec<Waiting>,
    /// So many promises are there at most.
    total: u64,
}

impl Round<'_> {
    /// Starts by rank, after those who have waited too long; then as [`Self::easy`]. Who has waited
    /// so long by the record is owed a promise (module `behind`).
    pub(super) fn slowdown(&mut self, mode: BackfillMode, state: &State) {
        let (pool, now) = (self.pool, self.now);
        let weigher = pool.weigher(state, now);
        let wait = |w: &Waiting| now.since(w.submitted);
        let first = |w: &&Waiting| weigher.comes_first(wait(w), w.likely);
        let fits = |w: &&Waiting| w.cpus <= pool.total;
        let mut queue = pool.waiting.iter().filter(fits).filter(first);
        let old = queue.by_ref().find(|w| !self.starts_now(w));
        let by_rank = || pool.by_rank.iter().map(|(_, w)| w).filter(fits);
        let head = old.or_else(|| by_rank().filter(|w| !first(w)).find(|w| !self.starts_now(w)));
        let Some(head) = head else { return };
        let (part, record) = promised_after(state);
        let due: Vec<&Waiting> = queue.filter(|w| is_more(wait(w), part, record)).collect();
        let total = u64::from(state.policy.backfill_depth.total);
        loop {
            let before = self.starts.len();
            let (start, spare) = self.earliest(head);
            self.promises = vec![(start, *head)];
            if mode == BackfillMode::None {
                return;
            }
            let kept = Kept { spare, start, profile: None, owed: Vec::new(), total };
            self.pass(kept, head, &due, by_rank());
            // What started may have been all that would pass somebody.
            if self.starts.len() == before {
                return;
            }
        }
    }

    /// Goes once through all that wait behind the head, those who are owed a promise first.
    fn pass<'b>(
        &mut self,
        mut kept: Kept,
        head: &Waiting,
        due: &[&Waiting],
        by_rank: impl Iterator<Item = &'b Waiting>,
    ) {
        let mut done: BTreeSet<JobId> = self.starts.iter().map(|w| w.id).chain([head.id]).collect();
        for waiting in due {
            if (self.promises.len() as u64) >= kept.total {
                break;
            }
            if done.insert(waiting.id) && !self.starts_behind(waiting, &mut kept) {
                kept.owed.push(**waiting);
            }
        }
        for waiting in by_rank.filter(|w| !done.contains(&w.id)) {
            if self.free == 0 {
                return;
            }
            self.starts_behind(waiting, &mut kept);
        }
    }

    /// Starts a job where it leaves whole what is promised, and what is owed to those before it.
    fn starts_behind(&mut self, waiting: &Waiting, kept: &mut Kept) -> bool {
        self.work.jobs += 1;
        if !self.leaves_whole(waiting, kept) {
            return false;
        }
        if !kept.owed.is_empty() {
            let mut profile = kept.profile.take().unwrap_or_else(|| self.promised());
            for owed in std::mem::take(&mut kept.owed) {
                if (self.promises.len() as u64) < kept.total {
                    self.promise(&owed, &mut profile);
                }
            }
            kept.profile = Some(profile);
            if !self.leaves_whole(waiting, kept) {
                return false;
            }
        }
        self.take(waiting);
        let end = self.ends(waiting);
        if let Some(profile) = &mut kept.profile {
            profile.reserve(self.now, end, waiting.cpus);
        } else if self.now.plus(waiting.length) > kept.start {
            kept.spare -= waiting.cpus;
        }
        true
    }

    fn leaves_whole(&mut self, waiting: &Waiting, kept: &Kept) -> bool {
        if waiting.cpus > self.free {
            return false;
        }
        match &kept.profile {
            Some(profile) => profile.fits_now(waiting, &mut self.work.slots),
            None => self.now.plus(waiting.length) <= kept.start || waiting.cpus <= kept.spare,
        }
    }
}
