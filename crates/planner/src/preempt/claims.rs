//! Claims on the world: room that is made, or about to be, is nobody else's.

use crate::preempt::{Place, makers};
use crate::queue::group;
use crate::round::{Round, Walk};
use crate::world::World;
use muster_model::{
    Claim, Decision, DeviceGrant, Job, JobId, NodeId, NodeShare, Placement, PreemptMode, State,
    Timestamp, Victim,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a claim changed on the world, to be undone when the round ends.
pub(crate) struct Overlay {
    /// What is free of the claim already, held for its job: the job, what, until when.
    held: Vec<(Arc<Job>, Placement, Timestamp)>,
    /// Victims that hold the rest, with what they have on the world.
    makers: Vec<(Arc<Job>, Placement)>,
}

/// A share without what victims on its node still have; `None` where nothing is left.
fn minus(share: &NodeShare, held: &[(&Victim, &NodeShare)]) -> NodeShare {
    let mut left = share.clone();
    for (victim, other) in held {
        left.cpus.remove_all(&other.cpus);
        // One that only stands still keeps the rest.
        if victim.mode == PreemptMode::Suspend {
            continue;
        }
        left.cpu_pool = left.cpu_pool.saturating_sub(other.cpu_pool);
        left.memory = left.memory.minus_or_zero(other.memory);
        for (name, count) in &mut left.gres {
            *count = count.saturating_sub(other.gres.get(name).copied().unwrap_or(0));
        }
        left.devices = left.devices.iter().filter_map(|grant| part_left(grant, other)).collect();
    }
    left
}

/// All but the CPUs. Those of a pool are not lent: nobody can tell whose they are.
pub(super) fn take_no_cpus(placement: &mut Placement) {
    for share in &mut placement.nodes {
        share.cpus = muster_model::CpuSet::new();
    }
}

/// What of a grant a victim does not have. A whole device stays: nobody else may have a part.
fn part_left(grant: &DeviceGrant, other: &NodeShare) -> Option<DeviceGrant> {
    let theirs = other.devices.iter().find(|d| d.index == grant.index);
    let Some(theirs) = theirs.filter(|_| !grant.is_whole()) else { return Some(*grant) };
    if theirs.is_whole() || grant.mig.is_some() {
        return None;
    }
    let mut left = *grant;
    left.share.0 = grant.share.0.saturating_sub(theirs.share.0);
    left.memory = grant.memory.minus_or_zero(theirs.memory);
    (left.share.0 > 0 || !left.memory.is_zero()).then_some(left)
}

/// A claim without what its victims still have.
pub(crate) fn free_part(state: &State, placement: &Placement, victims: &[Victim]) -> Placement {
    let mut by_node: BTreeMap<NodeId, Vec<(&Victim, &NodeShare)>> = BTreeMap::new();
    let mut licences: BTreeMap<&String, u32> = BTreeMap::new();
    for (victim, job) in makers(state, victims) {
        let Some(theirs) = &job.placement else { continue };
        for share in &theirs.nodes {
            by_node.entry(share.node).or_default().push((victim, share));
        }
        if victim.mode != PreemptMode::Suspend {
            for (name, count) in &theirs.licences {
                *licences.entry(name).or_default() += count;
            }
        }
    }
    let none = Vec::new();
    Placement {
        partition: placement.partition.clone(),
        reservation: placement.reservation.clone(),
        nodes: placement
            .nodes
            .iter()
            .map(|share| minus(share, by_node.get(&share.node).unwrap_or(&none)))
            .collect(),
        licences: placement
            .licences
            .iter()
            .map(|(name, count)| {
                (name.clone(), count.saturating_sub(licences.get(name).copied().unwrap_or(0)))
            })
            .collect(),
    }
}

/// What a job has on the world: all of its placement, or, where it stands still for others, all
/// but the CPUs that they use. Of those who take turns the last holds what they share.
pub(crate) fn on_the_world(state: &State, job: &Job) -> Option<Placement> {
    let mut placement = Placement::clone(job.placement.as_ref()?);
    if job.lends && !job.resumes {
        take_no_cpus(&mut placement);
        return Some(placement);
    }
    if !job.yields_cpus() && !job.resumes {
        crate::turns::less_shared(state, job, &mut placement);
        return Some(placement);
    }
    for share in &mut placement.nodes {
        let there = state.index.on_node.get(&share.node).into_iter().flatten();
        for other in there.filter_map(|id| state.jobs.get(id)) {
            let has = match other.lends || other.yields_cpus() {
                true => (other.resumes || other.yields_cpus()) && other.id < job.id,
                false => true,
            };
            let counts = other.id != job.id && has;
            let shares = other.placement.iter().flat_map(|p| &p.nodes);
            for theirs in shares.filter(|s| counts && s.node == share.node) {
                share.cpus.remove_all(&theirs.cpus);
            }
        }
    }
    Some(placement)
}

/// True where every node of a claim may still be used.
fn is_valid(state: &State, claim: &Claim) -> bool {
    claim
        .placement
        .nodes
        .iter()
        .all(|share| state.nodes.get(&share.node).is_some_and(|node| node.is_usable()))
}

/// Claimants in order of number, groups whole, whose room is not all made yet, or is made and
/// unused.
pub(super) fn claims(state: &State) -> Vec<Vec<Place>> {
    let leaders = state.index.claimants.iter().filter_map(|id| state.jobs.get(id));
    leaders
        .filter_map(|job| {
            let group = group(state, job)?;
            let places = group.iter().map(|job| {
                let claim = job.claim.as_ref().filter(|claim| is_valid(state, claim))?;
                Some(Place {
                    job: Arc::clone(job),
                    placement: Arc::clone(&claim.placement),
                    limit: claim.time_limit,
                })
            });
            places.collect::<Option<Vec<_>>>()
        })
        .collect()
}

/// Keeps the room of a group from others: what is free of it is held, and what its victims have
/// stays theirs until the group is over.
pub(super) fn lay_over(
    world: &mut World,
    state: &State,
    now: Timestamp,
    places: &[Place],
    victims: &[Victim],
    until: Timestamp,
) -> Overlay {
    let mut overlay = Overlay { held: Vec::new(), makers: Vec::new() };
    let mut last = until;
    for place in places {
        // A claimant starts once its room is made.
        let end = until.plus_limit(place.limit);
        last = last.max(end);
        let free = free_part(state, &place.placement, victims);
        world.occupy(&place.job, &free, end, false);
        overlay.held.push((Arc::clone(&place.job), free, end));
    }
    // What they have is the claimant's after them.
    for (victim, job) in makers(state, victims) {
        let end = state.expected_end(job, now);
        let (Some(placement), Some(end)) = (&job.placement, end) else {
            continue;
        };
        let last = match (victim.mode, &job.eviction) {
            (PreemptMode::Suspend, Some(_)) => continue,
            // It has the others for as long as it runs.
            (PreemptMode::Shrink, _) => last.max(end),
            // It goes on when the other is over.
            (PreemptMode::Suspend, None) => last.plus(end.since(now)),
            // It starts again on what it keeps.
            _ if victim.keeps.is_some() => {
                last.max(until.plus_limit(job.spec.time_limit.unwrap_or(job.time_limit)))
            }
            _ => last,
        };
        world.release(job.id, placement);
        world.occupy(job, placement, last, false);
        overlay.makers.push((Arc::clone(job), Placement::clone(placement)));
    }
    overlay
}

impl Round<'_> {
    /// Puts the claims of the state on the world, starts the claimants whose room is there, and
    /// lets go on who stands still for nobody any more.
    pub(crate) fn take_up_claims(&mut self, walk: &mut Walk) {
        let state = self.state;
        let groups = claims(state);
        for places in &groups {
            let Some(claim) = places.first().and_then(|p| p.job.claim.as_ref()) else { continue };
            self.overlay(places, &claim.victims, claim.until);
        }
        for places in &groups {
            self.start_claimant(walk, places);
        }
        self.resume();
    }

    /// Keeps the room of a group from others.
    pub(super) fn overlay(&mut self, places: &[Place], victims: &[Victim], until: Timestamp) {
        let Some(leader) = places.first().map(|place| place.job.id) else { return };
        let world = &mut self.cache.world;
        let overlay = lay_over(world, self.state, self.now, places, victims, until);
        self.preempting.overlays.insert(leader, overlay);
    }

    fn lift(&mut self, leader: JobId) {
        if let Some(overlay) = self.preempting.overlays.get(&leader) {
            for (job, placement, _) in overlay.held.iter().rev() {
                self.cache.world.release(job.id, placement);
            }
        }
    }

    fn put_back(&mut self, leader: JobId) {
        if let Some(overlay) = self.preempting.overlays.get(&leader) {
            for (job, placement, end) in &overlay.held {
                self.cache.world.occupy(job, placement, *end, false);
            }
        }
    }

    /// Starts a group whose room is there; else it waits on, and nothing else is done for it while
    /// room is being made.
    fn start_claimant(&mut self, walk: &mut Walk, places: &[Place]) {
        let state = self.state;
        let Some(leader) = places.first().map(|place| &place.job) else { return };
        let Some(claim) = &leader.claim else { return };
        let Some(group) = group(state, leader) else { return };
        let free =
            |job: &&Arc<Job>| job.is_pending() && job.eligible.is_some_and(|at| at <= self.now);
        if !group.iter().all(free) {
            return;
        }
        let asks: Vec<Vec<crate::ask::Ask>> =
            group.iter().map(|job| crate::queue::asks(state, job, self.now)).collect();
        let still: Vec<&Arc<Job>> = makers(state, &claim.victims)
            .filter(|(victim, job)| victim.mode == PreemptMode::Suspend && job.yields_cpus())
            .map(|(_, job)| job)
            .collect();
        self.lift(leader.id);
        self.give_cpus(&still);
        let throttled = group.iter().any(|job| self.is_throttled(job));
        if !throttled && self.start(walk, usize::MAX, &asks, &group) {
            self.preempting.overlays.entry(leader.id).and_modify(|o| o.held.clear());
            self.stand_by(&still);
            return;
        }
        self.take_cpus(&still);
        // Once all have made room and it still does not fit, it waits as everybody does.
        if makers(state, &claim.victims).any(|(_, job)| !job.yields_cpus()) {
            self.put_back(leader.id);
            for place in places {
                self.limits.count_placement(&place.job, &place.placement, place.limit);
            }
            self.settled.extend(group.iter().map(|job| job.id));
        } else {
            self.preempting.overlays.entry(leader.id).and_modify(|o| o.held.clear());
        }
    }

    fn is_throttled(&self, job: &Job) -> bool {
        job.array.is_some_and(|task| self.is_at_throttle(task.array))
    }

    /// Gives jobs that stand still back the CPUs that the last group started does not use.
    fn stand_by(&mut self, still: &[&Arc<Job>]) {
        let group = self.started.last().cloned().unwrap_or_default();
        for job in still {
            self.rehold(job, |placement| {
                for share in &mut placement.nodes {
                    let there = group.iter().flat_map(|started| &started.placement.nodes);
                    for theirs in there.filter(|s| s.node == share.node) {
                        share.cpus.remove_all(&theirs.cpus);
                    }
                }
            });
            self.preempting.stood_by.push(Arc::clone(job));
        }
    }

    /// Takes the CPUs of jobs that stand still off the world.
    fn give_cpus(&mut self, still: &[&Arc<Job>]) {
        for job in still {
            self.rehold(job, |placement| {
                take_no_cpus(placement);
            });
        }
    }

    fn take_cpus(&mut self, still: &[&Arc<Job>]) {
        for job in still {
            self.rehold(job, |_| {});
        }
    }

    /// Puts a job on the world anew, with a change to what it has by the state.
    pub(super) fn rehold(&mut self, job: &Arc<Job>, change: impl FnOnce(&mut Placement)) {
        let (Some(mut placement), Some(end)) =
            (on_the_world(self.state, job), self.state.expected_end(job, self.now))
        else {
            return;
        };
        self.cache.world.release(job.id, &placement);
        change(&mut placement);
        self.cache.world.occupy(job, &placement, end, false);
    }

    /// Lets jobs go on whose CPUs nobody runs on any more: those that have stood still longest
    /// first.
    fn resume(&mut self) {
        let state = self.state;
        let mut still: Vec<&Arc<Job>> = state
            .index
            .evicted
            .iter()
            .filter_map(|id| state.jobs.get(id))
            .filter(|job| job.yields_cpus() || job.resumes)
            .filter(|job| job.state == muster_model::JobState::Suspended)
            .collect();
        still.sort_by_key(|job| (job.eviction.as_ref().map(|e| e.at), job.id));
        let mut taken: BTreeSet<(NodeId, u32)> = BTreeSet::new();
        let mut note = |placement: &Placement| {
            for share in &placement.nodes {
                taken.extend(share.cpus.iter().map(|cpu| (share.node, cpu)));
            }
        };
        if still.is_empty() {
            return;
        }
        for job in state.index.active.iter().filter_map(|id| state.jobs.get(id)) {
            let runs = !job.yields_cpus() && !job.lends;
            if let Some(placement) = job.placement.as_ref().filter(|_| runs) {
                note(placement);
            }
        }
        for started in self.started.iter().flatten() {
            note(&started.placement);
        }
        for job in state.index.claimants.iter().filter_map(|id| state.jobs.get(id)) {
            if let Some(claim) = job.claim.as_ref().filter(|claim| is_valid(state, claim)) {
                note(&claim.placement);
            }
        }
        for job in still {
            let Some(placement) = &job.placement else { continue };
            let own: Vec<(NodeId, u32)> = placement
                .nodes
                .iter()
                .flat_map(|share| share.cpus.iter().map(|cpu| (share.node, cpu)))
                .collect();
            let is_whole = job.het.is_none();
            if is_whole && own.iter().all(|cpu| !taken.contains(cpu)) {
                taken.extend(own);
                self.preempting.decisions.push(Decision::Resume { job: job.id });
            }
        }
    }

    /// Takes everything of claims off the world again.
    pub(crate) fn forget_claims(&mut self) {
        for job in std::mem::take(&mut self.preempting.stood_by) {
            self.rehold(&job, |_| {});
        }
        for job in std::mem::take(&mut self.preempting.grown) {
            if let Some(placement) = &job.placement {
                self.cache.world.release(job.id, placement);
                self.cache.world.hold_as(self.state, &job);
            }
        }
        let overlays = std::mem::take(&mut self.preempting.overlays);
        for overlay in overlays.into_values() {
            for (job, placement, _) in overlay.held {
                self.cache.world.release(job.id, &placement);
            }
            for (job, placement) in overlay.makers {
                self.cache.world.release(job.id, &placement);
                self.cache.world.hold_as(self.state, &job);
            }
        }
    }
}
