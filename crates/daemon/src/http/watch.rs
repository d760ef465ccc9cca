//! What the machine does for which job.

use super::error::{Answer, Refusal};
use super::extract::{Asked, Body};
use super::filter::job_ref;
use crate::app::{App, Caller, Shared};
use axum::extract::{Path, State as Given};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use hyper::HeaderMap;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use muster_api::{
    ApiError, BandwidthView, DiagnosisPage, MachineSeries, MachineSeriesQuery, MachineView,
    ReportPage, SeriesPage,
};
use muster_control::command::CommandError;
use muster_exporter::{OPEN_METRICS, Settings, TEXT, exposition};
use muster_model::Job;

/// Metrics: of the machine and all jobs for admins, of their own jobs for others.
#[utoipa::path(get, path = "/v1/metrics", responses(
    (status = 200, body = String, content_type = "application/openmetrics-text"),
    (status = 500, body = ApiError)))]
pub(crate) async fn metrics(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let open = accept.contains("application/openmetrics-text");
    let made = tokio::task::spawn_blocking(move || {
        let owners = app.watch.owners(&app.handle.state(), &caller);
        let settings = Settings { hostname: App::hostname(), ..Settings::default() };
        let all = exposition(&app.watch.snapshot(), &owners, &settings);
        if open { all.open_metrics() } else { all.text() }
    });
    let text = made.await.map_err(|_| Refusal::fault("the metrics could not be collected"))?;
    let kind = if open { OPEN_METRICS } else { TEXT };
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

/// What holds running jobs back, by samples of what they do; for their owner and admins.
#[utoipa::path(get, path = "/v1/jobs/{job}/diagnosis", params(("job" = String, Path)), responses(
    (status = 200, body = DiagnosisPage), (status = 403, body = ApiError),
    (status = 404, body = ApiError)))]
pub(crate) async fn diagnosis(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer<DiagnosisPage> {
    let (state, ids) = super::jobs::resolve(&app, &job_ref(&name)?)?;
    let period_s = app.config.load().daemon.watch_period.0;
    let mut jobs = Vec::new();
    for job in ids.iter().filter_map(|id| state.job(*id)) {
        may_see(&caller, job)?;
        jobs.push(crate::watch::report::diagnosis(job, &app.watch.samples(job)));
    }
    Ok(Json(DiagnosisPage { period_s, jobs }))
}

/// What jobs used of what they had, in the end or so far; for their owner and admins.
#[utoipa::path(get, path = "/v1/jobs/{job}/report", params(("job" = String, Path)), responses(
    (status = 200, body = ReportPage), (status = 403, body = ApiError),
    (status = 404, body = ApiError)))]
pub(crate) async fn report(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer<ReportPage> {
    let wanted = job_ref(&name)?;
    let made = tokio::task::spawn_blocking(move || {
        let (state, found) = super::history::known(&app, &wanted)?;
        let mut jobs = Vec::new();
        for job in &found {
            may_see(&caller, job)?;
            jobs.push(app.watch.report(&state, job));
        }
        Ok(Json(ReportPage { jobs }))
    });
    made.await.map_err(|_| Refusal::fault("the report could not be made"))?
}

/// What jobs did over time, for graphs; for their owner and admins.
#[utoipa::path(get, path = "/v1/jobs/{job}/series", params(("job" = String, Path)), responses(
    (status = 200, body = SeriesPage), (status = 403, body = ApiError),
    (status = 404, body = ApiError)))]
pub(crate) async fn series(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer<SeriesPage> {
    let wanted = job_ref(&name)?;
    let made = tokio::task::spawn_blocking(move || {
        let (_, found) = super::history::known(&app, &wanted)?;
        let period_s = app.config.load().daemon.watch_period.0;
        let mut jobs = Vec::new();
        for job in &found {
            may_see(&caller, job)?;
            jobs.push(app.watch.series(job));
        }
        Ok(Json(SeriesPage { period_s, jobs }))
    });
    made.await.map_err(|_| Refusal::fault("the series could not be read"))?
}

/// Disks, filesystems and networks of the daemon's machine; for everybody, as `/proc` is.
#[utoipa::path(get, path = "/v1/machine", responses((status = 200, body = MachineView)))]
pub(crate) async fn machine(Given(app): Given<Shared>) -> Answer<MachineView> {
    let made = tokio::task::spawn_blocking(move || Json(app.watch.machine()));
    made.await.map_err(|_| Refusal::fault("the machine could not be looked at"))
}

/// Takes a test of the network between two nodes; for admins.
#[utoipa::path(post, path = "/v1/machine/bandwidth", request_body = BandwidthView, responses(
    (status = 200, body = BandwidthView), (status = 403, body = ApiError),
    (status = 422, body = ApiError)))]
pub(crate) async fn bandwidth(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Body(test): Body<BandwidthView>,
) -> Answer<BandwidthView> {
    super::admin::admins_only(&caller, "report a test of the network")?;
    if let Some(wrong) = crate::watch::bandwidth::wrong(&test) {
        return Err(Refusal::invalid("E_BODY_BAD", wrong));
    }
    let made = tokio::task::spawn_blocking(move || Json(app.watch.bandwidth.add(test)));
    made.await.map_err(|_| Refusal::fault("the test could not be kept"))
}

/// What the daemon's machine did over time; before muster looked at it, as sysstat noted it down.
#[utoipa::path(get, path = "/v1/machine/series", params(MachineSeriesQuery), responses(
    (status = 200, body = MachineSeries), (status = 422, body = ApiError)))]
pub(crate) async fn machine_series(
    Given(app): Given<Shared>,
    Asked(query): Asked<MachineSeriesQuery>,
) -> Answer<MachineSeries> {
    let made = tokio::task::spawn_blocking(move || Json(app.watch.machine_series(&query)));
    made.await.map_err(|_| Refusal::fault("the machine's past could not be read"))
}

/// What jobs held of a node over time, and what it did where it is the daemon's machine.
#[utoipa::path(get, path = "/v1/nodes/{node}/series",
    params(("node" = String, Path), MachineSeriesQuery), responses(
    (status = 200, body = MachineSeries), (status = 404, body = ApiError),
    (status = 422, body = ApiError)))]
pub(crate) async fn node_series(
    Given(app): Given<Shared>,
    Path(name): Path<String>,
    Asked(query): Asked<MachineSeriesQuery>,
) -> Answer<MachineSeries> {
    let made = tokio::task::spawn_blocking(move || {
        let state = app.handle.state();
        let node = state.node_named(&name).ok_or_else(|| Refusal::not_found("node", &name))?;
        Ok(Json(app.watch.node_series(node, &query)))
    });
    made.await.map_err(|_| Refusal::fault("the node's past could not be read"))?
}

fn may_see(caller: &Caller, job: &Job) -> Result<(), Refusal> {
    if caller.owns(job) {
        return Ok(());
    }
    Err(CommandError::NotYours { job: job.id, owner: job.spec.owner.user.clone() }.into())
}
