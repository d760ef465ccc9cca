//! Priorities factor by factor, and fair shares.

use super::error::Refusal;
use super::extract::Asked;
use super::filter::Filter;
use crate::app::{App, Shared};
use axum::Json;
use axum::extract::State as Given;
use muster_api::{
    ApiError, PAGE_DEFAULT, PAGE_MAX, PriorityPage, PriorityQuery, PriorityRow, QueueQuery,
    SharePage,
};
use muster_model::{JobId, Priorities};

/// The priorities of waiting jobs, with the terms that add up to them. Held jobs are left out.
#[utoipa::path(get, path = "/v1/priority", params(PriorityQuery), responses(
    (status = 200, body = PriorityPage), (status = 422, body = ApiError)))]
pub(crate) async fn priority(
    Given(app): Given<Shared>,
    Asked(query): Asked<PriorityQuery>,
) -> Result<Json<PriorityPage>, Refusal> {
    let filter = Filter::of_query(&QueueQuery {
        jobs: query.jobs.clone(),
        users: query.users.clone(),
        partitions: query.partitions.clone(),
        states: Some("pending".to_owned()),
        ..QueueQuery::default()
    })?;
    let page = tokio::task::spawn_blocking(move || {
        let (state, now) = (app.handle.state(), App::now());
        let limit = query.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX) as usize;
        let mut page = PriorityPage::empty(&state, now);
        let priorities = Priorities::new(&state, now);
        for id in filter.candidates(&state, JobId(query.after.unwrap_or(0))) {
            let job = state.job(id).filter(|job| job.is_pending() && job.hold.is_none());
            let Some(job) = job.filter(|job| filter.admits(job)) else { continue };
            if page.rows.len() == limit {
                page.next = page.rows.last().map(|row| row.id);
                break;
            }
            page.rows.push(PriorityRow::of(&priorities, job));
        }
        page
    });
    Ok(Json(page.await.map_err(|error| Refusal::fault(error.to_string()))?))
}

/// Accounts and users with shares, use and what they make of fair share.
#[utoipa::path(get, path = "/v1/shares", responses((status = 200, body = SharePage)))]
pub(crate) async fn shares(Given(app): Given<Shared>) -> Json<SharePage> {
    Json(SharePage::of(&app.handle.state(), App::now()))
}
