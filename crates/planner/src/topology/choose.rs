//! Choosing the nearest nodes of those that could take a part of a job.
//!
//! Up to [`CELLS_EXACT`] groups of nodes under the same domains, every set of groups is weighed and
//! the best is taken: the optimum. Beyond, each domain that could hold the job is filled with as
//! few domains below it as can be, the last of them the tightest that holds the rest; the work is
//! that of sorting the candidates once for each level.

use super::joint::Joint;
use super::map::NONE;
use super::score::{Cell, Score, Shares, Sums, cells, fill, score};
use crate::select::{Candidate, Target, contiguous_run, reaches, select};
use crate::world::World;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Up to so many cells all sets of them are weighed.
const CELLS_EXACT: usize = 8;

/// Up to so many candidates all sets of nodes are tried where nothing else finds one.
const NODES_EXACT: usize = 12;

/// At most so many weights of nodes are told apart.
const WEIGHTS_MAX: usize = 16;

/// Candidates in rank order.
pub(crate) type Chosen<'a> = Vec<&'a Candidate>;

/// Exactly so many candidates that reach every target and obey the rules, the nearest to each
/// other.
///
/// Where the job says nothing about distance, light nodes come before near ones (Slurm's rule).
pub(crate) fn choose<'a>(
    world: &World,
    joint: &Joint<'_>,
    candidates: &'a [Candidate],
    count: u32,
    contiguous: bool,
    targets: &[Target],
) -> Option<Chosen<'a>> {
    if !joint.parts(count) {
        return None;
    }
    let all: Vec<&Candidate> = candidates.iter().collect();
    let search = Search { world, joint, count, contiguous, targets };
    let weight = |c: &&Candidate| world.weight(c.node);
    let first = all.first().map(weight);
    let weights: BTreeSet<u32> = match all.iter().all(|c| Some(weight(c)) == first) {
        true => first.into_iter().collect(),
        false => all.iter().map(weight).collect(),
    };
    if !joint.is_asked() && weights.len() > 1 && weights.len() <= WEIGHTS_MAX {
        for most in weights {
            // A node that the job names is taken whatever its weight is.
            let light: Vec<&Candidate> =
                all.iter().copied().filter(|c| c.forced || weight(c) <= most).collect();
            let found = search.among(&light, |c| world.weight(c.node) < most);
            if let Some(found) = found.or_else(|| search.among(&light, |_| false)) {
                return Some(found);
            }
        }
        return None;
    }
    search.among(&all, |_| false)
}

struct Search<'s> {
    world: &'s World,
    joint: &'s Joint<'s>,
    count: u32,
    contiguous: bool,
    targets: &'s [Target],
}

impl Search<'_> {
    /// The best of these; those that `lighter` says yes to have to be among them.
    fn among<'a>(
        &self,
        candidates: &[&'a Candidate],
        lighter: impl Fn(&Candidate) -> bool,
    ) -> Option<Chosen<'a>> {
        let light = candidates.iter().filter(|c| lighter(c)).count();
        if light > self.count as usize {
            return None;
        }
        let forced = candidates.iter().filter(|c| c.forced).count();
        let groups = self.groups(candidates);
        let fits = |group: &&Vec<&'a Candidate>| {
            group.len() >= self.count as usize
                && group.iter().filter(|c| c.forced).count() == forced
                && group.iter().filter(|c| lighter(c)).count() == light
                && self.could_reach(group)
        };
        let groups: Vec<&Vec<&Candidate>> = groups.iter().filter(fits).collect();
        if self.contiguous {
            let run = |group: &&Vec<&'a Candidate>| {
                contiguous_run(self.world, group, self.count as usize, self.targets)
            };
            return groups.iter().filter_map(run).find(|run| self.is_allowed(run));
        }
        let with_light = |found: &Chosen<'a>| {
            self.is_allowed(found) && found.iter().filter(|c| lighter(c)).count() == light
        };
        self.by_evenness(&groups, &with_light)
            .or_else(|| self.by_nearness(&groups, &with_light))
            .or_else(|| {
                let any = |group: &&Vec<&'a Candidate>| {
                    select(group, self.count as usize, self.targets).filter(with_light)
                };
                groups.iter().find_map(any)
            })
            .or_else(|| groups.iter().find_map(|group| self.try_all(group, &with_light)))
    }

    fn is_allowed(&self, chosen: &[&Candidate]) -> bool {
        let nodes: Vec<usize> = chosen.iter().map(|c| c.node).collect();
        self.joint.allows(&nodes)
    }

    /// The candidates by what all of a job's nodes have to share.
    fn groups<'a>(&self, candidates: &[&'a Candidate]) -> Vec<Vec<&'a Candidate>> {
        let keys = self.joint.within(self.count);
        if keys.is_empty() {
            return vec![candidates.to_vec()];
        }
        let mut groups: BTreeMap<Vec<u32>, Vec<&Candidate>> = BTreeMap::new();
        for candidate in candidates {
            let group: Vec<u32> = keys.iter().map(|key| key[candidate.node]).collect();
            if !group.contains(&NONE) {
                groups.entry(group).or_default().push(candidate);
            }
        }
        groups.into_values().collect()
    }

    /// True where the best by each target alone would reach it.
    fn could_reach(&self, group: &[&Candidate]) -> bool {
        self.targets.iter().enumerate().all(|(at, target)| {
            let mut amounts: Vec<u32> = group.iter().map(|c| c.amounts[at]).collect();
            amounts.sort_unstable_by_key(|n| Reverse(*n));
            let best = amounts.into_iter().take(self.count as usize);
            best.map(u64::from).sum::<u64>() >= *target
        })
    }

    /// One by one where the fewest of the jobs are that are to be spread evenly.
    fn by_evenness<'a>(
        &self,
        groups: &[&Vec<&'a Candidate>],
        is_good: &dyn Fn(&Chosen<'a>) -> bool,
    ) -> Option<Chosen<'a>> {
        let even = self.joint.fence.even.first()?;
        groups.iter().find_map(|group| {
            let mut left: BTreeMap<u32, Vec<&'a Candidate>> = BTreeMap::new();
            for candidate in group.iter().rev() {
                left.entry(even.place(candidate.node)).or_default().push(candidate);
            }
            for members in left.values_mut() {
                members.sort_by_key(|c| c.forced);
            }
            let mut more: BTreeMap<u32, u32> = BTreeMap::new();
            let mut chosen: Chosen<'a> = Vec::new();
            while chosen.len() < self.count as usize {
                let (_, place) = left
                    .iter()
                    .filter_map(|(place, members)| {
                        let next = members.last()?;
                        let here = more.get(place).copied().unwrap_or(0);
                        Some(((even.count_at(next.node) + here, !next.forced, next.rank), *place))
                    })
                    .min()?;
                chosen.extend(left.get_mut(&place).and_then(Vec::pop));
                *more.entry(place).or_default() += 1;
            }
            Some(chosen).filter(|c| reaches(c, self.targets) && is_good(c))
        })
    }

    fn by_nearness<'a>(
        &self,
        groups: &[&Vec<&'a Candidate>],
        is_good: &dyn Fn(&Chosen<'a>) -> bool,
    ) -> Option<Chosen<'a>> {
        let levels = self.joint.map.levels();
        let unit = self.joint.unit(self.count);
        let spreads = self.joint.spreads(self.count);
        let parted: Vec<Vec<Cell<'a>>> =
            groups.iter().map(|g| cells(self.joint, g, unit, spreads)).collect();
        let sums: Vec<Sums> = parted.iter().map(|c| Sums::of_cells(self.joint, c)).collect();
        // Without a preferred level a lower one that holds the job is better whatever lies above.
        let steps: Vec<Vec<usize>> = match self.joint.preferred {
            None => (0..=levels).map(|level| vec![level]).collect(),
            Some(_) => vec![(0..=levels).collect()],
        };
        for step in steps {
            let mut proposals: Vec<(Score, usize, Shares)> = Vec::new();
            for (at, cells) in parted.iter().enumerate() {
                let found = if cells.len() > CELLS_EXACT {
                    step.iter().flat_map(|level| self.filled(cells, *level)).collect()
                } else if step.contains(&0) {
                    self.every_set(cells)
                } else {
                    Vec::new()
                };
                let scored = |shares| (score(self.joint, cells, &sums[at], &shares), at, shares);
                proposals.extend(found.into_iter().map(scored));
            }
            proposals.sort_unstable();
            let found = proposals
                .iter()
                .find_map(|(_, at, shares)| self.take(&parted[*at], shares).filter(|c| is_good(c)));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Every set of cells, filled.
    fn every_set(&self, cells: &[Cell<'_>]) -> Vec<Shares> {
        let unit = self.joint.unit(self.count);
        let must: u32 =
            (0..cells.len()).filter(|at| cells[*at].is_forced()).map(|at| 1 << at).sum();
        (1u32..1 << cells.len())
            .filter(|set| set & must == must)
            .filter_map(|set| {
                let set: Vec<usize> = (0..cells.len()).filter(|at| set & (1 << at) != 0).collect();
                fill(cells, &set, self.count, unit)
            })
            .collect()
    }

    /// Each domain of this level that holds the job, filled; above the highest level, all cells.
    fn filled(&self, cells: &[Cell<'_>], level: usize) -> Vec<Shares> {
        let levels = self.joint.map.levels();
        let mut hosts: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (at, cell) in cells.iter().enumerate() {
            let host = if level < levels { cell.domain(level) } else { 0 };
            hosts.entry(host).or_default().push(at);
        }
        let must = cells.iter().filter(|cell| cell.is_forced()).count();
        hosts
            .into_values()
            .filter(|inside| room(cells, inside) >= u64::from(self.count))
            .filter(|inside| inside.iter().filter(|at| cells[**at].is_forced()).count() == must)
            .filter_map(|mut inside| {
                let first = self.joint.preferred.filter(|preferred| *preferred < level);
                for below in first.into_iter().chain((0..level).rev()) {
                    inside = self.fewest(cells, &inside, below);
                }
                fill(cells, &inside, self.count, self.joint.unit(self.count))
            })
            .collect()
    }

    /// The fewest domains of a level that hold the job: the largest, and for the rest the tightest.
    fn fewest(&self, cells: &[Cell<'_>], inside: &[usize], level: usize) -> Vec<usize> {
        let mut domains: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for at in inside {
            domains.entry(cells[*at].domain(level)).or_default().push(*at);
        }
        let forced = |members: &Vec<usize>| members.iter().any(|at| cells[*at].is_forced());
        let mut order: Vec<(bool, u64, Vec<usize>)> = domains
            .into_values()
            .map(|members| (forced(&members), room(cells, &members), members))
            .collect();
        // Stable: equal ones stay in rank order.
        order.sort_by_key(|(forced, room, _)| (!forced, Reverse(*room)));
        let (mut chosen, mut left) = (Vec::new(), u64::from(self.count));
        for at in 0..order.len() {
            let (must, _, _) = order[at];
            if left == 0 && !must {
                break;
            }
            // The last one is the tightest that holds what is left.
            let is_last = !must && order[at].1 >= left;
            let best = if is_last {
                (at..order.len())
                    .filter(|other| order[*other].1 >= left)
                    .min_by_key(|o| order[*o].1)
            } else {
                Some(at)
            };
            let (_, room, members) = &order[best.unwrap_or(at)];
            chosen.extend(members.iter().copied());
            left = left.saturating_sub(*room);
        }
        chosen.sort_unstable();
        chosen
    }

    /// The nodes that a proposal stands for, where they reach the targets.
    fn take<'a>(&self, cells: &[Cell<'a>], shares: &Shares) -> Option<Chosen<'a>> {
        if !self.joint.is_segmented(self.count) && !self.targets.is_empty() {
            let order: Vec<&Candidate> =
                shares.iter().flat_map(|(at, _)| cells[*at].members.iter().copied()).collect();
            return select(&order, self.count as usize, self.targets);
        }
        let by_preference: Chosen<'a> = shares
            .iter()
            .flat_map(|(at, n)| cells[*at].members.iter().take(*n as usize).copied())
            .collect();
        if reaches(&by_preference, self.targets) {
            return Some(by_preference);
        }
        (0..self.targets.len()).find_map(|dimension| {
            let of_cell = |(at, n): &(usize, u32)| {
                let mut members = cells[*at].members.clone();
                members.sort_by_key(|c| (!c.forced, Reverse(c.amounts[dimension])));
                members.truncate(*n as usize);
                members
            };
            let chosen: Chosen<'a> = shares.iter().flat_map(of_cell).collect();
            reaches(&chosen, self.targets).then_some(chosen)
        })
    }

    /// Every set of nodes, where there are few.
    fn try_all<'a>(
        &self,
        group: &[&'a Candidate],
        is_good: &dyn Fn(&Chosen<'a>) -> bool,
    ) -> Option<Chosen<'a>> {
        if group.len() > NODES_EXACT {
            return None;
        }
        let forced = group.iter().filter(|c| c.forced).count();
        (1u32..1 << group.len()).filter(|set| set.count_ones() == self.count).find_map(|set| {
            let chosen: Chosen<'a> =
                (0..group.len()).filter(|at| set & (1 << at) != 0).map(|at| group[at]).collect();
            let good = chosen.iter().filter(|c| c.forced).count() == forced
                && reaches(&chosen, self.targets)
                && is_good(&chosen);
            good.then_some(chosen)
        })
    }
}

fn room(cells: &[Cell<'_>], inside: &[usize]) -> u64 {
    inside.iter().map(|at| u64::from(cells[*at].room())).sum()
}
