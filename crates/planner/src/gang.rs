//! Which nodes a job takes, all of them or none, and how its tasks and GPUs lie on them.

use crate::affinity::order_by_wishes;
use crate::ask::{Ask, Tasks};
use crate::free::Span;
use crate::select::{Candidate, Target, contiguous_run, select};
use crate::switches;
use crate::topology::{Joint, Leaves, choose};
use crate::world::World;
use muster_model::{NodeCount, Work};

/// Nodes with what each takes, in rank order.
pub(crate) type Picks = Vec<Pick>;

/// A node and what of the job goes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) node: usize,
    pub(crate) tasks: u32,
    /// The node's part of each GPU total.
    pub(crate) share: Vec<u32>,
}

/// How many nodes at the start of the order are known not to do. Within a walk what is free only
/// shrinks, so they stay out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// They do not hold the whole job.
    alone: usize,
    /// They do not even hold a part of it.
    part: usize,
}

impl Cursor {
    /// So many at the start do not do for anybody.
    pub(crate) fn skip(&mut self, nodes: usize) {
        self.alone = self.alone.max(nodes);
        self.part = self.part.max(nodes);
    }
}

/// Finds nodes for the whole request over the span, trying nodes in the order given.
///
/// Numbers of nodes are tried as the request says: as many as possible for a range, as few as
/// hold the tasks where no number is asked for.
pub(crate) fn place(
    world: &World,
    ask: &Ask,
    span: Span,
    order: &[usize],
    work: &mut Work,
) -> Option<Picks> {
    place_from(world, ask, span, order, &mut 0, work)
}

fn place_from(
    world: &World,
    ask: &Ask,
    span: Span,
    order: &[usize],
    skip: &mut usize,
    work: &mut Work,
) -> Option<Picks> {
    let bounds = ask.node_bounds()?;
    let forced = world.forced_nodes(ask)?;
    let joint = Joint::of(world, ask, span)?;
    let wished = order_by_wishes(world, ask, span, order);
    let mut whole = 0;
    let (order, skip) = match &wished {
        Some(wished) => (wished.as_slice(), &mut whole),
        None => (order, skip),
    };
    // What one choice of features rules out another may take: then nothing is remembered.
    let mut unremembered = 0;
    let several = ask.alternatives.len() > 1;
    for alternative in 0..ask.alternatives.len() {
        let skip = if several { &mut unremembered } else { &mut *skip };
        *skip = if several { 0 } else { *skip };
        let search =
            Search { world, ask, alternative, span, forced: &forced, bounds, joint: &joint };
        let candidates = match search.leaves() {
            None => search.candidates(order, skip, work),
            Some(leaves) => match search.in_one_leaf(leaves, order, skip, work) {
                Ok(picks) => return picks,
                Err(candidates) => candidates,
            },
        };
        let picks = search.place_among(&candidates).or_else(|| {
            let most = ask.switches.filter(|_| !joint.is_void())?;
            switches::groups(&joint, &candidates, most as usize)
                .into_iter()
                .find_map(|group| search.place_among(&group))
        });
        if picks.is_some() {
            return picks;
        }
    }
    None
}

/// A search for nodes of one job under one choice of features.
struct Search<'a> {
    world: &'a World,
    ask: &'a Ask,
    alternative: usize,
    span: Span,
    forced: &'a [usize],
    bounds: (u32, u32),
    joint: &'a Joint<'a>,
}

impl Search<'_> {
    /// The nodes that could take a part of the job, each with the most that it could take; no more
    /// than are sure to do.
    fn candidates(&self, order: &[usize], skip: &mut usize, work: &mut Work) -> Vec<Candidate> {
        let Some(members) = self.world.members(&self.ask.partition.name) else {
            return Vec::new();
        };
        let targets = targets(self.ask, self.alternative);
        let mut found = Vec::new();
        let from = *skip;
        for (rank, node) in order.iter().copied().enumerate().skip(from) {
            if members.contains(node) {
                work.fits += 1;
                found.extend(self.candidate(rank, node));
            }
            if found.is_empty() {
                *skip = rank + 1;
            } else if self.is_enough(&found, &targets) {
                break;
            }
        }
        found
    }

    /// The candidates by domain, where the nearest nodes are a matter of counting.
    fn leaves(&self) -> Option<Leaves<'_>> {
        let request = &self.ask.request;
        let alike = self.ask.counts_nodes(self.alternative)
            && self.forced.is_empty()
            && !request.contiguous
            && request.nodes.is_some();
        let (least, most) = self.bounds;
        (alike && least == most).then(|| Leaves::new(self.joint, most))?
    }

    /// The nodes of a job that one domain of the lowest level holds; all candidates where none does.
    fn in_one_leaf(
        &self,
        mut leaves: Leaves<'_>,
        order: &[usize],
        skip: &mut usize,
        work: &mut Work,
    ) -> Result<Option<Picks>, Vec<Candidate>> {
        let Some(members) = self.world.members(&self.ask.partition.name) else {
            return Err(Vec::new());
        };
        let from = *skip;
        for (rank, node) in order.iter().copied().enumerate().skip(from) {
            if members.contains(node) {
                work.fits += 1;
                if self.takes_part(node).is_some() {
                    leaves.add(node, rank, self.world.weight(node));
                }
            }
            if leaves.is_empty() {
                *skip = rank + 1;
            }
        }
        let Some(best) = leaves.best() else {
            // All have been looked at, and are counted.
            return Err(self.candidates(order, skip, &mut Work::default()));
        };
        let map = self.world.map();
        let inside = order.iter().copied().enumerate().skip(*skip);
        let inside = inside.filter(|(_, node)| map.cell(*node) == best && members.contains(*node));
        let chosen = inside.filter_map(|(rank, node)| self.candidate(rank, node));
        let chosen: Vec<Candidate> = chosen.take(self.bounds.0 as usize).collect();
        Ok(spread(self.world, self.ask, self.span, chosen.iter().collect()))
    }

    /// The most that a node could take of the job.
    fn takes_part(&self, node: usize) -> Option<(u32, Vec<u32>)> {
        if !self.world.could_give(node, self.ask.part_floor, self.span) || !self.joint.admits(node)
        {
            return None;
        }
        capacity(self.world, self.ask, self.alternative, self.span, node)
    }

    fn candidate(&self, rank: usize, node: usize) -> Option<Candidate> {
        let (tasks, share) = self.takes_part(node)?;
        let mut amounts = Vec::with_capacity(1 + share.len());
        if matches!(self.ask.tasks, Tasks::Total(_)) {
            amounts.push(tasks);
        }
        amounts.extend(&share);
        let counts = &self.ask.alternatives[self.alternative].counts;
        if !counts.is_empty() {
            let features = &self.world.view(node).node.features;
            amounts.extend(counts.iter().map(|(part, _)| u32::from(part.holds_on(features))));
        }
        Some(Candidate { node, rank, forced: self.forced.contains(&node), amounts })
    }

    /// True where the first nodes found will be the ones taken, whatever else there is.
    fn is_enough(&self, found: &[Candidate], targets: &[Target]) -> bool {
        if self.ask.request.contiguous || !self.forced.is_empty() {
            return false;
        }
        let (least, most) = self.bounds;
        let count = match &self.ask.request.nodes {
            None if targets.is_empty() => least,
            None => return false,
            Some(_) if targets.is_empty() => most,
            Some(_) if least == most => most,
            Some(_) => return false,
        } as usize;
        // Of several nodes the nearest are taken, so all have to be known.
        ((count == 1 && self.joint.fence.even.is_empty()) || self.joint.is_void())
            && found.len() == count
            && crate::select::reach(found, targets)
    }
}

/// As [`place`], with the quick way for jobs that one node can hold.
///
/// `cursor` is this ask's of this walk.
pub(crate) fn place_with_cursor(
    world: &World,
    ask: &Ask,
    span: Span,
    order: &[usize],
    cursor: &mut Cursor,
    work: &mut Work,
) -> Option<Picks> {
    if !world.licences_fit(ask, span) {
        return None;
    }
    let (least, most) = ask.node_bounds()?;
    let one_is_first = ask.request.nodes.is_none() || most == 1;
    if !one_is_first || least > 1 || ask.request.node_list.len() > 1 || ask.alternatives.len() > 1 {
        return place_from(world, ask, span, order, &mut cursor.part, work);
    }
    let joint = Joint::of(world, ask, span)?;
    let wished = order_by_wishes(world, ask, span, order);
    let mut whole = Cursor::default();
    let (order, cursor) = match &wished {
        Some(wished) => (wished.as_slice(), &mut whole),
        None => (order, cursor),
    };
    let members = world.members(&ask.partition.name)?;
    while let Some(node) = order.get(cursor.alone).copied() {
        if members.contains(node) {
            work.fits += 1;
            if let Some(pick) = alone(world, ask, span, &joint, node) {
                let others = &order[cursor.alone + 1..];
                let pick = if ask.packs_parts() || world.waste.is_some() {
                    least_broken(world, ask, span, &joint, pick, others, work)
                } else {
                    pick
                };
                return Some(vec![pick]);
            }
        }
        cursor.alone += 1;
    }
    if most > 1 && ask.can_be_spread() {
        place_from(world, ask, span, order, &mut cursor.part, work)
    } else {
        None
    }
}

/// A part of a GPU goes to so many nodes behind the first that fits only where that leaves less
/// behind that nobody can use.
const NODES_COMPARED: usize = 24;

/// Where the policy takes the node that wastes the least, any job is compared on so many.
const NODES_MEASURED: usize = 4096;

/// Of the node found and the next of its weight, the one whose GPUs lose the least by this job:
/// Fragmentation Gradient Descent over nodes, bounded.
fn least_broken(
    world: &World,
    ask: &Ask,
    span: Span,
    joint: &Joint<'_>,
    first: Pick,
    others: &[usize],
    work: &mut Work,
) -> Pick {
    let waste = world.waste.as_ref();
    let damage = |pick: &Pick| {
        let view = world.view(pick.node);
        if let Some(waste) = waste {
            return waste.by(ask, view, span, pick);
        }
        let need = ask.need(view, pick.tasks, &pick.share);
        crate::devices::damage(ask, view, &view.avail(span), &need)
    };
    let weight = world.weight(first.node);
    let members = world.members(&ask.partition.name);
    let same = |node: &&usize| {
        world.weight(**node) == weight && members.is_some_and(|m| m.contains(**node))
    };
    let most = if waste.is_some() { NODES_MEASURED } else { NODES_COMPARED };
    let mut best = (damage(&first), first);
    for node in others.iter().take(most).filter(same) {
        work.fits += 1;
        let Some(pick) = alone(world, ask, span, joint, *node) else { continue };
        let found = damage(&pick);
        if found < best.0 {
            best = (found, pick);
        }
    }
    best.1
}

/// The nodes that could take a part of the job, whatever they are to each other.
pub(crate) fn free_nodes(world: &World, ask: &Ask, span: Span) -> Vec<usize> {
    let loose = ask.anywhere();
    let Some(joint) = Joint::of(world, &loose, span) else { return Vec::new() };
    let members = world.members(&ask.partition.name).map_or(&[][..], |m| m.list());
    let (bounds, forced) = ((1, u32::MAX), &[][..]);
    let could = |node: &usize| {
        (0..ask.alternatives.len()).any(|alternative| {
            let joint = &joint;
            let search = Search { world, ask: &loose, alternative, span, forced, bounds, joint };
            search.candidate(0, *node).is_some()
        })
    };
    members.iter().copied().filter(could).collect()
}

/// The whole job on one node.
fn alone(world: &World, ask: &Ask, span: Span, joint: &Joint<'_>, node: usize) -> Option<Pick> {
    let bound = !joint.is_void();
    if !world.could_give(node, ask.whole_floor, span) || (bound && !joint.allows(&[node])) {
        return None;
    }
    if let Some(fits) = world.tells(node, ask, span) {
        return fits.then(|| Pick { node, tasks: ask.tasks_each(), share: Vec::new() });
    }
    let view = world.view_for(node, ask, span)?;
    let view = view.as_ref();
    let named = &ask.request.node_list;
    let alternative = ask.alternatives.first()?;
    let tasks = match ask.tasks {
        Tasks::Total(total) => total,
        Tasks::Each(each) => each,
        Tasks::PerGpu(_) => 1,
    };
    let share: Vec<u32> = ask.job_gpus.iter().map(|g| g.1).collect();
    let features = &view.node.features;
    let may = ask.may_use(view)
        && (named.is_empty() || named.contains(&view.node.name))
        && alternative.admits(features)
        && alternative.counts.iter().all(|(part, n)| *n <= 1 && part.holds_on(features))
        && view.admits(span, ask.kind(), ask.uid);
    (may && ask.fits(view, &view.avail(span), tasks, &share)).then(|| {
        let tasks = ask.tasks_with(tasks, &share);
        Pick { node, tasks, share }
    })
}

/// The most tasks, and the most of each GPU total, that a node could take of the job.
///
/// Tasks and GPUs bound each other only through maxima (see `Ask::need`), so the two are found
/// apart. `None` where not even the least fits.
pub(crate) fn capacity(
    world: &World,
    ask: &Ask,
    alternative: usize,
    span: Span,
    node: usize,
) -> Option<(u32, Vec<u32>)> {
    if let Some(fits) = world.tells(node, ask, span) {
        return fits.then(|| (ask.tasks_each(), Vec::new()));
    }
    let view = world.view_for(node, ask, span)?;
    let view = view.as_ref();
    if !ask.may_use(view) || !ask.alternatives.get(alternative)?.admits(&view.node.features) {
        return None;
    }
    if !view.admits(span, ask.kind(), ask.uid) {
        return None;
    }
    let avail = view.avail(span);
    let least = ask.least_gpus();
    if !ask.fits(view, &avail, 1, &least) {
        // Of several totals, a node may need some GPU of any of them to be worth anything.
        return None;
    }
    let tasks = match ask.tasks {
        Tasks::Total(total) => {
            let bound = total.min(ask.tasks_max(view)).min(avail.cpus.max(1));
            most(1, bound, |t| ask.fits(view, &avail, t, &least))
        }
        Tasks::Each(each) => each,
        Tasks::PerGpu(_) => 1,
    };
    let mut share = least.clone();
    for (i, (_, count)) in ask.job_gpus.iter().enumerate() {
        let bound = (*count).min(crate::devices::units(ask, view, &avail));
        share[i] = most(least[i], bound, |g| {
            let mut tried = least.clone();
            tried[i] = g;
            ask.fits(view, &avail, 1, &tried)
        });
    }
    (ask.job_gpus.is_empty() || share.iter().any(|g| *g > 0)).then_some((tasks, share))
}

/// The largest `n` from `low` to `high` that passes, where `low` does and passing is monotone.
fn most(low: u32, high: u32, passes: impl Fn(u32) -> bool) -> u32 {
    if high <= low || passes(high) {
        return high.max(low);
    }
    let (mut good, mut bad) = (low, high);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if passes(middle) { good = middle } else { bad = middle }
    }
    good
}

impl Search<'_> {
    /// The nodes that are taken of the candidates, for the number of nodes that is tried first and
    /// fits.
    fn place_among(&self, candidates: &[Candidate]) -> Option<Picks> {
        let Search { world, ask, alternative, span, bounds, joint, .. } = *self;
        let targets = targets(ask, alternative);
        let all: Vec<&Candidate> = candidates.iter().collect();
        let forced = candidates.iter().filter(|c| c.forced).count();
        if forced < ask.request.node_list.len() {
            return None;
        }
        // Each node has a task and a GPU of a total, so there are no more nodes than those.
        let mut most = bounds.1.min(candidates.len() as u32);
        if let Tasks::Total(total) = ask.tasks {
            most = most.min(total);
        }
        if !ask.job_gpus.is_empty() {
            most = most.min(ask.job_gpus.iter().fold(0, |sum, g| sum.saturating_add(g.1)));
        }
        // The fewest nodes that could reach each target; more never reach less.
        let least = bounds.0.max(forced as u32).max(crate::select::fewest(candidates, &targets)?);
        let try_count = |count: u32| -> Option<Picks> {
            let contiguous = ask.request.contiguous;
            let chosen = if !joint.is_void() {
                choose(world, joint, candidates, count, contiguous, &targets)
            } else if contiguous {
                contiguous_run(world, &all, count as usize, &targets)
            } else {
                select(&all, count as usize, &targets)
            }?;
            spread(world, ask, span, chosen)
        };
        match &ask.request.nodes {
            None => (least..=most).find_map(try_count),
            Some(NodeCount::OneOf(set)) if least <= most => {
                set.range(least..=most).rev().copied().find_map(try_count)
            }
            Some(_) => (least..=most).rev().find_map(try_count),
        }
    }
}

/// What the chosen nodes have to reach together, in the order of [`Candidate::amounts`].
fn targets(ask: &Ask, alternative: usize) -> Vec<Target> {
    let mut targets = Vec::new();
    if let Tasks::Total(total) = ask.tasks {
        targets.push(u64::from(total));
    }
    targets.extend(ask.job_gpus.iter().map(|g| u64::from(g.1)));
    targets.extend(ask.alternatives[alternative].counts.iter().map(|c| u64::from(c.1)));
    targets
}

/// Lays tasks and GPU totals over the nodes, as evenly as their room allows, in rank order.
fn spread(world: &World, ask: &Ask, span: Span, mut chosen: Vec<&Candidate>) -> Option<Picks> {
    if !(ask.request.contiguous && goes_over_an_end(world, &chosen)) {
        chosen.sort_by_key(|c| world.map().place(c.node));
    }
    let mut next = 0;
    let mut tasks = vec![1; chosen.len()];
    if let Tasks::Total(total) = ask.tasks {
        let room: Vec<u32> = chosen.iter().map(|c| c.amounts[0]).collect();
        tasks = if ask.request.distribution.is_some_and(|d| d.pack == Some(true)) {
            packed(total, &room)?
        } else {
            evenly(total, 1, &room)?
        };
        next = 1;
    }
    let mut shares = vec![Vec::new(); chosen.len()];
    let least = ask.least_gpus();
    for (i, (_, count)) in ask.job_gpus.iter().enumerate() {
        let room: Vec<u32> = chosen.iter().map(|c| c.amounts[next + i]).collect();
        for (share, part) in shares.iter_mut().zip(evenly(*count, least[i], &room)?) {
            share.push(part);
        }
    }
    let mut picks = Vec::with_capacity(chosen.len());
    for ((candidate, tasks), share) in chosen.iter().zip(tasks).zip(shares) {
        let view = world.view_for(candidate.node, ask, span)?;
        let view = view.as_ref();
        let tasks = ask.tasks_with(tasks, &share);
        if !ask.fits(view, &view.avail(span), tasks, &share) {
            return None;
        }
        picks.push(Pick { node: candidate.node, tasks, share });
    }
    Some(picks)
}

/// True where the nodes, in this order, go from the last of a ring on to its first.
fn goes_over_an_end(world: &World, chosen: &[&Candidate]) -> bool {
    let follow = |ring: &[usize], a: usize, b: usize| ring.last() == Some(&a) && ring[0] == b;
    chosen
        .windows(2)
        .any(|pair| world.map().rings().iter().any(|ring| follow(ring, pair[0].node, pair[1].node)))
}

/// Splits `total` over places with so much room, one for each, the rest to the first that have room
/// (`--distribution=block,Pack`).
fn packed(total: u32, room: &[u32]) -> Option<Vec<u32>> {
    let mut left = total.checked_sub(room.len() as u32)?;
    let mut parts = Vec::with_capacity(room.len());
    for room in room {
        let more = left.min(room.saturating_sub(1));
        parts.push(1 + more);
        left -= more;
    }
    (left == 0).then_some(parts)
}

/// Splits `total` over places with so much room: `least` for each, the rest level by level.
fn evenly(total: u32, least: u32, room: &[u32]) -> Option<Vec<u32>> {
    let mut parts = vec![least; room.len()];
    let given = least.checked_mul(room.len() as u32)?;
    let mut left = total.checked_sub(given)?;
    while left > 0 {
        let open: Vec<usize> = (0..room.len()).filter(|i| parts[*i] < room[*i]).collect();
        if open.is_empty() {
            return None;
        }
        let level = (left / open.len() as u32).max(1);
        for i in open {
            let part = level.min(room[i] - parts[i]).min(left);
            parts[i] += part;
            left -= part;
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_spread_evenly_and_the_first_nodes_take_the_rest() {
        assert_eq!(evenly(7, 1, &[9, 9, 9, 9]), Some(vec![2, 2, 2, 1]));
        assert_eq!(evenly(7, 1, &[1, 9, 9]), Some(vec![1, 3, 3]));
        assert_eq!(evenly(7, 1, &[2, 2, 2]), None);
        assert_eq!(evenly(1, 1, &[2, 2]), None);
    }

    #[test]
    fn packed_tasks_fill_the_first_nodes() {
        assert_eq!(packed(5, &[4, 4]), Some(vec![4, 1]));
        assert_eq!(packed(7, &[2, 9, 9]), Some(vec![2, 4, 1]));
        assert_eq!(packed(9, &[4, 4]), None);
        assert_eq!(packed(1, &[4, 4]), None);
    }

    #[test]
    fn the_largest_that_passes_is_found() {
        for limit in 1..20 {
            assert_eq!(most(1, 19, |n| n <= limit), limit);
        }
    }
}
