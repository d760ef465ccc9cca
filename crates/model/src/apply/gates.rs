//! Dependencies: resolving what a user wrote, and settling it as targets start and end.

use crate::{
    DependencyKind, DependencyTarget, DependencyTerm, Gate, GateStatus, GateTarget, Job, JobId,
    JobState, Joiner, State, Timestamp,
};
use std::sync::Arc;

impl State {
    /// Turns the dependency of a job into gates, settled as far as can be known now.
    pub(super) fn resolve_gates(&self, at: Timestamp, job: &Job) -> Vec<Gate> {
        let Some(dependency) = &job.spec.dependency else { return Vec::new() };
        let mut gates = Vec::new();
        for term in &dependency.terms {
            self.resolve_term(job, term, &mut gates);
        }
        for gate in &mut gates {
            gate.status = self.judge(at, gate);
        }
        gates
    }

    fn resolve_term(&self, job: &Job, term: &DependencyTerm, gates: &mut Vec<Gate>) {
        let gate =
            |kind, target| Gate { kind, target, delay: term.delay, status: GateStatus::Waiting };
        match (&term.target, term.kind) {
            (None, kind) => gates.push(gate(kind, None)),
            (Some(DependencyTarget::Job(id)), DependencyKind::AfterCorr) => {
                // The partner of the same index; the whole array where there is none (S-21).
                let partner = job.array.and_then(|task| self.array_task(*id, task.index));
                let target = partner.map_or_else(|| self.target_of(*id), GateTarget::Job);
                gates.push(gate(DependencyKind::AfterOk, Some(target)));
            }
            (Some(DependencyTarget::Job(id)), kind) => {
                gates.push(gate(kind, Some(self.target_of(*id))));
            }
            (Some(DependencyTarget::Tasks(array, indices)), kind) => {
                let kind = match kind {
                    DependencyKind::AfterCorr => DependencyKind::AfterOk,
                    other => other,
                };
                for index in indices.iter() {
                    // An index that is not there is an id that was never given: judged as unknown.
                    let raw = self.array_task(*array, index).unwrap_or(JobId(u32::MAX));
                    gates.push(gate(kind, Some(GateTarget::Job(raw))));
                }
            }
        }
    }

    fn target_of(&self, id: JobId) -> GateTarget {
        if self.index.arrays.contains_key(&id) {
            GateTarget::Array(id)
        } else {
            GateTarget::Job(id)
        }
    }

    /// What is known of a gate by looking at its target as it stands.
    fn judge(&self, at: Timestamp, gate: &Gate) -> GateStatus {
        match gate.target {
            None => GateStatus::Waiting,
            Some(GateTarget::Job(id)) => match self.jobs.get(&id) {
                None if matches!(gate.kind, DependencyKind::AfterAny | DependencyKind::After) => {
                    GateStatus::Met(at)
                }
                None => GateStatus::Failed,
                Some(target) => judge_job(at, gate, target),
            },
            Some(GateTarget::Array(id)) => self.judge_array(at, gate, id),
        }
    }

    fn judge_array(&self, at: Timestamp, gate: &Gate, id: JobId) -> GateStatus {
        let Some(array) = self.index.arrays.get(&id) else {
            return match gate.kind {
                DependencyKind::AfterAny | DependencyKind::After => GateStatus::Met(at),
                _ => GateStatus::Failed,
            };
        };
        let done = array.unfinished == 0;
        match gate.kind {
            DependencyKind::After if array.unstarted == 0 => GateStatus::Met(at.plus(gate.delay)),
            DependencyKind::AfterAny if done => GateStatus::Met(at),
            DependencyKind::AfterOk if array.failed > 0 => GateStatus::Failed,
            DependencyKind::AfterOk if done => GateStatus::Met(at),
            DependencyKind::AfterNotOk if done && array.failed > 0 => GateStatus::Met(at),
            DependencyKind::AfterNotOk if done => GateStatus::Failed,
            _ => GateStatus::Waiting,
        }
    }

    /// A job began or ended: settles the gates that look at it or its array, and lets the next
    /// singleton of its name go.
    pub(super) fn settle_dependents(&mut self, at: Timestamp, id: JobId) {
        let Some(job) = self.jobs.get(&id).cloned() else { return };
        let mut targets = vec![GateTarget::Job(id)];
        targets.extend(job.array.map(|task| GateTarget::Array(task.array)));
        for target in targets {
            let Some(waiting) = self.index.dependents.get(&target).cloned() else { continue };
            for dependent in &waiting {
                self.settle(at, *dependent, target);
            }
        }
        if job.state.is_over() {
            let key = (job.spec.owner.uid, job.spec.name.clone());
            let next = self.index.unfinished.get(&key).and_then(|ids| ids.get_min().copied());
            if let Some(next) = next {
                self.refresh_eligible(at, next);
            }
        }
    }

    fn settle(&mut self, at: Timestamp, dependent: JobId, target: GateTarget) {
        let Some(old) = self.jobs.get(&dependent).cloned() else { return };
        let mut new = Job::clone(&old);
        let mut changed = false;
        for gate in &mut new.gates {
            if gate.target == Some(target) && gate.status == GateStatus::Waiting {
                gate.status = self.judge(at, gate);
                changed |= gate.status != GateStatus::Waiting;
            }
        }
        if changed {
            self.jobs.insert(dependent, Arc::new(new));
            self.refresh_eligible(at, dependent);
        }
    }

    /// From when on a job is free to start, as far as holds, begin time and dependencies say.
    pub(super) fn eligible_from(&self, at: Timestamp, job: &Job) -> Option<Timestamp> {
        if !job.is_pending() || job.hold.is_some() {
            return None;
        }
        let gates = self.gates_open_at(job)?;
        let begin = job.spec.begin.unwrap_or(Timestamp::from_millis(i64::MIN));
        // What was free before stays free since then: age does not start anew (S-43). An instant
        // still to come was a forecast, and is made again.
        let free_since = job.eligible.filter(|since| *since <= at).unwrap_or(at);
        Some(free_since.max(begin).max(gates))
    }

    pub(super) fn refresh_eligible(&mut self, at: Timestamp, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let eligible = self.eligible_from(at, job);
        if eligible != job.eligible
            && let Some(job) = self.jobs.get_mut(&id)
        {
            Arc::make_mut(job).eligible = eligible;
        }
    }

    /// The instant from which a job's dependencies allow its start; `None` while they do not.
    fn gates_open_at(&self, job: &Job) -> Option<Timestamp> {
        let long_ago = Timestamp::from_millis(i64::MIN);
        if job.gates.is_empty() {
            return Some(long_ago);
        }
        let open = |gate: &Gate| match (gate.kind, gate.status) {
            (DependencyKind::Singleton, _) => (!self.singleton_waits(job)).then_some(long_ago),
            (_, GateStatus::Met(at)) => Some(at),
            (_, GateStatus::Waiting | GateStatus::Failed) => None,
        };
        match job.joiner() {
            Joiner::All => {
                job.gates.iter().try_fold(long_ago, |last, gate| Some(last.max(open(gate)?)))
            }
            Joiner::Any => job.gates.iter().filter_map(open).min(),
        }
    }
}

fn judge_job(at: Timestamp, gate: &Gate, target: &Job) -> GateStatus {
    let over = target.state.is_over();
    let completed = target.state == JobState::Completed;
    match gate.kind {
        DependencyKind::After if over || target.started.is_some() => {
            let since = target.started.or(target.ended).unwrap_or(at);
            GateStatus::Met(since.plus(gate.delay))
        }
        DependencyKind::AfterAny if over => GateStatus::Met(at),
        DependencyKind::AfterOk | DependencyKind::AfterCorr if over && completed => {
            GateStatus::Met(at)
        }
        DependencyKind::AfterOk | DependencyKind::AfterCorr if over => GateStatus::Failed,
        DependencyKind::AfterNotOk if over && !completed => GateStatus::Met(at),
        DependencyKind::AfterNotOk if over => GateStatus::Failed,
        _ => GateStatus::Waiting,
    }
}

impl Job {
    /// How its dependency's terms are joined.
    pub fn joiner(&self) -> Joiner {
        self.spec.dependency.as_ref().map_or(Joiner::All, |d| d.joiner)
    }

    /// True where its dependency can never be met: one failed term under `,`, all under `?`.
    pub fn dependency_is_hopeless(&self) -> bool {
        let failed = |g: &Gate| g.status == GateStatus::Failed;
        !self.gates.is_empty()
            && match self.joiner() {
                Joiner::All => self.gates.iter().any(failed),
                Joiner::Any => self.gates.iter().all(failed),
            }
    }
}
