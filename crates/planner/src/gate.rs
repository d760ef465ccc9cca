//! Whom one look at a level keeps from starting: most of a long queue.
//!
//! Once nobody can be promised a start any more, all that is left to find out of a job is whether it
//! starts now. Where fewer nodes are open for its limit than it needs, it does not, and nothing else
//! of the job has to be looked at. Who is open is listed once for each level until its holes change.

use crate::free::Span;
use crate::profile::{Tick, tick};
use crate::queue::{Gate, Shape};
use crate::round::{Round, Walk};
use crate::start::FEW_NODES;
use crate::world::World;
use muster_model::BackfillMode;

/// Until when the nodes of a level are open that are so now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    stamp: u64,
    /// The first blocked job of the partition has its promise.
    promised: bool,
    /// Descending.
    ends: Vec<Tick>,
}

/// The gate of a shape, where the least that it needs says all: one component that asks in one
/// way, for as long as it is taken to be there and no other.
pub(crate) fn of(world: &mut World, shape: &Shape) -> Option<Gate> {
    let [part] = shape.asks.as_slice() else { return None };
    let [ask] = part.as_slice() else { return None };
    let fixed = ask.time_min.is_none() && ask.deadline.is_none();
    if !fixed || shape.array.is_some() || ask.inside.is_some() || ask.is_restless() {
        return None;
    }
    let nodes = ask.node_bounds()?.0 as usize;
    Some(Gate { level: world.level_of(ask), nodes, limit: ask.length() })
}

impl Round<'_> {
    /// True where nothing can come of the turn of any job of a shape: too few nodes are open for
    /// it, and nobody makes room for it or promises it anything. Counts as the look that it is.
    pub(crate) fn is_shut_out(&mut self, walk: &mut Walk, at: usize) -> bool {
        let Some(shape) = self.cache.queue.shapes[at].as_ref() else { return false };
        let (gate, fit) = (shape.gate, shape.fit);
        let is_plain = self.limits.is_idle() && self.state.policy.backfill != BackfillMode::None;
        let Some(gate) = gate.filter(|_| is_plain && (walk.owes || !walk.depth.goes_on())) else {
            return false;
        };
        if self.can_make_room() {
            return false;
        }
        let Some(level) = self.cache.world.level(gate.level) else { return false };
        let open = walk.open.entry(gate.level).or_default();
        open.promised = open.promised || walk.depth.is_promised(level.partition());
        if !open.promised {
            return false;
        }
        if walk.known[fit].fails {
            return true;
        }
        if open.stamp != level.stamp() {
            let now = tick(self.now);
            open.stamp = level.stamp();
            open.ends = level.holes.open_at(now, now).map(|h| h.to).take(FEW_NODES).collect();
            open.ends.sort_unstable_by(|a, b| b.cmp(a));
        }
        let end = Span::of(self.now, self.now, gate.limit).end();
        let is_shut = open.are_fewer(gate.nodes, end);
        walk.known[fit].fails = is_shut;
        self.work.slots += u64::from(is_shut);
        is_shut
    }
}

impl Open {
    /// True where for sure fewer nodes than this are open until then.
    fn are_fewer(&self, nodes: usize, end: Tick) -> bool {
        self.ends.len() < FEW_NODES && self.ends.partition_point(|to| *to >= end) < nodes
    }
}
