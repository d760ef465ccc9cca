//! Sets of CPU numbers of one node.

use serde::{Deserialize, Serialize, de};
use std::fmt;

/// The largest CPU number that a set may hold.
pub const CPU_MAX: u32 = 16_383;

/// A set of CPU numbers, printed and stored in the kernel's list form: `0-3,8`.
///
/// The form is that of `cpuset.cpus` (Linux, `Documentation/admin-guide/cgroup-v2.rst`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    /// No CPU.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// CPUs `0..count`.
    pub fn first(count: u32) -> Self {
        (0..count).collect()
    }

    /// Adds a CPU. Numbers above [`CPU_MAX`] are left out.
    pub fn insert(&mut self, cpu: u32) {
        if cpu > CPU_MAX {
            return;
        }
        let word = (cpu / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % 64);
    }

    /// Takes a CPU out.
    pub fn remove(&mut self, cpu: u32) {
        if let Some(word) = self.words.get_mut((cpu / 64) as usize) {
            *word &= !(1 << (cpu % 64));
        }
        self.trim();
    }

    /// True where the CPU is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.words.get((cpu / 64) as usize).is_some_and(|w| w & (1 << (cpu % 64)) != 0)
    }

    /// How many CPUs.
    pub fn len(&self) -> u32 {
        self.words.iter().map(|w| w.count_ones()).sum()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(i, word)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| i as u32 * 64 + bit)
        })
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a |= b;
        }
    }

    /// Takes all of `other` out.
    pub fn remove_all(&mut self, other: &Self) {
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a &= !b;
        }
        self.trim();
    }

    /// True where the two share a CPU.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// What both hold.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut set =
            Self { words: self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect() };
        set.trim();
        set
    }

    /// True where every CPU of `self` is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|cpu| other.contains(cpu))
    }

    /// Reads the kernel's list form. An empty text is the empty set.
    ///
    /// # Errors
    /// Returns the piece that is not a number or an ascending range within [`CPU_MAX`].
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut set = Self::new();
        for piece in text.trim().split(',').filter(|p| !p.is_empty()) {
            let (low, high) = piece.split_once('-').unwrap_or((piece, piece));
            let bad = || piece.to_owned();
            let low: u32 = low.parse().map_err(|_| bad())?;
            let high: u32 = high.parse().map_err(|_| bad())?;
            if high < low || high > CPU_MAX {
                return Err(bad());
            }
            for cpu in low..=high {
                set.insert(cpu);
            }
        }
        Ok(set)
    }

    /// Equal sets have equal words: no trailing zero words.
    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut first = true;
        while let Some(low) = cpus.next() {
            let mut high = low;
            while cpus.peek() == Some(&(high + 1)) {
                high += 1;
                cpus.next();
            }
            if !first {
                f.write_str(",")?;
            }
            first = false;
            if high == low { write!(f, "{low}")? } else { write!(f, "{low}-{high}")? }
        }
        Ok(())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Self::parse(&text).map_err(|p| de::Error::custom(format!("not a CPU list: {p:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_reads_the_kernels_form() {
        let set: CpuSet = [0, 1, 2, 3, 8, 100].into_iter().collect();
        assert_eq!(set.to_string(), "0-3,8,100");
        assert_eq!(CpuSet::parse("0-3,8,100\n"), Ok(set));
        assert_eq!(CpuSet::parse("3-1"), Err("3-1".to_owned()));
        assert_eq!(CpuSet::parse("0-99999999"), Err("0-99999999".to_owned()));
    }

    #[test]
    fn equal_sets_are_equal_whatever_was_in_them_before() {
        let mut a = CpuSet::first(100);
        a.remove_all(&(50..100).collect());
        assert_eq!(a, CpuSet::first(50));
        assert!(!a.intersects(&(50..60).collect()));
    }
}
