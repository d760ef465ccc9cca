//! Circles of dependencies, looked for over the whole graph (S-23).

use super::CommandError;
use muster_model::{
    Dependency, DependencyKind, DependencyTarget, GateStatus, GateTarget, Job, JobId, State,
};
use std::collections::BTreeMap;

/// Refuses a dependency of `job` from which a way leads back to it.
pub(super) fn check(state: &State, job: &Job, dependency: &Dependency) -> Result<(), CommandError> {
    let mut found_from: BTreeMap<JobId, JobId> = BTreeMap::new();
    let mut open: Vec<JobId> = Vec::new();
    let mut reach = |from: JobId, to: JobId, open: &mut Vec<JobId>| {
        if let std::collections::btree_map::Entry::Vacant(entry) = found_from.entry(to) {
            entry.insert(from);
            open.push(to);
        }
        to == job.id
    };
    for target in direct_targets(state, job, dependency) {
        if reach(job.id, target, &mut open) {
            return Err(CommandError::DependencyCircle { path: vec![job.id] });
        }
    }
    while let Some(at) = open.pop() {
        let Some(here) = state.jobs.get(&at).filter(|j| j.is_pending()) else { continue };
        for target in waits_for(state, here) {
            if reach(at, target, &mut open) {
                return Err(CommandError::DependencyCircle {
                    path: path_to(job.id, at, &found_from),
                });
            }
        }
    }
    Ok(())
}

/// The jobs of the circle: the changed one, then whom it waits for, and so on.
fn path_to(start: JobId, end: JobId, found_from: &BTreeMap<JobId, JobId>) -> Vec<JobId> {
    let mut path = vec![end];
    let mut at = end;
    while let Some(before) = found_from.get(&at).copied()
        && before != start
        && path.len() <= found_from.len()
    {
        path.push(before);
        at = before;
    }
    path.push(start);
    path.reverse();
    path
}

/// The jobs that a new dependency would wait for.
fn direct_targets(state: &State, job: &Job, dependency: &Dependency) -> Vec<JobId> {
    let mut targets = Vec::new();
    for term in &dependency.terms {
        match (&term.target, term.kind) {
            (None, _) => targets.extend(same_name_before(state, job)),
            (Some(DependencyTarget::Job(id)), DependencyKind::AfterCorr) => {
                match job.array.and_then(|task| state.array_task(*id, task.index)) {
                    Some(partner) => targets.push(partner),
                    None => targets.extend(tasks(state, *id)),
                }
            }
            (Some(DependencyTarget::Job(id)), _) => targets.extend(tasks(state, *id)),
            (Some(DependencyTarget::Tasks(array, indices)), _) => {
                targets.extend(indices.iter().filter_map(|i| state.array_task(*array, i)));
            }
        }
    }
    targets
}

/// All tasks of an array, or the job alone.
fn tasks(state: &State, id: JobId) -> Vec<JobId> {
    match state.index.arrays.contains_key(&id) {
        true => state.family(id),
        false => vec![id],
    }
}

fn same_name_before(state: &State, job: &Job) -> Vec<JobId> {
    let key = (job.spec.owner.uid, job.spec.name.clone());
    state
        .index
        .unfinished
        .get(&key)
        .map_or_else(Vec::new, |ids| ids.iter().copied().take_while(|id| *id < job.id).collect())
}

/// The jobs that a waiting job waits for, as its gates stand.
fn waits_for(state: &State, job: &Job) -> Vec<JobId> {
    let mut targets = Vec::new();
    for gate in job.gates.iter().filter(|g| g.status == GateStatus::Waiting) {
        match gate.target {
            None => targets.extend(same_name_before(state, job)),
            Some(GateTarget::Job(id)) => targets.push(id),
            Some(GateTarget::Array(id)) => targets.extend(state.family(id)),
        }
    }
    targets
}
