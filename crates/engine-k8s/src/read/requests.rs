//! What a pod asks for in all: the rule of the default scheduler (Kubernetes' reference of init
//! containers, "Resource sharing within containers", and of pod-level resources).

use crate::quantity::{BadQuantity, Quantity};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use std::collections::BTreeMap;

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// Reads amounts.
///
/// # Errors
/// [`BadQuantity`] where one of them is none.
pub fn amounts(told: Option<&BTreeMap<String, Text>>) -> Result<Amounts, BadQuantity> {
    let all = told.into_iter().flatten();
    all.map(|(name, text)| Ok((name.clone(), Quantity::parse(&text.0)?))).collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let entry = sum.entry(name.clone()).or_default();
        *entry = entry.plus(*amount);
    }
}

fn raise(most: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let entry = most.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

fn of(container: &Container) -> Result<Amounts, BadQuantity> {
    amounts(container.resources.as_ref().and_then(|r| r.requests.as_ref()))
}

/// True for what can be asked for by the pod as a whole.
fn is_for_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// What of a pod's containers the kubelet tells, where their amounts are being changed in place.
struct Resizes<'a> {
    statuses: BTreeMap<&'a str, &'a ContainerStatus>,
    /// What is asked for now can never be had: what was before goes on.
    infeasible: bool,
}

impl<'a> Resizes<'a> {
    fn of(pod: &'a Pod) -> Self {
        let status = pod.status.as_ref();
        let init = status.and_then(|s| s.init_container_statuses.as_ref());
        let own = status.and_then(|s| s.container_statuses.as_ref());
        let all = init.into_iter().flatten().chain(own.into_iter().flatten());
        let conditions = status.and_then(|s| s.conditions.as_ref()).into_iter().flatten();
        let mut pending = conditions.filter(|c| c.type_ == "PodResizePending");
        Self {
            statuses: all.map(|status| (status.name.as_str(), status)).collect(),
            infeasible: pending
                .next()
                .is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible")),
        }
    }

    /// The most of what a container asks for, has, and was promised.
    fn of_container(&self, container: &Container) -> Result<Amounts, BadQuantity> {
        let asked = of(container)?;
        let Some(status) = self.statuses.get(container.name.as_str()) else { return Ok(asked) };
        let Some(has) = &status.resources else { return Ok(asked) };
        let mut most = amounts(has.requests.as_ref())?;
        raise(&mut most, &amounts(status.allocated_resources.as_ref())?);
        if !self.infeasible {
            raise(&mut most, &asked);
        }
        Ok(most)
    }
}

/// All that a pod needs on its node, without the pod itself.
///
/// Its containers run together, with those init containers that stay; each other init container
/// runs beside the ones that stay before it.
///
/// # Errors
/// [`BadQuantity`].
pub fn requests(pod: &Pod) -> Result<Amounts, BadQuantity> {
    let Some(spec) = &pod.spec else { return Ok(Amounts::new()) };
    let resizes = Resizes::of(pod);
    let mut sum = Amounts::new();
    for container in &spec.containers {
        add(&mut sum, &resizes.of_container(container)?);
    }
    let (mut staying, mut most) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut own;
        if container.restart_policy.as_deref() == Some("Always") {
            own = resizes.of_container(container)?;
            add(&mut sum, &own);
            add(&mut staying, &own);
            own.clone_from(&staying);
        } else {
            own = of(container)?;
            add(&mut own, &staying);
        }
        raise(&mut most, &own);
    }
    raise(&mut sum, &most);
    let whole = amounts(spec.resources.as_ref().and_then(|r| r.requests.as_ref()))?;
    sum.extend(whole.into_iter().filter(|(name, _)| is_for_pods(name)));
    add(&mut sum, &amounts(spec.overhead.as_ref())?);
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cpu_of(pod: serde_json::Value) -> String {
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        requests(&pod).expect("quantities")["cpu"].to_string()
    }

    fn cpu(spec: &serde_json::Value) -> String {
        cpu_of(json!({"spec": spec}))
    }

    /// Case C-08: containers 1 + 1, init containers in this order, overhead 250m.
    fn with_init(init: &[(&str, bool)]) -> serde_json::Value {
        let asks = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let init: Vec<_> = init
            .iter()
            .map(|(cpu, stays)| {
                let policy = if *stays { json!("Always") } else { json!(null) };
                json!({"name": "i", "resources": asks(cpu), "restartPolicy": policy})
            })
            .collect();
        json!({
            "containers": [{"name": "a", "resources": asks("1")},
                           {"name": "b", "resources": asks("1")}],
            "initContainers": init,
            "overhead": {"cpu": "250m"},
        })
    }

    #[test]
    fn init_containers_run_beside_those_before_them_that_stay() {
        assert_eq!(cpu(&with_init(&[("5", false), ("1", true), ("3", false)])), "5250m");
        assert_eq!(cpu(&with_init(&[("1", true), ("5", false), ("3", false)])), "6250m");
        assert_eq!(cpu(&with_init(&[])), "2250m");
        assert_eq!(cpu(&with_init(&[("1", true)])), "3250m");
    }

    #[test]
    fn what_the_pod_asks_for_as_a_whole_comes_first() {
        let mut spec = with_init(&[("5", false)]);
        spec["resources"] = json!({"requests": {"cpu": "3"}});
        assert_eq!(cpu(&spec), "3250m");
    }

    #[test]
    fn while_a_pod_is_resized_it_has_the_most_of_before_and_after() {
        let resized = |asked: &str, has: &str, reason: &str| {
            cpu_of(json!({
                "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": asked}}}]},
                "status": {
                    "conditions": [{"type": "PodResizePending", "status": "True",
                        "reason": reason}],
                    "containerStatuses": [{"name": "a", "image": "", "imageID": "", "ready": true,
                        "restartCount": 0, "allocatedResources": {"cpu": "500m"},
                        "resources": {"requests": {"cpu": has}}}]},
            }))
        };
        assert_eq!(resized("1", "2", "Deferred"), "2");
        assert_eq!(resized("3", "2", "Deferred"), "3");
        assert_eq!(resized("3", "2", "Infeasible"), "2");
        assert_eq!(resized("250m", "250m", "Deferred"), "500m");
    }
}
