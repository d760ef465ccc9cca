//! What keeps a waiting job from each node now: one cause for each, the most lasting.
//!
//! A node is asked about the least part of the job that it would have to take: the whole of a job
//! that is to be on one node, else one task and one GPU of a total. Of the ways to ask for a job
//! (partitions, reservations) the one that comes furthest on the node counts.
//!
//! Work: every node of the job's partitions once for each way, with its own reservations, holders
//! and promises; nothing is tried over several nodes.

use crate::affinity::Even;
use crate::ask::{Ask, Tasks};
use crate::coming::{Coming, Kept};
use crate::devices;
use crate::free::{Avail, Holding, NodeView, Span, effective_end};
use crate::outcome::Outcome;
use crate::reservations;
use crate::shortage::{gpu_word, least_on, only_named, usable_gpus};
use crate::topology::Joint;
use crate::world::World;
use muster_model::affinity::{BARRING, untolerated};
use muster_model::{
    Affinity, Availability, Exclusive, Job, JobId, NodeCause, NodeShare, NodeTally, Promise,
    PromisedShare, RuleKind, Seconds, State, TimeLimit, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// At most so many jobs are named.
const NAMED_MAX: usize = 8;

/// A job that starts in the round, what it takes of a node, and its limit.
type Starting<'a> = (&'a Arc<Job>, &'a NodeShare, TimeLimit);

/// Room that is kept for a job on a node.
type KeptShare<'a> = (&'a Kept, &'a NodeShare);

/// What comes to the nodes before the job does, by node.
#[derive(Default)]
struct Before<'a> {
    starts: BTreeMap<usize, Vec<Starting<'a>>>,
    kept: BTreeMap<usize, Vec<KeptShare<'a>>>,
    promises: BTreeMap<usize, Vec<(&'a Promise, Option<PromisedShare>)>>,
}

/// One way to ask for the job, prepared for a look at every node.
struct Look<'a> {
    world: &'a World,
    ask: &'a Ask,
    joint: Option<Joint<'a>>,
    span: Span,
    /// The whole job is to be on one node, or each of its nodes takes the same part.
    whole: bool,
    /// It is to be on one node.
    single: bool,
    named: bool,
}

/// Every node of the job's partitions under the cause that keeps the job from it.
pub(crate) fn tally(
    world: &World,
    state: &State,
    job: &Job,
    outcome: &Outcome,
    coming: &Coming<'_>,
    now: Timestamp,
) -> Vec<NodeTally> {
    if crate::queue::held_licence(state, &job.spec.request).is_some() {
        // No node keeps it from starting.
        return Vec::new();
    }
    let asks = asks(state, job, now);
    let looks: Vec<Look<'_>> = asks.iter().map(|ask| Look::of(world, ask, coming, now)).collect();
    let before = Before::of(state, world, job, outcome, coming);
    let mut of_partition: BTreeMap<usize, &str> = BTreeMap::new();
    for name in job.spec.partitions.iter().rev() {
        let members = world.members(name).map_or(&[][..], |m| m.list());
        of_partition.extend(members.iter().map(|node| (*node, name.as_str())));
    }
    let causes = of_partition.into_iter().map(|(node, partition)| {
        (world.view(node).node.id, cause(world, &looks, &before, node, partition))
    });
    muster_model::tally::tally(causes)
}

/// The cause that keeps a job from one node; `None` where no partition of the job has the node.
pub(crate) fn on_node(
    world: &World,
    state: &State,
    job: &Job,
    outcome: &Outcome,
    node: usize,
    now: Timestamp,
) -> Option<NodeCause> {
    let has = |name: &&String| world.members(name).is_some_and(|m| m.contains(node));
    let partition = job.spec.partitions.iter().find(has)?;
    if crate::queue::held_licence(state, &job.spec.request).is_some() {
        return None;
    }
    let asks = asks(state, job, now);
    let coming = Coming::of(state, outcome, now, Some(job.id));
    let looks: Vec<Look<'_>> = asks.iter().map(|ask| Look::of(world, ask, &coming, now)).collect();
    let before = Before::of(state, world, job, outcome, &coming);
    Some(cause(world, &looks, &before, node, partition))
}

/// The ways to ask for the job, each with the least time that would do.
fn asks(state: &State, job: &Job, now: Timestamp) -> Vec<Ask> {
    let mut asks = crate::queue::asks(state, job, now);
    for ask in &mut asks {
        if let (Some(least), TimeLimit::Of(limit)) = (ask.time_min, ask.limit) {
            ask.limit = TimeLimit::Of(limit.min(Seconds(least)));
        }
    }
    asks
}

fn cause(
    world: &World,
    looks: &[Look<'_>],
    before: &Before<'_>,
    node: usize,
    partition: &str,
) -> NodeCause {
    let here = |look: &&Look<'_>| {
        world.members(&look.ask.partition.name).is_some_and(|m| m.contains(node))
    };
    let causes = looks.iter().filter(here).map(|look| look.cause(node, before));
    let furthest = causes.max();
    furthest.unwrap_or_else(|| NodeCause::Partition { partition: partition.to_owned() })
}

impl<'a> Before<'a> {
    /// All that comes, and the promises of others, on the nodes that they take.
    fn of(
        state: &State,
        world: &World,
        own: &Job,
        outcome: &'a Outcome,
        coming: &'a Coming<'_>,
    ) -> Self {
        let mut before = Self::default();
        let slot = |id: &muster_model::NodeId| {
            state.nodes.get(id).and_then(|node| world.node_named(&node.name))
        };
        for (job, placement, limit) in &coming.starts {
            for share in &placement.nodes {
                if let Some(at) = slot(&share.node) {
                    before.starts.entry(at).or_default().push((job, share, *limit));
                }
            }
        }
        for kept in &coming.kept {
            for share in &kept.placement.nodes {
                if let Some(at) = slot(&share.node) {
                    before.kept.entry(at).or_default().push((kept, share));
                }
            }
        }
        for promise in outcome.plan.promises.iter().filter(|promise| promise.job != own.id) {
            for (at, id) in promise.nodes.iter().enumerate() {
                if let Some(node) = slot(id) {
                    let share = promise.shares.get(at).copied();
                    before.promises.entry(node).or_default().push((promise, share));
                }
            }
        }
        before
    }
}

impl<'a> Look<'a> {
    fn of(world: &'a World, ask: &'a Ask, coming: &'a Coming<'_>, now: Timestamp) -> Self {
        let span = Span::of(now, now, ask.length());
        let (least, most) = ask.node_bounds().unwrap_or((1, 1));
        let fewest = ask.request.nodes.is_none() && least == 1;
        // Rules on other jobs hold beside those that come, too.
        let heeds = ask.affinity().is_some_and(Affinity::looks_at_jobs) || coming.has_apart();
        Self {
            world,
            ask,
            joint: Joint::of(if heeds { coming.after(world) } else { world }, ask, span),
            span,
            whole: most == 1 || !ask.can_be_spread(),
            single: most == 1 || (fewest && !ask.can_be_spread()),
            named: only_named(ask),
        }
    }

    fn cause(&self, node: usize, before: &Before<'_>) -> NodeCause {
        let view = self.world.view(node);
        let lasting =
            self.by_request(view).or_else(|| self.by_size(view)).or_else(|| by_state(view));
        if let Some(cause) = lasting {
            return cause;
        }
        let would_do = |left: &NodeView| self.fits(left, &left.whole());
        if let Some(cause) = reservations::on_node(self.world, self.ask, node, self.span, would_do)
        {
            return cause;
        }
        if let Some(cause) = self.by_others(node) {
            return cause;
        }
        let Some(left) = self.world.view_for(node, self.ask, self.span) else {
            return NodeCause::Unfit;
        };
        if !self.has_room(&left, self.span) {
            return self.busy(&left);
        }
        self.by_those_before(&left, node, before).unwrap_or(NodeCause::Free)
    }

    /// What the job itself says of nodes.
    fn by_request(&self, view: &NodeView) -> Option<NodeCause> {
        let (ask, node) = (self.ask, &view.node);
        let request = &ask.request;
        if self.named && !request.node_list.contains(&node.name) {
            return Some(NodeCause::NotNamed);
        }
        if request.exclude.contains(&node.name) {
            return Some(NodeCause::Excluded);
        }
        if !ask.alternatives.iter().any(|a| a.admits(&node.features)) {
            return Some(NodeCause::Features);
        }
        if node.scratch < request.scratch {
            return Some(NodeCause::Scratch { has: node.scratch, needs: request.scratch });
        }
        if let Some(needs) = request.sockets_per_node.filter(|n| *n > view.sockets) {
            return Some(NodeCause::Sockets { has: view.sockets, needs });
        }
        if ask.needs_certainty(node) {
            return Some(NodeCause::Uncertain);
        }
        let tolerations = ask.affinity().map_or(&[][..], |a| &a.tolerations);
        let mut taints = untolerated(node, tolerations, &BARRING);
        if let Some(taint) = taints.next().filter(|_| !ask.tolerates_all) {
            return Some(NodeCause::Taint { taint: taint.to_string() });
        }
        ask.affinity().is_some_and(|a| !a.admits(node)).then_some(NodeCause::Labels)
    }

    /// What it lacks even while nobody uses it.
    fn by_size(&self, view: &NodeView) -> Option<NodeCause> {
        let whole = view.whole();
        if let Some(cause) = self.wrong_gpus(view, view.base_devices) {
            return Some(cause);
        }
        if let Some((resource, has, needs)) = self.lacks(view, &whole) {
            return Some(NodeCause::TooSmall { resource, has, needs });
        }
        (!self.fits(view, &whole)).then_some(NodeCause::Unfit)
    }

    /// The model or the memory of its GPUs is not what is asked for.
    fn wrong_gpus(&self, view: &NodeView, devices: u128) -> Option<NodeCause> {
        let ask = self.ask;
        let models = ask.models();
        let named = |model: &&str| muster_model::mig::split_type(model).0.map(str::to_owned);
        let absent = models.iter().filter_map(named).find(|m| view.of_model(m) & devices == 0);
        if let Some(needs) = absent {
            return Some(NodeCause::GpuModel { needs });
        }
        let needs = ask.request.gpu_memory?;
        let of_node = view.node.devices.iter();
        let has = of_node.map(|d| d.memory).max().filter(|has| *has < needs)?;
        Some(NodeCause::GpuMemory { has, needs })
    }

    /// What of this is too little for the part of the job.
    fn lacks(&self, view: &NodeView, avail: &Avail) -> Option<(String, u64, u64)> {
        let ask = self.ask;
        let least = least_on(ask, view, self.whole);
        let gpus = if ask.is_plain() {
            usable_gpus(ask, view, avail.devices)
        } else {
            devices::most(ask, view, avail, &least.need)
        };
        if gpus < least.gpus {
            return Some((gpu_word(ask).to_owned(), u64::from(gpus), u64::from(least.gpus)));
        }
        if avail.cpus < least.cpus {
            return Some(("cpus".to_owned(), u64::from(avail.cpus), u64::from(least.cpus)));
        }
        if avail.memory < least.memory {
            return Some(("memory".to_owned(), avail.memory, least.memory));
        }
        ask.request.gres.iter().find_map(|(name, needs)| {
            let has = avail.gres.get(name).copied().unwrap_or(0);
            (has < *needs).then(|| (name.clone(), has, *needs))
        })
    }

    fn fits(&self, view: &NodeView, avail: &Avail) -> bool {
        let ask = self.ask;
        if !self.whole {
            return ask.fits(view, avail, 1, &ask.least_gpus());
        }
        let tasks = match ask.tasks {
            Tasks::Total(n) if ask.node_bounds().is_none_or(|b| b.1 == 1) => n,
            Tasks::Total(_) | Tasks::PerGpu(_) => 1,
            Tasks::Each(each) => each,
        };
        let share: Vec<u32> = ask.job_gpus.iter().map(|g| g.1).collect();
        ask.fits(view, avail, tasks, &share)
    }

    /// Levels of the topology and the jobs beside it.
    fn by_others(&self, node: usize) -> Option<NodeCause> {
        let Some(joint) = &self.joint else { return Some(NodeCause::Level) };
        let fence = &joint.fence;
        let rule = |kind| Some(NodeCause::Rule { kind });
        if fence.bars(node) {
            return rule(RuleKind::AntiAffinity);
        }
        if !fence.is_near(node) {
            return rule(RuleKind::JobAffinity);
        }
        // How even several nodes are does not show on one of them.
        let uneven = |even: &Even| !even.counts_at(node) || (self.single && !even.allows(&[node]));
        if fence.even.iter().any(uneven) {
            return rule(RuleKind::Spread);
        }
        let allowed = joint.admits(node) && (!self.single || joint.allows(&[node]));
        (!allowed).then_some(NodeCause::Level)
    }

    fn has_room(&self, view: &NodeView, span: Span) -> bool {
        view.admits(span, self.ask.kind(), self.ask.uid) && self.fits(view, &view.avail(span))
    }

    /// Who uses it, and until when: the first end after which the part fits.
    fn busy(&self, view: &NodeView) -> NodeCause {
        let now = self.span.now;
        let mut ends: Vec<Timestamp> =
            view.holdings.iter().map(|held| effective_end(held.end, now)).collect();
        ends.sort_unstable();
        ends.dedup();
        let too_early = |at: &Timestamp| {
            *at != Timestamp::NEVER && !self.has_room(view, Span::of(now, *at, self.ask.length()))
        };
        let until = ends.get(ends.partition_point(too_early)).copied();
        let until = until.unwrap_or(Timestamp::NEVER);
        let ends_then = |held: &&Holding| effective_end(held.end, now) == until;
        let held_by: BTreeSet<JobId> =
            view.holdings.iter().filter(ends_then).map(|held| held.job).collect();
        let closed = !view.admits(self.span, self.ask.kind(), self.ask.uid);
        let resource = match self.lacks(view, &view.avail(self.span)) {
            Some((resource, ..)) if !closed && self.ask.kind() == Exclusive::No => resource,
            _ => "nodes".to_owned(),
        };
        let held_by = held_by.into_iter().take(NAMED_MAX).collect();
        NodeCause::Busy { resource, until, latest: until, held_by }
    }

    /// Jobs that start there in this round, and jobs for which it is kept.
    fn by_those_before(
        &self,
        view: &NodeView,
        node: usize,
        before: &Before<'_>,
    ) -> Option<NodeCause> {
        let mut view = view.clone();
        let now = self.span.now;
        if let Some(starts) = before.starts.get(&node) {
            for (job, share, limit) in starts {
                let (uid, kind) = (job.spec.owner.uid, job.spec.request.exclusive);
                let end = now.plus_limit(*limit);
                view.hold(Holding::of(job.id, uid, kind, end, share), now);
            }
            if !self.has_room(&view, self.span) {
                let jobs = starts.iter().map(|(job, ..)| job.id).take(NAMED_MAX).collect();
                return Some(NodeCause::Taken { jobs });
            }
        }
        if let Some(kept) = before.kept.get(&node) {
            for (room, share) in kept {
                let (uid, kind) = (room.job.spec.owner.uid, room.job.spec.request.exclusive);
                view.hold(Holding::of(room.job.id, uid, kind, room.end(now), share), now);
            }
            if !self.has_room(&view, self.span) {
                let jobs = kept.iter().map(|(room, _)| room.job.id).take(NAMED_MAX).collect();
                let start = kept.iter().map(|(room, _)| room.from).min();
                return Some(NodeCause::Kept { jobs, start: start.unwrap_or(Timestamp::NEVER) });
            }
        }
        let met: Vec<_> = before
            .promises
            .get(&node)?
            .iter()
            .filter(|(promise, _)| {
                promise.start != Timestamp::NEVER
                    && self.span.meets(promise.start, Timestamp::NEVER)
            })
            .collect();
        let start = met.iter().map(|(promise, _)| promise.start).min()?;
        if self.fits_beside(&view, &met, start) {
            return None;
        }
        let jobs = met.iter().map(|(promise, _)| promise.job).take(NAMED_MAX).collect();
        Some(NodeCause::Kept { jobs, start })
    }

    /// True where the part fits beside what promises take of the node, as amounts.
    fn fits_beside(
        &self,
        view: &NodeView,
        promises: &[&(&Promise, Option<PromisedShare>)],
        start: Timestamp,
    ) -> bool {
        let then = view.avail(Span { from: start, to: self.span.to.max(start), ..self.span });
        let least = least_on(self.ask, view, self.whole);
        let Some(taken) = promises.iter().map(|(_, share)| *share).collect::<Option<Vec<_>>>()
        else {
            return false;
        };
        if self.ask.kind() != Exclusive::No {
            return false;
        }
        let sum = |part: fn(&PromisedShare) -> u64| {
            taken.iter().map(part).fold(0u64, u64::saturating_add)
        };
        let gpus = u64::from(usable_gpus(self.ask, view, then.devices));
        sum(|s| u64::from(s.cpus)) + u64::from(least.cpus) <= u64::from(then.cpus)
            && sum(|s| s.memory.0).saturating_add(least.memory) <= then.memory
            && sum(|s| u64::from(s.gpus)) + u64::from(least.gpus) <= gpus
    }
}

/// Down or drained.
fn by_state(view: &NodeView) -> Option<NodeCause> {
    if view.usable {
        return None;
    }
    Some(match (&view.node.availability, &view.node.drain) {
        (Availability::Down { reason, .. }, _) => NodeCause::Down { reason: reason.clone() },
        (_, Some(drain)) => NodeCause::Drained { reason: drain.reason.clone() },
        _ => NodeCause::Down { reason: String::new() },
    })
}
