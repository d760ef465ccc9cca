//! What is to be done now: the plan, held against what Slurm was told before. Pure.

use crate::ahead::ahead;
use muster_engine_slurm::SlurmError;
use muster_engine_slurm::read::{Driven, Target};
use muster_model::{Decision, JobId, Start, State, TimeLimit};
use muster_planner::{Budget, Planner};
use std::collections::{BTreeMap, BTreeSet};

/// A job that is to start now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number in what is planned.
    pub job: JobId,
    /// Its nodes; none where it is released before there is room, for Slurm to start in its turn.
    pub nodes: BTreeSet<String>,
    /// Its limit in minutes, where the plan cuts that down.
    pub limit: Option<u64>,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Jobs to be released, the first components of heterogeneous ones before the others.
    pub release: Vec<Step>,
    /// Released jobs to be taken back: there is no room for them any more, or they do not start.
    pub take_back: Vec<JobId>,
    /// Jobs whose start breaks a rule of plan-check, with the rules; they are not released.
    pub broken: BTreeMap<JobId, String>,
}

/// Plans and compares.
///
/// # Errors
/// [`SlurmError::Answer`] where the records contradict each other.
pub fn steps(driven: &Driven) -> Result<Steps, SlurmError> {
    let (state, _) = driven.cluster.state()?;
    let mut planner = Planner::new(&state);
    let plan = planner.plan(&state, driven.cluster.now, Budget::UNLIMITED);
    let mut steps = Steps::default();
    for violation in muster_plan_check::check(&state, &plan) {
        for job in &violation.jobs {
            steps.broken.insert(*job, violation.to_string());
        }
    }
    let mut starting = BTreeSet::new();
    for decision in &plan.decisions {
        let Decision::Start(starts) = decision else { continue };
        let sound = |start: &Start| {
            driven.targets.contains_key(&start.job) && !steps.broken.contains_key(&start.job)
        };
        if !starts.iter().all(sound) {
            continue;
        }
        for start in starts {
            starting.insert(start.job);
            let step = step(&state, start);
            // Of a first component only the reservation tells; one that was released ahead is
            // Slurm's to place.
            let is_told =
                |t: &Target| t.released && (t.leads || t.ahead || t.required == step.nodes);
            if !driven.targets.get(&start.job).is_some_and(is_told) {
                steps.release.push(step);
            }
        }
    }
    let ahead = ahead(driven, &state, &starting);
    for job in &ahead {
        if driven.targets.get(job).is_some_and(|target| !target.released) {
            steps.release.push(Step { job: *job, nodes: BTreeSet::new(), limit: None });
        }
    }
    let stays = |job: &JobId, target: &Target| {
        starting.contains(job) || (target.ahead && ahead.contains(job))
    };
    let released = driven.targets.iter().filter(|(_, target)| target.released);
    let back = released.filter(|(job, target)| !stays(job, target));
    steps.take_back = back.map(|(job, _)| *job).collect();
    Ok(steps)
}

fn step(state: &State, start: &Start) -> Step {
    let names = start.placement.nodes.iter().filter_map(|share| state.nodes.get(&share.node));
    let asked = state.jobs.get(&start.job).and_then(|job| job.spec.time_limit);
    let limit = match start.time_limit {
        TimeLimit::Of(limit) if asked.is_some_and(|asked| asked != start.time_limit) => {
            Some(limit.0.div_ceil(60))
        }
        _ => None,
    };
    Step { job: start.job, nodes: names.map(|node| node.name.clone()).collect(), limit }
}
