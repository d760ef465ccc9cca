//! Times at which a job stood still: they do not count to its run time or its limit.

use crate::{HistoryRow, QueueRow, is_default};
use muster_model::{Job, Seconds, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How long a job stood still (`scontrol suspend`, preemption, turns with others).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PauseView {
    /// Milliseconds before the present pause.
    pub before_ms: u64,
    /// Since when it stands still; absent while it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = Option<i64>)]
    pub since_ms: Option<Timestamp>,
    /// When it last went on.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = Option<i64>)]
    pub resumed_ms: Option<Timestamp>,
}

impl PauseView {
    /// The pauses of a job's attempt; `None` where it had none.
    pub fn of(job: &Job) -> Option<Self> {
        let since_ms = job.stands_since;
        let before_ms = job.pause_ms(since_ms.unwrap_or_default());
        let any = !job.is_pending() && (since_ms.is_some() || before_ms > 0);
        any.then_some(Self { before_ms, since_ms, resumed_ms: job.resumed })
    }

    /// When it last stood still or went on (`SuspendTime` in Slurm).
    pub fn changed(&self) -> Option<Timestamp> {
        self.since_ms.or(self.resumed_ms)
    }
}

/// Whole seconds from a start to an end without the pauses between.
fn ran(start: Timestamp, end: Timestamp, pause: Option<&PauseView>) -> Seconds {
    let Some(pause) = pause else { return end.since(start) };
    let end = pause.since_ms.map_or(end, |since| since.min(end));
    Seconds(end.ms_since(start).saturating_sub(pause.before_ms) / 1000)
}

impl QueueRow {
    /// How long it has run by an instant (`RunTime` in Slurm): while it stands still, so does this.
    pub fn run_time(&self, now: Timestamp) -> Seconds {
        let Some(start) = self.started_ms else { return Seconds(0) };
        let end = if self.state.is_over() { self.ended_ms.unwrap_or(now) } else { now };
        ran(start, end, self.pause.as_ref())
    }
}

impl HistoryRow {
    /// How long it ran, or has run by an instant (`Elapsed` in Slurm).
    pub fn run_time(&self, now: Timestamp) -> Seconds {
        let Some(start) = self.started_ms else { return Seconds(0) };
        let end = self.ended_ms.filter(|_| self.state.is_over()).unwrap_or(now);
        ran(start, end, self.pause.as_ref())
    }

    /// How long one of its steps ran, or has run by an instant.
    pub fn step_run_time(&self, step: &crate::StepView, now: Timestamp) -> Seconds {
        let since_ms = self.pause.and_then(|pause| pause.since_ms);
        let since_ms = since_ms.filter(|_| step.ended_ms.is_none());
        let pause = PauseView { before_ms: step.paused_ms, since_ms, resumed_ms: None };
        ran(step.started_ms, step.ended_ms.unwrap_or(now), Some(&pause))
    }
}
