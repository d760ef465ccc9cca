//! The changes that are tried for a job, by kind, each kind in ascending size.

use super::{Change, Kind, ONE_BY_ONE_MAX};
use crate::cache::Cache;
use crate::free::NodeView;
use crate::reasons::limit_seconds;
use muster_model::{
    Decision, DeviceMode, Exclusive, Job, JobSpec, LimitHit, LimitName, MemoryRequest, Mib,
    NodeCount, NodeId, Plan, Reason, Seconds, State, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

/// Up to so large a number, each smaller one may be suggested.
const EACH_MAX: u32 = 512;

/// All kinds of changes for a job; some are empty.
pub(super) fn candidates(
    cache: &Cache,
    state: &State,
    job: &Job,
    now: Timestamp,
    without: &Plan,
    reasons: &[Reason],
) -> Vec<Kind> {
    let spec = job.spec.as_ref();
    let mut kinds = vec![shorter(state, job, now, without, reasons)];
    kinds.extend(fewer_gpus(spec));
    kinds.extend([
        other_models(cache, spec),
        fewer_nodes(spec),
        fewer_cpus(spec),
        less_memory(cache, job, without),
        smaller_gpu_memory(cache, spec),
        other_partitions(state, spec),
    ]);
    kinds.extend(looser(spec));
    kinds.extend([fewer_tasks(spec), shares(cache, spec)]);
    kinds.extend(others_limits(state, spec, reasons));
    kinds
}

/// A kind of one change, or of none.
fn only(change: Option<Change>) -> Kind {
    change.into_iter().collect()
}

/// Whole minutes in so many seconds, as seconds.
const fn whole_minutes(seconds: u64) -> u64 {
    seconds / 60 * 60
}

/// The partition's limit, limits that end where a promise or a reservation begins, by the deadline,
/// or that a limit of its association or QOS leaves.
fn shorter(state: &State, job: &Job, now: Timestamp, without: &Plan, reasons: &[Reason]) -> Kind {
    let asked = limit_seconds(job.time_limit);
    let partitions = job.spec.partitions.iter().filter_map(|name| state.partitions.get(name));
    let bounds = partitions.filter_map(|p| Some(p.max_time.seconds()?.0));
    let promised = without.promises.iter().filter(|p| p.job != job.id).map(|p| p.start);
    let windows = state.reservations.values().flat_map(|r| match r.float {
        Some(away) => vec![now.plus(away)],
        None => std::iter::once(&r.window).chain(&r.later).flat_map(|w| [w.start, w.end]).collect(),
    });
    let ends = promised.chain(windows).chain(job.spec.deadline);
    let ends = ends.filter(|at| *at > now && *at != Timestamp::NEVER);
    let left = reasons.iter().filter_map(|reason| match reason {
        Reason::AssociationLimit(hit) | Reason::QosLimit(hit) => time_left(hit, asked),
        _ => None,
    });
    let all = bounds.chain(ends.map(|at| at.since(now).0)).chain(left).map(whole_minutes);
    let limits: BTreeSet<u64> = all.filter(|s| *s >= 60 && *s < asked).collect();
    limits.into_iter().rev().map(|s| Change::TimeLimit(Seconds(s))).collect()
}

/// The time limit, in seconds, that a limit on time leaves to a job that asks for so many.
fn time_left(hit: &LimitHit, asked: u64) -> Option<u64> {
    let left = hit.most.saturating_sub(hit.used);
    match hit.limit {
        LimitName::MaxWall => Some(hit.most.saturating_mul(60)),
        LimitName::MaxTresMins | LimitName::GrpTresMins | LimitName::GrpTresRunMins => {
            let part = u128::from(asked) * u128::from(left) / u128::from(hit.asked.max(1));
            u64::try_from(part).ok().filter(|_| asked != u64::MAX)
        }
        _ => None,
    }
}

/// Numbers below `from` to try, the largest first: all of them, or of very many those near it and
/// some in even steps.
fn below(from: u32) -> Vec<u32> {
    if from <= EACH_MAX {
        return (1..from).rev().collect();
    }
    let near = from - EACH_MAX / 2..from;
    let steps =
        (1..EACH_MAX).map(|n| (u64::from(from) * u64::from(n) / u64::from(EACH_MAX)) as u32);
    let all: BTreeSet<u32> = near.chain(steps).filter(|n| *n > 0).collect();
    all.into_iter().rev().collect()
}

/// One option says all GPUs of a scope: of several kinds, one cannot be changed by itself.
fn alone(spec: &JobSpec, gpus: &muster_model::GpuCount) -> bool {
    spec.request.gpus.iter().filter(|other| other.scope == gpus.scope).count() == 1
}

/// Fewer GPUs, for each count in the request on its own.
fn fewer_gpus(spec: &JobSpec) -> Vec<Kind> {
    let fewer = |gpus: &muster_model::GpuCount| {
        let with = |to: u32| {
            let (model, from, scope) = (gpus.model.clone(), gpus.count, gpus.scope);
            Change::Gpus { model, from, to, scope }
        };
        below(gpus.count).into_iter().map(with).collect()
    };
    spec.request.gpus.iter().filter(|gpus| alone(spec, gpus)).map(fewer).collect()
}

fn other_models(cache: &Cache, spec: &JobSpec) -> Kind {
    let mut changes = Vec::new();
    let known: BTreeSet<&String> =
        cache.world.views().iter().flat_map(|v| v.models.iter().map(|m| &m.0)).collect();
    for gpus in spec.request.gpus.iter().filter(|gpus| alone(spec, gpus)) {
        let Some(from) = &gpus.model else { continue };
        let others = known.iter().filter(|m| !m.eq_ignore_ascii_case(from));
        for to in others.map(|m| Some((*m).clone())).chain(std::iter::once(None)) {
            let (from, count, scope) = (from.clone(), gpus.count, gpus.scope);
            changes.push(Change::GpuModel { from, to, count, scope });
        }
    }
    changes
}

fn fewer_nodes(spec: &JobSpec) -> Kind {
    let least = spec.request.nodes.as_ref().map_or(0, NodeCount::least);
    below(least).into_iter().map(Change::Nodes).collect()
}

fn fewer_cpus(spec: &JobSpec) -> Kind {
    below(spec.request.cpus_per_task()).into_iter().map(Change::CpusPerTask).collect()
}

/// The sums of amounts on nodes.
fn by_node(amounts: impl Iterator<Item = (NodeId, Mib)>) -> BTreeMap<NodeId, u64> {
    let mut sums: BTreeMap<NodeId, u64> = BTreeMap::new();
    for (node, amount) in amounts {
        let sum = sums.entry(node).or_default();
        *sum = sum.saturating_add(amount.0);
    }
    sums
}

/// As much as some node has free now, without what others start on in the round, and without what
/// others are promised; the largest first.
fn less_memory(cache: &Cache, job: &Job, without: &Plan) -> Kind {
    let MemoryRequest::PerNode(asked) = job.spec.request.memory else { return Vec::new() };
    let shares = without.decisions.iter().flat_map(Decision::starts);
    let shares = shares.flat_map(|start| &start.placement.nodes);
    let started = by_node(shares.map(|share| (share.node, share.memory)));
    let others = without.promises.iter().filter(|promise| promise.job != job.id);
    let shares = others.flat_map(|promise| promise.nodes.iter().zip(&promise.shares));
    let promised = by_node(shares.map(|(node, share)| (*node, share.memory)));
    let of = |view: &NodeView| {
        let on = |sums: &BTreeMap<NodeId, u64>| sums.get(&view.node.id).copied().unwrap_or(0);
        let free = view.free_memory;
        let left = free.saturating_sub(on(&started));
        [free, left, left.saturating_sub(on(&promised))]
    };
    let free: BTreeSet<u64> =
        cache.world.views().iter().flat_map(of).filter(|free| *free > 0).collect();
    let largest = free.range(..asked.0).rev().take(ONE_BY_ONE_MAX);
    largest.map(|to| Change::Memory(Mib(*to))).collect()
}

fn smaller_gpu_memory(cache: &Cache, spec: &JobSpec) -> Kind {
    let Some(asked) = spec.request.gpu_memory else { return Vec::new() };
    let devices = cache.world.views().iter().flat_map(|v| v.node.devices.iter());
    let sizes: BTreeSet<Mib> = devices.map(|d| d.memory).filter(|size| *size < asked).collect();
    sizes.into_iter().rev().take(ONE_BY_ONE_MAX).map(Change::GpuMemory).collect()
}

fn other_partitions(state: &State, spec: &JobSpec) -> Kind {
    let others = state.partitions.values().filter(|p| {
        !spec.partitions.contains(&p.name) && p.state.takes_jobs() && p.state.starts_jobs()
    });
    others.map(|p| Change::Partition(p.name.clone())).collect()
}

/// Without one of its rules, each a kind of its own.
fn looser(spec: &JobSpec) -> Vec<Kind> {
    let request = &spec.request;
    let required = request.topology.required.clone();
    vec![
        only(request.constraint.is_some().then_some(Change::NoConstraint)),
        only((request.exclusive != Exclusive::No).then_some(Change::Shared)),
        only((!request.node_list.is_empty()).then_some(Change::NoNodeList)),
        only((!request.exclude.is_empty()).then_some(Change::NoExclude)),
        only(required.map(Change::TopologyPreferred)),
        only(request.reservation.is_some().then_some(Change::NoReservation)),
    ]
}

fn fewer_tasks(spec: &JobSpec) -> Kind {
    // Each node has a task at least.
    let least = spec.request.nodes.as_ref().map_or(1, NodeCount::least);
    let fewer = below(spec.request.tasks.unwrap_or(0)).into_iter();
    fewer.filter(|to| *to >= least).map(Change::Tasks).collect()
}

/// A part of a shared GPU in place of each whole one, the largest first.
fn shares(cache: &Cache, spec: &JobSpec) -> Kind {
    let request = &spec.request;
    let whole = request.wants_gpus() && request.gpu_share.is_none() && request.gpu_memory.is_none();
    let shared =
        |view: &NodeView| view.node.devices.iter().any(|d| matches!(d.mode, DeviceMode::Shared(_)));
    if !whole || !cache.world.views().iter().any(shared) {
        return Vec::new();
    }
    [750, 500, 250, 100].into_iter().map(Change::GpuShare).collect()
}

/// Other accounts and QOS, where a limit of its own holds it: nobody is told to change them only to
/// come first.
fn others_limits(state: &State, spec: &JobSpec, reasons: &[Reason]) -> Vec<Kind> {
    let mut kinds = Vec::new();
    if reasons.iter().any(|r| matches!(r, Reason::AssociationLimit(_))) {
        let others = state
            .accounts
            .values()
            .filter(|a| a.name != spec.account && a.admits(&spec.owner.user));
        let others = others.map(|a| Change::Account(a.name.clone()));
        kinds.push(others.take(ONE_BY_ONE_MAX).collect());
    }
    if reasons.iter().any(|r| matches!(r, Reason::QosLimit(_))) {
        let others = state.qos.keys().filter(|name| **name != spec.qos).cloned();
        kinds.push(others.map(Change::Qos).take(ONE_BY_ONE_MAX).collect());
    }
    kinds
}
