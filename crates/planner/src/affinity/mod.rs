//! Labels, taints, and the jobs beside a job: who is where, and what that leaves to others.
//!
//! Work: once for each search for nodes a job is compared with the terms by which running jobs keep
//! others with one of its labels away, and where it has rules of its own with the looks of running
//! jobs (labels, user, account) that have a label which its selectors name, and with each promised
//! job. Selectors without such a label are compared with all. A label as a place costs one pass over
//! the nodes, once. Kubernetes' rules throughout (its scheduling reference).

mod even;
mod fence;
mod keys;
mod labelled;
mod reason;
mod social;
mod wishes;

pub(crate) use even::Even;
pub(crate) use fence::{Fence, is_near_nobody};
pub(crate) use keys::{Keys, Places};
pub(crate) use reason::{ruled_out, text, without, without_each};
pub(crate) use social::Social;
pub(crate) use wishes::{order_by_wishes, wish_scores};

use muster_model::{JobSpec, JobTerm, Rules, Term};

/// True where a selector picks a job: by its labels, `name`, `user` or `account`.
pub(crate) fn selects(selector: &Term, spec: &JobSpec) -> bool {
    selector.selects(|key| match spec.labels.get(key) {
        Some(value) => Some(value.as_str()),
        None => match key {
            "name" => Some(spec.name.as_str()),
            "user" => Some(spec.owner.user.as_str()),
            "account" => Some(spec.account.as_str()),
            _ => None,
        },
    })
}

/// What a job keeps away from.
pub(crate) fn apart(spec: &JobSpec) -> &Rules<JobTerm> {
    static NONE: Rules<JobTerm> = Rules { required: Vec::new(), preferred: Vec::new() };
    spec.request.affinity.as_ref().map_or(&NONE, |a| &a.apart)
}
