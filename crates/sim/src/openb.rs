//! The lists of Alibaba's GPU trace of 2023 as muster's nodes and jobs.

use crate::trace::{OpenbNode, OpenbPod};
use muster_model::{
    Affinity, Device, DeviceMilli, DeviceMode, DevicePolicy, EngineName, EventKind, Expression,
    GpuCount, GpuScope, GpuShare, JobSpec, MemoryRequest, Mib, Node, NodeId, Operator, Partition,
    Policy, Request, Rules, Sharing, Term, TimeLimit,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The only partition.
const ALL: &str = "all";
/// The label that holds a node's GPU model.
const MODEL: &str = "gpu-model";
/// What a GPU has of memory: the lists do not say, and no pod asks for any.
const GPU_MEMORY: Mib = Mib(16 << 10);

/// What makes the cluster, with its policy.
pub(crate) fn cluster(nodes: &[OpenbNode], policy: Policy) -> Vec<EventKind> {
    let partition = Partition {
        name: ALL.to_owned(),
        nodes: nodes.iter().map(|node| node.name.clone()).collect(),
        default: true,
        ..Partition::default()
    };
    let policy = EventKind::PolicySet { policy: Box::new(policy) };
    let made = (0u32..)
        .zip(nodes)
        .map(|(at, node)| EventKind::NodeSet { node: Box::new(node_of(at, node)) });
    let partition = EventKind::PartitionSet { partition: Box::new(partition) };
    std::iter::once(policy).chain(made).chain([partition]).collect()
}

/// What the pods of a list ask for on the whole: their shares, and what they have beside each GPU.
pub(crate) fn typical<'a>(pods: impl IntoIterator<Item = &'a OpenbPod>) -> DevicePolicy {
    let mut shares: BTreeMap<u32, u32> = BTreeMap::new();
    let (mut cpus, mut memory, mut gpus) = (0u64, 0u64, 0u64);
    for pod in pods.into_iter().filter(|pod| pod.gpus > 0) {
        *shares.entry(pod.gpu_milli).or_default() += pod.gpus;
        cpus += u64::from(pod.cpu_milli);
        memory += pod.memory_mib;
        gpus += pod.gpu_total();
    }
    let each = |sum: u64| (gpus > 0).then(|| sum * 1000 / gpus.max(1));
    DevicePolicy {
        typical_shares: shares.into_iter().collect(),
        typical_cpus_per_gpu: each(cpus).and_then(|n| u32::try_from(n).ok()),
        typical_memory_per_gpu: each(memory).map(Mib),
        ..DevicePolicy::default()
    }
}

/// The node; its CPUs are counted in thousandths.
fn node_of(at: u32, node: &OpenbNode) -> Node {
    let device = |index| Device {
        index,
        model: node.model.to_ascii_lowercase(),
        memory: GPU_MEMORY,
        mode: DeviceMode::Shared(Sharing::default()),
        ..Device::default()
    };
    Node {
        id: NodeId(at),
        name: node.name.clone(),
        engine: EngineName("trace".to_owned()),
        cpu_pool: node.cpu_milli,
        threads_per_core: 1,
        memory: Mib(node.memory_mib),
        devices: (0..node.gpus).map(device).collect(),
        labels: [(MODEL.to_owned(), node.model.clone())].into_iter().collect(),
        ..Node::default()
    }
}

pub(crate) fn job_of(pod: &OpenbPod) -> JobSpec {
    let wanted = GpuCount { model: None, count: pod.gpus, scope: GpuScope::Node };
    let models =
        Expression { key: MODEL.to_owned(), operator: Operator::In, values: pod.models.clone() };
    let affinity = Affinity {
        node: Rules { required: vec![Term { all: vec![models] }], ..Rules::default() },
        ..Affinity::default()
    };
    JobSpec {
        partitions: vec![ALL.to_owned()],
        request: Request {
            nodes: None,
            cpus_per_task: Some(pod.cpu_milli.max(1)),
            memory: MemoryRequest::PerNode(Mib(pod.memory_mib)),
            gpus: if pod.gpus > 0 { vec![wanted] } else { Vec::new() },
            gpu_share: (pod.gpus > 0 && pod.gpu_milli < 1000)
                .then_some(GpuShare::Milli(DeviceMilli(pod.gpu_milli))),
            affinity: (!pod.models.is_empty()).then(|| Arc::new(affinity)),
            ..Request::default()
        },
        time_limit: Some(TimeLimit::Unlimited),
        ..JobSpec::default()
    }
}
