//! Making room: running jobs give theirs up for waiting ones that may have it.
//!
//! # How it goes
//! A waiting job that does not fit, and may preempt somebody, is laid out on a world without those
//! that it may preempt. Where it fits, the cheapest of them that are enough make room: the fewest,
//! or those who lose the least work (module `search`). A gang goes whole or not at all, on both
//! sides. Where it would not fit with all of them gone, nobody goes (case S-39).
//!
//! The decision claims the room: what is free of it already and what the victims still have. From
//! then on the claim stands in the state, every round puts it on the world before anything else,
//! and nobody gets any of it until the claimant starts, is held, changed or cancelled. So victims
//! that take their grace are not preempted twice, and no third job slips in between.
//!
//! Before anybody is preempted, elastic jobs give up what they have above their least (module
//! `shrink`); what nobody can use they get (module `grow`).
//!
//! A victim that is suspended keeps all but its CPUs, and those too for everybody but the claimant.
//! It goes on as soon as nobody runs on them.
//!
//! Cost: nothing where nobody may preempt. Else for at most `depth` jobs a round one look at every
//! running job, and some hundred layouts of the waiting one (module `search`).

mod claims;
pub(crate) mod expected;
mod grow;
mod one_node;
mod permit;
mod quota;
mod search;
mod shrink;
mod told;
mod units;

pub(crate) use claims::on_the_world;
pub(crate) use told::room_makers;
pub use told::{RoomMakers, RunningJobs};

use crate::ask::Ask;
use crate::coming::Kept;
use crate::free::Span;
use crate::round::Round;
use crate::world::World;
use claims::Overlay;
use muster_model::{
    Decision, Job, JobId, Placement, Plan, Preempt, Reason, Start, State, TimeLimit, Timestamp,
    Victim,
};
use permit::{Asker, Permits};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a round has made room for, and what it keeps on the world for that.
#[derive(Default)]
pub(crate) struct Preempting<'a> {
    permits: Option<Permits<'a>>,
    /// Jobs that victims were looked for.
    searches: u32,
    pub(crate) decisions: Vec<Decision>,
    /// Whom those of one standing may preempt.
    units: Option<(one_node::Standing, Arc<one_node::Units>)>,
    /// The first of groups for which victims were looked for, and none were enough.
    pub(crate) in_vain: BTreeSet<JobId>,
    overlays: BTreeMap<JobId, Overlay>,
    /// Jobs that are nobody's victims in this round any more.
    pub(crate) spared: BTreeSet<JobId>,
    /// Jobs that start again on more nodes, which are on the world as theirs.
    grown: Vec<Arc<Job>>,
    /// Jobs that stand still and were put on the world otherwise than the state has them.
    stood_by: Vec<Arc<Job>>,
}

/// Where a job of a group would be.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) job: Arc<Job>,
    pub(crate) placement: Arc<Placement>,
    pub(crate) limit: TimeLimit,
}

/// The asks of the highest tier that a component may use.
fn highest(asks: &[Ask]) -> Vec<&Ask> {
    let tier = asks.iter().map(|ask| ask.partition.tier).max();
    asks.iter().filter(|ask| Some(ask.partition.tier) == tier).collect()
}

/// The reservations over the present that all of a group could start in, where being in one counts;
/// at last none, which is every way without that right.
fn reserved_ways(state: &State, now: Timestamp, asks: &[Vec<&Ask>]) -> Vec<Option<String>> {
    let mut ways = Vec::new();
    if state.policy.preemption.reservations {
        let first = asks.first().into_iter().flatten();
        let names: BTreeSet<&String> = first.filter_map(|ask| ask.inside.as_ref()).collect();
        let counts = |name: &&String| {
            state.reservations.get(*name).is_some_and(|own| own.is_active(now))
                && asks.iter().all(|part| part.iter().any(|ask| ask.inside.as_ref() == Some(*name)))
        };
        ways.extend(names.into_iter().filter(counts).cloned().map(Some));
    }
    ways.push(None);
    ways
}

/// The asks that are in a reservation; all where none is said.
fn in_way<'a>(asks: &[Vec<&'a Ask>], inside: Option<&str>) -> Vec<Vec<&'a Ask>> {
    let own = |ask: &&&Ask| inside.is_none_or(|name| ask.inside.as_deref() == Some(name));
    asks.iter().map(|part| part.iter().filter(own).copied().collect()).collect()
}

/// True where a running job has something that the waiting ones could use.
fn could_help(world: &World, asks: &[Vec<&Ask>], job: &Job) -> bool {
    let Some(placement) = &job.placement else { return false };
    // What is reserved for others, or not by its own reservation, is none of its.
    let now = world.now();
    let span = Span { now, from: now, to: now };
    asks.iter().flatten().any(|ask| {
        let members = world.members(&ask.partition.name);
        let on_a_node = placement.nodes.iter().any(|share| {
            world.slot_of(share.node).is_some_and(|at| {
                members.is_some_and(|m| m.contains(at))
                    && ask.may_use(world.view(at))
                    && world.view_for(at, ask, span).is_some()
            })
        });
        on_a_node || ask.licences.keys().any(|name| placement.licences.contains_key(name))
    })
}

impl<'a> Round<'a> {
    /// The rules of who may preempt whom, with use of quotas counted once.
    fn permits(&mut self) -> &mut Permits<'a> {
        let (state, now) = (self.state, self.now);
        self.preempting.permits.get_or_insert_with(|| Permits::new(state, now))
    }

    /// False where nobody makes room for anybody any more.
    pub(crate) fn can_make_room(&mut self) -> bool {
        let most = self.state.policy.preemption.depth;
        let elastic = !self.state.index.elastic.is_empty();
        self.preempting.searches < most && (elastic || self.permits().are_any())
    }

    /// Makes room for a group that does not fit; false where nobody may or could.
    pub(crate) fn make_room(&mut self, asks: &[Vec<Ask>], group: &[&Arc<Job>]) -> bool {
        if !self.can_make_room() {
            return false;
        }
        let asks: Vec<Vec<&Ask>> = asks.iter().map(|part| highest(part)).collect();
        let shrunk = self.shrink(&asks, group);
        self.preempting.searches += u32::from(shrunk.is_some());
        if shrunk == Some(true) || !self.permits().are_any() {
            return shrunk == Some(true);
        }
        let tier = asks.iter().filter_map(|part| Some(part.first()?.partition.tier)).min();
        let tier = tier.unwrap_or(0);
        let mut searched = false;
        for inside in reserved_ways(self.state, self.now, &asks) {
            let inside = inside.as_deref();
            let askers: Vec<Asker<'_>> =
                group.iter().map(|job| Asker { job, tier, inside }).collect();
            let permits = self.permits();
            if !askers.iter().all(|asker| permits.may_ask(*asker)) {
                continue;
            }
            self.preempting.searches += u32::from(!searched && shrunk.is_none());
            searched = true;
            let asks = in_way(&asks, inside);
            if let Some(found) = self.search(&asks, &askers, group) {
                self.claim(found);
                return true;
            }
        }
        if searched && let Some(leader) = group.first() {
            self.preempting.in_vain.insert(leader.id);
        }
        false
    }

    /// Decides on what a search found, and keeps the room from others.
    fn claim(&mut self, found: search::Found) {
        let search::Found { places, victims } = found;
        let until = victims.iter().map(|v| v.until).max().unwrap_or(self.now);
        for place in &places {
            self.settled.insert(place.job.id);
            self.limits.count_placement(&place.job, &place.placement, place.limit);
            let amounts = muster_model::Amounts::of(&place.placement);
            let state = self.state;
            if let Some(quotas) = self.permits().quotas.as_mut() {
                quotas.count(state, &place.job, amounts);
            }
        }
        if self.permits().quotas.is_some() {
            // Who is beyond a guarantee is another question now.
            self.preempting.units = None;
        }
        self.preempting.spared.extend(victims.iter().map(|victim| victim.job));
        self.overlay(&places, &victims, until);
        let starts = places
            .into_iter()
            .map(|place| Start {
                job: place.job.id,
                attempt: place.job.attempt.saturating_add(1),
                placement: place.placement,
                time_limit: place.limit,
                turn: None,
            })
            .collect();
        let preempt = Preempt { starts, victims, until };
        self.preempting.decisions.push(Decision::Preempt(Box::new(preempt)));
    }
}

/// The jobs that make room for a waiting one, and until when: its claim's victims that still hold
/// something.
pub(crate) fn makers<'a>(
    state: &'a muster_model::State,
    victims: &'a [Victim],
) -> impl Iterator<Item = (&'a Victim, &'a Arc<Job>)> {
    victims.iter().filter_map(|victim| {
        let job = state.jobs.get(&victim.job)?;
        victim.is_awaited(job).then_some((victim, job))
    })
}

/// At most so many victims are named in a reason.
const NAMED_MAX: usize = 8;

/// Why those wait for whom room is made: by the state, and by the decisions of this round.
pub(crate) fn reasons(state: &State, plan: &Plan) -> BTreeMap<JobId, Reason> {
    let mut reasons = BTreeMap::new();
    for job in state.index.claimants.iter().filter_map(|id| state.jobs.get(id)) {
        let Some(claim) = &job.claim else { continue };
        let victims: Vec<JobId> =
            makers(state, &claim.victims).map(|(victim, _)| victim.job).take(NAMED_MAX).collect();
        if !victims.is_empty() {
            reasons.insert(job.id, Reason::MakingRoom { victims, until: claim.until });
        }
    }
    for decision in &plan.decisions {
        let Decision::Preempt(preempt) = decision else { continue };
        let victims: Vec<JobId> = preempt.victims.iter().map(|v| v.job).take(NAMED_MAX).collect();
        let reason = Reason::MakingRoom { victims, until: preempt.until };
        reasons.extend(preempt.starts.iter().map(|start| (start.job, reason.clone())));
    }
    let starts = plan.decisions.iter().flat_map(Decision::starts);
    starts.for_each(|start| {
        reasons.remove(&start.job);
    });
    reasons
}

/// The room that is held for others: by the state, and by the decisions of this round.
pub(crate) fn held(state: &State, plan: &Plan) -> Vec<Kept> {
    let starting: BTreeSet<JobId> =
        plan.decisions.iter().flat_map(Decision::starts).map(|start| start.job).collect();
    let claimants = state.index.claimants.iter().filter_map(|id| state.jobs.get(id));
    let claimed = claimants.filter(|job| !starting.contains(&job.id)).filter_map(|job| {
        let claim = job.claim.as_ref()?;
        makers(state, &claim.victims).next()?;
        let placement = claims::free_part(state, &claim.placement, &claim.victims);
        let (limit, from) = (claim.time_limit, claim.until);
        Some(Kept { job: Arc::clone(job), placement, limit, from })
    });
    let made = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Preempt(preempt) => Some(preempt.as_ref()),
        _ => None,
    });
    let made = made.flat_map(|preempt| {
        preempt.starts.iter().filter_map(|start| {
            let job = Arc::clone(state.jobs.get(&start.job)?);
            let placement = claims::free_part(state, &start.placement, &preempt.victims);
            Some(Kept { job, placement, limit: start.time_limit, from: preempt.until })
        })
    });
    claimed.chain(made).collect()
}

/// The room that is made for a waiting job, by the round or by the state.
pub(crate) fn room_of(plan: &Plan, job: &Job) -> Option<Arc<Placement>> {
    let decided = plan.decisions.iter().find_map(|decision| match decision {
        Decision::Preempt(preempt) => preempt.starts.iter().find(|start| start.job == job.id),
        _ => None,
    });
    let decided = decided.map(|start| Arc::clone(&start.placement));
    decided.or_else(|| Some(Arc::clone(&job.claim.as_ref()?.placement)))
}

/// What of who asks decides whom it may preempt: its QOS, its account and its own priority, where
/// they do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rank {
    qos: String,
    account: Option<String>,
    priority: Option<u32>,
    never: bool,
}

/// The rank of a job; `None` where nothing of it decides whom it may preempt.
pub(crate) fn rank_of(state: &State, job: &Job) -> Option<Rank> {
    let by_qos = state.qos.get(&job.spec.qos).is_some_and(|qos| !qos.preempts.is_empty());
    let policy = &state.policy.preemption;
    let by_quota = policy.reclaim != muster_model::PreemptMode::Off;
    let never = job.spec.never_preempts;
    (by_qos || by_quota || policy.priorities || never).then(|| Rank {
        qos: job.spec.qos.clone(),
        account: by_quota.then(|| job.spec.account.clone()),
        priority: job.spec.priority.filter(|_| policy.priorities),
        never,
    })
}
