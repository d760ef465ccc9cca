//! A cluster that is one pool of like processors: nothing but counts decides.
//!
//! Where there is one node whose CPUs are given out by number, one partition, and jobs that ask for
//! CPUs and nothing else, a round needs no nodes, shapes or levels: the queue in order, what runs in
//! order of its expected end, and one number of free CPUs. The decisions and promises are those of
//! the general round (a property test compares them); only the counted work is its own.
//!
//! Records of traces are such clusters, and they are long, as queues may be. Waiting jobs that ask for
//! the same stand together as a group, and groups are searched by what fits (module `lines`): a round
//! costs a look at what ends before the head's start and a walk down a tree for each number of CPUs
//! that is free, and following an event costs a place in a tree.

mod by_weight;
mod lines;
mod profile;
mod round;
mod walk;

use crate::simple::{Simple, simple};
use crate::slowdown::Weigher;
use lines::{Key, Lines};
use muster_model::{
    BackfillMode, Decision, Event, EventKind, Job, JobId, Mib, NOBODY, NodeId, NodeShare,
    OrderMode, Partition, Placement, Plan, Policy, Preemption, Promise, PromisedShare, Seconds,
    Start, State, TimeLimit, Timestamp, Topology,
};
use round::Round;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A waiting job; in the order of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    submitted: Timestamp,
    id: JobId,
    cpus: u32,
    /// So long it is taken to be there.
    length: Seconds,
    /// So long it is likely to run, where the order looks at that.
    likely: Seconds,
}

impl Waiting {
    /// What it is searched by: see [`lines::By`].
    fn values(&self) -> [i64; 2] {
        let likely = i64::try_from(self.likely.0).unwrap_or(i64::MAX).saturating_mul(1000);
        let length = i64::try_from(self.length.0).unwrap_or(i64::MAX);
        [length, self.submitted.millis().saturating_sub(likely)]
    }
}

/// What waiting jobs have to ask for alike to stand in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    cpus: u32,
    length: Seconds,
    /// Whose they are, and their limit, where the order looks at what users ran; else nothing.
    of: Option<(u32, TimeLimit)>,
    /// Their place where the shortest are tried first.
    rank: u128,
}

/// Waiting jobs of one shape, in the order of the queue.
#[derive(Clone, Debug)]
struct Group {
    shape: Shape,
    /// Their place where the shortest are tried first, or those whose wait weighs most; else zero.
    rank: u128,
    likely: Seconds,
    members: VecDeque<(Timestamp, JobId)>,
}

impl Group {
    fn member(&self, at: usize) -> Option<Waiting> {
        let (submitted, id) = *self.members.get(at)?;
        let (Shape { cpus, length, .. }, likely) = (self.shape, self.likely);
        Some(Waiting { submitted, id, cpus, length, likely })
    }
}

/// A job that has CPUs, by its expected end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Running {
    end: Timestamp,
    id: JobId,
    cpus: u32,
}

/// The pool, its queue and what runs.
#[derive(Clone, Debug)]
struct Pool {
    node: NodeId,
    partition: String,
    total: u32,
    /// The state that the rest mirrors.
    seq: u64,
    /// It came to be by events that were told.
    told: bool,
    /// In which orders waiting jobs are searched.
    orders: Orders,
    /// The group of each waiting job, in the order of the queue.
    queue: BTreeMap<(Timestamp, JobId), u32>,
    /// Those who ask for more than there is wait for ever and hold nobody.
    too_large: BTreeSet<JobId>,
    groups: Vec<Group>,
    vacant: Vec<u32>,
    shapes: BTreeMap<Shape, u32>,
    /// The groups of each user, where the order looks at what users ran.
    of_user: BTreeMap<u32, BTreeSet<u32>>,
    by_submission: Lines,
    by_rank: Lines,
    running: Vec<Running>,
    /// The expected end under which each running job stands.
    ends: BTreeMap<JobId, Timestamp>,
    free: u32,
}

/// The orders in which a policy searches waiting jobs.
#[derive(Clone, Copy, Debug, Default)]
struct Orders {
    by_submission: bool,
    by_rank: bool,
}

impl Orders {
    fn of(policy: &Policy) -> Self {
        let by_slowdown = policy.orders_by_slowdown();
        let by_rank = by_slowdown || policy.backfills_shortest_first();
        Self { by_submission: by_slowdown || !by_rank, by_rank }
    }
}

/// A pool that is followed, where the state is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolCache {
    pool: Option<Pool>,
}

impl PoolCache {
    /// Takes an event up, which made this state out of the one before.
    pub(crate) fn tell(&mut self, event: &Event, after: &State) {
        let Some(pool) = &mut self.pool else { return };
        let follows = after.seq == pool.seq + 1;
        if follows && pool.take_up(&event.kind, after).is_some() {
            (pool.seq, pool.told) = (after.seq, true);
        } else {
            self.pool = None;
        }
    }

    /// The whole round, where the state is a pool.
    pub(crate) fn plan(&mut self, state: &State, now: Timestamp) -> Option<Plan> {
        if !self.pool.as_ref().is_some_and(|pool| pool.mirrors(state)) {
            self.pool = if is_pool(state) { Pool::of(state, now) } else { None };
        }
        let pool = self.pool.as_mut()?;
        // A job that is free to start only later is not for here.
        pool.correct(state, now)?;
        Some(pool.plan(state, now))
    }
}

/// True where the rules and nodes are such that only counts of CPUs can decide.
fn is_pool(state: &State) -> bool {
    let (Some(node), Some(partition)) = (state.nodes.get_min(), state.partitions.get_min()) else {
        return false;
    };
    let (node, partition) = (&node.1, &partition.1);
    state.nodes.len() == 1
        && state.partitions.len() == 1
        && node.cpu_pool > 0
        && node.cpus.is_empty()
        && node.memory == Mib(0)
        && node.devices.is_empty()
        && node.taints.is_empty()
        && node.foreign.is_empty()
        && node.is_usable()
        && state.qos.is_empty()
        && state.accounts.is_empty()
        && state.licences.is_empty()
        && state.reservations.is_empty()
        && state.index.claimants.is_empty()
        && state.index.evicted.is_empty()
        && *state.topology == Topology::default()
        && rules_are_plain(&state.policy)
        && partition.nodes.len() == 1
        && partition.nodes.contains(&node.name)
        && partition_is_plain(partition)
}

fn rules_are_plain(policy: &Policy) -> bool {
    policy.order != OrderMode::Multifactor
        && !(policy.orders_by_slowdown() && policy.backfill == BackfillMode::Conservative)
        && policy.backfill != BackfillMode::Mixed
        && policy.preemption == Preemption::default()
}

fn partition_is_plain(partition: &Partition) -> bool {
    partition.state.starts_jobs()
        && partition.max_time == TimeLimit::Unlimited
        && partition.max_nodes.is_none_or(|most| most > 0)
        && partition.min_nodes <= 1
        && partition.default_memory_per_cpu.is_none()
        && partition.default_memory_per_node.is_none()
        && partition.max_memory_per_cpu.is_none()
        && partition.allow_accounts.is_empty()
        && partition.qos.is_none()
        && partition.sharers <= 1
}

impl Pool {
    /// The pool of a state; `None` where some job asks for more than CPUs.
    fn of(state: &State, now: Timestamp) -> Option<Self> {
        let (node, partition) = (&state.nodes.get_min()?.1, &state.partitions.get_min()?.1);
        let mut pool = Self {
            node: node.id,
            partition: partition.name.clone(),
            total: node.cpu_pool,
            seq: state.seq,
            told: false,
            orders: Orders::of(&state.policy),
            queue: BTreeMap::new(),
            too_large: BTreeSet::new(),
            groups: Vec::new(),
            vacant: Vec::new(),
            shapes: BTreeMap::new(),
            of_user: BTreeMap::new(),
            by_submission: Lines::default(),
            by_rank: Lines::default(),
            running: Vec::new(),
            ends: BTreeMap::new(),
            free: node.cpu_pool,
        };
        for id in state.index.active.iter().chain(&state.index.pending) {
            pool.enter(state, state.jobs.get(id)?, now)?;
        }
        Some(pool)
    }

    /// A last look at whether it is the pool of this state: whoever tells events has to tell all.
    fn mirrors(&self, state: &State) -> bool {
        self.told
            && self.seq == state.seq
            && self.queue.len() + self.too_large.len() == state.index.pending.len()
            && self.running.len() == state.index.active.len()
    }

    /// `None` where the event is about more than jobs of the pool.
    fn take_up(&mut self, kind: &EventKind, after: &State) -> Option<()> {
        match kind {
            EventKind::JobSubmitted { first, .. } => {
                for (_, job) in after.jobs.range(*first..=after.last_job) {
                    self.enter(after, job, after.now)?;
                }
                Some(())
            }
            EventKind::JobsForgotten { .. } | EventKind::Round => Some(()),
            other => {
                let job = after.jobs.get(&other.job()?)?;
                self.leave(job);
                self.enter(after, job, after.now)?;
                let ended = job.state.is_over() && after.policy.orders_by_slowdown();
                if ended { self.learn(after, job.spec.owner.uid) } else { Some(()) }
            }
        }
    }

    /// Takes a job up as it stands; `None` where it asks for more than CPUs.
    fn enter(&mut self, state: &State, job: &Job, now: Timestamp) -> Option<()> {
        match simple(state, job, &self.partition)? {
            Simple::Over => {}
            Simple::Waits { cpus, .. } if cpus > self.total => {
                self.too_large.insert(job.id);
            }
            Simple::Waits { cpus, length, likely } => {
                let mut shape = Shape { cpus, length, of: None, rank: 0 };
                let (mut rank, mut seen) = (0, Seconds(0));
                if state.policy.orders_by_slowdown() {
                    shape.of = Some((job.spec.owner.uid, job.time_limit));
                    rank = self.weigher(state, now).weight(job);
                    seen = crate::slowdown::likely(state, job);
                } else if state.policy.backfills_shortest_first() {
                    rank = u128::from(likely.0);
                    shape.rank = rank;
                }
                self.stand((job.submitted, job.id), shape, rank, seen);
            }
            Simple::Runs { cpus } => {
                let end = state.expected_end(job, now)?;
                self.hold(Running { end, id: job.id, cpus });
            }
        }
        Some(())
    }

    fn weigher<'a>(&self, state: &'a State, now: Timestamp) -> Weigher<'a> {
        Weigher::of(state, now, u64::from(self.total))
    }

    fn hold(&mut self, new: Running) {
        let at = self.running.partition_point(|r| *r < new);
        self.running.insert(at, new);
        self.ends.insert(new.id, new.end);
        self.free = self.free.saturating_sub(new.cpus);
    }

    /// Takes a job out, whatever it was.
    fn leave(&mut self, job: &Job) {
        if let Some(end) = self.ends.remove(&job.id) {
            let at = self.running.partition_point(|r| (r.end, r.id) < (end, job.id));
            let gone = self.running.remove(at);
            self.free += gone.cpus;
            return;
        }
        if !self.too_large.remove(&job.id)
            && let Some(group) = self.queue.remove(&(job.submitted, job.id))
        {
            self.leave_group(group, (job.submitted, job.id));
        }
    }

    /// A waiting job, by its place in its group.
    fn member(&self, group: u32, at: usize) -> Option<Waiting> {
        self.groups.get(group as usize)?.member(at)
    }

    /// A waiting job of a group.
    fn waiting(&self, (submitted, id): (Timestamp, JobId), group: u32) -> Option<Waiting> {
        Some(Waiting { submitted, id, ..self.member(group, 0)? })
    }

    /// Puts a waiting job into its group.
    fn stand(&mut self, job: (Timestamp, JobId), shape: Shape, rank: u128, likely: Seconds) {
        let group = match self.shapes.get(&shape) {
            Some(group) => *group,
            None => self.new_group(Group { shape, rank, likely, members: VecDeque::new() }),
        };
        self.queue.insert(job, group);
        let members = &mut self.groups[group as usize].members;
        if members.back().is_none_or(|last| *last < job) && !members.is_empty() {
            members.push_back(job);
            return;
        }
        self.unlist(group);
        let members = &mut self.groups[group as usize].members;
        let at = members.partition_point(|other| *other < job);
        members.insert(at, job);
        self.list(group);
    }

    fn new_group(&mut self, group: Group) -> u32 {
        let shape = group.shape;
        let at = match self.vacant.pop() {
            Some(at) => {
                self.groups[at as usize] = group;
                at
            }
            None => {
                self.groups.push(group);
                (self.groups.len() - 1) as u32
            }
        };
        self.shapes.insert(shape, at);
        if let Some((uid, _)) = shape.of {
            self.of_user.entry(uid).or_default().insert(at);
        }
        at
    }

    fn leave_group(&mut self, group: u32, job: (Timestamp, JobId)) {
        let members = &mut self.groups[group as usize].members;
        if members.front() != Some(&job) {
            let at = members.partition_point(|other| *other < job);
            members.remove(at);
            return;
        }
        self.unlist(group);
        let of = &mut self.groups[group as usize];
        of.members.pop_front();
        if !of.members.is_empty() {
            return self.list(group);
        }
        let shape = of.shape;
        self.shapes.remove(&shape);
        self.vacant.push(group);
        if let Some((uid, _)) = shape.of
            && let Some(groups) = self.of_user.get_mut(&uid)
        {
            groups.remove(&group);
            if groups.is_empty() {
                self.of_user.remove(&uid);
            }
        }
    }

    /// Puts a group into the orders, by the first of its jobs.
    fn list(&mut self, group: u32) {
        let Some(first) = self.member(group, 0) else { return };
        let (rank, values) = (self.groups[group as usize].rank, first.values());
        if self.orders.by_submission {
            self.by_submission.insert(first.cpus, in_queue(&first), group, values);
        }
        if self.orders.by_rank {
            self.by_rank.insert(first.cpus, (rank, first.submitted, first.id), group, values);
        }
    }

    /// Takes a group out of the orders.
    fn unlist(&mut self, group: u32) {
        let Some(first) = self.member(group, 0) else { return };
        let rank = self.groups[group as usize].rank;
        self.by_submission.remove(first.cpus, in_queue(&first));
        self.by_rank.remove(first.cpus, (rank, first.submitted, first.id));
    }

    /// Ranks a user's waiting jobs anew: one of the user's has just told how long it ran.
    fn learn(&mut self, state: &State, uid: u32) -> Option<()> {
        let groups = self.of_user.get(&uid).filter(|_| uid != NOBODY);
        let groups: Vec<u32> = groups.into_iter().flatten().copied().collect();
        for group in groups {
            let first = self.member(group, 0)?;
            let job = state.jobs.get(&first.id)?;
            let rank = self.weigher(state, state.now).weight(job);
            let likely = crate::slowdown::likely(state, job);
            let known = &self.groups[group as usize];
            if (rank, likely) != (known.rank, known.likely) {
                self.unlist(group);
                let known = &mut self.groups[group as usize];
                (known.rank, known.likely) = (rank, likely);
                self.list(group);
            }
        }
        Some(())
    }

    /// Takes up that jobs outlived what they were expected to run.
    fn correct(&mut self, state: &State, now: Timestamp) -> Option<()> {
        if !state.trusts_estimates() {
            return Some(());
        }
        let over = self.running.partition_point(|r| r.end <= now);
        let outlived = self.running[..over].to_vec();
        for old in outlived {
            let end = state.expected_end(state.jobs.get(&old.id)?, now)?;
            if end != old.end {
                let at = self.running.partition_point(|r| *r < old);
                self.running.remove(at);
                self.free += old.cpus;
                self.hold(Running { end, ..old });
            }
        }
        Some(())
    }

    fn plan(&self, state: &State, now: Timestamp) -> Plan {
        let mut round = Round::new(self, now);
        match state.policy.backfill {
            BackfillMode::Conservative => round.conservative(state.policy.backfill_depth.total),
            mode if state.policy.orders_by_slowdown() => round.slowdown(mode, state),
            mode => round.easy(mode, state.policy.backfill_depth),
        }
        let decisions = round.starts.iter().map(|w| self.start_of(state, w)).collect();
        let promises = round.promises.iter().map(|(at, w)| self.promise_of(*at, w)).collect();
        Plan {
            now,
            seq: state.seq,
            decisions,
            promises,
            work: round.work,
            steps_max: u64::MAX,
            resumed: None,
            complete: true,
            resume: None,
        }
    }

    fn start_of(&self, state: &State, waiting: &Waiting) -> Decision {
        let share =
            NodeShare { node: self.node, tasks: 1, cpu_pool: waiting.cpus, ..NodeShare::default() };
        let placement = Placement {
            partition: self.partition.clone(),
            nodes: vec![share],
            ..Placement::default()
        };
        let job = state.jobs.get(&waiting.id);
        Decision::Start(vec![Start {
            job: waiting.id,
            attempt: job.map_or(0, |job| job.attempt).saturating_add(1),
            placement: Arc::new(placement),
            time_limit: job.map_or(TimeLimit::Of(waiting.length), |job| job.time_limit),
            turn: None,
        }])
    }

    fn promise_of(&self, start: Timestamp, waiting: &Waiting) -> Promise {
        let share = PromisedShare { tasks: 1, cpus: waiting.cpus, ..PromisedShare::default() };
        Promise {
            job: waiting.id,
            start,
            nodes: vec![self.node],
            shares: vec![share],
            partition: self.partition.clone(),
        }
    }
}

/// A job's place in the order of submission.
const fn in_queue(waiting: &Waiting) -> Key {
    (0, waiting.submitted, waiting.id)
}
