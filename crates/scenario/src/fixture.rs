//! Nodes, partitions, licences and rules from lines of text.
//!
//! ```text
//! node trace pool=128
//! node n[1-4] cpus=8 gpus=4xa100 gpumem=80G mem=64G features=fast,rack1 numa=2 gres=fpga:2
//! partition debug nodes=n1 max-time=30 tier=2
//! licence sim 4
//! qos high priority=1000 grp-tres=gres/gpu=8 flags=no-decay
//! account lab parent=faculty shares=3 grp-jobs=10
//! user ada account=lab shares=2 max-jobs=4
//! policy backfill=none
//! level leaf link=50000 uplink=100000
//! domain l1 level=leaf nodes=n[1-2] in=s1
//! topology span=connected
//! ```
//! Nodes belong to partition `main` unless they say otherwise; times are minutes.

use crate::error::{Fault, Read, ScenarioError};
use crate::text::{
    Word, choice, count, count_or_none, duration, fields, limit, list, memory, named, names,
    node_id, number, yes,
};
use crate::{accounts, affinity, node, preempt, reservation, topology};
use muster_model::{
    BackfillMode, BackfillOrder, EventKind, Licence, Node, NodeChoice, Partition, PartitionState,
    Policy, PromiseBasis, RunTimeCorrection, RunTimeSource, State,
};
use std::collections::BTreeSet;

/// First words of the lines that describe a site.
pub const WORDS: &[&str] = &[
    "node",
    "taint",
    "partition",
    "licence",
    "budget",
    "reservation",
    "unreserve",
    "qos",
    "account",
    "user",
    "policy",
    "level",
    "domain",
    "topology",
];

const PARTITION: &[&str] = &[
    "nodes",
    "max-time",
    "default-time",
    "max-nodes",
    "min-nodes",
    "mem-per-cpu",
    "mem-per-node",
    "max-mem-per-cpu",
    "sharers",
    "tier",
    "qos",
    "billing",
    "priority",
    "accounts",
    "state",
    "preempt",
    "grace",
    "exempt",
];

const POLICY: &[&str] = &[
    "backfill",
    "backfill-order",
    "run-time",
    "promises",
    "correction",
    "by-wait",
    "guard-first",
    "guard-promise",
    "guard-memory",
    "depth",
    "depth-partition",
    "depth-user",
    "depth-account",
    "window",
    "nodes",
    "whole-for-parts",
    "memory-is-part",
    "max-switch-wait",
    "slice",
    "kill-invalid-dependency",
    "order",
    "age",
    "association",
    "fair-share",
    "job-size",
    "partition",
    "qos",
    "tres",
    "max-age",
    "half-life",
    "fair-share-mode",
    "usage-reset",
    "favour-small",
    "billing",
    "preempt",
    "reclaim",
    "reservations",
    "tiers",
    "priorities",
    "grace",
    "exempt",
    "victims",
];

/// The events that one line of a fixture stands for; `None` where it is not such a line.
///
/// # Errors
/// The line is one, and cannot be read.
pub(crate) fn line_events(state: &State, words: &[Word]) -> Read<Option<Vec<EventKind>>> {
    let Some((first, rest)) = words.split_first() else { return Ok(None) };
    let event = match first.text.as_str() {
        "node" => return nodes(state, rest).map(Some),
        "taint" => taint(state, rest)?,
        "partition" => partition(state, rest)?,
        "licence" => licence(rest)?,
        "budget" => preempt::budget(rest)?,
        "reservation" => reservation::set(state, rest)?,
        "unreserve" => reservation::removed(state, rest)?,
        "qos" => accounts::qos(state, rest)?,
        "account" => accounts::account(state, rest)?,
        "user" => accounts::user(state, rest)?,
        "policy" => policy(state, rest)?,
        "level" => topology::level(state, rest)?,
        "domain" => topology::domain(state, rest)?,
        "topology" => topology::span(state, rest)?,
        _ => return Ok(None),
    };
    Ok(Some(vec![event]))
}

/// `taint NODE TAINT,…`, or `none`.
fn taint(state: &State, words: &[Word]) -> Read<EventKind> {
    let [name, marks] = words else {
        let error = ScenarioError::new(Fault::Command, "a taint has a node and what it is");
        return Err(error.hint("write taint NODE KEY=VALUE:EFFECT, or taint NODE none"));
    };
    let id = node_id(state, &name.text).map_err(|error| error.at(name))?;
    let mut node = state.nodes.get(&id).map(|node| Node::clone(node)).unwrap_or_default();
    let marks_of =
        |text: &str| text.split(',').filter(|m| *m != "none").map(affinity::taint).collect();
    let taints: Read<BTreeSet<_>> = marks_of(&marks.text);
    node.taints = taints.map_err(|error| error.at(marks))?;
    Ok(EventKind::NodeSet { node: Box::new(node) })
}

fn licence(words: &[Word]) -> Read<EventKind> {
    let [name, total] = words else {
        let error = ScenarioError::new(Fault::Command, "a licence has a name and a number");
        return Err(error.hint("write licence NAME TOTAL"));
    };
    let total = count_or_none(&total.text).map_err(|error| error.at(total))?;
    let licence = Licence { name: name.text.clone(), total, ..Licence::default() };
    Ok(EventKind::LicenceSet { licence })
}

fn nodes(state: &State, words: &[Word]) -> Read<Vec<EventKind>> {
    let (list, rest) = named(words, "node NAMES cpus=N ...")?;
    let names = names(list).map_err(|error| error.at(&words[0]))?;
    if state.nodes.len() + names.len() > crate::text::NODES_MAX {
        return Err(ScenarioError::large("nodes", crate::text::NODES_MAX).at(&words[0]));
    }
    let mut partition = "main".to_owned();
    let mut events = Vec::new();
    for (name, id) in names.iter().zip(state.next_node..) {
        let (made, home) = node::node(id, name, rest)?;
        if let Some(home) = home {
            partition = home;
        }
        events.push(EventKind::NodeSet { node: Box::new(made) });
    }
    let mut all = partition_named(state, &partition);
    all.nodes.extend(names);
    events.push(EventKind::PartitionSet { partition: Box::new(all) });
    Ok(events)
}

fn partition_named(state: &State, name: &str) -> Partition {
    let new =
        || Partition { name: name.to_owned(), default: name == "main", ..Partition::default() };
    state.partitions.get(name).map_or_else(new, |p| p.as_ref().clone())
}

fn partition(state: &State, words: &[Word]) -> Read<EventKind> {
    let (name, rest) = named(words, "partition NAME nodes=NAMES ...")?;
    let mut partition = partition_named(state, name);
    fields(rest, |key, value| {
        match key {
            "nodes" => partition.nodes = names(value)?.into_iter().collect(),
            "max-time" => partition.max_time = limit(value)?,
            "default-time" => partition.default_time = Some(limit(value)?),
            "max-nodes" => partition.max_nodes = Some(count_or_none(value)?),
            "min-nodes" => partition.min_nodes = count_or_none(value)?,
            "mem-per-cpu" => partition.default_memory_per_cpu = Some(memory(value)?),
            "mem-per-node" => partition.default_memory_per_node = Some(memory(value)?),
            "max-mem-per-cpu" => partition.max_memory_per_cpu = Some(memory(value)?),
            "sharers" => partition.sharers = count(value)?,
            "tier" => partition.tier = number(value)?,
            "qos" => partition.qos = Some(value.to_owned()),
            "billing" => partition.billing = accounts::billing(value)?,
            "priority" => partition.priority = number(value)?,
            "accounts" => partition.allow_accounts = list(value).collect(),
            "state" => {
                let among = [
                    ("up", PartitionState::Up),
                    ("down", PartitionState::Down),
                    ("drain", PartitionState::Drain),
                    ("inactive", PartitionState::Inactive),
                ];
                partition.state = choice("a partition's state", value, &among)?;
            }
            _ => {
                if !preempt::rules_field(&mut partition.preempt, key, value)? {
                    return Err(ScenarioError::option("a partition", key, PARTITION));
                }
            }
        }
        Ok(())
    })?;
    Ok(EventKind::PartitionSet { partition: Box::new(partition) })
}

fn policy(state: &State, words: &[Word]) -> Read<EventKind> {
    let mut policy = Policy::clone(&state.policy);
    fields(words, |key, value| {
        let depth = &mut policy.backfill_depth;
        match key {
            "backfill" => {
                let among = [
                    ("none", BackfillMode::None),
                    ("easy", BackfillMode::Easy),
                    ("conservative", BackfillMode::Conservative),
                    ("mixed", BackfillMode::Mixed),
                ];
                policy.backfill = choice("a way to backfill", value, &among)?;
            }
            "backfill-order" => {
                let among =
                    [("queue", BackfillOrder::Queue), ("shortest", BackfillOrder::Shortest)];
                policy.backfill_order = choice("an order of backfill", value, &among)?;
            }
            "run-time" => {
                let among = [("limit", RunTimeSource::Limit), ("recent", RunTimeSource::Recent)];
                policy.run_time.source = choice("a source of run times", value, &among)?;
            }
            "promises" => {
                let among =
                    [("limits", PromiseBasis::Limits), ("estimates", PromiseBasis::Estimates)];
                policy.run_time.promises = choice("what promises rest on", value, &among)?;
            }
            "correction" => {
                let among = [
                    ("limit", RunTimeCorrection::Limit),
                    ("double", RunTimeCorrection::Double),
                    ("steps", RunTimeCorrection::Steps),
                ];
                policy.run_time.correction = choice("a correction", value, &among)?;
            }
            "by-wait" => depth.by_wait = Some(count(value)?),
            "depth" => depth.total = count(value)?,
            "depth-partition" => depth.per_partition = Some(count(value)?),
            "depth-user" => depth.per_user = Some(count(value)?),
            "depth-account" => depth.per_account = Some(count(value)?),
            "window" => depth.window = Some(duration(value)?),
            "nodes" => {
                let among = [
                    ("pack", NodeChoice::Pack),
                    ("spread", NodeChoice::Spread),
                    ("least-waste", NodeChoice::LeastWaste),
                ];
                policy.nodes = choice("a way to choose nodes", value, &among)?;
            }
            "whole-for-parts" => policy.devices.whole_for_parts = yes(value)?,
            "memory-is-part" => policy.devices.memory_is_part = yes(value)?,
            "max-switch-wait" => policy.max_switch_wait = duration(value)?,
            "slice" => policy.time_slice = duration(value)?,
            "kill-invalid-dependency" => policy.kill_invalid_dependency = yes(value)?,
            _ => {
                if !preempt::policy_field(&mut policy, key, value)?
                    && !accounts::priority(&mut policy, key, value)?
                {
                    return Err(ScenarioError::option("policy", key, POLICY));
                }
            }
        }
        Ok(())
    })?;
    Ok(EventKind::PolicySet { policy: Box::new(policy) })
}
