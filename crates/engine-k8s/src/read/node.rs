//! Nodes in muster's words.
//!
//! CPUs are counted in thousandths here: a node of two cores has a pool of 2000. Devices of
//! extended resources called `VENDOR/gpu` are GPUs whose model is that name; every other resource
//! is a countable one of its own name, in its own unit.

use super::requests::{Amounts, amounts};
use super::selector::node_label;
use super::{KUBERNETES, Refusal};
use k8s_openapi::api::core::v1::Node as Told;
use muster_model::{Device, EngineName, Mib, Node, Taint, TaintEffect};

/// Bytes in a MiB.
const MIB: u64 = 1 << 20;

/// So many devices of a node at most are counted.
const DEVICES_MAX: u64 = 128;

/// The taint that stands for `unschedulable`.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// True for the name of an extended resource that is a GPU.
pub fn is_gpu(resource: &str) -> bool {
    resource.split_once('/').is_some_and(|(_, kind)| kind == "gpu")
}

/// A node in muster's words.
///
/// # Errors
/// [`Refusal`] where what can be had of it is no quantity.
pub fn node(told: &Told) -> Result<Node, Refusal> {
    let status = told.status.as_ref();
    let has = status.and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref()));
    let has = amounts(has).map_err(|bad| Refusal { what: bad.to_string() })?;
    let labels = told.metadata.labels.iter().flatten();
    let spec = told.spec.as_ref();
    let mut taints: std::collections::BTreeSet<Taint> =
        spec.and_then(|s| s.taints.as_ref()).into_iter().flatten().filter_map(taint).collect();
    if spec.and_then(|s| s.unschedulable) == Some(true) {
        let effect = TaintEffect::NoSchedule;
        taints.insert(Taint { key: UNSCHEDULABLE.to_owned(), value: String::new(), effect });
    }
    Ok(Node {
        name: told.metadata.name.clone().unwrap_or_default(),
        engine: EngineName(KUBERNETES.to_owned()),
        cpu_pool: u32::try_from(has.get("cpu").map_or(0, |q| q.millis())).unwrap_or(u32::MAX),
        threads_per_core: 1,
        counts_only: true,
        memory: Mib(has.get("memory").map_or(0, |q| q.units()) / MIB),
        devices: devices(&has),
        gres: has
            .iter()
            .filter(|(name, _)| !is_known(name))
            .map(|(name, amount)| (name.clone(), amount.units()))
            .collect(),
        labels: labels.map(|(k, v)| (node_label(k).into_owned(), v.clone())).collect(),
        taints,
        boot: status
            .and_then(|s| s.node_info.as_ref())
            .map_or_else(String::new, |info| info.boot_id.clone()),
        ..Node::default()
    })
}

/// True for what has a place of its own in muster.
pub(super) fn is_known(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || is_gpu(resource)
}

fn devices(has: &Amounts) -> Vec<Device> {
    let mut devices = Vec::new();
    for (name, amount) in has.iter().filter(|(name, _)| is_gpu(name)) {
        for _ in 0..amount.units().min(DEVICES_MAX) {
            let index = u32::try_from(devices.len()).unwrap_or(u32::MAX);
            devices.push(Device { index, model: name.clone(), ..Device::default() });
        }
    }
    devices
}

fn taint(told: &k8s_openapi::api::core::v1::Taint) -> Option<Taint> {
    let effect = TaintEffect::of_word(&told.effect)?;
    Some(Taint { key: told.key.clone(), value: told.value.clone().unwrap_or_default(), effect })
}
