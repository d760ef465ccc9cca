//! Elastic jobs: do they give up what they may, and grow only onto what nobody can use?
//!
//! That nobody who waits could use it is the rule that nobody is left waiting: what a job grows onto
//! does not count as taken there.

use crate::preempt::made;
use crate::{Rule, Violation, affinity, layout, limits, reservation};
use muster_model::{
    Decision, Elastic, Job, NodeId, NodeShare, Placement, Plan, PreemptMode, Start, State, Victim,
};
use std::collections::BTreeMap;

/// The decisions to grow.
pub(crate) fn grows(plan: &Plan) -> impl Iterator<Item = &Victim> {
    plan.decisions.iter().filter_map(|d| match d {
        Decision::Grow(victim) => Some(victim.as_ref()),
        _ => None,
    })
}

/// Those that grow by the state, on their way out.
pub(crate) fn growing(state: &State) -> Vec<Victim> {
    let evicted = state.index.evicted.iter().filter_map(|id| state.jobs.get(id));
    let of = |job: &std::sync::Arc<Job>| {
        let eviction = job.eviction.as_ref().filter(|e| e.by == job.id)?;
        let (job, attempt) = (job.id, job.attempt);
        let (mode, stop_at, until) = (eviction.mode, eviction.stop_at, eviction.until);
        Some(Victim { job, attempt, mode, stop_at, until, keeps: eviction.keeps.clone() })
    };
    evicted.filter_map(of).collect()
}

/// The start of one that waits for what it keeps.
pub(crate) fn again(after: &State, victim: &Victim) -> Option<Start> {
    let job = after.jobs.get(&victim.job).filter(|job| job.is_pending())?;
    Some(Start {
        job: job.id,
        attempt: job.attempt.saturating_add(1),
        placement: victim.keeps.clone()?,
        time_limit: job.time_limit,
        turn: None,
    })
}

/// Every decision to grow: the job may, the place is one for it, and it is worth it.
pub(crate) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    if grows(plan).next().is_none() {
        return;
    }
    let (after, _) = made(state, plan);
    let mut starts = Vec::new();
    for victim in grows(plan) {
        let Some(job) = state.jobs.get(&victim.job) else { continue };
        if let Some(why) = wrong_growth(state, plan, job, victim) {
            found.push(Violation::of(Rule::GrowthWrong, job.id, why));
        }
        starts.extend(again(&after, victim));
    }
    let all: Vec<&Start> = starts.iter().collect();
    affinity::check(&after, &all, found);
    for start in &starts {
        layout::check(&after, plan.now, start, found);
    }
    reservation::check(&after, plan, &all, found);
    let alone = Plan { decisions: vec![Decision::Start(starts)], now: plan.now, ..Plan::default() };
    limits::check(&after, &alone, found);
}

fn shares(placement: &Placement) -> BTreeMap<NodeId, &NodeShare> {
    placement.nodes.iter().map(|share| (share.node, share)).collect()
}

/// Why a job may not grow so; `None` where it may.
fn wrong_growth(state: &State, plan: &Plan, job: &Job, victim: &Victim) -> Option<String> {
    let (Some(own), Some(keeps)) = (&job.placement, &victim.keeps) else {
        return Some("has no place to grow from, or to".to_owned());
    };
    let (had, has) = (shares(own), shares(keeps));
    let asked = job.spec.request.nodes.as_ref();
    let count = u32::try_from(keeps.nodes.len()).unwrap_or(u32::MAX);
    let rested =
        job.started.is_some_and(|at| at.plus(state.policy.preemption.grow_after) <= plan.now);
    if job.attempt != victim.attempt || !job.may_be_resized() || !job.starts_anew() {
        Some("is not elastic, cannot start again, or something else is to become of it".to_owned())
    } else if own.partition != keeps.partition || own.reservation != keeps.reservation {
        Some("would grow out of its partition or reservation".to_owned())
    } else if has.len() <= had.len() || had.iter().any(|(id, share)| has.get(id) != Some(share)) {
        Some("would have other nodes than its own and more".to_owned())
    } else if asked.is_none_or(|nodes| !nodes.allows(count)) {
        Some(format!("would have {count} nodes, which is not what it asks for"))
    } else if !matches!(victim.mode, PreemptMode::Requeue | PreemptMode::Checkpoint) {
        Some(format!("would grow by {:?}", victim.mode))
    } else if !rested {
        Some("has not yet run as long as it has to before it grows".to_owned())
    } else if !state.growth_pays(job, u64::from(count), plan.now) {
        Some("would save less than a restart is worth".to_owned())
    } else {
        None
    }
}

/// Why a job may not shrink to this; `None` where it may.
pub(crate) fn wrong_shrink(job: &Job, victim: &Victim, keeps: &Placement) -> Option<String> {
    let own = job.placement.as_deref();
    let (had, left) = (own.map(shares).unwrap_or_default(), shares(keeps));
    let count = u32::try_from(left.len()).unwrap_or(u32::MAX);
    let first = own.and_then(|p| p.nodes.first()).map(|share| share.node);
    let goes_on = victim.mode == PreemptMode::Shrink;
    let by_restart = matches!(victim.mode, PreemptMode::Requeue | PreemptMode::Checkpoint);
    if !job.may_be_resized() || (!goes_on && !job.starts_anew()) {
        Some("is not elastic, or cannot start again".to_owned())
    } else if left.len() >= had.len() || left.keys().any(|id| !had.contains_key(id)) {
        Some("would keep other nodes than fewer of its own".to_owned())
    } else if job.spec.request.nodes.as_ref().is_none_or(|nodes| !nodes.allows(count)) {
        Some(format!("would have {count} nodes, which is not what it asks for"))
    } else if !goes_on && !by_restart {
        Some(format!("would shrink by {:?}", victim.mode))
    } else if goes_on && job.spec.elastic != Elastic::Live {
        Some("does not live with losing nodes".to_owned())
    } else if goes_on && left.iter().any(|(id, share)| had.get(id) != Some(share)) {
        Some("would have something else on the nodes that it keeps".to_owned())
    } else if goes_on && !first.is_some_and(|first| left.contains_key(&first)) {
        Some("would lose the node that its script runs on".to_owned())
    } else {
        None
    }
}
