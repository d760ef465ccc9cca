//! When a job could start at the earliest, if everything that runs takes its whole limit.
//!
//! The level of a request names the stretches in which nodes have the least that it needs. They are
//! walked in order of time until enough nodes are open together; the exact rules then choose among
//! those. A walk costs a look at each stretch that is long enough and opens before the answer.

use crate::ask::Ask;
use crate::free::Span;
use crate::gang::{Picks, place};
use crate::holes::{Hole, last_start};
use crate::levels::Level;
use crate::orders::Orders;
use crate::profile::{FOREVER, Least, NEVER, Tick, instant, tick};
use crate::world::World;
use muster_model::{Affinity, Exclusive, Timestamp, Work};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// So many nodes more than needed are shown to the exact rules first.
const SPARE: usize = 8;

/// So many ends of jobs are looked at for what other jobs leave to a job.
const ENDS_MAX: usize = 256;
/// So many instants are tried in vain where there are reservations.
const BESIDE_RESERVATIONS_MAX: u32 = 64;

/// The places of all components, each with the ask that found it.
pub(crate) type Places = Vec<(Ask, Picks)>;

/// The earliest start of all components together, not before `from`, put on the world as a promise.
///
/// `parts` holds, for each component, the ways to ask for it. `None` where it fits at no time: it
/// could not even run when all else is over, or what was promised before takes its place for good.
pub(crate) fn earliest(
    world: &mut World,
    parts: &[Vec<&Ask>],
    from: Timestamp,
    work: &mut Work,
) -> Option<(Timestamp, Places)> {
    let [asks] = parts else { return together(world, parts, from, work) };
    let alike = if let [ask] = asks.as_slice() { world.alike(ask) } else { None };
    let known = alike.and_then(|(wants, length)| world.known.of(wants, length));
    let known = known.unwrap_or(world.now()).max(world.now());
    let (is_sure, from) = (from <= known, from.max(known));
    let mut best: Option<(Timestamp, &Ask, Picks)> = None;
    for ask in asks {
        let before = best.as_ref().map(|b| b.0);
        if let Some((at, picks)) = first(world, ask, from, before, work) {
            best = Some((at, ask, picks));
        }
    }
    let (at, ask, picks) = best?;
    world.reserve(ask, &picks, Span::of(world.now(), at, ask.length()));
    if let Some((wants, length)) = alike.filter(|_| is_sure) {
        world.known.note(wants, length, at);
    }
    Some((at, vec![(ask.clone(), picks)]))
}

/// The earliest start of one component by itself, before another instant where that is given.
fn first(
    world: &mut World,
    ask: &Ask,
    from: Timestamp,
    before: Option<Timestamp>,
    work: &mut Work,
) -> Option<(Timestamp, Picks)> {
    ask.node_bounds()?;
    let level = world.level_of(ask);
    let mut from = from;
    loop {
        from = world.licences_earliest(ask, from, ask.length())?;
        if before.is_some_and(|before| from >= before) {
            return None;
        }
        let spare = std::mem::take(&mut world.spare);
        let mut sweep = Sweep::new(world, ask, world.level(level)?, spare);
        let found = sweep.first(tick(from), before, work);
        world.spare = sweep.into_spare();
        match found? {
            Found::At(at, picks) => return Some((at, picks)),
            Found::LicencesFrom(at) => from = at,
        }
    }
}

/// What a sweep came to.
enum Found {
    At(Timestamp, Picks),
    /// Nodes would be there, but not before this are the licences.
    LicencesFrom(Timestamp),
}

/// A node that is open, or will be: whichever of these comes first goes first.
type Turn = Reverse<(Tick, usize, Tick)>;

/// Room for a walk, which the next one uses again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spare {
    open: Vec<Turn>,
    later: Vec<Turn>,
    nodes: Vec<(Tick, usize)>,
}

/// A walk over the stretches of a level in order of time.
struct Sweep<'a> {
    world: &'a World,
    ask: &'a Ask,
    level: &'a Level,
    /// How long the job may take; [`FOREVER`] without a limit.
    length: Tick,
    /// So many nodes at least.
    count: usize,
    /// True where a node that can take a part of the job can do so for good until it is taken:
    /// nothing but amounts decides.
    plain: bool,
    /// There are reservations: nodes that are open need not be there for the job.
    booked: bool,
    /// How often the exact rules found nothing.
    failed: u32,
    /// Nodes that are open: (last start, node, open since).
    open: BinaryHeap<Turn>,
    /// Nodes that open later: (opens, node, last start).
    later: BinaryHeap<Turn>,
    /// Other instants at which something changes.
    wakes: BTreeSet<Tick>,
    /// Those at which a reservation begins or is over, ascending.
    edges: &'a [Tick],
    nodes: Vec<(Tick, usize)>,
}

impl<'a> Sweep<'a> {
    fn new(world: &'a World, ask: &'a Ask, level: &'a Level, spare: Spare) -> Self {
        let length = ask.ticks();
        let shares = ask.kind() != Exclusive::User && !world.is_picky();
        let plain =
            shares && ask.is_uniform() && world.map().span() == muster_model::Span::Anywhere;
        let Spare { mut open, mut later, nodes } = spare;
        open.clear();
        later.clear();
        let (open, later) = (BinaryHeap::from(open), BinaryHeap::from(later));
        let count = ask.node_bounds().map_or(1, |b| b.0) as usize;
        let mut wakes = BTreeSet::new();
        let edges = if ask.heeds() { world.bookings().edges_after(world.now()) } else { &[] };
        let social = world.social();
        let heeds_jobs = ask.affinity().is_some_and(Affinity::looks_at_jobs);
        let plain = plain && !social.has_apart();
        if heeds_jobs || social.has_apart() {
            let ends = social.ends_after(world.now(), world.now(), ENDS_MAX);
            wakes.extend(ends.into_iter().map(tick));
        }
        let booked = ask.heeds() && !world.bookings().is_empty();
        let failed = 0;
        Self {
            world,
            ask,
            level,
            length,
            count,
            plain,
            booked,
            failed,
            open,
            later,
            wakes,
            edges,
            nodes,
        }
    }

    fn into_spare(self) -> Spare {
        Spare { open: self.open.into_vec(), later: self.later.into_vec(), nodes: self.nodes }
    }

    fn end_of(&self, start: Tick) -> Tick {
        if self.length == FOREVER || start >= NEVER {
            FOREVER
        } else {
            start.saturating_add(self.length).min(NEVER)
        }
    }

    /// Takes up what of a hole would do for the job, as seen from `at`.
    fn add(&mut self, hole: &Hole, at: Tick, work: &mut Work) {
        work.slots += 1;
        let node = hole.node as usize;
        let view = self.world.view(node);
        if !self.ask.may_use(view) {
            return;
        }
        let floor = self.ask.least_on(view);
        let mask = self.level.mask(node) & self.ask.big_enough(view, view.base_devices);
        let least = Least { floor, mask, alone: self.ask.kind() == Exclusive::Node };
        let (length, open, later) = (self.length, &mut self.open, &mut self.later);
        view.profile.holes(&least, hole.from, hole.to, |from, to| {
            let Some(last) = last_start(from, to, length).filter(|last| *last >= at) else {
                return;
            };
            if from <= at {
                open.push(Reverse((last, node, from)));
            } else {
                later.push(Reverse((from, node, last)));
            }
        });
        if !self.plain || (self.booked && self.world.bookings().has_part_of(node)) {
            self.wakes.extend(view.profile.changes(hole.from.max(at), hole.to));
        }
    }

    /// The first instant from `at` on at which the exact rules find nodes.
    fn first(&mut self, at: Tick, before: Option<Timestamp>, work: &mut Work) -> Option<Found> {
        let mut at = at;
        self.wakes = self.wakes.split_off(&at.saturating_add(1));
        self.edges = &self.edges[self.edges.partition_point(|edge| *edge <= at)..];
        let level = self.level;
        for hole in level.holes.open_at(at, self.end_of(at)) {
            self.add(hole, at, work);
        }
        let mut rest = level.holes.after(at, self.length).peekable();
        let mut changed = true;
        loop {
            while self.open.peek().is_some_and(|Reverse(o)| o.0 < at) {
                self.open.pop();
            }
            if changed && self.open.len() >= self.count && self.is_worth_it(at) {
                let start = instant(at);
                let licences = self.world.licences_earliest(self.ask, start, self.ask.length())?;
                if licences > start {
                    return Some(Found::LicencesFrom(licences));
                }
                if let Some(picks) = self.choose(at, work) {
                    return Some(Found::At(start, picks));
                }
                self.failed += 1;
            }
            changed = false;
            let opens = rest.peek().map(|h| h.from);
            let later = self.later.peek().map(|Reverse(l)| l.0);
            let (wake, edge) = (self.wakes.first().copied(), self.edges.first().copied());
            let next = [opens, later, wake, edge].into_iter().flatten().min()?;
            if before.is_some_and(|before| instant(next) >= before) {
                return None;
            }
            at = next;
            changed |= self.wakes.remove(&at) || edge == Some(at);
            self.edges = &self.edges[usize::from(edge == Some(at))..];
            while let Some(hole) = rest.next_if(|h| h.from == at) {
                let known = self.open.len();
                self.add(hole, at, work);
                changed |= self.open.len() > known;
            }
            while self.later.peek().is_some_and(|Reverse(l)| l.0 <= at) {
                if let Some(Reverse((from, node, last))) = self.later.pop() {
                    self.open.push(Reverse((last, node, from)));
                    changed = true;
                }
            }
        }
    }

    /// Where there are reservations, only so many instants are tried, and then only those at which a
    /// reservation begins or is over: a job that they leave no gap for must not try each end of a
    /// job.
    fn is_worth_it(&self, at: Tick) -> bool {
        !self.booked
            || self.failed < BESIDE_RESERVATIONS_MAX
            || at == NEVER
            || self.world.bookings().edges_after(self.world.now()).binary_search(&at).is_ok()
    }

    /// The nodes that the exact rules take at an instant, of those that are open.
    fn choose(&mut self, at: Tick, work: &mut Work) -> Option<Picks> {
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.clear();
        nodes.extend(self.open.iter().map(|Reverse((_, node, from))| (*from, *node)));
        let picks = self.choose_among(&mut nodes, at, work);
        self.nodes = nodes;
        picks
    }

    fn choose_among(
        &self,
        nodes: &mut [(Tick, usize)],
        at: Tick,
        work: &mut Work,
    ) -> Option<Picks> {
        let span = Span::of(self.world.now(), instant(at), self.ask.length());
        // One node is near to itself: the first will do. Several have some to choose among.
        let spare = if self.count == 1 && self.plain { 3 } else { SPARE };
        let some = self.count.saturating_mul(2).saturating_add(spare);
        let mut all = true;
        let loose = self.world.map().span() == muster_model::Span::Anywhere;
        if self.ask.takes_first() && loose && nodes.len() > some {
            nodes.select_nth_unstable_by_key(some, |n| preference(at, *n));
            let mut few = nodes[..some].to_vec();
            few.sort_unstable_by_key(|n| preference(at, *n));
            let order: Vec<usize> = few.into_iter().map(|n| n.1).collect();
            if let Some(picks) = place(self.world, self.ask, span, &order, work) {
                return Some(picks);
            }
            all = !self.plain || self.booked;
        }
        if !all {
            return None;
        }
        nodes.sort_unstable_by_key(|n| preference(at, *n));
        let order: Vec<usize> = nodes.iter().map(|n| n.1).collect();
        place(self.world, self.ask, span, &order, work)
    }
}

/// The order in which a promise takes nodes, given as (open since, node): those that are freed last
/// first, so that what is free now stays free for others. Where the start is not known, those that
/// something without an end is on come last: what can be had is kept.
fn preference(at: Tick, node: (Tick, usize)) -> (bool, Reverse<Tick>, usize) {
    if at == NEVER {
        (node.0 == NEVER, Reverse(0), node.1)
    } else {
        (false, Reverse(node.0), node.1)
    }
}

/// The earliest start of several components at once.
fn together(
    world: &mut World,
    parts: &[Vec<&Ask>],
    from: Timestamp,
    work: &mut Work,
) -> Option<(Timestamp, Places)> {
    let mut at = from;
    loop {
        // None of them starts before it could start by itself.
        let mut lower = at;
        for asks in parts {
            let alone = asks.iter().filter_map(|ask| first(world, ask, lower, None, work));
            lower = alone.map(|found| found.0).min()?;
        }
        if lower == at {
            work.slots += 1;
            if let Some(places) = reserve_at(world, parts, at, work) {
                return Some((at, places));
            }
            lower = world.next_change(at)?;
        }
        at = lower;
    }
}

/// Puts all components on the world at one instant, or none.
fn reserve_at(
    world: &mut World,
    parts: &[Vec<&Ask>],
    at: Timestamp,
    work: &mut Work,
) -> Option<Places> {
    let (mut orders, mut failed) = (Orders::of(parts), None);
    while let Some(order) = orders.next(failed) {
        match reserve_in_order(world, parts, &order, at, work) {
            Ok(places) => return Some(places),
            Err(component) => failed = Some(component),
        }
    }
    None
}

/// As [`reserve_at`], one component after the other; the one that finds no place where that fails.
fn reserve_in_order(
    world: &mut World,
    parts: &[Vec<&Ask>],
    order: &[usize],
    at: Timestamp,
    work: &mut Work,
) -> Result<Places, usize> {
    let mut places: Vec<(usize, (Ask, Picks))> = Vec::with_capacity(parts.len());
    for part in order.iter().copied() {
        let mut found = None;
        for ask in &parts[part] {
            let span = Span::of(world.now(), at, ask.length());
            let order = open_nodes(world, ask, span);
            if world.licences_fit(ask, span)
                && let Some(picks) = place(world, ask, span, &order, work)
            {
                found = Some((*ask, picks, span));
                break;
            }
        }
        let Some((ask, picks, span)) = found else {
            let places = places.into_iter().map(|(_, place)| place).collect();
            undo(world, &places);
            return Err(part);
        };
        world.reserve(ask, &picks, span);
        places.push((part, (ask.clone(), picks)));
    }
    // All are taken off again together: in which order does not matter.
    places.sort_by_key(|(part, _)| *part);
    Ok(places.into_iter().map(|(_, place)| place).collect())
}

/// The nodes that have the least that an ask needs over a span, in the order of promises.
fn open_nodes(world: &mut World, ask: &Ask, span: Span) -> Vec<usize> {
    let level = world.level_of(ask);
    let at = tick(span.from);
    let open = world.level(level).map(|l| l.holes.open_at(at, span.end()));
    let mut nodes: Vec<(Tick, usize)> =
        open.into_iter().flatten().map(|h| (h.from, h.node as usize)).collect();
    nodes.sort_unstable_by_key(|n| preference(at, *n));
    nodes.into_iter().map(|n| n.1).collect()
}

/// Takes the places off the world again; the last put on first.
pub(crate) fn undo(world: &mut World, places: &Places) {
    for (ask, picks) in places.iter().rev() {
        world.unreserve(ask, picks);
    }
}
