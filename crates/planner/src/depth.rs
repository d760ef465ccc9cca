//! Which waiting jobs are promised a start.

use crate::ask::Ask;
use crate::order::OrderKey;
use crate::slowdown::{is_more, promised_after};
use muster_model::{BackfillDepth, BackfillMode, Job, JobId, Seconds, State, Timestamp};
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
    /// For each lane since when that job is free to start.
    since: BTreeMap<String, Timestamp>,
    /// Who has waited more than so many thousandths of that has a promise.
    by_record: Option<(u32, Seconds)>,
    now: Timestamp,
}

/// A promise that a job may have.
pub(crate) struct Allowed<'a> {
    /// For each component, the ways to ask for it.
    pub(crate) parts: Vec<Vec<&'a Ask>>,
    /// It need not be kept where it would start later than this from now.
    pub(crate) within: Option<Seconds>,
}

/// True where who waits since `since` has waited so many thousandths as long as who waits since
/// `first`.
pub(crate) fn nearly_as_old(
    now: Timestamp,
    first: Timestamp,
    since: Timestamp,
    thousandths: u32,
) -> bool {
    let waited = |since: Timestamp| u128::from(now.since(since).0);
    waited(since) * 1000 >= waited(first) * u128::from(thousandths)
}

impl Depth {
    pub(crate) fn new(state: &State, now: Timestamp) -> Self {
        let policy = &state.policy;
        let guarded = policy.orders_by_slowdown() && policy.backfill == BackfillMode::Easy;
        Self {
            by_record: guarded.then(|| promised_after(state)),
            mode: policy.backfill,
            bounds: policy.backfill_depth,
            total: 0,
            partitions: BTreeMap::new(),
            users: BTreeMap::new(),
            accounts: BTreeMap::new(),
            heads: BTreeMap::new(),
            since: BTreeMap::new(),
            now,
        }
    }

    /// True where more than the first job of a partition may have a promise.
    fn is_deep(&self) -> bool {
        matches!(self.mode, BackfillMode::Conservative | BackfillMode::Mixed)
    }

    /// True where those who have waited nearly as long as the first have promises too.
    pub(crate) fn by_wait(&self) -> Option<u32> {
        let counts = self.mode == BackfillMode::Easy && self.by_record.is_none();
        self.bounds.by_wait.filter(|_| counts)
    }

    /// True while jobs behind the first of their shape may still be promised something.
    pub(crate) fn goes_on(&self) -> bool {
        let some = self.by_wait().is_some() || self.by_record.is_some();
        (self.is_deep() || some) && self.total < self.bounds.total
    }

    /// True where a job has waited nearly as long as the first of some lane of its, or so long by
    /// the record that it has a promise.
    pub(crate) fn is_old(&self, asks: &[Vec<Ask>], job: &Job) -> bool {
        let waited = job.eligible.map_or(Seconds(0), |at| self.now.since(at));
        let by_record = |(part, record)| is_more(waited, part, record);
        if self.total < self.bounds.total && self.by_record.is_some_and(by_record) {
            return true;
        }
        let Some(part) = self.by_wait().filter(|_| self.total < self.bounds.total) else {
            return false;
        };
        let since = job.eligible.unwrap_or(self.now);
        let firsts = asks.iter().flatten().filter_map(|ask| self.since.get(ask.lane()));
        firsts.into_iter().any(|first| nearly_as_old(self.now, *first, since, part))
    }

    /// True where who has waited long by the record has a promise.
    pub(crate) fn is_guarded(&self) -> bool {
        self.by_record.is_some()
    }

    /// True where a job with this place in the queue has waited so long. Under the order that has a
    /// record, places hold since when jobs are free to start.
    pub(crate) fn is_due(&self, key: OrderKey) -> bool {
        let waited = if key.2 == Timestamp::NEVER { Seconds(0) } else { self.now.since(key.2) };
        let due = |(part, record)| is_more(waited, part, record);
        self.total < self.bounds.total && self.by_record.is_some_and(due)
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
        let open = |ask: &&Ask| !self.is_promised(ask.lane());
        let is_head = asks.iter().flatten().any(|ask| open(&ask));
        let leader = group.first();
        let deep = self.is_deep() && leader.is_some_and(|job| self.has_room(asks, job));
        let deep = deep || leader.is_some_and(|job| self.is_old(asks, job));
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
            let since = leader.eligible.unwrap_or(self.now);
            self.since.entry(ask.lane().to_owned()).or_insert(since);
            self.heads.entry(ask.lane().to_owned()).or_insert(leader.id);
        }
    }
}
