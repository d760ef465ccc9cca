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
    Amounts, Job, JobId, Placement, PreemptMode, Seconds, TimeLimit, Timestamp, Victim, VictimOrder,
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
    cost: Cost,
}

/// What a set of victims costs; units add up, but for the distance of owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    /// How near the nearest of the owners is to its guarantee, where borrowed quota is taken back:
    /// who is furthest beyond gives first.
    over: u64,
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
        let (state, now) = (self.state, self.now);
        let order = state.policy.preemption.order;
        let mut permitted: BTreeMap<JobId, Vec<(Arc<Job>, Permit)>> = BTreeMap::new();
        for job in state.index.active.iter().filter_map(|id| state.jobs.get(id)) {
            self.work.slots += 1;
            if self.preempting.spared.contains(&job.id) || !could_help(&self.cache.world, asks, job)
            {
                continue;
            }
            let permits = self.permits();
            let mut permit = None;
            for asker in askers {
                match permits.permit(*asker, job) {
                    Ok(found) => permit = Some(permit.map_or(found, |p: Permit| weaker(p, found))),
                    Err(_) => {
                        permit = None;
                        break;
                    }
                }
            }
            if let Some(permit) = permit {
                let with = crate::together::running_with(state, job);
                let leader = with.first().copied().unwrap_or(job.id);
                permitted.entry(leader).or_default().push((Arc::clone(job), permit));
            }
        }
        let mut units: Vec<Unit> = Vec::new();
        for members in permitted.into_values() {
            let Some((first, permit)) = members.first() else { continue };
            if members.len() != crate::together::running_with(state, first).len() {
                continue;
            }
            let permit = members.iter().fold(*permit, |all, (_, permit)| weaker(all, *permit));
            let mut cost = Cost::default();
            for (job, _) in &members {
                let (gpus, cpus) = lost(job, permit.mode, now);
                let age = now.millis().saturating_sub(job.placed.unwrap_or(now).millis());
                let quotas = self.permits().quotas.as_ref();
                let over = quotas.filter(|_| permit.reclaims()).map_or(0, |quotas| {
                    u64::from(u32::MAX).saturating_sub(quotas.excess(state, job))
                });
                let age = u64::try_from(age).unwrap_or(0);
                cost = cost.plus(match order {
                    VictimOrder::Fewest => Cost { over, first: 1, second: gpus, third: cpus, age },
                    VictimOrder::LeastLost => {
                        Cost { over, first: gpus, second: cpus, third: 1, age }
                    }
                });
            }
            let jobs = members.into_iter().map(|(job, _)| job).collect();
            units.push(Unit { jobs, mode: permit.mode, reclaims: permit.reclaims(), cost });
        }
        units.sort_by_key(|unit| (unit.cost, Reverse(unit.jobs.first().map(|job| job.id))));
        units.truncate(UNITS_MAX);
        units
    }
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
                (set.iter().fold(Cost::default(), |sum, at| sum.plus(self.units[*at].cost)), set)
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
                pairs.push((self.units[a].cost.plus(self.units[b].cost), a, b));
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
        let mut on_node: BTreeMap<muster_model::NodeId, (Cost, BTreeSet<usize>)> = BTreeMap::new();
        for (at, unit) in self.units.iter().enumerate() {
            let placements = unit.jobs.iter().filter_map(|job| job.placement.as_ref());
            for share in placements.flat_map(|p| &p.nodes) {
                let entry = on_node.entry(share.node).or_default();
                if entry.1.insert(at) {
                    entry.0 = entry.0.plus(unit.cost);
                }
            }
        }
        let mut nodes: Vec<(Cost, muster_model::NodeId, BTreeSet<usize>)> =
            on_node.into_iter().map(|(node, (cost, units))| (cost, node, units)).collect();
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
