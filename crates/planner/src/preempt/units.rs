//! Who could make room, and what that costs.
//!
//! A unit is a job, or those that leave together: components of a heterogeneous one, a gang.

use crate::preempt::permit::{Asker, Permit};
use crate::round::Round;
use muster_model::{Job, JobId, Labels, PreemptMode, State, Timestamp, VictimOrder};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Jobs that make room together or not at all.
pub(super) struct Unit {
    pub(super) jobs: Vec<Arc<Job>>,
    pub(super) mode: PreemptMode,
    pub(super) reclaims: bool,
    /// Alone.
    pub(super) cost: Cost,
    /// The disruption budgets that count its jobs, and what each allows: one entry for each job that
    /// one counts.
    counted: Vec<Counted>,
}

/// The number of a budget, and how many jobs it lets go.
type Counted = (usize, u32);

/// The budgets of jobs with these labels: jobs made from one template have the same.
type BudgetsOf<'a> = BTreeMap<&'a Labels, Vec<Counted>>;

/// What a set of victims costs; units add up, but for the distance of owners, broken budgets and
/// the highest priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    /// How near the nearest of the owners is to its guarantee, where borrowed quota is taken back:
    /// who is furthest beyond gives first.
    pub(super) over: u64,
    /// Jobs beyond what the disruption budgets allow.
    pub(super) broken: u64,
    /// The highest own priority among them, where that decides who may preempt whom.
    pub(super) highest: u64,
    /// The policy's first measure, then the others.
    pub(super) first: u64,
    pub(super) second: u64,
    pub(super) third: u64,
    /// Whole milliseconds that they have been running: the younger go first.
    pub(super) age: u64,
}

impl Cost {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            over: self.over.max(other.over),
            broken: self.broken.saturating_add(other.broken),
            highest: self.highest.max(other.highest),
            first: self.first.saturating_add(other.first),
            second: self.second.saturating_add(other.second),
            third: self.third.saturating_add(other.third),
            age: self.age.saturating_add(other.age),
        }
    }
}

/// What a job loses where it starts anew: GPU-seconds, and CPU-seconds where it has no GPU, since
/// its last checkpoint.
pub(super) fn lost(job: &Job, mode: PreemptMode, now: Timestamp) -> (u64, u64) {
    use PreemptMode::{Checkpoint, Shrink, Suspend};
    let kept = matches!(mode, Suspend | Checkpoint | Shrink);
    let since = job.started.max(job.checkpointed);
    let (Some(since), Some(placement)) = (since.filter(|_| !kept), &job.placement) else {
        return (0, 0);
    };
    let seconds = now.since(since).0.saturating_sub(job.paused.0);
    match u64::from(placement.devices()) {
        0 => (0, u64::from(placement.cpus()).saturating_mul(seconds)),
        gpus => (gpus.saturating_mul(seconds), 0),
    }
}

impl Round<'_> {
    /// Those who may be told to make room for all of the askers, where one of them helps, the
    /// cheapest first.
    pub(super) fn permitted_units(
        &mut self,
        askers: &[Asker<'_>],
        helps: impl Fn(&Self, &Arc<Job>) -> bool,
    ) -> Vec<Unit> {
        let state = self.state;
        let companies = crate::together::companies(state);
        let mut permitted: BTreeMap<JobId, Vec<(Arc<Job>, Permit)>> = BTreeMap::new();
        let mut helpful: BTreeSet<JobId> = BTreeSet::new();
        for job in state.index.active.iter().filter_map(|id| state.jobs.get(id)) {
            self.work.slots += 1;
            if self.preempting.spared.contains(&job.id) {
                continue;
            }
            let permits = self.permits();
            let permit = askers.iter().try_fold(None, |permit: Option<Permit>, asker| {
                let found = permits.permit(*asker, job).ok()?;
                Some(Some(permit.map_or(found, |permit| weaker(permit, found))))
            });
            if let Some(Some(permit)) = permit {
                let with = crate::together::leaving_with(state, &companies, job);
                let leader = with.first().copied().unwrap_or(job.id);
                permitted.entry(leader).or_default().push((Arc::clone(job), permit));
                if helps(self, job) {
                    helpful.insert(leader);
                }
            }
        }
        permitted.retain(|leader, members| {
            helpful.contains(leader)
                && members.first().is_some_and(|(first, _)| {
                    crate::together::leaving_with(state, &companies, first).len() == members.len()
                })
        });
        let mut budgets = BudgetsOf::new();
        let jobs = permitted.values().flatten().filter_map(|(job, _)| state.jobs.get(&job.id));
        for job in jobs.filter(|_| !state.budgets.is_empty()) {
            budgets.entry(&job.spec.labels).or_insert_with(|| budgets_of(state, job));
        }
        let mut units: Vec<Unit> =
            permitted.into_values().map(|members| self.unit(members, &budgets)).collect();
        units.sort_by_key(|unit| (unit.cost, Reverse(unit.jobs.first().map(|job| job.id))));
        units
    }

    /// Jobs that leave together, and what that costs.
    fn unit(&mut self, members: Vec<(Arc<Job>, Permit)>, budgets: &BudgetsOf<'_>) -> Unit {
        let (state, now) = (self.state, self.now);
        let policy = &state.policy.preemption;
        let permits = members.iter().map(|(_, permit)| *permit);
        let permit = permits.reduce(weaker);
        let mode = permit.map_or(PreemptMode::Off, |permit| permit.mode);
        let reclaims = permit.is_some_and(Permit::reclaims);
        let mut cost = Cost::default();
        for (job, _) in &members {
            let (gpus, cpus) = lost(job, mode, now);
            let age = now.millis().saturating_sub(job.placed.unwrap_or(now).millis());
            let quotas = self.permits().quotas.as_ref();
            let over = quotas
                .filter(|_| reclaims)
                .map_or(0, |quotas| u64::from(u32::MAX).saturating_sub(quotas.excess(state, job)));
            let own = job.spec.priority.filter(|_| policy.priorities).map_or(0, u64::from);
            let (first, second, third) = match policy.order {
                VictimOrder::Fewest => (1, gpus, cpus),
                VictimOrder::LeastLost => (gpus, cpus, 1),
            };
            let age = u64::try_from(age).unwrap_or(0);
            let one = Cost { over, broken: 0, highest: own, first, second, third, age };
            cost = cost.plus(one);
        }
        let jobs: Vec<Arc<Job>> = members.into_iter().map(|(job, _)| job).collect();
        let of = |job: &Arc<Job>| budgets.get(&job.spec.labels).into_iter().flatten().copied();
        let counted: Vec<Counted> = jobs.iter().flat_map(of).collect();
        let mut unit = Unit { jobs, mode, reclaims, cost, counted };
        unit.cost.broken = broken([&unit].into_iter());
        unit
    }
}

/// The budgets that count a job.
fn budgets_of(state: &State, job: &Job) -> Vec<Counted> {
    let all = state.budgets.values().enumerate();
    let own = all.filter(|(_, budget)| budget.counts(&job.spec));
    own.map(|(at, budget)| (at, budget.allowed)).collect()
}

/// How many jobs of these are beyond what the disruption budgets allow.
fn broken<'u>(units: impl Iterator<Item = &'u Unit>) -> u64 {
    let mut told: BTreeMap<Counted, u64> = BTreeMap::new();
    for budget in units.flat_map(|unit| &unit.counted) {
        *told.entry(*budget).or_default() += 1;
    }
    told.into_iter().map(|((_, allowed), count)| count.saturating_sub(allowed.into())).sum()
}

/// Of two permissions the one that asks for less of the engine: what one of a gang cannot do, none
/// of it does.
pub(super) fn weaker(a: Permit, b: Permit) -> Permit {
    Permit { mode: a.mode.min(b.mode), right: a.right.max(b.right) }
}

/// What a set costs.
pub(super) fn cost_of<'u>(set: impl Iterator<Item = &'u Unit> + Clone) -> Cost {
    let sum = set.clone().fold(Cost::default(), |sum, unit| sum.plus(unit.cost));
    Cost { broken: broken(set), ..sum }
}
