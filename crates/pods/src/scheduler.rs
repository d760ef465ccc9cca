//! What is to be done now: which pods are bound to which nodes, and what waiting ones are told.

use crate::message;
use muster_engine_k8s::dra::{ClaimKey, Reserve, Written};
use muster_engine_k8s::mirror::{Change, Mirror};
use muster_engine_k8s::read::{PodKey, PodRecord};
use muster_engine_k8s::write;
use muster_model::{
    ApplyError, BackfillMode, Decision, JobId, Plan, Policy, Preempt, PreemptMode, Preemption,
    Request, Resume, Start, Timestamp,
};
use muster_planner::{Budget, Planner};
use std::collections::{BTreeMap, BTreeSet};

/// Shapes of waiting pods that are explained in one turn at most.
const EXPLAINED_MAX: usize = 16;

/// What a pod is told is looked at again after so long.
const AGAIN_MS: u64 = 30_000;

/// So many pods are told something in one turn at most.
const TOLD_MAX: usize = 512;

/// A turn does so much counted work at most, so that what it decided is written while the next one
/// plans on.
const TURN_STEPS: u64 = 500_000;

/// A pod that is to be bound. Its room is taken already.
#[derive(Clone, Debug, PartialEq)]
pub struct Bind {
    /// Its job.
    pub job: JobId,
    /// The pod.
    pub pod: PodKey,
    /// Its unique id.
    pub uid: String,
    /// When it was made.
    pub created: Timestamp,
    /// The node.
    pub node: String,
    /// Claims that are written before.
    pub claims: Vec<Reserve>,
}

/// A pod that is told why it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tell {
    /// The pod.
    pub pod: PodKey,
    /// Its unique id.
    pub uid: String,
    /// A sentence, counts by reason first.
    pub message: String,
}

/// A pod that is told to end, so that one of higher priority gets its room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evict {
    /// Its job.
    pub job: JobId,
    /// The pod.
    pub pod: PodKey,
    /// Its unique id.
    pub uid: String,
    /// The node.
    pub node: String,
    /// The unique id of the pod that gets its room.
    pub by: String,
}

/// A waiting pod for which room is made on a node, or is not made any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nominate {
    /// The pod.
    pub pod: PodKey,
    /// Its unique id.
    pub uid: String,
    /// The node; `None` where it is meant for none any more.
    pub node: Option<String>,
}

/// What one turn decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Pods to bind, a gang's one after the other.
    pub bind: Vec<Bind>,
    /// Pods that are told to end.
    pub evict: Vec<Evict>,
    /// Those for whom they are.
    pub nominate: Vec<Nominate>,
    /// Jobs whose start would break a rule of plan-check: they are not started.
    pub broken: Vec<String>,
    /// The queue was not gone through to its end: the next turn goes on from there.
    pub more: bool,
}

/// The scheduler without clock or network.
#[derive(Debug)]
pub struct Scheduler {
    mirror: Mirror,
    planner: Planner,
    /// When it was last looked what each waiting pod is told.
    looked: BTreeMap<PodKey, Timestamp>,
    /// Pods for which room is made.
    nominated: BTreeSet<PodKey>,
    /// Where the last turn ended before the queue did.
    resume: Option<Resume>,
}

/// The policy for pods: by priority, then by age, none is passed that has a promise, and those of
/// lower priority make room.
pub(crate) fn policy() -> Policy {
    let preemption =
        Preemption { mode: PreemptMode::Cancel, priorities: true, ..Preemption::default() };
    Policy { backfill: BackfillMode::Easy, preemption, ..Policy::default() }
}

impl Scheduler {
    /// A scheduler of the pods that name it, with nothing known yet.
    pub fn new(name: &str) -> Self {
        let mirror = Mirror::new(name, policy());
        let planner = Planner::new(mirror.state());
        Self { mirror, planner, looked: BTreeMap::new(), nominated: BTreeSet::new(), resume: None }
    }

    /// What is known.
    pub fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// Takes in what the API server told.
    ///
    /// # Errors
    /// [`ApplyError`]: a fault of the mirror.
    pub fn take(&mut self, change: Change, now: Timestamp) -> Result<(), ApplyError> {
        self.mirror.take(change, now)
    }

    /// A pod was not told to end: it stays.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn stays(&mut self, job: JobId, now: Timestamp) -> Result<(), ApplyError> {
        self.mirror.stays(job, now)
    }

    /// What became of the claims of a pod that was to be bound.
    pub fn written(&mut self, claims: Vec<(ClaimKey, Written)>) {
        self.mirror.written(claims);
    }

    /// A binding was not made: the pod waits again.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn not_bound(&mut self, job: JobId, now: Timestamp) -> Result<(), ApplyError> {
        self.mirror.not_bound(job, now)
    }

    /// Plans, and takes the room of what starts.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn turn(&mut self, now: Timestamp) -> Result<Turn, ApplyError> {
        self.mirror.settle(now)?;
        if self.mirror.state().index.pending.is_empty() {
            self.resume = None;
            return Ok(Turn::default());
        }
        let budget = Budget { steps: TURN_STEPS, resume: self.resume.take() };
        let plan = self.planner.plan(self.mirror.state(), now, budget);
        self.resume.clone_from(&plan.resume);
        let mut turn = Turn { more: self.resume.is_some(), ..Turn::default() };
        let mut broken = BTreeSet::new();
        for violation in muster_plan_check::check(self.mirror.state(), &plan) {
            turn.broken.push(violation.to_string());
            broken.extend(violation.jobs);
        }
        let mut started = Vec::new();
        for starts in sound(&plan, &broken) {
            // Where devices are lacking after all they are planned anew, with what is there now.
            let Ok(mut claims) = self.mirror.give(starts) else { continue };
            for start in starts {
                if let Some(mut bind) = self.bind(start) {
                    bind.claims = claims.remove(&start.job).unwrap_or_default();
                    self.mirror.assume(start.job, &start.placement, start.time_limit, now)?;
                    self.looked.remove(&bind.pod);
                    turn.bind.push(bind);
                    started.push(start.job);
                }
            }
        }
        self.mirror.assumed(&started, now)?;
        for preempt in making_room(&plan, &broken) {
            self.mirror.make_room(preempt, now)?;
            turn.evict.extend(self.evict(preempt));
            turn.nominate.extend(preempt.starts.iter().filter_map(|start| self.nominate(start)));
        }
        turn.nominate.extend(self.forsaken());
        let nominated = turn.nominate.iter().filter(|one| one.node.is_some());
        self.nominated.extend(nominated.map(|one| one.pod.clone()));
        Ok(turn)
    }

    /// Waiting pods for which no room is made any more, to be told so.
    fn forsaken(&mut self) -> Vec<Nominate> {
        let mirror = &self.mirror;
        let job = |pod: &PodKey| mirror.state().jobs.get(&mirror.job(pod)?);
        let waits = |pod: &PodKey| job(pod).is_some_and(|job| job.is_pending());
        let lost: Vec<PodKey> = self
            .nominated
            .iter()
            .filter(|pod| job(pod).is_none_or(|job| job.claim.is_none() || !job.is_pending()))
            .cloned()
            .collect();
        self.nominated.retain(|pod| !lost.contains(pod));
        let record = |pod: &PodKey| mirror.pod(mirror.job(pod)?);
        let told = lost.iter().filter(|pod| waits(pod)).filter_map(record);
        told.map(|r| Nominate { pod: r.key.clone(), uid: r.uid.clone(), node: None }).collect()
    }

    /// The pods that are told to end; what is being deleted already needs no telling.
    fn evict<'p>(&'p self, preempt: &'p Preempt) -> impl Iterator<Item = Evict> + 'p {
        let by = preempt.starts.first().and_then(|start| self.mirror.pod(start.job));
        let by = by.map(|pod| pod.uid.clone()).unwrap_or_default();
        let stays = |pod: &&PodRecord| !pod.leaving;
        preempt.victims.iter().filter_map(move |victim| {
            let pod = self.mirror.pod(victim.job).filter(stays)?;
            Some(Evict {
                job: victim.job,
                pod: pod.key.clone(),
                uid: pod.uid.clone(),
                node: self.node_of(victim.job)?,
                by: by.clone(),
            })
        })
    }

    /// The node on which a job has room.
    fn node_of(&self, job: JobId) -> Option<String> {
        let state = self.mirror.state();
        let share = state.jobs.get(&job)?.placement.as_ref()?.nodes.first()?;
        Some(state.nodes.get(&share.node)?.name.clone())
    }

    fn nominate(&self, start: &Start) -> Option<Nominate> {
        let bind = self.bind(start)?;
        Some(Nominate { pod: bind.pod, uid: bind.uid, node: Some(bind.node) })
    }

    fn bind(&self, start: &Start) -> Option<Bind> {
        let pod = self.mirror.pod(start.job)?;
        let node = self.mirror.state().nodes.get(&start.placement.nodes.first()?.node)?;
        Some(Bind {
            job: start.job,
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            created: pod.created,
            node: node.name.clone(),
            claims: Vec::new(),
        })
    }

    /// What waiting pods are told, where their condition says something else. Asked after a turn.
    pub fn tell(&mut self, now: Timestamp) -> Vec<Tell> {
        let mut tells: Vec<Tell> = Vec::new();
        let kept = self.mirror.kept().filter(|(record, _)| !self.is_recent(&record.key, now));
        tells.extend(kept.filter_map(|(record, why)| tell(record, &why)));
        let waiting: Vec<JobId> = self.mirror.state().index.pending.iter().copied().collect();
        let mut texts: BTreeMap<(Request, bool), String> = BTreeMap::new();
        for id in waiting {
            if tells.len() >= TOLD_MAX {
                break;
            }
            let Some(job) = self.mirror.state().jobs.get(&id).cloned() else { continue };
            let Some(record) = self.mirror.pod(id) else { continue };
            if self.is_recent(&record.key, now) {
                continue;
            }
            let shape = (job.spec.request.clone(), job.spec.gang.is_some());
            if !texts.contains_key(&shape) {
                if texts.len() >= EXPLAINED_MAX {
                    continue;
                }
                let mut text = message::of(&mut self.planner, &self.mirror, &job, now);
                if let Some(why) = self.mirror.complaint(&record.key) {
                    text = format!("{text} Of its resource claims: {why}.");
                }
                texts.insert(shape.clone(), text);
            }
            let text = texts.get(&shape).filter(|text| !text.is_empty());
            if let Some(text) = text {
                tells.extend(tell(record, text));
                self.looked.insert(record.key.clone(), now);
            }
        }
        for tell in &tells {
            self.looked.insert(tell.pod.clone(), now);
        }
        if self.looked.len() > 2 * (self.mirror.state().index.pending.len() + TOLD_MAX) {
            let mirror = &self.mirror;
            self.looked.retain(|key, _| mirror.job(key).is_some());
        }
        tells
    }

    fn is_recent(&self, pod: &PodKey, now: Timestamp) -> bool {
        self.looked.get(pod).is_some_and(|at| now.ms_since(*at) < AGAIN_MS)
    }
}

/// What a pod is told, where its condition does not say so.
fn tell(record: &PodRecord, message: &str) -> Option<Tell> {
    let message = write::cut(message);
    (record.told.as_ref() != Some(&message)).then(|| Tell {
        pod: record.key.clone(),
        uid: record.uid.clone(),
        message,
    })
}

/// The starts of a plan of which no job breaks a rule, all that start together or none.
fn sound<'a>(plan: &'a Plan, broken: &BTreeSet<JobId>) -> Vec<&'a Vec<Start>> {
    let starts = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Start(starts) => Some(starts),
        _ => None,
    });
    starts.filter(|starts| starts.iter().all(|start| !broken.contains(&start.job))).collect()
}

/// The room that a plan makes, where nothing of it breaks a rule.
fn making_room<'a>(
    plan: &'a Plan,
    broken: &'a BTreeSet<JobId>,
) -> impl Iterator<Item = &'a Preempt> {
    let preempts = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Preempt(preempt) => Some(preempt.as_ref()),
        _ => None,
    });
    preempts.filter(|preempt| {
        let jobs = preempt.starts.iter().map(|start| start.job);
        jobs.chain(preempt.victims.iter().map(|victim| victim.job))
            .all(|job| !broken.contains(&job))
    })
}

#[cfg(test)]
mod tests;
