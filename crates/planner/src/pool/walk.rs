//! A walk through the waiting jobs of a pool in an order, past all that do not fit.

use super::lines::{By, Key, Lines};
use super::{Pool, Waiting};

/// Gives waiting jobs in order, each once, those alone that are within bounds. Bounds only shrink on
/// the way: who was passed is not looked at again.
pub(super) struct Walk<'a> {
    pool: &'a Pool,
    lines: &'a Lines,
    after: Option<Key>,
    /// Groups of which some were given: the next one's place, the group, and which of it that is.
    open: Vec<(Key, u32, usize)>,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(pool: &'a Pool, lines: &'a Lines) -> Self {
        Self { pool, lines, after: None, open: Vec::new() }
    }

    /// The next one of at most so many CPUs that is within the bound for its size.
    pub(super) fn next(
        &mut self,
        most: u32,
        by: By,
        mut bound: impl FnMut(u32) -> Option<i64>,
        looked_at: &mut u64,
    ) -> Option<Waiting> {
        let mut best: Option<(Key, u32)> = None;
        for cpus in self.lines.sizes(most) {
            *looked_at += 1;
            let Some(bound) = bound(cpus) else { continue };
            let found = self.lines.first(cpus, self.after, by, bound, looked_at);
            best = best.into_iter().chain(found).min();
        }
        let mut of_open = None;
        for (at, (key, group, which)) in self.open.iter().enumerate() {
            let waiting = self.pool.member(*group, *which);
            let fits = waiting.is_some_and(|one| {
                one.cpus <= most
                    && bound(one.cpus).is_some_and(|bound| one.values()[by as usize] <= bound)
            });
            if fits && best.is_none_or(|best| *key < best.0) {
                (best, of_open) = (Some((*key, *group)), Some(at));
            }
        }
        let (key, group) = best?;
        self.after = Some(key);
        let which = match of_open {
            Some(at) => self.open.swap_remove(at).2,
            None => 0,
        };
        if let Some(next) = self.pool.member(group, which + 1) {
            self.open.push(((key.0, next.submitted, next.id), group, which + 1));
        }
        self.pool.member(group, which)
    }
}
