//! Budgets of disruption: how many of some pods may be told to make room.

use super::selector::{NAMESPACE, is_one_of, pods};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use muster_model::DisruptionBudget;

/// A budget in muster's words. Its controller says how many pods it allows; before that none.
pub fn budget(told: &PodDisruptionBudget) -> DisruptionBudget {
    let (namespace, name) = (&told.metadata.namespace, &told.metadata.name);
    let namespace = namespace.clone().unwrap_or_default();
    // No selector at all counts nothing, an empty one every pod (policy/v1).
    let mut jobs = pods(told.spec.as_ref().and_then(|spec| spec.selector.as_ref()));
    // What rules out most comes first.
    jobs.all.insert(0, is_one_of(NAMESPACE, [namespace.clone()]));
    let allowed = told.status.as_ref().and_then(|status| status.disruptions_allowed);
    DisruptionBudget {
        name: budget_name(&namespace, &name.clone().unwrap_or_default()),
        jobs,
        allowed: allowed.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
    }
}

/// Its name among all budgets.
pub fn budget_name(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}
