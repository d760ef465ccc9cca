//! What a job has or asks for, in totals and as Slurm's TRES text.

use muster_model::{GpuScope, Job, MemoryRequest, Mib, Request};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Totals of a job over its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Nodes.
    pub nodes: u32,
    /// Tasks.
    pub tasks: u32,
    /// CPUs.
    pub cpus: u32,
    /// Memory; zero where the partition decides.
    pub memory: Mib,
    /// GPUs.
    pub gpus: u32,
    /// Other countable resources.
    pub gres: BTreeMap<String, u64>,
}

impl Totals {
    /// What the job has, or the least that it asks for while it has nothing.
    pub fn of(job: &Job) -> Self {
        match &job.placement {
            Some(placement) if !job.is_pending() => {
                let mut gres = BTreeMap::new();
                for (name, count) in placement.nodes.iter().flat_map(|n| &n.gres) {
                    *gres.entry(name.clone()).or_default() += count;
                }
                Self {
                    nodes: placement.nodes.len() as u32,
                    tasks: placement.tasks(),
                    cpus: placement.cpus(),
                    memory: placement.memory(),
                    gpus: placement.devices(),
                    gres,
                }
            }
            _ => Self::wanted(&job.spec.request),
        }
    }

    /// The least that a request asks for.
    pub fn wanted(request: &Request) -> Self {
        let nodes = request.nodes_min();
        let tasks = request.tasks_on(nodes);
        let gpus = request.gpus.iter().fold(0u32, |sum, gpus| {
            sum.saturating_add(match gpus.scope {
                GpuScope::Job => gpus.count,
                GpuScope::Node | GpuScope::Socket => gpus.count.saturating_mul(nodes),
                GpuScope::Task => gpus.count.saturating_mul(tasks),
            })
        });
        let cpus = tasks
            .saturating_mul(request.cpus_per_task())
            .max(gpus.saturating_mul(request.cpus_per_gpu.unwrap_or(0)))
            .max(nodes.saturating_mul(request.cpus_per_node_min.unwrap_or(0)));
        let memory = match request.memory {
            MemoryRequest::Default | MemoryRequest::WholeNode => Mib::ZERO,
            MemoryRequest::PerNode(mib) => mib.times(u64::from(nodes)),
            MemoryRequest::PerCpu(mib) => mib.times(u64::from(cpus)),
            MemoryRequest::PerGpu(mib) => mib.times(u64::from(gpus)),
        };
        let gres = request
            .gres
            .iter()
            .map(|(name, count)| (name.clone(), count.saturating_mul(u64::from(nodes))))
            .collect();
        Self { nodes, tasks, cpus, memory, gpus, gres }
    }

    /// Slurm's TRES text: `cpu=4,mem=8G,node=1,billing=4,gres/gpu=2`.
    pub fn text(&self) -> String {
        let mut text = format!("cpu={}", self.cpus);
        // Writing to a string cannot fail.
        if !self.memory.is_zero() {
            let _ = write!(text, ",mem={}", self.memory);
        }
        let _ = write!(text, ",node={},billing={}", self.nodes, self.cpus);
        if self.gpus > 0 {
            let _ = write!(text, ",gres/gpu={}", self.gpus);
        }
        for (name, count) in &self.gres {
            let _ = write!(text, ",gres/{name}={count}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::{GpuCount, NodeCount};

    #[test]
    fn totals_of_a_request_follow_its_counts() {
        let request = Request {
            nodes: Some(NodeCount::exactly(2)),
            tasks_per_node: Some(4),
            cpus_per_task: Some(2),
            memory: MemoryRequest::PerNode(Mib(4096)),
            gpus: vec![GpuCount { model: None, count: 8, scope: GpuScope::Node }],
            ..Request::default()
        };
        let totals = Totals::wanted(&request);
        assert_eq!(totals.text(), "cpu=16,mem=8G,node=2,billing=16,gres/gpu=16");
    }
}
