//! What was asked, and what decided.

use crate::filters::Answer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// What the default profile refuses nodes with, each at least once in so many pairs. `NodeName` is
/// not among them: a pod with a node is never asked about.
const PREDICATES: [&str; 26] = [
    "InterPodAffinity: node(s) didn't match pod affinity rules",
    "InterPodAffinity: node(s) didn't match pod anti-affinity rules",
    "InterPodAffinity: node(s) didn't satisfy existing pods anti-affinity rules",
    "NodeAffinity: node(s) didn't match Pod's node affinity/selector",
    "NodePorts: node(s) didn't have free ports for the requested pod ports",
    "NodeResourcesFit: Insufficient amd.com/gpu",
    "NodeResourcesFit: Insufficient cpu",
    "NodeResourcesFit: Insufficient ephemeral-storage",
    "NodeResourcesFit: Insufficient example.com/nic",
    "NodeResourcesFit: Insufficient hugepages-2Mi",
    "NodeResourcesFit: Insufficient memory",
    "NodeResourcesFit: Insufficient nvidia.com/gpu",
    "NodeResourcesFit: Too many pods",
    "NodeUnschedulable: node(s) were unschedulable",
    "PodTopologySpread: node(s) didn't match pod topology spread constraints",
    "PodTopologySpread: node(s) didn't match pod topology spread constraints (missing required label)",
    "SchedulingGates: waiting for scheduling gates",
    "TaintToleration: node(s) had untolerated taint(s)",
    "VolumeBinding: node(s) didn't match PersistentVolume's node affinity",
    "VolumeBinding: persistentvolumeclaim is being deleted",
    "VolumeBinding: persistentvolumeclaim bound to non-existent persistentvolume",
    "VolumeRestrictions: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
    "VolumeRestrictions: persistentvolumeclaim not found",
    "VolumeBinding: pod has unbound immediate PersistentVolumeClaims",
    "VolumeZone: node(s) had no available volume zone",
    "VolumeZone: persistentvolume not found",
];

/// Differences that are shown.
const SHOWN: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Count {
    pods: usize,
    nowhere: usize,
    pairs: usize,
    refused: usize,
    /// Pods that no API server takes: asked anew.
    pub(crate) invalid: usize,
    /// Plans that plan-check was asked about node by node.
    pub(crate) checked: usize,
    /// Pairs by what refused them.
    by: BTreeMap<String, usize>,
    /// Pods that are not compared, by what is in them.
    excluded: BTreeMap<&'static str, usize>,
    differences: Vec<String>,
}

impl Count {
    pub(crate) fn answer(&mut self, nodes: usize, answer: &Answer) {
        self.pods += 1;
        self.nowhere += usize::from(answer.feasible.is_empty());
        self.pairs += nodes;
        self.refused += nodes - answer.feasible.len();
        for (node, plugin) in &answer.plugins {
            let reasons = answer.reasons.get(node).into_iter().flatten();
            for reason in reasons {
                *self.by.entry(format!("{plugin}: {}", plain(reason))).or_default() += 1;
            }
        }
    }

    pub(crate) fn excluded(&mut self, name: &'static str) {
        *self.excluded.entry(name).or_default() += 1;
    }

    /// The two sides differ; the first time the whole question is shown.
    pub(crate) fn differs(&mut self, what: String, question: &Value) {
        if self.differences.is_empty() {
            println!("{what}\n{question}");
        }
        self.differences.push(what);
    }

    pub(crate) fn differences(&self) -> Vec<String> {
        let mut shown: Vec<String> = self.differences.iter().take(SHOWN).cloned().collect();
        if self.differences.len() > SHOWN {
            shown.push(format!("{} differences in all", self.differences.len()));
        }
        shown
    }

    /// That it was worth it: enough was refused, and everything refused something.
    pub(crate) fn check(&self) {
        assert!(self.pods >= 3000, "{self}");
        assert!(self.refused * 10 >= self.pairs * 3, "{self}");
        assert!(self.refused * 10 <= self.pairs * 8, "{self}");
        assert!(self.invalid * 4 <= self.pods, "{self}");
        for predicate in PREDICATES {
            assert!(self.by.contains_key(predicate), "{predicate} refused nothing: {self}");
        }
    }
}

/// A reason without the names in it.
fn plain(reason: &str) -> String {
    let text = reason.split(" {").next().unwrap_or(reason);
    let words = text.split(' ').filter(|word| !word.starts_with('"') && !word.starts_with('['));
    let plain = words.collect::<Vec<_>>().join(" ");
    plain.trim_end_matches(':').to_owned()
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} pods ({} nowhere, {} more that no API server takes), {} pairs, {} refused ({} %), \
             {} pods node by node before plan-check",
            self.pods,
            self.nowhere,
            self.invalid,
            self.pairs,
            self.refused,
            self.refused * 100 / self.pairs.max(1),
            self.checked,
        )?;
        for (name, count) in &self.excluded {
            writeln!(f, "not compared: {count} pods with {name}")?;
        }
        self.by.iter().try_for_each(|(by, count)| writeln!(f, "{count:>7}  {by}"))
    }
}
