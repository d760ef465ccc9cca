//! Which nodes a partition has.

/// The nodes of a partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    list: Vec<usize>,
    words: Vec<u64>,
}

impl Members {
    pub(crate) fn contains(&self, node: usize) -> bool {
        self.words.get(node / 64).is_some_and(|w| w & (1 << (node % 64)) != 0)
    }

    pub(crate) fn list(&self) -> &[usize] {
        &self.list
    }

    pub(crate) fn insert(&mut self, node: usize) {
        if self.words.len() <= node / 64 {
            self.words.resize(node / 64 + 1, 0);
        }
        self.words[node / 64] |= 1 << (node % 64);
        self.list.push(node);
    }
}

/// Which nodes of a bare world may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bare {
    /// Those that are up and not drained.
    Usable,
    /// All, with every device healthy.
    All,
}
