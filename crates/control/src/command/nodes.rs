//! Commands on nodes and partitions.

use super::limits::{TEXT_MAX, bad};
use super::{CommandError, Meaning, Principal, admins_only};
use muster_model::{
    Drain, EventKind, LicenceHold, Node, Partition, PartitionState, State, Timestamp, nearest,
};
use std::sync::Arc;

fn named<'a>(state: &'a State, name: &str) -> Result<&'a Arc<Node>, CommandError> {
    state.node_named(name).ok_or_else(|| CommandError::UnknownName {
        kind: "node",
        name: name.to_owned(),
        nearest: nearest(name, state.nodes.values().map(|n| n.name.as_str())).map(str::to_owned),
    })
}

pub(super) fn drain(
    state: &State,
    at: Timestamp,
    principal: &Principal,
    nodes: &[String],
    reason: &str,
) -> Result<Meaning, CommandError> {
    admins_only(principal, "drain nodes")?;
    if reason.is_empty() || reason.len() > TEXT_MAX {
        return Err(bad(
            "reason",
            format!("expected 1 to {TEXT_MAX} bytes, found {}", reason.len()),
        ));
    }
    let drain = Drain { reason: reason.to_owned(), by: principal.user.clone(), since: at };
    let events = nodes
        .iter()
        .map(|name| {
            let node = named(state, name)?.id;
            Ok(EventKind::NodeDrain { node, drain: Some(drain.clone()) })
        })
        .collect::<Result<Vec<_>, CommandError>>()?;
    Ok(Meaning::changed(events))
}

pub(super) fn resume(
    state: &State,
    principal: &Principal,
    nodes: &[String],
) -> Result<Meaning, CommandError> {
    admins_only(principal, "resume nodes")?;
    let mut events = Vec::new();
    for name in nodes {
        let node = named(state, name)?;
        if node.drain.is_some() {
            events.push(EventKind::NodeDrain { node: node.id, drain: None });
        }
    }
    Ok(Meaning::changed(events))
}

pub(super) fn hold_licence(
    state: &State,
    principal: &Principal,
    name: String,
    hold: Option<LicenceHold>,
) -> Result<Meaning, CommandError> {
    admins_only(principal, "hold licences back")?;
    let Some(known) = state.licences.get(&name) else {
        let nearest = nearest(&name, state.licences.keys().map(String::as_str));
        let nearest = nearest.map(str::to_owned);
        return Err(CommandError::UnknownName { kind: "licence", name, nearest });
    };
    let same = known.hold == hold;
    let events = if same { Vec::new() } else { vec![EventKind::LicenceHeld { name, hold }] };
    Ok(Meaning::changed(events))
}

pub(super) fn set_partition(
    state: &State,
    principal: &Principal,
    name: &str,
    to: PartitionState,
) -> Result<Meaning, CommandError> {
    admins_only(principal, "open or close partitions")?;
    let known = state.partitions.get(name).ok_or_else(|| CommandError::UnknownName {
        kind: "partition",
        name: name.to_owned(),
        nearest: nearest(name, state.partitions.keys().map(String::as_str)).map(str::to_owned),
    })?;
    if known.state == to {
        return Ok(Meaning::changed(Vec::new()));
    }
    let partition = Partition { state: to, ..known.as_ref().clone() };
    Ok(Meaning::changed(vec![EventKind::PartitionSet { partition: Box::new(partition) }]))
}
