//! When and where a job would start: the submission is applied to a copy of the state.

use crate::app::{App, Shared};
use crate::http::error::Refusal;
use crate::submit;
use muster_api::tres::Totals;
use muster_api::{SubmitRequest, Trial};
use muster_control::Advisor;
use muster_control::command::{Principal, check_submission};
use muster_model::{Event, EventKind, JobId, JobSpec, Timestamp};
use std::sync::Arc;

/// Says when and where this submission would start. Nothing is stored.
pub(crate) async fn trial(
    app: &Shared,
    caller: &Principal,
    read: submit::Read,
    request: &SubmitRequest,
) -> Result<Trial, Refusal> {
    let now = App::now();
    let specs = check_submission(&app.handle.state(), now, caller, &read.submission)
        .map_err(|error| submit::refused(error, &read.places, request))?;
    let app = Arc::clone(app);
    let try_it = tokio::task::spawn_blocking(move || tried(&app, specs));
    try_it.await.map_err(|error| Refusal::fault(error.to_string()))?
}

fn tried(app: &App, specs: Vec<JobSpec>) -> Result<Trial, Refusal> {
    let now = App::now();
    let mut state = (*app.handle.state()).clone();
    let first = JobId(state.last_job.0 + 1);
    let specs: Vec<Arc<JobSpec>> = specs.into_iter().map(Arc::new).collect();
    let event = Event { at: now, kind: EventKind::JobSubmitted { first, specs } };
    state.apply(&event).map_err(|error| Refusal::fault(error.to_string()))?;
    // A planner of its own: this state is not one that others will ask about.
    let promise = Advisor::default().when(&state, first, now);
    let (start, nodes) = promise.map_or((None, Vec::new()), |p| (Some(p.start), p.nodes));
    let Some(job) = state.job(first) else { return Ok(Trial::default()) };
    let names: Vec<String> = nodes.iter().map(|n| state.node_name(*n)).collect();
    Ok(Trial {
        start_ms: start.filter(|at| *at != Timestamp::NEVER),
        node_list: muster_api::step::fold_hosts(&names),
        partition: job.spec.partitions.join(","),
        cpus: Totals::of(job).cpus,
    })
}
