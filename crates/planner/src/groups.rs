//! Reasons of jobs that start together: components of a heterogeneous job, members of a gang.
//!
//! One of them is at fault and has a reason of its own: the first that is not free to start, else
//! the first that can never start, else the first that finds no room beside those before it. The
//! others wait for it.

use crate::free::Span;
use crate::gates::gate_reasons;
use crate::queue::{asks, group};
use crate::reasons::Reasoner;
use crate::together;
use crate::world::World;
use muster_model::{Job, JobId, Placement, Reason};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The one that keeps a group from starting.
pub(crate) struct Culprit {
    pub(crate) job: JobId,
    /// Its own reason.
    pub(crate) own: Reason,
    /// How many of the others could start by themselves, or beside those before them.
    pub(crate) ready: u32,
}

impl Culprit {
    /// Why another of the group waits.
    pub(crate) fn peer(&self, job: &Job) -> Reason {
        match &job.spec.gang {
            Some(gang) if job.het.is_none() => {
                let (gang, size) = (gang.name.clone(), gang.size);
                Reason::GangIncomplete {
                    gang,
                    size,
                    submitted: size,
                    ready: self.ready,
                    not_free: vec![self.job],
                }
            }
            _ => Reason::HetPeer { peer: self.job },
        }
    }
}

impl Reasoner<'_> {
    /// Reasons of all that wait together with others.
    pub(crate) fn group_reasons(&self, reasons: &mut BTreeMap<JobId, Reason>) {
        let jobs = || self.state.index.pending.iter().filter_map(|id| self.state.jobs.get(id));
        for job in jobs().filter(|job| job.spec.gang.is_some() && !self.starts_now(job.id)) {
            if let Some(missing) = together::missing(self.state, self.now, job) {
                reasons.insert(job.id, self.kept_alone(job).unwrap_or(missing));
            }
        }
        let mut world = None;
        for leader in jobs().filter(|job| job.het.is_some() || job.spec.gang.is_some()) {
            let group = group(self.state, leader).filter(|group| group.len() > 1);
            let Some(group) = group else { continue };
            let is_missing = || together::missing(self.state, self.now, leader).is_some();
            if self.split_peer(leader).is_some() || (leader.het.is_none() && is_missing()) {
                continue;
            }
            let world = world.get_or_insert_with(|| self.next_world().clone());
            self.reasons_of_group(world, &group, reasons);
        }
        for job in jobs().filter(|job| job.het.is_some()) {
            if !reasons.contains_key(&job.id)
                && let Some(peer) = self.split_peer(job)
            {
                let own = self.blocked_alone(job);
                reasons.insert(job.id, own.unwrap_or(Reason::HetPeer { peer }));
            }
        }
    }

    fn reasons_of_group(
        &self,
        world: &mut World,
        group: &[&Arc<Job>],
        reasons: &mut BTreeMap<JobId, Reason>,
    ) {
        let Some(leader) = group.first() else { return };
        if self.starts_now(leader.id) {
            reasons.extend(group.iter().map(|job| (job.id, Reason::NotPlannedYet)));
        } else if let Some(held) = self.limit_on(group) {
            reasons.extend(group.iter().map(|job| (job.id, held.clone())));
        } else if let Some(culprit) = self.culprit(world, group) {
            for job in group {
                let reason = if job.id == culprit.job {
                    culprit.own.clone()
                } else {
                    self.kept_alone(job).unwrap_or_else(|| culprit.peer(job))
                };
                reasons.insert(job.id, reason);
            }
        } else {
            // All fit beside what comes first: what holds the first holds them all.
            let own = reasons.get(&leader.id).cloned();
            for job in group.iter().skip(1) {
                let peer = Reason::HetPeer { peer: leader.id };
                let reason = own.clone().filter(|_| job.het.is_none()).unwrap_or(peer);
                reasons.insert(job.id, reason);
            }
        }
    }

    /// What keeps a job from starting whatever the others of its group do.
    fn kept_alone(&self, job: &Job) -> Option<Reason> {
        let gate = gate_reasons(self.state, job, self.now).into_iter().next();
        gate.or_else(|| self.blocked_alone(job))
    }

    /// The world with all that comes before those that wait on.
    pub(crate) fn next_world(&self) -> &World {
        self.coming().after(&self.cache.world)
    }

    /// The first component of the job that does not wait with it: it runs, or is over.
    pub(crate) fn split_peer(&self, job: &Job) -> Option<JobId> {
        let part = job.het?;
        let waits = |peer: &JobId| self.state.jobs.get(peer).is_some_and(|j| j.is_pending());
        (0..part.size)
            .map(|offset| JobId(part.leader.0.saturating_add(offset)))
            .find(|peer| !waits(peer))
    }

    /// The one that keeps a group from starting; `None` where nothing does.
    pub(crate) fn culprit(&self, world: &mut World, group: &[&Arc<Job>]) -> Option<Culprit> {
        let gate = |job: &&Arc<Job>| {
            let reason = gate_reasons(self.state, job, self.now).into_iter().next()?;
            Some((job.id, reason))
        };
        let blocked = |job: &&Arc<Job>| Some((job.id, self.blocked_alone(job)?));
        let kept = group.iter().find_map(gate).or_else(|| group.iter().find_map(blocked));
        if let Some((job, own)) = kept {
            let ready = group.iter().filter(|job| self.kept_alone(job).is_none()).count() as u32;
            return Some(Culprit { job, own, ready });
        }
        let mut laid = Vec::new();
        let mut found = None;
        for job in group {
            let place_of = |ask: &crate::ask::Ask| {
                self.picks(world, ask, Span::of(self.now, self.now, ask.length()))
            };
            let asks = asks(self.state, job, self.now);
            match asks.iter().find_map(|ask| Some((ask.clone(), place_of(ask)?))) {
                Some((ask, picks)) => {
                    let span = Span::of(self.now, self.now, ask.length());
                    world.reserve(&ask, &picks, span);
                    laid.push((ask, picks));
                }
                None => {
                    let ready = laid.len() as u32;
                    let own = self.shortage_in(world, job);
                    found = Some(Culprit { job: job.id, own, ready });
                    break;
                }
            }
        }
        crate::timeline::undo(world, &laid);
        found
    }

    /// Where those of its group that come before a job would be, were they to start now; empty for
    /// a job by itself.
    pub(crate) fn laid_before(&self, job: &Arc<Job>) -> Vec<(Arc<Job>, Placement)> {
        let group = group(self.state, together::first(self.state, job)).unwrap_or_default();
        let before: Vec<&Arc<Job>> = group.into_iter().take_while(|j| j.id != job.id).collect();
        let mut laid = Vec::new();
        if before.is_empty() {
            return laid;
        }
        let mut world = self.next_world().clone();
        for job in before {
            let found = asks(self.state, job, self.now).iter().find_map(|ask| {
                let span = Span::of(self.now, self.now, ask.length());
                let placement = world.materialise(ask, &self.picks(&world, ask, span)?, span)?;
                Some((placement, self.now.plus_limit(ask.limit)))
            });
            let Some((placement, end)) = found else { break };
            world.occupy(job, &placement, end, false);
            laid.push((Arc::clone(job), placement));
        }
        laid
    }
}
