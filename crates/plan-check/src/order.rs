//! Who comes first is not overtaken unless a promise protects the queue of the partition.

use crate::fit::{When, lies_on, room};
use crate::{Rule, Violation, decided, eligible, starts};
use muster_model::{Job, JobId, Partition, Plan, State, TimeLimit, Timestamp};
use std::cmp::Reverse;
use std::collections::BTreeSet;

type Key = (Reverse<u32>, Reverse<i64>, Timestamp, JobId);

/// A job's place in the queue, from the words of the policy.
pub(crate) fn key(state: &State, job: &Job) -> Key {
    let partitions: Vec<&Partition> = job
        .spec
        .partitions
        .iter()
        .filter_map(|name| state.partitions.get(name).map(AsRef::as_ref))
        .collect();
    let tier = partitions.iter().map(|p| p.tier).max().unwrap_or(0).min(u32::MAX >> 1);
    // Who names a reservation comes first (S-42).
    let tier = tier + if job.spec.request.reservation.is_some() { 1 << 31 } else { 0 };
    let from_partition = partitions.iter().map(|p| i64::from(p.priority)).max().unwrap_or(0);
    let from_qos = state.qos.get(&job.spec.qos).map_or(0, |q| i64::from(q.priority));
    let computed = (from_qos + from_partition).saturating_sub(job.spec.nice);
    let priority = job.spec.priority.map_or(computed, i64::from);
    (Reverse(tier), Reverse(priority), job.submitted, job.id)
}

pub(crate) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    let decided = decided(plan);
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
        let first = job.het.map_or(job.id, |part| part.leader);
        let Some(leader) = state.jobs.get(&first) else { continue };
        let own = key(state, leader);
        let before = state
            .index
            .pending
            .iter()
            .filter(|id| !decided.contains(id) && !promised.contains(id))
            .filter_map(|id| state.jobs.get(id))
            .filter(|other| other.spec.partitions.contains(&partition.name))
            .filter(|other| key(state, other) < own)
            .find(|other| could_run(state, plan, other, partition));
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
        || request.switches.is_some()
        || crate::affinity::looks_at_jobs(job)
        || job.eligible.is_none_or(|at| at > plan.now)
        || eligible::not_eligible(state, plan.now, job).is_some()
        || !may_use(state, plan, job, partition)
    {
        return false;
    }
    let licences = request.licences.iter().all(|l| {
        state.licences.get(&l.name).is_some_and(|have| have.total >= l.count)
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
    let in_time = match (job.time_limit, partition.max_time) {
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
