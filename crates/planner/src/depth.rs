//! Which waiting jobs are promised a start.

use crate::ask::Ask;
use muster_model::{BackfillDepth, BackfillMode, Job, JobId, Policy, Seconds};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many promises stand, and how many more there may be.
#[derive(Clone, Debug)]
pub(crate) struct Depth {
    mode: BackfillMode,
    bounds: BackfillDepth,
    total: u32,
    partitions: BTreeMap<String, u32>,
    users: BTreeMap<u32, u32>,
    accounts: BTreeMap<String, u32>,
    /// For each lane the first job that was promised a start there.
    heads: BTreeMap<String, JobId>,
}

/// A promise that a job may have.
pub(crate) struct Allowed<'a> {
    /// For each component, the ways to ask for it.
    pub(crate) parts: Vec<Vec<&'a Ask>>,
    /// It need not be kept where it would start later than this from now.
    pub(crate) within: Option<Seconds>,
}

impl Depth {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            mode: policy.backfill,
            bounds: policy.backfill_depth,
            total: 0,
            partitions: BTreeMap::new(),
            users: BTreeMap::new(),
            accounts: BTreeMap::new(),
            heads: BTreeMap::new(),
        }
    }

    /// True where more than the first job of a partition may have a promise.
    fn is_deep(&self) -> bool {
        matches!(self.mode, BackfillMode::Conservative | BackfillMode::Mixed)
    }

    /// True while jobs behind the first of their shape may still be promised something.
    pub(crate) fn goes_on(&self) -> bool {
        self.is_deep() && self.total < self.bounds.total
    }

    /// True where the first waiting job of the lane ([`Ask::lane`]) has its promise.
    pub(crate) fn is_promised(&self, lane: &str) -> bool {
        self.heads.contains_key(lane)
    }

    /// For each lane the job that has its first promise.
    pub(crate) fn into_heads(self) -> BTreeMap<String, JobId> {
        self.heads
    }

    /// The promise that a group of jobs may have; `None` where it may have none.
    pub(crate) fn allows<'a>(
        &self,
        asks: &'a [Vec<Ask>],
        group: &[&Arc<Job>],
    ) -> Option<Allowed<'a>> {
        let open = |ask: &&Ask| !self.is_promised(&ask.lane);
        let is_head = asks.iter().flatten().any(|ask| open(&ask));
        let deep = self.is_deep() && group.first().is_some_and(|job| self.has_room(asks, job));
        let all = || asks.iter().map(|part| part.iter().collect()).collect();
        let parts: Vec<Vec<&Ask>> = match asks {
            _ if deep => all(),
            _ if !is_head => return None,
            [one] => vec![one.iter().filter(open).collect()],
            _ => all(),
        };
        let within = self.bounds.window.filter(|_| self.mode == BackfillMode::Mixed && !is_head);
        parts.iter().all(|part| !part.is_empty()).then_some(Allowed { parts, within })
    }

    fn has_room(&self, asks: &[Vec<Ask>], job: &Job) -> bool {
        if self.total >= self.bounds.total {
            return false;
        }
        if self.mode == BackfillMode::Conservative {
            return true;
        }
        let below = |count: Option<&u32>, bound: Option<u32>| {
            bound.is_none_or(|bound| count.copied().unwrap_or(0) < bound)
        };
        let (spec, bounds) = (&job.spec, &self.bounds);
        below(self.users.get(&spec.owner.uid), bounds.per_user)
            && below(self.accounts.get(&spec.account), bounds.per_account)
            && asks
                .iter()
                .flatten()
                .any(|ask| below(self.partitions.get(&ask.partition.name), bounds.per_partition))
    }

    /// Counts a promise. `places` are the asks that found the group's places.
    pub(crate) fn count<'a>(
        &mut self,
        asked: impl Iterator<Item = &'a Ask>,
        places: impl Iterator<Item = &'a Ask>,
        leader: &Job,
    ) {
        self.total += 1;
        *self.users.entry(leader.spec.owner.uid).or_default() += 1;
        *self.accounts.entry(leader.spec.account.clone()).or_default() += 1;
        for ask in places {
            *self.partitions.entry(ask.partition.name.clone()).or_default() += 1;
        }
        for ask in asked {
            self.heads.entry(ask.lane.clone()).or_insert(leader.id);
        }
    }
}
