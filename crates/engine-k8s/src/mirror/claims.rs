//! Pods with claims of devices: what the ledger says of them becomes part of their jobs, and how
//! often a node has devices for them a countable resource of the node.

use super::{Change, Mirror};
use crate::dra::{ClaimKey, Release, Reserve, Written, is_counted};
use crate::read::{PodKey, PodRecord};
use k8s_openapi::api::core::v1::Pod;
use muster_model::{
    Affinity, ApplyError, EventKind, Expression, JobId, JobTerm, Node, NodeId, Operator, Start,
    Term, Timestamp,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The label of the job that brings a claim its devices, where others wait for them.
fn lead(claim: &ClaimKey) -> String {
    format!(".resourceclaim/{claim}")
}

impl Mirror {
    /// Takes in what was told of devices and claims: pods and nodes follow before the next plan.
    pub(super) fn take_devices(&mut self, change: Change) {
        match change {
            Change::Devices(told) => self.devices.take(told),
            Change::Gone(kind, namespace, name) => self.devices.gone(kind, &namespace, &name),
            _ => {}
        }
    }

    /// Adds to what a pod asks for what its claims need of a node.
    pub(super) fn add_claims(&mut self, told: &Pod, record: &mut PodRecord) {
        if record.over {
            self.devices.forget(&record.key);
            return;
        }
        let competes = self.is_ours(record);
        let Some(overlay) = self.devices.overlay(told, &record.key, competes) else { return };
        record.depends.get_or_insert_with(|| Arc::new(told.clone()));
        if let Some(why) = overlay.waits {
            record.ask.waits.get_or_insert(why);
        }
        let job = Arc::make_mut(&mut record.ask.job);
        if let Some(shape) = overlay.shape {
            job.request.gres.insert(shape.resource(), 1);
        }
        for claim in &overlay.leads {
            job.labels.insert(lead(claim), String::new());
        }
        if overlay.places.is_empty() && overlay.follows.is_empty() {
            return;
        }
        let mut affinity: Affinity =
            job.request.affinity.take().map(Arc::unwrap_or_clone).unwrap_or_default();
        affinity.volumes.extend(overlay.places);
        affinity.volumes.sort_unstable();
        affinity.volumes.dedup();
        affinity.near.required.extend(overlay.follows.iter().map(|claim| {
            let leads =
                Expression { key: lead(claim), operator: Operator::Exists, values: Vec::new() };
            JobTerm { key: "node".to_owned(), selector: Term { all: vec![leads] } }
        }));
        job.request.affinity = Some(Arc::new(affinity));
    }

    /// What is told of a node says nothing of devices of claims: that stays as it was counted.
    pub(super) fn keep_counts(&self, node: &mut Node) {
        let Some(old) = self.state.nodes.get(&node.id).filter(|old| old.name == node.name) else {
            return;
        };
        let counts = old.gres.iter().filter(|(name, _)| is_counted(name));
        node.gres.extend(counts.map(|(name, count)| (name.clone(), *count)));
    }

    /// Before a plan: pods are read again whose claims changed, and devices are counted again.
    pub(super) fn settle_claims(&mut self, now: Timestamp) -> Result<(), ApplyError> {
        loop {
            let stale = self.devices.take_stale();
            if stale.is_empty() {
                break;
            }
            for key in stale {
                let Some(told) = self.entries.get(&key).and_then(|e| e.record.depends.clone())
                else {
                    continue;
                };
                let told_why = self.entries.get(&key).and_then(|e| e.record.told.clone());
                let record = PodRecord { told: told_why, ..self.read(&told) };
                self.change(record, now)?;
            }
        }
        let nodes: Vec<NodeId> = match self.devices.take_nodes() {
            None => self.state.nodes.keys().copied().collect(),
            Some(names) => {
                let known = &self.state.index.node_by_name;
                names.iter().filter_map(|name| known.get(name).copied()).collect()
            }
        };
        nodes.into_iter().try_for_each(|node| self.count_claims(node, now))
    }

    /// How often a node has devices for each shape: what is free, and what those have that count as
    /// having it.
    fn count_claims(&mut self, id: NodeId, now: Timestamp) -> Result<(), ApplyError> {
        let Some(node) = self.state.nodes.get(&id).cloned() else { return Ok(()) };
        let mut counts: BTreeMap<String, u64> = self
            .devices
            .count(&node)
            .into_iter()
            .map(|(shape, count)| (shape.resource(), count))
            .collect();
        let there = self.state.index.on_node.get(&id).into_iter().flatten();
        for job in there.filter_map(|job| self.state.jobs.get(job)) {
            let has = job.spec.request.gres.iter().filter(|(name, _)| is_counted(name));
            for (name, times) in has {
                *counts.entry(name.clone()).or_default() += times;
            }
        }
        let old = node.gres.iter().filter(|(name, _)| is_counted(name));
        if old.eq(counts.iter().filter(|(_, count)| **count > 0)) {
            return Ok(());
        }
        let mut node = Node::clone(&node);
        node.gres.retain(|name, _| !is_counted(name));
        node.gres.extend(counts.into_iter().filter(|(_, count)| *count > 0));
        self.apply(now, EventKind::NodeSet { node: Box::new(node) })
    }

    /// Gives the claims of these, which start together, their devices: of all, or of none.
    ///
    /// # Errors
    /// Why there are none, a sentence: those that start wait on.
    pub fn give(&mut self, starts: &[Start]) -> Result<BTreeMap<JobId, Vec<Reserve>>, String> {
        let mut given: BTreeMap<JobId, Vec<Reserve>> = BTreeMap::new();
        for start in starts {
            let Some(key) = self.jobs.get(&start.job).cloned() else { continue };
            let node = start.placement.nodes.first().and_then(|n| self.state.nodes.get(&n.node));
            let Some(node) = node.cloned() else { continue };
            match self.devices.give(&key, &node) {
                Ok(writes) if writes.is_empty() => {}
                Ok(writes) => drop(given.insert(start.job, writes)),
                Err(why) => {
                    for (job, writes) in &given {
                        if let Some(key) = self.jobs.get(job) {
                            self.devices.take_back(key, writes);
                        }
                    }
                    self.devices.failed(&key);
                    return Err(why);
                }
            }
        }
        Ok(given)
    }

    /// What became of the claims of a pod that was to be bound.
    pub fn written(&mut self, claims: Vec<(ClaimKey, Written)>) {
        for (claim, written) in claims {
            self.devices.settle(&claim, written);
        }
    }

    /// Claims of pods that were told that they fit nowhere, and whose devices nobody else may use.
    pub fn idle_claims(&self) -> Vec<Release> {
        let waits = |job: &JobId| self.state.index.pending.contains(job);
        let waiting =
            self.devices.with_claims().filter(|key| self.job(key).is_some_and(|j| waits(&j)));
        let records = waiting.filter_map(|key| Some(&self.entries.get(key)?.record));
        // Where room is being made it is where the devices are.
        let told = records.filter(|pod| pod.told.is_some() && pod.nominated.is_none());
        told.flat_map(|pod| self.devices.idle(&pod.key)).collect()
    }

    /// What is wrong with the claims of a waiting pod beside that there are no devices.
    pub fn complaint(&self, pod: &PodKey) -> Option<String> {
        self.devices.complaint(pod)
    }

    /// Devices that are given to two claims, as texts: a fault where there is one.
    pub fn given_twice(&self) -> Vec<String> {
        self.devices.given_twice().iter().map(ToString::to_string).collect()
    }
}
