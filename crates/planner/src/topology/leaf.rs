//! The nearest nodes of a job that says nothing about distance, where one domain of the lowest level
//! holds all of it: counted by domain, where module `choose` lists sets of nodes.
//!
//! The domain is the one that `choose` would take: the one that has the least left over, then the one
//! above which the least is left, then the one with the preferred nodes. Work: a look at each
//! candidate and at each domain.

use super::joint::Joint;
use super::score::Sums;

/// The candidates of one domain.
#[derive(Clone, Copy, Debug, Default)]
struct Leaf {
    nodes: u64,
    /// The ranks of the first ones, as many as the job takes.
    rank: u64,
}

/// The candidates by domain of the lowest level.
pub(crate) struct Leaves<'a> {
    joint: &'a Joint<'a>,
    count: u64,
    /// By number of the path ([`super::Map::paths`]).
    by_path: Vec<Leaf>,
    /// The weight of all of them.
    weight: Option<u32>,
    /// They have several weights: then light ones come before near ones.
    uneven: bool,
}

impl<'a> Leaves<'a> {
    /// For a job of so many nodes; `None` where it is not by nearness alone that nodes are chosen.
    pub(crate) fn new(joint: &'a Joint<'a>, count: u32) -> Option<Self> {
        let by_nearness = count > 1
            && joint.map.has_whole_leaves()
            && !joint.is_asked()
            && !joint.is_segmented(count)
            && joint.preferred.is_none()
            && joint.fence.is_open()
            && joint.within(count).is_empty();
        let by_path = || vec![Leaf::default(); joint.map.paths().len()];
        by_nearness.then(|| Self {
            joint,
            count: u64::from(count),
            by_path: by_path(),
            weight: None,
            uneven: false,
        })
    }

    /// Takes up a candidate; they come in order of their ranks.
    pub(crate) fn add(&mut self, node: usize, rank: usize, weight: u32) {
        self.uneven |= *self.weight.get_or_insert(weight) != weight;
        let Some(leaf) = self.by_path.get_mut(self.joint.map.cell(node)) else { return };
        if leaf.nodes < self.count {
            leaf.rank += rank as u64;
        }
        leaf.nodes += 1;
    }

    /// True where there is no candidate yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.weight.is_none()
    }

    /// The number of the best path whose domain holds the job; `None` where none does, or where
    /// more than that decides.
    pub(crate) fn best(&self) -> Option<usize> {
        if self.uneven {
            return None;
        }
        let large = self.by_path.iter().map(|leaf| leaf.nodes).filter(|n| *n >= self.count);
        let tightest = large.min()?;
        let paths = self.joint.map.paths();
        let used = paths.iter().zip(&self.by_path).map(|(path, leaf)| (&path[..], leaf.nodes));
        let sums = Sums::of(self.joint.map.levels(), &used);
        let above = |path: &[u64]| -> Vec<u64> {
            let levels = path.iter().enumerate().skip(1);
            levels.map(|(level, domain)| sums.in_domain(level, *domain)).collect()
        };
        let fits = self.by_path.iter().enumerate().filter(|(_, leaf)| leaf.nodes == tightest);
        let key = |(at, leaf): (usize, &Leaf)| (above(&paths[at]), leaf.rank, at);
        fits.map(key).min().map(|(_, _, at)| at)
    }
}
