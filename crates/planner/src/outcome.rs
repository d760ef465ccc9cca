//! What a round found, beside its plan.

use crate::order::{Keys, OrderKey};
use crate::queue::{Queue, ShapeKey};
use muster_model::{JobId, Plan, Reason};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a round found, beside its plan: for reasons.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    /// For each partition, and each reservation in one, the job that has its first promise.
    pub(crate) promised: BTreeMap<String, JobId>,
    /// The first job that was not looked at because the budget ended.
    pub(crate) stopped_at: Option<OrderKey>,
    /// Shapes that limits hold, with the first that does.
    pub(crate) held: BTreeMap<Arc<ShapeKey>, Reason>,
    /// The first of groups for which victims were looked for in vain.
    pub(crate) in_vain: BTreeSet<JobId>,
    /// The nodes in the order in which they are tried, before the round starts anything.
    pub(crate) order: Arc<Vec<usize>>,
    /// The first waiting job of every shape, in order.
    pub(crate) firsts: Arc<Vec<First>>,
}

/// The first waiting job of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct First {
    pub(crate) key: OrderKey,
    /// The shape's number.
    pub(crate) at: u32,
    /// How many of it wait.
    pub(crate) waiting: u32,
}

impl Outcome {
    /// How many waiting jobs come before a place in the queue. The cache has to be as it was for
    /// this round.
    pub(crate) fn count_ahead(&self, queue: &Queue, keys: &Keys<'_>, key: OrderKey) -> usize {
        let upto = self.firsts.partition_point(|first| first.key < key);
        let before = |first: &First| match first.waiting {
            1 => 1,
            _ => {
                let shape = queue.shapes.get(first.at as usize).and_then(Option::as_ref);
                let terms = queue.terms.of(first.at as usize);
                shape.map_or(0, |shape| keys.count_before((&shape.waiting, terms), key))
            }
        };
        self.firsts[..upto].iter().map(before).sum()
    }
}
