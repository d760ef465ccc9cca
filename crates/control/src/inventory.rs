//! A full listing of an engine against the state: what events were lost, and what is missing.

use crate::command::{DeviceOverlay, NodeOverlay};
use crate::observe::{Aftermath, exited, is_current, signalled, started, suspend};
use crate::orders::{engine_of, orders_of};
use crate::turn::{Attempt, Turn};
use muster_engine::Inventory;
use muster_model::{
    ApplyError, Availability, DeviceLink, DeviceMode, EndCause, EngineName, EventKind, ExitReport,
    ExitStatus, JobState, LinkKind, MigMode, Node, NodeId, Seconds, Timestamp, Usage,
};
use std::collections::{BTreeMap, BTreeSet};

/// Attempts that were seen running and are in no listing any more, and since when.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    since: BTreeMap<Attempt, Timestamp>,
}

/// Where a listing comes from, and how it is read.
pub(crate) struct Listing<'a> {
    /// Whose it is.
    pub(crate) engine: &'a EngineName,
    /// When it was asked for: what began later than that cannot be missed in it.
    pub(crate) taken: Timestamp,
    /// What the configuration adds to nodes.
    pub(crate) overlays: &'a BTreeMap<String, NodeOverlay>,
    /// A running job that is absent for so long is lost.
    pub(crate) grace: Seconds,
}

impl Listing<'_> {
    /// Takes the listing into the turn.
    pub(crate) fn take(
        &self,
        turn: &mut Turn,
        inventory: Inventory,
        missing: &mut Missing,
    ) -> Result<Aftermath, ApplyError> {
        take(self, turn, inventory, missing)
    }
}

fn take(
    listing: &Listing<'_>,
    turn: &mut Turn,
    inventory: Inventory,
    missing: &mut Missing,
) -> Result<Aftermath, ApplyError> {
    let Listing { engine, taken, overlays, grace } = *listing;
    let mut aftermath = Aftermath::default();
    take_nodes(turn, engine, inventory.nodes, overlays)?;
    for (job, attempt, report) in inventory.exited {
        exited(turn, job, attempt, report)?;
    }
    let mut seen: BTreeSet<Attempt> = BTreeSet::new();
    for running in inventory.running {
        let (job, attempt) = (running.job, running.attempt);
        seen.insert((job, attempt));
        if !is_current(&turn.state, job, attempt) {
            // A decision that is being made now is not in a listing that began before it.
            aftermath.stray(engine, job, attempt);
            continue;
        }
        if running.started.is_some() {
            started(turn, job, attempt)?;
        }
        suspend(turn, job, attempt, running.suspended)?;
        for number in pending_signals(turn, job, running.signalled) {
            signalled(turn, job, number)?;
        }
        for step in running.steps {
            let step = muster_engine::Observation::Step { job, attempt, step };
            aftermath.add(crate::observe::observe(turn, engine, step)?);
        }
    }
    let absent = absent_jobs(turn, engine, &seen);
    lose(turn, taken, &absent, missing, grace)?;
    repeat_orders(turn, engine, &mut aftermath);
    Ok(aftermath)
}

fn pending_signals(turn: &Turn, job: muster_model::JobId, delivered: u32) -> Vec<u32> {
    turn.state.jobs.get(&job).map_or_else(Vec::new, |job| {
        job.signals.iter().map(|s| s.number).filter(|n| *n <= delivered).collect()
    })
}

/// Describes nodes as the engine sees them, with what the configuration adds; those it no longer
/// lists are down.
fn take_nodes(
    turn: &mut Turn,
    engine: &EngineName,
    nodes: Vec<Node>,
    overlays: &BTreeMap<String, NodeOverlay>,
) -> Result<(), ApplyError> {
    let mut listed: BTreeSet<String> = BTreeSet::new();
    for mut node in nodes {
        listed.insert(node.name.clone());
        node.engine = engine.clone();
        if let Some(overlay) = overlays.get(&node.name) {
            overlay.lay_over(&mut node);
        }
        let known = turn.state.node_named(&node.name).cloned();
        node.id = known.as_ref().map_or(NodeId(turn.state.next_node), |known| known.id);
        node.drain = known.as_ref().and_then(|known| known.drain.clone());
        if known.as_deref() != Some(&node) {
            turn.apply(EventKind::NodeSet { node: Box::new(node) })?;
        }
    }
    take_down(turn, engine, "its engine does not list it", |node| !listed.contains(&node.name))
}

/// Marks nodes of an engine as down, where they are not yet.
pub(crate) fn take_down(
    turn: &mut Turn,
    engine: &EngineName,
    reason: &str,
    which: impl Fn(&Node) -> bool,
) -> Result<(), ApplyError> {
    let gone: Vec<NodeId> = turn
        .state
        .nodes
        .values()
        .filter(|n| n.engine == *engine && n.availability == Availability::Up && which(n))
        .map(|n| n.id)
        .collect();
    for node in gone {
        let availability = Availability::Down { reason: reason.to_owned(), since: turn.at };
        turn.apply(EventKind::NodeAvailability { node, availability })?;
    }
    Ok(())
}

/// Attempts of this engine that have run, as far as the state knows, and are not listed.
fn absent_jobs(turn: &Turn, engine: &EngineName, seen: &BTreeSet<Attempt>) -> Vec<Attempt> {
    turn.state
        .index
        .active
        .iter()
        .filter_map(|id| turn.state.jobs.get(id))
        .filter(|job| job.started.is_some() && !seen.contains(&(job.id, job.attempt)))
        .filter(|job| engine_of(&turn.state, job).as_ref() == Some(engine))
        .map(|job| (job.id, job.attempt))
        .collect()
}

/// Ends attempts that have been absent for longer than the grace.
fn lose(
    turn: &mut Turn,
    taken: Timestamp,
    absent: &[Attempt],
    missing: &mut Missing,
    grace: Seconds,
) -> Result<(), ApplyError> {
    let still: BTreeSet<Attempt> = absent.iter().copied().collect();
    missing.since.retain(|attempt, _| still.contains(attempt));
    for (job, attempt) in still {
        let began = turn.state.jobs.get(&job).and_then(|j| j.started).unwrap_or(taken);
        if began >= taken {
            continue;
        }
        let since = *missing.since.entry((job, attempt)).or_insert(taken);
        if taken < since.plus(grace) {
            continue;
        }
        missing.since.remove(&(job, attempt));
        let report = ExitReport {
            status: ExitStatus::default(),
            cause: EndCause::NodeLost,
            started: None,
            ended: turn.at,
            usage: Usage::default(),
            message: "its processes are gone and nothing is known of how they ended".to_owned(),
            steps: Vec::new(),
        };
        turn.apply(EventKind::JobExited { job, attempt, report })?;
    }
    Ok(())
}

/// Every order that the state asks of this engine, again: one may have been lost.
fn repeat_orders(turn: &Turn, engine: &EngineName, aftermath: &mut Aftermath) {
    let wanted = turn
        .state
        .index
        .active
        .iter()
        .filter_map(|id| turn.state.jobs.get(id))
        .filter(|job| {
            let wanted = job.suspend || job.resize.is_some() || !job.signals.is_empty();
            job.state != JobState::Running || wanted
        })
        .flat_map(|job| orders_of(&turn.state, job))
        .filter(|order| order.engine == *engine);
    aftermath.orders.extend(wanted);
}

impl NodeOverlay {
    /// Adds what the configuration says to what the engine says.
    pub(crate) fn lay_over(&self, node: &mut Node) {
        node.features.extend(self.features.iter().cloned());
        node.weight = self.weight;
        if !self.switches.is_empty() {
            node.switches.clone_from(&self.switches);
        }
        node.labels.extend(self.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
        node.taints.extend(self.taints.iter().cloned());
        node.gres.extend(self.gres.iter().map(|(name, count)| (name.clone(), *count)));
        for described in &self.described {
            described.lay_over(node);
        }
        for (which, mode) in &self.devices {
            for device in &mut node.devices {
                if which.as_ref().is_none_or(|set| set.contains(device.index)) {
                    device.mode = device_mode(&device.mode, mode, node.practice);
                }
            }
        }
    }
}

impl DeviceOverlay {
    fn lay_over(&self, node: &mut Node) {
        let Some(device) = node.devices.get_mut(self.index as usize) else { return };
        if let Some(model) = &self.model {
            device.model.clone_from(model);
        }
        device.numa = self.numa.or(device.numa);
        let Some(lanes) = &self.lanes else { return };
        device.links.retain(|link| !matches!(link.kind, LinkKind::NvLink(_)));
        let said = (0..).zip(lanes).filter(|(peer, lanes)| *peer != self.index && **lanes > 0);
        device.links.extend(said.map(|(peer, lanes)| {
            let kind = LinkKind::NvLink(*lanes);
            DeviceLink { peer, kind }
        }));
        device.links.sort_by_key(|link| (link.peer, link.kind));
    }
}

/// The mode that the configuration gives a device: instances are made only on practice nodes; on
/// others there are those that the driver has.
fn device_mode(found: &DeviceMode, wanted: &DeviceMode, practice: bool) -> DeviceMode {
    match (found, wanted) {
        (DeviceMode::Mig(there), DeviceMode::Mig(_)) => DeviceMode::Mig(there.clone()),
        (_, DeviceMode::Mig(_)) => {
            DeviceMode::Mig(MigMode { carve: practice, instances: Vec::new() })
        }
        // A card that is cut is not given out in another way.
        (DeviceMode::Mig(there), _) if !practice => DeviceMode::Mig(there.clone()),
        (_, other) => other.clone(),
    }
}
