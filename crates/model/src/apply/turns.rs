//! Turns: who runs of those that have the same CPUs or GPUs.

use super::ApplyError;
use crate::{Job, JobId, JobState, State, Timestamp, Turn};

impl State {
    pub(super) fn turn(
        &mut self,
        at: Timestamp,
        id: JobId,
        attempt: u32,
        turn: Option<Turn>,
    ) -> Result<(), ApplyError> {
        let Some(old) = self.current("job_turn", id, attempt)? else { return Ok(()) };
        if old.state == JobState::Completing {
            return Ok(());
        }
        let mut new = Job::clone(&old);
        new.turn = turn;
        let runs = turn.is_none_or(|turn| turn.runs);
        // Who was made to stand still by an admin goes on doing so.
        let by_hand = old.suspend && !old.waits_for_turn();
        if !by_hand {
            new.suspend = !runs;
        }
        if !runs && new.state == JobState::Starting && new.started.is_none() {
            // It is launched when its turn comes: until then it only has its memory.
            new.state = JobState::Suspended;
            new.stands_since = Some(at);
        }
        new.launch_where_due(at);
        self.replace(&old, new);
        Ok(())
    }
}

impl Job {
    /// What stood still before it was ever launched starts once it may run.
    pub(super) fn launch_where_due(&mut self, at: Timestamp) {
        let waits = self.state == JobState::Suspended && self.started.is_none();
        if waits && !self.suspend {
            self.state = JobState::Starting;
            self.end_pause(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Event, EventKind, JobId, JobSpec, JobState, Node, NodeId, NodeShare, Placement, Seconds,
        State, TimeLimit, Timestamp, Turn,
    };
    use std::sync::Arc;

    fn at(s: i64) -> Timestamp {
        Timestamp::from_secs(s)
    }

    fn apply(state: &mut State, s: i64, kind: EventKind) {
        state.apply(&Event { at: at(s), kind }).unwrap();
    }

    fn turn(state: &mut State, s: i64, runs: bool) {
        let turn = Some(Turn { runs, since: at(s), until: at(1000) });
        apply(state, s, EventKind::JobTurn { job: JobId(1), attempt: 1, turn });
    }

    /// Job 1, placed at 0 with a limit of 100 s.
    fn placed() -> State {
        let mut state = State::default();
        let node = Node { id: NodeId(0), name: "n1".to_owned(), ..Node::default() };
        apply(&mut state, 0, EventKind::NodeSet { node: Box::new(node) });
        let specs = vec![Arc::new(JobSpec::default())];
        apply(&mut state, 0, EventKind::JobSubmitted { first: JobId(1), specs });
        let share = NodeShare { node: NodeId(0), tasks: 1, ..NodeShare::default() };
        let placement = Arc::new(Placement { nodes: vec![share], ..Placement::default() });
        let time_limit = TimeLimit::Of(Seconds(100));
        let job = JobId(1);
        apply(&mut state, 0, EventKind::JobPlaced { job, attempt: 1, placement, time_limit });
        state
    }

    fn standing(state: &State) -> (JobState, bool) {
        (state.jobs[&JobId(1)].state, state.jobs[&JobId(1)].suspend)
    }

    #[test]
    fn one_that_shares_is_launched_when_its_turn_comes() {
        let mut state = placed();
        turn(&mut state, 0, false);
        assert_eq!(standing(&state), (JobState::Suspended, true));
        assert_eq!(state.jobs[&JobId(1)].run_time(at(25)), Seconds(0));
        assert_eq!(state.jobs[&JobId(1)].left_ms(at(25)), Some(100_000));
        turn(&mut state, 30, true);
        assert_eq!(standing(&state), (JobState::Starting, false));
        apply(&mut state, 30, EventKind::JobStarted { job: JobId(1), attempt: 1 });
        assert_eq!(state.jobs[&JobId(1)].left_ms(at(40)), Some(90_000));
        // The bound is that of all who share.
        assert_eq!(state.jobs[&JobId(1)].ends_at_latest(), Some(at(1000)));
        turn(&mut state, 60, false);
        assert_eq!(standing(&state), (JobState::Running, true));
        apply(
            &mut state,
            60,
            EventKind::JobSuspended { job: JobId(1), attempt: 1, suspended: true },
        );
        assert_eq!(standing(&state), (JobState::Suspended, true));
        assert_eq!(state.jobs[&JobId(1)].run_time(at(80)), Seconds(30));
        // Nobody shares any more: it goes on, and its limit is its own again.
        apply(&mut state, 90, EventKind::JobTurn { job: JobId(1), attempt: 1, turn: None });
        apply(
            &mut state,
            90,
            EventKind::JobSuspended { job: JobId(1), attempt: 1, suspended: false },
        );
        assert_eq!(standing(&state), (JobState::Running, false));
        assert_eq!(state.jobs[&JobId(1)].ends_at_latest(), Some(at(160)));
    }

    #[test]
    fn an_admin_who_suspends_it_comes_before_turns() {
        let mut state = placed();
        turn(&mut state, 0, false);
        apply(&mut state, 10, EventKind::JobSuspend { job: JobId(1), suspend: true });
        assert!(!state.jobs[&JobId(1)].waits_for_turn());
        turn(&mut state, 30, true);
        assert_eq!(standing(&state), (JobState::Suspended, true));
        apply(&mut state, 40, EventKind::JobSuspend { job: JobId(1), suspend: false });
        assert_eq!(standing(&state), (JobState::Starting, false));
    }

    #[test]
    fn one_that_ends_has_no_turn() {
        let mut state = placed();
        turn(&mut state, 0, false);
        let cause = crate::StopCause::Cancelled(0);
        apply(&mut state, 5, EventKind::JobStop { job: JobId(1), cause, hurry: false });
        turn(&mut state, 30, true);
        assert_eq!(standing(&state), (JobState::Completing, false));
    }
}
