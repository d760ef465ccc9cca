//! What engines shall do, as a function of the state.
//!
//! A job in `Starting` wants a launch, one with a stop mark wants an end, and so on. Nothing here
//! remembers what was ordered before: an order stands until an observation makes it moot.

use muster_engine::{ArrayFacts, Launch, Order};
use muster_model::{
    BlobId, EngineName, IndexRanges, Job, JobId, JobState, Node, Payload, Placement, Seconds,
    State, StopCause,
};
use std::sync::Arc;

/// An order on its way to an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Which engine.
    pub engine: EngineName,
    /// What. A launch's payload is empty here: it is read when the order is sent.
    pub order: Order,
    /// Where a launch's payload lies.
    pub payload: Option<BlobId>,
}

/// What tells orders apart: a newer one with the same key takes an older one's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderKey {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: u32,
    /// Which kind of order; signals by number.
    pub kind: OrderKind,
}

/// Kinds of orders, in the order in which they make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderKind {
    /// Start.
    Launch,
    /// Another limit.
    Limit,
    /// Give up nodes.
    Resize,
    /// Stand still or go on.
    Suspend,
    /// The signal of this number.
    Signal(u32),
    /// End.
    Stop,
    /// Forget.
    Acknowledge,
}

impl Outgoing {
    /// What tells it apart.
    pub fn key(&self) -> OrderKey {
        let (job, attempt, kind) = match &self.order {
            Order::Launch(launch) => (launch.job.id, launch.job.attempt, OrderKind::Launch),
            Order::Stop { job, attempt, .. } => (*job, *attempt, OrderKind::Stop),
            Order::Signal { job, attempt, number, .. } => {
                (*job, *attempt, OrderKind::Signal(*number))
            }
            Order::Suspend { job, attempt, .. } => (*job, *attempt, OrderKind::Suspend),
            Order::Resize { job, attempt, .. } => (*job, *attempt, OrderKind::Resize),
            Order::Limit { job, attempt, .. } => (*job, *attempt, OrderKind::Limit),
            Order::Acknowledge { job, attempt } => (*job, *attempt, OrderKind::Acknowledge),
        };
        OrderKey { job, attempt, kind }
    }

    /// True where the state (which may have moved on) still asks for it.
    pub fn is_wanted(&self, state: &State) -> bool {
        let key = self.key();
        let job = state.jobs.get(&key.job).filter(|job| job.attempt == key.attempt);
        match (key.kind, job) {
            (OrderKind::Acknowledge, job) => job.is_none_or(|job| !job.state.holds_resources()),
            (OrderKind::Launch, Some(job)) => job.state == JobState::Starting,
            // A stray attempt is stopped although no job stands for it.
            (OrderKind::Stop, job) => job.is_none_or(|job| {
                !job.state.holds_resources() || job.state == JobState::Completing
            }),
            (OrderKind::Signal(number), Some(job)) => {
                job.signals.iter().any(|signal| signal.number == number)
            }
            (OrderKind::Resize, Some(job)) => job.resize.is_some(),
            (OrderKind::Suspend | OrderKind::Limit, Some(job)) => job.state.holds_resources(),
            (_, None) => false,
        }
    }

    /// The engine's order, with the payload in it.
    pub fn with_payload(&self, payload: &Arc<Payload>) -> Order {
        match &self.order {
            Order::Launch(launch) => Order::Launch(Box::new(Launch {
                payload: Arc::clone(payload),
                ..launch.as_ref().clone()
            })),
            other => other.clone(),
        }
    }
}

/// What the state asks engines to do for one job.
pub fn orders_of(state: &State, job: &Arc<Job>) -> Vec<Outgoing> {
    if !job.state.holds_resources() {
        return Vec::new();
    }
    let Some(engine) = engine_of(state, job) else { return Vec::new() };
    let (id, attempt) = (job.id, job.attempt);
    let mut orders = Vec::new();
    let mut order = |order, payload| {
        orders.push(Outgoing { engine: engine.clone(), order, payload });
    };
    match job.state {
        JobState::Starting => {
            if let Some(launch) = launch_of(state, job) {
                order(Order::Launch(Box::new(launch)), Some(job.spec.payload.clone()));
            }
        }
        JobState::Running if job.suspend => {
            order(Order::Suspend { job: id, attempt, suspend: true }, None);
        }
        JobState::Suspended if !job.suspend => {
            order(Order::Suspend { job: id, attempt, suspend: false }, None);
        }
        JobState::Completing => {
            let (cause, grace) = (job.stop.as_ref().map(|s| s.cause.clone()), grace_of(state, job));
            order(Order::Stop { job: id, attempt, cause, grace }, None);
        }
        _ => {}
    }
    if let Some(keeps) = job.resize.as_ref().filter(|_| job.started.is_some()) {
        let nodes = names_of(state, keeps);
        let eviction = job.eviction.as_ref();
        let grace = eviction.map_or(Seconds(0), |eviction| eviction.until.since(eviction.stop_at));
        order(Order::Resize { job: id, attempt, nodes, grace }, None);
    }
    for signal in &job.signals {
        let (number, signal, scope) = (signal.number, signal.signal, signal.scope);
        order(Order::Signal { job: id, attempt, number, signal, scope }, None);
    }
    orders
}

/// What the state asks for all jobs.
pub fn orders(state: &State) -> Vec<Outgoing> {
    state
        .index
        .active
        .iter()
        .filter_map(|id| state.jobs.get(id))
        .flat_map(|job| orders_of(state, job))
        .collect()
}

/// The order that tells an engine of a running job's limit.
pub(crate) fn limit_of(state: &State, job: &Job) -> Option<Outgoing> {
    if !job.state.holds_resources() {
        return None;
    }
    let order = Order::Limit { job: job.id, attempt: job.attempt, limit: job.time_limit };
    Some(Outgoing { engine: engine_of(state, job)?, order, payload: None })
}

/// The engine that a placed job runs on: that of its first node.
pub(crate) fn engine_of(state: &State, job: &Job) -> Option<EngineName> {
    let first = job.placement.as_ref()?.nodes.first()?;
    state.nodes.get(&first.node).map(|node| node.engine.clone())
}

/// The nodes of a placement by name, in its order.
pub(crate) fn names_of(state: &State, placement: &Placement) -> Vec<String> {
    placement.nodes.iter().map(|share| state.node_name(share.node)).collect()
}

/// What a job that is being ended has between the polite and the final signal: the policy's wait;
/// a preempted one what its partition gives; one that shall go on later also what its checkpoint
/// takes.
fn grace_of(state: &State, job: &Job) -> Seconds {
    let usual = state.policy.kill_wait;
    let Some(stop) = &job.stop else { return usual };
    if stop.hurry {
        return Seconds(0);
    }
    let checkpoint = job.spec.checkpoint.as_ref().map_or(Seconds(0), |c| c.grace);
    match stop.cause {
        StopCause::Preempted(_) if job.eviction.is_some() => {
            job.eviction.as_ref().map_or(usual, |e| e.until.since(e.stop_at))
        }
        StopCause::Preempted(_) => partition_grace(state, job).unwrap_or(usual).max(checkpoint),
        StopCause::Requeue { .. } => usual.max(checkpoint),
        StopCause::Cancelled(_)
        | StopCause::Deadline
        | StopCause::HetPeer
        | StopCause::ReservationOver => usual,
        StopCause::Taint(_) => usual.max(checkpoint),
    }
}

fn partition_grace(state: &State, job: &Job) -> Option<Seconds> {
    let placement = job.placement.as_ref()?;
    state.partitions.get(&placement.partition)?.grace
}

fn nodes_of(state: &State, job: &Job) -> Option<Vec<Arc<Node>>> {
    let placement = job.placement.as_ref()?;
    placement.nodes.iter().map(|share| state.nodes.get(&share.node).cloned()).collect()
}

/// `None` while a component of its heterogeneous job is not placed.
fn launch_of(state: &State, job: &Arc<Job>) -> Option<Launch> {
    let components = match job.het {
        None => Vec::new(),
        Some(part) => (0..part.size)
            .map(|offset| {
                let peer = state.jobs.get(&JobId(part.leader.0 + offset))?;
                Some((Arc::clone(peer), nodes_of(state, peer)?))
            })
            .collect::<Option<Vec<_>>>()?,
    };
    Some(Launch {
        job: Arc::clone(job),
        nodes: nodes_of(state, job)?,
        components,
        array: job.array.and_then(|task| array_facts(state, job, task.array)),
        payload: Arc::default(),
        kill_wait: state.policy.kill_wait,
    })
}

fn array_facts(state: &State, job: &Job, array: JobId) -> Option<ArrayFacts> {
    let indices = &job.spec.array.as_ref()?.indices;
    let size = state.index.arrays.get(&array).map_or(indices.len(), |record| record.size);
    let min = indices.ranges().first()?.0;
    Some(ArrayFacts { size, min, max: indices.last()?, step: step_of(indices) })
}

/// The difference between neighbours where it is the same everywhere, else 1.
fn step_of(indices: &IndexRanges) -> u32 {
    let ranges = indices.ranges();
    let single = |(low, high): &(u32, u32)| low == high;
    if ranges.len() < 2 || !ranges.iter().all(single) {
        return 1;
    }
    let step = ranges[1].0 - ranges[0].0;
    if ranges.windows(2).all(|pair| pair[1].0 - pair[0].0 == step) { step } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_unless_it_is_the_same_everywhere() {
        let step = |ranges: &[(u32, u32)]| step_of(&IndexRanges::from_ranges(ranges.to_vec()));
        assert_eq!(step(&[(0, 0), (4, 4), (8, 8)]), 4);
        assert_eq!(step(&[(0, 0), (4, 4), (9, 9)]), 1);
        assert_eq!(step(&[(0, 7)]), 1);
        assert_eq!(step(&[(3, 3)]), 1);
    }
}
