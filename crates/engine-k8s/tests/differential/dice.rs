//! Chance from a seed: the same seed, the same throws, on every machine.

/// A stream of numbers (`SplitMix64`, Steele et al. 2014).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap_or(0)
    }

    /// A number of a range, both ends with it.
    pub(crate) fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to - from + 1)
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, n: usize) -> bool {
        self.below(100) < n
    }

    /// One of these.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    /// A few of these, each at most once, in their order.
    pub(crate) fn some<'a>(&mut self, all: &[&'a str], least: usize, most: usize) -> Vec<&'a str> {
        let mut left = all.to_vec();
        let wanted = self.between(least, most.min(all.len()));
        while left.len() > wanted {
            left.remove(self.below(left.len()));
        }
        left
    }
}
