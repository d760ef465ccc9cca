//! Following the state: only what changed since the last look is taken up.

use crate::budget::Budget;
use crate::outcome::Outcome;
use crate::outlook::{FORESEEN_MAX, Far, Outlook, outlook};
use crate::queue::{Queue, makes_uid_matter};
use crate::world::World;
use muster_model::{Capacity, Job, JobId, State, Timestamp};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// What is derived from the state and kept between rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    /// The state that the rest mirrors.
    pub(crate) seen: State,
    pub(crate) world: World,
    pub(crate) queue: Queue,
    /// The last whole round, for questions about it.
    memo: Option<Arc<Memo>>,
    /// Unfinished jobs that share their nodes only with their own user.
    user_exclusive: u32,
}

/// A round that was planned without a bound, and from what.
#[derive(Clone, Debug)]
pub(crate) struct Memo {
    state: State,
    now: Timestamp,
    pub(crate) outcome: Outcome,
    /// When those near the head of the queue start, once somebody asked.
    foreseen: OnceLock<Outlook>,
}

/// True where two states are copies of one: neither was changed since.
fn is_copy(a: &State, b: &State) -> bool {
    a.seq == b.seq
        && a.now == b.now
        && a.jobs.ptr_eq(&b.jobs)
        && a.nodes.ptr_eq(&b.nodes)
        && a.partitions.ptr_eq(&b.partitions)
        && a.qos.ptr_eq(&b.qos)
        && a.accounts.ptr_eq(&b.accounts)
        && a.usage.ptr_eq(&b.usage)
        && a.licences.ptr_eq(&b.licences)
        && a.budgets.ptr_eq(&b.budgets)
        && a.accounts.ptr_eq(&b.accounts)
        && a.reservations.ptr_eq(&b.reservations)
        && Arc::ptr_eq(&a.topology, &b.topology)
        && Arc::ptr_eq(&a.policy, &b.policy)
}

/// The licences that are not given out: those that ask for them have nowhere to start.
fn held_licences(state: &State) -> impl Iterator<Item = &String> {
    state.licences.values().filter(|licence| licence.hold.is_some()).map(|licence| &licence.name)
}

impl Cache {
    /// The whole round for this state and instant: the last one where it was that.
    pub(crate) fn planned(&mut self, state: &State, now: Timestamp) -> Arc<Memo> {
        self.follow(state, now);
        if let Some(memo) = &self.memo
            && memo.now == now
            && is_copy(&memo.state, state)
        {
            return Arc::clone(memo);
        }
        let outcome = crate::round::plan(self, state, now, Budget::UNLIMITED);
        let foreseen = OnceLock::new();
        let memo = Arc::new(Memo { state: state.clone(), now, outcome, foreseen });
        self.memo = Some(Arc::clone(&memo));
        memo
    }

    /// What is foreseen behind this round: laid out once for all who ask.
    pub(crate) fn foreseen<'m>(&self, memo: &'m Memo) -> &'m Outlook {
        let far = Far { turns: FORESEEN_MAX, ..Far::ALL };
        let lay = || outlook(self, &memo.state, memo.now, &memo.outcome, far);
        memo.foreseen.get_or_init(lay)
    }

    pub(crate) fn new(state: &State) -> Self {
        let mut cache = Self::default();
        cache.rebuild(state, state.now);
        cache
    }

    /// True where who asks can decide whether a job fits.
    pub(crate) fn uid_matters(&self) -> bool {
        self.user_exclusive > 0
    }

    /// Brings everything up to this state and instant.
    pub(crate) fn follow(&mut self, state: &State, now: Timestamp) {
        if self.must_rebuild(state) || now < self.queue.now {
            self.rebuild(state, now);
            return;
        }
        self.world.set_now(now);
        self.follow_nodes(state);
        if self.seen.licences != state.licences {
            self.world.set_licences(state);
        }
        if !self.follow_jobs(state) {
            self.rebuild(state, now);
            return;
        }
        self.world.correct(state, now);
        self.seen = state.clone();
        let uid_matters = self.uid_matters();
        self.queue.advance(state, uid_matters, now);
        self.queue.learn_terms(state);
    }

    fn rebuild(&mut self, state: &State, now: Timestamp) {
        self.seen = state.clone();
        self.world = World::new(state, now);
        self.queue = Queue::new(state, now);
        let unfinished = state.index.pending.iter().chain(&state.index.active);
        self.user_exclusive = unfinished
            .filter_map(|id| state.jobs.get(id))
            .filter(|job| makes_uid_matter(job))
            .count() as u32;
        let uid_matters = self.uid_matters();
        for job in state.index.pending.iter().filter_map(|id| state.jobs.get(id)) {
            self.queue.add(state, uid_matters, job);
        }
        self.queue.learn_terms(state);
    }

    /// Rare changes on which too much depends: rules, partitions, the set of nodes.
    fn must_rebuild(&self, state: &State) -> bool {
        let seen = &self.seen;
        seen.policy != state.policy
            || seen.qos != state.qos
            || seen.accounts != state.accounts
            || seen.partitions != state.partitions
            || seen.reservations != state.reservations
            || held_licences(seen).ne(held_licences(state))
            || seen.topology != state.topology
            || seen.index.node_by_name != state.index.node_by_name
    }

    fn follow_nodes(&mut self, state: &State) {
        let (mut moved, mut changed, mut counts) = (false, false, false);
        for item in self.seen.nodes.diff(&state.nodes) {
            if let imbl::ordmap::DiffItem::Update { old: (_, before), new: (_, node) } = item {
                moved |= before.switches != node.switches || before.labels != node.labels;
                counts |= Capacity::differs(before, node);
                self.world.describe(node);
                changed = true;
            }
        }
        if moved {
            self.world.set_map(state);
        }
        if changed {
            self.world.set_waste(state);
        }
        if counts {
            self.queue.terms.recount(state);
        }
    }

    /// False where all has to be built anew.
    fn follow_jobs(&mut self, state: &State) -> bool {
        let changed = changed_jobs(&self.seen, state);
        // What jobs that stand still keep depends on who else is there.
        let yields = |state: &State| {
            let evicted = state.index.evicted.iter().filter_map(|id| state.jobs.get(id));
            evicted.into_iter().any(|job| job.yields_cpus() || job.resumes)
        };
        if !changed.is_empty() && (yields(&self.seen) || yields(state)) {
            return false;
        }
        let was_user_exclusive = self.user_exclusive;
        for id in &changed {
            let (old, new) = (self.seen.jobs.get(id), state.jobs.get(id));
            let matters =
                |job: Option<&Arc<Job>>| u32::from(job.is_some_and(|j| makes_uid_matter(j)));
            self.user_exclusive += matters(new);
            self.user_exclusive -= matters(old);
        }
        if (was_user_exclusive > 0) != (self.user_exclusive > 0) {
            return false;
        }
        let uid_matters = self.uid_matters();
        for id in &changed {
            if let Some(old) = self.seen.jobs.get(id) {
                self.queue.remove(&self.seen, uid_matters, old);
                if let Some(placement) = old.placement.as_ref().filter(|_| !old.is_pending()) {
                    self.world.release(old.id, placement);
                }
            }
        }
        for id in &changed {
            if let Some(new) = state.jobs.get(id) {
                self.queue.add(state, uid_matters, new);
                self.world.hold_as(state, new);
            }
        }
        true
    }
}

/// The jobs that differ, with the first component where a component differs and the waiting tasks
/// of arrays whose throttle came or went.
fn changed_jobs(old: &State, new: &State) -> BTreeSet<JobId> {
    let mut changed = BTreeSet::new();
    let mut note = |job: &Arc<Job>| {
        changed.insert(job.id);
        changed.extend(job.het.map(|part| part.leader));
        for state in [old, new] {
            changed.extend(crate::together::touched(state, job));
            // What each of those who share holds on the world depends on the others.
            changed.extend(crate::turns::fellows_on_nodes(state, job).iter().map(|job| job.id));
        }
    };
    for item in old.jobs.diff(&new.jobs) {
        match item {
            imbl::ordmap::DiffItem::Add(_, job) | imbl::ordmap::DiffItem::Remove(_, job) => {
                note(job);
            }
            imbl::ordmap::DiffItem::Update { old: (_, before), new: (_, after) } => {
                note(before);
                note(after);
            }
        }
    }
    for item in old.index.arrays.diff(&new.index.arrays) {
        if let imbl::ordmap::DiffItem::Update { old: (_, before), new: (id, after) } = item
            && before.throttle.is_some() != after.throttle.is_some()
        {
            changed.extend(new.family(*id));
        }
    }
    changed
}
