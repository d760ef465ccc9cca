//! Conversions from the model to what the wire shows.

mod account;
mod history;
mod job;
mod node;
mod queue;
mod reservation;

pub use account::Uses;

use crate::step::fold_hosts;
use crate::{HetView, StepView, UsageView};
use muster_model::{HetPart, Job, State, StepRecord, TimeLimit, Usage};

impl From<HetPart> for HetView {
    fn from(part: HetPart) -> Self {
        Self { leader: part.leader.0, offset: part.offset, size: part.size }
    }
}

impl From<Usage> for UsageView {
    fn from(usage: Usage) -> Self {
        Self {
            memory_peak_kib: usage.memory_peak_kib,
            cpu_user_ms: usage.cpu_user_ms,
            cpu_system_ms: usage.cpu_system_ms,
            gpu_memory_peak_mib: usage.gpu_memory_peak_mib,
        }
    }
}

impl From<&StepRecord> for StepView {
    fn from(step: &StepRecord) -> Self {
        Self {
            id: step.id.to_string(),
            name: step.name.clone(),
            tasks: step.tasks,
            nodes: step.nodes,
            started_ms: step.started,
            ended_ms: step.ended,
            paused_ms: step.paused_ms,
            exit: step.status,
            usage: step.usage.into(),
        }
    }
}

/// Seconds of a limit; `None` is no limit.
pub(crate) fn limit_s(limit: TimeLimit) -> Option<u64> {
    limit.seconds().map(|s| s.0)
}

/// The names of a job's nodes in rank order, folded; empty while it waits.
pub(crate) fn node_list(state: &State, job: &Job) -> String {
    let Some(placement) = job.placement.as_ref().filter(|_| !job.is_pending()) else {
        return String::new();
    };
    let names: Vec<String> = placement.nodes.iter().map(|n| state.node_name(n.node)).collect();
    fold_hosts(&names)
}

/// The priority that orders waiting jobs, as users see it: set by hand, or the sum of what the
/// partition and the quality of service add, lowered by the nice value. Held jobs have none.
pub fn priority(state: &State, job: &Job) -> u32 {
    /// Room for nice values on both sides.
    const BASE: i64 = 1_000_000;
    if job.hold.is_some() {
        return 0;
    }
    if let Some(by_hand) = job.spec.priority {
        return by_hand;
    }
    let partition = job.spec.partitions.iter().filter_map(|p| state.partitions.get(p));
    let partition = partition.map(|p| p.priority).max().unwrap_or(0);
    let qos = state.qos.get(&job.spec.qos).map_or(0, |q| q.priority);
    let sum = BASE + i64::from(partition) + i64::from(qos) - job.spec.nice;
    u32::try_from(sum.max(1)).unwrap_or(u32::MAX)
}
