//! Changes to a request that would start the job now, each tried by planning with it.
//!
//! Of each kind of change the smallest that helps is told. Where no single one does, two of
//! different kinds are tried together, and of each two kinds the smallest pair is told: both parts
//! are needed, and neither can be less.

mod candidates;
mod change;
mod less;

pub use change::Change;
pub use less::Less;

use crate::ask::Ask;
use crate::budget::Budget;
use crate::cache::Cache;
use crate::free::Span;
use crate::gang::{Cursor, place_with_cursor};
use crate::queue::asks;
use crate::round::plan;
use crate::start::limit_by_deadline;
use candidates::candidates;
use muster_model::{
    Decision, Event, EventKind, Job, JobId, JobUpdate, Plan, Reason, Seconds, State, TimeLimit,
    Timestamp, Work,
};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// At most so many changes are planned with for one job.
const TRIES_MAX: usize = 48;

/// At most so many pairs are looked at for nodes.
const PAIRS_MAX: usize = 512;

/// At most so many pairs are told.
const PAIRS_TOLD_MAX: usize = 3;

/// Up to so many changes of a kind are tried one by one; of more the smallest is searched by halves.
const ONE_BY_ONE_MAX: usize = 8;

/// A change that starts the job now, and what it costs others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// What to ask for instead.
    pub change: Change,
    /// Jobs that would start now without the change and would not with it.
    pub displaces: Vec<JobId>,
    /// The reservation before which a smaller time limit lets it end.
    pub before: Option<String>,
    /// What the job would have less of in all, where the change does not say it itself.
    pub less: Option<Less>,
}

impl fmt::Display for Suggestion {
    /// One sentence, lower case, no full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.change, &self.before) {
            (Change::TimeLimit(limit), Some(name)) => {
                let (hours, minutes) = (limit.0 / 3600, limit.0 / 60 % 60);
                write!(
                    f,
                    "with a time limit of {hours}:{minutes:02}:00 it would end before reservation \
                     {name} and start now"
                )
            }
            (change, _) => write!(f, "{change} it would start now"),
        }?;
        match &self.less {
            Some(less) => write!(f, ", {less}"),
            None => Ok(()),
        }
    }
}

/// Changes of one kind, in ascending size.
type Kind = Vec<Change>;

/// The smallest change of each kind that starts the job now; pairs where no single one does.
pub(crate) fn suggestions(
    cache: &mut Cache,
    state: &State,
    job: &Arc<Job>,
    now: Timestamp,
    without: &Plan,
    reasons: &[Reason],
) -> Vec<Suggestion> {
    if job.het.is_some() || job.eligible.is_none_or(|at| at > now) {
        return Vec::new();
    }
    let kinds = candidates(cache, state, job, now, without, reasons);
    let order = cache.world.order_now(state.policy.nodes);
    let mut trial = Trial { cache, state, job, now, without, order, tries: 0 };
    let mut found: Vec<Suggestion> = kinds.iter().filter_map(|kind| trial.smallest(kind)).collect();
    if found.is_empty() {
        found = trial.pairs(&kinds);
    }
    for suggestion in &mut found {
        suggestion.before = reservation_after(state, now, &suggestion.change);
    }
    // The cache follows the true state again.
    cache.follow(state, now);
    found
}

/// The reservation that begins within the minute in which a limit would end.
fn reservation_after(state: &State, now: Timestamp, change: &Change) -> Option<String> {
    let Change::TimeLimit(limit) = change else { return None };
    let begins = |r: &&Arc<muster_model::Reservation>| {
        r.float.is_none()
            && r.window.start > now
            && r.window.start.since(now).0 / 60 == limit.0 / 60
    };
    state.reservations.values().find(begins).map(|r| r.name.clone())
}

fn started(plan: &Plan) -> BTreeSet<JobId> {
    plan.decisions.iter().flat_map(Decision::starts).map(|start| start.job).collect()
}

/// Changes of one job, tried one after the other.
struct Trial<'a> {
    cache: &'a mut Cache,
    state: &'a State,
    job: &'a Arc<Job>,
    now: Timestamp,
    without: &'a Plan,
    order: Vec<usize>,
    /// How many were planned with.
    tries: usize,
}

impl Trial<'_> {
    /// The smallest change that helps, of changes in ascending size.
    ///
    /// Of many, where one helps the larger ones are taken to help too.
    fn smallest(&mut self, kind: &Kind) -> Option<Suggestion> {
        if kind.len() <= ONE_BY_ONE_MAX {
            return kind.iter().find_map(|change| self.helps(change));
        }
        let (mut low, mut high) = (0, kind.len());
        let mut best = None;
        while low < high {
            let middle = low + (high - low) / 2;
            if let Some(found) = self.helps(&kind[middle]) {
                best = Some(found);
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        best
    }

    /// Of each two kinds the smallest pair that helps: that with the fewest steps in both together.
    fn pairs(&mut self, kinds: &[Kind]) -> Vec<Suggestion> {
        let kinds: Vec<Vec<&Change>> =
            kinds.iter().filter(|kind| !kind.is_empty()).map(|kind| few(kind)).collect();
        let mut found = Vec::new();
        let mut looks = 0;
        for (at, first) in kinds.iter().enumerate() {
            for second in &kinds[at + 1..] {
                let mut steps: Vec<(usize, usize)> =
                    (0..first.len()).flat_map(|a| (0..second.len()).map(move |b| (a, b))).collect();
                steps.sort_unstable_by_key(|(a, b)| (a + b, *a));
                looks += steps.len();
                if looks > PAIRS_MAX || found.len() >= PAIRS_TOLD_MAX {
                    return found;
                }
                found.extend(steps.into_iter().find_map(|(a, b)| {
                    let (a, b) = (Box::new(first[a].clone()), Box::new(second[b].clone()));
                    self.helps(&Change::Both(a, b))
                }));
            }
        }
        found
    }

    /// Plans with the change on a forked state, where the job has nodes at all then.
    fn helps(&mut self, change: &Change) -> Option<Suggestion> {
        let (state, now) = (self.state, self.now);
        let mut spec = self.job.spec.as_ref().clone();
        change.apply(&mut spec);
        let less = Less::of(&self.job.spec.request, &spec.request, change);
        let mut fork = state.clone();
        let update = JobUpdate { spec: Some(Arc::new(spec)), ..JobUpdate::default() };
        let kind = EventKind::JobUpdated { job: self.job.id, update: Box::new(update) };
        fork.apply(&Event { at: now, kind }).ok()?;
        // What does not even fit beside the running jobs need not be planned; who wants to be near
        // others may fit beside those that start.
        let world = &self.cache.world;
        let fits = |ask: &Ask| {
            let least = ask.time_min.map(|s| TimeLimit::Of(Seconds(s)));
            let Some(limit) = least.or(limit_by_deadline(ask, now)) else { return false };
            let span = Span::of(now, now, limit);
            let (mut cursor, mut work) = (Cursor::default(), Work::default());
            place_with_cursor(world, ask, span, &self.order, &mut cursor, &mut work).is_some()
        };
        let asks = asks(&fork, fork.jobs.get(&self.job.id)?, now);
        let could = asks.iter().any(|ask| ask.is_restless() || fits(ask));
        if self.tries >= TRIES_MAX || !could {
            return None;
        }
        self.tries += 1;
        let with = started(&plan(self.cache, &fork, now, Budget::UNLIMITED).plan);
        let displaces = started(self.without).difference(&with).copied().collect();
        let change = change.clone();
        let found = Suggestion { change, displaces, before: None, less };
        with.contains(&self.job.id).then_some(found)
    }
}

/// Some changes of a kind to be paired with others: all of few, of many the smallest, the largest
/// and some between.
fn few(kind: &Kind) -> Vec<&Change> {
    let last = kind.len().saturating_sub(1);
    if last < ONE_BY_ONE_MAX {
        return kind.iter().collect();
    }
    let steps = ONE_BY_ONE_MAX - 1;
    (0..=steps).map(|n| &kind[last * n / steps]).collect()
}
