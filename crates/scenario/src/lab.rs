//! A state with a clock: submit, carry plans out, let jobs end.

use crate::carry::Stage;
use crate::error::{Fault, Read, ScenarioError};
use crate::text::{JOBS_MAX, MINUTES_MAX, Word, words};
use crate::{carry, fixture, job, print, tell};
use muster_model::{
    EndCause, Event, EventKind, ExitStatus, IdleGpus, Job, JobId, JobSpec, Plan, PreemptMode,
    ReservationFlag, Seconds, State, StopCause, Timestamp,
};
use std::sync::Arc;

/// A state that is driven by events, from t=0, and remembers as a script what was done to it.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The state so far.
    pub state: State,
    /// The clock.
    pub now: Timestamp,
    /// Every event applied, in order.
    pub log: Vec<Event>,
    script: Vec<String>,
}

impl Default for Lab {
    fn default() -> Self {
        let now = Timestamp::from_secs(0);
        Self { state: State::default(), now, log: Vec::new(), script: Vec::new() }
    }
}

impl carry::Stage for Lab {
    type Error = ScenarioError;

    fn state(&self) -> &State {
        &self.state
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn apply(&mut self, kind: EventKind) -> Read<()> {
        let event = Event { at: self.now, kind };
        self.state.apply(&event)?;
        self.log.push(event);
        Ok(())
    }
}

impl Lab {
    /// Applies one line that describes the site.
    ///
    /// # Errors
    /// It cannot be read, or is no such line.
    pub fn set_up(&mut self, line: &str) -> Read<()> {
        if self.site_line(&words(line)?)? {
            return Ok(());
        }
        let message = format!("`{}` is not a line about the site", line.trim());
        let hint = format!("begin with one of {}", fixture::WORDS.join(", "));
        Err(ScenarioError::new(Fault::Command, message).hint(hint))
    }

    /// Applies a line that describes the site; false where it is another.
    pub(crate) fn site_line(&mut self, words: &[Word]) -> Read<bool> {
        let Some(events) = fixture::line_events(&self.state, words)? else { return Ok(false) };
        events.into_iter().try_for_each(|kind| self.apply(kind))?;
        self.note(&tell::line(words), &[]);
        Ok(true)
    }

    /// Applies an event at the present instant.
    ///
    /// # Errors
    /// It cannot follow what came before.
    pub fn event(&mut self, kind: EventKind) -> Read<()> {
        let line = tell::event(&self.state, &kind);
        self.apply(kind)?;
        self.script.push(line);
        Ok(())
    }

    /// Applies the event of a command and remembers the command.
    pub(crate) fn obeyed(&mut self, command: &str, kind: EventKind) -> Read<()> {
        self.apply(kind)?;
        self.note(command, &[]);
        Ok(())
    }

    /// Remembers a command and what it printed.
    fn note(&mut self, command: &str, printed: &[String]) {
        self.script.push(format!("> {command}"));
        self.script.extend(printed.iter().map(|line| format!("  {line}")));
    }

    /// What was done so far, as a scenario: the same commands lead to the same state.
    ///
    /// Events that no command stands for are in it as comments.
    pub fn script(&self) -> String {
        self.script.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// Sets the clock to so many minutes after t=0; what is over by then ends.
    ///
    /// # Errors
    /// That is before now, or after the last minute that there is.
    pub fn at_minute(&mut self, minute: u64) -> Read<()> {
        if minute > MINUTES_MAX {
            return Err(ScenarioError::large("minutes", MINUTES_MAX));
        }
        let then = Timestamp::from_secs(minute as i64 * 60);
        if then < self.now {
            let message = format!("t={minute} is over: it is {}", print::time(self.now));
            return Err(ScenarioError::new(Fault::Order, message).hint("the clock goes forward"));
        }
        self.now = then;
        self.apply(EventKind::Round)?;
        self.enforce_limits()?;
        self.pass_reservations()?;
        self.note(&format!("at {minute}"), &[]);
        Ok(())
    }

    /// Submits a job or array; gives its (first) number.
    ///
    /// # Errors
    /// The line cannot be read, or there are too many jobs.
    pub fn submit(&mut self, line: &str) -> Read<JobId> {
        self.submit_words(&words(line)?)
    }

    /// Submits a heterogeneous job: one line a component, parted by ` : `.
    ///
    /// # Errors
    /// A line cannot be read, or there are too many jobs.
    pub fn submit_het(&mut self, lines: &str) -> Read<JobId> {
        self.submit_words(&words(lines)?)
    }

    /// Submits a job, or the components between words that are `:`.
    pub(crate) fn submit_words(&mut self, words: &[Word]) -> Read<JobId> {
        let first = JobId(self.state.last_job.0 + 1);
        self.apply(self.submission(words)?)?;
        let verb = if words.iter().any(|word| word.text == ":") { "submit-het" } else { "submit" };
        let printed = print::submitted(&self.state, first);
        self.note(&format!("{verb} {}", tell::line(words)), &[printed]);
        Ok(first)
    }

    /// The event of such a submission.
    pub(crate) fn submission(&self, words: &[Word]) -> Read<EventKind> {
        let components = words.split(|word| word.text == ":");
        let specs = components.map(|words| self.spec_of(words)).collect::<Read<Vec<_>>>()?;
        let of = |spec: &JobSpec| spec.array.as_ref().map_or(1, |array| array.indices.len());
        let count = specs.iter().map(of).fold(0u32, u32::saturating_add);
        if count > JOBS_MAX.saturating_sub(self.state.last_job.0) {
            return Err(ScenarioError::large("jobs", JOBS_MAX));
        }
        let first = JobId(self.state.last_job.0 + 1);
        Ok(EventKind::JobSubmitted { first, specs: specs.into_iter().map(Arc::new).collect() })
    }

    /// The spec that a line stands for.
    ///
    /// # Errors
    /// The line cannot be read.
    pub fn spec(&self, line: &str) -> Read<JobSpec> {
        self.spec_of(&words(line)?)
    }

    fn spec_of(&self, words: &[Word]) -> Read<JobSpec> {
        job::spec(words, &|name| self.find(name))
    }

    /// The job with this number or name (the first of that name that is not over, else the
    /// latest), or an array's task as `name_3`. A number need not be in the state.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn find(&self, name: &str) -> Read<JobId> {
        let task = name.rsplit_once('_').and_then(|(a, i)| Some((a, i.parse::<u32>().ok()?)));
        if let Some((array, index)) = task
            && let Some(task) =
                self.find_whole(array).and_then(|id| self.state.array_task(id, index))
        {
            return Ok(task);
        }
        self.find_whole(name).ok_or_else(|| {
            let known = self.state.jobs.values().map(|job| job.spec.name.as_str());
            ScenarioError::name("job", name, known)
        })
    }

    /// The job with this number, or the first of an array or alone with this name.
    fn find_whole(&self, name: &str) -> Option<JobId> {
        if let Ok(id) = name.parse() {
            return Some(JobId(id));
        }
        let is_first = |j: &&Arc<Job>| j.array.is_none_or(|task| task.array == j.id);
        let of_name = || self.state.jobs.values().filter(|j| j.spec.name == name).filter(is_first);
        let waits_or_runs = of_name().find(|j| !j.state.is_over());
        waits_or_runs.or_else(|| of_name().next_back()).map(|j| j.id)
    }

    /// A job of the state.
    ///
    /// # Errors
    /// It is not there.
    pub fn job(&self, id: JobId) -> Read<&Job> {
        let missing = || ScenarioError::new(Fault::Name, format!("there is no job {id}"));
        self.state.jobs.get(&id).map(AsRef::as_ref).ok_or_else(missing)
    }

    /// Carries a plan out: every start becomes a running job, every rejection an end.
    ///
    /// # Errors
    /// A decision does not fit the state.
    pub fn carry_out(&mut self, plan: &Plan) -> Read<()> {
        let printed = print::plan(&self.state, plan);
        plan.decisions.iter().try_for_each(|decision| carry::carry_out(self, decision))?;
        self.note("plan", &printed);
        Ok(())
    }

    /// Makes a running job stand still by hand, or go on; one whose CPUs others run on goes on
    /// after them.
    ///
    /// # Errors
    /// There is no such job, or it does not run or stand still.
    pub fn suspend_by_hand(&mut self, job: JobId, suspend: bool) -> Read<()> {
        self.event(EventKind::JobSuspend { job, suspend })?;
        if self.job(job)?.suspend == suspend {
            carry::suspended(self, job, suspend)?;
        }
        Ok(())
    }

    /// Lets a job's attempt end by itself with this code.
    ///
    /// # Errors
    /// It does not run.
    pub fn exit(&mut self, job: JobId, code: u8) -> Read<()> {
        self.ended(job, ExitStatus { code, signal: 0 }, EndCause::Exited)?;
        self.note(&format!("exit {job} {code}"), &[]);
        Ok(())
    }

    /// Lets a job be lost with its node.
    ///
    /// # Errors
    /// It does not run.
    pub fn lose(&mut self, job: JobId) -> Read<()> {
        self.ended(job, ExitStatus::default(), EndCause::NodeLost)?;
        self.note(&format!("lose {job}"), &[]);
        Ok(())
    }

    fn ended(&mut self, job: JobId, status: ExitStatus, cause: EndCause) -> Read<()> {
        let record = self.job(job)?;
        if !record.state.holds_resources() {
            let message = format!("job {job} does not run");
            return Err(ScenarioError::new(Fault::Order, message).hint("start it first: > plan"));
        }
        carry::end(self, job, status, cause)
    }

    /// Cancels a job; a running one is gone at once.
    ///
    /// # Errors
    /// It is over, or not there.
    pub fn cancel(&mut self, job: JobId) -> Read<()> {
        self.stop(job, StopCause::Cancelled(1000))?;
        self.note(&format!("cancel {job}"), &[]);
        Ok(())
    }

    /// Takes back a job's GPUs, which did nothing for an hour: it waits again, held.
    ///
    /// # Errors
    /// It does not run.
    pub fn take_back(&mut self, job: JobId) -> Read<()> {
        let (attempt, after) = (self.job(job)?.attempt, Seconds(3_600));
        let gpus = self.job(job)?.placement.iter().map(|p| p.nodes.iter());
        let gpus = gpus.flatten().map(|share| share.devices.len() as u32).sum();
        let since = self.now;
        let idle = Some(IdleGpus { gpus, since, until: Some(since), taken_after: Some(after) });
        self.apply(EventKind::JobIdle { job, attempt, idle })?;
        self.stop(job, StopCause::Requeue { hold: true })?;
        self.note(&format!("take-back {job}"), &[]);
        Ok(())
    }

    /// Ends a job from outside, at once.
    fn stop(&mut self, job: JobId, cause: StopCause) -> Read<()> {
        self.apply(EventKind::JobStop { job, cause, hurry: false })?;
        if self.job(job)?.state.holds_resources() {
            self.ended(job, ExitStatus { code: 0, signal: 15 }, EndCause::Stopped)?;
        }
        Ok(())
    }

    /// Reservations whose time is over go on to their next occurrence or away; jobs that still run
    /// in them end.
    fn pass_reservations(&mut self) -> Read<()> {
        let reservations = self.state.reservations.values();
        let over = reservations.filter(|r| r.float.is_none() && r.window.end <= self.now);
        for reservation in over.cloned().collect::<Vec<_>>() {
            let name = reservation.name.clone();
            let inside = |id: &&JobId| {
                let placement = self.state.jobs.get(*id).and_then(|job| job.placement.as_ref());
                placement.is_some_and(|p| p.reservation.as_ref() == Some(&name))
            };
            let inside: Vec<JobId> =
                self.state.index.active.iter().filter(inside).copied().collect();
            if !reservation.has(ReservationFlag::Flex) {
                for job in inside {
                    self.stop(job, StopCause::ReservationOver)?;
                }
            }
            let mut later = reservation.later.iter().filter(|w| w.end > self.now).copied();
            self.apply(match later.next() {
                Some(window) => {
                    EventKind::ReservationAdvanced { name, window, later: later.collect() }
                }
                None => EventKind::ReservationRemoved { name },
            })?;
        }
        Ok(())
    }

    /// Ends every job whose time limit or grace has come, in order of number; before that, those
    /// that had their time for a checkpoint are told to end.
    fn enforce_limits(&mut self) -> Read<()> {
        for id in self.state.index.evicted.clone() {
            let job = self.job(id)?;
            let due = job.eviction.as_ref().filter(|e| {
                e.mode == PreemptMode::Checkpoint && e.stop_at <= self.now && job.stop.is_none()
            });
            if let Some(cause) = due.map(|e| e.stop_cause(job)) {
                self.apply(EventKind::JobStop { job: id, cause, hurry: false })?;
            }
        }
        let jobs = self.state.index.active.iter().filter_map(|id| self.state.jobs.get(id));
        let over = jobs.filter(|job| match job.turn {
            // Who takes turns ends by its own limit.
            Some(_) => job.is_to_run() && job.left_ms(self.now) == Some(0),
            None => job.ends_at_latest().is_some_and(|end| end <= self.now),
        });
        for job in over.map(|job| job.id).collect::<Vec<_>>() {
            let cause = match self.job(job)?.stop {
                Some(_) => EndCause::Stopped,
                None => EndCause::TimeLimit,
            };
            self.ended(job, ExitStatus { code: 0, signal: 15 }, cause)?;
        }
        Ok(())
    }
}
