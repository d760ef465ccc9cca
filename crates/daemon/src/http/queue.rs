//! The queue, a page at a time, straight from the state.

use super::error::{Answer, Refusal};
use super::extract::Asked;
use super::filter::Filter;
use crate::app::{App, Shared};
use crate::reasons::Known;
use axum::Json;
use axum::extract::State as Given;
use axum::response::{IntoResponse, Response};
use muster_api::{ApiError, PAGE_DEFAULT, PAGE_MAX, QueuePage, QueueQuery, QueueRow};
use muster_model::{Hold, IndexRanges, Job, JobId, JobSpec, OrderMode, Priorities, Promise};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The queue by ascending raw number.
#[utoipa::path(get, path = "/v1/queue", params(QueueQuery), responses(
    (status = 200, body = QueuePage), (status = 422, body = ApiError)))]
pub(crate) async fn queue(
    Given(app): Given<Shared>,
    Asked(query): Asked<QueueQuery>,
) -> Result<Response, Refusal> {
    let filter = Filter::of_query(&query)?;
    // Many rows take a while: not on a thread that serves others.
    let body = tokio::task::spawn_blocking(move || {
        let known = app.reasons.of(&app.handle);
        if let Some(job) = filter.missing(&known.state)
            && !query.jobs.as_deref().unwrap_or_default().contains(',')
        {
            return Err(Refusal::not_found("job", &job.to_string()));
        }
        let foreseen = query.starts.unwrap_or(false).then(|| app.reasons.starts(&known.state));
        let starts = foreseen.unwrap_or_default();
        serde_json::to_vec(&page(&known, &starts, &filter, &query))
            .map_err(|error| Refusal::fault(error.to_string()))
    });
    let body = body.await.map_err(|error| Refusal::fault(error.to_string()))??;
    Ok(([("content-type", "application/json")], body).into_response())
}

/// One page. Waiting tasks of an array that are alike become one row, unless `expand` is asked.
fn page(
    known: &Known,
    starts: &BTreeMap<JobId, Promise>,
    filter: &Filter,
    query: &QueueQuery,
) -> QueuePage {
    let limit = query.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX) as usize;
    let expand = query.expand.unwrap_or(false);
    let mut page = QueuePage { now_ms: App::now(), ..QueuePage::default() };
    let mut folds = Folds { known, filter, by_array: BTreeMap::new() };
    let after = JobId(query.after.unwrap_or(0));
    let state = &known.state;
    let changing = state.policy.order == OrderMode::Multifactor;
    let priorities = changing.then(|| Priorities::new(state, page.now_ms));
    for id in filter.candidates(&known.state, after) {
        let Some(job) = known.state.job(id).filter(|job| filter.admits(job)) else { continue };
        let fold = if expand { None } else { folds.of(job) };
        let tasks = match fold {
            Some(fold) if fold.first != id => continue,
            Some(fold) => Some(fold.indices.clone()),
            None => None,
        };
        if page.rows.len() == limit {
            page.next = page.rows.last().map(|row| row.id);
            break;
        }
        let mut row = QueueRow::of(&known.state, job, known.reason(job));
        if let Some(priorities) = &priorities
            && job.is_pending()
            && job.hold.is_none()
        {
            row.priority = u32::try_from(priorities.of(job).max(1)).unwrap_or(u32::MAX);
        }
        if job.is_pending() {
            row.expected_ms = starts.get(&id).map(|foreseen| foreseen.start);
        }
        if let Some(tasks) = tasks.filter(|tasks| tasks.len() > 1) {
            row.fold_tasks(&tasks);
        }
        if query.wide.unwrap_or(false) {
            row = row.with_detail(&known.state, job);
        }
        page.rows.push(row);
    }
    page
}

/// Waiting tasks of one array that are alike.
struct Fold {
    first: JobId,
    indices: IndexRanges,
}

/// What makes tasks alike: the same request (a changed task has one of its own) and hold.
type Likeness = (*const JobSpec, Option<Hold>);

struct Folds<'a> {
    known: &'a Known,
    filter: &'a Filter,
    by_array: BTreeMap<JobId, Vec<(Likeness, Fold)>>,
}

impl Folds<'_> {
    /// The fold that a waiting task is in; `None` for everything else.
    fn of(&mut self, job: &Job) -> Option<&Fold> {
        let task = job.array.filter(|_| job.is_pending())?;
        let folds = self.by_array.entry(task.array).or_insert_with(|| {
            let mut folds: Vec<(Likeness, Fold, Vec<u32>)> = Vec::new();
            for id in self.known.state.family(task.array) {
                let Some(job) = self.known.state.job(id) else { continue };
                let Some(task) = job.array.filter(|_| job.is_pending()) else { continue };
                if !self.filter.admits(job) {
                    continue;
                }
                let like = likeness(job);
                match folds.iter_mut().find(|(other, ..)| *other == like) {
                    Some((_, _, indices)) => indices.push(task.index),
                    None => {
                        let fold = Fold { first: id, indices: IndexRanges::default() };
                        folds.push((like, fold, vec![task.index]));
                    }
                }
            }
            let done = |(like, fold, indices): (Likeness, Fold, Vec<u32>)| {
                (like, Fold { indices: indices.into_iter().collect(), ..fold })
            };
            folds.into_iter().map(done).collect()
        });
        let like = likeness(job);
        folds.iter().find(|(other, _)| *other == like).map(|(_, fold)| fold)
    }
}

fn likeness(job: &Job) -> Likeness {
    (Arc::as_ptr(&job.spec), job.hold.clone())
}

/// Jobs in full.
#[utoipa::path(get, path = "/v1/jobs/{job}",
    params(("job" = String, Path, description = "12, 900_3, 900_[1-3] or 12+1")),
    responses((status = 200, body = muster_api::JobPage), (status = 404, body = ApiError)))]
pub(crate) async fn job(
    Given(app): Given<Shared>,
    axum::extract::Path(name): axum::extract::Path<String>,
) -> Answer<muster_api::JobPage> {
    let job = super::filter::job_ref(&name)?;
    let page = tokio::task::spawn_blocking(move || super::jobs::views(&app, &job)).await;
    Ok(Json(page.map_err(|error| Refusal::fault(error.to_string()))??))
}
