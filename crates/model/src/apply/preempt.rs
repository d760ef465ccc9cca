//! Room made for waiting jobs: claimed, given up, taken back.

use super::ApplyError;
use crate::{
    Claim, Job, JobId, JobState, PendingSignal, Placement, PreemptMode, SignalScope, State, Stop,
    Timestamp, Victim,
};
use std::sync::Arc;

impl State {
    pub(super) fn claim(&mut self, id: JobId, claim: &Arc<Claim>) -> Result<(), ApplyError> {
        let old = self.known("job_claimed", id)?;
        if !old.is_pending() {
            let why = format!("it is {:?}, not waiting", old.state);
            return Err(ApplyError::OutOfOrder { event: "job_claimed", job: id, why });
        }
        let claim = Some(Arc::clone(claim));
        self.replace(&old, Job { claim, ..Job::clone(&old) });
        Ok(())
    }

    pub(super) fn preempt(
        &mut self,
        at: Timestamp,
        victim: &Victim,
        by: JobId,
    ) -> Result<(), ApplyError> {
        let Some(old) = self.current("job_preempted", victim.job, victim.attempt)? else {
            return Ok(());
        };
        // What ends already makes its room by itself.
        if old.state == JobState::Completing {
            return Ok(());
        }
        let mut new = Job::clone(&old);
        let eviction = victim.eviction(by, at);
        let cause = eviction.stop_cause(&old);
        new.eviction = Some(Arc::new(eviction));
        // Who grows, or goes on with fewer nodes, is not preempted.
        if by != old.id && victim.mode != PreemptMode::Shrink {
            new.preempted.clone_from(&new.eviction);
            new.preemptions = new.preemptions.saturating_add(1);
        }
        match victim.mode {
            PreemptMode::Off => return Ok(()),
            PreemptMode::Suspend => new.suspend = true,
            PreemptMode::Shrink => new.resize.clone_from(&victim.keeps),
            PreemptMode::Checkpoint if victim.stop_at > at => {
                let asked = old.spec.checkpoint.as_ref().and_then(|c| c.signal);
                if let Some(signal) = asked {
                    new.signals_asked += 1;
                    let (number, scope) = (new.signals_asked, SignalScope::All);
                    new.signals.push(PendingSignal { number, signal, scope });
                }
            }
            PreemptMode::Cancel | PreemptMode::Requeue | PreemptMode::Checkpoint => {
                new.stop = Some(Stop { cause, at, hurry: false });
                new.state = JobState::Completing;
                new.suspend = false;
            }
        }
        self.replace(&old, new);
        Ok(())
    }

    pub(super) fn resize(
        &mut self,
        id: JobId,
        attempt: u32,
        placement: &Arc<Placement>,
    ) -> Result<(), ApplyError> {
        let Some(old) = self.current("job_resize", id, attempt)? else { return Ok(()) };
        if old.state == JobState::Completing {
            return Ok(());
        }
        self.replace(&old, Job { resize: Some(Arc::clone(placement)), ..Job::clone(&old) });
        Ok(())
    }

    pub(super) fn resized(&mut self, id: JobId, attempt: u32) -> Result<(), ApplyError> {
        let Some(old) = self.current("job_resized", id, attempt)? else { return Ok(()) };
        let mut new = Job::clone(&old);
        let Some(placement) = new.resize.take() else { return Ok(()) };
        if self.policy.count_usage {
            new.charge = Arc::new(self.charge(&placement));
        }
        new.placement = Some(placement);
        new.eviction.take_if(|eviction| eviction.mode == PreemptMode::Shrink);
        self.replace(&old, new);
        Ok(())
    }

    pub(super) fn checkpointed(
        &mut self,
        at: Timestamp,
        id: JobId,
        attempt: u32,
    ) -> Result<(), ApplyError> {
        let Some(old) = self.current("job_checkpointed", id, attempt)? else { return Ok(()) };
        self.replace(&old, Job { checkpointed: Some(at), ..Job::clone(&old) });
        Ok(())
    }
}

impl Job {
    /// Goes on after it stood still: that time does not count.
    pub(crate) fn go_on(&mut self, at: Timestamp) {
        let eviction = self.eviction.take_if(|eviction| eviction.mode == PreemptMode::Suspend);
        self.stands_since = self.stands_since.or(eviction.map(|eviction| eviction.at));
        self.end_pause(at);
        self.resumed = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        EndCause, Event, EventKind, ExitReport, ExitStatus, JobSpec, Node, NodeId, NodeShare,
        Placement, Seconds, StopCause, TimeLimit, Usage,
    };

    fn at(s: i64) -> Timestamp {
        Timestamp::from_secs(s)
    }

    fn apply(state: &mut State, s: i64, kind: EventKind) {
        state.apply(&Event { at: at(s), kind }).unwrap();
    }

    /// A running job 1 with a limit of 100 s, and a waiting job 2.
    fn running() -> State {
        let mut state = State::default();
        let node = Node { id: NodeId(0), name: "n1".to_owned(), ..Node::default() };
        apply(&mut state, 0, EventKind::NodeSet { node: Box::new(node) });
        let spec = Arc::new(JobSpec {
            requeue: true,
            time_limit: Some(TimeLimit::Of(Seconds(100))),
            ..JobSpec::default()
        });
        for first in [1, 2] {
            let specs = vec![Arc::clone(&spec)];
            apply(&mut state, 0, EventKind::JobSubmitted { first: JobId(first), specs });
        }
        let share = NodeShare { node: NodeId(0), tasks: 1, ..NodeShare::default() };
        let placement = Arc::new(Placement { nodes: vec![share], ..Placement::default() });
        let time_limit = TimeLimit::Of(Seconds(100));
        let job = JobId(1);
        apply(&mut state, 0, EventKind::JobPlaced { job, attempt: 1, placement, time_limit });
        apply(&mut state, 0, EventKind::JobStarted { job, attempt: 1 });
        state
    }

    fn preempted(state: &mut State, mode: PreemptMode, stop_at: i64, until: i64) {
        let (stop_at, until) = (at(stop_at), at(until));
        let victim = Victim { job: JobId(1), attempt: 1, mode, stop_at, until, keeps: None };
        apply(state, 10, EventKind::JobPreempted { victim, by: JobId(2) });
    }

    fn exit(state: &mut State, s: i64, cause: EndCause, code: u8) {
        let report = ExitReport {
            status: ExitStatus { code, signal: 0 },
            cause,
            started: None,
            ended: at(s),
            usage: Usage::default(),
            message: String::new(),
            steps: Vec::new(),
        };
        apply(state, s, EventKind::JobExited { job: JobId(1), attempt: 1, report });
    }

    #[test]
    fn a_preempted_job_is_gone_when_its_grace_is_over_and_waits_again() {
        let mut state = running();
        preempted(&mut state, PreemptMode::Requeue, 10, 40);
        let job = state.jobs[&JobId(1)].clone();
        assert_eq!((job.state, job.ends_at_latest()), (JobState::Completing, Some(at(40))));
        exit(&mut state, 20, EndCause::Stopped, 143);
        let job = &state.jobs[&JobId(1)];
        assert_eq!((job.state, job.preemptions), (JobState::Pending, 1));
        assert_eq!(job.preempted.as_ref().map(|last| last.by), Some(JobId(2)));
        assert!(job.eviction.is_none() && job.stop.is_none());
    }

    #[test]
    fn one_preempted_by_cancelling_ends_as_preempted() {
        let mut state = running();
        preempted(&mut state, PreemptMode::Cancel, 10, 40);
        exit(&mut state, 20, EndCause::Stopped, 143);
        assert_eq!(state.jobs[&JobId(1)].state, JobState::Preempted);
    }

    #[test]
    fn one_that_checkpoints_and_leaves_by_itself_waits_again() {
        let mut state = running();
        preempted(&mut state, PreemptMode::Checkpoint, 30, 60);
        assert_eq!(state.jobs[&JobId(1)].state, JobState::Running);
        exit(&mut state, 20, EndCause::Exited, 0);
        assert_eq!(state.jobs[&JobId(1)].state, JobState::Pending);
    }

    #[test]
    fn one_that_gives_up_a_node_goes_on_with_the_others_once_nothing_runs_there() {
        let mut state = running();
        let (job, attempt) = (JobId(1), 1);
        let node = Node { id: NodeId(1), name: "n2".to_owned(), ..Node::default() };
        apply(&mut state, 0, EventKind::NodeSet { node: Box::new(node) });
        let share = |id| NodeShare { node: NodeId(id), tasks: 1, ..NodeShare::default() };
        let both = Arc::new(Placement { nodes: vec![share(0), share(1)], ..Placement::default() });
        let less = Arc::new(both.on_nodes(|id| id == NodeId(0)));
        apply(&mut state, 1, EventKind::JobResize { job, attempt, placement: both });
        apply(&mut state, 1, EventKind::JobResized { job, attempt });
        let (mode, keeps) = (PreemptMode::Shrink, Some(less));
        let victim = Victim { job, attempt, mode, stop_at: at(10), until: at(40), keeps };
        apply(&mut state, 10, EventKind::JobPreempted { victim: victim.clone(), by: JobId(2) });
        let now = &state.jobs[&job];
        assert_eq!((now.state, now.ends_at_latest()), (JobState::Running, Some(at(100))));
        assert!(victim.is_awaited(now) && now.preempted.is_none());
        apply(&mut state, 12, EventKind::JobResized { job, attempt });
        let now = &state.jobs[&job];
        assert_eq!(now.placement.as_ref().map(|p| p.nodes.len()), Some(1));
        assert!(!victim.is_awaited(now) && now.eviction.is_none() && now.resize.is_none());
        assert!(!state.index.on_node.contains_key(&NodeId(1)));
        assert!(state.index.evicted.is_empty());
    }

    #[test]
    fn one_that_grows_waits_again_for_what_is_held_for_it() {
        let mut state = running();
        let (job, attempt) = (JobId(1), 1);
        let keeps = state.jobs[&job].placement.clone();
        let (mode, stop_at, until) = (PreemptMode::Checkpoint, at(30), at(60));
        let victim = Victim { job, attempt, mode, stop_at, until, keeps: keeps.clone() };
        apply(&mut state, 10, EventKind::JobPreempted { victim, by: job });
        assert_eq!(state.jobs[&job].growth().map(|(_, end)| end), Some(at(160)));
        let cause = state.jobs[&job].eviction.as_ref().unwrap().stop_cause(&state.jobs[&job]);
        apply(&mut state, 30, EventKind::JobStop { job, cause, hurry: false });
        exit(&mut state, 35, EndCause::Exited, 0);
        let job = &state.jobs[&job];
        assert_eq!((job.state, job.preemptions), (JobState::Pending, 0));
        assert_eq!(job.claim.as_ref().map(|claim| claim.placement.clone()), keeps);
    }

    #[test]
    fn time_spent_standing_still_does_not_count() {
        let mut state = running();
        preempted(&mut state, PreemptMode::Suspend, 10, 50);
        let job = JobId(1);
        apply(&mut state, 10, EventKind::JobSuspended { job, attempt: 1, suspended: true });
        assert!(state.jobs[&job].yields_cpus());
        // 90 s are left when the other is over at 50.
        assert_eq!(state.jobs[&job].ends_at_latest(), Some(at(140)));
        apply(&mut state, 30, EventKind::JobSuspend { job, suspend: false });
        assert!(!state.jobs[&job].yields_cpus());
        apply(&mut state, 30, EventKind::JobSuspended { job, attempt: 1, suspended: false });
        assert_eq!(state.jobs[&job].ends_at_latest(), Some(at(120)));
    }

    fn stand(state: &mut State, ms: i64, suspended: bool) {
        let kind = EventKind::JobSuspended { job: JobId(1), attempt: 1, suspended };
        state.apply(&Event { at: Timestamp::from_millis(ms), kind }).unwrap();
    }

    #[test]
    fn run_time_stands_while_the_job_does_and_the_limit_with_it() {
        let mut state = running();
        let job = JobId(1);
        apply(&mut state, 40, EventKind::JobSuspend { job, suspend: true });
        stand(&mut state, 40_700, true);
        assert_eq!(state.jobs[&job].run_time(at(65)), Seconds(40));
        // Whoever suspended it says when it goes on: no end is known.
        assert_eq!(state.jobs[&job].ends_at_latest(), Some(Timestamp::NEVER));
        apply(&mut state, 70, EventKind::JobSuspend { job, suspend: false });
        stand(&mut state, 70_500, false);
        // 29.8 s stood still.
        assert_eq!(state.jobs[&job].ends_at_latest(), Some(Timestamp::from_millis(129_800)));
        assert_eq!(state.jobs[&job].run_time(at(80)), Seconds(50));
        // Pauses are added to the millisecond: 100 of 0.9 s are 90 s.
        for n in 0..100 {
            stand(&mut state, 80_000 + n * 1000, true);
            stand(&mut state, 80_900 + n * 1000, false);
        }
        assert_eq!(state.jobs[&job].run_time(at(180)), Seconds(60));
        exit(&mut state, 190, EndCause::Exited, 0);
        assert_eq!(state.jobs[&job].run_time(at(500)), Seconds(70));
    }

    #[test]
    fn a_step_stands_still_with_its_job() {
        let mut state = running();
        let job = JobId(1);
        let mut step = crate::StepRecord {
            id: crate::StepId::Number(0),
            name: "work".to_owned(),
            tasks: 1,
            nodes: 1,
            started: at(20),
            ended: None,
            paused_ms: 0,
            status: ExitStatus::SUCCESS,
            usage: Usage::default(),
        };
        apply(&mut state, 20, EventKind::StepObserved { job, attempt: 1, step: step.clone() });
        stand(&mut state, 30_000, true);
        stand(&mut state, 45_000, false);
        // What the engine says of the step later leaves the count alone.
        step.ended = Some(at(50));
        apply(&mut state, 50, EventKind::StepObserved { job, attempt: 1, step: step.clone() });
        assert_eq!(state.jobs[&job].steps[0].paused_ms, 15_000);
        assert!(state.jobs[&job].steps[0].is_as_seen(&step));
        stand(&mut state, 60_000, true);
        let script = crate::StepRecord { id: crate::StepId::Batch, started: at(0), ..step.clone() };
        let report = ExitReport {
            status: ExitStatus::SUCCESS,
            cause: EndCause::Exited,
            started: Some(at(0)),
            ended: at(62),
            usage: Usage::default(),
            message: String::new(),
            steps: vec![crate::StepRecord { ended: Some(at(62)), ..script }, step],
        };
        apply(&mut state, 62, EventKind::JobExited { job, attempt: 1, report });
        let paused: Vec<u64> = state.jobs[&job].steps.iter().map(|step| step.paused_ms).collect();
        assert_eq!(paused, [17_000, 15_000]);
    }

    #[test]
    fn what_is_ended_while_it_stands_still_goes_on_for_that() {
        let mut state = running();
        let job = JobId(1);
        stand(&mut state, 10_000, true);
        let cause = StopCause::Cancelled(0);
        apply(&mut state, 20, EventKind::JobStop { job, cause, hurry: false });
        stand(&mut state, 20_000, false);
        exit(&mut state, 25, EndCause::Stopped, 143);
        assert_eq!(state.jobs[&job].state, JobState::Cancelled);
        assert_eq!(state.jobs[&job].run_time(at(99)), Seconds(15));
    }
}
