//! Jobs in full.

use crate::{GateView, JobEnd, JobView, QueueRow, ReasonView, ShareView};
use muster_model::links;
use muster_model::node::Device;
use muster_model::placement::DeviceGrant;
use muster_model::{Gate, GateStatus, GateTarget, Hold, Job, OrderMode, Priorities, Reason, State};

impl JobView {
    /// Everything about a job. `reasons` has the binding one first. Paths with patterns filled in
    /// are left to the caller.
    pub fn of(state: &State, job: &Job, reasons: &[Reason]) -> Self {
        let spec = &job.spec;
        let mut row = QueueRow::of(state, job, reasons.first()).with_detail(state, job);
        if state.policy.order == OrderMode::Multifactor && job.is_pending() && job.hold.is_none() {
            let priority = Priorities::new(state, state.now).of(job);
            row.priority = u32::try_from(priority.max(1)).unwrap_or(u32::MAX);
        }
        Self {
            row,
            request: spec.request.clone(),
            reasons: reasons.iter().map(ReasonView::full).collect(),
            held_by: match &job.hold {
                None => "",
                Some(Hold::User) => "user",
                Some(Hold::Admin) => "admin",
                Some(Hold::System(_)) => "system",
            }
            .to_owned(),
            begin_ms: spec.begin,
            deadline_ms: spec.deadline,
            gates: job.gates.iter().map(GateView::from).collect(),
            stdio: spec.stdio.clone(),
            placement: None,
            stdout_path: String::new(),
            stderr_path: String::new(),
            stdin_path: String::new(),
            attempt: job.attempt,
            shares: shares(state, job),
            signal: spec.signal,
            mail: spec.mail.clone(),
            checkpoint: spec.checkpoint.clone(),
            checkpointed_ms: job.checkpointed,
            image: spec.image.clone(),
            volumes: spec.volumes.clone(),
            submit_dir: spec.submit_dir.clone(),
            submit_host: spec.submit_host.clone(),
            warnings: spec.warnings.clone(),
            message: job.message.clone(),
            usage: job.usage.into(),
            steps: job.steps.iter().map(Into::into).collect(),
        }
    }
}

fn shares(state: &State, job: &Job) -> Vec<ShareView> {
    let Some(placement) = job.placement.as_ref().filter(|_| !job.is_pending()) else {
        return Vec::new();
    };
    let share = |n: &muster_model::NodeShare| {
        let node = state.nodes.get(&n.node);
        let device = |grant: &DeviceGrant| node?.devices.get(grant.index as usize);
        let model = n.devices.first().and_then(|grant| {
            let device = device(grant)?;
            let profile = grant.mig.and_then(|slot| device.profile_name(slot));
            Some(match profile {
                Some(profile) => format!("{}_{profile}", device.model),
                None => device.model.clone(),
            })
        });
        let whole: Vec<u32> = n.devices.iter().filter(|d| d.is_whole()).map(|d| d.index).collect();
        let ring = node.filter(|_| whole.len() > 1).map_or(0, |node| links::ring(node, &whole).1);
        ShareView {
            node: state.node_name(n.node),
            tasks: n.tasks,
            cpus: n.cpus.to_string(),
            memory_mib: n.memory.0,
            gpus: n.devices.iter().map(|d| d.index).collect(),
            counts_only: node.is_some_and(|node| node.counts_only),
            gpu_model: model.unwrap_or_default(),
            gpu_parts: n.devices.iter().filter_map(|g| part(g, device(g))).collect(),
            gpu_ring_gbs: ring,
            far_cpus: node.map(|node| links::far_cpus(node, n).to_string()).unwrap_or_default(),
            exclusive: n.exclusive,
        }
    };
    placement.nodes.iter().map(share).collect()
}

/// A grant that is not a whole device, in words.
fn part(grant: &DeviceGrant, device: Option<&Device>) -> Option<String> {
    if grant.is_whole() {
        return None;
    }
    let (index, memory) = (grant.index, grant.memory.0);
    Some(match grant.mig {
        Some(slot) => {
            let name = device.and_then(|d| d.profile_name(slot)).unwrap_or("instance");
            format!("{name} at {} of GPU {index}, {memory} MiB", slot.start)
        }
        None => format!("{} of GPU {index}, {memory} MiB", milli(grant.share.0)),
    })
}

/// Thousandths as a fraction: `0.5`.
pub(super) fn milli(share: u32) -> String {
    let text = format!("{}.{:03}", share / 1000, share % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl From<&Gate> for GateView {
    fn from(gate: &Gate) -> Self {
        let target = match gate.target {
            None => String::new(),
            Some(GateTarget::Job(id)) => format!(":{id}"),
            Some(GateTarget::Array(id)) => format!(":{id}_*"),
        };
        let delay =
            if gate.delay.0 > 0 { format!("+{}", gate.delay.0 / 60) } else { String::new() };
        let status = match gate.status {
            GateStatus::Waiting => "waiting",
            GateStatus::Met(_) => "met",
            GateStatus::Failed => "failed",
        };
        Self { term: format!("{}{target}{delay}", gate.kind), status: status.to_owned() }
    }
}

impl From<&Job> for JobEnd {
    fn from(job: &Job) -> Self {
        Self {
            id: job.id.0,
            job: job.display_id(),
            state: job.state,
            exit: job.exit,
            message: job.message.clone(),
        }
    }
}
