//! The victims: the cheapest units that are enough for the whole group.
//!
//! A unit is a job, or all components of a heterogeneous one. With few units every set is tried in
//! the order of its cost, so the first that is enough is the best there is. With more, single units
//! and pairs are tried in that order; then nodes are opened, the cheapest first, until the group
//! fits, and whoever is not needed after all is spared, the costliest first. So no victim is ever
//! one without whom it would do.
//!
//! A job that has all it asks for on one node is looked for node by node first (module `one_node`).

use crate::ask::Ask;
use crate::free::Span;
use crate::orders::Orders;
use crate::preempt::claims::take_no_cpus;
use crate::preempt::one_node::OneNode;
use crate::preempt::permit::Asker;
use crate::preempt::units::{Cost, Unit, cost_of};
use crate::preempt::{Place, could_help};
use crate::round::{Round, Walk};
use muster_model::{
    Amounts, Job, NodeId, Placement, PreemptMode, Seconds, TimeLimit, Timestamp, Victim,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Up to so many units every set is tried.
const ALL_SETS: usize = 10;
/// Up to so many units every pair is tried.
const ALL_PAIRS: usize = 48;
/// At most so many single units are tried, the cheapest.
const SINGLES_MAX: usize = 256;
/// At most so many units are looked at, those of the cheapest nodes, nodes whole.
const UNITS_MAX: usize = 4096;

/// The room that was found.
pub(super) struct Found {
    pub(super) places: Vec<Place>,
    pub(super) victims: Vec<Victim>,
}

impl Round<'_> {
    /// Room for a group, and who makes it.
    pub(super) fn search(
        &mut self,
        asks: &[Vec<&Ask>],
        askers: &[Asker<'_>],
        group: &[&Arc<Job>],
    ) -> Option<Found> {
        if let ([asks], [asker], [job]) = (asks, askers, group)
            && asks.iter().all(|ask| is_of_one_node(ask))
        {
            match self.search_one_node(asks, *asker, job) {
                OneNode::Found(found) => return Some(found),
                // Others may stand in its way elsewhere: it wants to be away from them.
                OneNode::Nothing if !asks.iter().any(|ask| looks_elsewhere(ask)) => return None,
                OneNode::Nothing | OneNode::Unsure => {}
            }
        }
        let helps = |round: &Self, job: &Arc<Job>| could_help(&round.cache.world, asks, job);
        let units = whole_nodes(self.permitted_units(askers, helps));
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
        let chosen: Vec<&Unit> = chosen.iter().filter_map(|at| units.get(*at)).collect();
        Some(Found { places, victims: self.victims_of(&chosen) })
    }

    /// The orders of these units.
    pub(super) fn victims_of(&mut self, units: &[&Unit]) -> Vec<Victim> {
        let permits = self.permits();
        let of = |unit: &&Unit| {
            unit.jobs.iter().map(|job| permits.victim(job, unit.mode)).collect::<Vec<_>>()
        };
        units.iter().flat_map(of).collect()
    }
}

/// True where the job has all it asks for on one node, wherever that is.
fn is_of_one_node(ask: &Ask) -> bool {
    let (least, most) = ask.node_bounds().unwrap_or((0, 0));
    let is_one = least == 1 && (most == 1 || !ask.can_be_spread());
    is_one && ask.licences.is_empty() && ask.request.node_list.is_empty()
}

/// True where who runs on other nodes can keep it from one.
fn looks_elsewhere(ask: &Ask) -> bool {
    ask.affinity().is_some_and(muster_model::Affinity::looks_at_jobs)
}

/// The longest that any of these takes to go.
pub(super) fn longest(victims: &[Victim], now: Timestamp) -> Seconds {
    victims.iter().map(|victim| victim.until.since(now)).max().unwrap_or(Seconds(0))
}

/// All units where they are not too many; else those of the cheapest nodes, as long as nodes go in
/// whole.
fn whole_nodes(units: Vec<Unit>) -> Vec<Unit> {
    if units.len() <= UNITS_MAX {
        return units;
    }
    let nodes = by_node(&units);
    let mut kept = BTreeSet::new();
    for (_, _, there) in nodes {
        if kept.len() + there.len() > UNITS_MAX && !kept.is_empty() {
            break;
        }
        kept.extend(there);
    }
    let kept = |(at, unit): (usize, Unit)| kept.contains(&at).then_some(unit);
    units.into_iter().enumerate().filter_map(kept).collect()
}

/// The units of each node, the cheapest nodes first.
fn by_node(units: &[Unit]) -> Vec<(Cost, NodeId, BTreeSet<usize>)> {
    let mut on_node: BTreeMap<NodeId, BTreeSet<usize>> = BTreeMap::new();
    for (at, unit) in units.iter().enumerate() {
        let placements = unit.jobs.iter().filter_map(|job| job.placement.as_ref());
        for share in placements.flat_map(|p| &p.nodes) {
            on_node.entry(share.node).or_default().insert(at);
        }
    }
    let cost = |there: &BTreeSet<usize>| cost_of(there.iter().filter_map(|at| units.get(*at)));
    let mut nodes: Vec<(Cost, NodeId, BTreeSet<usize>)> =
        on_node.into_iter().map(|(node, there)| (cost(&there), node, there)).collect();
    nodes.sort();
    nodes
}

/// Layouts of one group on the world without some units.
pub(super) struct Trial<'t, 'a> {
    pub(super) round: &'t mut Round<'a>,
    pub(super) asks: &'t [Vec<&'t Ask>],
    pub(super) group: &'t [&'t Arc<Job>],
    pub(super) units: &'t [Unit],
}

/// What a layout is held against.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// So long it takes until the room is there: the group may end that much later.
    pub(super) grace: Seconds,
    /// Limits of associations and QOS count.
    pub(super) limited: bool,
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
        let terms = Terms { grace: longest(victims, self.now), limited: true };
        Trial { round: self, asks, group, units: &[] }.places(terms)
    }
}

impl<'t> Trial<'t, '_> {
    /// What a set of units costs.
    fn cost(&self, set: &BTreeSet<usize>) -> Cost {
        cost_of(set.iter().filter_map(|at| self.units.get(*at)))
    }

    /// These units.
    fn chosen(&self, set: &BTreeSet<usize>) -> Vec<&'t Unit> {
        let units = self.units;
        set.iter().filter_map(|at| units.get(*at)).collect()
    }

    /// Where the group would be once these units are gone.
    fn fits(&mut self, open: &BTreeSet<usize>) -> Option<Vec<Place>> {
        let gone = self.chosen(open);
        let terms =
            Terms { grace: longest(&self.round.victims_of(&gone), self.round.now), limited: true };
        let places = self.laid(&gone, terms)?;
        self.is_covered(&gone, &places).then_some(places)
    }

    /// `None` where no set of these units could be enough: not even with all of them gone at once
    /// is there room. Who wants to be near others may find them gone, so nothing is said of those.
    fn could_fit(&mut self, all: &BTreeSet<usize>) -> Option<()> {
        let restless = self.asks.iter().flatten().any(|ask| ask.is_restless());
        let terms = Terms { grace: Seconds(0), limited: false };
        (restless || self.laid(&self.chosen(all), terms).is_some()).then_some(())
    }

    /// Where the group would be without these units; the world is left as it was.
    pub(super) fn laid(&mut self, gone: &[&Unit], terms: Terms) -> Option<Vec<Place>> {
        let jobs: Vec<(&Arc<Job>, PreemptMode)> =
            gone.iter().flat_map(|unit| unit.jobs.iter().map(|job| (job, unit.mode))).collect();
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
    pub(super) fn is_covered(&mut self, gone: &[&Unit], places: &[Place]) -> bool {
        let state = self.round.state;
        let reclaims = gone.iter().any(|unit| unit.reclaims);
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
        (0..self.units.len().min(SINGLES_MAX)).find_map(|at| {
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
        let nodes = by_node(self.units);
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
