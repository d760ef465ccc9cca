//! The timeline packed again from zero: running jobs to their latest ends, starts and promised
//! starts for as long as they may take; at no instant is more taken than there is.

use crate::fit::{New, OVERDUE_MS};
use crate::layout::{fixed_gpus, own_cpus, required};
use crate::outlook::waits_again;
use crate::{Rule, Violation};
use muster_model::{
    CpuSet, Exclusive, GpuScope, Job, JobId, Node, NodeId, PreemptMode, Promise, PromisedShare,
    Request, State, TimeLimit, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

/// Something on a node for a stretch of time.
struct Stay {
    job: JobId,
    uid: u32,
    kind: Exclusive,
    from: Timestamp,
    to: Timestamp,
    /// CPUs by number, of what is promised.
    cpus: u32,
    /// CPUs of what has some already: several may take turns on one.
    cpu_set: CpuSet,
    memory: u64,
    /// Devices by index, of what has some already.
    devices: BTreeSet<u32>,
    /// Devices by number, of what is promised.
    gpus: u32,
    promised: bool,
}

/// A licence held by a job, from one instant to another: how many, and whether it is promised.
type Loan = (JobId, Timestamp, Timestamp, u32, bool);

/// Checks promises beside what runs and what starts. Promises without shares, or without a known
/// start, say too little to be packed and are passed over.
pub(crate) fn check(
    state: &State,
    now: Timestamp,
    new: &[New<'_>],
    promises: &[Promise],
    found: &mut Vec<Violation>,
) {
    let mut by_node: BTreeMap<NodeId, Vec<Stay>> = BTreeMap::new();
    let mut licences: BTreeMap<String, Vec<Loan>> = BTreeMap::new();
    for promise in promises.iter().filter(|p| is_packable(p)) {
        let Some(job) = state.jobs.get(&promise.job) else {
            let text = "a start is promised to a job that is not there";
            found.push(Violation::of(Rule::PromiseDelayed, promise.job, text));
            continue;
        };
        if let Some(why) = wrong(state, now, job, promise) {
            found.push(Violation::of(Rule::PromiseDelayed, promise.job, why));
            continue;
        }
        let limit = state.expected_run(job, limit_of(state, job, &promise.partition));
        let to = promise.start.plus_limit(limit);
        for (id, share) in promise.nodes.iter().zip(&promise.shares) {
            by_node.entry(*id).or_default().push(stay(job, promise.start, to, share));
        }
        for licence in &job.spec.request.licences {
            let stay = (job.id, promise.start, to, licence.count, true);
            licences.entry(licence.name.clone()).or_default().push(stay);
        }
    }
    for (id, stays) in &mut by_node {
        let Some(node) = state.nodes.get(id) else { continue };
        stays.extend(there(state, now, new, node));
        pack(node, stays, found);
    }
    for (name, stays) in &mut licences {
        stays.extend(holders(state, now, new, name));
        pack_licence(state, name, stays, found);
    }
}

/// When what is past its latest end counts as gone.
pub(crate) fn soon(now: Timestamp) -> Timestamp {
    Timestamp::from_millis(now.millis().saturating_add(OVERDUE_MS))
}

/// The limit that a job has once it starts in a partition.
pub(crate) fn limit_of(state: &State, job: &Job, partition: &str) -> TimeLimit {
    let limit = match waits_again(job) {
        Some(_) => job.spec.time_limit.unwrap_or(job.time_limit),
        None => job.time_limit,
    };
    let most = state.partitions.get(partition).and_then(|p| p.max_time.seconds());
    match (most, limit) {
        // It is cut down to what the partition gives, where that is enough for it.
        (Some(most), TimeLimit::Of(asked)) if job.spec.time_min.is_some() => {
            TimeLimit::Of(asked.min(most))
        }
        (Some(most), TimeLimit::Unlimited) if job.spec.time_min.is_some() => TimeLimit::Of(most),
        _ => limit,
    }
}

fn is_packable(promise: &Promise) -> bool {
    promise.start != Timestamp::NEVER
        && !promise.nodes.is_empty()
        && promise.shares.len() == promise.nodes.len()
}

fn stay(job: &Job, from: Timestamp, to: Timestamp, share: &PromisedShare) -> Stay {
    Stay {
        job: job.id,
        uid: job.spec.owner.uid,
        kind: job.spec.request.exclusive,
        from,
        to,
        cpus: share.cpus,
        cpu_set: CpuSet::new(),
        memory: share.memory.0,
        devices: BTreeSet::new(),
        gpus: share.gpus,
        promised: true,
    }
}

/// What is wrong with one promise by itself.
fn wrong(state: &State, now: Timestamp, job: &Job, promise: &Promise) -> Option<String> {
    let request = &job.spec.request;
    let waits = job.is_pending() || waits_again(job).is_some_and(|then| then <= promise.start);
    if !waits || promise.start < now {
        return Some("its promised start is past, or it does not wait".to_owned());
    }
    let Some(partition) = state.partitions.get(&promise.partition) else {
        return Some(format!("there is no partition {}", promise.partition));
    };
    if !job.spec.partitions.contains(&promise.partition) {
        return Some(format!("it does not name partition {}", promise.partition));
    }
    let nodes: Option<Vec<_>> = promise.nodes.iter().map(|id| state.nodes.get(id)).collect();
    let Some(nodes) = nodes else { return Some("a promised node is not there".to_owned()) };
    let count = nodes.len() as u32;
    let distinct: BTreeSet<&NodeId> = promise.nodes.iter().collect();
    if distinct.len() != nodes.len() || request.nodes.as_ref().is_some_and(|n| !n.allows(count)) {
        return Some(format!("{count} promised nodes are not what it asks for"));
    }
    for (node, share) in nodes.iter().zip(&promise.shares) {
        if !node.is_usable() || !partition.nodes.contains(&node.name) {
            return Some(format!("node {} is not to be had in its partition", node.name));
        }
        let in_parts = share.gpus == 0 && may_be_in_parts(request);
        let (cpus, memory) = required(request, partition, node, share.tasks, share.gpus);
        if !in_parts && (share.cpus != cpus || share.memory.0 != memory) {
            return Some(format!("what is promised on node {} is not what it needs", node.name));
        }
        let fixed = crate::total(fixed_gpus(request, node, share.tasks).into_values());
        if !in_parts && share.gpus < fixed {
            return Some(format!("too few GPUs are promised on node {}", node.name));
        }
    }
    let tasks = crate::total(promise.shares.iter().map(|s| s.tasks));
    if tasks != request.tasks_on(count) && request.tasks_per_gpu.is_none() {
        return Some(format!("{tasks} tasks are promised room"));
    }
    let of_job = request.gpus.iter().filter(|g| g.scope == GpuScope::Job).map(|g| g.count);
    let gpus = crate::total(promise.shares.iter().map(|s| s.gpus));
    (gpus > 0 && gpus < crate::total(of_job)).then(|| format!("only {gpus} GPUs are promised"))
}

/// True where its GPUs need not be whole ones: then only the exact rules can tell.
fn may_be_in_parts(request: &Request) -> bool {
    let profile = |model: &String| muster_model::mig::split_type(model).1.is_some();
    request.gpu_share.is_some()
        || request.gpu_memory.is_some()
        || request.gpus.iter().filter_map(|g| g.model.as_ref()).any(profile)
}

/// What is on a node already, or starts there with the plan.
fn there(state: &State, now: Timestamp, new: &[New<'_>], node: &Node) -> Vec<Stay> {
    let soon = soon(now);
    let running = state.index.on_node.get(&node.id).into_iter().flatten();
    let running = running.filter_map(|id| state.jobs.get(id)).filter_map(|job| {
        Some((job.as_ref(), job.placement.as_deref()?, state.expected_end(job, now)?.max(soon)))
    });
    let starting = new.iter().map(|n| (n.job, n.placement, n.end));
    let all = running.chain(starting).flat_map(|(job, placement, to)| {
        placement.nodes.iter().filter(|s| s.node == node.id).map(move |share| Stay {
            job: job.id,
            uid: job.spec.owner.uid,
            kind: if share.exclusive { Exclusive::Node } else { job.spec.request.exclusive },
            from: now,
            to,
            cpus: share.cpu_pool,
            // Who stands still for others has no CPUs while they run; those of a pool are not lent.
            cpu_set: match job.lends || job.makes_way_by(PreemptMode::Suspend) {
                true => CpuSet::new(),
                false => share.cpus.iter().filter(|cpu| is_own(node, *cpu)).collect(),
            },
            memory: share.memory.0,
            devices: share
                .devices
                .iter()
                .map(|d| d.index)
                .filter(|i| node.device_is_usable(*i))
                .collect(),
            gpus: 0,
            promised: false,
        })
    });
    all.collect()
}

fn is_own(node: &Node, cpu: u32) -> bool {
    node.cpus.contains(cpu) && !node.foreign.iter().any(|f| f.cpus.contains(cpu))
}

/// Walks the instants at which something begins, and counts what is there then.
fn pack(node: &Node, stays: &[Stay], found: &mut Vec<Violation>) {
    let foreign: u64 = node.foreign.iter().filter(|f| f.device.is_none()).map(|f| f.memory.0).sum();
    let own = (own_cpus(node), node.memory.0.saturating_sub(foreign));
    let usable = |index: &u32| node.device_is_usable(*index);
    let devices = (0..node.devices.len() as u32).filter(usable).count();
    let mut order: Vec<&Stay> = stays.iter().collect();
    order.sort_by_key(|s| (s.from, s.promised, s.job));
    let mut open: Vec<&Stay> = Vec::new();
    for stay in order {
        open.retain(|o| o.to > stay.from || o.to == Timestamp::NEVER);
        open.push(stay);
        if !stay.promised {
            continue;
        }
        let mut held = CpuSet::new();
        for one in &open {
            held.add_all(&one.cpu_set);
        }
        let cpus = crate::total(open.iter().map(|o| o.cpus)).saturating_add(held.len());
        let memory = open.iter().fold(0u64, |sum, o| sum.saturating_add(o.memory));
        let busy: BTreeSet<u32> = open.iter().flat_map(|o| o.devices.iter().copied()).collect();
        let gpus = crate::total(open.iter().map(|o| o.gpus)) as usize + busy.len();
        // What others have beyond what there is takes nothing from one that wants none of it.
        let short = if cpus > own.0 && stay.cpus > 0 {
            Some(format!("{cpus} CPUs of {}", own.0))
        } else if memory > own.1 && stay.memory > 0 {
            Some(format!("{memory} MiB of {}", own.1))
        } else if gpus > devices && stay.gpus > 0 {
            Some(format!("{gpus} GPUs of {devices}"))
        } else {
            open.iter()
                .find(|o| o.job != stay.job && !tolerate(o, stay))
                .map(|o| format!("job {} and job {}, of which one wants it alone", o.job, stay.job))
        };
        if let Some(short) = short {
            let at = stay.from;
            let detail = format!("at {at} node {} would have {short}", node.name);
            found.push(Violation {
                rule: Rule::PromiseDelayed,
                jobs: vec![stay.job],
                node: Some(node.id),
                detail,
            });
        }
    }
}

fn tolerate(a: &Stay, b: &Stay) -> bool {
    match (a.kind, b.kind) {
        (Exclusive::Node, _) | (_, Exclusive::Node) => false,
        (Exclusive::User, _) | (_, Exclusive::User) => a.uid == b.uid,
        _ => true,
    }
}

fn holders(state: &State, now: Timestamp, new: &[New<'_>], name: &str) -> Vec<Loan> {
    let soon = soon(now);
    let active = state.index.active.iter().filter_map(|id| state.jobs.get(id));
    let running = active.filter_map(|job| {
        let count = *job.placement.as_ref()?.licences.get(name)?;
        Some((job.id, now, state.expected_end(job, now)?.max(soon), count, false))
    });
    let starting = new
        .iter()
        .filter_map(|n| Some((n.job.id, now, n.end, *n.placement.licences.get(name)?, false)));
    running.chain(starting).collect()
}

fn pack_licence(state: &State, name: &str, stays: &mut [Loan], found: &mut Vec<Violation>) {
    let total = state.licences.get(name).map_or(0, |l| l.total);
    stays.sort_by_key(|s| (s.1, s.4, s.0));
    let mut open: Vec<(Timestamp, u32)> = Vec::new();
    for (job, from, to, count, promised) in stays.iter() {
        open.retain(|o| o.0 > *from || o.0 == Timestamp::NEVER);
        open.push((*to, *count));
        let taken = crate::total(open.iter().map(|o| o.1));
        if *promised && taken > total {
            let detail = format!("at {from} {taken} of {total} licences {name} would be taken");
            found.push(Violation::of(Rule::PromiseDelayed, *job, detail));
        }
    }
}
