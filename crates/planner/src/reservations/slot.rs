//! Nodes for a reservation: what a job of the same request would be given.

use super::Bookings;
use crate::ask::{Ask, Wants};
use crate::free::Span;
use crate::gang::place;
use crate::shared::SharedRequest;
use crate::timeline;
use crate::world::World;
use muster_model::{
    Exclusive, LinkKind, Node, NodeCount, NodeId, Partition, ReservedNode, ReservedPart, Seconds,
    State, TimeLimit, Timestamp, Want, Window, Work,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The name of the partition of all nodes that a reservation may have; no site's can be called so.
const ALL: &str = "\u{1}reservation";

/// Nodes wanted for a reservation.
#[derive(Clone, Debug)]
pub struct Slot<'a> {
    /// What is wanted.
    pub want: &'a Want,
    /// These nodes are not to be had.
    pub without: &'a BTreeSet<NodeId>,
    /// Running jobs do not stand in the way.
    pub ignore_jobs: bool,
    /// Other reservations do not stand in the way.
    pub ignore_reservations: bool,
}

impl Slot<'_> {
    /// The nodes that would do over this window; `None` where there are not enough.
    ///
    /// Costs a copy of the world: for commands, not for rounds.
    pub fn at(&self, state: &State, now: Timestamp, window: Window) -> Option<Vec<ReservedNode>> {
        let from = window.start.max(now);
        let (world, ask) = self.world(state, from, limit_of(from, window.end))?;
        let span = Span { now: from, from, to: window.end };
        let order = world.order_now(state.policy.nodes);
        let picks = place(&world, &ask, span, &order, &mut Work::default())?;
        let placement = world.materialise(&ask, &picks, span)?;
        let whole = ask.kind() == Exclusive::Node;
        let nodes = placement.nodes.into_iter().map(|share| ReservedNode {
            node: share.node,
            part: (!whole).then(|| ReservedPart {
                cpus: share.cpus,
                devices: share.devices.iter().map(|grant| grant.index).collect(),
            }),
        });
        Some(nodes.collect())
    }

    /// The earliest window of this length, not before `from`, with nodes that would do.
    pub fn earliest(
        &self,
        state: &State,
        now: Timestamp,
        from: Timestamp,
        length: Seconds,
    ) -> Option<(Window, Vec<ReservedNode>)> {
        let limit = TimeLimit::Of(length);
        let (mut world, ask) = self.world(state, now, limit)?;
        let mut from = from.max(now);
        // The timeline counts instants to the millisecond; nodes are chosen anew at its answer.
        loop {
            let parts = [vec![&ask]];
            let (start, places) =
                timeline::earliest(&mut world, &parts, from, &mut Work::default())?;
            timeline::undo(&mut world, &places);
            if start == Timestamp::NEVER {
                return None;
            }
            let window = Window { start, end: start.plus(length) };
            if let Some(nodes) = self.at(state, now, window) {
                return Some((window, nodes));
            }
            from = Timestamp::from_millis(start.millis().saturating_add(1000));
        }
    }

    /// The world as it is at an instant if every running job takes its whole limit, and the request
    /// on it.
    fn world(&self, state: &State, at: Timestamp, limit: TimeLimit) -> Option<(World, Ask)> {
        let named = match &self.want.partition {
            Some(name) => Some(state.partitions.get(name)?),
            None => None,
        };
        let nodes = state.nodes.values().filter(|node| {
            named.is_none_or(|p| p.nodes.contains(&node.name))
                && !self.without.contains(&node.id)
                && (!self.want.nvlink || is_joined(node))
        });
        let nodes: BTreeSet<String> = nodes.map(|node| node.name.clone()).collect();
        let mut request = self.want.request.clone();
        if self.want.all_nodes {
            request.nodes = Some(NodeCount::exactly(nodes.len() as u32));
            request.node_list.clone_from(&nodes);
            request.exclusive = Exclusive::Node;
        }
        let partition = Partition { name: ALL.to_owned(), nodes, ..Partition::default() };
        let partition = Arc::new(partition);
        let mut fork = state.clone();
        fork.partitions.insert(ALL.to_owned(), Arc::clone(&partition));
        for id in &state.index.active {
            let there = state.jobs.get(id).and_then(|job| job.ends_at_latest());
            if self.ignore_jobs || there.is_none_or(|end| end <= at && at > state.now) {
                fork.index.active.remove(id);
            }
        }
        let mut world = World::new(&fork, at);
        if self.ignore_reservations {
            world.set_bookings(Bookings::default());
        }
        let request = SharedRequest::from(request);
        let wants = Arc::new(Wants::new(&request, &partition, &state.policy.devices));
        let mut ask = Ask::new(wants, 0, limit, None, None);
        ask.heedless = self.ignore_reservations;
        Some((world, ask))
    }
}

fn limit_of(from: Timestamp, end: Timestamp) -> TimeLimit {
    match end {
        Timestamp::NEVER => TimeLimit::Unlimited,
        end => TimeLimit::Of(end.since(from)),
    }
}

/// True where every two healthy GPUs of the node are joined by NVLink, and there are two.
fn is_joined(node: &Node) -> bool {
    let healthy: Vec<_> = node.devices.iter().filter(|d| d.unhealthy.is_none()).collect();
    let joined = |a: &muster_model::Device, b: u32| {
        a.links.iter().any(|link| link.peer == b && matches!(link.kind, LinkKind::NvLink(_)))
    };
    healthy.len() > 1
        && healthy.iter().all(|a| {
            healthy.iter().all(|b| a.index == b.index || joined(a, b.index) || joined(b, a.index))
        })
}
