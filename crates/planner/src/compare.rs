//! Why this node and not that, and why that job and not this: the planner's own measures side by
//! side, as data.

use crate::cache::Cache;
use crate::gates::gate_reasons;
use crate::reasons::Reasoner;
use crate::tally;
use crate::world::World;
use muster_model::{
    Decision, Factors, Job, JobId, JobState, NodeCause, NodeChoice, NodeId, OrderMode, Priorities,
    Promise, Reason, State, Timestamp,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why a job is not on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAnswer {
    /// No partition of the job has the node.
    Elsewhere,
    /// It is there.
    There,
    /// It waits: what keeps it from the node, and what it waits for where the node would do.
    Waits {
        /// The cause; [`NodeCause::Free`] where the node could take its part.
        cause: NodeCause,
        /// What it waits for all the same, the binding reason first.
        but: Vec<Reason>,
    },
    /// It runs elsewhere.
    Placed(Box<Choice>),
}

/// A node that a job has beside one that it has not, as if it were placed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What would keep it from the other node now; [`NodeCause::Free`] where it would do.
    pub cause: NodeCause,
    /// The node that it has.
    pub has: NodeScore,
    /// The other.
    pub other: NodeScore,
    /// How nodes are chosen: the fullest or the emptiest first.
    pub choice: NodeChoice,
    /// The first part that tells the two apart; `None` where all are equal and the nodes' order
    /// decides.
    pub decides: Option<ScorePart>,
}

/// What places a node in the order in which nodes are tried, without the job itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeScore {
    /// The node.
    pub node: NodeId,
    /// Its weight: light ones come first.
    pub weight: u32,
    /// Taints for which it comes last where others would do.
    pub taints: u32,
    /// The sum of the job's wishes that hold there, less what even spreading counts; more is better.
    pub wishes: i64,
    /// Nodes of the job's other nodes that are in its domain of the lowest level of the topology;
    /// more is better.
    pub near: u32,
    /// Free GPUs.
    pub gpus: u32,
    /// Free CPUs.
    pub cpus: u32,
    /// Idle nodes in its domain of the lowest level: fragmentation.
    pub idle_beside: u32,
}

/// A part of a node's score, in the order in which they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScorePart {
    /// Weight.
    Weight,
    /// Taints.
    Taints,
    /// Wishes: affinity and even spreading.
    Wishes,
    /// Nearness to the job's other nodes.
    Topology,
    /// Free GPUs: packing.
    Gpus,
    /// Free CPUs: packing.
    Cpus,
    /// Idle nodes beside: fragmentation.
    IdleBeside,
}

impl ScorePart {
    /// Every part, in order.
    pub const ALL: [Self; 7] = [
        Self::Weight,
        Self::Taints,
        Self::Wishes,
        Self::Topology,
        Self::Gpus,
        Self::Cpus,
        Self::IdleBeside,
    ];

    /// What people call it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Taints => "taints to avoid",
            Self::Wishes => "wishes that hold",
            Self::Topology => "nodes of the job near it",
            Self::Gpus => "free GPUs",
            Self::Cpus => "free CPUs",
            Self::IdleBeside => "idle nodes beside it",
        }
    }

    /// Its value on a node.
    pub fn of(self, score: &NodeScore) -> i64 {
        match self {
            Self::Weight => i64::from(score.weight),
            Self::Taints => i64::from(score.taints),
            Self::Wishes => score.wishes,
            Self::Topology => i64::from(score.near),
            Self::Gpus => i64::from(score.gpus),
            Self::Cpus => i64::from(score.cpus),
            Self::IdleBeside => i64::from(score.idle_beside),
        }
    }

    /// True where the greater value is preferred.
    pub const fn more_is_better(self, choice: NodeChoice) -> bool {
        match self {
            Self::Weight | Self::Taints => false,
            Self::Wishes | Self::Topology => true,
            Self::Gpus | Self::Cpus | Self::IdleBeside => matches!(choice, NodeChoice::Spread),
        }
    }
}

/// Why a job is not on a node; `None` where one of the two is not there, or the job is over.
///
/// Costs a copy of the world where the job runs.
pub(crate) fn on_node(
    cache: &mut Cache,
    state: &State,
    id: JobId,
    name: &str,
    now: Timestamp,
) -> Option<NodeAnswer> {
    let job = state.jobs.get(&id)?;
    let memo = cache.planned(state, now);
    let node = cache.world.node_named(name)?;
    let node_id = cache.world.view(node).node.id;
    let cause =
        |world: &World, job: &Job| tally::on_node(world, state, job, &memo.outcome, node, now);
    if job.is_pending() {
        let Some(cause) = cause(&cache.world, job) else { return Some(NodeAnswer::Elsewhere) };
        let but = match cause.is_free() {
            true => crate::explain::reasons(cache, state, id, now),
            false => Vec::new(),
        };
        return Some(NodeAnswer::Waits { cause, but });
    }
    let placement = job.placement.as_ref().filter(|_| job.state.holds_resources())?;
    if placement.nodes.iter().any(|share| share.node == node_id) {
        return Some(NodeAnswer::There);
    }
    // As if it were placed now: without what it has.
    let mut world = cache.world.clone();
    world.release(id, placement);
    let Some(cause) = cause(&world, job) else { return Some(NodeAnswer::Elsewhere) };
    let has = world.node_named(&state.node_name(placement.nodes.first()?.node))?;
    let rest: Vec<usize> = (placement.nodes.iter().skip(1))
        .filter_map(|share| world.node_named(&state.node_name(share.node)))
        .collect();
    let wishes = wishes(&world, state, job, now);
    let score = |at: usize| score(&world, at, &rest, &wishes);
    let (has, other, choice) = (score(has), score(node), state.policy.nodes);
    let decides = ScorePart::ALL.into_iter().find(|part| part.of(&has) != part.of(&other));
    Some(NodeAnswer::Placed(Box::new(Choice { cause, has, other, choice, decides })))
}

/// By node, what the job's wishes come to; empty where it has none.
fn wishes(world: &World, state: &State, job: &Job, now: Timestamp) -> Vec<i64> {
    let asks = crate::queue::asks(state, job, now);
    asks.first().map_or_else(Vec::new, |ask| crate::affinity::wish_scores(world, ask, now))
}

fn score(world: &World, at: usize, rest: &[usize], wishes: &[i64]) -> NodeScore {
    let view = world.view(at);
    let map = world.map();
    let near = match map.levels() {
        0 => 0,
        _ => {
            let domains = map.domains_of(0);
            let own = domains[at];
            let same = |node: &&usize| own != crate::topology::NONE && domains[**node] == own;
            rest.iter().filter(same).count() as u32
        }
    };
    NodeScore {
        node: view.node.id,
        weight: view.node.weight,
        taints: view.shy_taints(),
        wishes: wishes.get(at).copied().unwrap_or(0),
        near,
        gpus: view.free_devices.count_ones(),
        cpus: view.free_cpu_count,
        idle_beside: world.idle_beside().get(at).copied().unwrap_or(0),
    }
}

/// Two jobs side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The one that waits.
    pub job: Standing,
    /// The one that it is compared with.
    pub other: Standing,
    /// Priorities are sums of factors; else of QOS and partition.
    pub multifactor: bool,
    /// What decides between them.
    pub verdict: Verdict,
}

/// Where a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The job.
    pub job: JobId,
    /// Its state.
    pub state: JobState,
    /// The highest tier of its partitions.
    pub tier: u32,
    /// It names a reservation: such jobs come before all others.
    pub reserved: bool,
    /// Its priority.
    pub priority: i64,
    /// What that is the sum of, where it is one of factors.
    pub factors: Factors,
    /// Since when it is free to start.
    pub eligible: Option<Timestamp>,
    /// What keeps it from being free to start, and limits; empty where nothing does.
    pub held: Vec<Reason>,
    /// When it started, or starts in this round.
    pub started: Option<Timestamp>,
}

/// What decides between two jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The job itself is held back, whatever the other does.
    Held,
    /// The other started before the job was free to start.
    Earlier,
    /// The other comes first: by tier or reservation.
    Tier,
    /// The other comes first: by priority.
    Priority,
    /// The other comes first: priorities are equal, and it was first.
    First,
    /// The other comes first: priorities are equal, and it has waited too long to be passed
    /// ([`WaitGuard`](muster_model::WaitGuard)).
    Waited,
    /// The other comes first: priorities are equal, and it is likely to be over sooner or smaller.
    Lighter,
    /// The other comes after it, and both wait.
    Behind,
    /// The other started though it comes after the job, since it is over before the job's promised
    /// start.
    EndsBefore {
        /// When it is over at the latest.
        end: Timestamp,
        /// The promised start.
        promise: Timestamp,
    },
    /// As [`Verdict::EndsBefore`], on what the job's promise leaves.
    Beside {
        /// The promised start.
        promise: Timestamp,
        /// Nodes that both have.
        shared: u32,
    },
    /// The other started though it comes after the job, which has no promise.
    NoPromise,
    /// The other is over.
    Over,
}

/// Compares two jobs; `None` where one is not there or the first does not wait.
pub(crate) fn over(
    cache: &mut Cache,
    state: &State,
    id: JobId,
    other: JobId,
    now: Timestamp,
) -> Option<Comparison> {
    let job = state.jobs.get(&id).filter(|job| job.is_pending())?;
    let rival = state.jobs.get(&other)?;
    let memo = cache.planned(state, now);
    let reasoner = Reasoner::new(cache, state, now, &memo.outcome);
    let priorities = Priorities::new(state, now);
    let multifactor = state.policy.order == OrderMode::Multifactor;
    let standing = |job: &Arc<Job>| {
        let factors = if multifactor { priorities.factors(job) } else { Factors::default() };
        let waits = job.is_pending();
        let mut held = if waits { gate_reasons(state, job, now) } else { Vec::new() };
        if waits && held.is_empty() {
            held.extend(reasoner.blocked_alone(job));
        }
        if waits && held.is_empty() {
            held = reasoner.limits_on(job);
        }
        let starts = reasoner.starts_now(job.id).then_some(now);
        let partitions = job.spec.partitions.iter().filter_map(|p| state.partitions.get(p));
        Standing {
            job: job.id,
            state: job.state,
            tier: partitions.map(|p| p.tier).max().unwrap_or(0),
            reserved: job.spec.request.reservation.is_some(),
            priority: reasoner.keys.priority(job),
            factors,
            eligible: job.eligible,
            held,
            started: if waits { starts } else { job.placed.or(job.started) },
        }
    };
    let (mine, theirs) = (standing(job), standing(rival));
    let (own, its) = (reasoner.keys.of(job), reasoner.keys.of(rival));
    let behind = its > own;
    let first = match its.1.weight() {
        weight if weight == own.1.weight() => Verdict::First,
        0 => Verdict::Waited,
        _ => Verdict::Lighter,
    };
    let promise = memo.outcome.plan.promises.iter().find(|p| p.job == id);
    let verdict = verdict(&mine, &theirs, behind, first, || {
        backfilled(state, rival, &memo.outcome.plan.decisions, promise, now)
    });
    Some(Comparison { job: mine, other: theirs, multifactor, verdict })
}

fn verdict(
    mine: &Standing,
    theirs: &Standing,
    behind: bool,
    first: Verdict,
    backfilled: impl FnOnce() -> Verdict,
) -> Verdict {
    if theirs.state.is_over() {
        return Verdict::Over;
    }
    if !mine.held.is_empty() {
        return Verdict::Held;
    }
    if let Some(started) = theirs.started {
        if mine.eligible.is_none_or(|at| at > started) {
            return Verdict::Earlier;
        }
        if behind {
            return backfilled();
        }
    }
    if behind {
        return Verdict::Behind;
    }
    if (theirs.reserved, theirs.tier) != (mine.reserved, mine.tier) {
        return Verdict::Tier;
    }
    if theirs.priority == mine.priority { first } else { Verdict::Priority }
}

/// How a job that comes after another could start before it.
fn backfilled(
    state: &State,
    rival: &Job,
    decisions: &[Decision],
    promise: Option<&Promise>,
    now: Timestamp,
) -> Verdict {
    let Some(promise) = promise else { return Verdict::NoPromise };
    let starting = decisions.iter().flat_map(Decision::starts).find(|s| s.job == rival.id);
    let (placement, end) = match starting {
        Some(start) => {
            (Some(&start.placement), now.plus_limit(state.expected_run(rival, start.time_limit)))
        }
        None => {
            let end = state.expected_end(rival, now).unwrap_or(Timestamp::NEVER);
            (rival.placement.as_ref(), end)
        }
    };
    if end <= promise.start {
        return Verdict::EndsBefore { end, promise: promise.start };
    }
    let promised: BTreeSet<NodeId> = promise.nodes.iter().copied().collect();
    let shared = placement.map_or(0, |placement| {
        let own = placement.nodes.iter().filter(|share| promised.contains(&share.node));
        own.filter(|share| state.nodes.contains_key(&share.node)).count() as u32
    });
    Verdict::Beside { promise: promise.start, shared }
}
