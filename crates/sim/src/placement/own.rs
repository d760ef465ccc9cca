//! muster's own placement: the state, [`State::apply`] and [`Planner::plan`], a round for each pod.

use super::{Draw, Placer, Placing};
use crate::trace::{OpenbNode, OpenbPod};
use muster_model::{
    Affinity, ApplyError, BackfillMode, Decision, Device, DeviceMilli, DeviceMode, DevicePolicy,
    EngineName, Event, EventKind, Expression, GpuCount, GpuScope, GpuShare, JobId, JobSpec,
    MemoryRequest, Mib, Node, NodeChoice, NodeId, Operator, Partition, Policy, Request, Rules,
    Sharing, State, StopCause, Term, TimeLimit, Timestamp,
};
use muster_planner::{Budget, Planner};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The only partition.
const ALL: &str = "all";
/// The label that holds a node's GPU model.
const MODEL: &str = "gpu-model";
/// What a GPU has of memory: the lists do not say, and no pod asks for any.
const GPU_MEMORY: Mib = Mib(16 << 10);

pub(super) struct Own {
    state: State,
    planner: Planner,
    next: u32,
}

impl Own {
    pub(super) fn new(
        nodes: &[OpenbNode],
        pods: &[OpenbPod],
        placing: Placing,
    ) -> Result<Self, ApplyError> {
        let policy = Policy {
            // Whoever does not fit is turned away, so nobody waits.
            backfill: BackfillMode::None,
            count_usage: false,
            nodes: match placing {
                Placing::MusterPack => NodeChoice::Pack,
                Placing::MusterSpread => NodeChoice::Spread,
                _ => NodeChoice::LeastWaste,
            },
            devices: match placing {
                Placing::Muster => typical(pods),
                _ => DevicePolicy::default(),
            },
            ..Policy::default()
        };
        let partition = Partition {
            name: ALL.to_owned(),
            nodes: nodes.iter().map(|node| node.name.clone()).collect(),
            default: true,
            ..Partition::default()
        };
        let mut state = State::default();
        let policy = EventKind::PolicySet { policy: Box::new(policy) };
        let made = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| EventKind::NodeSet { node: Box::new(node_of(at as u32, node)) });
        let partition = EventKind::PartitionSet { partition: Box::new(partition) };
        for kind in std::iter::once(policy).chain(made).chain([partition]) {
            state.apply(&Event { at: Timestamp::from_secs(0), kind })?;
        }
        Ok(Self { planner: Planner::new(&state), state, next: 1 })
    }

    fn event(&mut self, kind: EventKind) -> Result<(), ApplyError> {
        let event = Event { at: Timestamp::from_secs(0), kind };
        self.state.apply(&event)?;
        self.planner.observe_event(&event, &self.state);
        Ok(())
    }
}

impl Placer for Own {
    fn place(&mut self, pod: &OpenbPod, _: &mut Draw) -> Result<bool, ApplyError> {
        let id = JobId(self.next);
        self.next += 1;
        let specs = vec![Arc::new(job_of(pod))];
        self.event(EventKind::JobSubmitted { first: id, specs })?;
        let plan = self.planner.plan(&self.state, Timestamp::from_secs(0), Budget::UNLIMITED);
        let starts = plan.decisions.iter().flat_map(Decision::starts);
        let Some(start) = starts.into_iter().find(|start| start.job == id) else {
            self.event(EventKind::JobStop {
                job: id,
                cause: StopCause::Cancelled(0),
                hurry: false,
            })?;
            self.event(EventKind::JobsForgotten { jobs: vec![id] })?;
            return Ok(false);
        };
        let (attempt, time_limit) = (start.attempt, start.time_limit);
        let placement = Arc::clone(&start.placement);
        self.event(EventKind::JobPlaced { job: id, attempt, placement, time_limit })?;
        Ok(true)
    }
}

/// What the pods of a list ask for on the whole: their shares, and what they have beside each GPU.
fn typical(pods: &[OpenbPod]) -> DevicePolicy {
    let mut shares: BTreeMap<u32, u32> = BTreeMap::new();
    let (mut cpus, mut memory, mut gpus) = (0u64, 0u64, 0u64);
    for pod in pods.iter().filter(|pod| pod.gpus > 0) {
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

fn job_of(pod: &OpenbPod) -> JobSpec {
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
