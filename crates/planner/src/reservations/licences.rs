//! Licences that are reserved: others see what is left of them.

use crate::ask::Ask;
use crate::free::Span;
use crate::world::World;
use muster_model::{TimeLimit, Timestamp};

impl World {
    /// How many licences of this name are there for the job over the whole span.
    pub(crate) fn licences_for(&self, name: &str, ask: &Ask, span: Span) -> u32 {
        let Some(pool) = self.pool(name) else { return 0 };
        let bookings = self.bookings();
        let reserved = |booking: &super::Booking| booking.licences.contains_key(name);
        let plain = pool.free(span);
        if ask.heedless || !bookings.list.iter().any(reserved) {
            return plain;
        }
        if bookings.own(ask).is_some_and(|(_, own)| !own.flex && !own.holds(span)) {
            return 0;
        }
        let against = bookings.against(ask);
        let blocking: Vec<usize> = (0..bookings.list.len())
            .filter(|at| against(*at).is_some_and(|other| reserved(other) && other.meets(span)))
            .collect();
        let begins = blocking.iter().flat_map(|at| &bookings.list[*at].windows).map(|w| w.start);
        let points = std::iter::once(span.from)
            .chain(begins.filter(|at| *at > span.from && (*at < span.to)));
        points.map(|at| self.licences_at(name, &blocking, span, at)).min().unwrap_or(plain)
    }

    /// The first instant after `at` at which a reservation of licences that are asked for begins or
    /// is over, or some of them are given back.
    pub(crate) fn next_edge(&self, ask: &Ask, at: Timestamp) -> Option<Timestamp> {
        let pools = ask.licences.keys().filter_map(|name| self.pool(name));
        let ends = pools.flat_map(|pool| pool.changes(self.now()));
        self.bookings().edges(at).chain(ends).filter(|edge| *edge > at).min()
    }

    /// As [`Self::licences_for`], at one instant: what these reservations have and do not use is
    /// not there either.
    fn licences_at(&self, name: &str, blocking: &[usize], span: Span, at: Timestamp) -> u32 {
        let Some(pool) = self.pool(name) else { return 0 };
        let bookings = self.bookings();
        let free = pool.free(Span { from: at, ..span });
        let kept = blocking.iter().fold(0u32, |sum, booking| {
            let other = &bookings.list[*booking];
            let active =
                other.float.is_some() || other.windows.iter().any(|w| w.start <= at && at < w.end);
            if !active {
                return sum;
            }
            let held = pool.held_by(span, at, |job| bookings.inside.get(&job) == Some(booking));
            sum.saturating_add(other.licences.get(name).copied().unwrap_or(0).saturating_sub(held))
        });
        free.saturating_sub(kept)
    }

    /// True where the licences that it asks for are free over the span.
    pub(crate) fn licences_fit(&self, ask: &Ask, span: Span) -> bool {
        ask.licences.iter().all(|(name, count)| self.licences_for(name, ask, span) >= *count)
    }

    /// The first instant from `from` on at which the licences are free for as long as `limit` says.
    pub(crate) fn licences_earliest(
        &self,
        ask: &Ask,
        from: Timestamp,
        limit: TimeLimit,
    ) -> Option<Timestamp> {
        let mut at = from;
        loop {
            let mut next = at;
            for (name, count) in &ask.licences {
                let pool = self.pool(name)?;
                next = next.max(pool.earliest(Span::of(self.now(), next, limit), limit, *count)?);
            }
            if next == at {
                if self.licences_fit(ask, Span::of(self.now(), at, limit)) {
                    return Some(at);
                }
                // Free, but reserved for others: until a reservation begins or is over.
                next = self.next_edge(ask, at)?;
            }
            at = next;
        }
    }
}
