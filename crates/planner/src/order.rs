//! In which order waiting jobs are considered.

use muster_model::{Job, JobId, OrderMode, State, Timestamp};
use std::cmp::Reverse;

/// A job's place in the queue: whether it names a reservation, then partition tier, then priority, then submission, then its number
/// (case S-42). Smaller is earlier.
pub(crate) type OrderKey = (Reverse<u32>, Reverse<i64>, Timestamp, JobId);

/// Where a job stands under the policy.
pub(crate) fn order_key(state: &State, job: &Job) -> OrderKey {
    match state.policy.order {
        OrderMode::Fifo | OrderMode::Multifactor => {
            (Reverse(tier(state, job)), Reverse(priority(state, job)), job.submitted, job.id)
        }
    }
}

/// The highest tier among the partitions that the job may run in; above all tiers where it names a
/// reservation.
fn tier(state: &State, job: &Job) -> u32 {
    let tier = partitions(state, job).map(|p| p.tier).max().unwrap_or(0);
    let reserved = u32::from(job.spec.request.reservation.is_some()) << 31;
    tier.min(u32::MAX >> 1) | reserved
}

/// A job's priority: the one set by hand, else its QOS's plus the highest of its partitions' minus
/// its nice value.
pub fn priority(state: &State, job: &Job) -> i64 {
    if let Some(by_hand) = job.spec.priority {
        return i64::from(by_hand);
    }
    let qos = state.qos.get(&job.spec.qos).map_or(0, |q| i64::from(q.priority));
    let partition = partitions(state, job).map(|p| i64::from(p.priority)).max().unwrap_or(0);
    (qos + partition).saturating_sub(job.spec.nice)
}

fn partitions<'a>(
    state: &'a State,
    job: &'a Job,
) -> impl Iterator<Item = &'a std::sync::Arc<muster_model::Partition>> {
    job.spec.partitions.iter().filter_map(|name| state.partitions.get(name))
}
