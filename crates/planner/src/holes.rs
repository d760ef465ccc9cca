//! Stretches of free time of many nodes, in order of their beginnings.
//!
//! The list is cut into blocks that know their longest stretch and their latest end, so a search
//! passes over most of it by looking at two numbers a block. Copies share the blocks that neither
//! has changed.

use crate::profile::{FOREVER, NEVER, Tick};
use std::sync::Arc;

/// A block is cut in two where it has so many stretches.
const BLOCK_MAX: usize = 96;

/// A node can give enough from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hole {
    pub(crate) from: Tick,
    pub(crate) node: u32,
    pub(crate) to: Tick,
}

/// Never empty.
#[derive(Clone, Debug)]
struct Block {
    first: Hole,
    longest: Tick,
    latest: Tick,
    holes: Arc<Vec<Hole>>,
}

/// All stretches of one level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holes {
    blocks: Vec<Block>,
}

/// How long something that starts in the hole may take: [`FOREVER`] where there is no end.
fn length(hole: &Hole) -> Tick {
    if hole.to == FOREVER { FOREVER } else { hole.to.saturating_sub(hole.from) }
}

fn with_room(holes: &[Hole]) -> Vec<Hole> {
    let mut copy = Vec::with_capacity(BLOCK_MAX);
    copy.extend_from_slice(holes);
    copy
}

impl Block {
    /// `None` of no holes.
    fn of(holes: &[Hole]) -> Option<Self> {
        let (first, holes) = (*holes.first()?, Arc::new(with_room(holes)));
        let mut block = Self { first, longest: 0, latest: Tick::MIN, holes };
        block.measure();
        Some(block)
    }

    fn measure(&mut self) {
        self.longest = self.holes.iter().map(length).max().unwrap_or(0);
        self.latest = self.holes.iter().map(|h| h.to).max().unwrap_or(Tick::MIN);
    }

    /// The holes, to change them. A copy has room for all that a block may have.
    fn holes_mut(&mut self) -> &mut Vec<Hole> {
        if Arc::get_mut(&mut self.holes).is_none() {
            self.holes = Arc::new(with_room(&self.holes));
        }
        Arc::make_mut(&mut self.holes)
    }

    /// Cuts the block in two where it is full; the second part.
    fn cut(&mut self) -> Option<Self> {
        if self.holes.len() < BLOCK_MAX {
            return None;
        }
        let rest = Self::of(&self.holes[BLOCK_MAX / 2..]);
        self.holes_mut().truncate(BLOCK_MAX / 2);
        self.measure();
        rest
    }
}

/// The latest start of something of this length in the hole; `None` where it is too long.
/// A length of [`FOREVER`] is without an end.
pub(crate) fn last_start(from: Tick, to: Tick, length: Tick) -> Option<Tick> {
    if to == FOREVER {
        return Some(NEVER);
    }
    let last = to.checked_sub(length).filter(|_| length != FOREVER)?;
    (last >= from).then_some(last)
}

impl Holes {
    pub(crate) fn of(mut holes: Vec<Hole>) -> Self {
        holes.sort_unstable();
        let blocks = holes.chunks(BLOCK_MAX / 2).filter_map(Block::of);
        Self { blocks: blocks.collect() }
    }

    /// The block that the hole is in or belongs to.
    fn block_of(&self, hole: &Hole) -> usize {
        let after = self.blocks.partition_point(|b| b.first <= *hole);
        after.saturating_sub(1)
    }

    pub(crate) fn insert(&mut self, hole: Hole) {
        if self.blocks.is_empty() {
            self.blocks.extend(Block::of(&[hole]));
            return;
        }
        let mut at = self.block_of(&hole);
        if let Some(rest) = self.blocks[at].cut() {
            let is_in_rest = rest.first <= hole;
            self.blocks.insert(at + 1, rest);
            at += usize::from(is_in_rest);
        }
        let block = &mut self.blocks[at];
        let place = block.holes.partition_point(|h| *h < hole);
        block.holes_mut().insert(place, hole);
        block.first = block.first.min(hole);
        block.longest = block.longest.max(length(&hole));
        block.latest = block.latest.max(hole.to);
    }

    pub(crate) fn remove(&mut self, hole: Hole) {
        if self.blocks.is_empty() {
            return;
        }
        let at = self.block_of(&hole);
        let block = &mut self.blocks[at];
        if let Ok(place) = block.holes.binary_search(&hole) {
            block.holes_mut().remove(place);
            match block.holes.first() {
                Some(first) => block.first = *first,
                None => {
                    self.blocks.remove(at);
                    return;
                }
            }
            if block.longest == length(&hole) || block.latest == hole.to {
                block.measure();
            }
        }
    }

    /// Moves the end of a hole.
    pub(crate) fn change(&mut self, hole: Hole, to: Tick) {
        let at = if self.blocks.is_empty() { return } else { self.block_of(&hole) };
        let block = &mut self.blocks[at];
        let Ok(place) = block.holes.binary_search(&hole) else { return };
        let changed = Hole { to, ..hole };
        block.holes_mut()[place] = changed;
        if place == 0 {
            block.first = changed;
        }
        if block.longest == length(&hole) || block.latest == hole.to {
            block.measure();
        } else {
            block.longest = block.longest.max(length(&changed));
            block.latest = block.latest.max(to);
        }
    }

    /// The holes that are open at an instant and do not end before `end`, the last opened first.
    pub(crate) fn open_at(&self, at: Tick, end: Tick) -> impl Iterator<Item = &Hole> {
        let upto = self.blocks.partition_point(|b| b.first.from <= at);
        self.blocks[..upto]
            .iter()
            .rev()
            .filter(move |b| b.latest >= end)
            .flat_map(|b| b.holes.iter().rev())
            .filter(move |h| h.from <= at && h.to >= end)
    }

    /// The holes that open after an instant and are long enough, in order.
    pub(crate) fn after(&self, at: Tick, length_min: Tick) -> impl Iterator<Item = &Hole> {
        let from = self.blocks.partition_point(|b| b.first.from <= at).saturating_sub(1);
        self.blocks[from..]
            .iter()
            .filter(move |b| b.longest >= length_min)
            .flat_map(|b| b.holes.iter())
            .filter(move |h| h.from > at && length(h) >= length_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_holes_are_found_again_in_order() {
        let hole = |n: u32| {
            let from = i64::from(n * 7919 % 1000);
            Hole { from, node: n, to: from + i64::from(n % 13) }
        };
        let mut holes = Holes::default();
        let mut all: Vec<Hole> = (0..1000).map(hole).collect();
        for one in &all {
            holes.insert(*one);
        }
        for one in all.split_off(700) {
            holes.remove(one);
        }
        all.sort_unstable();
        let expect: Vec<Hole> =
            all.iter().copied().filter(|h| h.from > 300 && h.to - h.from >= 9).collect();
        assert_eq!(holes.after(300, 9).copied().collect::<Vec<_>>(), expect);
        let mut open: Vec<Hole> =
            all.iter().copied().filter(|h| h.from <= 500 && h.to >= 505).collect();
        open.reverse();
        assert_eq!(holes.open_at(500, 505).copied().collect::<Vec<_>>(), open);
    }
}
