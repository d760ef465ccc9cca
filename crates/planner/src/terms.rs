//! What the place of a shape's jobs rests on, kept from round to round.
//!
//! Jobs of one shape have one user, request, limit, QOS and nice value, so all that orders them
//! among others, beside the time since they are free to start, is known once for the shape. What
//! time or use changes (age, fair share, how a user's last jobs ran) is worked out once in a round
//! for each association or user, and put together for each shape in a few steps on numbers.

use crate::slowdown::Weigher;
use muster_model::{Capacity, Job, OrderMode, Priorities, State, Steady, TimeLimit, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What places a shape, beside its jobs' waiting keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    /// What does not change, and whose fair share counts.
    Factors(Steady, u32),
    /// Its size, its limit, and whose last runs count.
    Weighed(u64, TimeLimit, u32),
}

/// The terms of all shapes.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllTerms {
    /// What the nodes have; nothing under FIFO, where it does not count.
    capacity: Arc<Capacity>,
    /// By the number of the shape; `None` for no shape.
    by_shape: Vec<Option<Terms>>,
    /// Account and user.
    associations: Names<(String, String)>,
    users: Names<u32>,
    /// Shapes that came since the terms were last worked out.
    unknown: BTreeSet<usize>,
}

/// Numbers for names.
#[derive(Clone, Debug)]
struct Names<T> {
    numbers: BTreeMap<T, u32>,
    names: Vec<T>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), names: Vec::new() }
    }
}

impl<T: Ord + Clone> Names<T> {
    fn number(&mut self, name: T) -> u32 {
        if let Some(known) = self.numbers.get(&name) {
            return *known;
        }
        let new = self.names.len() as u32;
        self.names.push(name.clone());
        self.numbers.insert(name, new);
        new
    }
}

impl AllTerms {
    /// For the jobs of a state; costs a look at each node where that counts.
    pub(crate) fn new(state: &State) -> Self {
        let counts = state.policy.order != OrderMode::Fifo;
        let capacity = if counts { Capacity::of(state) } else { Capacity::default() };
        Self { capacity: Arc::new(capacity), ..Self::default() }
    }

    pub(crate) fn capacity(&self) -> Arc<Capacity> {
        Arc::clone(&self.capacity)
    }

    pub(crate) fn of(&self, shape: usize) -> Option<Terms> {
        self.by_shape.get(shape).copied().flatten()
    }

    /// Whose fair share counts, by number.
    pub(crate) fn associations(&self) -> &[(String, String)] {
        &self.associations.names
    }

    /// Whose last runs count, by number.
    pub(crate) fn users(&self) -> &[u32] {
        &self.users.names
    }

    /// A shape has come.
    pub(crate) fn came(&mut self, shape: usize) {
        self.unknown.insert(shape);
    }

    /// Nodes have become others: looks at each again, and at all shapes.
    pub(crate) fn recount(&mut self, state: &State) {
        if state.policy.order != OrderMode::Fifo {
            self.capacity = Arc::new(Capacity::of(state));
            self.unknown.extend(0..self.by_shape.len());
        }
    }

    /// Works out what is not known yet, given a job of each shape.
    pub(crate) fn learn<'a>(
        &mut self,
        state: &'a State,
        job_of: impl Fn(usize) -> Option<&'a Arc<Job>>,
    ) {
        let unknown = std::mem::take(&mut self.unknown);
        let shapes = unknown.into_iter().filter_map(|at| Some((at, job_of(at)?)));
        let epoch = Timestamp::from_millis(0);
        match state.policy.order {
            OrderMode::Fifo => {}
            OrderMode::Multifactor => {
                // No use counts in what is kept, so none is looked up.
                let priorities = Priorities::without_use(state, epoch, self.capacity());
                for (at, job) in shapes {
                    let spec = &job.spec;
                    let who = (spec.account.clone(), spec.owner.user.clone());
                    let who = self.associations.number(who);
                    self.put(at, Terms::Factors(priorities.steady(job), who));
                }
            }
            OrderMode::Slowdown => {
                let weigher = Weigher::new(state, epoch, &self.capacity);
                for (at, job) in shapes {
                    let user = self.users.number(job.spec.owner.uid);
                    self.put(at, Terms::Weighed(weigher.size(job), job.time_limit, user));
                }
            }
        }
    }

    fn put(&mut self, at: usize, terms: Terms) {
        if self.by_shape.len() <= at {
            self.by_shape.resize(at + 1, None);
        }
        self.by_shape[at] = Some(terms);
    }
}
