//! The plan: what runs where until when, what was promised to whom, and what is reserved.

use super::error::{Answer, Refusal};
use super::extract::Asked;
use crate::app::{App, Shared};
use crate::reasons::Known;
use axum::Json;
use axum::extract::State as Given;
use muster_api::{
    ApiError, PAGE_DEFAULT, PAGE_MAX, PlanBar, PlanKind, PlanLane, PlanPage, PlanPart, PlanQuery,
    ReservationView,
};
use muster_model::{
    Job, Node, NodeId, Promise, Reservation, ReservedNode, State, Timestamp, Window,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What runs, is promised and reserved, by node. Promised are those to whom the newest planning
/// round promised a start, where and when the outlook has them.
#[utoipa::path(get, path = "/v1/plan", params(PlanQuery), responses(
    (status = 200, body = PlanPage), (status = 404, body = ApiError)))]
pub(crate) async fn plan(
    Given(app): Given<Shared>,
    Asked(query): Asked<PlanQuery>,
) -> Answer<PlanPage> {
    let page = tokio::task::spawn_blocking(move || {
        let known = app.reasons.of(&app.handle);
        let foreseen = app.reasons.starts(&known.state);
        let round = app.handle.round();
        let promises = round.plan.promises.iter().filter_map(|promise| foreseen.get(&promise.job));
        page(&known, promises, &query, App::now())
    });
    Ok(Json(page.await.map_err(|error| Refusal::fault(error.to_string()))??))
}

fn page<'a>(
    known: &Known,
    promises: impl Iterator<Item = &'a Promise>,
    query: &PlanQuery,
    now: Timestamp,
) -> Result<PlanPage, Refusal> {
    let state = &known.state;
    let members = match &query.partition {
        Some(name) => {
            let found = state.partitions.values().find(|p| p.name == *name);
            Some(&found.ok_or_else(|| Refusal::not_found("partition", name))?.nodes)
        }
        None => None,
    };
    let limit = query.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX) as usize;
    let from = NodeId(query.after.map_or(0, |after| after.saturating_add(1)));
    let meant = |node: &&Arc<Node>| members.is_none_or(|members| members.contains(&node.name));
    let mut nodes = state.nodes.range(from..).map(|(_, node)| node).filter(meant);
    let shown: Vec<&Arc<Node>> = nodes.by_ref().take(limit).collect();
    let next = nodes.next().and_then(|_| shown.last()).map(|node| node.id.0);
    let mut drawing = Drawing::new(&shown);
    drawing.running(state);
    for promise in promises {
        drawing.promised(known, promise, now);
    }
    for reservation in state.reservations.values() {
        drawing.reserved(state, reservation, now);
    }
    Ok(drawing.page(next, now))
}

/// The lanes of a page while bars are laid on them.
struct Drawing {
    lanes: BTreeMap<NodeId, PlanLane>,
    bars: Vec<PlanBar>,
}

impl Drawing {
    fn new(nodes: &[&Arc<Node>]) -> Self {
        let lane = |node: &&Arc<Node>| {
            let lane = PlanLane {
                id: node.id.0,
                name: node.name.clone(),
                cpus: node.cpus.len(),
                gpus: node.devices.len() as u32,
                away: !node.is_usable(),
                parts: Vec::new(),
            };
            (node.id, lane)
        };
        Self { lanes: nodes.iter().map(lane).collect(), bars: Vec::new() }
    }

    /// Lays a bar on those of its nodes that are shown; one that is on none of them is left out.
    fn lay(&mut self, bar: PlanBar, parts: impl Iterator<Item = (NodeId, u32, u32)>) {
        let at = self.bars.len() as u32;
        let mut seen = false;
        for (node, cpus, gpus) in parts {
            if let Some(lane) = self.lanes.get_mut(&node) {
                lane.parts.push(PlanPart { bar: at, cpus, gpus });
                seen = true;
            }
        }
        if seen {
            self.bars.push(bar);
        }
    }

    fn running(&mut self, state: &State) {
        for job in state.index.active.iter().filter_map(|id| state.job(*id)) {
            let Some(placement) = job.placement.as_ref().filter(|_| job.state.holds_resources())
            else {
                continue;
            };
            let begun = job.started.or(job.placed).unwrap_or(job.submitted);
            let end = job.ends_at_latest().unwrap_or(Timestamp::NEVER);
            let nodes = placement.nodes.len();
            let bar = of_job(job, PlanKind::Running, begun, end, nodes);
            let parts = placement.nodes.iter().map(|share| {
                (share.node, share.cpus.len().max(share.cpu_pool), share.devices.len() as u32)
            });
            self.lay(bar, parts);
        }
    }

    /// A promise whose job has started, or is gone, since that round is none any more.
    fn promised(&mut self, known: &Known, promise: &Promise, now: Timestamp) {
        let Some(job) = known.state.job(promise.job).filter(|job| job.is_pending()) else { return };
        let start = promise.start.max(now);
        let end = start.plus_limit(job.time_limit);
        let mut bar = of_job(job, PlanKind::Promised, start, end, promise.nodes.len());
        bar.why = known.reason(job).map(ToString::to_string).unwrap_or_default();
        let parts = promise.nodes.iter().enumerate().map(|(rank, node)| {
            let share = promise.shares.get(rank).copied().unwrap_or_default();
            (*node, share.cpus, share.gpus)
        });
        self.lay(bar, parts);
    }

    fn reserved(&mut self, state: &State, reservation: &Reservation, now: Timestamp) {
        let view = ReservationView::of(state, reservation, now);
        let first = Window { start: view.start_ms, end: view.end_ms.unwrap_or(Timestamp::NEVER) };
        for window in std::iter::once(&first).chain(&reservation.later) {
            let who = [&view.users, &view.accounts, &view.groups];
            let who: Vec<&str> =
                who.into_iter().map(String::as_str).filter(|names| !names.is_empty()).collect();
            let bar = PlanBar {
                kind: PlanKind::Reserved,
                title: reservation.name.clone(),
                user: who.join(","),
                start_ms: window.start,
                end_ms: (window.end != Timestamp::NEVER).then_some(window.end),
                nodes: reservation.nodes.len() as u32,
                why: view.flags.join(","),
                ..PlanBar::default()
            };
            self.lay(bar, reservation.nodes.iter().map(|reserved| amounts(state, reserved)));
        }
    }

    fn page(self, next: Option<u32>, now: Timestamp) -> PlanPage {
        let bars = self.bars;
        let lanes = self.lanes.into_values().map(|mut lane| {
            lane.parts.sort_by_key(|part| {
                let bar = bars.get(part.bar as usize);
                (bar.map(|bar| bar.start_ms), part.bar)
            });
            lane
        });
        let lanes = lanes.collect();
        PlanPage { lanes, bars, next, now_ms: now }
    }
}

fn of_job(job: &Job, kind: PlanKind, start: Timestamp, end: Timestamp, nodes: usize) -> PlanBar {
    PlanBar {
        kind,
        title: job.display_id(),
        name: job.spec.name.clone(),
        user: job.spec.owner.user.clone(),
        account: job.spec.account.clone(),
        start_ms: start,
        end_ms: (end != Timestamp::NEVER).then_some(end),
        nodes: nodes as u32,
        why: String::new(),
    }
}

fn amounts(state: &State, reserved: &ReservedNode) -> (NodeId, u32, u32) {
    let whole = || state.nodes.get(&reserved.node).map(|n| (n.cpus.len(), n.devices.len() as u32));
    let (cpus, gpus) = match &reserved.part {
        Some(part) => (part.cpus.len(), part.devices.len() as u32),
        None => whole().unwrap_or_default(),
    };
    (reserved.node, cpus, gpus)
}
