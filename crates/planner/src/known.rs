//! When jobs cannot start yet, learnt from others that want the same.
//!
//! While nothing is taken off the nodes, what did not fit at an instant does not fit there later: a
//! job that wants the same for at least as long starts no earlier. This holds where amounts alone
//! decide, and only until something is taken off.

use crate::ask::Ask;
use crate::profile::Tick;
use crate::world::World;
use muster_model::{Exclusive, Span, Timestamp};
use std::collections::BTreeMap;

/// For what is wanted (`Wants::number`): lengths and the earliest starts of such jobs, both ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownStarts(BTreeMap<u64, Vec<(Tick, Timestamp)>>);

impl KnownStarts {
    /// Nothing is known any more.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// No job of this length starts before this.
    pub(crate) fn of(&self, wants: u64, length: Tick) -> Option<Timestamp> {
        let known = self.0.get(&wants)?;
        let upto = known.partition_point(|(shorter, _)| *shorter <= length);
        known[..upto].last().map(|(_, start)| *start)
    }

    /// A job of this length starts then, and could not before.
    pub(crate) fn note(&mut self, wants: u64, length: Tick, start: Timestamp) {
        let known = self.0.entry(wants).or_default();
        let at = known.partition_point(|(shorter, _)| *shorter <= length);
        if known[..at].last().is_some_and(|(_, shorter)| *shorter >= start) {
            return;
        }
        let less = known[at..].iter().take_while(|(_, longer)| *longer <= start).count();
        known.splice(at..at + less, [(length, start)]);
    }
}

impl World {
    /// What an ask wants and for how long, where that and nothing else decides when it starts.
    pub(crate) fn alike(&self, ask: &Ask) -> Option<(u64, Tick)> {
        let plain = ask.is_uniform() && !ask.is_special() && ask.kind() != Exclusive::User;
        let open =
            self.bookings().is_empty() && !self.is_picky() && !self.social().keeps_any_apart();
        let alike = plain && open && self.map().span() == Span::Anywhere;
        Some((ask.number.filter(|_| alike)?, ask.ticks()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_of_all_that_are_no_longer_is_known() {
        let notes = [(5, 50), (9, 40), (3, 10), (5, 60), (7, 60), (1, 70), (9, 90), (4, 65)];
        let mut known = KnownStarts::default();
        for upto in 1..=notes.len() {
            let (length, start) = notes[upto - 1];
            known.note(1, length, Timestamp::from_secs(start));
            for length in 0..12 {
                let shorter = notes[..upto].iter().filter(|note| note.0 <= length);
                let latest = shorter.map(|note| Timestamp::from_secs(note.1)).max();
                assert_eq!(known.of(1, length), latest, "{length} after {upto}");
            }
        }
        assert_eq!(known.of(2, 9), None);
        known.forget();
        assert_eq!(known.of(1, 9), None);
    }
}
