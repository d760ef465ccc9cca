//! Groups of pods that start together, in the forms in which Kubernetes users say it.
//!
//! | form | on the pod | how many |
//! | --- | --- | --- |
//! | upstream (`scheduling.k8s.io`) | `spec.schedulingGroup.podGroupName` | `PodGroup`, `spec.schedulingPolicy.gang.minCount` |
//! | coscheduling (`scheduling.x-k8s.io`) | label `scheduling.x-k8s.io/pod-group` | `PodGroup`, `spec.minMember` |
//! | Volcano (`scheduling.volcano.sh`) | annotation `scheduling.k8s.io/group-name` | `PodGroup`, `spec.minMember` |
//! | muster | annotations `muster.dev/gang` and `muster.dev/gang-size` | the second |
//!
//! Sources: KEP-4671, the coscheduling plugin's README, Volcano's PodGroup reference.

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;

/// The kinds of group objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKind {
    /// `PodGroup` of `scheduling.k8s.io`.
    Upstream,
    /// `PodGroup` of `scheduling.x-k8s.io`.
    Coscheduling,
    /// `PodGroup` of `scheduling.volcano.sh`.
    Volcano,
    /// No object: annotations of the pods.
    Annotated,
}

/// The group that a pod is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GangName {
    /// Its namespace.
    pub namespace: String,
    /// What says so.
    pub kind: GroupKind,
    /// Its name.
    pub name: String,
}

/// What matters of a group object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// So many pods start together; 0 and 1 are each for itself.
    pub least: u32,
    /// Its pods are disrupted together or not at all, or each for itself; `None` where it does not
    /// say.
    pub whole: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Spec {
    min_member: Option<i64>,
    scheduling_policy: Policy,
    disruption_mode: Option<serde_json::Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Policy {
    gang: Option<Count>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Count {
    min_count: Option<i64>,
}

/// A group object of any kind and version, by its `spec`. What it does not say is 0.
pub fn group(spec: &serde_json::Value) -> Group {
    let spec = Spec::deserialize(spec).unwrap_or_default();
    let least = spec.scheduling_policy.gang.and_then(|gang| gang.min_count).or(spec.min_member);
    // A word in v1alpha2, an object with one field from v1alpha3 on.
    let whole = spec.disruption_mode.map(|mode| mode == "PodGroup" || mode.get("all").is_some());
    Group { least: least.and_then(|n| u32::try_from(n).ok()).unwrap_or(0), whole }
}

/// The group that a pod names, and how many start together where the pod itself says it.
pub(super) fn of(pod: &Pod) -> Option<(GangName, Option<u32>)> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let label = |key: &str| pod.metadata.labels.as_ref()?.get(key).cloned();
    let annotation = |key: &str| pod.metadata.annotations.as_ref()?.get(key).cloned();
    let name =
        |kind: GroupKind, name: String| GangName { namespace: namespace.clone(), kind, name };
    let upstream = pod.spec.as_ref()?.scheduling_group.as_ref();
    if let Some(group) = upstream.and_then(|group| group.pod_group_name.clone()) {
        return Some((name(GroupKind::Upstream, group), None));
    }
    if let Some(gang) = annotation("muster.dev/gang") {
        let size = annotation("muster.dev/gang-size").and_then(|size| size.parse().ok());
        return Some((name(GroupKind::Annotated, gang), Some(size.unwrap_or(0))));
    }
    if let Some(group) = label("scheduling.x-k8s.io/pod-group") {
        return Some((name(GroupKind::Coscheduling, group), None));
    }
    let volcano = annotation("scheduling.k8s.io/group-name")?;
    Some((name(GroupKind::Volcano, volcano), None))
}
