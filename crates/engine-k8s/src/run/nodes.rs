//! The nodes that are offered, with what others run on them.
//!
//! The daemon counts whole CPUs, the cluster thousandths: what others have of a node is added up
//! before it is rounded, and kubelets pick CPUs and devices by themselves, so that only how many are
//! left counts.

use super::seen::Seen;
use super::{RunnerConfig, Shared};
use crate::read::{Refusal, is_gpu, node as read_node};
use k8s_openapi::api::core::v1::Node as Told;
use muster_engine::Observation;
use muster_engine::book::{Attempt, Book};
use muster_model::{Availability, CpuSet, ForeignUse, Mib, Node, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Thousandths of a CPU.
const MILLI: u32 = 1000;

/// Bytes in a MiB.
const MIB: u64 = 1 << 20;

/// The label with the product's name of a node's GPUs, as NVIDIA's feature discovery writes it.
const PRODUCT: &str = "nvidia.com/gpu.product";

/// A node without what others hold of it: CPUs as numbers from 0, GPUs by their product's name, with
/// the extended resource that they are as `product`.
///
/// # Errors
/// [`Refusal`].
pub(super) fn standing(told: &Told) -> Result<Node, Refusal> {
    let read = read_node(told)?;
    let product = told.metadata.labels.as_ref().and_then(|labels| labels.get(PRODUCT));
    let mut devices = read.devices;
    for device in &mut devices {
        device.product = std::mem::take(&mut device.model);
        device.model = product.map_or_else(|| "gpu".to_owned(), |name| name.to_ascii_lowercase());
    }
    let availability = match unready(told) {
        Some((reason, since)) => Availability::Down { reason, since },
        None => Availability::Up,
    };
    Ok(Node {
        cpus: CpuSet::first(read.cpu_pool / MILLI),
        cpu_pool: 0,
        gres: BTreeMap::new(),
        devices,
        availability,
        ..read
    })
}

/// Why nothing may start on a node, and since when.
fn unready(told: &Told) -> Option<(String, Timestamp)> {
    if told.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        return Some(("cordoned in Kubernetes".to_owned(), Timestamp::default()));
    }
    let conditions = told.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    let since = ready.last_transition_time.as_ref();
    let since =
        since.map_or_else(Timestamp::default, |t| Timestamp::from_millis(t.0.as_millisecond()));
    let why = ready.reason.clone().unwrap_or_default();
    (ready.status != "True").then(|| (format!("not ready in Kubernetes: {why}"), since))
}

/// The nodes of the offered partitions (all where none is named).
pub(super) fn nodes(seen: &Seen, book: &Book, config: &RunnerConfig) -> Vec<Node> {
    let offered: BTreeSet<&str> =
        config.partitions.values().flat_map(|labels| seen.nodes_with(labels)).collect();
    let is_offered = |name: &str| config.partitions.is_empty() || offered.contains(name);
    let told = seen.nodes.iter().filter(|(name, _)| is_offered(name));
    let mut spoken = spoken(book);
    let mut nodes = Vec::new();
    for (name, told) in told {
        match standing(told) {
            Ok(node) => {
                let own = spoken.remove(name.as_str()).unwrap_or_default();
                let foreign = foreign(&node, seen, book, &own);
                nodes.push(Node { engine: config.name.clone(), foreign, ..node });
            }
            Err(refusal) => tracing::warn!(node = %name, %refusal, "a node is left out"),
        }
    }
    nodes
}

/// What muster's own jobs were counted on.
#[derive(Default)]
struct Spoken {
    cpus: CpuSet,
    devices: BTreeSet<u32>,
}

/// By node.
fn spoken(book: &Book) -> BTreeMap<&str, Spoken> {
    let open = book.iter().map(|(_, attempt)| attempt).filter(|attempt| attempt.is_open());
    let mut all: BTreeMap<&str, Spoken> = BTreeMap::new();
    for spot in open.flat_map(|attempt| &attempt.spots) {
        let of = all.entry(spot.node.as_str()).or_default();
        of.cpus.add_all(&spot.cpus);
        of.devices.extend(spot.devices.iter().copied());
    }
    all
}

/// What pods of others have on a node, told as numbers that muster's own jobs were not counted on.
fn foreign(node: &Node, seen: &Seen, book: &Book, own: &Spoken) -> Vec<ForeignUse> {
    let is_open = |key| book.get(key).is_some_and(Attempt::is_open);
    let held = seen.held.get(&node.name).into_iter().flatten();
    let theirs = held.filter(|(_, held)| !held.of.is_some_and(is_open));
    let (mut millis, mut memory, mut found) = (0, 0, Vec::new());
    let count = u32::try_from(node.devices.len()).unwrap_or(u32::MAX);
    let mut free = (0..count).rev().filter(|index| !own.devices.contains(index));
    for (key, held) in theirs {
        millis += held.asks.get("cpu").map_or(0, |amount| amount.millis());
        memory += held.asks.get("memory").map_or(0, |amount| amount.units());
        let gpus = held.asks.iter().filter(|(name, _)| is_gpu(name));
        let count: u64 = gpus.map(|(_, amount)| amount.units()).sum();
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        found.extend(free.by_ref().take(count).map(|index| ForeignUse {
            device: Some(index),
            cpus: CpuSet::new(),
            memory: Mib::ZERO,
            owner: key.namespace.clone(),
            what: format!("pod {key}"),
        }));
    }
    if millis > 0 || memory > 0 {
        let count = usize::try_from(millis.div_ceil(u64::from(MILLI))).unwrap_or(usize::MAX);
        let mut left = node.cpus.clone();
        left.remove_all(&own.cpus);
        let left: Vec<u32> = left.iter().collect();
        found.push(ForeignUse {
            device: None,
            cpus: left.iter().rev().take(count).copied().collect(),
            memory: Mib(memory.div_ceil(MIB)),
            owner: "kubernetes".to_owned(),
            what: "pods".to_owned(),
        });
    }
    found
}

impl Shared {
    /// Tells what others have on a node now.
    pub(super) fn tell_foreign(&self, name: &str) {
        let found = {
            let (seen, book) = (self.seen(), self.book());
            let told = seen.nodes.get(name).filter(|_| seen.is_whole());
            let own = spoken(&book).remove(name).unwrap_or_default();
            let node = told.and_then(|told| standing(told).ok());
            node.map(|node| foreign(&node, &seen, &book, &own))
        };
        if let Some(foreign) = found {
            self.tell(Observation::Foreign { node: name.to_owned(), foreign });
        }
    }
}
