//! What of a cluster an engine that runs jobs there has to know: its nodes, and what of them pods
//! hold.

use super::objects::{INDEX, key_of};
use crate::read::{Amounts, PodKey, requests};
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use muster_engine::book::Key;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar};

/// A pod that is a part of an attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct PodSeen {
    pub(super) uid: String,
    pub(super) node: Option<String>,
    /// Nothing of it runs any more.
    pub(super) over: bool,
    /// It is being deleted.
    pub(super) leaving: bool,
    pub(super) status: PodStatus,
}

/// What a pod that runs holds of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// What it asks for; nothing where that cannot be read.
    pub(super) asks: Amounts,
    /// The attempt that it is a part of, where it is one of this muster's.
    pub(super) of: Option<Key>,
}

/// What a pod that was told of changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// The attempt that it is a part of.
    pub(super) attempt: Option<Key>,
    /// The node of which others now hold more or less.
    pub(super) node: Option<String>,
}

/// Everything that is watched.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) nodes: BTreeMap<String, Node>,
    /// By node, what pods hold of it.
    pub(super) held: BTreeMap<String, BTreeMap<PodKey, Held>>,
    /// The pods of each attempt, those among them that are gone.
    pub(super) parts: BTreeMap<Key, BTreeMap<u32, (PodKey, PodSeen)>>,
    /// Listed whole: nodes, and pods.
    pub(super) listed: (bool, bool),
    /// Rung when something was listed whole.
    pub(super) bell: Arc<Condvar>,
}

impl Seen {
    pub(super) fn is_whole(&self) -> bool {
        self.listed == (true, true)
    }

    /// The names of nodes that have these labels.
    pub(super) fn nodes_with<'a>(
        &'a self,
        labels: &'a BTreeMap<String, String>,
    ) -> impl Iterator<Item = &'a str> {
        let has = |node: &Node| {
            let own = node.metadata.labels.as_ref();
            labels.iter().all(|(key, value)| own.and_then(|own| own.get(key)) == Some(value))
        };
        self.nodes.iter().filter(move |(_, node)| has(node)).map(|(name, _)| name.as_str())
    }

    /// Takes a pod as it is told; gives what changes by it.
    pub(super) fn take(&mut self, told: Pod, instance: &str, gone: bool) -> Changed {
        let key = PodKey {
            namespace: told.metadata.namespace.clone().unwrap_or_default(),
            name: told.metadata.name.clone().unwrap_or_default(),
        };
        let part = part_of(&told, instance);
        let asks = requests(&told).unwrap_or_default();
        let spec = told.spec.unwrap_or_default();
        let status = told.status.unwrap_or_default();
        let over = gone || matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let node = spec.node_name.clone().filter(|node| !node.is_empty());
        let attempt = part.map(|(attempt, _)| attempt);
        let now = (!over).then_some(Held { asks, of: attempt });
        let changed = node.clone().filter(|node| self.hold(node, &key, now));
        if let Some((attempt, index)) = part {
            let uid = told.metadata.uid.unwrap_or_default();
            let leaving = gone || told.metadata.deletion_timestamp.is_some();
            let pod = PodSeen { uid, node, over, leaving, status };
            self.take_part(attempt, index, &key, &pod);
        }
        Changed { attempt, node: changed.filter(|_| attempt.is_none()) }
    }

    /// Notes what a pod holds of a node, or that it holds nothing; true where that is news.
    fn hold(&mut self, node: &str, pod: &PodKey, now: Option<Held>) -> bool {
        let Some(now) = now else {
            return self.held.get_mut(node).is_some_and(|held| held.remove(pod).is_some());
        };
        let held = self.held.entry(node.to_owned()).or_default();
        held.insert(pod.clone(), now.clone()) != Some(now)
    }

    /// The newest pod of each part counts; the end of one that another has replaced does not.
    fn take_part(&mut self, attempt: Key, index: u32, key: &PodKey, pod: &PodSeen) {
        let parts = self.parts.entry(attempt).or_default();
        let replaced = parts.get(&index).is_some_and(|(_, known)| known.uid != pod.uid && pod.over);
        if !replaced {
            parts.insert(index, (key.clone(), pod.clone()));
        }
    }

    /// Drops pods that a listing, each with its node, did not have; gives the attempts whose parts are among them.
    pub(super) fn keep_only(&mut self, listed: &BTreeMap<PodKey, String>) -> Vec<Key> {
        for (node, held) in &mut self.held {
            // One that was made anew under its name may be on another node.
            held.retain(|key, _| listed.get(key) == Some(node));
        }
        let mut changed = Vec::new();
        for (attempt, parts) in &mut self.parts {
            for (key, pod) in parts.values_mut() {
                if !pod.over && !listed.contains_key(key) {
                    (pod.over, pod.leaving) = (true, true);
                    changed.push(*attempt);
                }
            }
        }
        changed
    }
}

/// The attempt of this instance that a pod is a part of, and which part.
fn part_of(pod: &Pod, instance: &str) -> Option<(Key, u32)> {
    let labels = pod.metadata.labels.as_ref()?;
    let key = key_of(labels, instance)?;
    Some((key, labels.get(INDEX)?.parse().ok()?))
}
