//! Few leaf switches for one job (`--switches`): what is tried where the nearest nodes do not do.

use crate::select::Candidate;
use crate::topology::Joint;
use std::collections::BTreeMap;

/// At most so many groups of switches are tried.
const GROUPS_MAX: usize = 200;

/// The candidates under at most `count` leaf switches: one list for each group of switches, the
/// groups with the fewest nodes first where there is one switch, so that the large stay whole. All
/// nodes without a switch count as under the same.
pub(crate) fn groups(
    joint: &Joint<'_>,
    candidates: &[Candidate],
    count: usize,
) -> Vec<Vec<Candidate>> {
    let leaf = joint.map.domains_of(joint.leaf());
    let mut by_leaf: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
    for candidate in candidates {
        by_leaf.entry(leaf[candidate.node]).or_default().push(candidate.clone());
    }
    if by_leaf.len() <= count {
        return Vec::new();
    }
    let mut leaves: Vec<Vec<Candidate>> = by_leaf.into_values().collect();
    leaves.sort_by_key(Vec::len);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    choose(leaves.len(), count.max(1), 0, &mut Vec::new(), &mut groups);
    let join = |group: &Vec<usize>| {
        let mut all: Vec<Candidate> = group.iter().flat_map(|at| leaves[*at].clone()).collect();
        all.sort_by_key(|c| c.rank);
        all
    };
    let mut found: Vec<Vec<Candidate>> = groups.iter().map(join).collect();
    if groups.len() == GROUPS_MAX {
        // Not all were listed: the largest switches together are the best that is left.
        found.push(join(&(leaves.len() - count.min(leaves.len())..leaves.len()).collect()));
    }
    found
}

/// All choices of `left` more out of `from..total`, in order, as many as there may be.
fn choose(
    total: usize,
    left: usize,
    from: usize,
    chosen: &mut Vec<usize>,
    groups: &mut Vec<Vec<usize>>,
) {
    if groups.len() == GROUPS_MAX {
        return;
    }
    if left == 0 {
        groups.push(chosen.clone());
        return;
    }
    for at in from..total {
        chosen.push(at);
        choose(total, left - 1, at + 1, chosen, groups);
        chosen.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_choices_are_listed_once() {
        let mut groups = Vec::new();
        choose(4, 2, 0, &mut Vec::new(), &mut groups);
        assert_eq!(groups, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
    }
}
