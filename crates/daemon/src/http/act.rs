//! Actions on jobs, and changes to them.

use super::error::{Answer, Refusal};
use super::extract::Body;
use super::filter::{Filter, job_ref};
use super::jobs::command;
use crate::app::{App, Caller, Shared};
use crate::patch;
use axum::extract::{Path, State as Given};
use axum::{Extension, Json};
use hyper::StatusCode;
use muster_api::{
    Action, ActionRequest, ActionResponse, ActionResult, ApiError, JobFilter, JobPatch, JobRef,
    Problem, SignalScope,
};
use muster_control::command::{
    Command, CommandError, JobChange, JobRef as Target, Principal, Reply,
};
use muster_model::{JobId, Request, SignalScope as Scope, State, TimeLimit};

/// The most names that one request may have.
const NAMES_MAX: usize = 10_000;

/// Up to here each name is a command of its own, so that each has an answer of its own.
const NAMES_APART: usize = 256;

/// Does something to jobs.
#[utoipa::path(post, path = "/v1/jobs/actions", request_body = ActionRequest, responses(
    (status = 200, body = ActionResponse), (status = 422, body = ApiError),
    (status = 503, body = ApiError)))]
pub(crate) async fn actions(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<ActionRequest>,
) -> Answer<ActionResponse> {
    if request.jobs.len() > NAMES_MAX {
        let message = format!("at most {NAMES_MAX} jobs can be named at once");
        return Err(Refusal::invalid("E_BODY_BAD", message));
    }
    let mut batches: Vec<(String, Vec<Target>)> = Vec::new();
    if request.jobs.len() <= NAMES_APART {
        batches.extend(request.jobs.iter().map(|job| (job.to_string(), vec![target(job)])));
    } else {
        let name = request.jobs.first().map(ToString::to_string).unwrap_or_default();
        batches.push((name, request.jobs.iter().map(target).collect()));
    }
    if let Some(filter) = &request.filter {
        let found = matching(&app, &caller, filter)?;
        if let Some(first) = found.first() {
            let targets = found.iter().map(|id| Target::Only(*id)).collect();
            batches.push((first.to_string(), targets));
        }
    }
    let mut results = Vec::new();
    for (name, targets) in batches {
        let order = order(&request, targets)?;
        results.extend(settle(&app, name, command(&app.handle, &caller, order).await));
    }
    Ok(Json(ActionResponse { results }))
}

/// The live jobs that a filter means. A person who names no user means their own.
fn matching(app: &App, caller: &Principal, filter: &JobFilter) -> Result<Vec<JobId>, Refusal> {
    let read = Filter::of_action(filter)?;
    let state = app.handle.state();
    let theirs = |id: &JobId| {
        let job = state.job(*id).filter(|job| read.admits(job));
        job.is_some_and(|job| !filter.users.is_empty() || caller.owns(job))
    };
    let found = read.candidates(&state, JobId(0)).filter(theirs).collect();
    Ok(found)
}

fn target(job: &JobRef) -> Target {
    match job {
        JobRef::Job(id) => Target::Id(*id),
        JobRef::Tasks(array, indices) => Target::Tasks(*array, indices.clone()),
        JobRef::Component(leader, offset) => Target::Component(*leader, *offset),
    }
}

fn order(request: &ActionRequest, jobs: Vec<Target>) -> Result<Command, Refusal> {
    Ok(match request.action {
        Action::Cancel => Command::Cancel { jobs, hurry: request.hurry },
        Action::Signal => {
            let signal = request.signal.ok_or_else(|| {
                Refusal::invalid("E_BODY_BAD", "the action signal needs a signal")
            })?;
            let scope = match request.scope {
                SignalScope::Steps => Scope::Steps,
                SignalScope::Batch => Scope::Batch,
                SignalScope::All => Scope::All,
                SignalScope::Step => Scope::Step(request.step.ok_or_else(|| {
                    Refusal::invalid("E_BODY_BAD", "the scope step needs a step")
                })?),
            };
            Command::Signal { jobs, signal, scope }
        }
        Action::Hold => Command::Hold { jobs, as_user: false },
        Action::Uhold => Command::Hold { jobs, as_user: true },
        Action::Release => Command::Release { jobs },
        Action::Requeue => Command::Requeue { jobs, hold: false },
        Action::RequeueHold => Command::Requeue { jobs, hold: true },
        Action::Suspend => Command::Suspend { jobs, suspend: true },
        Action::Resume => Command::Suspend { jobs, suspend: false },
        Action::Checkpoint => Command::Checkpoint { jobs, attempt: request.attempt },
    })
}

/// The answer to a command as results.
fn settle(app: &App, name: String, reply: Result<Reply, CommandError>) -> Vec<ActionResult> {
    let state = app.handle.state();
    let refusal = |job: String, error: &CommandError| {
        let named = job.parse::<JobRef>().ok();
        let first = named.and_then(|named| named.resolve(&state).first().copied());
        ActionResult { job, id: first.map(|id| id.0), error: Some(problem(error)) }
    };
    match reply {
        Ok(Reply::Jobs { done, refused }) => {
            let done = done.into_iter().map(|id| ActionResult {
                job: state.job(id).map_or_else(|| id.to_string(), |job| job.display_id()),
                id: Some(id.0),
                error: None,
            });
            let refused = refused.into_iter().map(|(job, error)| refusal(job, &error));
            done.chain(refused).collect()
        }
        Ok(_) => vec![ActionResult { job: name, id: None, error: None }],
        Err(error) => vec![refusal(name, &error)],
    }
}

fn problem(error: &CommandError) -> Problem {
    Problem {
        code: error.code().to_owned(),
        message: error.to_string(),
        place: None,
        hint: error.hint(),
    }
}

/// Changes a job's request.
#[utoipa::path(patch, path = "/v1/jobs/{job}", request_body = JobPatch,
    params(("job" = String, Path)), responses(
    (status = 200, body = ActionResponse), (status = 404, body = ApiError),
    (status = 422, body = ApiError)))]
pub(crate) async fn update(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Body(request): Body<JobPatch>,
) -> Answer<ActionResponse> {
    let job = job_ref(&name)?;
    let state = app.handle.state();
    let named = job.resolve(&state);
    let first = named.first().and_then(|id| state.job(*id)).cloned();
    let limit = first.as_ref().map_or(TimeLimit::Unlimited, |job| job.time_limit);
    let change = patch::read(&request, limit, App::now(), &app.zone)?;
    let options = patch::options(&request);
    let orders = if options.is_empty() {
        vec![Command::Update { jobs: vec![target(&job)], change: Box::new(change) }]
    } else {
        let mut orders = Vec::new();
        for (old, ids) in by_request(&state, &named) {
            let request = patch::request(&old, &options, App::now())?;
            // One order for all that was named keeps the answer as short as the question.
            let all = ids.len() == named.len();
            let only = ids.into_iter().map(Target::Only).collect();
            let jobs = if all { vec![target(&job)] } else { only };
            let change = Box::new(JobChange { request: Some(request), ..change.clone() });
            orders.push(Command::Update { jobs, change });
        }
        if orders.is_empty() {
            orders.push(Command::Update { jobs: vec![target(&job)], change: Box::new(change) });
        }
        orders
    };
    let mut results = Vec::new();
    for order in orders {
        let reply = command(&app.handle, &caller, order).await?;
        results.extend(settle(&app, name.clone(), Ok(reply)));
    }
    Ok(Json(ActionResponse { results }))
}

/// Jobs that ask for the same together: tasks of an array may have been changed one by one.
fn by_request(state: &State, jobs: &[JobId]) -> Vec<(Request, Vec<JobId>)> {
    let mut groups: Vec<(Request, Vec<JobId>)> = Vec::new();
    for job in jobs.iter().filter_map(|id| state.job(*id)) {
        match groups.iter_mut().find(|(request, _)| *request == job.spec.request) {
            Some((_, ids)) => ids.push(job.id),
            None => groups.push((job.spec.request.clone(), vec![job.id])),
        }
    }
    groups
}

/// Gives a node no new work.
#[utoipa::path(post, path = "/v1/nodes/{node}/drain", request_body = muster_api::DrainRequest,
    params(("node" = String, Path)), responses(
    (status = 200, body = ActionResult), (status = 403, body = ApiError),
    (status = 422, body = ApiError)))]
pub(crate) async fn drain(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Path(node): Path<String>,
    Body(request): Body<muster_api::DrainRequest>,
) -> Answer<ActionResult> {
    let order = Command::DrainNodes { nodes: vec![node.clone()], reason: request.reason };
    node_order(&app, &caller, node, order).await
}

/// Gives a node work again.
#[utoipa::path(post, path = "/v1/nodes/{node}/resume", params(("node" = String, Path)), responses(
    (status = 200, body = ActionResult), (status = 403, body = ApiError),
    (status = 422, body = ApiError)))]
pub(crate) async fn resume(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Path(node): Path<String>,
) -> Answer<ActionResult> {
    let order = Command::ResumeNodes { nodes: vec![node.clone()] };
    node_order(&app, &caller, node, order).await
}

async fn node_order(
    app: &App,
    caller: &Principal,
    node: String,
    order: Command,
) -> Answer<ActionResult> {
    command(&app.handle, caller, order).await.map_err(|error| match error {
        error @ CommandError::UnknownName { .. } => {
            let mut refusal = Refusal::from(error);
            refusal.status = StatusCode::NOT_FOUND;
            refusal
        }
        error => error.into(),
    })?;
    Ok(Json(ActionResult { job: node, id: None, error: None }))
}
