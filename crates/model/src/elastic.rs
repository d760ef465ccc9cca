//! Elastic jobs: they may run on any number of nodes of a range, and change it while they run.
//!
//! What such a job has above its least is only lent. It gives nodes up where others wait for them,
//! and gets more where nobody can use them: by a restart from its checkpoint, or, where it says that
//! it lives with losing nodes, by losing them while it runs. Elastic torchrun does the same with its
//! workers on a change of membership: all are stopped and started again with another world size, and
//! go on from what they saved (pytorch.org, Elastic quickstart).

use crate::{
    Eviction, Job, JobKind, JobState, Placement, PreemptMode, Seconds, State, StopCause, TimeLimit,
    Timestamp, Victim,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Whether a job may change its number of nodes while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elastic {
    /// It may not.
    #[default]
    No,
    /// By a restart (`#MUSTER --elastic=MIN-MAX`).
    Restart,
    /// It goes on where it loses nodes, but the first (`#MUSTER --elastic=MIN-MAX,live`); it grows by
    /// a restart.
    Live,
}

/// What starting again takes a job, beside the work that is lost: a guess for them all.
const START: Seconds = Seconds(60);

/// A job grows only where that saves at least so many times what the restart costs.
const PAYS: u64 = 4;

impl Job {
    /// True where it may be started anew on another number of nodes, or lose some: it runs, by
    /// itself, and nothing is to become of it.
    pub fn may_be_resized(&self) -> bool {
        self.spec.elastic != Elastic::No
            && self.state == JobState::Running
            && !self.suspend
            && self.het.is_none()
            && self.spec.gang.is_none()
            && self.turn.is_none()
            && self.eviction.is_none()
            && self.resize.is_none()
            && self.stop.is_none()
    }

    /// True where it may be put back in the queue and go on from there.
    pub fn starts_anew(&self) -> bool {
        self.spec.requeue && self.spec.kind == JobKind::Batch
    }

    /// Where it starts again on more nodes, and until when at the latest it has those then; `None`
    /// where it does not grow.
    pub fn growth(&self) -> Option<(&Arc<Placement>, Timestamp)> {
        let eviction = self.eviction.as_ref().filter(|e| e.by == self.id)?;
        let limit = self.spec.time_limit.unwrap_or(self.time_limit);
        Some((eviction.keeps.as_ref()?, eviction.until.plus_limit(limit)))
    }

    /// What a restart on other nodes would cost it: what it does again since its last checkpoint,
    /// or, where it is asked for one first, the time that takes; and the start. `None` where it has
    /// no checkpoint to go on from.
    pub fn restart_cost(&self, now: Timestamp) -> Option<Seconds> {
        let asked = self.spec.checkpoint.as_ref().filter(|checkpoint| checkpoint.signal.is_some());
        let again = match (asked, self.checkpointed) {
            (Some(checkpoint), _) => checkpoint.grace,
            (None, Some(at)) => now.since(at),
            (None, None) => return None,
        };
        Some(Seconds(again.0.saturating_add(START.0)))
    }
}

impl State {
    /// How long a running job likely goes on, by what is known of it, else by its limit.
    pub fn likely_left(&self, job: &Job, now: Timestamp) -> TimeLimit {
        match self.likely_run(job) {
            TimeLimit::Unlimited => TimeLimit::Unlimited,
            TimeLimit::Of(run) => TimeLimit::Of(Seconds(run.0.saturating_sub(job.run_time(now).0))),
        }
    }

    /// True where more nodes save a running job four times what the restart costs it, if what is
    /// likely left of it takes so much less time as it has more nodes.
    pub fn growth_pays(&self, job: &Job, nodes: u64, now: Timestamp) -> bool {
        let Some(cost) = job.restart_cost(now) else { return false };
        let has = job.placement.as_ref().map_or(0, |placement| placement.nodes.len() as u64);
        let more = nodes.saturating_sub(has);
        match self.likely_left(job, now) {
            TimeLimit::Unlimited => more > 0,
            TimeLimit::Of(left) => {
                let saved = u128::from(left.0) * u128::from(more);
                more > 0 && saved >= u128::from(PAYS * nodes) * u128::from(cost.0)
            }
        }
    }
}

impl Victim {
    /// The mark on the job once this is decided for another, or for itself.
    pub fn eviction(&self, by: crate::JobId, at: Timestamp) -> Eviction {
        let Self { mode, stop_at, until, .. } = *self;
        Eviction { by, mode, at, stop_at, until, keeps: self.keeps.clone() }
    }

    /// True while the job still has what it gives up.
    pub fn is_awaited(&self, job: &Job) -> bool {
        let nodes = |placement: Option<&Arc<Placement>>| placement.map_or(0, |p| p.nodes.len());
        let gave = self.mode == PreemptMode::Shrink
            && nodes(job.placement.as_ref()) <= nodes(self.keeps.as_ref());
        job.attempt == self.attempt && job.state.holds_resources() && !gave
    }
}

impl Eviction {
    /// Why the job that has this mark is told to end.
    pub fn stop_cause(&self, job: &Job) -> StopCause {
        match self.by == job.id {
            true => StopCause::Requeue { hold: false },
            false => StopCause::Preempted(self.by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checkpoint, JobId, JobSpec, NodeId, NodeShare};

    /// On two nodes since 0, with an hour's limit and a checkpoint that may take 30 s.
    fn job() -> Job {
        let mut state = State::default();
        let checkpoint =
            Checkpoint { signal: Some(10), grace: Seconds(30), ..Checkpoint::default() };
        let spec = JobSpec {
            elastic: Elastic::Restart,
            time_limit: Some(TimeLimit::Of(Seconds(3600))),
            checkpoint: Some(checkpoint),
            ..JobSpec::default()
        };
        let at = Timestamp::from_secs(0);
        let mut apply = |kind| state.apply(&crate::Event { at, kind }).unwrap();
        for id in 0..2 {
            let node = crate::Node { id: NodeId(id), name: id.to_string(), ..Default::default() };
            apply(crate::EventKind::NodeSet { node: Box::new(node) });
        }
        let specs = vec![Arc::new(spec)];
        apply(crate::EventKind::JobSubmitted { first: JobId(1), specs });
        let share = |id| NodeShare { node: NodeId(id), tasks: 1, ..NodeShare::default() };
        let placement =
            Arc::new(Placement { nodes: vec![share(0), share(1)], ..Default::default() });
        let (job, time_limit) = (JobId(1), TimeLimit::Of(Seconds(3600)));
        apply(crate::EventKind::JobPlaced { job, attempt: 1, placement, time_limit });
        apply(crate::EventKind::JobStarted { job, attempt: 1 });
        Job::clone(&state.jobs[&JobId(1)])
    }

    #[test]
    fn growing_pays_while_enough_is_left_to_run() {
        let (state, job) = (State::default(), job());
        let at = Timestamp::from_secs;
        // A restart costs 30 + 60 s, so 360 s have to be saved: a third of 1080 s, half of 720 s.
        assert_eq!(job.restart_cost(at(600)), Some(Seconds(90)));
        assert!(state.growth_pays(&job, 3, at(3600 - 1080)));
        assert!(!state.growth_pays(&job, 3, at(3600 - 1079)));
        assert!(state.growth_pays(&job, 4, at(3600 - 720)));
        assert!(!state.growth_pays(&job, 4, at(3600 - 719)));
        assert!(!state.growth_pays(&job, 2, at(0)));
    }

    #[test]
    fn a_restart_costs_what_was_done_since_the_last_checkpoint() {
        let mut job = job();
        job.spec = Arc::new(JobSpec { checkpoint: None, ..JobSpec::clone(&job.spec) });
        assert_eq!(job.restart_cost(Timestamp::from_secs(500)), None);
        job.checkpointed = Some(Timestamp::from_secs(100));
        assert_eq!(job.restart_cost(Timestamp::from_secs(500)), Some(Seconds(460)));
    }
}
