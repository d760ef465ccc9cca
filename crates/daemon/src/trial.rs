//! When and where a job would start: the submission is applied to a copy of the state.

use crate::app::{App, Shared};
use crate::http::error::Refusal;
use crate::submit;
use muster_api::tres::Totals;
use muster_api::{SubmitRequest, Trial};
use muster_control::command::{Principal, check_submission};
use muster_control::{Advisor, Planning as _, StandardPlanner};
use muster_model::{Decision, Event, EventKind, JobId, JobSpec, NodeId, Timestamp};
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
    // Planners of their own: this state is not one that others will ask about.
    let plan = StandardPlanner::default().plan(&state, now);
    let starts = plan.decisions.iter().find_map(|decision| match decision {
        Decision::Start(starts) => starts.iter().find(|s| s.job == first),
        _ => None,
    });
    let promised = plan.promises.iter().find(|promise| promise.job == first);
    let (start, nodes): (Option<Timestamp>, Vec<NodeId>) = match (starts, promised) {
        (Some(start), _) => (Some(now), start.placement.nodes.iter().map(|n| n.node).collect()),
        (None, Some(promise)) => (Some(promise.start), promise.nodes.clone()),
        (None, None) => {
            let window = Advisor::default().explain(&state, first, now).start;
            (window.map(|w| w.latest.unwrap_or(w.earliest)), Vec::new())
        }
    };
    let Some(job) = state.job(first) else { return Ok(Trial::default()) };
    let names: Vec<String> = nodes.iter().map(|n| state.node_name(*n)).collect();
    Ok(Trial {
        start_ms: start,
        node_list: muster_api::step::fold_hosts(&names),
        partition: job.spec.partitions.join(","),
        cpus: Totals::of(job).cpus,
    })
}
