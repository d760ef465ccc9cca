//! All nodes and licences with what is on them, kept up as jobs come and go.

use crate::affinity::{Keys, Places, Social};
use crate::ask::{Ask, Floor};
use crate::devices;
use crate::free::{Holding, NodeView, OVERDUE_MS, Pool, Reserved, Span};
use crate::gang::Picks;
use crate::known::KnownStarts;
use crate::levels::{Level, Levels, Saved};
pub(crate) use crate::members::Bare;
use crate::members::Members;
use crate::natural::natural;
use crate::profile::{FOREVER, instant, tick};
use crate::reservations::Bookings;
use crate::timeline::Spare;
use crate::topology::Map;
use crate::waste::Waste;
use muster_model::{Job, JobId, Mib, NodeChoice, NodeId, NodeShare, Placement, State, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A node's free and its own amounts, side by side for quick looks.
#[derive(Clone, Copy, Debug, Default)]
struct Column {
    free: Floor,
    own: Floor,
    weight: u32,
    shy_taints: u32,
    /// Amounts alone decide who finds room on it, as far as it is not reserved.
    plain: bool,
    /// What is free now stays free.
    quiet: bool,
}

/// Nodes by dense index (ascending node id), partitions' members, licences and the ends to come.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    views: Vec<NodeView>,
    columns: Vec<Column>,
    slots: BTreeMap<NodeId, usize>,
    names: BTreeMap<String, usize>,
    by_name: Vec<usize>,
    members: BTreeMap<String, Members>,
    pools: BTreeMap<String, Pool>,
    /// The ends to come of what runs, with the nodes that it is on.
    ends: BTreeMap<(Timestamp, JobId), Vec<usize>>,
    /// The end of each job in `ends`.
    end_of: BTreeMap<JobId, Timestamp>,
    /// When which amounts are free where.
    levels: Levels,
    /// How many takings share their node with their own user only.
    by_user: u32,
    bookings: Bookings,
    /// The instant that counts as the present.
    now: Timestamp,
    /// The levels are put back by themselves.
    quiet: bool,
    map: Map,
    social: Social,
    /// What counts as one place for those who heed others.
    keys: Keys,
    /// What is known of starts, as long as nothing is taken off.
    pub(crate) known: KnownStarts,
    /// Room for walks over time.
    pub(crate) spare: Spare,
    /// How nodes are measured where the policy takes those that waste the least.
    pub(crate) waste: Option<Waste>,
}

impl World {
    pub(crate) fn new(state: &State, now: Timestamp) -> Self {
        let mut world = Self::of_nodes(state, state.nodes.values().map(Arc::clone));
        world.now = now;
        world.bookings = Bookings::new(state, &world.slots);
        for id in &state.index.active {
            if let Some(job) = state.jobs.get(id) {
                world.hold_as(state, job);
            }
        }
        world
    }

    /// Takes up that jobs outlived what they were expected to run.
    pub(crate) fn correct(&mut self, state: &State, now: Timestamp) {
        if !state.trusts_estimates() {
            return;
        }
        let over = self.ends.range(..=(now, JobId(u32::MAX))).map(|((end, id), _)| (*end, *id));
        for (end, id) in over.collect::<Vec<_>>() {
            let Some(job) = state.jobs.get(&id) else { continue };
            if job.growth().is_some() {
                continue;
            }
            let corrected = state.expected_end(job, now);
            if let (Some(placement), true) = (&job.placement, corrected != Some(end)) {
                self.release(id, placement);
                self.hold_as(state, job);
            }
        }
    }

    /// Takes up a running job as the state has it: all of its placement, or what it keeps while it
    /// stands still for others, or what of its CPUs and GPUs nobody who shares holds for longer.
    pub(crate) fn hold_as(&mut self, state: &State, job: &Job) {
        if !job.yields_cpus() && !job.lends && job.turn.is_none() {
            return self.hold(state, job);
        }
        if let Some(placement) = crate::preempt::on_the_world(state, job)
            && let Some(end) = state.expected_end(job, self.now)
        {
            self.occupy(job, &placement, end, false);
        }
    }

    /// The dense index of a node.
    pub(crate) fn slot_of(&self, node: NodeId) -> Option<usize> {
        self.slots.get(&node).copied()
    }

    /// The world with nothing on its nodes, ours or not.
    pub(crate) fn bare(state: &State, which: Bare) -> Self {
        let nodes = state.nodes.values().map(|node| {
            let mut node = muster_model::Node::clone(node);
            node.foreign.clear();
            if which == Bare::All {
                node.availability = muster_model::Availability::Up;
                node.drain = None;
                node.devices.iter_mut().for_each(|d| d.unhealthy = None);
            }
            Arc::new(node)
        });
        Self::of_nodes(state, nodes)
    }

    fn of_nodes(state: &State, nodes: impl Iterator<Item = Arc<muster_model::Node>>) -> Self {
        let mut world = Self::default();
        for (at, node) in nodes.enumerate() {
            world.slots.insert(node.id, at);
            world.names.insert(node.name.clone(), at);
            world.views.push(NodeView::new(&node));
            world.columns.push(Column::default());
            world.refresh(at);
        }
        world.by_name = (0..world.views.len()).collect();
        world.by_name.sort_by_cached_key(|at| natural(&world.views[*at].node.name));
        for partition in state.partitions.values() {
            let mut members = Members::default();
            let slots: BTreeSet<usize> =
                partition.nodes.iter().filter_map(|name| world.names.get(name).copied()).collect();
            for at in slots {
                members.insert(at);
            }
            world.members.insert(partition.name.clone(), members);
        }
        world.set_licences(state);
        world.set_map(state);
        world.set_waste(state);
        world
    }

    /// Takes up what nodes have beside their GPUs.
    pub(crate) fn set_waste(&mut self, state: &State) {
        self.waste = Waste::of(&state.policy, &self.views);
    }

    pub(crate) fn set_licences(&mut self, state: &State) {
        self.known.forget();
        for pool in self.pools.values_mut() {
            pool.total = 0;
        }
        for licence in state.licences.values() {
            self.pools.entry(licence.name.clone()).or_default().total = licence.total;
        }
    }

    /// Takes up how the nodes are joined.
    pub(crate) fn set_map(&mut self, state: &State) {
        let nodes: Vec<&muster_model::Node> = self.views.iter().map(|v| v.node.as_ref()).collect();
        self.map = Map::new(&state.topology, &nodes);
        self.keys.forget();
        self.known.forget();
    }

    /// Who is where, as other jobs see it.
    pub(crate) fn social(&self) -> &Social {
        &self.social
    }

    /// What counts as one place under a key: `node`, a level of the topology, a node label.
    pub(crate) fn places(&self, key: &str) -> Arc<Places> {
        self.keys.places(self, key)
    }

    /// How the nodes are joined.
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    pub(crate) fn describe(&mut self, node: &Arc<muster_model::Node>) {
        let Some(at) = self.slots.get(&node.id).copied() else { return };
        self.known.forget();
        if self.views[at].node.labels != node.labels {
            self.keys.forget();
        }
        self.levels.before(&self.views[at]);
        self.views[at].describe(node, self.now);
        self.refresh(at);
        let members = &self.members;
        self.levels.described(at, &self.views[at], |name| {
            members.get(name).is_some_and(|m| m.contains(at))
        });
    }

    /// Moves the present on: what is past its end is taken to be over soon after it.
    pub(crate) fn set_now(&mut self, now: Timestamp) {
        self.now = now;
        self.known.forget();
        let soon = Timestamp::from_millis(now.millis().saturating_add(OVERDUE_MS));
        let overdue = self.ends.range(..(soon, JobId(0))).flat_map(|(_, nodes)| nodes);
        let nodes: BTreeSet<usize> = overdue.copied().collect();
        for at in nodes {
            self.alter(at, |view| view.rebuild(now));
        }
    }

    /// Every change of what is on a node goes through here.
    fn alter(&mut self, at: usize, change: impl FnOnce(&mut NodeView)) {
        if !self.quiet {
            self.levels.before(&self.views[at]);
        }
        self.by_user -= self.views[at].by_user();
        change(&mut self.views[at]);
        self.by_user += self.views[at].by_user();
        self.refresh(at);
        if !self.quiet {
            self.levels.after(at, &self.views[at]);
        }
    }

    /// The levels as they are, to come back to them.
    pub(crate) fn save(&self) -> Saved {
        self.levels.save()
    }

    /// From here to [`Self::restore`] everything that was put on since `saved` is taken off, and
    /// the levels need not follow. They do where some came into being since.
    pub(crate) fn hush(&mut self, saved: &Saved) {
        self.quiet = self.levels.can_restore(saved);
    }

    /// Puts the levels back, once everything else is.
    pub(crate) fn restore(&mut self, saved: Saved) {
        if self.quiet {
            self.levels.restore(saved);
        }
        self.quiet = false;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// True where some job shares its nodes with its own user only.
    pub(crate) fn is_picky(&self) -> bool {
        self.by_user > 0
    }

    /// The first instant after `at` at which anything changes on any node or with any licence.
    pub(crate) fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        let from = tick(at);
        let nodes = self.views.iter().filter_map(|v| v.profile.changes(from, FOREVER).next()).min();
        let licences = self.pools.values().flat_map(|pool| pool.changes(self.now));
        let others = licences.chain(self.bookings.edges(at)).filter(|t| *t > at);
        nodes.map(instant).into_iter().chain(others).min()
    }

    /// The level of an ask: when which node has the least that it needs.
    pub(crate) fn level_of(&mut self, ask: &Ask) -> usize {
        let members = self.members.get(&ask.partition.name);
        self.levels.of(ask, &self.views, |at| members.is_some_and(|m| m.contains(at)))
    }

    pub(crate) fn level(&self, level: usize) -> Option<&Level> {
        self.levels.get(level)
    }

    fn refresh(&mut self, at: usize) {
        let view = &self.views[at];
        self.columns[at] = Column {
            free: Floor {
                cpus: view.free_cpu_count,
                gpus: view.free_devices.count_ones(),
                memory: view.free_memory,
            },
            own: Floor {
                cpus: view.base_cpu_count,
                gpus: view.base_devices.count_ones(),
                memory: view.base_memory,
            },
            weight: view.node.weight,
            shy_taints: view.shy_taints(),
            plain: view.is_plain(),
            quiet: view.is_quiet(),
        };
    }

    /// A node's weight: light ones come first.
    pub(crate) fn weight(&self, node: usize) -> u32 {
        self.columns[node].weight
    }

    /// What a node has free now.
    pub(crate) fn free_now(&self, node: usize) -> Floor {
        self.columns[node].free
    }

    /// False where a look at three numbers says that the node cannot give this much in the span.
    pub(crate) fn could_give(&self, node: usize, floor: Floor, span: Span) -> bool {
        let column = &self.columns[node];
        let has = if span.from == span.now { column.free } else { column.own };
        floor.cpus <= has.cpus && floor.gpus <= has.gpus && floor.memory <= has.memory
    }

    /// Whether a node takes its part of the ask in the span, where amounts tell it; `None` where
    /// more has to be looked at.
    pub(crate) fn tells(&self, node: usize, ask: &Ask, span: Span) -> Option<bool> {
        let need = ask.simple_need()?;
        let column = &self.columns[node];
        if !column.plain || !self.bookings.leaves(node, ask) {
            return None;
        }
        let has = if span.from == span.now && column.quiet {
            column.free
        } else {
            let least = self.views[node].profile.least(tick(span.from), span.end());
            least.map_or(Floor::default(), |least| Floor {
                cpus: least.cpus,
                gpus: least.devices.count_ones(),
                memory: least.memory,
            })
        };
        let (cpus, gpus) = (need.cpus <= has.cpus, need.gpu_total() <= has.gpus);
        Some(cpus && gpus && need.memory <= has.memory)
    }

    /// Takes up a job that has resources.
    pub(crate) fn hold(&mut self, state: &State, job: &Job) {
        // What is held for one that starts again on more nodes is its own already.
        if let Some((placement, end)) = job.growth() {
            return self.occupy(job, placement, end, false);
        }
        let end = state.expected_end(job, self.now);
        let (Some(placement), Some(end)) = (&job.placement, end) else { return };
        self.occupy(job, placement, end, false);
    }

    /// Takes up a placement, of a running job or of one that this round starts.
    pub(crate) fn occupy(
        &mut self,
        job: &Job,
        placement: &Placement,
        end: Timestamp,
        behind_promise: bool,
    ) {
        let kind = job.spec.request.exclusive;
        let mut nodes = Vec::with_capacity(placement.nodes.len());
        let now = self.now;
        for share in &placement.nodes {
            if let Some(at) = self.slots.get(&share.node).copied() {
                let holding = Holding::of(job.id, job.spec.owner.uid, kind, end, share);
                let holding = Holding { behind_promise, ..holding };
                self.alter(at, |view| view.hold(holding, now));
                nodes.push(at);
            }
        }
        for (name, count) in &placement.licences {
            self.pools.entry(name.clone()).or_default().holds.push((job.id, end, *count));
        }
        self.social.enter(job.id, &job.spec, nodes.clone(), end);
        self.ends.insert((end, job.id), nodes);
        self.end_of.insert(job.id, end);
        self.bookings.enter(job.id, placement.reservation.as_ref());
    }

    /// Lets go of what a job had.
    pub(crate) fn release(&mut self, job: JobId, placement: &Placement) {
        let now = self.now;
        self.known.forget();
        self.bookings.leave(job);
        self.social.leave(job);
        let end = self.end_of.remove(&job);
        let nodes = end.and_then(|end| self.ends.remove(&(end, job)));
        for at in nodes.unwrap_or_default() {
            self.alter(at, |view| view.release(job, now));
        }
        for name in placement.licences.keys() {
            if let Some(pool) = self.pools.get_mut(name) {
                pool.holds.retain(|h| h.0 != job);
            }
        }
    }

    pub(crate) fn view(&self, node: usize) -> &NodeView {
        &self.views[node]
    }

    pub(crate) fn views(&self) -> &[NodeView] {
        &self.views
    }

    pub(crate) fn members(&self, partition: &str) -> Option<&Members> {
        self.members.get(partition)
    }

    pub(crate) fn by_name(&self) -> &[usize] {
        &self.by_name
    }

    pub(crate) fn node_named(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    pub(crate) fn set_bookings(&mut self, bookings: Bookings) {
        self.bookings = bookings;
        self.known.forget();
    }

    pub(crate) fn bookings(&self) -> &Bookings {
        &self.bookings
    }

    pub(crate) fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.get(name)
    }

    /// The nodes that the request names; `None` where one is not there.
    pub(crate) fn forced_nodes(&self, ask: &Ask) -> Option<Vec<usize>> {
        ask.request.node_list.iter().map(|name| self.node_named(name)).collect()
    }

    /// Nodes in the order in which they are tried: light ones first, then the fullest (or the
    /// emptiest), by GPUs before CPUs, so that work without GPUs stays off the GPU nodes. Of equal
    /// ones, those with fewer idle nodes beside them, so that whole groups stay free.
    pub(crate) fn order_now(&self, choice: NodeChoice) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.views.len()).collect();
        let idle = self.idle_beside();
        order.sort_by_cached_key(|at| self.preference(*at, choice, &idle));
        order
    }

    /// By node: how many nodes without work are in its domain of the lowest level.
    pub(crate) fn idle_beside(&self) -> Vec<u32> {
        self.map.idle_beside(|at| self.views[at].holdings.is_empty())
    }

    pub(crate) fn preference(
        &self,
        at: usize,
        choice: NodeChoice,
        idle: &[u32],
    ) -> (u32, u32, u32, u32, u32, usize) {
        let Column { free: Floor { cpus, gpus, .. }, weight, shy_taints, .. } = self.columns[at];
        let (full, most) = ((gpus, cpus, idle[at]), u32::MAX);
        let (gpus, cpus, idle) = match choice {
            NodeChoice::Pack | NodeChoice::LeastWaste => full,
            NodeChoice::Spread => (most - full.0, most - full.1, most - full.2),
        };
        (weight, shy_taints, gpus, cpus, idle, at)
    }

    /// Puts a promise on the nodes and licences.
    pub(crate) fn reserve(&mut self, ask: &Ask, picks: &Picks, span: Span) {
        if let Some(who) = &ask.who {
            self.social.expect(who, picks.iter().map(|p| p.node).collect(), span);
        }
        for pick in picks {
            let whole = &self.views[pick.node];
            let view = self.view_for(pick.node, ask, span);
            let view = view.as_deref().unwrap_or(whole);
            let avail = view.avail(span);
            let need = ask.need(view, pick.tasks, &pick.share);
            // Devices that are busy now before those that others could use until then.
            let busy_now = !view.free_devices;
            let chosen = devices::choose(ask, view, &avail, busy_now, &need).unwrap_or_default();
            let reserved = Reserved {
                uid: ask.uid,
                kind: ask.kind(),
                from: span.from,
                to: span.to,
                cpus: need.cpus,
                memory: need.memory,
                devices: chosen.touched(),
                parts: chosen.parts,
                gres: ask.request.gres.clone(),
            };
            self.alter(pick.node, |view| view.reserve(reserved));
        }
        for (name, count) in &ask.licences {
            let pool = self.pools.entry(name.clone()).or_default();
            pool.reserved.push((span.from, span.to, *count));
        }
    }

    /// Puts on the nodes what a job will have of them, exactly, from an instant on.
    pub(crate) fn expect(
        &mut self,
        job: &Job,
        placement: &Placement,
        from: Timestamp,
        to: Timestamp,
    ) {
        let kind = job.spec.request.exclusive;
        let mut nodes = Vec::with_capacity(placement.nodes.len());
        for share in &placement.nodes {
            let Some(at) = self.slots.get(&share.node).copied() else { continue };
            let will = Holding::of(job.id, job.spec.owner.uid, kind, to, share);
            let reserved = Reserved {
                uid: will.uid,
                kind: will.kind,
                from,
                to,
                cpus: will.cpu_count,
                memory: will.memory,
                devices: will.devices,
                parts: will.parts,
                gres: will.gres,
            };
            self.alter(at, |view| view.reserve(reserved));
            nodes.push(at);
        }
        self.social.expect(&job.spec, nodes, Span { now: self.now, from, to });
        for (name, count) in &placement.licences {
            let pool = self.pools.entry(name.clone()).or_default();
            pool.reserved.push((from, to, *count));
        }
    }

    /// Takes back the last promise put on with these picks.
    pub(crate) fn unreserve(&mut self, ask: &Ask, picks: &Picks) {
        self.known.forget();
        if ask.who.is_some() {
            self.social.expect_no_more();
        }
        let now = self.now;
        for pick in picks {
            self.alter(pick.node, |view| view.unreserve(now));
        }
        for name in ask.licences.keys() {
            if let Some(pool) = self.pools.get_mut(name) {
                pool.reserved.pop();
            }
        }
    }

    /// The exact resources of picks that fit now.
    pub(crate) fn materialise(&self, ask: &Ask, picks: &Picks, span: Span) -> Option<Placement> {
        let mut nodes = Vec::with_capacity(picks.len());
        for pick in picks {
            let view = self.view_for(pick.node, ask, span)?;
            let view = view.as_ref();
            let avail = view.avail(span);
            let need = ask.need(view, pick.tasks, &pick.share);
            let chosen = devices::choose(ask, view, &avail, 0, &need)?;
            // CPUs that must be beside the devices are taken beside each of them.
            let parts = pick.tasks.max(if ask.request.cpus_near_gpus { 2 } else { 1 });
            // Numbered ones first: they can be had beside the devices.
            let numbered = need.cpus.min(view.free_cpus.len());
            nodes.push(NodeShare {
                node: view.node.id,
                tasks: pick.tasks,
                cpus: devices::cpus::choose(view, chosen.touched(), numbered, parts)?,
                cpu_pool: need.cpus - numbered,
                memory: Mib(need.memory),
                devices: chosen.grants(view, ask),
                gres: ask.request.gres.clone(),
                exclusive: ask.kind() == muster_model::Exclusive::Node,
            });
        }
        Some(Placement {
            partition: ask.partition.name.clone(),
            nodes,
            licences: ask.licences.clone(),
            reservation: ask.inside.clone(),
        })
    }
}
