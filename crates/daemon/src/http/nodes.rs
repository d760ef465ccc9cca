//! Nodes, partitions and who may use them.

use super::error::{Answer, Refusal};
use super::extract::Asked;
use crate::app::{App, Shared};
use axum::Json;
use axum::extract::{Path, State as Given};
use muster_api::view::Uses;
use muster_api::{
    AccountView, ApiError, LicenceView, NodePage, NodeView, PAGE_DEFAULT, PAGE_MAX, PartitionView,
    QosView, SwitchView,
};
use muster_model::NodeId;
use serde::Deserialize;
use utoipa::IntoParams;

/// Which page.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// At most so many.
    limit: Option<u32>,
    /// Those after this index.
    after: Option<u32>,
}

/// Nodes by index.
#[utoipa::path(get, path = "/v1/nodes", params(PageQuery), responses((status = 200, body = NodePage)))]
pub(crate) async fn nodes(
    Given(app): Given<Shared>,
    Asked(query): Asked<PageQuery>,
) -> Json<NodePage> {
    let state = app.handle.state();
    let limit = query.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX) as usize;
    let from = query.after.map_or(0, |after| after.saturating_add(1));
    let mut page = NodePage { now_ms: App::now(), ..NodePage::default() };
    for (_, node) in state.nodes.range(NodeId(from)..) {
        if page.nodes.len() == limit {
            page.next = page.nodes.last().map(|node| node.id);
            break;
        }
        page.nodes.push(NodeView::of(&state, node));
    }
    Json(page)
}

/// One node.
#[utoipa::path(get, path = "/v1/nodes/{node}", params(("node" = String, Path)), responses(
    (status = 200, body = NodeView), (status = 404, body = ApiError)))]
pub(crate) async fn node(Given(app): Given<Shared>, Path(name): Path<String>) -> Answer<NodeView> {
    let state = app.handle.state();
    let node = state.node_named(&name).ok_or_else(|| Refusal::not_found("node", &name))?;
    Ok(Json(NodeView::of(&state, node)))
}

/// Every partition.
#[utoipa::path(get, path = "/v1/partitions", responses((status = 200, body = [PartitionView])))]
pub(crate) async fn partitions(Given(app): Given<Shared>) -> Json<Vec<PartitionView>> {
    let state = app.handle.state();
    Json(state.partitions.values().map(|p| PartitionView::of(&state, p)).collect())
}

/// Every account.
#[utoipa::path(get, path = "/v1/accounts", responses((status = 200, body = [AccountView])))]
pub(crate) async fn accounts(Given(app): Given<Shared>) -> Json<Vec<AccountView>> {
    let (state, now) = (app.handle.state(), App::now());
    let uses = Uses::new(&state, now);
    Json(state.accounts.values().map(|a| AccountView::of(&uses, a)).collect())
}

/// Every quality of service.
#[utoipa::path(get, path = "/v1/qos", responses((status = 200, body = [QosView])))]
pub(crate) async fn qos(Given(app): Given<Shared>) -> Json<Vec<QosView>> {
    let (state, now) = (app.handle.state(), App::now());
    let uses = Uses::new(&state, now);
    Json(state.qos.values().map(|q| QosView::of(&uses, q)).collect())
}

/// Every licence.
#[utoipa::path(get, path = "/v1/licences", responses((status = 200, body = [LicenceView])))]
pub(crate) async fn licences(Given(app): Given<Shared>) -> Json<Vec<LicenceView>> {
    Json(LicenceView::all(&app.handle.state()))
}

/// Every switch.
#[utoipa::path(get, path = "/v1/topology", responses((status = 200, body = [SwitchView])))]
pub(crate) async fn topology(Given(app): Given<Shared>) -> Json<Vec<SwitchView>> {
    Json(SwitchView::all(&app.handle.state()))
}
