//! Changes to a request that would start the job now, each tried by planning with it.

use crate::ask::Ask;
use crate::cache::Cache;
use crate::free::Span;
use crate::gang::{Cursor, place_with_cursor};
use crate::queue::asks;
use crate::round::{Budget, plan};
use muster_model::{
    Decision, DeviceMilli, DeviceMode, Event, EventKind, GpuScope, GpuShare, Job, JobId, JobSpec,
    JobUpdate, MemoryRequest, Mib, NodeCount, Plan, Reason, Seconds, State, TimeLimit, Timestamp,
    Work,
};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// At most so many changes are tried for one job.
const TRIES_MAX: usize = 48;

/// Up to so many changes of a kind are tried one by one; of more the smallest is searched by halves.
const ONE_BY_ONE_MAX: usize = 8;

/// Up to so large a number, each smaller one may be suggested.
const EACH_MAX: u32 = 512;

/// A change that starts the job now, and what it costs others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// What to ask for instead.
    pub change: Change,
    /// Jobs that would start now without the change and would not with it.
    pub displaces: Vec<JobId>,
    /// The reservation before which a smaller time limit lets it end.
    pub before: Option<String>,
}

/// A change to one part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A smaller time limit (`--time`).
    TimeLimit(Seconds),
    /// So many GPUs in place of the count asked for.
    Gpus {
        /// The model named, where one is.
        model: Option<String>,
        /// As asked.
        from: u32,
        /// As it would start.
        to: u32,
        /// Counted over what.
        scope: GpuScope,
    },
    /// GPUs of another model, or of any (`None`).
    GpuModel {
        /// The model asked for.
        from: String,
        /// The model that would do.
        to: Option<String>,
        /// How many of them.
        count: u32,
        /// Counted over what.
        scope: GpuScope,
    },
    /// Less memory on each GPU.
    GpuMemory(Mib),
    /// So many nodes.
    Nodes(u32),
    /// So many CPUs a task.
    CpusPerTask(u32),
    /// So much memory on each node.
    Memory(Mib),
    /// Another partition.
    Partition(String),
    /// Without the feature expression.
    NoConstraint,
    /// Without the list of nodes that it has to have.
    NoNodeList,
    /// Shared nodes in place of nodes for itself.
    Shared,
    /// Without the list of nodes that it does not want.
    NoExclude,
    /// So many tasks.
    Tasks(u32),
    /// So many thousandths of each GPU, of one that is shared, in place of whole GPUs.
    GpuShare(u32),
    /// This level of the topology preferred in place of required.
    TopologyPreferred(String),
    /// In no reservation.
    NoReservation,
    /// Another account that its user may charge to.
    Account(String),
    /// Another quality of service.
    Qos(String),
}

impl Change {
    /// The change as an option of sbatch.
    pub fn option(&self) -> String {
        match self {
            Self::TimeLimit(limit) => format!("--time={}", limit.0 / 60),
            Self::Gpus { model: Some(model), to, scope, .. } => {
                format!("{}={model}:{to}", gpu_option(*scope))
            }
            Self::Gpus { model: None, to, scope, .. } => format!("{}={to}", gpu_option(*scope)),
            Self::GpuModel { to: Some(to), count, scope, .. } => {
                format!("{}={to}:{count}", gpu_option(*scope))
            }
            Self::GpuModel { to: None, count, scope, .. } => {
                format!("{}={count}", gpu_option(*scope))
            }
            Self::GpuMemory(memory) => format!("#MUSTER --gpu-memory={memory}"),
            Self::Nodes(nodes) => format!("--nodes={nodes}"),
            Self::CpusPerTask(cpus) => format!("--cpus-per-task={cpus}"),
            Self::Memory(memory) => format!("--mem={memory}"),
            Self::Partition(name) => format!("--partition={name}"),
            Self::NoConstraint => "without --constraint".to_owned(),
            Self::NoNodeList => "--nodelist=".to_owned(),
            Self::Shared => "without --exclusive".to_owned(),
            Self::NoExclude => "--exclude=".to_owned(),
            Self::Tasks(tasks) => format!("--ntasks={tasks}"),
            Self::GpuShare(milli) => format!("#MUSTER --gpu-share={}%", milli / 10),
            Self::TopologyPreferred(level) => format!("#MUSTER --topology=preferred:{level}"),
            Self::NoReservation => "--reservation=".to_owned(),
            Self::Account(name) => format!("--account={name}"),
            Self::Qos(name) => format!("--qos={name}"),
        }
    }
}

/// The option that counts GPUs over this scope.
const fn gpu_option(scope: GpuScope) -> &'static str {
    match scope {
        GpuScope::Job => "--gpus",
        GpuScope::Node => "--gpus-per-node",
        GpuScope::Task => "--gpus-per-task",
        GpuScope::Socket => "--gpus-per-socket",
    }
}

impl fmt::Display for Suggestion {
    /// One sentence, lower case, no full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.change {
            Change::TimeLimit(limit) if self.before.is_some() => {
                let (hours, minutes) = (limit.0 / 3600, limit.0 / 60 % 60);
                let name = self.before.as_deref().unwrap_or_default();
                write!(
                    f,
                    "with a time limit of {hours}:{minutes:02}:00 it would end before reservation \
                     {name} and start now"
                )
            }
            Change::TimeLimit(limit) => {
                write!(f, "with a time limit of {} minutes it would start now", limit.0 / 60)
            }
            Change::Gpus { from, to, .. } => {
                write!(f, "with {to} GPUs in place of {from} it would start now")
            }
            Change::GpuModel { from, to: Some(to), .. } => {
                write!(f, "with {to} GPUs in place of {from} it would start now")
            }
            Change::GpuModel { from, to: None, .. } => {
                write!(f, "with any GPU in place of {from} it would start now")
            }
            Change::GpuMemory(memory) => {
                write!(f, "with {memory} on each GPU it would start now")
            }
            Change::Nodes(1) => f.write_str("with 1 node it would start now"),
            Change::Nodes(nodes) => write!(f, "with {nodes} nodes it would start now"),
            Change::CpusPerTask(cpus) => {
                write!(f, "with {cpus} CPUs a task it would start now")
            }
            Change::Memory(memory) => write!(f, "with {memory} of memory it would start now"),
            Change::Partition(name) => write!(f, "in partition {name} it would start now"),
            Change::NoConstraint => f.write_str("without its constraint it would start now"),
            Change::NoNodeList => f.write_str("without its node list it would start now"),
            Change::Shared => f.write_str("on shared nodes it would start now"),
            Change::NoExclude => f.write_str("with every node allowed it would start now"),
            Change::Tasks(1) => f.write_str("with 1 task it would start now"),
            Change::Tasks(tasks) => write!(f, "with {tasks} tasks it would start now"),
            Change::GpuShare(milli) => {
                write!(f, "with {}% of a shared GPU each it would start now", milli / 10)
            }
            Change::TopologyPreferred(level) => {
                write!(f, "with {level} preferred in place of required it would start now")
            }
            Change::NoReservation => f.write_str("outside its reservation it would start now"),
            Change::Account(name) => write!(f, "charged to account {name} it would start now"),
            Change::Qos(name) => write!(f, "in QOS {name} it would start now"),
        }
    }
}

/// The smallest change of each kind that starts the job now.
pub(crate) fn suggestions(
    cache: &mut Cache,
    state: &State,
    job: &Arc<Job>,
    now: Timestamp,
    without: &Plan,
    reasons: &[Reason],
) -> Vec<Suggestion> {
    if job.het.is_some() || job.eligible.is_none_or(|at| at > now) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut tries = 0;
    let order = cache.world.order_now(state.policy.nodes);
    let mut helps = |cache: &mut Cache, spec: &JobSpec| {
        tries += 1;
        let may = tries <= TRIES_MAX;
        may.then(|| helps(cache, state, job, now, spec.clone(), &order, without)).flatten()
    };
    let mut kinds = candidates(cache, state, job, now, without);
    kinds.extend(others_limits(state, &job.spec, reasons));
    for kind in kinds {
        found.extend(smallest(kind, |spec| helps(cache, spec)));
    }
    for suggestion in &mut found {
        suggestion.before = reservation_after(state, now, &suggestion.change);
    }
    // The cache follows the true state again.
    cache.follow(state, now);
    found
}

/// The smallest change that helps, of changes in ascending size.
///
/// Of many, where one helps the larger ones are taken to help too.
fn smallest(
    changes: Changes,
    mut helps: impl FnMut(&JobSpec) -> Option<Vec<JobId>>,
) -> Option<Suggestion> {
    if changes.len() <= ONE_BY_ONE_MAX {
        return changes.into_iter().find_map(|(change, spec)| {
            helps(&spec).map(|displaces| Suggestion { change, displaces, before: None })
        });
    }
    let (mut low, mut high) = (0, changes.len());
    let mut best = None;
    while low < high {
        let middle = low + (high - low) / 2;
        let (change, spec) = &changes[middle];
        if let Some(displaces) = helps(spec) {
            best = Some(Suggestion { change: change.clone(), displaces, before: None });
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    best
}

fn started(plan: &Plan) -> BTreeSet<JobId> {
    let starts = plan.decisions.iter().filter_map(|d| match d {
        Decision::Start(starts) => Some(starts),
        _ => None,
    });
    starts.flatten().map(|s| s.job).collect()
}

/// Plans with the changed spec on a forked state: the jobs displaced, where the job starts.
fn helps(
    cache: &mut Cache,
    state: &State,
    job: &Arc<Job>,
    now: Timestamp,
    spec: JobSpec,
    order: &[usize],
    without: &Plan,
) -> Option<Vec<JobId>> {
    let mut fork = state.clone();
    let update = JobUpdate { spec: Some(Arc::new(spec)), ..JobUpdate::default() };
    let kind = EventKind::JobUpdated { job: job.id, update: Box::new(update) };
    fork.apply(&Event { at: now, kind }).ok()?;
    // What does not even fit beside the running jobs need not be planned.
    let fits = |ask: &Ask| {
        let span = Span::of(now, now, ask.limit);
        let (mut cursor, mut work) = (Cursor::default(), Work::default());
        let world = &cache.world;
        place_with_cursor(world, ask, span, order, &mut cursor, &mut work).is_some()
    };
    if !asks(&fork, fork.jobs.get(&job.id)?, now).iter().any(fits) {
        return None;
    }
    let with = started(&plan(cache, &fork, now, Budget::UNLIMITED).plan);
    let displaced = started(without).difference(&with).copied().collect();
    with.contains(&job.id).then_some(displaced)
}

type Changes = Vec<(Change, JobSpec)>;

fn candidates(
    cache: &Cache,
    state: &State,
    job: &Arc<Job>,
    now: Timestamp,
    without: &Plan,
) -> Vec<Changes> {
    let spec = job.spec.as_ref();
    let mut kinds = vec![shorter(state, job, now, without)];
    kinds.extend(fewer_gpus(spec));
    kinds.extend([
        other_models(cache, spec),
        fewer_nodes(spec),
        fewer_cpus(spec),
        less_memory(cache, spec),
        smaller_gpu_memory(cache, spec),
        other_partitions(state, spec),
        looser(spec),
        without_node_list(spec),
        without_exclude(spec),
        fewer_tasks(spec),
        shares(cache, spec),
        topology_preferred(spec),
        without_reservation(spec),
    ]);
    kinds
}

/// The partition's limit, and limits that end where a promise begins.
fn shorter(state: &State, job: &Job, now: Timestamp, without: &Plan) -> Changes {
    let asked = crate::reasons::limit_seconds(job.time_limit);
    let partitions = job.spec.partitions.iter().filter_map(|name| state.partitions.get(name));
    let bounds = partitions.map(|p| crate::reasons::limit_seconds(p.max_time));
    let gaps = without
        .promises
        .iter()
        .filter(|p| p.job != job.id && p.start != Timestamp::NEVER)
        .map(|p| p.start.since(now).0 / 60 * 60);
    let reserved = state.reservations.values().map(|r| match r.float {
        Some(away) => away.0,
        None if r.window.start > now => r.window.start.since(now).0,
        None => r.window.end.since(now).0,
    });
    let gaps = gaps.chain(reserved.map(|s| s / 60 * 60));
    let limits: BTreeSet<u64> = bounds.chain(gaps).filter(|s| *s >= 60 && *s < asked).collect();
    let with = |s: u64| {
        let mut spec = job.spec.as_ref().clone();
        spec.time_limit = Some(TimeLimit::Of(Seconds(s)));
        spec.time_min = spec.time_min.map(|least| least.min(Seconds(s)));
        (Change::TimeLimit(Seconds(s)), spec)
    };
    limits.into_iter().rev().map(with).collect()
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
fn fewer_gpus(spec: &JobSpec) -> Vec<Changes> {
    let fewer = |(at, gpus): (usize, &muster_model::GpuCount)| {
        let with = |to: u32| {
            let mut changed = spec.clone();
            changed.request.gpus[at].count = to;
            let (model, from, scope) = (gpus.model.clone(), gpus.count, gpus.scope);
            (Change::Gpus { model, from, to, scope }, changed)
        };
        below(gpus.count).into_iter().map(with).collect()
    };
    spec.request.gpus.iter().enumerate().filter(|(_, g)| alone(spec, g)).map(fewer).collect()
}

fn other_models(cache: &Cache, spec: &JobSpec) -> Changes {
    let mut changes = Vec::new();
    let known: BTreeSet<&String> =
        cache.world.views().iter().flat_map(|v| v.models.iter().map(|m| &m.0)).collect();
    for (at, gpus) in spec.request.gpus.iter().enumerate().filter(|(_, g)| alone(spec, g)) {
        let Some(from) = &gpus.model else { continue };
        let others = known.iter().filter(|m| !m.eq_ignore_ascii_case(from));
        for to in others.map(|m| Some((*m).clone())).chain(std::iter::once(None)) {
            let mut changed = spec.clone();
            changed.request.gpus[at].model.clone_from(&to);
            let (from, count, scope) = (from.clone(), gpus.count, gpus.scope);
            changes.push((Change::GpuModel { from, to, count, scope }, changed));
        }
    }
    changes
}

fn fewer_nodes(spec: &JobSpec) -> Changes {
    let Some(nodes) = &spec.request.nodes else { return Vec::new() };
    let with = |to: u32| {
        let mut changed = spec.clone();
        changed.request.nodes = Some(NodeCount::exactly(to));
        (Change::Nodes(to), changed)
    };
    below(nodes.least()).into_iter().map(with).collect()
}

fn fewer_cpus(spec: &JobSpec) -> Changes {
    let with = |to: u32| {
        let mut changed = spec.clone();
        changed.request.cpus_per_task = Some(to);
        (Change::CpusPerTask(to), changed)
    };
    below(spec.request.cpus_per_task()).into_iter().map(with).collect()
}

/// As much as some node has free now, the largest first.
fn less_memory(cache: &Cache, spec: &JobSpec) -> Changes {
    let MemoryRequest::PerNode(asked) = spec.request.memory else { return Vec::new() };
    let free: BTreeSet<u64> =
        cache.world.views().iter().map(|v| v.free_memory).filter(|m| *m > 0).collect();
    let with = |to: u64| {
        let mut changed = spec.clone();
        changed.request.memory = MemoryRequest::PerNode(Mib(to));
        (Change::Memory(Mib(to)), changed)
    };
    free.range(..asked.0).rev().take(4).copied().map(with).collect()
}

fn smaller_gpu_memory(cache: &Cache, spec: &JobSpec) -> Changes {
    let Some(asked) = spec.request.gpu_memory else { return Vec::new() };
    let sizes: BTreeSet<Mib> = cache
        .world
        .views()
        .iter()
        .flat_map(|v| v.node.devices.iter().map(|d| d.memory))
        .filter(|size| *size < asked)
        .collect();
    let with = |to: Mib| {
        let mut changed = spec.clone();
        changed.request.gpu_memory = Some(to);
        (Change::GpuMemory(to), changed)
    };
    sizes.into_iter().rev().take(4).map(with).collect()
}

fn other_partitions(state: &State, spec: &JobSpec) -> Changes {
    let others = state.partitions.values().filter(|p| {
        !spec.partitions.contains(&p.name) && p.state.takes_jobs() && p.state.starts_jobs()
    });
    let with = |name: &String| {
        let mut changed = spec.clone();
        changed.partitions = vec![name.clone()];
        (Change::Partition(name.clone()), changed)
    };
    others.map(|p| with(&p.name)).collect()
}

fn looser(spec: &JobSpec) -> Changes {
    let mut changes = Vec::new();
    if spec.request.constraint.is_some() {
        let mut changed = spec.clone();
        changed.request.constraint = None;
        changes.push((Change::NoConstraint, changed));
    }
    if spec.request.exclusive != muster_model::Exclusive::No {
        let mut changed = spec.clone();
        changed.request.exclusive = muster_model::Exclusive::No;
        changes.push((Change::Shared, changed));
    }
    changes
}

fn without_node_list(spec: &JobSpec) -> Changes {
    if spec.request.node_list.is_empty() {
        return Vec::new();
    }
    let mut changed = spec.clone();
    changed.request.node_list.clear();
    vec![(Change::NoNodeList, changed)]
}

/// The reservation that begins within the minute in which a limit would end.
fn reservation_after(state: &State, now: Timestamp, change: &Change) -> Option<String> {
    let Change::TimeLimit(limit) = change else { return None };
    let begins = |r: &&std::sync::Arc<muster_model::Reservation>| {
        r.float.is_none()
            && r.window.start > now
            && r.window.start.since(now).0 / 60 == limit.0 / 60
    };
    state.reservations.values().find(begins).map(|r| r.name.clone())
}

fn without_exclude(spec: &JobSpec) -> Changes {
    if spec.request.exclude.is_empty() {
        return Vec::new();
    }
    let mut changed = spec.clone();
    changed.request.exclude.clear();
    vec![(Change::NoExclude, changed)]
}

fn fewer_tasks(spec: &JobSpec) -> Changes {
    let Some(tasks) = spec.request.tasks else { return Vec::new() };
    let with = |to: u32| {
        let mut changed = spec.clone();
        changed.request.tasks = Some(to);
        (Change::Tasks(to), changed)
    };
    // Each node has a task at least.
    let least = spec.request.nodes.as_ref().map_or(1, NodeCount::least);
    below(tasks).into_iter().filter(|to| *to >= least).map(with).collect()
}

/// A part of a shared GPU in place of each whole one, the largest first.
fn shares(cache: &Cache, spec: &JobSpec) -> Changes {
    let request = &spec.request;
    let whole = request.wants_gpus() && request.gpu_share.is_none() && request.gpu_memory.is_none();
    let shared = |view: &crate::free::NodeView| {
        view.node.devices.iter().any(|d| matches!(d.mode, DeviceMode::Shared(_)))
    };
    if !whole || !cache.world.views().iter().any(shared) {
        return Vec::new();
    }
    let with = |milli: u32| {
        let mut changed = spec.clone();
        changed.request.gpu_share = Some(GpuShare::Milli(DeviceMilli(milli)));
        (Change::GpuShare(milli), changed)
    };
    [750, 500, 250, 100].into_iter().map(with).collect()
}

fn topology_preferred(spec: &JobSpec) -> Changes {
    let Some(level) = spec.request.topology.required.clone() else { return Vec::new() };
    let mut changed = spec.clone();
    changed.request.topology.required = None;
    changed.request.topology.preferred = Some(level.clone());
    vec![(Change::TopologyPreferred(level), changed)]
}

fn without_reservation(spec: &JobSpec) -> Changes {
    if spec.request.reservation.is_none() {
        return Vec::new();
    }
    let mut changed = spec.clone();
    changed.request.reservation = None;
    vec![(Change::NoReservation, changed)]
}

/// Other accounts and QOS, where a limit of its own holds it: nobody is told to change them only to
/// come first.
fn others_limits(state: &State, spec: &JobSpec, reasons: &[Reason]) -> Vec<Changes> {
    let account = |name: &String| {
        let changed = JobSpec { account: name.clone(), ..spec.clone() };
        (Change::Account(name.clone()), changed)
    };
    let qos = |name: &String| {
        let changed = JobSpec { qos: name.clone(), ..spec.clone() };
        (Change::Qos(name.clone()), changed)
    };
    let mut kinds = Vec::new();
    if reasons.iter().any(|r| matches!(r, Reason::AssociationLimit(_))) {
        let others = state
            .accounts
            .values()
            .filter(|a| a.name != spec.account && a.admits(&spec.owner.user));
        kinds.push(others.map(|a| account(&a.name)).take(ONE_BY_ONE_MAX).collect());
    }
    if reasons.iter().any(|r| matches!(r, Reason::QosLimit(_))) {
        let others = state.qos.keys().filter(|name| **name != spec.qos);
        kinds.push(others.map(qos).take(ONE_BY_ONE_MAX).collect());
    }
    kinds
}
