//! Accounting.

use super::error::{Answer, Refusal};
use super::extract::Asked;
use super::filter::{job_refs, list, state_of};
use crate::app::{App, Shared};
use axum::Json;
use axum::extract::State as Given;
use muster_api::{ApiError, HistoryPage, HistoryQuery, HistoryRow, JobRef, PAGE_DEFAULT, PAGE_MAX};
use muster_control::command::CommandError;
use muster_model::{Job, JobId, State, Timestamp};
use muster_store::{HistoryQuery as Wanted, HistoryRow as Stored};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Ended jobs in the order of their end; live ones on request, on the last page.
#[utoipa::path(get, path = "/v1/history", params(HistoryQuery), responses(
    (status = 200, body = HistoryPage), (status = 422, body = ApiError)))]
pub(crate) async fn history(
    Given(app): Given<Shared>,
    Asked(query): Asked<HistoryQuery>,
) -> Answer<HistoryPage> {
    let asked = Query::of(&query)?;
    let page = tokio::task::spawn_blocking(move || page(&app, &asked));
    Ok(Json(page.await.map_err(|error| Refusal::fault(error.to_string()))??))
}

struct Query {
    wanted: Wanted,
    jobs: Option<Vec<JobRef>>,
    live: bool,
}

impl Query {
    fn of(query: &HistoryQuery) -> Result<Self, Refusal> {
        let jobs = job_refs(query.jobs.as_ref())?;
        let states = list(query.states.as_ref())?;
        let states = states.iter().map(|word| {
            state_of(word).ok_or_else(|| {
                Refusal::invalid("E_QUERY_BAD", format!("{word} is no state of a job"))
            })
        });
        Ok(Self {
            wanted: Wanted {
                jobs: jobs.iter().flatten().map(JobRef::base).collect(),
                users: list(query.users.as_ref())?,
                accounts: list(query.accounts.as_ref())?,
                states: states.collect::<Result<_, _>>()?,
                partitions: list(query.partitions.as_ref())?,
                names: list(query.names.as_ref())?,
                ended_from: query.from_ms.map(Timestamp::from_millis),
                submitted_before: query.to_ms.map(Timestamp::from_millis),
                after: query.after,
                limit: query.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX) as usize,
                newest: false,
            },
            jobs,
            live: query.live.unwrap_or(false),
        })
    }

    /// The store finds arrays by their number; here the tasks that were meant are picked.
    fn admits(&self, job: &Job) -> bool {
        let Some(jobs) = &self.jobs else { return true };
        jobs.iter().any(|wanted| match wanted {
            JobRef::Job(id) => {
                job.id == *id
                    || job.array.is_some_and(|a| a.array == *id)
                    || job.het.is_some_and(|h| h.leader == *id)
            }
            JobRef::Tasks(array, indices) => {
                job.array.is_some_and(|a| a.array == *array && indices.rank(a.index).is_some())
            }
            JobRef::Component(leader, offset) => {
                job.het.is_some_and(|h| h.leader == *leader && h.offset == *offset)
            }
        })
    }
}

fn page(app: &App, query: &Query) -> Result<HistoryPage, Refusal> {
    // The state first: a job that ends meanwhile is then in both, and never in neither.
    let state = app.handle.state();
    let found = read(app, query)?;
    let rows = found.rows.iter().filter(|row| query.admits(&row.job));
    let mut page =
        HistoryPage { rows: rows.map(|row| row_of(&state, row)).collect(), next: found.next };
    if query.live && page.next.is_none() {
        // What was put back in the queue goes on, with the same attempt until it starts again.
        let over = found.rows.iter().filter(|row| !row.requeued);
        let ended: BTreeSet<(JobId, u32)> = over.map(|row| (row.job.id, row.job.attempt)).collect();
        page.rows.extend(live(&state, query, &ended));
    }
    Ok(page)
}

fn read(app: &App, query: &Query) -> Result<muster_store::HistoryPage, Refusal> {
    app.handle.reader().history(&query.wanted).map_err(|error| {
        Refusal::new(
            hyper::StatusCode::SERVICE_UNAVAILABLE,
            error.code(),
            format!("the history cannot be read: {error}"),
        )
    })
}

/// What a name stands for: jobs that the state still has, else ended ones by their last attempt.
pub(super) fn known(app: &App, name: &JobRef) -> Result<(Arc<State>, Vec<Arc<Job>>), Refusal> {
    let state = app.handle.state();
    let mut jobs: BTreeMap<JobId, Arc<Job>> = BTreeMap::new();
    for id in name.resolve(&state).into_iter().take(PAGE_DEFAULT as usize) {
        jobs.extend(state.job(id).map(|job| (id, Arc::clone(job))));
    }
    if jobs.is_empty() {
        let wanted = Wanted {
            jobs: vec![name.base()],
            limit: PAGE_DEFAULT as usize,
            newest: true,
            ..Wanted::default()
        };
        let query = Query { wanted, jobs: Some(vec![name.clone()]), live: false };
        for row in read(app, &query)?.rows {
            let known = jobs.get(&row.job.id).is_some_and(|job| job.attempt > row.job.attempt);
            if query.admits(&row.job) && !known {
                jobs.insert(row.job.id, row.job);
            }
        }
    }
    if jobs.is_empty() {
        return Err(CommandError::UnknownJob { job: name.to_string() }.into());
    }
    Ok((state, jobs.into_values().collect()))
}

fn row_of(state: &State, row: &Stored) -> HistoryRow {
    HistoryRow::of(state, &row.job)
}

/// The jobs that are not over, but for attempts that were found to have ended.
fn live<'a>(
    state: &'a State,
    query: &'a Query,
    ended: &'a BTreeSet<(JobId, u32)>,
) -> impl Iterator<Item = HistoryRow> + 'a {
    let ids = state.index.pending.iter().chain(&state.index.active);
    let fits = |job: &&Arc<Job>| {
        let row = Stored { seq: 0, job: Arc::clone(job), requeued: false };
        let open = Wanted { ended_from: None, ..query.wanted.clone() };
        open.admits(&row) && query.admits(job) && !ended.contains(&(job.id, job.attempt))
    };
    ids.filter_map(|id| state.job(*id)).filter(fits).map(|job| HistoryRow::of(state, job))
}
