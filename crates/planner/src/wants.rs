//! What a request says in one partition, made ready once for all jobs that say the same.
//!
//! The rules are those of `muster_model::request`; here they become "so many tasks and so many GPUs
//! on this node need that much of it".

use crate::alternatives::{Alternative, alternatives};
use crate::free::{Avail, DeviceMask, NodeView, bit, bits};
use crate::shared::SharedRequest;
use muster_model::mig::split_type;
use muster_model::{
    Affinity, DevicePolicy, DeviceWish, Exclusive, GpuScope, MemoryRequest, NodeCount, Partition,
    Request,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// How the tasks of a node are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tasks {
    /// So many on all nodes together.
    Total(u32),
    /// So many on each node.
    Each(u32),
    /// So many for each GPU of the node.
    PerGpu(u32),
}

/// GPUs of one model (`None` is any).
pub(crate) type Wanted = (Option<String>, u32);

/// What a request says in one partition.
#[derive(Clone, Debug)]
pub(crate) struct Wants {
    pub(crate) request: SharedRequest,
    pub(crate) partition: Arc<Partition>,
    pub(crate) tasks: Tasks,
    /// GPUs over the whole job.
    pub(crate) job_gpus: Vec<Wanted>,
    pub(crate) node_gpus: Vec<Wanted>,
    pub(crate) task_gpus: Vec<Wanted>,
    pub(crate) socket_gpus: Vec<Wanted>,
    pub(crate) alternatives: Vec<Alternative>,
    pub(crate) licences: BTreeMap<String, u32>,
    /// What of each GPU it asks for.
    pub(crate) wish: DeviceWish,
    /// The shares that fragmentation is measured against.
    pub(crate) typical: Vec<(u32, u32)>,
    /// Whole GPUs and nothing else.
    plain: bool,
    /// For a part of the job: one task, and one GPU of a total.
    pub(crate) part_floor: Floor,
    /// For the whole job on one node.
    pub(crate) whole_floor: Floor,
    /// What every node has to give, where that is the same for all; who is alone on a node needs all
    /// its CPUs.
    steady: Option<Need>,
    /// Nothing is asked of a node for good: each that is up and has no taints will do.
    easy: bool,
    /// Tells it from others of its catalogue.
    pub(crate) number: Option<u64>,
    /// Nothing but these amounts decides whether a node that nobody has a claim on takes its part.
    simple: bool,
    /// Its level in the planner's world, once asked for.
    pub(crate) level: OnceLock<usize>,
}

/// The least that any node has to have: what a look at three numbers can rule out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Floor {
    pub(crate) cpus: u32,
    pub(crate) gpus: u32,
    pub(crate) memory: u64,
}

/// What a node has to give.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    pub(crate) gpus: Vec<Wanted>,
    /// On each of so many sockets of the node.
    pub(crate) socket_gpus: Vec<Wanted>,
    pub(crate) sockets: u32,
}

impl Need {
    /// GPUs in all.
    pub(crate) fn gpu_total(&self) -> u32 {
        let sum = |wanted: &[Wanted]| wanted.iter().fold(0u32, |n, w| n.saturating_add(w.1));
        sum(&self.gpus).saturating_add(sum(&self.socket_gpus).saturating_mul(self.sockets))
    }
}

impl Wants {
    pub(crate) fn new(
        request: &SharedRequest,
        partition: &Arc<Partition>,
        policy: &DevicePolicy,
    ) -> Self {
        let of = |scope: GpuScope| -> Vec<Wanted> {
            request
                .gpus
                .iter()
                .filter(|g| g.scope == scope && g.count > 0)
                .map(|g| (g.model.as_ref().map(|m| m.to_ascii_lowercase()), g.count))
                .collect()
        };
        let mut licences: BTreeMap<String, u32> = BTreeMap::new();
        for licence in &request.licences {
            let sum = licences.entry(licence.name.clone()).or_default();
            *sum = sum.saturating_add(licence.count);
        }
        let mut wants = Self {
            request: request.clone(),
            partition: Arc::clone(partition),
            tasks: tasks_of(request),
            job_gpus: of(GpuScope::Job),
            node_gpus: of(GpuScope::Node),
            task_gpus: of(GpuScope::Task),
            socket_gpus: of(GpuScope::Socket),
            alternatives: alternatives(request.constraint.as_ref(), nodes_at_most(request)),
            licences,
            wish: request.device_wish(policy),
            typical: policy.typical_shares.clone(),
            plain: false,
            part_floor: Floor::default(),
            whole_floor: Floor::default(),
            steady: None,
            easy: false,
            number: None,
            simple: false,
            level: OnceLock::new(),
        };
        let profiles = |model: &&str| split_type(model).1.is_some();
        wants.plain = wants.wish == DeviceWish::Whole && !wants.models().iter().any(profiles);
        wants.part_floor = wants.floor(1, &wants.least_gpus());
        let whole: Vec<u32> = wants.job_gpus.iter().map(|g| g.1).collect();
        let tasks = if let Tasks::Total(all) = wants.tasks { all } else { 1 };
        wants.whole_floor = wants.floor(tasks, &whole);
        wants.steady = wants.steady_need();
        wants.easy = wants.asks_nothing_for_good();
        wants.simple = wants.is_simple();
        wants
    }

    fn is_simple(&self) -> bool {
        let request = &self.request;
        let any_model = |need: &Need| need.gpus.iter().all(|g| g.0.is_none());
        self.plain
            && self.steady.as_ref().is_some_and(any_model)
            && request.exclusive == Exclusive::No
            && request.gpu_memory.is_none()
            && self.easy
            && request.gres.is_empty()
            && request.constraint.is_none()
            && request.node_list.is_empty()
            && request.tasks_per_socket.is_none()
            && request.tasks_per_core.is_none()
    }

    fn asks_nothing_for_good(&self) -> bool {
        let request = &self.request;
        !request.cpus_near_gpus
            && self.affinity().is_none()
            && request.exclude.is_empty()
            && request.scratch.0 == 0
            && request.sockets_per_node.is_none()
    }

    /// True where each node that is up and has no taints will do for good.
    pub(crate) fn is_easy(&self) -> bool {
        self.easy
    }

    /// What every node has to give, where only who is alone on it needs more: all its CPUs
    /// ([`Self::cpus_on`]); and where whole GPUs are only counted.
    pub(crate) fn counted_need(&self) -> Option<&Need> {
        self.steady.as_ref().filter(|_| self.plain && !self.request.cpus_near_gpus)
    }

    /// The CPUs of a steady need on a node.
    pub(crate) fn cpus_on(&self, view: &NodeView, need: &Need) -> u32 {
        match self.request.exclusive {
            Exclusive::Node => need.cpus.max(view.base_cpu_count),
            _ => need.cpus,
        }
    }

    /// What a node has to give where that is all that is asked of it.
    pub(crate) fn simple_need(&self) -> Option<&Need> {
        self.steady.as_ref().filter(|_| self.simple)
    }

    /// How many tasks run on each of its nodes, where that is fixed.
    pub(crate) fn tasks_each(&self) -> u32 {
        self.tasks_with(1, &[])
    }

    /// What every node has to give, where neither the node nor how the job is laid out matters.
    fn steady_need(&self) -> Option<Need> {
        let (Tasks::Each(tasks) | Tasks::Total(tasks @ 1)) = self.tasks else { return None };
        if !self.job_gpus.is_empty() || !self.socket_gpus.is_empty() {
            return None;
        }
        let mut gpus = self.fixed_gpus(tasks);
        gpus.retain(|g| g.1 > 0);
        let mut need = Need { cpus: 0, memory: 0, gpus, socket_gpus: Vec::new(), sockets: 1 };
        let gpus = need.gpu_total();
        (need.cpus, need.memory) = self.fixed_amounts(self.plain_cpus(tasks, gpus), gpus)?;
        Some(need)
    }

    /// The CPUs of so many tasks and GPUs, before any rule about memory.
    fn plain_cpus(&self, tasks: u32, gpus: u32) -> u32 {
        let request = &self.request;
        tasks
            .saturating_mul(request.cpus_per_task())
            .max(gpus.saturating_mul(request.cpus_per_gpu.unwrap_or(0)))
            .max(request.cpus_per_node_min.unwrap_or(0))
            .max(request.cpus_least())
    }

    /// What so many tasks and GPUs need on any node, whatever the node is: never more than
    /// [`Ask::need`] says.
    fn floor(&self, tasks: u32, share: &[u32]) -> Floor {
        let tasks = self.tasks_with(tasks, share);
        let sum = |wanted: &[Wanted]| wanted.iter().fold(0u32, |n, w| n.saturating_add(w.1));
        // Parts are not counted in whole devices.
        let gpus = sum(&self.node_gpus)
            .saturating_add(sum(&self.socket_gpus))
            .saturating_add(sum(&self.task_gpus).saturating_mul(tasks))
            .saturating_add(share.iter().fold(0, |n, g| n.saturating_add(*g)));
        let cpus = self.plain_cpus(tasks, gpus);
        let memory = match self.request.memory {
            MemoryRequest::Default | MemoryRequest::WholeNode => 0,
            MemoryRequest::PerNode(memory) => memory.0,
            MemoryRequest::PerCpu(memory) => memory.0.saturating_mul(u64::from(cpus)),
            MemoryRequest::PerGpu(memory) => memory.0.saturating_mul(u64::from(gpus)),
        };
        let gpus = if self.plain { gpus } else { 0 };
        Floor { cpus, gpus, memory }
    }

    /// The least that each of its nodes has to give, whichever way it is laid out.
    pub(crate) fn least_floor(&self) -> Floor {
        if self.can_be_spread() { self.part_floor } else { self.whole_floor }
    }

    /// As [`Self::least_floor`], on this node.
    pub(crate) fn least_on(&self, view: &NodeView) -> Floor {
        if let Some(need) = self.counted_need() {
            let (cpus, gpus) = (self.cpus_on(view, need), need.gpu_total());
            return Floor { cpus, gpus, memory: need.memory };
        }
        let (tasks, share) = if self.can_be_spread() {
            (1, self.least_gpus())
        } else {
            let tasks = if let Tasks::Total(all) = self.tasks { all } else { 1 };
            (tasks, self.job_gpus.iter().map(|g| g.1).collect())
        };
        let need = self.need_on(view, tasks, &share);
        let gpus = if self.plain { need.gpu_total() } else { 0 };
        Floor { cpus: need.cpus, gpus, memory: need.memory }
    }

    /// The model that all its GPUs are of, where it names one.
    pub(crate) fn only_model(&self) -> Option<&str> {
        let all = [&self.job_gpus, &self.node_gpus, &self.task_gpus, &self.socket_gpus];
        let mut models = all.into_iter().flatten().map(|g| g.0.as_deref());
        let first = models.next().flatten()?;
        models.all(|m| m == Some(first)).then_some(first)
    }

    /// What it asks of labels, taints and other jobs.
    pub(crate) fn affinity(&self) -> Option<&Affinity> {
        self.request.affinity.as_deref()
    }

    /// True where another job that starts may let this one start: it wants to be near some, or
    /// spread evenly.
    pub(crate) fn is_restless(&self) -> bool {
        self.affinity()
            .is_some_and(|a| !a.near.required.is_empty() || a.spread.iter().any(|rule| !rule.soft))
    }

    /// The GPU models named, in lower case.
    pub(crate) fn models(&self) -> BTreeSet<&str> {
        [&self.job_gpus, &self.node_gpus, &self.task_gpus, &self.socket_gpus]
            .into_iter()
            .flatten()
            .filter_map(|g| g.0.as_deref())
            .collect()
    }

    pub(crate) fn kind(&self) -> Exclusive {
        self.request.exclusive
    }

    /// The numbers of nodes allowed by request and partition, as (least, most).
    ///
    /// `None` where the two leave no number. A request without a count may use any.
    pub(crate) fn node_bounds(&self) -> Option<(u32, u32)> {
        let (least, most) = match &self.request.nodes {
            None => (1, u32::MAX),
            Some(count) => (count.least().max(1), count.most()),
        };
        let least = least.max(self.partition.min_nodes).max(1);
        let most = most.min(self.partition.max_nodes.unwrap_or(u32::MAX));
        let some = match &self.request.nodes {
            Some(NodeCount::OneOf(set)) => set.range(least..).next().is_some_and(|n| *n <= most),
            _ => least <= most,
        };
        (some && least <= most).then_some((least, most))
    }

    /// True where more than one node could help: there is more than one task, GPU of a total or
    /// counted feature.
    pub(crate) fn can_be_spread(&self) -> bool {
        matches!(self.tasks, Tasks::Total(total) if total > 1)
            || (!matches!(self.tasks, Tasks::Total(_))
                && (self.job_gpus.iter().map(|g| u64::from(g.1)).sum::<u64>() > 1
                    || self.alternatives.iter().any(|a| !a.counts.is_empty())))
    }

    /// True where nothing but their number counts of the nodes that can take a part.
    pub(crate) fn counts_nodes(&self, alternative: usize) -> bool {
        let counts = self.alternatives.get(alternative).map(|a| a.counts.is_empty());
        matches!(self.tasks, Tasks::Each(_)) && self.job_gpus.is_empty() && counts == Some(true)
    }

    /// The GPUs that a job's total spreads over its nodes: the least on each node.
    pub(crate) fn least_gpus(&self) -> Vec<u32> {
        // One total puts at least one GPU on each node; of several totals any may be that one.
        vec![u32::from(self.job_gpus.len() == 1); self.job_gpus.len()]
    }

    /// True where it asks for whole GPUs and nothing else of them.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// GPUs on a node beside those from a total over the job and those of its sockets.
    fn fixed_gpus(&self, tasks: u32) -> Vec<Wanted> {
        let mut wanted = self.node_gpus.clone();
        wanted.extend(self.task_gpus.iter().map(|(m, n)| (m.clone(), n.saturating_mul(tasks))));
        wanted
    }

    /// How many tasks a node runs where it has so many GPUs of the job's total.
    pub(crate) fn tasks_with(&self, tasks: u32, share: &[u32]) -> u32 {
        match self.tasks {
            Tasks::PerGpu(per_gpu) => {
                let fixed = self.node_gpus.iter().map(|g| g.1);
                let gpus = fixed.chain(share.iter().copied()).fold(0, u32::saturating_add);
                per_gpu.saturating_mul(gpus).max(1)
            }
            Tasks::Total(_) => tasks,
            Tasks::Each(each) => each,
        }
    }

    /// The most tasks that a node may run, by the request's bounds.
    pub(crate) fn tasks_max(&self, view: &NodeView) -> u32 {
        let request = &self.request;
        let mut most = u32::MAX;
        if let (Tasks::Total(_), Some(per_node)) = (self.tasks, request.tasks_per_node) {
            most = most.min(per_node.max(1));
        }
        if let Some(per_socket) = request.tasks_per_socket {
            most = most.min(per_socket.saturating_mul(view.sockets));
        }
        if let Some(per_core) = request.tasks_per_core {
            let cores = view.node.cpu_count() / view.node.threads_per_core.max(1);
            most = most.min(per_core.saturating_mul(cores));
        }
        most
    }

    /// As [`Self::need`], without a copy where it is the same on every node.
    pub(crate) fn need_on(&self, view: &NodeView, tasks: u32, share: &[u32]) -> Cow<'_, Need> {
        match &self.steady {
            Some(need) => match self.cpus_on(view, need) {
                cpus if cpus == need.cpus => Cow::Borrowed(need),
                cpus => Cow::Owned(Need { cpus, ..need.clone() }),
            },
            None => Cow::Owned(self.need(view, tasks, share)),
        }
    }

    /// What a node has to give for so many tasks and this share of the job's GPU totals.
    pub(crate) fn need(&self, view: &NodeView, tasks: u32, share: &[u32]) -> Need {
        let request = &self.request;
        let tasks = self.tasks_with(tasks, share);
        let mut gpus = self.fixed_gpus(tasks);
        gpus.extend(self.job_gpus.iter().zip(share).map(|((m, _), n)| (m.clone(), *n)));
        gpus.retain(|g| g.1 > 0);
        let sockets = self.request.sockets_per_node.unwrap_or(view.sockets).max(1);
        let socket_gpus = self.socket_gpus.clone();
        let mut need = Need { cpus: 0, memory: 0, gpus, socket_gpus, sockets };
        let gpu_count = need.gpu_total();
        let plain = self.plain_cpus(tasks, gpu_count);
        let (asked_cpus, fixed_memory) = self.memory_rule(view, plain, gpu_count);
        let cpus = match request.exclusive {
            Exclusive::Node => asked_cpus.max(view.base_cpu_count),
            _ => asked_cpus,
        };
        need.cpus = cpus;
        need.memory = fixed_memory.unwrap_or_else(|| self.default_memory(view, cpus));
        need
    }

    /// CPUs after the partition's bound on memory a CPU, and memory where it does not follow from
    /// the CPUs (sbatch manual, `--mem-per-cpu`).
    fn memory_rule(&self, view: &NodeView, plain: u32, gpus: u32) -> (u32, Option<u64>) {
        match self.request.memory {
            MemoryRequest::WholeNode => (plain, Some(view.base_memory)),
            _ => match self.fixed_amounts(plain, gpus) {
                Some((cpus, memory)) => (cpus, Some(memory)),
                None => (plain, None),
            },
        }
    }

    /// As [`Self::memory_rule`], where it is the same on every node.
    fn fixed_amounts(&self, plain: u32, gpus: u32) -> Option<(u32, u64)> {
        let bound = self.partition.max_memory_per_cpu.map(|m| m.0.max(1));
        let for_total = |memory: u64| {
            let cpus = bound.map_or(0, |b| u32::try_from(memory.div_ceil(b)).unwrap_or(u32::MAX));
            (plain.max(cpus), memory)
        };
        Some(match self.request.memory {
            MemoryRequest::Default | MemoryRequest::WholeNode => return None,
            MemoryRequest::PerNode(memory) => for_total(memory.0),
            MemoryRequest::PerGpu(memory) => for_total(memory.0.saturating_mul(u64::from(gpus))),
            MemoryRequest::PerCpu(memory) => {
                let factor = bound.map_or(1, |b| memory.0.div_ceil(b).max(1));
                let factor = u32::try_from(factor).unwrap_or(u32::MAX);
                // A job alone on its node is charged for all CPUs but gets memory for those asked.
                (plain.saturating_mul(factor), memory.0.saturating_mul(u64::from(plain)))
            }
        })
    }

    /// The partition's default; without one, the node's memory by its share of the CPUs.
    fn default_memory(&self, view: &NodeView, cpus: u32) -> u64 {
        if let Some(per_cpu) = self.partition.default_memory_per_cpu {
            return per_cpu.0.saturating_mul(u64::from(cpus));
        }
        if let Some(per_node) = self.partition.default_memory_per_node {
            return per_node.0;
        }
        let all = u64::from(view.node.cpu_count()).max(1);
        let share = u128::from(view.base_memory) * u128::from(cpus) / u128::from(all);
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    pub(crate) fn gres_fits(&self, avail: &Avail) -> bool {
        self.request
            .gres
            .iter()
            .all(|(name, count)| avail.gres.get(name).copied().unwrap_or(0) >= *count)
    }

    /// True where the job has to have CPUs beside its GPUs and nobody knows which these are there.
    pub(crate) fn needs_certainty(&self, node: &muster_model::Node) -> bool {
        node.topology_uncertain && self.request.cpus_near_gpus && self.request.wants_gpus()
    }

    /// Devices with enough memory for the job.
    pub(crate) fn big_enough(&self, view: &NodeView, mask: DeviceMask) -> DeviceMask {
        let Some(least) = self.request.gpu_memory else { return mask };
        bits(mask)
            .filter(|i| view.node.devices.get(*i as usize).is_some_and(|d| d.memory >= least))
            .fold(0, |m, i| m | bit(i))
    }
}

/// The most nodes that a job may have: what it says, and none without a task.
fn nodes_at_most(request: &Request) -> u32 {
    let said = request.nodes.as_ref().map_or(u32::MAX, NodeCount::most);
    said.min(request.tasks.map_or(u32::MAX, |tasks| tasks.max(1)))
}

/// The first rule that says something (module text of `muster_model::request`).
fn tasks_of(request: &Request) -> Tasks {
    if let Some(tasks) = request.tasks {
        return Tasks::Total(tasks.max(1));
    }
    if let Some(per_node) = request.tasks_per_node {
        return Tasks::Each(per_node.max(1));
    }
    match (request.tasks_per_gpu, request.gpus_in_total(1)) {
        (Some(per_gpu), Some(gpus)) if gpus > 0 && per_gpu > 0 => Tasks::PerGpu(per_gpu),
        _ => Tasks::Each(1),
    }
}

/// What requests say, by digest and request; one for each partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    by_request: BTreeMap<SharedRequest, Vec<Arc<Wants>>>,
    /// The number of the last one.
    last: u64,
    /// How many requests were left when those were last dropped that nobody has any more.
    kept: usize,
}

/// Requests that nobody has any more are dropped once there are this many more than were kept.
const DROP_BEYOND: usize = 1024;

impl Catalogue {
    /// What a request says in a partition.
    pub(crate) fn of(
        &mut self,
        request: &SharedRequest,
        partition: &Arc<Partition>,
        policy: &DevicePolicy,
    ) -> Arc<Wants> {
        if self.by_request.len() > self.kept.saturating_mul(2).saturating_add(DROP_BEYOND) {
            self.by_request.retain(|_, wants| wants.iter().any(|one| Arc::strong_count(one) > 1));
            self.kept = self.by_request.len();
        }
        let known = self.by_request.entry(request.clone()).or_default();
        if let Some(wants) = known.iter().find(|wants| wants.partition.name == partition.name) {
            return Arc::clone(wants);
        }
        self.last += 1;
        let number = Some(self.last);
        let wants = Arc::new(Wants { number, ..Wants::new(request, partition, policy) });
        known.push(Arc::clone(&wants));
        wants
    }
}
