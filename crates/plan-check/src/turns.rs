//! Turns recounted: who runs of those that have the same CPUs or GPUs, and is it their turn?
//!
//! Worked out pair by pair from the placements as they will be after the plan.

use crate::{Rule, Violation, starts};
use muster_model::turn::slice_begin;
use muster_model::{
    Decision, Event, EventKind, Job, JobId, JobState, NodeId, Placement, Plan, State, Timestamp,
    Turn, TurnChange,
};
use std::collections::{BTreeMap, BTreeSet};

fn changes(plan: &Plan) -> impl Iterator<Item = &TurnChange> {
    plan.decisions.iter().flat_map(|d| match d {
        Decision::Turns(changes) => changes.as_slice(),
        _ => &[],
    })
}

/// The state once turns have changed.
pub(crate) fn after(mut state: State, plan: &Plan) -> State {
    for change in changes(plan) {
        let (job, attempt, turn) = (change.job, change.attempt, change.turn);
        let kind = EventKind::JobTurn { job, attempt, turn };
        // One that is not there is told by a rule of its own.
        let _ = state.apply(&Event { at: plan.now, kind });
    }
    state
}

/// True where two placements have a CPU, or a GPU as a whole, in common.
pub(crate) fn meet(a: &Placement, b: &Placement) -> bool {
    a.nodes.iter().any(|one| {
        b.nodes.iter().filter(|other| other.node == one.node).any(|other| {
            let gpu = |index: u32| other.devices.iter().any(|d| d.index == index && d.is_whole());
            one.cpus.intersects(&other.cpus)
                || one.devices.iter().any(|d| d.is_whole() && gpu(d.index))
        })
    })
}

/// Somebody who shares, before and after the plan.
struct Sharer<'a> {
    job: &'a Job,
    placement: &'a Placement,
    /// Ran, or was to run, before.
    did: bool,
    /// Was to stand still until its turn came.
    waited: bool,
    runs: bool,
    since: Timestamp,
    turn: Option<Turn>,
    new: bool,
    /// Is being ended: it runs, and nothing is decided for it.
    ends: bool,
}

fn sharers<'a>(state: &'a State, plan: &'a Plan) -> Vec<Sharer<'a>> {
    let change: BTreeMap<JobId, &TurnChange> = changes(plan).map(|c| (c.job, c)).collect();
    let running =
        state.jobs.values().filter(|job| state_takes_turns(state, job)).filter_map(|job| {
            let ends = job.state == JobState::Completing || job.eviction.is_some();
            let (did, waited) = (job.is_to_run(), job.waits_for_turn());
            let by_hand = job.suspend && !waited;
            let change = change.get(&job.id).filter(|_| !ends);
            let turn = change.map_or(job.turn, |change| change.turn);
            let runs = match change {
                Some(change) => !by_hand && change.turn.is_none_or(|turn| turn.runs),
                None => did,
            };
            let since = job.turn.map(|turn| turn.since).or(job.placed).unwrap_or_default();
            let placement = job.placement.as_deref()?;
            Some(Sharer { job, placement, did, waited, runs, since, turn, new: false, ends })
        });
    let starting = starts(plan).into_iter().filter_map(|start| {
        let job = state.jobs.get(&start.job)?.as_ref();
        let partition = state.partitions.get(&start.placement.partition)?;
        let turn = start.turn;
        (partition.has_turns() || turn.is_some()).then(|| Sharer {
            job,
            placement: start.placement.as_ref(),
            did: false,
            waited: false,
            runs: turn.is_none_or(|turn| turn.runs),
            since: plan.now,
            turn,
            new: true,
            ends: false,
        })
    });
    running.chain(starting).collect()
}

fn state_takes_turns(state: &State, job: &Job) -> bool {
    job.turn.is_some() || state.turns_of(job).is_some()
}

pub(crate) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let any_new = starts(plan).iter().any(|start| start.turn.is_some());
    let has_turns = || state.partitions.values().any(|p| p.has_turns());
    if changes(plan).next().is_none() && !any_new && !has_turns() {
        return;
    }
    for change in changes(plan) {
        let known = state.jobs.get(&change.job).filter(|job| {
            job.attempt == change.attempt
                && job.state.holds_resources()
                && job.state != JobState::Completing
        });
        if known.is_none() {
            let text = "has nothing to take turns on";
            found.push(Violation::of(Rule::TurnGroundless, change.job, text));
        }
    }
    let all = sharers(state, plan);
    let on_node = by_node(&all);
    let begin = slice_begin(plan.now, state.policy.time_slice);
    for (at, one) in all.iter().enumerate() {
        let fellows = fellows(&all, &on_node, at);
        alone(one, &fellows, found);
        clash(one, &fellows, found);
        stopped(one, &fellows, begin, found);
        passed_over(one, &fellows, begin, found);
    }
    ends(&all, &on_node, plan, found);
}

/// Nobody stands still on CPUs that nobody runs on.
pub(crate) fn check_idle(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let all = sharers(state, plan);
    let on_node = by_node(&all);
    for (at, one) in all.iter().enumerate() {
        let waits = (one.waited || one.new) && !one.runs;
        if waits && !fellows(&all, &on_node, at).iter().any(|other| other.runs || other.ends) {
            let text = "stands still although nobody runs on its CPUs and GPUs";
            found.push(Violation::of(Rule::TurnIdle, one.job.id, text));
        }
    }
}

fn by_node(all: &[Sharer<'_>]) -> BTreeMap<NodeId, Vec<usize>> {
    let mut on_node: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    for (at, one) in all.iter().enumerate() {
        for share in &one.placement.nodes {
            on_node.entry(share.node).or_default().push(at);
        }
    }
    on_node
}

/// Those that have a CPU or GPU of one's.
fn fellows<'s, 'a>(
    all: &'s [Sharer<'a>],
    on_node: &BTreeMap<NodeId, Vec<usize>>,
    at: usize,
) -> Vec<&'s Sharer<'a>> {
    let nodes = all[at].placement.nodes.iter().filter_map(|share| on_node.get(&share.node));
    let near: BTreeSet<usize> = nodes.flatten().copied().filter(|other| *other != at).collect();
    let meets = |other: &&Sharer<'_>| meet(all[at].placement, other.placement);
    near.into_iter().map(|other| &all[other]).filter(meets).collect()
}

/// Who shares has a turn.
fn alone(one: &Sharer<'_>, fellows: &[&Sharer<'_>], found: &mut Vec<Violation>) {
    let stays: Vec<_> = fellows.iter().filter(|other| !other.ends).collect();
    if one.new && one.turn.is_none() && !stays.is_empty() {
        let text = "starts on CPUs or GPUs of others without a turn";
        found.push(Violation::of(Rule::TurnGroundless, one.job.id, text));
    }
    if one.new && one.turn.is_some() && fellows.is_empty() {
        let text = "takes turns with nobody";
        found.push(Violation::of(Rule::TurnGroundless, one.job.id, text));
    }
}

fn clash(one: &Sharer<'_>, fellows: &[&Sharer<'_>], found: &mut Vec<Violation>) {
    let begins = one.runs && !one.did && !one.ends;
    for other in fellows.iter().filter(|other| begins && (other.runs || other.ends)) {
        // Both begin: told once.
        if other.runs && !other.did && other.job.id < one.job.id {
            continue;
        }
        let detail = format!("would run on what job {} runs on", other.job.id);
        found.push(Violation::of(Rule::TurnClash, one.job.id, detail));
    }
}

/// Whoever is stopped had its slice, and somebody else goes on in its place; or two ran at once.
fn stopped(
    one: &Sharer<'_>,
    fellows: &[&Sharer<'_>],
    begin: Timestamp,
    found: &mut Vec<Violation>,
) {
    if !one.did || one.runs || one.ends || one.new {
        return;
    }
    let two_ran = fellows.iter().any(|other| other.did && other.runs);
    let makes_way = fellows.iter().any(|other| other.runs && other.waited);
    if !two_ran && (one.since >= begin || !makes_way) {
        let text = "is made to stand still before its slice is over, or for nobody";
        found.push(Violation::of(Rule::TurnEarly, one.job.id, text));
    }
}

/// Nobody goes on before one that has waited longer and could have gone on in its place.
fn passed_over(
    one: &Sharer<'_>,
    fellows: &[&Sharer<'_>],
    begin: Timestamp,
    found: &mut Vec<Violation>,
) {
    if !one.waited || one.runs || one.ends {
        return;
    }
    let key = |other: &Sharer<'_>| (other.since, other.job.id);
    let goes = |other: &&&Sharer<'_>| other.runs && !other.did;
    let later = fellows.iter().filter(goes).find(|other| other.new || key(other) > key(one));
    let blocked = fellows.iter().any(|other| {
        let first = other.runs && !other.new && other.waited && key(other) < key(one);
        let fresh = other.runs && other.did && other.since >= begin;
        other.ends || first || fresh
    });
    if let Some(later) = later.filter(|_| !blocked) {
        let detail = format!("has waited longer for its turn than job {}", later.job.id);
        let jobs = vec![later.job.id, one.job.id];
        found.push(Violation { rule: Rule::TurnOrder, jobs, node: None, detail });
    }
}

/// The end that a turn names is not before all who share can be over.
fn ends(
    all: &[Sharer<'_>],
    on_node: &BTreeMap<NodeId, Vec<usize>>,
    plan: &Plan,
    found: &mut Vec<Violation>,
) {
    let changed: BTreeSet<JobId> = changes(plan).map(|change| change.job).collect();
    for (at, one) in all.iter().enumerate() {
        let Some(turn) = one.turn.filter(|_| one.new || changed.contains(&one.job.id)) else {
            continue;
        };
        let mut group = BTreeSet::from([at]);
        let mut open = vec![at];
        while let Some(next) = open.pop() {
            let nodes = all[next].placement.nodes.iter().filter_map(|s| on_node.get(&s.node));
            for other in nodes.flatten().copied() {
                let joined = !all[other].ends
                    && !group.contains(&other)
                    && meet(all[next].placement, all[other].placement);
                if joined {
                    group.insert(other);
                    open.push(other);
                }
            }
        }
        let left = |at: &usize| match (all[*at].new, starts(plan)) {
            (true, starts) => {
                let own = starts.into_iter().find(|start| start.job == all[*at].job.id)?;
                Some(own.time_limit.seconds()?.0.saturating_mul(1000))
            }
            (false, _) => all[*at].job.left_ms(plan.now),
        };
        let sum =
            group.iter().map(left).try_fold(0u64, |sum, left| Some(sum.saturating_add(left?)));
        let least = sum.map_or(Timestamp::NEVER, |sum| plan.now.plus_ms(sum));
        if turn.until < least {
            let detail = format!("is said to be over by {}, all who share by {least}", turn.until);
            found.push(Violation::of(Rule::TurnEnd, one.job.id, detail));
        }
    }
}
