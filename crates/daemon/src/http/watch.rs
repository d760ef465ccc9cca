//! What the machine does for which job.

use super::error::{Answer, Refusal};
use super::filter::job_ref;
use crate::app::{App, Caller, Shared};
use axum::extract::{Path, State as Given};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use hyper::HeaderMap;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use muster_api::{ApiError, DiagnosisPage, DiagnosisView, FindingView};
use muster_control::command::CommandError;
use muster_diagnosis::{Confidence, Sample, Verdict, diagnose};
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
        if !caller.owns(job) {
            let error = CommandError::NotYours { job: job.id, owner: job.spec.owner.user.clone() };
            return Err(error.into());
        }
        jobs.push(view(job, &app.watch.samples(job)));
    }
    Ok(Json(DiagnosisPage { period_s, jobs }))
}

fn view(job: &Job, samples: &[Sample]) -> DiagnosisView {
    let report = diagnose(samples);
    let window = samples.first().zip(samples.last()).map(|(first, last)| last.at - first.at);
    let verdict = match report.verdict {
        Verdict::Found => "found",
        Verdict::Fine => "fine",
        Verdict::CannotTell => "cannot_tell",
        Verdict::TooShort => "too_short",
    };
    let findings = report.findings.iter().map(|finding| FindingView {
        code: finding.rule.to_owned(),
        text: finding.title.to_owned(),
        evidence: finding.evidence_text(),
        sure: finding.confidence == Confidence::Sure,
        remedy: finding.remedy.to_owned(),
    });
    DiagnosisView {
        id: job.id.0,
        state: job.state,
        verdict: verdict.to_owned(),
        window_s: window.unwrap_or(0.0) as u64,
        samples: samples.len() as u64,
        findings: findings.collect(),
        missing: report.missing.iter().map(|signal| signal.name().to_owned()).collect(),
    }
}
