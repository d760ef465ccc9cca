//! Reservations as the planner sees them: who is kept from what, and when.
//!
//! A job is *inside* one reservation or in none ([`Ask::inside`]). What other reservations have is
//! not there for it over any part of its span; what its own has is all that is there, for as long as
//! its own lasts. So a reservation needs no promise and no timeline of its own: it narrows what a
//! node is for one job ([`World::view_for`]), and everything else goes on as before.
//!
//! Cost: a look at a node costs its reservations beside; only nodes of which a part is reserved are
//! copied. Without reservations one comparison is all.

mod licences;
mod reason;
mod slot;

pub(crate) use reason::{blocked, on_node, reserved};
pub use slot::Slot;

use crate::ask::Ask;
use crate::free::{DeviceMask, NodeView, Span, bit};
use crate::profile::{Tick, instant, tick};
use crate::world::World;
use muster_model::{
    CpuSet, Exclusive, Job, JobId, NodeId, Reservation, ReservationFlag, ReservedPart, Seconds,
    State, Timestamp, Window,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What of a node a reservation has; `None` is all.
type Part = Option<(CpuSet, DeviceMask)>;

/// A reservation made ready to be looked at.
#[derive(Clone, Debug)]
pub(crate) struct Booking {
    pub(crate) name: String,
    /// The occurrences that are known; empty where it floats.
    pub(crate) windows: Vec<Window>,
    pub(crate) float: Option<Seconds>,
    pub(crate) maintenance: bool,
    overlap: bool,
    flex: bool,
    /// It has nodes, so that its jobs are on them and nowhere else.
    bound: bool,
    nodes: BTreeMap<usize, Part>,
    pub(crate) licences: BTreeMap<String, u32>,
}

/// All reservations, by node and by name, and the jobs that run inside one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bookings {
    list: Vec<Booking>,
    by_name: BTreeMap<String, usize>,
    /// By node, ascending.
    on_node: BTreeMap<usize, Vec<usize>>,
    inside: BTreeMap<JobId, usize>,
    /// The nodes of `on_node` as bits.
    booked: Vec<u64>,
    /// When occurrences begin or are over, ascending, each once.
    edges: Vec<Tick>,
}

impl Booking {
    fn of(reservation: &Reservation, slots: &BTreeMap<NodeId, usize>) -> Self {
        let has = |flag| reservation.has(flag);
        let part = |part: &ReservedPart| {
            (part.cpus.clone(), part.devices.iter().fold(0, |mask, index| mask | bit(*index)))
        };
        let nodes = reservation.nodes.iter();
        let windows = std::iter::once(&reservation.window).chain(&reservation.later);
        Self {
            name: reservation.name.clone(),
            windows: match reservation.float {
                Some(_) => Vec::new(),
                None => windows.copied().collect(),
            },
            float: reservation.float,
            maintenance: has(ReservationFlag::Maint),
            overlap: has(ReservationFlag::Overlap),
            flex: has(ReservationFlag::Flex),
            bound: !reservation.want.no_nodes,
            nodes: nodes
                .filter_map(|n| Some((*slots.get(&n.node)?, n.part.as_ref().map(part))))
                .collect(),
            licences: reservation.licences.clone(),
        }
    }

    /// True where one of its occurrences has an instant in common with the span.
    ///
    /// One that floats is met by whatever lasts longer than it is away: it goes on before the job.
    pub(crate) fn meets(&self, span: Span) -> bool {
        self.windows.iter().any(|w| span.meets(w.start, w.end))
            || self
                .float
                .is_some_and(|away| span.to == Timestamp::NEVER || span.from.plus(away) < span.to)
    }

    /// The first occurrence that the span meets.
    pub(crate) fn met(&self, span: Span) -> Option<Window> {
        let met = self.windows.iter().find(|w| span.meets(w.start, w.end)).copied();
        met.or_else(|| {
            let start = span.from.plus(self.float?);
            self.meets(span).then_some(Window { start, end: Timestamp::NEVER })
        })
    }

    /// True where the whole span is in one of its occurrences.
    pub(crate) fn holds(&self, span: Span) -> bool {
        self.windows.iter().any(|w| w.start <= span.from && span.to <= w.end)
    }

    /// True where this reservation does not stand in the way of jobs of that one.
    fn yields_to(&self, own: &Self) -> bool {
        own.maintenance || (own.overlap && !self.maintenance)
    }
}

impl Bookings {
    pub(crate) fn new(state: &State, slots: &BTreeMap<NodeId, usize>) -> Self {
        let mut bookings = Self::default();
        for (at, reservation) in state.reservations.values().enumerate() {
            let booking = Booking::of(reservation, slots);
            for node in booking.nodes.keys() {
                bookings.on_node.entry(*node).or_default().push(at);
                if bookings.booked.len() <= node / 64 {
                    bookings.booked.resize(node / 64 + 1, 0);
                }
                bookings.booked[node / 64] |= 1 << (node % 64);
            }
            bookings.edges.extend(booking.windows.iter().flat_map(|w| [w.start, w.end]).map(tick));
            bookings.by_name.insert(booking.name.clone(), at);
            bookings.list.push(booking);
        }
        bookings.edges.sort_unstable();
        bookings.edges.dedup();
        bookings
    }

    /// True where there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// A job with this placement runs.
    pub(crate) fn enter(&mut self, job: JobId, reservation: Option<&String>) {
        if let Some(at) = reservation.and_then(|name| self.by_name.get(name)) {
            self.inside.insert(job, *at);
        }
    }

    pub(crate) fn leave(&mut self, job: JobId) {
        self.inside.remove(&job);
    }

    fn own(&self, ask: &Ask) -> Option<(usize, &Booking)> {
        let at = *self.by_name.get(ask.inside.as_ref()?)?;
        Some((at, &self.list[at]))
    }

    /// The reservations that stand in the way of such a job, where its span meets them.
    fn against<'a>(&'a self, ask: &Ask) -> impl Fn(usize) -> Option<&'a Booking> {
        let own = self.own(ask);
        move |at| {
            let other = &self.list[at];
            own.is_none_or(|(own, booking)| own != at && !other.yields_to(booking)).then_some(other)
        }
    }

    /// True where some reservation has a part of the node.
    pub(crate) fn has_part_of(&self, node: usize) -> bool {
        let mut here = self.on_node.get(&node).into_iter().flatten();
        here.any(|at| self.list[*at].nodes.get(&node).is_some_and(Option::is_some))
    }

    /// Instants after `now` at which an occurrence begins or is over.
    pub(crate) fn edges(&self, now: Timestamp) -> impl Iterator<Item = Timestamp> {
        self.edges_after(now).iter().copied().map(instant)
    }

    /// As [`Self::edges`], ascending and each once.
    pub(crate) fn edges_after(&self, now: Timestamp) -> &[Tick] {
        &self.edges[self.edges.partition_point(|edge| *edge <= tick(now))..]
    }

    /// True where no reservation says anything about such a job on the node.
    pub(crate) fn leaves(&self, node: usize, ask: &Ask) -> bool {
        let is_booked = self.booked.get(node / 64).is_some_and(|w| w & (1 << (node % 64)) != 0);
        ask.heedless || self.list.is_empty() || (!is_booked && ask.inside.is_none())
    }

    /// Instants at which a shorter limit could end: where others' time begins, or its own is over.
    pub(crate) fn bounds(&self, ask: &Ask, now: Timestamp) -> Vec<Timestamp> {
        let mut bounds = Vec::new();
        let own = self.own(ask).map(|(at, _)| at);
        for (at, booking) in self.list.iter().enumerate() {
            let edge = |w: &Window| if Some(at) == own { w.end } else { w.start };
            bounds.extend(booking.windows.iter().map(edge).filter(|at| *at > now));
            bounds.extend(booking.float.map(|away| now.plus(away)));
        }
        bounds.sort_unstable();
        bounds.dedup();
        bounds
    }
}

impl World {
    /// A node as it is for one job over a span: without what others have reserved, or only with
    /// what its own reservation has. `None` where nothing of it is there for the job.
    pub(crate) fn view_for(&self, node: usize, ask: &Ask, span: Span) -> Option<Cow<'_, NodeView>> {
        let view = self.view(node);
        let bookings = self.bookings();
        if bookings.is_empty() || ask.heedless {
            return Some(Cow::Borrowed(view));
        }
        let mut cpus: Option<CpuSet> = None;
        let mut devices = DeviceMask::MAX;
        if let Some((_, own)) = bookings.own(ask).filter(|(_, own)| !own.flex) {
            if !own.holds(span) {
                return None;
            }
            match own.nodes.get(&node) {
                None if own.bound => return None,
                None | Some(None) => {}
                Some(Some(part)) => {
                    cpus = Some(part.0.clone());
                    devices = part.1;
                }
            }
        }
        let against = bookings.against(ask);
        let here = bookings.on_node.get(&node).into_iter().flatten();
        for other in here.filter_map(|at| against(*at)).filter(|other| other.meets(span)) {
            let (taken, masked) = other.nodes.get(&node)?.as_ref()?;
            cpus.get_or_insert_with(|| view.node.cpus.clone()).remove_all(taken);
            devices &= !masked;
        }
        if cpus.is_none() && devices == DeviceMask::MAX {
            return Some(Cow::Borrowed(view));
        }
        // A part of a node is nobody's alone.
        if ask.kind() != Exclusive::No {
            return None;
        }
        Some(Cow::Owned(view.narrowed(cpus.as_ref(), devices, self.now())))
    }
}

/// The reservations that take jobs which do not name them, by name.
pub(crate) fn magnetic(state: &State) -> Vec<String> {
    let magnetic = state.reservations.values().filter(|r| r.has(ReservationFlag::Magnetic));
    magnetic.map(|r| r.name.clone()).collect()
}

/// The ways for a job to be placed as far as reservations go, by preference: inside one (`Some`) or
/// in none. Empty where it names only what it may not use.
pub(crate) fn ways(state: &State, job: &Job) -> Vec<Option<String>> {
    ways_among(state, &magnetic(state), job)
}

/// As [`ways`], where it is known which reservations are [`magnetic`].
pub(crate) fn ways_among(state: &State, magnetic: &[String], job: &Job) -> Vec<Option<String>> {
    let may_use = |r: &&Arc<Reservation>| state.may_use(r, &job.spec.owner, &job.spec.account);
    let inside = |r: &Arc<Reservation>| Some(r.name.clone());
    let mut named = job.spec.request.reservations().peekable();
    if named.peek().is_some() {
        let known = named.filter_map(|name| state.reservations.get(name));
        return known.filter(may_use).map(inside).collect();
    }
    let magnetic = magnetic.iter().filter_map(|name| state.reservations.get(name));
    magnetic.filter(may_use).map(inside).chain(std::iter::once(None)).collect()
}

/// The queue whose first blocked job has a promise: a partition's, or that of a reservation in it,
/// so that who waits for a reservation takes nobody else's promise.
pub(crate) fn lane(partition: &str, inside: Option<&str>) -> String {
    inside.map_or_else(|| partition.to_owned(), |name| format!("{partition}/{name}"))
}
