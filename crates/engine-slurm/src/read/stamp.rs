//! Stamps: until when a partition is handed over by holds, in the comment of its first node.
//!
//! What a lease is for a site that can reserve: it stands in Slurm, is put off for as long as muster
//! runs, and anybody can end it.

use super::driven::LEASE_PREFIX;
use super::record::Record;
use super::{Cluster, PartitionRecord, lease_name};
use muster_model::Timestamp;
use std::collections::BTreeMap;

/// What parts a comment.
const BETWEEN: char = ';';

/// That a partition is handed over by holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The partition.
    pub partition: String,
    /// The node that has it.
    pub node: String,
    /// Until when.
    pub until: Timestamp,
}

/// The comments of nodes that have one.
pub(super) fn comments(nodes: &str) -> BTreeMap<String, String> {
    let told = nodes.lines().filter(|line| line.contains(" Comment=")).map(Record::of);
    let one = |record: Record| {
        Some((record.get("NodeName")?.to_owned(), record.get("Comment")?.to_owned()))
    };
    told.filter_map(one).collect()
}

/// A comment with a stamp in it, in place of an older one of that partition.
pub fn stamped(comment: &str, partition: &str, until: Timestamp) -> String {
    let bare = without(comment, partition);
    let between = if bare.is_empty() { "" } else { ";" };
    format!("{bare}{between}{}={}", lease_name(partition), until.secs())
}

/// A comment without the stamp of a partition.
pub fn without(comment: &str, partition: &str) -> String {
    let own = |part: &&str| find(part).is_none_or(|(name, _)| name != partition);
    comment.split(BETWEEN).filter(own).collect::<Vec<_>>().join(";")
}

/// `muster_gpu=1764769200`.
fn find(part: &str) -> Option<(&str, Timestamp)> {
    let (partition, until) = part.strip_prefix(LEASE_PREFIX)?.split_once('=')?;
    Some((partition, Timestamp::from_secs(until.parse().ok()?)))
}

impl Cluster {
    /// The stamps that stand.
    pub fn stamps(&self) -> Vec<Stamp> {
        let mut stamps = Vec::new();
        for (node, comment) in &self.comments {
            for (partition, until) in comment.split(BETWEEN).filter_map(find) {
                let (partition, node) = (partition.to_owned(), node.clone());
                stamps.push(Stamp { partition, node, until });
            }
        }
        stamps
    }

    /// The node whose comment has, or is to have, the stamp of a partition, and that comment.
    pub fn stamp_place(&self, partition: &str) -> Option<(String, String)> {
        let stands = self.stamps().into_iter().find(|stamp| stamp.partition == partition);
        let node = stands.map(|stamp| stamp.node).or_else(|| {
            let own = |p: &&PartitionRecord| p.partition.name == partition;
            self.partitions.iter().find(own)?.partition.nodes.iter().next().cloned()
        })?;
        let comment = self.comments.get(&node).cloned().unwrap_or_default();
        Some((node, comment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_stands_beside_what_the_site_wrote() {
        let at = Timestamp::from_secs;
        let one = stamped("rack 7; loud", "gpu", at(1000));
        assert_eq!(one, "rack 7; loud;muster_gpu=1000");
        let two = stamped(&stamped(&one, "big", at(7)), "gpu", at(1060));
        assert_eq!(two, "rack 7; loud;muster_big=7;muster_gpu=1060");
        assert_eq!(without(&without(&two, "gpu"), "big"), "rack 7; loud");
        assert_eq!(without("muster_gpu=5", "gpu"), "");
        let line = format!("NodeName=n1 State=IDLE Comment={two} \nNodeName=n2 State=IDLE\n");
        assert_eq!(comments(&line), BTreeMap::from([("n1".to_owned(), two)]));
    }
}
