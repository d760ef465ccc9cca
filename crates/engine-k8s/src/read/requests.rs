//! What a pod asks for in all: the rule of the default scheduler (Kubernetes' reference of init
//! containers, "Resource sharing within containers", and of pod-level resources).

use crate::quantity::{BadQuantity, Quantity};
use k8s_openapi::api::core::v1::{Container, PodSpec};
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

/// All that a pod needs on its node, without the pod itself.
///
/// Its containers run together, with those init containers that stay; each other init container
/// runs beside the ones that stay before it.
///
/// # Errors
/// [`BadQuantity`].
pub fn requests(spec: &PodSpec) -> Result<Amounts, BadQuantity> {
    let mut sum = Amounts::new();
    for container in &spec.containers {
        add(&mut sum, &of(container)?);
    }
    let (mut staying, mut most) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut own = of(container)?;
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sum, &own);
            add(&mut staying, &own);
            own.clone_from(&staying);
        } else {
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

    fn cpu(spec: serde_json::Value) -> String {
        let spec: PodSpec = serde_json::from_value(spec).expect("a pod's spec");
        requests(&spec).expect("quantities")["cpu"].to_string()
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
        assert_eq!(cpu(with_init(&[("5", false), ("1", true), ("3", false)])), "5250m");
        assert_eq!(cpu(with_init(&[("1", true), ("5", false), ("3", false)])), "6250m");
        assert_eq!(cpu(with_init(&[])), "2250m");
        assert_eq!(cpu(with_init(&[("1", true)])), "3250m");
    }

    #[test]
    fn what_the_pod_asks_for_as_a_whole_comes_first() {
        let mut spec = with_init(&[("5", false)]);
        spec["resources"] = json!({"requests": {"cpu": "3"}});
        assert_eq!(cpu(spec), "3250m");
    }
}
