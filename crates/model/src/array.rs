//! Array indices and their throttle.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Which tasks an array has and how many of them may run at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ArraySpec {
    /// The tasks' indices.
    pub indices: IndexRanges,
    /// At most so many tasks run at once; `None` is no bound (`%0` in Slurm's text).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<u32>,
}

/// A set of indices as ascending, disjoint, inclusive ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IndexRanges(Vec<(u32, u32)>);

impl IndexRanges {
    /// Builds the set from inclusive ranges in any order; ranges whose end is below their start are left out.
    pub fn from_ranges(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut sorted: Vec<(u32, u32)> = ranges.into_iter().filter(|(a, b)| a <= b).collect();
        sorted.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(sorted.len());
        for (low, high) in sorted {
            match joined.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => joined.push((low, high)),
            }
        }
        Self(joined)
    }

    /// How many indices.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|(low, high)| high - low + 1).sum()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The largest index.
    pub fn last(&self) -> Option<u32> {
        self.0.last().map(|r| r.1)
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// The indices in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|(low, high)| *low..=*high)
    }

    /// How many indices of the set are below `index`, where `index` is in the set.
    pub fn rank(&self, index: u32) -> Option<u32> {
        let mut before = 0;
        for (low, high) in &self.0 {
            if index < *low {
                return None;
            }
            if index <= *high {
                return Some(before + (index - low));
            }
            before += high - low + 1;
        }
        None
    }
}

impl FromIterator<u32> for IndexRanges {
    fn from_iter<I: IntoIterator<Item = u32>>(indices: I) -> Self {
        Self::from_ranges(indices.into_iter().map(|i| (i, i)))
    }
}

impl fmt::Display for IndexRanges {
    /// Slurm's list form: `1-3,7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (low, high)) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            if low == high { write!(f, "{low}")? } else { write!(f, "{low}-{high}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_ranges_and_counts_ranks() {
        let set = IndexRanges::from_ranges([(5, 7), (1, 1), (3, 3), (2, 2), (3, 3)]);
        assert_eq!(set.to_string(), "1-3,5-7");
        assert_eq!(set.len(), 6);
        assert_eq!(set.rank(5), Some(3));
        assert_eq!(set.rank(4), None);
        assert_eq!(set.last(), Some(7));
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 2, 3, 5, 6, 7]);
    }
}
