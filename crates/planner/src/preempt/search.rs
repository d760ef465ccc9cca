//! The victims: the cheapest units that are enough for the whole group.
//!
//! A unit is a job, or all components of a heterogeneous one. With few units every set is tried in
//! the order of its cost, so the first that is enough is the best there is. With more, single units
//! and pairs are tried in that order; then nodes are opened, the cheapest first, until the group
//! fits, and whoever is not needed after all is spared, the costliest first. So no victim is ever
//! one without whom it would do.

use crate::ask::Ask;
use crate::free::Span;
use crate::orders::Orders;
use crate::preempt::claims::take_no_cpus;
use crate::preempt::permit::{Asker, Permit};
use crate::preempt::{Place, could_help};
use crate::round::{Round, Walk};
use muster_model::{
    Amounts, DisruptionBudget, Job, JobId, Placement, PreemptMode, Seconds, State, TimeLimit,
    Timestamp, Victim, VictimOrder,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Up to so many units every set is tried.
const ALL_SETS: usize = 10;
/// Up to so many units every pair is tried.
const ALL_PAIRS: usize = 48;
/// At most so many units are looked at, the cheapest.
const UNITS_MAX: usize = 4096;

/// Jobs that make room together or not at all.
struct Unit {
    jobs: Vec<Arc<Job>>,
    mode: PreemptMode,
    reclaims: bool,
    /// Alone.
    cost: Cost,
    /// The disruption budgets that count its jobs, one entry for each job that one counts.
    counted: Vec<usize>,
}

/// What a set of victims costs; units add up, but for the distance of owners, broken budgets and
/// the highest priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    /// How near the nearest of the owners is to its guarantee, where borrowed quota is taken back:
    /// who is furthest beyond gives first.
    over: u64,
    /// Jobs beyond what the disruption budgets allow.
    broken: u64,
    /// The highest own priority among them, where that decides who may preempt whom.
    highest: u64,
    /// The policy's first measure, then the others.
    first: u64,
    second: u64,
    third: u64,
    /// Whole milliseconds that they have been running: the younger go first.
    age: u64,
}

impl Cost {
    fn plus(self, other: Self) -> Self {
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

/// The room that was found.
pub(super) struct Found {
    pub(super) places: Vec<Place>,
    pub(super) victims: Vec<Victim>,
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
    /// Room for a group, and who makes it.
    pub(super) fn search(
        &mut self,
        asks: &[Vec<&Ask>],
        askers: &[Asker<'_>],
        group: &[&Arc<Job>],
    ) -> Option<Found> {
        let units = self.units(asks, askers);
        if units.is_empty() {
            return None;
        }
        let all: BTreeSet<usize> = (0..units.len()).collect();
        let mut trial = Trial { round: self, asks, group, units: &units };
        let found = if units.len() <= ALL_SETS {
            trial.best_of_all(&all)
        } else {
            trial.could_fit(&all)?;
            trial.single().or_else(|| trial.pair()).or_else(|| trial.by_nodes())
        };
        let (chosen, places) = found?;
        let mut victims = Vec::new();
        for unit in chosen.iter().filter_map(|at| units.get(*at)) {
            let permits = self.permits();
            victims.extend(unit.jobs.iter().map(|job| permits.victim(job, unit.mode)));
        }
        Some(Found { places, victims })
    }

    /// Those who may be told to make room where it helps, the cheapest first.
    fn units(&mut self, asks: &[Vec<&Ask>], askers: &[Asker<'_>]) -> Vec<Unit> {
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
                if could_help(&self.cache.world, asks, job) {
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
        let budgets: Vec<&DisruptionBudget> = state.budgets.values().map(AsRef::as_ref).collect();
        let mut units: Vec<Unit> =
            permitted.into_values().map(|members| self.unit(members, &budgets)).collect();
        units.sort_by_key(|unit| (unit.cost, Reverse(unit.jobs.first().map(|job| job.id))));
        units.truncate(UNITS_MAX);
        units
    }

    /// Jobs that leave together, and what that costs.
    fn unit(&mut self, members: Vec<(Arc<Job>, Permit)>, budgets: &[&DisruptionBudget]) -> Unit {
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
        let of = |job: &Arc<Job>| {
            let counted = |(_, budget): &(usize, &&DisruptionBudget)| budget.counts(&job.spec);
            budgets.iter().enumerate().filter(counted).map(|(at, _)| at).collect::<Vec<_>>()
        };
        let counted: Vec<usize> = jobs.iter().flat_map(of).collect();
        let mut unit = Unit { jobs, mode, reclaims, cost, counted };
        unit.cost.broken = broken(state, [&unit].into_iter());
        unit
    }
}

/// How many jobs of these are beyond what the disruption budgets allow.
fn broken<'u>(state: &State, units: impl Iterator<Item = &'u Unit>) -> u64 {
    let mut told: BTreeMap<usize, u64> = BTreeMap::new();
    for at in units.flat_map(|unit| &unit.counted) {
        *told.entry(*at).or_default() += 1;
    }
    let allowed = |at: usize| state.budgets.values().nth(at).map_or(0, |b| u64::from(b.allowed));
    told.into_iter().map(|(at, count)| count.saturating_sub(allowed(at))).sum()
}

/// Of two permissions the one that asks for less of the engine: what one of a gang cannot do, none
/// of it does.
fn weaker(a: Permit, b: Permit) -> Permit {
    Permit { mode: a.mode.min(b.mode), right: a.right.max(b.right) }
}

/// Layouts of one group on the world without some units.
struct Trial<'t, 'a> {
    round: &'t mut Round<'a>,
    asks: &'t [Vec<&'t Ask>],
    group: &'t [&'t Arc<Job>],
    units: &'t [Unit],
}

/// What a layout is held against.
#[derive(Clone, Copy)]
struct Terms {
    /// So long it takes until the room is there: the group may end that much later.
    grace: Seconds,
    /// Limits of associations and QOS count.
    limited: bool,
}

type Chosen = (BTreeSet<usize>, Vec<Place>);

impl Round<'_> {
    /// Places for a group on the world as it is, once these victims are gone.
    pub(super) fn lay_aside(
        &mut self,
        asks: &[Vec<&Ask>],
        group: &[&Arc<Job>],
        victims: &[Victim],
    ) -> Option<Vec<Place>> {
        let graces = victims.iter().map(|victim| victim.until.since(self.now));
        let margin = graces.max().unwrap_or(Seconds(0));
        let terms = Terms { grace: margin, limited: true };
        Trial { round: self, asks, group, units: &[] }.places(terms)
    }
}

impl Trial<'_, '_> {
    /// What a set of units costs.
    fn cost(&self, set: &BTreeSet<usize>) -> Cost {
        let units = || set.iter().filter_map(|at| self.units.get(*at));
        let sum = units().fold(Cost::default(), |sum, unit| sum.plus(unit.cost));
        Cost { broken: broken(self.round.state, units()), ..sum }
    }

    /// The longest that any of these takes to go.
    fn longest_grace(&mut self, open: &BTreeSet<usize>) -> Seconds {
        let now = self.round.now;
        let permits = self.round.permits();
        let of = |unit: &Unit| {
            unit.jobs.iter().map(|job| permits.victim(job, unit.mode).until.since(now)).max()
        };
        let units = open.iter().filter_map(|at| self.units.get(*at));
        units.filter_map(of).max().unwrap_or(Seconds(0))
    }

    /// Where the group would be once these units are gone.
    fn fits(&mut self, open: &BTreeSet<usize>) -> Option<Vec<Place>> {
        let terms = Terms { grace: self.longest_grace(open), limited: true };
        let places = self.laid(open, terms)?;
        self.is_covered(open, &places).then_some(places)
    }

    /// `None` where no set of these units could be enough: not even with all of them gone at once
    /// is there room. Who wants to be near others may find them gone, so nothing is said of those.
    fn could_fit(&mut self, all: &BTreeSet<usize>) -> Option<()> {
        let restless = self.asks.iter().flatten().any(|ask| ask.is_restless());
        let terms = Terms { grace: Seconds(0), limited: false };
        (restless || self.laid(all, terms).is_some()).then_some(())
    }

    /// Where the group would be without these units; the world is left as it was.
    fn laid(&mut self, open: &BTreeSet<usize>, terms: Terms) -> Option<Vec<Place>> {
        let jobs: Vec<(&Arc<Job>, PreemptMode)> = open
            .iter()
            .filter_map(|at| self.units.get(*at))
            .flat_map(|unit| unit.jobs.iter().map(|job| (job, unit.mode)))
            .collect();
        for (job, mode) in &jobs {
            self.round.step_aside(job, *mode);
        }
        let places = self.places(terms);
        for (job, mode) in jobs.iter().rev() {
            self.round.step_back(job, *mode);
        }
        places
    }

    /// Where the group would be on the world as it is, in the first order of its components that
    /// works.
    fn places(&mut self, terms: Terms) -> Option<Vec<Place>> {
        let (mut orders, mut failed) = (Orders::of(self.asks), None);
        while let Some(order) = orders.next(failed) {
            match self.lay(&order, terms) {
                Ok(found) => return Some(found),
                Err(component) => failed = Some(component),
            }
        }
        None
    }

    /// What is reclaimed has to fit in the guarantee of who reclaims it.
    fn is_covered(&mut self, open: &BTreeSet<usize>, places: &[Place]) -> bool {
        let state = self.round.state;
        let reclaims = open.iter().any(|at| self.units.get(*at).is_some_and(|u| u.reclaims));
        let more = places
            .iter()
            .fold(Amounts::default(), |sum, place| sum.plus(Amounts::of(&place.placement)));
        let quotas = self.round.permits().quotas.as_ref();
        !reclaims || quotas.is_some_and(|q| q.covers(state, self.group[0], more))
    }

    /// Places for all components; the one that finds none where that fails.
    fn lay(&mut self, order: &[usize], terms: Terms) -> Result<Vec<Place>, usize> {
        let mut laid: Vec<(usize, Place)> = Vec::with_capacity(order.len());
        let mut failed = None;
        for part in order.iter().copied() {
            let job = self.group[part];
            let found = self.asks[part].iter().find_map(|ask| self.lay_one(ask, job, terms));
            let Some(place) = found else {
                failed = Some(part);
                break;
            };
            let end = self.round.now.plus(terms.grace).plus_limit(place.limit);
            self.round.cache.world.occupy(job, &place.placement, end, false);
            laid.push((part, place));
        }
        for (_, place) in laid.iter().rev() {
            self.round.cache.world.release(place.job.id, &place.placement);
        }
        laid.sort_by_key(|(part, ..)| *part);
        match failed {
            Some(part) => Err(part),
            None => Ok(laid.into_iter().map(|(_, place)| place).collect()),
        }
    }

    fn lay_one(&mut self, ask: &Ask, job: &Arc<Job>, terms: Terms) -> Option<Place> {
        let found = self.round.place_later(ask, terms.grace)?;
        // What victims of the same association give back is not counted on.
        let (placement, limit) = match terms.limited {
            true => {
                let again = |round: &mut Round<'_>, ask: &Ask| round.place_later(ask, terms.grace);
                self.round.within_limits(job, ask, found, again).ok()?
            }
            false => found,
        };
        Some(Place { job: Arc::clone(job), placement: Arc::new(placement), limit })
    }

    /// The cheapest of all sets that are enough.
    fn best_of_all(&mut self, all: &BTreeSet<usize>) -> Option<Chosen> {
        self.could_fit(all)?;
        let mut sets: Vec<(Cost, BTreeSet<usize>)> = (1u32..1 << self.units.len())
            .map(|bits| {
                let set: BTreeSet<usize> =
                    (0..self.units.len()).filter(|at| bits & (1 << at) != 0).collect();
                (self.cost(&set), set)
            })
            .collect();
        sets.sort();
        sets.into_iter().find_map(|(_, set)| self.fits(&set).map(|places| (set, places)))
    }

    fn single(&mut self) -> Option<Chosen> {
        (0..self.units.len()).find_map(|at| {
            let set = BTreeSet::from([at]);
            self.fits(&set).map(|places| (set, places))
        })
    }

    fn pair(&mut self) -> Option<Chosen> {
        let few = self.units.len().min(ALL_PAIRS);
        let mut pairs: Vec<(Cost, usize, usize)> = Vec::new();
        for a in 0..few {
            for b in a + 1..few {
                pairs.push((self.cost(&BTreeSet::from([a, b])), a, b));
            }
        }
        pairs.sort_unstable();
        pairs.into_iter().find_map(|(_, a, b)| {
            let set = BTreeSet::from([a, b]);
            self.fits(&set).map(|places| (set, places))
        })
    }

    /// Opens nodes, the cheapest first, until the group fits; then spares whom it can.
    fn by_nodes(&mut self) -> Option<Chosen> {
        let mut on_node: BTreeMap<muster_model::NodeId, BTreeSet<usize>> = BTreeMap::new();
        for (at, unit) in self.units.iter().enumerate() {
            let placements = unit.jobs.iter().filter_map(|job| job.placement.as_ref());
            for share in placements.flat_map(|p| &p.nodes) {
                on_node.entry(share.node).or_default().insert(at);
            }
        }
        let mut nodes: Vec<(Cost, muster_model::NodeId, BTreeSet<usize>)> =
            on_node.into_iter().map(|(node, units)| (self.cost(&units), node, units)).collect();
        nodes.sort();
        let open = |count: usize| -> BTreeSet<usize> {
            nodes[..count].iter().flat_map(|(_, _, units)| units.iter().copied()).collect()
        };
        // The more is open the better it fits, so the search halves.
        let (mut low, mut high) = (1, nodes.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.fits(&open(middle)).is_some() { high = middle } else { low = middle + 1 }
        }
        let mut set = open(high);
        let mut places = self.fits(&set)?;
        for at in set.clone().into_iter().rev() {
            set.remove(&at);
            match self.fits(&set).filter(|_| !set.is_empty()) {
                Some(found) => places = found,
                None => {
                    set.insert(at);
                }
            }
        }
        Some((set, places))
    }
}

impl Round<'_> {
    /// A place from now on for a job that starts after this grace.
    fn place_later(&mut self, ask: &Ask, grace: Seconds) -> Option<(Placement, TimeLimit)> {
        let now = self.now;
        let limit = crate::start::limit_by_deadline(ask, now.plus(grace))?;
        let span = Span { now, from: now, to: now.plus(grace).plus_limit(limit) };
        if !self.cache.world.licences_fit(ask, span) {
            return None;
        }
        let mut walk = Walk::blank(self.state, 0, now);
        let picks = self.picks_now(&mut walk, None, ask, span)?;
        Some((self.cache.world.materialise(ask, &picks, span)?, limit))
    }

    /// Takes off the world what a victim would give up.
    pub(super) fn step_aside(&mut self, job: &Arc<Job>, mode: PreemptMode) {
        match mode {
            PreemptMode::Suspend => self.rehold(job, |placement| {
                take_no_cpus(placement);
            }),
            // Its script runs on the first.
            PreemptMode::Shrink => self.rehold(job, |placement| placement.nodes.truncate(1)),
            _ => {
                if let Some(placement) = &job.placement {
                    self.cache.world.release(job.id, placement);
                }
            }
        }
    }

    pub(super) fn step_back(&mut self, job: &Arc<Job>, mode: PreemptMode) {
        if matches!(mode, PreemptMode::Suspend | PreemptMode::Shrink) {
            self.rehold(job, |_| {});
        } else {
            self.cache.world.hold_as(self.state, job);
        }
    }
}
