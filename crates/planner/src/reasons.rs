//! Why each waiting job waits: all of them in one pass, answered once for each shape.

use crate::ask::Ask;
use crate::budget::Budget;
use crate::cache::Cache;
use crate::coming::Coming;
use crate::free::Span;
use crate::gang::{Cursor, Picks, place_with_cursor};
use crate::gates::gate_reasons;
use crate::limits::Limits;
use crate::order::{Keys, OrderKey};
use crate::outcome::Outcome;
use crate::outlook::comes_back;
use crate::queue::{asks, group, switch_wish};
use crate::shortage;
use crate::together;
use crate::world::{Bare, World};
use muster_model::{
    Decision, Job, JobId, NodeId, PartitionState, Reason, RuleKind, State, TimeLimit, Timestamp,
    Work,
};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Whether there are nodes is asked of so many first.
const FEW_NODES: usize = 64;

/// What is asked of an outcome, prepared once.
pub(crate) struct Reasoner<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) state: &'a State,
    pub(crate) now: Timestamp,
    outcome: &'a Outcome,
    /// Jobs that start in the round.
    pub(crate) starts: BTreeSet<JobId>,
    promises: BTreeMap<JobId, (Timestamp, &'a [NodeId])>,
    bare: OnceCell<World>,
    empty: OnceCell<World>,
    coming: OnceCell<Coming<'a>>,
    order: &'a [usize],
    pub(crate) keys: Keys<'a>,
}

/// What a shape lacks.
#[derive(Clone, Debug)]
enum Verdict {
    /// It can never start as things stand.
    Blocked(Reason),
    /// It has to wait for others: for the job that has the promise of a partition of its.
    Waits(Option<JobId>),
}

/// Why every waiting job waits, the binding reason of each.
///
/// The budget is that of the round they are asked about: what it does not reach waits for that.
pub(crate) fn all(
    cache: &mut Cache,
    state: &State,
    now: Timestamp,
    budget: Budget,
) -> BTreeMap<JobId, Reason> {
    let memo = (budget == Budget::UNLIMITED).then(|| cache.planned(state, now));
    let outcome = match &memo {
        Some(memo) => &memo.outcome,
        None => &crate::round::plan(cache, state, now, budget),
    };
    let reasoner = Reasoner::new(cache, state, now, outcome);
    let mut reasons: BTreeMap<JobId, Reason> = BTreeMap::new();
    let mut queued: Vec<(OrderKey, usize)> = Vec::new();
    let keys = &reasoner.keys;
    for (at, shape) in cache.queue.shapes.iter().enumerate() {
        let terms = cache.queue.terms.of(at);
        queued.extend(shape.iter().flat_map(|s| {
            let place = |key: &OrderKey| (keys.live(*key, terms), at);
            s.waiting.iter().map(place).collect::<Vec<_>>()
        }));
    }
    queued.sort_unstable();
    let mut verdicts: BTreeMap<usize, Verdict> = BTreeMap::new();
    for (ahead, (key, at)) in queued.iter().enumerate() {
        let Some(job) = state.jobs.get(&key.3) else { continue };
        if reasoner.starts.contains(&job.id) {
            reasons.insert(job.id, Reason::NotPlannedYet);
            continue;
        }
        let verdict = verdicts.entry(*at).or_insert_with(|| reasoner.verdict(job));
        let verdict = verdict.clone();
        let reason = match verdict {
            Verdict::Blocked(reason) => reason,
            Verdict::Waits(head) => {
                let head = head.filter(|head| *head != job.id);
                reasoner.wait_reason(job, *key, ahead as u32, head)
            }
        };
        reasons.insert(job.id, reason);
    }
    for id in &state.index.pending {
        let Some(job) = state.jobs.get(id) else { continue };
        if !reasons.contains_key(id)
            && let Some(reason) = gate_reasons(state, job, now).into_iter().next()
        {
            reasons.insert(*id, reason);
        }
    }
    reasoner.group_reasons(&mut reasons);
    reasons.extend(crate::preempt::reasons(state, &outcome.plan));
    for decision in &outcome.plan.decisions {
        if let Decision::Reject { job, reason } = decision {
            reasons.insert(*job, reason.clone());
        }
    }
    reasons
}

impl<'a> Reasoner<'a> {
    pub(crate) fn new(
        cache: &'a Cache,
        state: &'a State,
        now: Timestamp,
        outcome: &'a Outcome,
    ) -> Self {
        let starts = outcome.plan.decisions.iter().flat_map(|d| match d {
            Decision::Start(starts) => starts.iter().map(|s| s.job).collect(),
            _ => Vec::new(),
        });
        let promises = outcome.plan.promises.iter();
        Self {
            cache,
            state,
            now,
            outcome,
            starts: starts.collect(),
            promises: promises.map(|p| (p.job, (p.start, p.nodes.as_slice()))).collect(),
            bare: OnceCell::new(),
            empty: OnceCell::new(),
            coming: OnceCell::new(),
            order: &outcome.order,
            keys: Keys::of_queue(state, now, &cache.queue.terms),
        }
    }

    /// Every node up, whole and empty.
    fn bare(&self) -> &World {
        self.bare.get_or_init(|| World::bare(self.state, Bare::All))
    }

    /// Every node that is up, empty of jobs and of what is not ours.
    fn empty(&self) -> &World {
        self.empty.get_or_init(|| World::bare(self.state, Bare::Usable))
    }

    /// The first limit that holds a group of jobs, where nothing else keeps one of them for good.
    pub(crate) fn limit_on(&self, group: &[&Arc<Job>]) -> Option<&'a Reason> {
        if self.outcome.held.is_empty() || group.is_empty() {
            return None;
        }
        let shape = self.cache.queue.shape_key(self.state, self.cache.uid_matters(), group);
        let held = self.outcome.held.get(&shape)?;
        let kept = |job: &&Arc<Job>| {
            !gate_reasons(self.state, job, self.now).is_empty() || self.blocked_alone(job).is_some()
        };
        (group.len() == 1 || !group.iter().any(kept)).then_some(held)
    }

    /// Every limit that holds a job, beside what the round starts.
    pub(crate) fn limits_on(&self, job: &Arc<Job>) -> Vec<Reason> {
        let group = group(self.state, together::first(self.state, job)).unwrap_or_default();
        let Some(held) = self.limit_on(&group) else { return Vec::new() };
        if group.len() > 1 {
            return vec![held.clone()];
        }
        let mut limits = Limits::new(self.state, self.now);
        for decision in &self.outcome.plan.decisions {
            let Decision::Start(starts) = decision else { continue };
            for start in starts {
                if let Some(job) = self.state.jobs.get(&start.job) {
                    limits.count_placement(job, &start.placement, start.time_limit);
                }
            }
        }
        let asks = asks(self.state, job, self.now);
        let mut reasons = asks
            .first()
            .map_or_else(Vec::new, |ask| limits.before_placement(job, &ask.partition, ask.limit));
        // The list shows the first that held it.
        reasons.retain(|reason| reason != held);
        reasons.insert(0, held.clone());
        reasons
    }

    pub(crate) fn starts_now(&self, job: JobId) -> bool {
        self.starts.contains(&job)
    }

    /// The reason of a job for which room is being made.
    pub(crate) fn room_is_made(&self, job: JobId) -> Option<Reason> {
        crate::preempt::reasons(self.state, &self.outcome.plan).remove(&job)
    }

    fn verdict(&self, job: &Arc<Job>) -> Verdict {
        let limit = || group(self.state, job).and_then(|group| self.limit_on(&group)).cloned();
        let blocked = self.blocked(job).or_else(limit).or_else(|| self.reserved(job));
        match blocked.or_else(|| self.near_nobody(job)) {
            Some(reason) => Verdict::Blocked(reason),
            None => Verdict::Waits(self.head_of(job)),
        }
    }

    /// Why the job cannot start whatever others do; for a heterogeneous job, the first component
    /// that cannot.
    fn blocked(&self, job: &Arc<Job>) -> Option<Reason> {
        group(self.state, job)?.into_iter().find_map(|job| self.blocked_alone(job))
    }

    /// As [`Self::blocked`], for one component.
    pub(crate) fn blocked_alone(&self, job: &Job) -> Option<Reason> {
        let own = crate::reservations::blocked(self.state, &self.cache.world, job, self.now);
        if own.is_some() {
            return own;
        }
        if let Some(limit) = self.throttled(job) {
            return Some(Reason::ArrayTaskLimit { limit });
        }
        let asks = asks_without_wish(self.state, job, self.now);
        let Some(first) = asks.first() else { return Some(self.no_partition(job)) };
        for (name, wanted) in &first.licences {
            let total = self.state.licences.get(name).map_or(0, |l| l.total);
            if *wanted > total {
                let (name, wanted) = (name.clone(), *wanted);
                return Some(Reason::LicencesNeverEnough { name, wanted, total });
            }
        }
        if asks.iter().any(|ask| self.fits_when_all_is_over(ask))
            || asks.iter().any(|ask| self.fits(self.empty(), ask))
        {
            return None;
        }
        if asks.iter().any(|ask| self.fits(self.bare(), ask)) {
            let nodes = asks
                .iter()
                .map(|ask| shortage::unavailable(&self.cache.world, self.bare(), ask))
                .find(|nodes| !nodes.is_empty())
                .unwrap_or_default();
            return Some(Reason::NodesUnavailable { nodes });
        }
        Some(shortage::never(self.bare(), first))
    }

    /// The reservation that keeps the job from starting, or a component of it.
    fn reserved(&self, job: &Arc<Job>) -> Option<Reason> {
        group(self.state, job)?.into_iter().find_map(|job| self.reserved_alone(job))
    }

    /// As [`Self::reserved`], for one component.
    pub(crate) fn reserved_alone(&self, job: &Job) -> Option<Reason> {
        let asks = asks(self.state, job, self.now);
        crate::reservations::reserved(&self.cache.world, &asks, self.order, self.now)
    }

    /// The rule of a job that has to be near others, where none of those runs: whoever else waits
    /// or ends, it does not start.
    pub(crate) fn near_nobody(&self, job: &Arc<Job>) -> Option<Reason> {
        let group = group(self.state, job)?;
        group.into_iter().find_map(|job| {
            let asks = asks(self.state, job, self.now);
            let ask = asks.first()?;
            let span = Span::of(self.now, self.now, ask.limit);
            crate::affinity::is_near_nobody(&self.cache.world, ask, span).then(|| {
                crate::affinity::ruled_out(&self.cache.world, ask, span, RuleKind::JobAffinity)
            })
        })
    }

    /// True where it has nodes on a world if it starts now.
    fn fits(&self, world: &World, ask: &Ask) -> bool {
        self.has_nodes(world, ask, Span::of(self.now, self.now, ask.length()))
    }

    /// True where it has nodes once all jobs are over.
    fn fits_when_all_is_over(&self, ask: &Ask) -> bool {
        let span = Span::of(self.now, Timestamp::NEVER, ask.length());
        self.has_nodes(&self.cache.world, ask, span)
    }

    /// True where it has nodes over the span: of the first ones, or else of all. Which ones does
    /// not matter here, so most requests cost a look at few.
    fn has_nodes(&self, world: &World, ask: &Ask, span: Span) -> bool {
        let least = ask.node_bounds().map_or(1, |b| b.0) as usize;
        let few = least.saturating_mul(2).saturating_add(FEW_NODES).min(self.order.len());
        let tried = |order: &[usize]| {
            let (mut cursor, mut work) = (Cursor::default(), Work::default());
            place_with_cursor(world, ask, span, order, &mut cursor, &mut work).is_some()
        };
        tried(&self.order[..few]) || (few < self.order.len() && tried(self.order))
    }

    pub(crate) fn picks(&self, world: &World, ask: &Ask, span: Span) -> Option<Picks> {
        let (mut cursor, mut work) = (Cursor::default(), Work::default());
        place_with_cursor(world, ask, span, self.order, &mut cursor, &mut work)
    }

    fn throttled(&self, job: &Job) -> Option<u32> {
        let array = job.array?.array;
        let record = self.state.index.arrays.get(&array)?;
        let limit = record.throttle?;
        let starting = self.starts.iter().filter(|id| {
            self.state.jobs.get(*id).and_then(|j| j.array).is_some_and(|t| t.array == array)
        });
        (record.active as usize + starting.count() >= limit as usize).then_some(limit)
    }

    /// Why none of its partitions can start it.
    fn no_partition(&self, job: &Job) -> Reason {
        let spec = &job.spec;
        if let Some((name, hold)) = crate::queue::held_licence(self.state, &spec.request) {
            return Reason::FilesystemBusy {
                licence: name.to_owned(),
                filesystem: hold.filesystem.clone(),
                figure: hold.figure.clone(),
                since: hold.since,
            };
        }
        let partitions: Vec<_> =
            spec.partitions.iter().filter_map(|name| self.state.partitions.get(name)).collect();
        let Some(partition) = partitions.first() else {
            let partition = spec.partitions.first().cloned().unwrap_or_default();
            return Reason::PartitionDown { partition };
        };
        let name = partition.name.clone();
        match partition.state {
            PartitionState::Down => return Reason::PartitionDown { partition: name },
            PartitionState::Inactive => return Reason::PartitionInactive { partition: name },
            PartitionState::Up | PartitionState::Drain => {}
        }
        if !partition.allow_accounts.is_empty() && !partition.allow_accounts.contains(&spec.account)
        {
            let lacking = format!("account {} may not use this partition", spec.account);
            return Reason::NoNodeFits { partition: name, wanted: 1, found: 0, lacking };
        }
        if crate::queue::limit_in(partition, job.time_limit, spec.time_min).is_none() {
            return Reason::PartitionTimeLimit { partition: name, limit: partition.max_time };
        }
        Reason::PartitionNodeLimit { partition: name, wanted: spec.request.nodes_min() }
    }

    /// The job that has the promise of one of this job's partitions.
    pub(crate) fn head_of(&self, job: &Job) -> Option<JobId> {
        let promised = &self.outcome.promised;
        asks(self.state, job, self.now).iter().find_map(|ask| promised.get(ask.lane())).copied()
    }

    /// Why a job that could run has to wait: the head of a partition for what is in use, the others
    /// for what comes first, `behind`.
    pub(crate) fn wait_reason(
        &self,
        job: &Job,
        key: OrderKey,
        ahead: u32,
        behind: Option<JobId>,
    ) -> Reason {
        if self.outcome.stopped_at.is_some_and(|at| at <= key) {
            return Reason::BudgetEnded;
        }
        // Of those with a promise only the first of a partition waits for nobody that waits.
        let leader = job.het.map_or(job.id, |part| part.leader);
        let is_head = self.outcome.promised.values().any(|head| *head == leader);
        match behind {
            Some(behind) if !is_head || !self.promises.contains_key(&job.id) => {
                Reason::Priority { behind, ahead }
            }
            _ => self.shortage(job),
        }
    }

    /// What the job needs and others hold. Where it would fit as things stand, what comes before it
    /// in this round is in its way.
    pub(crate) fn shortage(&self, job: &Job) -> Reason {
        let world = &self.cache.world;
        let asks = asks(self.state, job, self.now);
        let fits = || asks.first().is_some_and(|ask| self.fits(world, ask));
        let in_the_way = !self.coming().is_empty() && fits();
        self.shortage_in(if in_the_way { self.next_world() } else { world }, job)
    }

    /// What comes to the nodes before those that wait on.
    pub(crate) fn coming(&self) -> &Coming<'a> {
        let new = || Coming::of(self.state, self.outcome, self.now, None);
        self.coming.get_or_init(new)
    }

    pub(crate) fn shortage_in(&self, world: &World, job: &Job) -> Reason {
        let asks = asks(self.state, job, self.now);
        let Some(ask) = asks.first() else { return self.no_partition(job) };
        if let Some((count, until)) =
            switch_wish(self.state, job).filter(|_| ask.switches.is_some())
            && asks_without_wish(self.state, job, self.now).iter().any(|ask| self.fits(world, ask))
        {
            return Reason::Switches { count, wait: until.since(self.now) };
        }
        let span = Span::of(self.now, self.now, ask.length());
        // Where it fits, promises are in its way, and no rule is.
        let fits = self.has_nodes(world, ask, span);
        let of_place = || self.distance(world, ask, span).or_else(|| self.rules(world, ask, span));
        if let Some(reason) = (!fits).then(of_place).flatten() {
            return reason;
        }
        for (name, wanted) in &ask.licences {
            let free = world.pool(name).map_or(0, |pool| pool.free(span));
            if free < *wanted {
                return Reason::Licences { name: name.clone(), wanted: *wanted, free };
            }
        }
        let over = Span::of(self.now, Timestamp::NEVER, ask.length());
        // Which nodes those are matters only where they are not all alike.
        let open = ask.request.nodes.is_none() || shortage::spreads(ask);
        let picks = open.then(|| self.picks(&self.cache.world, ask, over)).flatten();
        let total = picks.as_ref().map(|picks| shortage::amounts(world, ask, picks));
        let (start, nodes) = self.promises.get(&job.id).copied().unzip();
        // A promise that the outlook does not keep is no start to tell, nor is one at no time.
        let known =
            |at: &Timestamp| *at != Timestamp::NEVER && !comes_back(self.state, &self.outcome.plan);
        let start = start.filter(known);
        let least = ask.request.nodes_min();
        let count = match (nodes, &picks) {
            // Any number from the least on would do.
            _ if ask.request.nodes.is_some() && !shortage::spreads(ask) => least,
            (Some(nodes), _) if !nodes.is_empty() => nodes.len() as u32,
            (_, Some(picks)) => picks.len() as u32,
            _ => least,
        };
        shortage::in_use(world, ask, self.now, total, count, start)
    }

    /// The rule on labels, taints or other jobs without which alone the job would start now.
    fn rules(&self, world: &World, ask: &Ask, span: Span) -> Option<Reason> {
        let fits = |loose: &Ask| self.picks(world, loose, span).is_some();
        let kind = crate::affinity::without_each(ask, fits)?;
        Some(crate::affinity::ruled_out(world, ask, span, kind))
    }

    /// The distance between free nodes, where the job would start if it did not matter.
    fn distance(&self, world: &World, ask: &Ask, span: Span) -> Option<Reason> {
        let loose = ask.anywhere();
        let count = self.picks(world, &loose, span)?.len() as u32;
        let wanted = ask.request.nodes.as_ref().map_or(count, muster_model::NodeCount::least);
        let free = crate::gang::free_nodes(world, ask, span);
        crate::topology::shortage(world, ask, span, &free, wanted)
    }

    /// True where the job would fit now if nobody else waited.
    pub(crate) fn fits_beside_running(&self, job: &Job) -> bool {
        asks(self.state, job, self.now).iter().any(|ask| self.fits(&self.cache.world, ask))
    }
}

/// The asks of a job as if it had no wish for few switches: such a wish keeps nobody for good.
fn asks_without_wish(state: &State, job: &Job, now: Timestamp) -> Vec<Ask> {
    let mut asks = asks(state, job, now);
    for ask in &mut asks {
        ask.switches = None;
        // Other jobs come and go.
        ask.alone = true;
    }
    asks
}

/// A limit in seconds, the longest for none.
pub(crate) fn limit_seconds(limit: TimeLimit) -> u64 {
    limit.seconds().map_or(u64::MAX, |s| s.0)
}
