//! Jobs in full.

use crate::{GateView, JobEnd, JobView, QueueRow, ReasonView, ShareView};
use muster_model::{Gate, GateStatus, GateTarget, Hold, Job, Reason, State};

impl JobView {
    /// Everything about a job. `reasons` has the binding one first. Paths with patterns filled in
    /// are left to the caller.
    pub fn of(state: &State, job: &Job, reasons: &[Reason]) -> Self {
        let spec = &job.spec;
        Self {
            row: QueueRow::of(state, job, reasons.first()).with_detail(state, job),
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
            stdout_path: String::new(),
            stderr_path: String::new(),
            stdin_path: String::new(),
            attempt: job.attempt,
            shares: shares(state, job),
            signal: spec.signal,
            mail: spec.mail.clone(),
            checkpoint: spec.checkpoint.clone(),
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
        let model = n.devices.first().and_then(|grant| {
            state.nodes.get(&n.node)?.devices.get(grant.index as usize).map(|d| d.model.clone())
        });
        ShareView {
            node: state.node_name(n.node),
            tasks: n.tasks,
            cpus: n.cpus.to_string(),
            memory_mib: n.memory.0,
            gpus: n.devices.iter().map(|d| d.index).collect(),
            gpu_model: model.unwrap_or_default(),
            exclusive: n.exclusive,
        }
    };
    placement.nodes.iter().map(share).collect()
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
