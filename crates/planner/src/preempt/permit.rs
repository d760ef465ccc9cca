//! Which running jobs may be told to make room for a waiting one, and how.
//!
//! Permission never goes in a circle: who is in a reservation before who is on its nodes and not in
//! it (and cannot come back there), then a higher tier, QOS lists (which have no
//! circles) inside a tier, and a reclaim only of what is borrowed and never from somebody who could
//! preempt the reclaimer.

use crate::preempt::quota::Quotas;
use muster_model::{
    Elastic, Exclusive, Job, JobState, NodeCount, NodeShare, PreemptMode, Qos, Reservation,
    Seconds, State, Timestamp, Victim,
};

/// Why a running job stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protection {
    /// Neither QOS, tier nor quota puts the waiting job above it.
    Equal,
    /// Its QOS, its partition or the policy says that it makes no room.
    Off,
    /// It runs inside its account's guarantee.
    Guaranteed,
    /// It has not yet run as long as it may without being preempted.
    Exempt(Timestamp),
    /// It ends or stands still already.
    Leaving,
}

/// The rules, with what is counted once for a round.
pub(crate) struct Permits<'a> {
    state: &'a State,
    now: Timestamp,
    pub(crate) quotas: Option<Quotas>,
    /// The lowest own priority of a running job, where that decides.
    lowest: Option<u32>,
    /// Somebody may preempt somebody.
    any: bool,
}

/// Who asks for room.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) job: &'a Job,
    /// The tier of the partitions that it would start in.
    pub(crate) tier: u32,
    /// The reservation that it would start in, where that counts.
    pub(crate) inside: Option<&'a str>,
}

/// What puts the waiting job above a running one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    /// It is in the reservation that has the nodes, and the other is not.
    Reservation,
    /// Its partition is of a higher tier.
    Tier,
    /// Its QOS lists the other's.
    Qos,
    /// Its own priority is higher.
    Priority,
    /// The other runs on borrowed quota.
    Quota,
}

/// A permission: how, and by what right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    pub(crate) mode: PreemptMode,
    pub(crate) right: Right,
}

impl Permit {
    /// Only what is borrowed is taken back.
    pub(crate) fn reclaims(self) -> bool {
        self.right == Right::Quota
    }
}

impl<'a> Permits<'a> {
    pub(crate) fn new(state: &'a State, now: Timestamp) -> Self {
        let (policy, quotas) = (&state.policy.preemption, Quotas::new(state));
        let by_qos = state.qos.values().any(|qos| !qos.preempts.is_empty());
        let lowest = state.partitions.values().map(|p| p.tier).min();
        let by_tier = policy.tiers && state.partitions.values().any(|p| Some(p.tier) != lowest);
        let by_quota = policy.reclaim != PreemptMode::Off && quotas.is_some();
        let by_reservation = policy.reservations && !state.reservations.is_empty();
        let running = state.index.active.iter().filter_map(|id| state.jobs.get(id));
        let lowest = match policy.priorities {
            true => running.filter_map(|job| job.spec.priority).min(),
            false => None,
        };
        let any = by_qos || by_tier || by_quota || by_reservation || lowest.is_some();
        Self { state, now, quotas, lowest, any }
    }

    /// False where no rule lets any job preempt another.
    pub(crate) const fn are_any(&self) -> bool {
        self.any
    }

    fn qos(&self, job: &Job) -> Option<&Qos> {
        self.state.qos.get(&job.spec.qos).map(AsRef::as_ref)
    }

    /// False where the job can preempt nobody, whoever runs.
    pub(crate) fn may_ask(&self, asker: Asker<'_>) -> bool {
        if asker.job.spec.never_preempts {
            return false;
        }
        let policy = &self.state.policy.preemption;
        let by_priority = asker.job.spec.priority > self.lowest && self.lowest.is_some();
        let by_qos = self.qos(asker.job).is_some_and(|qos| !qos.preempts.is_empty());
        let by_tier = policy.tiers && self.state.partitions.values().any(|p| p.tier < asker.tier);
        let by_quota = policy.reclaim != PreemptMode::Off
            && self.quotas.is_some()
            && Quotas::owner(self.state, asker.job).is_some();
        by_qos || by_tier || by_quota || by_priority || asker.inside.is_some()
    }

    /// How a running job would make room for the asker.
    pub(crate) fn permit(&self, asker: Asker<'_>, victim: &Job) -> Result<Permit, Protection> {
        let leaves =
            !matches!(victim.state, JobState::Starting | JobState::Running | JobState::Suspended)
                || victim.eviction.is_some()
                || victim.stop.is_some();
        if leaves {
            return Err(Protection::Leaving);
        }
        let right = self.right(asker, victim).ok_or(Protection::Equal)?;
        if let Some(quotas) = &self.quotas
            && !quotas.is_borrowed(victim.id)
            && Quotas::owner(self.state, victim) != Quotas::owner(self.state, asker.job)
        {
            return Err(Protection::Guaranteed);
        }
        let mode = self.mode_of(victim, right == Right::Quota);
        // Who takes turns stands still for those only.
        let takes_turns = victim.turn.is_some() && mode == PreemptMode::Suspend;
        // Nor has one that stands still by hand any CPUs to give.
        let has_none = victim.lends && mode == PreemptMode::Suspend;
        if mode == PreemptMode::Off || takes_turns || has_none {
            return Err(Protection::Off);
        }
        // What this instant's rounds started is not undone by them.
        if victim.placed.is_some_and(|at| at >= self.now) {
            return Err(Protection::Exempt(self.now.plus(Seconds(1))));
        }
        let free_from = self.exempt_until(victim);
        if free_from > self.now {
            return Err(Protection::Exempt(free_from));
        }
        Ok(Permit { mode, right })
    }

    /// What puts the asker above the victim.
    fn right(&self, asker: Asker<'_>, victim: &Job) -> Option<Right> {
        if self.has_reserved(asker, victim) {
            return Some(Right::Reservation);
        }
        let tiers = self.state.policy.preemption.tiers;
        let other = tier_of(self.state, victim);
        if tiers && asker.tier > other {
            return Some(Right::Tier);
        }
        let lists = |qos: &Qos| qos.preempts.contains(&victim.spec.qos);
        if !(tiers && asker.tier < other) && self.qos(asker.job).is_some_and(lists) {
            return Some(Right::Qos);
        }
        let own = |job: &Job| job.spec.priority;
        let below = tiers && asker.tier < other;
        if !below && self.lowest.is_some() && own(victim).is_some() && own(asker.job) > own(victim)
        {
            return Some(Right::Priority);
        }
        self.reclaims(asker, victim).then_some(Right::Quota)
    }

    /// True where the victim is on what the asker's reservation has, and in none that has it too.
    fn has_reserved(&self, asker: Asker<'_>, victim: &Job) -> bool {
        let named = |name: &str| self.state.reservations.get(name);
        let own = asker.inside.and_then(named).filter(|own| own.is_active(self.now));
        let (Some(own), Some(placement)) = (own, &victim.placement) else { return false };
        let theirs = placement.reservation.as_deref().and_then(named);
        theirs.is_none_or(|theirs| theirs.name != own.name)
            && placement.nodes.iter().any(|share| {
                has_part_of(own, victim, share)
                    && !theirs.is_some_and(|theirs| has_part_of(theirs, victim, share))
            })
    }

    /// Who says that a job makes no room: its QOS, its partition or the policy.
    pub(crate) fn who_protects(&self, victim: &Job) -> String {
        let off = Some(PreemptMode::Off);
        let partition = victim.placement.as_ref().map(|p| &p.partition);
        let partition = partition.and_then(|name| self.state.partitions.get(name));
        match (self.qos(victim), partition) {
            (Some(qos), _) if qos.preempt.mode == off => format!("QOS {}", qos.name),
            (_, Some(partition)) if partition.preempt.mode == off => {
                format!("partition {}", partition.name)
            }
            _ => "the policy".to_owned(),
        }
    }

    fn reclaims(&self, asker: Asker<'_>, victim: &Job) -> bool {
        let Some(quotas) = &self.quotas else { return false };
        let back = Asker { job: victim, tier: tier_of(self.state, victim), inside: None };
        let tiers = self.state.policy.preemption.tiers;
        let is_outranked = if tiers && back.tier != asker.tier {
            back.tier > asker.tier
        } else {
            self.qos(victim).is_some_and(|qos| qos.preempts.contains(&asker.job.spec.qos))
        };
        let owner = Quotas::owner(self.state, asker.job);
        self.state.policy.preemption.reclaim != PreemptMode::Off
            && !is_outranked
            && quotas.is_borrowed(victim.id)
            && owner.is_some()
            && owner != Quotas::owner(self.state, victim)
    }

    /// What its QOS says, else its partition, else the policy; a job that cannot start anew ends.
    fn mode_of(&self, victim: &Job, reclaims: bool) -> PreemptMode {
        let policy = &self.state.policy.preemption;
        let partition =
            victim.placement.as_ref().and_then(|p| self.state.partitions.get(&p.partition));
        let mode = self
            .qos(victim)
            .and_then(|qos| qos.preempt.mode)
            .or_else(|| partition.and_then(|p| p.preempt.mode))
            .unwrap_or(if reclaims { policy.reclaim } else { policy.mode });
        let starts_anew = victim.starts_anew();
        let asks = victim.spec.checkpoint.as_ref().is_some_and(|c| c.signal.is_some());
        match mode {
            PreemptMode::Requeue | PreemptMode::Checkpoint if !starts_anew => PreemptMode::Cancel,
            PreemptMode::Checkpoint if !asks => PreemptMode::Requeue,
            // What is given back has to be free, memory and GPUs as well.
            PreemptMode::Suspend if reclaims => PreemptMode::Requeue,
            mode => mode,
        }
    }

    fn exempt_until(&self, victim: &Job) -> Timestamp {
        let partition =
            victim.placement.as_ref().and_then(|p| self.state.partitions.get(&p.partition));
        let exempt = self
            .qos(victim)
            .and_then(|qos| qos.preempt.exempt)
            .or_else(|| partition.and_then(|p| p.preempt.exempt))
            .unwrap_or(self.state.policy.preemption.exempt);
        let since = victim.started.or(victim.placed).unwrap_or(self.now);
        since.plus(exempt)
    }

    /// How an elastic job gives up nodes that it can do without; `None` where it does not now.
    pub(crate) fn shrinks(&self, job: &Job) -> Option<PreemptMode> {
        let has = job.placement.as_ref().map_or(0, |p| p.nodes.len() as u32);
        let mode = match job.spec.elastic {
            Elastic::Live => PreemptMode::Shrink,
            _ if job.starts_anew() => restart_mode(job),
            _ => return None,
        };
        let can = job.may_be_resized() && has > job.spec.request.nodes_min();
        let rests =
            self.exempt_until(job) > self.now || job.placed.is_some_and(|at| at >= self.now);
        (can && !rests).then_some(mode)
    }

    /// True where an elastic job may start again on more nodes now.
    pub(crate) fn may_grow(&self, job: &Job) -> bool {
        let most = job.spec.request.nodes.as_ref().map_or(1, NodeCount::most);
        let has = job.placement.as_ref().map_or(0, |p| p.nodes.len() as u32);
        let since = job.started.filter(|_| job.placed.is_some_and(|at| at < self.now));
        let rested =
            since.is_some_and(|at| at.plus(self.state.policy.preemption.grow_after) <= self.now);
        job.may_be_resized()
            && job.starts_anew()
            && has < most
            && rested
            && job.restart_cost(self.now).is_some()
    }

    /// The victim's order: when it is told to end, and by when its room is free.
    pub(crate) fn victim(&self, job: &Job, mode: PreemptMode) -> Victim {
        let policy = &self.state.policy;
        let partition =
            job.placement.as_ref().and_then(|p| self.state.partitions.get(&p.partition));
        let by_qos = self.qos(job).and_then(|qos| qos.preempt.grace);
        let grace = job
            .spec
            .ends_within
            .or(by_qos)
            .or_else(|| partition.and_then(|p| p.grace))
            .unwrap_or(policy.preemption.grace);
        let grace = if grace == Seconds(0) { policy.kill_wait } else { grace };
        let checkpoint = job.spec.checkpoint.as_ref().map_or(Seconds(0), |c| c.grace);
        let (stop_at, until) = match mode {
            PreemptMode::Suspend => (self.now, self.now),
            PreemptMode::Checkpoint => {
                let stop_at = self.now.plus(checkpoint);
                (stop_at, stop_at.plus(grace))
            }
            _ => (self.now, self.now.plus(grace)),
        };
        Victim { job: job.id, attempt: job.attempt, mode, stop_at, until, keeps: None }
    }
}

/// How a job leaves that starts again at once.
pub(crate) fn restart_mode(job: &Job) -> PreemptMode {
    let asks = job.spec.checkpoint.as_ref().is_some_and(|c| c.signal.is_some());
    if asks { PreemptMode::Checkpoint } else { PreemptMode::Requeue }
}

/// True where a reservation has something of what a job has on a node.
fn has_part_of(reservation: &Reservation, job: &Job, share: &NodeShare) -> bool {
    let Some(reserved) = reservation.on(share.node) else { return false };
    let alone = share.exclusive || job.spec.request.exclusive != Exclusive::No;
    reserved.part.as_ref().is_none_or(|part| {
        alone
            || part.cpus.intersects(&share.cpus)
            || share.devices.iter().any(|grant| part.devices.contains(&grant.index))
    })
}

/// The tier of the partition that a job runs in.
pub(crate) fn tier_of(state: &State, job: &Job) -> u32 {
    let partition = job.placement.as_ref().map(|p| &p.partition);
    partition.and_then(|name| state.partitions.get(name)).map_or(0, |p| p.tier)
}
