//! Groups of waiting jobs in an order, which is searched without a look at each of them.
//!
//! For each number of CPUs a search tree that is balanced by chance (a treap: Seidel and Aragon,
//! Algorithmica 1996), the chance being a mix of the job's number, so that the same jobs make the same
//! tree. Each branch knows the least of what is searched for, so the first that does is found in a
//! walk from the root to it.

use muster_model::{JobId, Timestamp};
use std::collections::BTreeMap;

/// Where a group stands: its rank, and the first of its jobs.
pub(super) type Key = (u128, Timestamp, JobId);

/// What is searched for: no more than a bound in one of these.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// So many seconds it is taken to be there.
    Length = 0,
    /// The millisecond from which its likely time there is reckoned: that of its submission less what
    /// it is likely to run.
    Stay = 1,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Key,
    group: u32,
    values: [i64; 2],
    least: [i64; 2],
    /// The heap's order.
    chance: u64,
    left: u32,
    right: u32,
}

/// The trees.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    nodes: Vec<Node>,
    vacant: Vec<u32>,
    roots: BTreeMap<u32, u32>,
}

/// A mix of a number's bits (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
const fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Lines {
    /// The numbers of CPUs that somebody waits for, up to the largest of interest.
    pub(super) fn sizes(&self, most: u32) -> impl Iterator<Item = u32> {
        self.roots.range(..=most).map(|(cpus, _)| *cpus)
    }

    pub(super) fn insert(&mut self, cpus: u32, key: Key, group: u32, values: [i64; 2]) {
        let chance = mixed(u64::from(key.2.0));
        let new = Node { key, group, values, least: values, chance, left: NONE, right: NONE };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.nodes[at as usize] = new;
                at
            }
            None => {
                self.nodes.push(new);
                (self.nodes.len() - 1) as u32
            }
        };
        let root = self.roots.get(&cpus).copied().unwrap_or(NONE);
        let root = self.put(root, at);
        self.roots.insert(cpus, root);
    }

    pub(super) fn remove(&mut self, cpus: u32, key: Key) {
        let Some(root) = self.roots.get(&cpus).copied() else { return };
        match self.cut(root, key) {
            NONE => self.roots.remove(&cpus),
            root => self.roots.insert(cpus, root),
        };
    }

    /// The first group of a size after a place that is within the bound.
    pub(super) fn first(
        &self,
        cpus: u32,
        after: Option<Key>,
        by: By,
        bound: i64,
        looked_at: &mut u64,
    ) -> Option<(Key, u32)> {
        let root = self.roots.get(&cpus)?;
        let found = self.search(*root, after, by as usize, bound, looked_at);
        (found != NONE).then(|| (self.nodes[found as usize].key, self.nodes[found as usize].group))
    }

    fn search(
        &self,
        at: u32,
        after: Option<Key>,
        by: usize,
        bound: i64,
        looked_at: &mut u64,
    ) -> u32 {
        let Some(node) = self.nodes.get(at as usize).filter(|_| at != NONE) else { return NONE };
        *looked_at += 1;
        if node.least[by] > bound {
            return NONE;
        }
        if after.is_some_and(|after| node.key <= after) {
            return self.search(node.right, after, by, bound, looked_at);
        }
        let before = self.search(node.left, after, by, bound, looked_at);
        if before != NONE {
            return before;
        }
        if node.values[by] <= bound {
            return at;
        }
        self.search(node.right, None, by, bound, looked_at)
    }

    /// The node with what is below it counted anew.
    fn summed(&mut self, at: u32) -> u32 {
        let node = self.nodes[at as usize];
        let below = [node.left, node.right].into_iter().filter(|below| *below != NONE);
        let least = below.fold(node.values, |least, below| {
            let other = self.nodes[below as usize].least;
            [least[0].min(other[0]), least[1].min(other[1])]
        });
        self.nodes[at as usize].least = least;
        at
    }

    fn put(&mut self, root: u32, new: u32) -> u32 {
        if root == NONE {
            return new;
        }
        let (top, added) = (self.nodes[root as usize], self.nodes[new as usize]);
        if (added.chance, added.key) > (top.chance, top.key) {
            let (left, right) = self.split(root, added.key);
            self.nodes[new as usize].left = left;
            self.nodes[new as usize].right = right;
            return self.summed(new);
        }
        if added.key < top.key {
            self.nodes[root as usize].left = self.put(top.left, new);
        } else {
            self.nodes[root as usize].right = self.put(top.right, new);
        }
        self.summed(root)
    }

    /// What is before a key, and what is not.
    fn split(&mut self, root: u32, key: Key) -> (u32, u32) {
        if root == NONE {
            return (NONE, NONE);
        }
        let node = self.nodes[root as usize];
        if node.key < key {
            let (left, right) = self.split(node.right, key);
            self.nodes[root as usize].right = left;
            (self.summed(root), right)
        } else {
            let (left, right) = self.split(node.left, key);
            self.nodes[root as usize].left = right;
            (left, self.summed(root))
        }
    }

    fn cut(&mut self, root: u32, key: Key) -> u32 {
        if root == NONE {
            return NONE;
        }
        let node = self.nodes[root as usize];
        if node.key == key {
            self.vacant.push(root);
            return self.join(node.left, node.right);
        }
        if key < node.key {
            self.nodes[root as usize].left = self.cut(node.left, key);
        } else {
            self.nodes[root as usize].right = self.cut(node.right, key);
        }
        self.summed(root)
    }

    fn join(&mut self, left: u32, right: u32) -> u32 {
        if left == NONE || right == NONE {
            return left.min(right);
        }
        let (a, b) = (self.nodes[left as usize], self.nodes[right as usize]);
        if (a.chance, a.key) > (b.chance, b.key) {
            self.nodes[left as usize].right = self.join(a.right, right);
            self.summed(left)
        } else {
            self.nodes[right as usize].left = self.join(left, b.left);
            self.summed(right)
        }
    }
}
