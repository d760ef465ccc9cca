//! Who comes first is not overtaken unless a promise protects the queue of the partition.

use crate::fit::{When, lies_on, room};
use crate::keys::Keys;
use crate::{Rule, Violation, decided, eligible, limits, starts};
use muster_model::{Job, JobId, Licence, Partition, Plan, State, TimeLimit};
use std::collections::BTreeSet;

pub(crate) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let decided = decided(state, plan);
    let keys = Keys::new(state, plan.now);
    let promised: BTreeSet<JobId> = plan.promises.iter().map(|p| p.job).collect();
    for start in starts(plan) {
        let Some(job) = state.jobs.get(&start.job) else { continue };
        let Some(partition) = state.partitions.get(&start.placement.partition) else { continue };
        // A promise on nodes of the partition protects what is before the start.
        let protected = plan
            .promises
            .iter()
            .any(|p| p.nodes.iter().any(|id| partition.nodes.contains(&state.node_name(*id))));
        if protected {
            continue;
        }
        let own = keys.together(job);
        let before = state
            .index
            .pending
            .iter()
            .filter(|id| !decided.contains(id) && !promised.contains(id))
            .filter_map(|id| state.jobs.get(id))
            .filter(|other| other.spec.partitions.contains(&partition.name))
            .filter(|other| keys.of(other) < own)
            .filter(|other| could_run(state, plan, other, partition))
            .find(|other| !limits::may_hold(state, plan, other, partition, &keys));
        if let Some(before) = before {
            let detail = format!("starts before job {}, which comes first", before.id);
            found.push(Violation::of(Rule::Overtaken, job.id, detail));
        }
    }
}

/// True where nothing but use by others keeps the job from starting in the partition.
fn could_run(state: &State, plan: &Plan, job: &Job, partition: &Partition) -> bool {
    let request = &job.spec.request;
    let throttled = job.array.is_some_and(|task| {
        state.index.arrays.get(&task.array).is_some_and(|a| a.throttle.is_some())
    });
    if throttled
        || job.het.is_some()
        || job.spec.gang.is_some()
        || request.switches.is_some()
        || crate::affinity::looks_at_jobs(job)
        || job.eligible.is_none_or(|at| at > plan.now)
        || eligible::not_eligible(state, plan.now, job).is_some()
        || !may_use(state, plan, job, partition)
    {
        return false;
    }
    let licences = request.licences.iter().all(|l| {
        let there = |have: &Licence| have.total >= l.count && have.hold.is_none();
        state.licences.get(&l.name).is_some_and(there)
            && crate::reservation::licence_is_free(state, &l.name)
    });
    licences
        && request.licences.len() < 2
        && crate::waiting::some_set(
            state,
            job,
            partition,
            |id| {
                // What is reserved now and then is not counted on.
                let free = state.reservations.values().all(|r| r.on(id).is_none());
                if free { room(state, plan.now, &[], id, When::Empty) } else { None }
            },
            |rooms| lies_on(job, partition, rooms) == Some(true),
        )
}

/// The job's own terms with the partition: state, account, limits, reservation.
pub(crate) fn may_use(state: &State, plan: &Plan, job: &Job, partition: &Partition) -> bool {
    let any_time = state.qos.get(&job.spec.qos).is_some_and(|qos| qos.flags.partition_time_limit);
    let in_time = any_time
        || match (job.time_limit, partition.max_time) {
            (_, TimeLimit::Unlimited) => true,
            (TimeLimit::Unlimited, TimeLimit::Of(_)) => false,
            (TimeLimit::Of(asked), TimeLimit::Of(most)) => asked <= most,
        };
    let by_deadline = job.spec.deadline.is_none_or(|deadline| {
        job.time_limit.seconds().is_some_and(|limit| plan.now.plus(limit) <= deadline)
    });
    let admitted =
        partition.allow_accounts.is_empty() || partition.allow_accounts.contains(&job.spec.account);
    in_time
        && by_deadline
        && admitted
        && partition.state.starts_jobs()
        && job.spec.request.reservation.is_none()
        && state.partitions.contains_key(&partition.name)
}
