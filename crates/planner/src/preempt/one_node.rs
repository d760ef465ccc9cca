//! Room on one node, for a job that has all it asks for on one: the common case, and the only one
//! among pods.
//!
//! Each node is a question of its own: which of the jobs on it are the cheapest that are enough? A
//! node is looked at where the least that it could cost is less than the best that is known, so
//! among many nodes that are alike one look is enough. What is found on a node counts once the whole
//! world says so, with limits and the jobs beside it.
//!
//! Cost: once a round and rank a look at every running job; for a job one at what each node's jobs
//! have, and on each node that is opened as many layouts of that node as it has jobs, or as the
//! sets of at most ten.

use super::permit::Asker;
use super::search::{Found, Terms, Trial, longest};
use super::units::{Cost, Unit, cost_of};
use super::{Rank, rank_of};
use crate::ask::Ask;
use crate::free::{NodeView, Span};
use crate::round::Round;
use crate::wants::{Floor, Tasks};
use muster_model::{Exclusive, Job, JobId, PreemptMode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Up to so many units of a node every set is tried.
const ALL_SETS: usize = 10;

/// So many sets may turn out not to be enough after all.
const FAILURES_MAX: u32 = 32;

/// Everything of an asker that decides whom it may preempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    rank: Option<Rank>,
    /// Who is inside a guarantee makes no room for others' accounts.
    account: String,
    tier: u32,
    inside: Option<String>,
}

/// Whom an asker may preempt, the cheapest first, and who of them is on which node.
pub(super) struct Units {
    all: Vec<Unit>,
    on_node: BTreeMap<usize, Vec<usize>>,
}

/// A node that may do, by the least that it could cost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    least: Cost,
    node: usize,
    ask: usize,
}

/// What there is to know of a search.
pub(super) enum OneNode {
    /// The best there is.
    Found(Found),
    /// Nothing on any node is enough.
    Nothing,
    /// What was enough on its node was not in the world.
    Unsure,
}

impl Round<'_> {
    /// The cheapest on any one node without whom the job would start.
    pub(super) fn search_one_node(
        &mut self,
        asks: &[&Ask],
        asker: Asker<'_>,
        job: &Arc<Job>,
    ) -> OneNode {
        let units = self.units_of(asker);
        let mut candidates = self.candidates(asks, &units);
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        let mut open: BTreeSet<(Cost, Vec<usize>)> = BTreeSet::new();
        let mut failures = 0;
        loop {
            let best = open.first().map(|found| found.0);
            match candidates.last().copied() {
                Some(next) if best.is_none_or(|best| next.least < best) => {
                    candidates.pop();
                    open.extend(self.cheapest_on(asks[next.ask], next.node, &units));
                    continue;
                }
                _ => {}
            }
            let Some((_, set)) = open.pop_first() else {
                return if failures > 0 { OneNode::Unsure } else { OneNode::Nothing };
            };
            let chosen: Vec<&Unit> = set.iter().filter_map(|at| units.all.get(*at)).collect();
            if let Some(found) = self.confirmed(asks, job, &chosen) {
                return OneNode::Found(found);
            }
            failures += 1;
            if failures >= FAILURES_MAX {
                return OneNode::Unsure;
            }
        }
    }

    /// Whom an asker may preempt; worked out once a round for all of one standing.
    fn units_of(&mut self, asker: Asker<'_>) -> Arc<Units> {
        let standing = Standing {
            rank: rank_of(self.state, asker.job),
            account: asker.job.spec.account.clone(),
            tier: asker.tier,
            inside: asker.inside.map(str::to_owned),
        };
        if let Some((known, units)) = &self.preempting.units
            && *known == standing
        {
            return Arc::clone(units);
        }
        let all = self.permitted_units(&[asker], |_, _| true);
        let mut on_node: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, unit) in all.iter().enumerate() {
            let placements = unit.jobs.iter().filter_map(|job| job.placement.as_ref());
            for share in placements.flat_map(|placement| &placement.nodes) {
                if let Some(node) = self.cache.world.slot_of(share.node) {
                    let there = on_node.entry(node).or_default();
                    if there.last() != Some(&at) {
                        there.push(at);
                    }
                }
            }
        }
        let units = Arc::new(Units { all, on_node });
        self.preempting.units = Some((standing, Arc::clone(&units)));
        units
    }

    /// Those on a node that have not been told to go by this round.
    fn still_there(&self, units: &Units, node: usize) -> Vec<usize> {
        let spared = &self.preempting.spared;
        let stays = |at: &usize| {
            let unit = units.all.get(*at);
            unit.is_some_and(|unit| unit.jobs.iter().all(|job| !spared.contains(&job.id)))
        };
        let there = units.on_node.get(&node).into_iter().flatten();
        there.copied().filter(stays).collect()
    }

    /// The nodes that may do, with what each would cost at least.
    fn candidates(&mut self, asks: &[&Ask], units: &Units) -> Vec<Candidate> {
        let now = self.now;
        let mut candidates = Vec::new();
        for (at, ask) in asks.iter().enumerate() {
            let Some(members) = self.cache.world.members(&ask.partition.name) else { continue };
            let here = Span { now, from: now, to: now };
            for node in units.on_node.keys().copied().filter(|node| members.contains(*node)) {
                self.work.fits += 1;
                let world = &self.cache.world;
                let view = world.view(node);
                let features = &view.node.features;
                if !ask.may_use(view)
                    || !ask.alternatives.iter().any(|way| way.admits(features))
                    || world.view_for(node, ask, here).is_none()
                {
                    continue;
                }
                let there = self.still_there(units, node);
                let free = world.free_now(node);
                let there: Vec<&Unit> = there.iter().filter_map(|at| units.all.get(*at)).collect();
                if let Some(least) = least_cost(ask, view, free, &there) {
                    candidates.push(Candidate { least, node, ask: at });
                }
            }
        }
        candidates
    }

    /// The cheapest units of a node without whom the job would fit there, as far as the node tells.
    fn cheapest_on(&mut self, ask: &Ask, node: usize, units: &Units) -> Option<(Cost, Vec<usize>)> {
        let there = self.still_there(units, node);
        let cost = |set: &[usize]| cost_of(set.iter().filter_map(|at| units.all.get(*at)));
        let mut fits = |set: &[usize]| {
            let chosen: Vec<&Unit> = set.iter().filter_map(|at| units.all.get(*at)).collect();
            self.fits_on(ask, node, &chosen)
        };
        if !fits(&there) {
            return None;
        }
        // The costliest are spared first.
        let mut set = there.clone();
        for at in there.iter().rev() {
            let fewer: Vec<usize> = set.iter().copied().filter(|other| other != at).collect();
            if !fewer.is_empty() && fits(&fewer) {
                set = fewer;
            }
        }
        let mut best = (cost(&set), set);
        if best.1.len() == 1 && there.first() == best.1.first() || best.1.len() == there.len() {
            return Some(best);
        }
        let mut others: Vec<(Cost, Vec<usize>)> = match there.len() {
            n if n <= ALL_SETS => (1u32..1 << n)
                .map(|bits| {
                    let set = (0..n).filter(|at| bits & (1 << at) != 0).map(|at| there[at]);
                    let set: Vec<usize> = set.collect();
                    (cost(&set), set)
                })
                .collect(),
            _ => there.iter().map(|at| (cost(&[*at]), vec![*at])).collect(),
        };
        others.retain(|other| *other < best);
        others.sort_unstable();
        if let Some(found) = others.into_iter().find(|(_, set)| fits(set)) {
            best = found;
        }
        Some(best)
    }

    /// True where the job fits on a node, by what it has, once these are gone.
    fn fits_on(&mut self, ask: &Ask, node: usize, gone: &[&Unit]) -> bool {
        self.work.fits += 1;
        let now = self.now;
        let Some(limit) = crate::start::limit_by_deadline(ask, now) else { return false };
        let span = Span { now, from: now, to: now.plus_limit(limit) };
        let Some(view) = self.cache.world.view_for(node, ask, span) else { return false };
        let modes: BTreeMap<JobId, PreemptMode> =
            gone.iter().flat_map(|unit| unit.jobs.iter().map(|job| (job.id, unit.mode))).collect();
        let view = view.without(&modes, now);
        let (tasks, share) = layout(ask);
        view.admits(span, ask.kind(), ask.uid) && ask.fits(&view, &view.avail(span), tasks, &share)
    }

    /// What was found on a node, where the world says so too.
    fn confirmed(&mut self, asks: &[&Ask], job: &Arc<Job>, chosen: &[&Unit]) -> Option<Found> {
        let victims = self.victims_of(chosen);
        let terms = Terms { grace: longest(&victims, self.now), limited: true };
        let asks = [asks.to_vec()];
        let mut trial = Trial { round: self, asks: &asks, group: &[job], units: &[] };
        let places = trial.laid(chosen, terms)?;
        trial.is_covered(chosen, &places).then_some(Found { places, victims })
    }
}

/// How many tasks and GPUs the job has where it has all on one node.
fn layout(ask: &Ask) -> (u32, Vec<u32>) {
    let tasks = match ask.tasks {
        Tasks::Total(all) | Tasks::Each(all) => all,
        Tasks::PerGpu(_) => 1,
    };
    (tasks, ask.job_gpus.iter().map(|wanted| wanted.1).collect())
}

/// The least that a set of these can cost without whom the job would fit there; `None` where not
/// even all of them have what is lacking. Each part of the cost by itself is the least there is, so
/// no set costs less.
fn least_cost(ask: &Ask, view: &NodeView, free: Floor, there: &[&Unit]) -> Option<Cost> {
    let need = ask.least_on(view);
    let mut has: [Vec<u64>; 3] = Default::default();
    for unit in there {
        let jobs = || unit.jobs.iter().map(|job| job.id);
        let mut gives = [0u64; 3];
        for held in view.holdings.iter().filter(|held| jobs().any(|job| job == held.job)) {
            // Who is alone there has all its CPUs.
            let cpus = if held.kind == Exclusive::No { held.cpu_count } else { u32::MAX };
            gives[0] += u64::from(cpus);
            if unit.mode != PreemptMode::Suspend {
                gives[1] += u64::from(held.devices.count_ones());
                gives[2] = gives[2].saturating_add(held.memory);
            }
        }
        has.iter_mut().zip(gives).for_each(|(all, one)| all.push(one));
    }
    let lacking = [
        u64::from(need.cpus.saturating_sub(free.cpus)),
        u64::from(need.gpus.saturating_sub(free.gpus)),
        need.memory.saturating_sub(free.memory),
    ];
    let mut fewest = 1;
    for (all, lacking) in has.iter_mut().zip(lacking) {
        fewest = fewest.max(enough(all, lacking)?);
    }
    let costs = || there.iter().map(|unit| unit.cost);
    let least = |part: fn(&Cost) -> u64| {
        let mut all: Vec<u64> = costs().map(|cost| part(&cost)).collect();
        all.sort_unstable();
        all.truncate(fewest);
        all
    };
    let sum = |part: fn(&Cost) -> u64| least(part).into_iter().fold(0u64, u64::saturating_add);
    let most = |part: fn(&Cost) -> u64| least(part).into_iter().max().unwrap_or(0);
    Some(Cost {
        over: most(|cost| cost.over),
        broken: sum(|cost| cost.broken),
        highest: most(|cost| cost.highest),
        first: sum(|cost| cost.first),
        second: sum(|cost| cost.second),
        third: sum(|cost| cost.third),
        age: sum(|cost| cost.age),
    })
}

/// How many of these are the fewest that have so much together.
fn enough(all: &mut [u64], lacking: u64) -> Option<usize> {
    all.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = lacking;
    for (at, one) in all.iter().enumerate() {
        if left == 0 {
            return Some(at);
        }
        left = left.saturating_sub(*one);
    }
    (left == 0).then_some(all.len())
}
