//! Commands on jobs: submission, change, hold, stop, signal, and being forgotten.

use super::ApplyError;
use crate::state::ArrayRecord;
use crate::{
    ArrayTask, HetPart, Hold, Job, JobId, JobSpec, JobState, JobUpdate, PendingSignal, Reason,
    SignalScope, State, Stop, StopCause, TimeLimit, Timestamp,
};
use std::sync::Arc;

impl State {
    pub(super) fn submit(
        &mut self,
        at: Timestamp,
        first: JobId,
        specs: &[Arc<JobSpec>],
    ) -> Result<(), ApplyError> {
        let bad = ApplyError::BadSubmission { first };
        if first <= self.last_job || specs.is_empty() {
            return Err(bad);
        }
        if specs.len() > 1 && specs.iter().any(|s| s.array.is_some()) {
            return Err(bad);
        }
        match specs[0].array.as_ref().filter(|_| specs.len() == 1) {
            Some(array) => {
                if array.indices.is_empty() {
                    return Err(bad);
                }
                let size = array.indices.len();
                let record =
                    ArrayRecord { size, throttle: array.throttle, ..ArrayRecord::default() };
                self.index.arrays.insert(first, record);
                let spec = self.shared(&specs[0]);
                for (raw, index) in (first.0..).zip(array.indices.iter()) {
                    let mut job = self.new_job(at, JobId(raw), &spec);
                    job.array = Some(ArrayTask { array: first, index });
                    self.enlist(at, job);
                }
                self.last_job = JobId(first.0 + size - 1);
            }
            None => {
                let size = specs.len() as u32;
                for (offset, spec) in (0..size).zip(specs) {
                    let spec = self.shared(spec);
                    let mut job = self.new_job(at, JobId(first.0 + offset), &spec);
                    job.het = (size > 1).then_some(HetPart { leader: first, offset, size });
                    self.enlist(at, job);
                }
                self.last_job = JobId(first.0 + size - 1);
            }
        }
        Ok(())
    }

    /// The spec of the job before, where it is the same: the same script submitted again and again
    /// is kept once.
    fn shared(&self, spec: &Arc<JobSpec>) -> Arc<JobSpec> {
        // What mostly differs comes first: to compare all of two specs takes longer than to keep one.
        let alike = |a: &JobSpec, b: &JobSpec| {
            a.owner.uid == b.owner.uid
                && a.time_limit == b.time_limit
                && a.request.cpus_per_task == b.request.cpus_per_task
        };
        match self.jobs.get(&self.last_job) {
            Some(before) if Arc::ptr_eq(&before.spec, spec) => Arc::clone(spec),
            Some(before) if alike(&before.spec, spec) && before.spec == *spec => {
                Arc::clone(&before.spec)
            }
            _ => Arc::clone(spec),
        }
    }

    fn new_job(&self, at: Timestamp, id: JobId, spec: &Arc<JobSpec>) -> Job {
        Job {
            id,
            spec: Arc::clone(spec),
            array: None,
            het: None,
            submitted: at,
            eligible: None,
            state: JobState::Pending,
            hold: spec.hold.then_some(Hold::User),
            time_limit: self.limit_of(spec),
            estimate: self.estimate(at, spec.owner.uid, self.limit_of(spec)),
            gates: Vec::new(),
            attempt: 0,
            placement: None,
            charge: Arc::default(),
            placed: None,
            placed_seq: 0,
            started: None,
            stop: None,
            signals: Vec::new(),
            signals_asked: 0,
            suspend: false,
            claim: None,
            eviction: None,
            lends: false,
            resumes: false,
            resize: None,
            turn: None,
            stands_since: None,
            resumed: None,
            paused: crate::Seconds(0),
            paused_ms: 0,
            checkpointed: None,
            idle: None,
            preemptions: 0,
            preempted: None,
            ended: None,
            exit: None,
            message: String::new(),
            usage: crate::Usage::default(),
            steps: Vec::new(),
        }
    }

    /// The limit asked for, or the default of the first partition that is there.
    fn limit_of(&self, spec: &JobSpec) -> TimeLimit {
        spec.time_limit.unwrap_or_else(|| {
            spec.partitions
                .iter()
                .find_map(|name| self.partitions.get(name))
                .map_or(TimeLimit::Unlimited, |p| p.default_time())
        })
    }

    fn enlist(&mut self, at: Timestamp, mut job: Job) {
        job.gates = self.resolve_gates(at, &job);
        if let Some(task) = job.array
            && let Some(record) = self.index.arrays.get_mut(&task.array)
        {
            record.enter(&job);
        }
        self.index.add(&job);
        job.eligible = self.eligible_from(at, &job);
        self.jobs.insert(job.id, Arc::new(job));
    }

    pub(super) fn update(
        &mut self,
        at: Timestamp,
        id: JobId,
        update: &JobUpdate,
    ) -> Result<(), ApplyError> {
        let old = self.known("job_updated", id)?;
        let mut new = Job::clone(&old);
        if let Some(spec) = &update.spec {
            if !old.is_pending() {
                return Err(ApplyError::OutOfOrder {
                    event: "job_updated",
                    job: id,
                    why: "only a waiting job can be described anew".to_owned(),
                });
            }
            let dependency_changed = spec.dependency != old.spec.dependency;
            let limit_changed = spec.time_limit != old.spec.time_limit;
            new.spec = Arc::clone(spec);
            new.claim = None;
            if limit_changed {
                new.time_limit = self.limit_of(spec);
            }
            if dependency_changed {
                new.gates = self.resolve_gates(at, &new);
            }
        }
        if let Some(limit) = update.time_limit {
            Arc::make_mut(&mut new.spec).time_limit = Some(limit);
            new.time_limit = limit;
        }
        if let Some(labels) = &update.labels {
            Arc::make_mut(&mut new.spec).labels.clone_from(labels);
        }
        if let Some(comment) = &update.comment {
            Arc::make_mut(&mut new.spec).comment.clone_from(comment);
        }
        if let Some(throttle) = update.array_throttle
            && let Some(task) = old.array
            && let Some(record) = self.index.arrays.get_mut(&task.array)
        {
            record.throttle = throttle;
        }
        self.replace(&old, new);
        self.refresh_eligible(at, id);
        Ok(())
    }

    pub(super) fn hold(&mut self, at: Timestamp, id: JobId, hold: &Hold) -> Result<(), ApplyError> {
        let old = self.known("job_held", id)?;
        if !old.is_pending() {
            return Ok(());
        }
        let mut new = Job::clone(&old);
        new.claim = None;
        // An owner's hold does not weaken an admin's.
        if !(old.hold == Some(Hold::Admin) && *hold == Hold::User) {
            new.hold = Some(hold.clone());
        }
        self.replace(&old, new);
        self.refresh_eligible(at, id);
        Ok(())
    }

    pub(super) fn release(&mut self, at: Timestamp, id: JobId) -> Result<(), ApplyError> {
        let old = self.known("job_released", id)?;
        let mut new = Job::clone(&old);
        new.hold = None;
        self.replace(&old, new);
        self.refresh_eligible(at, id);
        Ok(())
    }

    pub(super) fn stop(
        &mut self,
        at: Timestamp,
        id: JobId,
        cause: &StopCause,
        hurry: bool,
    ) -> Result<(), ApplyError> {
        let old = self.known("job_stop", id)?;
        if old.state.is_over() {
            return Ok(());
        }
        let mut new = Job::clone(&old);
        if old.is_pending() {
            match cause {
                StopCause::Requeue { hold: true } => return self.hold(at, id, &Hold::User),
                StopCause::Requeue { hold: false }
                | StopCause::Preempted(_)
                | StopCause::Taint(_)
                | StopCause::ReservationOver => return Ok(()),
                StopCause::Cancelled(_) | StopCause::HetPeer => new.state = JobState::Cancelled,
                StopCause::Deadline => new.state = JobState::Deadline,
            }
            new.stop = Some(Stop { cause: cause.clone(), at, hurry });
            new.claim = None;
            new.ended = Some(at);
            self.replace(&old, new);
            self.settle_dependents(at, id);
            return Ok(());
        }
        // A cancellation is final; nothing weaker takes its place.
        match &mut new.stop {
            Some(stop) if matches!(stop.cause, StopCause::Cancelled(_)) => stop.hurry |= hurry,
            stop => *stop = Some(Stop { cause: cause.clone(), at, hurry }),
        }
        new.state = JobState::Completing;
        new.suspend = false;
        self.replace(&old, new);
        Ok(())
    }

    pub(super) fn signal(
        &mut self,
        id: JobId,
        signal: u8,
        scope: SignalScope,
    ) -> Result<(), ApplyError> {
        let old = self.known("job_signal", id)?;
        if !old.state.holds_resources() {
            return Ok(());
        }
        let mut new = Job::clone(&old);
        new.signals_asked += 1;
        new.signals.push(PendingSignal { number: new.signals_asked, signal, scope });
        self.replace(&old, new);
        Ok(())
    }

    pub(super) fn suspend(
        &mut self,
        at: Timestamp,
        id: JobId,
        suspend: bool,
    ) -> Result<(), ApplyError> {
        let old = self.known("job_suspend", id)?;
        if !old.state.holds_resources() {
            return Ok(());
        }
        let mut new = Job::clone(&old);
        // One whose CPUs others run on goes on after them.
        new.resumes = !suspend && old.lends && self.cpus_are_lent(&old);
        new.suspend = suspend || new.resumes;
        new.lends = old.lends && new.suspend;
        // From here on it stands still, or runs, by hand and not for its turn.
        if let Some(turn) = &mut new.turn {
            turn.runs = true;
        }
        new.launch_where_due(at);
        self.replace(&old, new);
        Ok(())
    }

    pub(super) fn reject(
        &mut self,
        at: Timestamp,
        id: JobId,
        reason: &Reason,
    ) -> Result<(), ApplyError> {
        let old = self.known("job_rejected", id)?;
        if !old.is_pending() {
            return Err(ApplyError::OutOfOrder {
                event: "job_rejected",
                job: id,
                why: "it does not wait".to_owned(),
            });
        }
        let mut new = Job::clone(&old);
        new.state = match reason {
            Reason::Deadline { .. } => JobState::Deadline,
            _ => JobState::Cancelled,
        };
        new.message = reason.to_string();
        new.claim = None;
        new.ended = Some(at);
        self.replace(&old, new);
        self.settle_dependents(at, id);
        Ok(())
    }

    pub(super) fn forget(&mut self, jobs: &[JobId]) {
        for id in jobs {
            let Some(job) = self.jobs.get(id).filter(|j| j.state.is_over()).cloned() else {
                continue;
            };
            self.index.remove(&job);
            self.jobs.remove(id);
            if let Some(task) = job.array
                && let Some(record) = self.index.arrays.get_mut(&task.array)
            {
                // Its outcome still counts for those who depend on the array.
                record.listed -= 1;
                if record.listed == 0 {
                    self.index.arrays.remove(&task.array);
                }
            }
        }
    }
}
