//! A state with a clock: submit, carry plans out, let jobs end.

use crate::{fixture, job_text};
use muster_model::{
    Decision, EndCause, Event, EventKind, ExitReport, ExitStatus, JobId, JobSpec, JobState, Plan,
    PreemptMode, ReservationFlag, State, StopCause, Timestamp, Usage,
};
use std::sync::Arc;

/// A state that a test drives by events, from t=0.
#[derive(Clone, Debug, Default)]
pub struct Lab {
    /// The state so far.
    pub state: State,
    /// The clock.
    pub now: Timestamp,
    /// Every event applied, in order.
    pub log: Vec<Event>,
}

impl Lab {
    /// A laboratory with the fixture's nodes and rules, one per line.
    pub fn new(fixture: &str) -> Self {
        let mut lab = Self { now: Timestamp::from_secs(0), ..Self::default() };
        for line in fixture.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'))
        {
            lab.set_up(line);
        }
        lab
    }

    /// Applies one line of a fixture.
    pub fn set_up(&mut self, line: &str) {
        let events = fixture::line_events(&self.state, line)
            .unwrap_or_else(|| panic!("not a line of a fixture: {line:?}"));
        for kind in events {
            self.event(kind);
        }
    }

    /// Applies an event at the present instant.
    pub fn event(&mut self, kind: EventKind) {
        let event = Event { at: self.now, kind };
        if let Err(error) = self.state.apply(&event) {
            panic!("{error}: {event:?}");
        }
        self.log.push(event);
    }

    /// Sets the clock to so many minutes after t=0.
    pub fn at_minute(&mut self, minute: i64) {
        self.now = Timestamp::from_secs(minute * 60);
        self.event(EventKind::Round);
    }

    /// Submits a job or array; gives its (first) number.
    pub fn submit(&mut self, line: &str) -> JobId {
        let spec = self.spec(line);
        self.submit_specs(vec![spec])
    }

    /// Submits a heterogeneous job: one line a component, parted by ` : `.
    pub fn submit_het(&mut self, lines: &str) -> JobId {
        let specs = lines.split(" : ").map(|line| self.spec(line)).collect();
        self.submit_specs(specs)
    }

    /// The spec that a line stands for.
    pub fn spec(&self, line: &str) -> JobSpec {
        job_text::spec(line, &|name| self.find(name))
    }

    /// Submits specs as they are.
    pub fn submit_specs(&mut self, specs: Vec<JobSpec>) -> JobId {
        let first = JobId(self.state.last_job.0 + 1);
        let specs = specs.into_iter().map(Arc::new).collect();
        self.event(EventKind::JobSubmitted { first, specs });
        first
    }

    /// The job with this number or name (the latest of that name that is not over, else the
    /// latest), or an array's task as `name_3`.
    pub fn find(&self, name: &str) -> JobId {
        if let Ok(id) = name.parse() {
            return JobId(id);
        }
        if let Some((array, index)) = name.rsplit_once('_')
            && let Ok(index) = index.parse()
        {
            let first = self.find(array);
            return self
                .state
                .array_task(first, index)
                .unwrap_or_else(|| panic!("no task {index} of {array}"));
        }
        let of_name = || {
            self.state
                .jobs
                .values()
                .filter(|j| j.spec.name == name && j.array.is_none_or(|t| t.array == j.id))
        };
        of_name()
            .filter(|j| !j.state.is_over())
            .map(|j| j.id)
            .next()
            .or_else(|| of_name().map(|j| j.id).next_back())
            .unwrap_or_else(|| panic!("no job {name:?}"))
    }

    /// Carries a plan out: every start becomes a running job, every rejection an end.
    pub fn carry_out(&mut self, plan: &Plan) {
        for decision in &plan.decisions {
            match decision {
                Decision::Start(starts) => {
                    for start in starts {
                        self.event(EventKind::JobPlaced {
                            job: start.job,
                            attempt: start.attempt,
                            placement: Arc::clone(&start.placement),
                            time_limit: start.time_limit,
                        });
                    }
                    for start in starts {
                        let (job, attempt) = (start.job, start.attempt);
                        self.event(EventKind::JobStarted { job, attempt });
                    }
                }
                Decision::Reject { job, reason } => {
                    self.event(EventKind::JobRejected { job: *job, reason: reason.clone() });
                }
                Decision::Preempt(preempt) => {
                    for event in preempt.events(self.now) {
                        self.event(event);
                    }
                    for victim in &preempt.victims {
                        if victim.mode == PreemptMode::Suspend {
                            self.suspended(victim.job, true);
                        }
                    }
                }
                Decision::Resume { job } => {
                    self.event(EventKind::JobSuspend { job: *job, suspend: false });
                    self.suspended(*job, false);
                }
            }
        }
    }

    fn suspended(&mut self, job: JobId, suspended: bool) {
        let attempt = self.state.jobs[&job].attempt;
        self.event(EventKind::JobSuspended { job, attempt, suspended });
    }

    /// Lets a job's attempt end by itself with this code.
    pub fn exit(&mut self, job: JobId, code: u8) {
        self.end(job, ExitStatus { code, signal: 0 }, EndCause::Exited);
    }

    /// Lets a job's attempt end for a cause.
    pub fn end(&mut self, job: JobId, status: ExitStatus, cause: EndCause) {
        let record = &self.state.jobs[&job];
        let (attempt, started) = (record.attempt, record.started);
        let report = ExitReport {
            status,
            cause,
            started,
            ended: self.now,
            usage: Usage::default(),
            message: String::new(),
            steps: Vec::new(),
        };
        self.event(EventKind::JobExited { job, attempt, report });
    }

    /// Cancels a job; a running one is gone at once.
    pub fn cancel(&mut self, job: JobId) {
        self.event(EventKind::JobStop { job, cause: StopCause::Cancelled(1000), hurry: false });
        if self.state.jobs[&job].state.holds_resources() {
            self.end(job, ExitStatus { code: 0, signal: 15 }, EndCause::Stopped);
        }
    }

    /// Where a job stands.
    pub fn state_of(&self, job: JobId) -> JobState {
        self.state.jobs[&job].state
    }

    /// Reservations whose time is over go on to their next occurrence or away; jobs that still run
    /// in them end.
    pub fn pass_reservations(&mut self) {
        let over: Vec<_> = self
            .state
            .reservations
            .values()
            .filter(|r| r.float.is_none() && r.window.end <= self.now)
            .cloned()
            .collect();
        for reservation in over {
            let name = reservation.name.clone();
            let inside = |id: &&JobId| {
                let placement = self.state.jobs[*id].placement.as_ref();
                placement.is_some_and(|p| p.reservation.as_ref() == Some(&name))
            };
            let inside: Vec<JobId> =
                self.state.index.active.iter().filter(inside).copied().collect();
            if !reservation.has(ReservationFlag::Flex) {
                for job in inside {
                    let cause = StopCause::ReservationOver;
                    self.event(EventKind::JobStop { job, cause, hurry: false });
                    self.end(job, ExitStatus { code: 0, signal: 15 }, EndCause::Stopped);
                }
            }
            let mut later = reservation.later.iter().filter(|w| w.end > self.now).copied();
            self.event(match later.next() {
                Some(window) => {
                    EventKind::ReservationAdvanced { name, window, later: later.collect() }
                }
                None => EventKind::ReservationRemoved { name },
            });
        }
    }

    /// Ends every job whose time limit or grace has come, in order of number; before that, those
    /// that had their time for a checkpoint are told to end.
    pub fn enforce_limits(&mut self) {
        for id in self.state.index.evicted.clone() {
            let job = &self.state.jobs[&id];
            let due = job.eviction.as_ref().filter(|e| {
                e.mode == PreemptMode::Checkpoint && e.stop_at <= self.now && job.stop.is_none()
            });
            if let Some(by) = due.map(|e| e.by) {
                self.event(EventKind::JobStop {
                    job: id,
                    cause: StopCause::Preempted(by),
                    hurry: false,
                });
            }
        }
        let over: Vec<JobId> = self
            .state
            .index
            .active
            .iter()
            .filter(|id| self.state.jobs[*id].ends_at_latest().is_some_and(|end| end <= self.now))
            .copied()
            .collect();
        for job in over {
            let cause = match self.state.jobs[&job].stop {
                Some(_) => EndCause::Stopped,
                None => EndCause::TimeLimit,
            };
            self.end(job, ExitStatus { code: 0, signal: 15 }, cause);
        }
    }
}
