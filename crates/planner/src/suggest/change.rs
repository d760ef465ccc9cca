//! A change to a request: as an option, as words, and what it does.

use muster_model::{
    DeviceMilli, Exclusive, GpuCount, GpuScope, GpuShare, JobSpec, MemoryRequest, Mib, NodeCount,
    Request, Seconds, TimeLimit,
};
use std::fmt;

/// A change to one part of a request, or to two.
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
    /// Two changes that help only together.
    Both(Box<Self>, Box<Self>),
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
            Self::Both(a, b) => format!("{} and {}", a.option(), b.option()),
        }
    }

    /// What it does to a spec. One option says all GPUs of a scope, so a count is found by that.
    pub(super) fn apply(&self, spec: &mut JobSpec) {
        let request = &mut spec.request;
        let gpus = |request: &mut Request, scope: GpuScope, change: &dyn Fn(&mut GpuCount)| {
            request.gpus.iter_mut().filter(|gpus| gpus.scope == scope).for_each(change);
        };
        match self {
            Self::TimeLimit(limit) => {
                spec.time_limit = Some(TimeLimit::Of(*limit));
                spec.time_min = spec.time_min.map(|least| least.min(*limit));
            }
            Self::Gpus { to, scope, .. } => gpus(request, *scope, &|gpus| gpus.count = *to),
            Self::GpuModel { to, scope, .. } => {
                gpus(request, *scope, &|gpus| gpus.model.clone_from(to));
            }
            Self::GpuMemory(memory) => request.gpu_memory = Some(*memory),
            Self::Nodes(nodes) => request.nodes = Some(NodeCount::exactly(*nodes)),
            Self::CpusPerTask(cpus) => request.cpus_per_task = Some(*cpus),
            Self::Memory(memory) => request.memory = MemoryRequest::PerNode(*memory),
            Self::Partition(name) => spec.partitions = vec![name.clone()],
            Self::NoConstraint => request.constraint = None,
            Self::NoNodeList => request.node_list.clear(),
            Self::Shared => request.exclusive = Exclusive::No,
            Self::NoExclude => request.exclude.clear(),
            Self::Tasks(tasks) => request.tasks = Some(*tasks),
            Self::GpuShare(milli) => {
                request.gpu_share = Some(GpuShare::Milli(DeviceMilli(*milli)));
            }
            Self::TopologyPreferred(level) => {
                request.topology.required = None;
                request.topology.preferred = Some(level.clone());
            }
            Self::NoReservation => request.reservation = None,
            Self::Account(name) => spec.account.clone_from(name),
            Self::Qos(name) => spec.qos.clone_from(name),
            Self::Both(a, b) => {
                a.apply(spec);
                b.apply(spec);
            }
        }
    }
}

impl fmt::Display for Change {
    /// As the beginning of a sentence: `with 2 GPUs in place of 4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimeLimit(limit) => write!(f, "with a time limit of {} minutes", limit.0 / 60),
            Self::Gpus { from, to: 1, .. } => write!(f, "with 1 GPU in place of {from}"),
            Self::Gpus { from, to, .. } => write!(f, "with {to} GPUs in place of {from}"),
            Self::GpuModel { from, to: Some(to), .. } => {
                write!(f, "with {to} GPUs in place of {from}")
            }
            Self::GpuModel { from, to: None, .. } => write!(f, "with any GPU in place of {from}"),
            Self::GpuMemory(memory) => write!(f, "with {memory} on each GPU"),
            Self::Nodes(1) => f.write_str("with 1 node"),
            Self::Nodes(nodes) => write!(f, "with {nodes} nodes"),
            Self::CpusPerTask(1) => f.write_str("with 1 CPU a task"),
            Self::CpusPerTask(cpus) => write!(f, "with {cpus} CPUs a task"),
            Self::Memory(memory) => write!(f, "with {memory} of memory"),
            Self::Partition(name) => write!(f, "in partition {name}"),
            Self::NoConstraint => f.write_str("without its constraint"),
            Self::NoNodeList => f.write_str("without its node list"),
            Self::Shared => f.write_str("on shared nodes"),
            Self::NoExclude => f.write_str("with every node allowed"),
            Self::Tasks(1) => f.write_str("with 1 task"),
            Self::Tasks(tasks) => write!(f, "with {tasks} tasks"),
            Self::GpuShare(milli) => write!(f, "with {}% of a shared GPU each", milli / 10),
            Self::TopologyPreferred(level) => {
                write!(f, "with {level} preferred in place of required")
            }
            Self::NoReservation => f.write_str("outside its reservation"),
            Self::Account(name) => write!(f, "charged to account {name}"),
            Self::Qos(name) => write!(f, "in QOS {name}"),
            Self::Both(a, b) => write!(f, "{a} and {b}"),
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
