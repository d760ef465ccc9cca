//! A cluster that is one pool of like processors: nothing but counts decides.
//!
//! Where there is one node whose CPUs are given out by number, one partition, and jobs that ask for
//! CPUs and nothing else, a round needs no nodes, shapes or levels: the queue in order, what runs in
//! order of its expected end, and one number of free CPUs. The decisions and promises are those of
//! the general round (a property test compares them); only the counted work is its own.
//!
//! Records of traces are such clusters, and they are long: a round here costs a look at the waiting
//! jobs and at what ends before the head's start, and following an event costs a place in a sorted
//! list.

mod by_weight;
mod profile;

use crate::depth::nearly_as_old;
use crate::free::effective_end;
use crate::simple::{Simple, simple};
use crate::slowdown::Weigher;
use muster_model::{
    BackfillDepth, BackfillMode, Decision, Event, EventKind, Job, JobId, Mib, NOBODY, NodeId,
    NodeShare, OrderMode, Partition, Placement, Plan, Policy, Preemption, Promise, PromisedShare,
    Seconds, Start, State, TimeLimit, Timestamp, Topology, Work,
};
use profile::Profile;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A waiting job; in the order of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    submitted: Timestamp,
    id: JobId,
    cpus: u32,
    /// So long it is taken to be there.
    length: Seconds,
    /// Its place where the shortest are tried first, or those whose wait weighs most; else zero.
    rank: u128,
    /// So long it is likely to run, where the order looks at that.
    likely: Seconds,
    uid: u32,
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
    waiting: Vec<Waiting>,
    /// The waiting jobs by rank; empty unless they are tried in that order.
    by_rank: Vec<(u128, Waiting)>,
    running: Vec<Running>,
    /// The expected end under which each running job stands.
    ends: BTreeMap<JobId, Timestamp>,
    free: u32,
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

/// True where jobs are tried in another order than that of submission.
fn ranks(state: &State) -> bool {
    state.policy.backfills_shortest_first() || state.policy.orders_by_slowdown()
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
            waiting: Vec::new(),
            by_rank: Vec::new(),
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
            && self.waiting.len() == state.index.pending.len()
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
            Simple::Waits { cpus, length, likely } => {
                let (rank, likely) = match state.policy.order {
                    OrderMode::Slowdown => {
                        (self.weigher(state, now).weight(job), crate::slowdown::likely(state, job))
                    }
                    _ if state.policy.backfills_shortest_first() => {
                        (u128::from(likely.0), Seconds(0))
                    }
                    _ => (0, Seconds(0)),
                };
                let (submitted, id, uid) = (job.submitted, job.id, job.spec.owner.uid);
                let new = Waiting { submitted, id, cpus, length, rank, likely, uid };
                let place = |w: &Waiting| (w.submitted, w.id) < (new.submitted, new.id);
                self.waiting.insert(self.waiting.partition_point(place), new);
                if ranks(state) {
                    let at = self.by_rank.partition_point(|w| *w < (rank, new));
                    self.by_rank.insert(at, (rank, new));
                }
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
        let key = (job.submitted, job.id);
        let at = self.waiting.partition_point(|w| (w.submitted, w.id) < key);
        let Some(gone) = self.waiting.get(at).copied().filter(|w| w.id == job.id) else { return };
        self.waiting.remove(at);
        let at = self.by_rank.partition_point(|w| *w < (gone.rank, gone));
        if self.by_rank.get(at).is_some_and(|w| w.1.id == job.id) {
            self.by_rank.remove(at);
        }
    }

    /// Ranks a user's waiting jobs anew: one of the user's has just told how long it ran.
    fn learn(&mut self, state: &State, uid: u32) -> Option<()> {
        let own = self.waiting.iter().filter(|w| w.uid == uid && uid != NOBODY);
        let own: Vec<JobId> = own.map(|w| w.id).collect();
        for id in own {
            let job = state.jobs.get(&id)?;
            self.leave(job);
            self.enter(state, job, state.now)?;
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
        let mut round = Round {
            pool: self,
            now,
            free: self.free,
            starts: Vec::new(),
            promises: Vec::new(),
            work: Work::default(),
        };
        match state.policy.backfill {
            BackfillMode::Conservative => round.conservative(state.policy.backfill_depth.total),
            mode if state.policy.orders_by_slowdown() => round.slowdown(mode, state),
            mode => round.easy(mode, state.policy.backfill_depth, !self.by_rank.is_empty()),
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

/// A round under way.
struct Round<'a> {
    pool: &'a Pool,
    now: Timestamp,
    /// CPUs that are free now.
    free: u32,
    starts: Vec<Waiting>,
    promises: Vec<(Timestamp, Waiting)>,
    work: Work,
}

impl Round<'_> {
    /// Starts from the head while it fits; then the head has its promise, and the others start where
    /// they leave it whole: they end before it, or leave it what it needs.
    fn easy(&mut self, mode: BackfillMode, depth: BackfillDepth, shortest: bool) {
        let pool = self.pool;
        // Who asks for more than there is waits for ever and holds nobody.
        let mut queue = pool.waiting.iter().filter(|w| w.cpus <= pool.total);
        let Some(head) = queue.by_ref().find(|w| !self.starts_now(w)) else { return };
        let (start, mut spare) = self.earliest(head);
        self.promises.push((start, *head));
        if mode == BackfillMode::None {
            return;
        }
        if let Some(part) = depth.by_wait {
            return self.easy_by_wait(head, part, depth.total, shortest);
        }
        if shortest {
            // What started from the head is done with.
            let key = (head.submitted, head.id);
            let behind = pool.by_rank.iter().map(|(_, w)| w);
            self.backfill(behind.filter(|w| (w.submitted, w.id) > key), start, &mut spare);
        } else {
            self.backfill(queue, start, &mut spare);
        }
    }

    /// What is free from each instant on beside what starts, and beside the first promise.
    fn promised(&self) -> Profile {
        let mut profile = Profile::of(self.pool, self.now);
        for started in &self.starts {
            profile.reserve(self.now, self.ends(started), started.cpus);
        }
        if let Some((start, head)) = self.promises.first() {
            profile.reserve(*start, start.plus(head.length), head.cpus);
        }
        profile
    }

    /// Starts a job, or promises it the earliest start that leaves all before it whole.
    fn promise(&mut self, waiting: &Waiting, profile: &mut Profile) {
        self.work.jobs += 1;
        let at = profile.earliest(waiting, &mut self.work.slots);
        if at == self.now {
            self.take(waiting);
        } else {
            self.promises.push((at, *waiting));
        }
        profile.reserve(at, at.plus(waiting.length), waiting.cpus);
    }

    /// Behind the first, those that have waited nearly as long have promises too; then come the
    /// others, where they leave all of these whole.
    fn easy_by_wait(&mut self, head: &Waiting, part: u32, total: u32, shortest: bool) {
        let (pool, now) = (self.pool, self.now);
        let mut profile = self.promised();
        let mut queue = pool
            .waiting
            .iter()
            .filter(|w| w.cpus <= pool.total && (w.submitted, w.id) > (head.submitted, head.id));
        let mut last = (head.submitted, head.id);
        let old = |w: &Waiting| nearly_as_old(now, head.submitted, w.submitted, part);
        while (self.promises.len() as u64) < u64::from(total) {
            let Some(waiting) = queue.next().filter(|w| old(w)) else { break };
            last = (waiting.submitted, waiting.id);
            self.promise(waiting, &mut profile);
        }
        if shortest {
            let behind = pool.by_rank.iter().map(|(_, w)| w);
            self.fill(behind.filter(|w| (w.submitted, w.id) > last), &mut profile);
        } else {
            let behind = pool.waiting.iter();
            self.fill(behind.filter(|w| (w.submitted, w.id) > last), &mut profile);
        }
    }

    /// Starts what leaves all promises whole.
    fn fill<'b>(&mut self, queue: impl Iterator<Item = &'b Waiting>, profile: &mut Profile) {
        for waiting in queue {
            if self.free == 0 {
                return;
            }
            self.work.jobs += 1;
            if waiting.cpus <= self.free && profile.fits_now(waiting, &mut self.work.slots) {
                self.take(waiting);
                profile.reserve(self.now, self.ends(waiting), waiting.cpus);
            }
        }
    }

    /// When a job that starts now is taken to be gone.
    fn ends(&self, waiting: &Waiting) -> Timestamp {
        effective_end(self.now.plus(waiting.length), self.now)
    }

    fn starts_now(&mut self, waiting: &Waiting) -> bool {
        self.work.jobs += 1;
        self.take(waiting)
    }

    fn take(&mut self, waiting: &Waiting) -> bool {
        let fits = waiting.cpus <= self.free;
        if fits {
            self.free -= waiting.cpus;
            self.starts.push(*waiting);
        }
        fits
    }

    /// Starts what is over before the promise, or leaves it what it needs.
    fn backfill<'b>(
        &mut self,
        queue: impl Iterator<Item = &'b Waiting>,
        promised: Timestamp,
        spare: &mut u32,
    ) {
        for waiting in queue {
            if self.free == 0 {
                return;
            }
            self.work.jobs += 1;
            if waiting.cpus > self.free {
                continue;
            }
            let over = self.now.plus(waiting.length) <= promised;
            if over || waiting.cpus <= *spare {
                self.take(waiting);
                if !over {
                    *spare -= waiting.cpus;
                }
            }
        }
    }

    /// When so many CPUs are free at the earliest, beside what this round started, and how many are
    /// left then.
    fn earliest(&mut self, head: &Waiting) -> (Timestamp, u32) {
        let mut new: Vec<(Timestamp, u32)> =
            self.starts.iter().map(|w| (self.ends(w), w.cpus)).collect();
        new.sort_unstable();
        let mut new = new.into_iter().peekable();
        let mut old = self.pool.running.iter().map(|r| (effective_end(r.end, self.now), r.cpus));
        let mut next_old = old.next();
        let (mut at, mut free) = (self.now, self.free);
        loop {
            if free >= head.cpus {
                return (at, free - head.cpus);
            }
            let next = [next_old.map(|o| o.0), new.peek().map(|n| n.0)].into_iter().flatten().min();
            let Some(next) = next else { return (at, free.saturating_sub(head.cpus)) };
            at = next;
            while let Some((_, cpus)) = next_old.filter(|o| o.0 == at) {
                free += cpus;
                next_old = old.next();
                self.work.slots += 1;
            }
            while let Some((_, cpus)) = new.next_if(|n| n.0 == at) {
                free += cpus;
                self.work.slots += 1;
            }
        }
    }

    /// Every job down to a depth has its promise; each starts where it leaves all before it whole.
    fn conservative(&mut self, depth: u32) {
        let pool = self.pool;
        let mut profile = Profile::of(pool, self.now);
        for waiting in pool.waiting.iter().filter(|w| w.cpus <= pool.total) {
            self.work.jobs += 1;
            let may_be_promised =
                self.promises.is_empty() || (self.promises.len() as u64) < u64::from(depth);
            if !may_be_promised && self.free < waiting.cpus {
                continue;
            }
            let at = profile.earliest(waiting, &mut self.work.slots);
            if at == self.now {
                self.take(waiting);
            } else if may_be_promised {
                self.promises.push((at, *waiting));
            } else {
                continue;
            }
            profile.reserve(at, at.plus(waiting.length), waiting.cpus);
        }
    }
}
