//! What a change would do to everybody's start: tried on a copy of the state.

use crate::app::{App, Shared};
use crate::http::admin::config_refusal;
use crate::http::error::Refusal;
use crate::{site, submit};
use muster_api::{
    ADDED_NODES_MAX, AddNodes, MovedJob, PAGE_MAX, PreemptedJob, SubmitRequest, WhatIfRequest,
    WhatIfResponse,
};
use muster_config::Config;
use muster_control::command::{Principal, check_submission};
use muster_model::{Drain, EventKind, JobId, Node, NodeId, State, Timestamp};
use muster_sim::{Moved, Preempted, WhatIf};
use std::sync::Arc;

/// Tries the changes; takes as long as two planning rounds over the whole queue.
pub(crate) async fn answer(
    app: &Shared,
    caller: &Principal,
    request: WhatIfRequest,
) -> Result<WhatIfResponse, Refusal> {
    let (state, now) = (app.handle.state(), App::now());
    let changes = changes(app, caller, &state, now, &request)?;
    let try_it = tokio::task::spawn_blocking(move || {
        muster_sim::whatif(&state, now, &changes).map(|found| response(now, &found))
    });
    let tried = try_it.await.map_err(|error| Refusal::fault(error.to_string()))?;
    tried.map_err(|error| Refusal::fault(error.to_string()))
}

fn changes(
    app: &App,
    caller: &Principal,
    state: &State,
    now: Timestamp,
    request: &WhatIfRequest,
) -> Result<Vec<EventKind>, Refusal> {
    let mut changes = Vec::new();
    if let Some(text) = &request.config {
        let config = Config::parse(text, "the configuration").map_err(|e| config_refusal(&e))?;
        let nodes: Vec<&muster_model::Node> = state.nodes.values().map(AsRef::as_ref).collect();
        let offered = crate::engines::offered(&[], &config, state);
        let offered = offered.map_err(|why| Refusal::invalid("E_CONFIG_REFUSED", why))?;
        let site = site::site(&config, &nodes, offered).map_err(|e| config_refusal(&e))?;
        changes.push(EventKind::PolicySet { policy: Box::new(site.policy) });
    }
    for name in &request.drain {
        let node = state.node_named(name).ok_or_else(|| Refusal::not_found("node", name))?.id;
        let reason = "what if".to_owned();
        let drain = Some(Drain { reason, by: caller.user.clone(), since: now });
        changes.push(EventKind::NodeDrain { node, drain });
    }
    if let Some(add) = &request.add {
        added(state, add, &mut changes)?;
    }
    if let Some(submit) = &request.submit {
        changes.push(submitted(app, caller, state, now, submit)?);
    }
    if changes.is_empty() {
        return Err(Refusal::invalid("E_WHATIF_EMPTY", "no change was given to try"));
    }
    Ok(changes)
}

/// Idle copies of a node, in the partitions that it is in.
fn added(state: &State, add: &AddNodes, changes: &mut Vec<EventKind>) -> Result<(), Refusal> {
    if add.count == 0 || add.count > ADDED_NODES_MAX {
        let message = format!("{} nodes; from 1 to {ADDED_NODES_MAX} can be tried", add.count);
        return Err(Refusal::invalid("E_WHATIF_NODES", message));
    }
    let like = match &add.like {
        Some(name) => state.node_named(name).ok_or_else(|| Refusal::not_found("node", name))?,
        None => state
            .nodes
            .values()
            .find(|node| node.is_usable())
            .ok_or_else(|| Refusal::not_found("node", "any that is up"))?,
    };
    let mut names = Vec::new();
    for at in 0..add.count {
        let node = Node {
            id: NodeId(state.next_node + at),
            name: format!("{}-whatif{}", like.name, at + 1),
            foreign: Vec::new(),
            drain: None,
            ..like.as_ref().clone()
        };
        names.push(node.name.clone());
        changes.push(EventKind::NodeSet { node: Box::new(node) });
    }
    for partition in state.partitions.values().filter(|p| p.nodes.contains(&like.name)) {
        let mut partition = partition.as_ref().clone();
        partition.nodes.extend(names.iter().cloned());
        changes.push(EventKind::PartitionSet { partition: Box::new(partition) });
    }
    Ok(())
}

fn submitted(
    app: &App,
    caller: &Principal,
    state: &State,
    now: Timestamp,
    request: &SubmitRequest,
) -> Result<EventKind, Refusal> {
    let site = submit::Site {
        now,
        zone: &app.zone,
        policy: &state.policy,
        sends_mail: app.sends_mail,
        partitions: &crate::engines::of_partitions(&app.config.load(), state),
    };
    let read = submit::read(request, caller, &site)?;
    let specs = check_submission(state, now, caller, &read.submission)
        .map_err(|error| submit::refused(error, &read.places, request))?;
    let first = JobId(state.last_job.0 + 1);
    Ok(EventKind::JobSubmitted { first, specs: specs.into_iter().map(Arc::new).collect() })
}

/// A moved job for the wire.
pub(crate) fn moved(found: &WhatIf, moved: &Moved) -> MovedJob {
    let (job, name, user) = titles(found, moved.job);
    let (before_ms, after_ms) = (moved.before, moved.after);
    MovedJob { id: moved.job.0, job, name, user, before_ms, after_ms }
}

fn preempted(found: &WhatIf, one: &Preempted) -> PreemptedJob {
    let (job, name, user) = titles(found, one.job);
    PreemptedJob {
        id: one.job.0,
        job,
        name,
        user,
        by: titles(found, one.by).0,
        mode: one.mode.word().to_owned(),
        until_ms: one.until,
        again_ms: one.again,
    }
}

/// The number that users see, the name and the user of a job.
fn titles(found: &WhatIf, id: JobId) -> (String, String, String) {
    let Some(job) = found.changed.job(id) else {
        return (id.to_string(), String::new(), String::new());
    };
    (job.display_id(), job.spec.name.clone(), job.spec.owner.user.clone())
}

fn response(now: Timestamp, found: &WhatIf) -> WhatIfResponse {
    let view = |one: &Moved| moved(found, one);
    let most = PAGE_MAX as usize;
    let later = found.moved.iter().filter(|moved| moved.delay_ms() > 0).count();
    let new = found.submitted.iter().map(|job| Moved {
        job: *job,
        before: None,
        after: found.after.get(job).copied(),
    });
    WhatIfResponse {
        submitted: new.take(most).map(|moved| view(&moved)).collect(),
        moved: found.moved.iter().take(most).map(view).collect(),
        left_out: found.moved.len().saturating_sub(most) as u32,
        later: later as u32,
        earlier: (found.moved.len() - later) as u32,
        unmoved: found.unmoved,
        preempted: found.preempted.iter().take(most).map(|one| preempted(found, one)).collect(),
        now_ms: now,
    }
}
