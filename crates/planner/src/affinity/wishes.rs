//! The order of nodes by what a job wishes for.

use super::even::Even;
use super::keys::NONE;
use crate::ask::Ask;
use crate::free::Span;
use crate::world::World;
use muster_model::affinity::untolerated;
use muster_model::{Affinity, JobTerm, TaintEffect, Toleration, Wish};
use std::collections::BTreeSet;

/// The same nodes, those that the job wishes for first; `None` where it wishes for nothing.
///
/// Node weight stays before wishes, and what it does not tolerate but may have comes after; then
/// the sum of the weights of the wishes that hold, less the jobs that even spreading counts. Work:
/// every node once for each wish, and a sort.
pub(crate) fn order_by_wishes(
    world: &World,
    ask: &Ask,
    span: Span,
    order: &[usize],
) -> Option<Vec<usize>> {
    let (affinity, who) = (ask.affinity()?, ask.who.as_ref()?);
    let soft = Even::all(world, ask, who, true, span);
    let wishes = !affinity.node.preferred.is_empty()
        || !affinity.near.preferred.is_empty()
        || !affinity.apart.preferred.is_empty();
    // The order has them last already; only who tolerates such a taint sees them otherwise.
    let shy = |t: &Toleration| t.effect.is_none_or(|e| e == TaintEffect::PreferNoSchedule);
    if !wishes && soft.is_empty() && !affinity.tolerations.iter().any(shy) {
        return None;
    }
    let score = scores(world, affinity, &soft, order, span);
    let mut sorted = order.to_vec();
    // Stable: equal ones stay in the order of the policy.
    sorted.sort_by_cached_key(|node| {
        let view = world.view(*node);
        let soft = [TaintEffect::PreferNoSchedule];
        let taints = untolerated(&view.node, &affinity.tolerations, &soft).count();
        (view.node.weight, taints, -score[*node])
    });
    Some(sorted)
}

/// By node, what the job's wishes come to, as if it were placed now; empty where it has none.
pub(crate) fn wish_scores(world: &World, ask: &Ask, now: muster_model::Timestamp) -> Vec<i64> {
    let (Some(affinity), Some(who)) = (ask.affinity(), ask.who.as_ref()) else { return Vec::new() };
    let span = Span::of(now, now, ask.length());
    let order: Vec<usize> = (0..world.views().len()).collect();
    let soft = Even::all(world, ask, who, true, span);
    scores(world, affinity, &soft, &order, span)
}

fn scores(
    world: &World,
    affinity: &Affinity,
    soft: &[Even],
    order: &[usize],
    span: Span,
) -> Vec<i64> {
    let mut score = vec![0i64; world.views().len()];
    for wish in &affinity.node.preferred {
        for node in order.iter().filter(|n| wish.term.holds_on(&world.view(**n).node)) {
            score[*node] += i64::from(wish.weight);
        }
    }
    for (wishes, sign) in [(&affinity.near.preferred, 1), (&affinity.apart.preferred, -1)] {
        for wish in wishes {
            add(world, wish, span, sign, &mut score);
        }
    }
    for even in soft {
        for node in order {
            score[*node] -= i64::from(even.count_at(*node));
        }
    }
    score
}

fn add(world: &World, wish: &Wish<JobTerm>, span: Span, sign: i64, score: &mut [i64]) {
    let numbers = world.places(&wish.term.key);
    let there: BTreeSet<u32> = world
        .social()
        .picked(&wish.term.selector, span)
        .flat_map(|(_, there)| there.nodes.iter().map(|node| numbers[*node]))
        .filter(|number| *number != NONE)
        .collect();
    for (score, number) in score.iter_mut().zip(numbers.iter()) {
        if there.contains(number) {
            *score += sign * i64::from(wish.weight);
        }
    }
}
