//! An independent verdict on a plan: every violation, typed.
//!
//! This crate sees only the model and knows the rules again, written simply: it recounts use from
//! the jobs' own placements and borrows no index of free resources, no fit and no timeline from the
//! planner. It never stops at the first violation.
//!
//! Two scopes of one rule set: [`check`] looks at what the plan touches, before every commit;
//! [`check_full`] and [`recount`] look at everything, in tests and off the path.
//!
//! ```
//! use muster_model::{Plan, State};
//! assert!(muster_plan_check::check(&State::default(), &Plan::default()).is_empty());
//! ```

mod affinity;
mod beside;
mod devices;
mod elastic;
mod eligible;
mod fit;
mod keys;
mod layout;
mod limits;
mod order;
mod outlook;
mod packed;
mod preempt;
mod promise;
mod reservation;
mod taints;
mod topology;
mod turns;
mod usage;
mod violation;
mod waiting;

pub use violation::{Rule, Violation};

use muster_model::{Decision, Job, JobId, Plan, Promise, Resume, Start, State, Timestamp};
use std::collections::BTreeSet;

/// The rules on what the plan touches: its jobs, their nodes and licences, and its promises.
pub fn check(state: &State, plan: &Plan) -> Vec<Violation> {
    let state = &*Resume::seen(plan.resumed.as_ref(), state);
    let mut found = Vec::new();
    let starts = starts(plan);
    eligible::check(state, plan, &mut found);
    for start in &starts {
        layout::check(state, plan.now, start, &mut found);
    }
    affinity::check(state, &starts, &mut found);
    usage::check_starts(state, &starts, &mut found);
    limits::check(state, plan, &mut found);
    let (after, held) = preempt::made(state, plan);
    let after = turns::after(after, plan);
    let with_held: Vec<&Start> = starts.iter().copied().chain(&held).collect();
    promise::check(&after, plan, &with_held, &mut found);
    preempt::check(state, plan, &mut found);
    taints::check(state, plan, &mut found);
    turns::check(state, plan, &mut found);
    reservation::check(state, plan, &starts, &mut found);
    found
}

/// [`check`], and the rules on what the plan leaves: order kept, nobody left waiting for nothing.
pub fn check_full(state: &State, plan: &Plan) -> Vec<Violation> {
    let mut found = check(state, plan);
    let state = &*Resume::seen(plan.resumed.as_ref(), state);
    order::check(state, plan, &mut found);
    if plan.complete {
        waiting::check(state, plan, &mut found);
        turns::check_idle(state, plan, &mut found);
    }
    found
}

/// A whole outlook from zero, behind the round that it begins with: no instant at which more would
/// be taken than there is, no start that is not what its job asks for, and nobody kept from the
/// room that is made for it.
pub fn check_outlook(state: &State, plan: &Plan, starts: &[Promise]) -> Vec<Violation> {
    let mut found = Vec::new();
    outlook::check(state, plan, starts, &mut found);
    found
}

/// What all running jobs hold, counted from zero: nothing twice, nothing that is not there.
pub fn recount(state: &State) -> Vec<Violation> {
    let mut found = Vec::new();
    usage::recount(state, &mut found);
    found
}

/// The number that orders a job at an instant, counted again from the words of the policy.
pub fn priority(state: &State, now: Timestamp, job: &Job) -> i64 {
    keys::Keys::new(state, now).priority(job)
}

/// The sum, or the largest number where it does not fit: users may ask for anything.
fn total(counts: impl IntoIterator<Item = u32>) -> u32 {
    counts.into_iter().fold(0, u32::saturating_add)
}

fn starts(plan: &Plan) -> Vec<&Start> {
    let starts = plan.decisions.iter().filter_map(|d| match d {
        Decision::Start(starts) => Some(starts),
        _ => None,
    });
    starts.flatten().collect()
}

/// The jobs that the plan starts or rejects, and those for whom room is made.
fn decided(state: &State, plan: &Plan) -> BTreeSet<JobId> {
    let claimants = preempt::claimants(state, plan);
    plan.decisions
        .iter()
        .flat_map(|d| match d {
            Decision::Start(starts) => starts.iter().map(|s| s.job).collect(),
            Decision::Reject { job, .. } => vec![*job],
            // Room is held for them: they are dealt with.
            Decision::Preempt(preempt) => preempt.starts.iter().map(|s| s.job).collect(),
            Decision::Grow(_)
            | Decision::Resume { .. }
            | Decision::Evict { .. }
            | Decision::Turns(_) => Vec::new(),
        })
        .chain(claimants)
        .collect()
}
