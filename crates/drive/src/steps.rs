//! What is to be done now: the plan, held against what Slurm was told before. Pure.

use crate::By;
use crate::ahead::{Ahead, ahead};
use muster_engine_slurm::SlurmError;
use muster_engine_slurm::read::Driven;
use muster_model::{Decision, JobId, Plan, Start, State, TimeLimit};
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
    /// All waiting tasks of its array with it, as one record.
    pub whole: bool,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Jobs to be released, the first components of heterogeneous ones before the others.
    pub release: Vec<Step>,
    /// Released jobs to be taken back: there is no room for them any more, or they do not start.
    pub take_back: Vec<JobId>,
    /// Jobs to be held, before others are released: they are new.
    pub hold: Vec<JobId>,
    /// Jobs whose start breaks a rule of plan-check, with the rules; they are not released.
    pub broken: BTreeMap<JobId, String>,
}

/// So often at most a plan is made anew because components of a heterogeneous job meet on a node.
const SPREADS: usize = 8;

/// Plans and compares.
///
/// # Errors
/// [`SlurmError::Answer`] where the records contradict each other.
pub fn steps(driven: &Driven, by: By) -> Result<Steps, SlurmError> {
    let mut driven = driven.clone();
    let mut planned = Planned::of(&driven)?;
    for _ in 0..SPREADS {
        let met = planned.components_that_meet();
        if met.is_empty() {
            break;
        }
        for (job, nodes) in &met {
            driven.keep_off(*job, nodes);
        }
        planned = Planned::of(&driven)?;
    }
    Ok(compare(&driven, &planned, by))
}

/// A plan and what it is for.
struct Planned {
    state: State,
    plan: Plan,
}

impl Planned {
    fn of(driven: &Driven) -> Result<Self, SlurmError> {
        let (state, _) = driven.cluster.state()?;
        let plan = Planner::new(&state).plan(&state, driven.cluster.now, Budget::UNLIMITED);
        Ok(Self { state, plan })
    }

    /// Components of heterogeneous jobs that would start on a node of a component before them, with
    /// these nodes: Slurm's backfill keeps each node for one of them and would never start them.
    fn components_that_meet(&self) -> Vec<(JobId, BTreeSet<String>)> {
        let mut met = Vec::new();
        for decision in &self.plan.decisions {
            let Decision::Start(starts) = decision else { continue };
            let mut taken = BTreeSet::new();
            for start in starts {
                let own = step(&self.state, start).nodes;
                let both: BTreeSet<String> = own.intersection(&taken).cloned().collect();
                taken.extend(own);
                if !both.is_empty() {
                    met.push((start.job, both));
                }
            }
        }
        met
    }
}

/// The plan held against what Slurm was told before.
fn compare(driven: &Driven, planned: &Planned, by: By) -> Steps {
    let Planned { state, plan } = planned;
    let mut steps = Steps::default();
    for violation in muster_plan_check::check(state, plan) {
        for job in &violation.jobs {
            steps.broken.insert(*job, violation.to_string());
        }
    }
    let mut starts_now: Vec<&Start> = Vec::new();
    for decision in &plan.decisions {
        let Decision::Start(starts) = decision else { continue };
        let sound = |start: &Start| {
            driven.targets.contains_key(&start.job) && !steps.broken.contains_key(&start.job)
        };
        if !starts.iter().all(sound) {
            continue;
        }
        starts_now.extend(starts);
    }
    let starting: BTreeSet<JobId> = starts_now.iter().map(|start| start.job).collect();
    let ahead = match by {
        By::Lease => ahead(driven, state, &starting),
        // Nothing keeps Slurm from starting what is not held, wherever it likes.
        By::Hold => Ahead::default(),
    };
    for start in starts_now {
        let Some(target) = driven.targets.get(&start.job) else { continue };
        let step = step(state, start);
        // Of a first component only the reservation tells; one that was released ahead is Slurm's
        // to place.
        let is_told =
            target.released && (target.leads || target.ahead || target.required == step.nodes);
        if !is_told && !ahead.jobs.contains(&start.job) {
            steps.release.push(step);
        }
    }
    let mut begun = BTreeSet::new();
    for job in &ahead.jobs {
        let Some(target) = driven.targets.get(job).filter(|target| !target.released) else {
            continue;
        };
        let array = target.rest.as_ref().map(|rest| rest.array);
        let array = array.filter(|array| ahead.whole.contains(array));
        if array.is_none_or(|array| begun.insert(array)) {
            let whole = array.is_some();
            let nodes = BTreeSet::new();
            steps.release.push(Step { job: *job, nodes, limit: None, whole });
        }
    }
    steps.take_back = taken_back(driven, &starting, &ahead);
    if by == By::Hold {
        steps.hold = to_hold(driven, &starting);
    }
    steps
}

/// The released jobs that neither start now nor are ahead. Where tasks are one record, all of them
/// have to start for it to stay, and the first stands for it.
fn taken_back(driven: &Driven, starting: &BTreeSet<JobId>, ahead: &Ahead) -> Vec<JobId> {
    let mut back = Vec::new();
    let mut records = BTreeSet::new();
    for (job, target) in driven.targets.iter().filter(|(_, target)| target.released) {
        let stays = starting.contains(job) || (target.ahead && ahead.jobs.contains(job));
        if !stays && records.insert(target.record()) {
            back.push(*job);
        }
    }
    back
}

/// The waiting jobs that muster has not held yet: those that start now are not held at all, but of
/// an array that is one record all of it.
fn to_hold(driven: &Driven, starting: &BTreeSet<JobId>) -> Vec<JobId> {
    let mut hold = Vec::new();
    let mut records = BTreeSet::new();
    for (job, target) in driven.targets.iter().filter(|(_, target)| !target.marked) {
        let alone = target.all == target.name;
        if !(alone && starting.contains(job)) && records.insert(target.record()) {
            hold.push(*job);
        }
    }
    hold
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
    let nodes = names.map(|node| node.name.clone()).collect();
    Step { job: start.job, nodes, limit, whole: false }
}
