//! Accounting rows of jobs that are still in the live list.

use super::{limit_s, node_list};
use crate::tres::Totals;
use crate::{HistoryRow, PauseView, StepView};
use muster_model::{ExitStatus, Job, JobKind, JobState, State, StepId, StopCause};

impl HistoryRow {
    /// The row of a job as it stands.
    pub fn of(state: &State, job: &Job) -> Self {
        let spec = &job.spec;
        let had = Totals::of(job);
        let began = job.placement.is_some() && !job.is_pending();
        Self {
            id: job.id.0,
            job: job.display_id(),
            attempt: job.attempt,
            array: job.array.map(|a| a.array.0),
            task: job.array.map(|a| a.index),
            het_leader: job.het.map(|h| h.leader.0),
            name: spec.name.clone(),
            user: spec.owner.user.clone(),
            uid: spec.owner.uid,
            gid: spec.owner.gid,
            account: spec.account.clone(),
            partition: match &job.placement {
                Some(placement) if began => placement.partition.clone(),
                _ => spec.partitions.join(","),
            },
            qos: spec.qos.clone(),
            state: settled_state(job),
            cancelled_by: job.stop.as_ref().and_then(|stop| match stop.cause {
                StopCause::Cancelled(uid) => Some(uid),
                _ => None,
            }),
            submitted_ms: job.submitted,
            eligible_ms: job.eligible,
            started_ms: if began { job.started.or(job.placed) } else { None },
            ended_ms: job.ended.filter(|_| job.state.is_over()),
            pause: PauseView::of(job),
            time_limit_s: limit_s(job.time_limit),
            exit: job.exit.unwrap_or_default(),
            nodes: had.nodes,
            node_list: node_list(state, job),
            tasks: had.tasks,
            cpus: had.cpus,
            memory_mib: had.memory.0,
            gpus: had.gpus,
            tres: if began { had.text() } else { String::new() },
            tres_wanted: Totals::wanted(&spec.request).text(),
            cwd: spec.cwd.clone(),
            command: spec.command.clone(),
            comment: spec.comment.clone(),
            message: job.message.clone(),
            reason: String::new(),
            usage: job.usage.into(),
            steps: script_step(job).into_iter().chain(job.steps.iter().map(Into::into)).collect(),
        }
    }
}

/// The step of a batch script that still runs: engines report it with the job's end, Slurm's
/// accounting has it from the start.
fn script_step(job: &Job) -> Option<StepView> {
    let runs = matches!(job.state, JobState::Running | JobState::Suspended | JobState::Completing);
    let reported = job.steps.iter().any(|step| step.id == StepId::Batch);
    if job.spec.kind != JobKind::Batch || !runs || reported {
        return None;
    }
    Some(StepView {
        id: StepId::Batch.to_string(),
        name: StepId::Batch.to_string(),
        tasks: 1,
        nodes: 1,
        started_ms: job.started?,
        ended_ms: None,
        paused_ms: job.pause_ms(job.stands_since.unwrap_or_default()),
        exit: ExitStatus::SUCCESS,
        usage: job.usage.into(),
    })
}

/// A job that is being cancelled counts as cancelled at once, as Slurm's accounting has it.
fn settled_state(job: &Job) -> JobState {
    let cancelled = job.stop.as_ref().is_some_and(|s| matches!(s.cause, StopCause::Cancelled(_)));
    if cancelled && job.state.holds_resources() { JobState::Cancelled } else { job.state }
}
