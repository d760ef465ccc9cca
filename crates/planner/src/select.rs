//! Choosing so many nodes out of the candidates so that together they reach every target.

use crate::world::World;
use std::collections::BTreeMap;

/// The exact search is given up beyond so many steps; what the quick orders find stands then.
const SEARCH_STEPS_MAX: usize = 200_000;

/// An amount that the chosen nodes have to reach together.
pub(crate) type Target = u64;

/// A node that could take a part of the job.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) node: usize,
    /// Its place in the order of preference.
    pub(crate) rank: usize,
    /// It has to be among the chosen.
    pub(crate) forced: bool,
    /// What it adds to each target at most.
    pub(crate) amounts: Vec<u32>,
}

/// Exactly `count` candidates that reach every target; the first ones where several sets do.
///
/// With one target the answer is exact. With more, quick orders are tried first and then an exact
/// search, bounded in steps.
pub(crate) fn select<'a>(
    candidates: &[&'a Candidate],
    count: usize,
    targets: &[Target],
) -> Option<Vec<&'a Candidate>> {
    if count == 0 || count > candidates.len() {
        return None;
    }
    let mut preferred: Vec<&Candidate> = candidates.to_vec();
    preferred.sort_by_key(|c| !c.forced);
    if reaches(&preferred[..count], targets) {
        preferred.truncate(count);
        return Some(preferred);
    }
    for dimension in 0..targets.len() {
        let mut order = preferred.clone();
        order.sort_by_key(|c| (!c.forced, u32::MAX - c.amounts[dimension]));
        let best: u64 = order[..count].iter().map(|c| u64::from(c.amounts[dimension])).sum();
        if best < targets[dimension] {
            return None;
        }
        if reaches(&order[..count], targets) {
            order.truncate(count);
            return Some(order);
        }
    }
    if targets.len() < 2 { None } else { search(&preferred, count, targets) }
}

/// How many candidates it takes at least, by each target alone; `None` where all are too few.
pub(crate) fn fewest(candidates: &[Candidate], targets: &[Target]) -> Option<u32> {
    let mut most = 0;
    for (dimension, target) in targets.iter().enumerate() {
        let mut amounts: Vec<u32> = candidates.iter().map(|c| c.amounts[dimension]).collect();
        amounts.sort_unstable_by_key(|amount| std::cmp::Reverse(*amount));
        let mut sum = 0u64;
        let needed = amounts.iter().position(|amount| {
            sum += u64::from(*amount);
            sum >= *target
        });
        most = most.max(needed? as u32 + 1);
    }
    Some(most)
}

/// True where all of these together reach every target.
pub(crate) fn reach(chosen: &[Candidate], targets: &[Target]) -> bool {
    targets
        .iter()
        .enumerate()
        .all(|(i, target)| chosen.iter().map(|c| u64::from(c.amounts[i])).sum::<u64>() >= *target)
}

/// As [`reach`].
pub(crate) fn reaches(chosen: &[&Candidate], targets: &[Target]) -> bool {
    targets
        .iter()
        .enumerate()
        .all(|(i, target)| chosen.iter().map(|c| u64::from(c.amounts[i])).sum::<u64>() >= *target)
}

/// The exact search: which sums can be reached with how many nodes, node by node.
fn search<'a>(
    preferred: &[&'a Candidate],
    count: usize,
    targets: &[Target],
) -> Option<Vec<&'a Candidate>> {
    // Sums beyond a target count as the target. The value is the set that came first.
    let mut reached: BTreeMap<(usize, Vec<u64>), Vec<usize>> = BTreeMap::new();
    reached.insert((0, vec![0; targets.len()]), Vec::new());
    let mut steps = 0;
    for (at, candidate) in preferred.iter().enumerate() {
        let mut next = if candidate.forced { BTreeMap::new() } else { reached.clone() };
        for ((used, sums), chosen) in &reached {
            steps += 1;
            if steps > SEARCH_STEPS_MAX {
                return None;
            }
            if *used == count {
                continue;
            }
            let sums: Vec<u64> = sums
                .iter()
                .zip(&candidate.amounts)
                .zip(targets)
                .map(|((sum, amount), target)| (sum + u64::from(*amount)).min(*target))
                .collect();
            next.entry((used + 1, sums)).or_insert_with(|| {
                let mut chosen = chosen.clone();
                chosen.push(at);
                chosen
            });
        }
        reached = next;
    }
    let goal = (count, targets.to_vec());
    reached.get(&goal).map(|chosen| chosen.iter().map(|at| preferred[*at]).collect())
}

/// The first run of `count` neighbours in name order that are all candidates, hold every forced
/// one and reach every target; else the first such run over the end of a ring, in its order.
pub(crate) fn contiguous_run<'a>(
    world: &World,
    candidates: &[&'a Candidate],
    count: usize,
    targets: &[Target],
) -> Option<Vec<&'a Candidate>> {
    let by_node: BTreeMap<usize, &'a Candidate> = candidates.iter().map(|c| (c.node, *c)).collect();
    let forced = candidates.iter().filter(|c| c.forced).count();
    if count == 0 {
        return None;
    }
    let good = |run: &[usize]| {
        let run: Vec<&Candidate> =
            run.iter().map(|node| by_node.get(node).copied()).collect::<Option<_>>()?;
        let has_forced = run.iter().filter(|c| c.forced).count() == forced;
        (has_forced && reaches(&run, targets)).then_some(run)
    };
    let over_the_end = |ring: &Vec<usize>| {
        let from = ring.len().checked_sub(count)? + 1;
        let once_more: Vec<usize> = ring.iter().chain(ring).copied().collect();
        once_more[from..ring.len() + count - 1].windows(count).find_map(good)
    };
    world
        .by_name()
        .windows(count)
        .find_map(good)
        .or_else(|| world.map().rings().iter().find_map(over_the_end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(node: usize, amounts: &[u32]) -> Candidate {
        Candidate { node, rank: node, forced: false, amounts: amounts.to_vec() }
    }

    #[test]
    fn two_targets_are_met_together_where_no_single_order_does() {
        // Most of either target comes from nodes that lack the other; only the middle ones do.
        let all = [
            candidate(0, &[10, 0]),
            candidate(1, &[9, 0]),
            candidate(2, &[0, 10]),
            candidate(3, &[0, 9]),
            candidate(4, &[6, 6]),
            candidate(5, &[5, 5]),
        ];
        let nodes = |c: Vec<&Candidate>| c.iter().map(|c| c.node).collect::<Vec<_>>();
        let all: Vec<&Candidate> = all.iter().collect();
        assert_eq!(select(&all, 2, &[11, 11]).map(nodes), Some(vec![4, 5]));
        assert!(select(&all, 2, &[12, 12]).is_none());
    }

    #[test]
    fn what_cannot_be_reached_is_not_chosen() {
        let all = [candidate(0, &[3]), candidate(1, &[4])];
        let all: Vec<&Candidate> = all.iter().collect();
        assert!(select(&all, 2, &[8]).is_none());
        assert!(select(&all, 1, &[5]).is_none());
        assert_eq!(select(&all, 1, &[4]).map(|c| c[0].node), Some(1));
    }
}
