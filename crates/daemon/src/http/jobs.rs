//! Jobs: submitted, looked at, waited for.

use super::error::{Answer, Refusal};
use super::extract::{Asked, Body};
use super::filter::job_ref;
use crate::app::{App, Caller, Shared};
use crate::reasons::Known;
use crate::submit;
use axum::extract::{Path, State as Given};
use axum::{Extension, Json};
use hyper::StatusCode;
use muster_api::{
    ApiError, JobEnd, JobPage, JobRef, JobView, LevelCount, PAGE_DEFAULT, PayloadView,
    PlacementView, Problem, ReasonView, ScriptView, StepAccess, SubmitRequest, SubmitResponse,
    WaitQuery, WaitResponse, WhatIfRequest, WhatIfResponse, WhyPage, WhyQuery, WhyView,
};
use muster_control::command::{Command, CommandError, Principal, Reply};
use muster_control::need::Advice;
use muster_control::{Handle, RunningJobs, Ticket};
use muster_model::{Job, JobId, JobState, NodeId, Payload, State};
use muster_slurm_syntax::pattern;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The longest wait of one request, seconds.
const WAIT_MAX_S: u32 = 60;

/// Gives a command up where the one who asked is gone before its turn.
struct GiveUp(Ticket);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// Hands a command to the writer and waits for its answer. Dropping the future gives it up.
pub(crate) async fn command(
    handle: &Handle,
    principal: &Principal,
    command: Command,
) -> Result<Reply, CommandError> {
    let (answer, wait) = oneshot::channel();
    let ticket = handle.submit(principal.clone(), command, move |reply| {
        // The one who asked may be gone.
        let _ = answer.send(reply);
    })?;
    let _ticket = GiveUp(ticket);
    wait.await.unwrap_or(Err(CommandError::Stopping))
}

/// Submits a job, or says when and where it would start.
#[utoipa::path(post, path = "/v1/jobs", request_body = SubmitRequest, responses(
    (status = 200, body = SubmitResponse), (status = 403, body = ApiError),
    (status = 422, body = ApiError), (status = 503, body = ApiError)))]
pub(crate) async fn submit(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<SubmitRequest>,
) -> Answer<SubmitResponse> {
    may_run(&app, &caller)?;
    let state = app.handle.state();
    let partitions = crate::engines::of_partitions(&app.config.load(), &state);
    let site = submit::Site {
        now: App::now(),
        zone: &app.zone,
        policy: &state.policy,
        sends_mail: app.sends_mail,
        partitions: &partitions,
    };
    let mut read = submit::read(&request, &caller, &site)?;
    read.warnings.extend(measured(&app, &read, &request).await);
    let cluster = app.config.load().cluster.name.clone();
    let components = read.submission.specs.len() as u32;
    let mut response = SubmitResponse {
        cluster,
        components,
        tasks: 1,
        warnings: std::mem::take(&mut read.warnings),
        client: std::mem::take(&mut read.client),
        ..SubmitResponse::default()
    };
    if request.test_only || response.client.test_only {
        response.trial = Some(crate::trial::trial(&app, &caller, read, &request).await?);
        return Ok(Json(response));
    }
    let command = self::command(&app.handle, &caller, Command::Submit(Box::new(read.submission)));
    match command.await.map_err(|error| submit::refused(error, &read.places, &request))? {
        Reply::Submitted { id, count } => {
            response.job_id = id.0;
            response.tasks = if components > 1 { 1 } else { count };
            Ok(Json(response))
        }
        other => Err(Refusal::fault(format!("a submission was answered with {other:?}"))),
    }
}

/// What earlier runs of the same script say about what is asked for, as warnings.
async fn measured(app: &Shared, read: &submit::Read, request: &SubmitRequest) -> Vec<Problem> {
    let mut found: Vec<Advice> = Vec::new();
    for spec in &read.submission.specs {
        if let Some(known) = app.measured.remembered(spec) {
            found.extend(known);
            continue;
        }
        let (app, spec) = (Arc::clone(app), spec.clone());
        let read = tokio::task::spawn_blocking(move || app.measured.advice(&app.handle, &spec));
        // Without it the submission is as good.
        found.extend(read.await.unwrap_or_default());
    }
    let problem = |advice: Advice| Problem {
        code: "W_MEASURED".to_owned(),
        message: advice.text,
        place: submit::place_of_memory(&read.places, request, &advice.option),
        hint: Some(format!("write {}", advice.option)),
    };
    found.into_iter().map(problem).collect()
}

/// A daemon that is not root's can only run its own user's jobs.
fn may_run(app: &App, caller: &Principal) -> Result<(), Refusal> {
    if app.uid == 0 || caller.uid == app.uid {
        return Ok(());
    }
    let message = format!(
        "this daemon runs as user {} and cannot run jobs of {}",
        app.names.of(app.uid),
        caller.user
    );
    Err(Refusal::new(StatusCode::FORBIDDEN, "E_OTHER_USER", message)
        .hint("a daemon that root starts runs jobs of all users"))
}

/// The live jobs that a name stands for.
pub(crate) fn resolve(
    app: &App,
    job: &JobRef,
) -> Result<(Arc<muster_model::State>, Vec<JobId>), Refusal> {
    let state = app.handle.state();
    let ids = job.resolve(&state);
    if ids.is_empty() {
        let unknown = CommandError::UnknownJob { job: job.to_string() };
        return Err(unknown.into());
    }
    Ok((state, ids))
}

/// The full views of what a name stands for; alike waiting tasks of an array come as one.
pub(crate) fn views(app: &App, job: &JobRef) -> Result<JobPage, Refusal> {
    resolve(app, job)?;
    let known = app.reasons.of(&app.handle);
    let ids = job.resolve(&known.state);
    let waits = |id: &JobId| known.state.job(*id).is_some_and(|job| job.is_pending());
    let starts = match ids.iter().any(waits) {
        true => app.reasons.starts(&known.state),
        false => Arc::default(),
    };
    let mut jobs = Vec::new();
    for (first, tasks) in alike(&known, &ids) {
        let Some(job) = known.state.job(first) else { continue };
        if jobs.len() as u32 == PAGE_DEFAULT {
            break;
        }
        let mut view =
            JobView::of(&known.state, job, known.reason(job).map_or(&[], std::slice::from_ref));
        view.row.expected_ms = starts.get(&first).map(|foreseen| foreseen.start);
        view.row.fold_tasks_where_many(&tasks);
        fill_paths(&known, job, &mut view);
        view.placement = placement(&known, job);
        jobs.push(view);
    }
    Ok(JobPage { jobs, next: None, now_ms: App::now() })
}

/// Jobs with the indices of waiting array tasks that are alike folded under the first.
fn alike(known: &Known, ids: &[JobId]) -> Vec<(JobId, Vec<u32>)> {
    let mut groups: Vec<(JobId, Vec<u32>)> = Vec::new();
    let mut open: Option<(JobId, *const muster_model::JobSpec)> = None;
    for id in ids {
        let Some(job) = known.state.job(*id) else { continue };
        let spec = Arc::as_ptr(&job.spec);
        let task = job.array.filter(|_| job.is_pending() && job.hold.is_none());
        match (task, open) {
            (Some(task), Some((array, like))) if array == task.array && like == spec => {
                if let Some(last) = groups.last_mut() {
                    last.1.push(task.index);
                }
            }
            (task, _) => {
                groups.push((*id, task.iter().map(|t| t.index).collect()));
                open = task.map(|t| (t.array, spec));
            }
        }
    }
    groups
}

/// How the nodes of a job that runs lie to each other.
fn placement(known: &Known, job: &Job) -> Option<PlacementView> {
    let placement = job.placement.as_ref().filter(|_| job.state.holds_resources())?;
    let cost = muster_control::cost(&known.state, placement);
    let count = |(level, n): &(String, u32)| LevelCount { level: level.clone(), domains: *n };
    let bottleneck = cost.bottleneck.as_ref().map(|b| match b.steps {
        1 => format!("{} {}", b.level, b.domain),
        n => format!("{n} steps share the links out of {} {}", b.level, b.domain),
    });
    if cost.domains.is_empty() && cost.ring.0 == 0 {
        return None;
    }
    let mut text = match &cost.meets_at {
        _ if placement.nodes.len() == 1 => "on one node".to_owned(),
        Some(level) => format!("in one {level}"),
        None => "in no one place".to_owned(),
    };
    if cost.ring.0 > 0 {
        text = format!("{text}; ring of {}, at best {}", cost.ring, cost.ideal);
    }
    if let Some(slowest) = bottleneck.as_ref().filter(|_| cost.ring < cost.ideal) {
        text = format!("{text}; slowest: {slowest}");
    }
    Some(PlacementView {
        domains: cost.domains.iter().map(count).collect(),
        meets_at: cost.meets_at.unwrap_or_default(),
        ring_mbs: cost.ring.0,
        ideal_mbs: cost.ideal.0,
        bottleneck: bottleneck.unwrap_or_default(),
        text,
    })
}

/// The output, error and input paths with the patterns filled in.
fn fill_paths(known: &Known, job: &Job, view: &mut JobView) {
    if job.spec.kind == muster_model::JobKind::Allocation {
        return;
    }
    let first = job.placement.as_ref().and_then(|p| p.nodes.first());
    let node = first.map(|n| known.state.node_name(n.node)).unwrap_or_default();
    let values = pattern::Values {
        job_id: job.id.0,
        array: job.array.map(|a| (a.array.0, a.index)),
        step: None,
        node_name: &node,
        node_index: 0,
        task: 0,
        user: &job.spec.owner.user,
        job_name: &job.spec.name,
        restarts: job.attempt.saturating_sub(1),
    };
    let full = |text: &str| {
        let path = pattern::expand(text, &values);
        std::path::Path::new(&job.spec.cwd).join(path).to_string_lossy().into_owned()
    };
    let usual = if job.array.is_some() { "slurm-%A_%a.out" } else { "slurm-%j.out" };
    let stdio = &job.spec.stdio;
    view.stdout_path = full(stdio.output.as_deref().unwrap_or(usual));
    view.stderr_path = match &stdio.error {
        Some(error) => full(error),
        None => view.stdout_path.clone(),
    };
    view.stdin_path = stdio.input.as_deref().map_or_else(|| "/dev/null".to_owned(), full);
}

/// Why jobs wait.
#[utoipa::path(get, path = "/v1/jobs/{job}/why", params(("job" = String, Path), WhyQuery), responses(
    (status = 200, body = WhyPage), (status = 404, body = ApiError)))]
pub(crate) async fn why(
    Given(app): Given<Shared>,
    Path(name): Path<String>,
    Asked(query): Asked<WhyQuery>,
) -> Answer<WhyPage> {
    let job = job_ref(&name)?;
    let over = query.over.as_deref().map(job_ref).transpose()?;
    let page = tokio::task::spawn_blocking(move || {
        resolve(&app, &job)?;
        let known = app.reasons.of(&app.handle);
        let ids = job.resolve(&known.state);
        let other = match &over {
            Some(other) => resolve(&app, other)?.1.first().copied(),
            None => None,
        };
        let groups = alike(&known, &ids).into_iter().take(PAGE_DEFAULT as usize);
        let jobs = groups.filter_map(|(first, tasks)| {
            let mut view = why_view(&app, &known, first, &tasks)?;
            view.beside = super::beside::answer(&app, &known, first, &query, other);
            Some(view)
        });
        Ok::<_, Refusal>(WhyPage { jobs: jobs.collect() })
    });
    Ok(Json(page.await.map_err(|error| Refusal::fault(error.to_string()))??))
}

fn why_view(app: &App, known: &Known, id: JobId, tasks: &[u32]) -> Option<WhyView> {
    let job = known.state.job(id)?;
    let mut row = muster_api::QueueRow::of(&known.state, job, None);
    row.fold_tasks_where_many(tasks);
    let mut view = WhyView {
        id: id.0,
        job: row.job,
        state: muster_api::job::state_word(job.state).to_owned(),
        message: job.message.clone(),
        ..WhyView::default()
    };
    if job.is_pending() {
        let outlook = app.reasons.explain(&known.state, id);
        let unblocks = outlook.reasons.iter().zip(&outlook.unblocks);
        view.reasons = unblocks.map(|(reason, unblock)| reason_view(reason, unblock)).collect();
        view.expected_ms = outlook.start.and_then(|window| window.expected);
        view.not_before_ms = outlook.start.map(|window| window.not_before);
        view.expected_nodes = node_list(&known.state, &outlook.nodes);
        view.nodes = outlook.tally.iter().map(|row| nodes_view(known, row)).collect();
        view.suggestions = outlook.suggestions.iter().map(|s| suggestion(known, s)).collect();
        let found = app.measured.advice(&app.handle, &job.spec);
        view.advice = found.into_iter().map(|a| format!("{}: {}", a.option, a.text)).collect();
        if let Some(makers) = &outlook.room_makers {
            let rows = |jobs: &[RunningJobs]| jobs.iter().map(|j| running(known, j)).collect();
            view.may_make_room = rows(&makers.may);
            view.kept_running = rows(&makers.kept);
            view.room_in_vain = makers.in_vain;
        }
    }
    view.preempted = job.preempted.as_ref().map(|last| {
        let by = known.state.job(last.by);
        muster_api::PreemptedView {
            by: by.map_or_else(|| last.by.to_string(), |by| by.display_id()),
            user: by.map(|by| by.spec.owner.user.clone()).unwrap_or_default(),
            mode: last.mode.word().to_owned(),
            at_ms: last.at,
            times: job.preemptions,
        }
    });
    if job.state == JobState::Starting {
        view.there = app.others.iter().find_map(|engine| {
            let waits = engine.waits(id, job.attempt)?;
            let (engine, word, expected_ms) = (engine.name().0, waits.word, waits.expected);
            Some(muster_api::ThereView { engine, word, expected_ms })
        });
    }
    view.still = super::still::still(&known.state, job);
    view.turn = app.reasons.turn_of(&known.state, id).map(|turn| muster_api::TurnView {
        runs: turn.runs,
        with: turn.with.iter().map(|id| id.0).collect(),
        next_ms: turn.next,
    });
    Some(view)
}

fn running(known: &Known, jobs: &RunningJobs) -> muster_api::RunningJobsView {
    let name =
        |id: &JobId| known.state.job(*id).map_or_else(|| id.to_string(), |job| job.display_id());
    muster_api::RunningJobsView {
        what: jobs.what.clone(),
        count: jobs.count,
        jobs: jobs.jobs.iter().map(name).collect(),
        until_ms: jobs.until,
    }
}

fn reason_view(reason: &muster_model::Reason, unblock: &muster_control::Unblock) -> ReasonView {
    ReasonView {
        held_by: unblock.held_by.iter().map(|id| id.0).collect(),
        until_ms: unblock.until,
        ..ReasonView::full(reason)
    }
}

fn nodes_view(known: &Known, row: &muster_model::NodeTally) -> muster_api::NodesView {
    let names: Vec<String> = row.nodes.iter().map(|id| known.state.node_name(*id)).collect();
    muster_api::NodesView {
        count: row.count,
        names: muster_api::step::fold_hosts(&names),
        text: row.cause.to_string(),
        cause: row.cause.clone(),
    }
}

/// The nodes that the newest round promised to a job.
fn node_list(state: &State, nodes: &[NodeId]) -> String {
    let names: Vec<String> = nodes.iter().map(|n| state.node_name(*n)).collect();
    muster_api::step::fold_hosts(&names)
}

fn suggestion(known: &Known, found: &muster_control::Suggestion) -> muster_api::Suggestion {
    let name =
        |id: &JobId| known.state.job(*id).map_or_else(|| id.to_string(), |job| job.display_id());
    muster_api::Suggestion {
        change: found.change.option(),
        text: found.to_string(),
        displaces: found.displaces.iter().map(name).collect(),
    }
}

/// What a job runs, for its owner and admins.
async fn payload_of(app: &Shared, caller: &Caller, name: &str) -> Result<Payload, Refusal> {
    let job = job_ref(name)?;
    let (_, ids) = resolve(app, &job)?;
    let id = ids.first().copied().unwrap_or_default();
    let (app, caller) = (Arc::clone(app), Arc::clone(caller));
    let read = tokio::task::spawn_blocking(move || app.handle.payload(&caller, id));
    Ok(read.await.map_err(|error| Refusal::fault(error.to_string()))??)
}

/// A job's script.
#[utoipa::path(get, path = "/v1/jobs/{job}/script", params(("job" = String, Path)), responses(
    (status = 200, body = ScriptView), (status = 403, body = ApiError),
    (status = 404, body = ApiError)))]
pub(crate) async fn script(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer<ScriptView> {
    let payload = payload_of(&app, &caller, &name).await?;
    Ok(Json(ScriptView { script: payload.script, args: payload.args }))
}

/// A job's script with its environment.
#[utoipa::path(get, path = "/v1/jobs/{job}/payload", params(("job" = String, Path)), responses(
    (status = 200, body = PayloadView), (status = 403, body = ApiError),
    (status = 404, body = ApiError)))]
pub(crate) async fn payload(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer<PayloadView> {
    let payload = payload_of(&app, &caller, &name).await?;
    Ok(Json(PayloadView {
        script: payload.script,
        args: payload.args,
        environment: payload.environment.into_iter().collect(),
        umask: payload.umask,
    }))
}

/// Waits for the end of jobs, or for their start.
#[utoipa::path(get, path = "/v1/jobs/{job}/wait",
    params(("job" = String, Path), WaitQuery),
    responses((status = 200, body = WaitResponse), (status = 404, body = ApiError)))]
pub(crate) async fn wait(
    Given(app): Given<Shared>,
    Path(name): Path<String>,
    Asked(query): Asked<WaitQuery>,
) -> Answer<WaitResponse> {
    let job = job_ref(&name)?;
    let seconds = query.timeout_s.unwrap_or(30).min(WAIT_MAX_S);
    let started = query.started.unwrap_or(false);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(u64::from(seconds));
    let waiting = app.waiters.enter(job.base());
    let mut stop = app.stop.subscribe();
    loop {
        // Ready to be woken before the state is looked at.
        let notified = waiting.notified();
        tokio::pin!(notified);
        notified.as_mut().enable();
        let (state, ids) = resolve(&app, &job)?;
        let jobs: Vec<&Arc<Job>> = ids.iter().filter_map(|id| state.job(*id)).collect();
        let there = |job: &Job| {
            let runs = matches!(job.state, JobState::Running | JobState::Suspended);
            job.state.is_over() || (started && runs)
        };
        let over = jobs.iter().all(|job| there(job));
        let late = tokio::time::Instant::now() >= deadline || *stop.borrow();
        if over || late {
            let ends = jobs.iter().take(PAGE_DEFAULT as usize);
            let jobs = ends.map(|job| JobEnd::from(job.as_ref())).collect();
            return Ok(Json(WaitResponse { over, jobs }));
        }
        tokio::select! {
            () = notified => {}
            () = tokio::time::sleep_until(deadline) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
}

/// How to reach a running job's steps; for its owner and admins.
#[utoipa::path(get, path = "/v1/jobs/{job}/steps", params(("job" = String, Path)), responses(
    (status = 200, body = StepAccess), (status = 403, body = ApiError),
    (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn steps(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer<StepAccess> {
    let job = job_ref(&name)?;
    let (state, ids) = resolve(&app, &job)?;
    let Some(job) = ids.first().and_then(|id| state.job(*id)) else {
        return Err(Refusal::not_found("job", &name));
    };
    if !caller.owns(job) {
        let error = CommandError::NotYours { job: job.id, owner: job.spec.owner.user.clone() };
        return Err(error.into());
    }
    if !matches!(job.state, JobState::Running | JobState::Suspended | JobState::Completing) {
        let wanted = "its steps can be reached while it runs";
        let error = CommandError::WrongState { job: job.id, state: job.state, wanted };
        return Err(error.into());
    }
    let socket = app
        .state_dir
        .join("jobs")
        .join(format!("{}.{}", job.id, job.attempt))
        .join(muster_api::step::SOCKET_NAME);
    Ok(Json(StepAccess {
        id: job.id.0,
        attempt: job.attempt,
        socket: socket.to_string_lossy().into_owned(),
    }))
}

/// What changes would do to everybody's expected start; nothing is stored.
#[utoipa::path(post, path = "/v1/whatif", request_body = WhatIfRequest, responses(
    (status = 200, body = WhatIfResponse), (status = 404, body = ApiError),
    (status = 422, body = ApiError)))]
pub(crate) async fn whatif(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<WhatIfRequest>,
) -> Answer<WhatIfResponse> {
    Ok(Json(crate::whatif::answer(&app, &caller, request).await?))
}
