//! Sets of domains, how good they are, and how many nodes each gives.

use super::joint::Joint;
use crate::select::Candidate;
use std::cmp::Reverse;
use std::sync::Arc;

/// Candidates that are under the same domains at every level.
#[derive(Clone, Debug)]
pub(crate) struct Cell<'a> {
    /// By level: the domain; nodes without one are each under their own.
    path: Arc<[u64]>,
    /// In order of preference, those that have to be chosen first.
    pub(crate) members: Vec<&'a Candidate>,
    forced: u32,
    /// The most that it gives, in whole units.
    room: u32,
}

/// How many nodes each of some cells gives, in the order in which they are filled.
pub(crate) type Shares = Vec<(usize, u32)>;

/// How good a set of nodes is: less is better.
///
/// Domains of the preferred level; the lowest level that holds all; the numbers of domains below
/// it, from the top down; pairs of nodes that share a domain of the lowest level; what is left over
/// in the domains that are used, from that level down and then up; and the nodes' own preference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    preferred: usize,
    height: usize,
    domains: Vec<usize>,
    pairs: Reverse<u64>,
    spare: Vec<u64>,
    rank: u64,
    first: usize,
}

/// The cells of some candidates, in rank order of the topology.
pub(crate) fn cells<'a>(
    joint: &Joint<'_>,
    candidates: &[&'a Candidate],
    unit: u32,
    spreads: bool,
) -> Vec<Cell<'a>> {
    let paths = joint.map.paths();
    let mut by_path: Vec<Vec<&'a Candidate>> = vec![Vec::new(); paths.len().max(1)];
    for candidate in candidates {
        by_path[joint.map.cell(candidate.node)].push(candidate);
    }
    let used = by_path.into_iter().enumerate().filter(|(_, members)| !members.is_empty());
    used.map(|(number, mut members)| {
        members.sort_by_key(|c| (!c.forced, c.rank));
        let forced = members.iter().filter(|c| c.forced).count() as u32;
        let whole = members.len() as u32 / unit * unit;
        let room = if spreads { whole.min(unit) } else { whole };
        Cell { path: paths.get(number).cloned().unwrap_or_default(), members, forced, room }
    })
    .collect()
}

impl Cell<'_> {
    pub(crate) fn domain(&self, level: usize) -> u64 {
        self.path[level]
    }

    pub(crate) fn room(&self) -> u32 {
        self.room
    }

    /// The least it gives where it is used.
    fn least(&self, unit: u32) -> u32 {
        self.forced.div_ceil(unit).max(1) * unit
    }

    pub(crate) fn is_forced(&self) -> bool {
        self.forced > 0
    }
}

/// Fills exactly these cells: the largest to the brim, and at least a unit from each.
///
/// That makes the most pairs, as the numbers are then as uneven as can be.
pub(crate) fn fill(cells: &[Cell<'_>], set: &[usize], count: u32, unit: u32) -> Option<Shares> {
    let mut order: Vec<usize> = set.to_vec();
    order.sort_by_key(|at| (Reverse(cells[*at].room), *at));
    let least = order.iter().try_fold(0u32, |sum, at| {
        let cell = &cells[*at];
        let least = cell.least(unit);
        (least <= cell.room).then(|| sum.saturating_add(least))
    })?;
    let mut left = count.checked_sub(least)?;
    let mut shares = Shares::with_capacity(order.len());
    for at in order {
        let least = cells[at].least(unit);
        let more = (cells[at].room - least).min(left);
        left -= more;
        shares.push((at, least + more));
    }
    (left == 0).then_some(shares)
}

/// How many candidates each domain has, by level: the domains ascending.
pub(crate) struct Sums(Vec<Vec<(u64, u64)>>);

impl Sums {
    /// Of paths with how many candidates are there.
    pub(crate) fn of<'p>(
        levels: usize,
        paths: &(impl Iterator<Item = (&'p [u64], u64)> + Clone),
    ) -> Self {
        let of_level = |level: usize| {
            let mut sums: Vec<(u64, u64)> =
                paths.clone().map(|(path, count)| (path[level], count)).collect();
            sums.sort_unstable_by_key(|(domain, _)| *domain);
            sums.dedup_by(|next, sum| {
                let same = next.0 == sum.0;
                sum.1 += if same { next.1 } else { 0 };
                same
            });
            sums
        };
        Self((0..levels).map(of_level).collect())
    }

    pub(crate) fn of_cells(joint: &Joint<'_>, cells: &[Cell<'_>]) -> Self {
        let paths = cells.iter().map(|cell| (&cell.path[..], cell.members.len() as u64));
        Self::of(joint.map.levels(), &paths)
    }

    /// How many are in a domain.
    pub(crate) fn in_domain(&self, level: usize, domain: u64) -> u64 {
        let sums = &self.0[level];
        sums.binary_search_by_key(&domain, |sum| sum.0).map_or(0, |at| sums[at].1)
    }
}

/// The score of nodes taken in these numbers, the preferred ones of each cell.
pub(crate) fn score(joint: &Joint<'_>, cells: &[Cell<'_>], sums: &Sums, shares: &Shares) -> Score {
    let levels = joint.map.levels();
    let used = |level: usize| {
        let mut domains: Vec<u64> = shares.iter().map(|(at, _)| cells[*at].path[level]).collect();
        domains.sort_unstable();
        domains.dedup();
        domains
    };
    let by_level: Vec<Vec<u64>> = (0..levels).map(used).collect();
    let height = by_level.iter().position(|domains| domains.len() == 1).unwrap_or(levels);
    let count: u64 = shares.iter().map(|(_, n)| u64::from(*n)).sum();
    let spare = |level: usize| {
        let inside = by_level[level].iter().map(|domain| sums.in_domain(level, *domain));
        inside.sum::<u64>() - count
    };
    let down = (0..levels.min(height + 1)).rev();
    let up = height + 1..levels;
    let taken = shares.iter().flat_map(|(at, n)| cells[*at].members.iter().take(*n as usize));
    Score {
        preferred: joint.preferred.map_or(0, |level| by_level[level].len()),
        height,
        domains: by_level[..height].iter().rev().map(Vec::len).collect(),
        pairs: Reverse(shares.iter().map(|(_, n)| u64::from(*n) * u64::from(n - 1) / 2).sum()),
        spare: down.chain(up).map(spare).collect(),
        rank: taken.map(|c| c.rank as u64).sum(),
        first: shares.iter().map(|(at, _)| *at).min().unwrap_or(0),
    }
}
