//! The daemon itself: who it is, what it counts, what an admin may ask of it.

use super::error::{Answer, Refusal};
use super::extract::Body;
use super::jobs::command;
use crate::app::{App, Caller, Shared};
use crate::output::new_file;
use crate::{site, standing};
use axum::extract::State as Given;
use axum::{Extension, Json};
use hyper::StatusCode;
use muster_api::{
    ApiError, BackupRequest, BackupResponse, ConfigChange, CycleRequest, CycleResponse, Ping,
    Place, PolicyView, Problem, ReloadResponse, Stats,
};
use muster_config::{ChangeKind, ConfigError};
use muster_control::command::{Command, Principal};
use muster_model::SCHEMA_VERSION;
use std::sync::Arc;

/// A path as it is from everywhere.
fn absolute(path: &std::path::Path) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole.to_string_lossy().into_owned()
}

/// Are you there, and who am I?
#[utoipa::path(get, path = "/v1/ping", responses((status = 200, body = Ping)))]
pub(crate) async fn ping(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
) -> Json<Ping> {
    let state = app.handle.state();
    let policy = PolicyView {
        kill_wait_s: state.policy.kill_wait.0,
        min_job_age_s: state.policy.min_job_age.0,
        max_array_size: state.policy.max_array_size,
    };
    Json(Ping {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        schema: SCHEMA_VERSION,
        cluster: app.config.load().cluster.name.clone(),
        principal: caller.user.clone(),
        uid: caller.uid,
        admin: caller.admin,
        pid: std::process::id(),
        started_ms: app.started,
        now_ms: App::now(),
        seq: state.seq,
        state_dir: app.state_dir.to_string_lossy().into_owned(),
        config: absolute(&app.source.path),
        notes: app.notes.clone(),
        policy,
    })
}

/// What is counted.
#[utoipa::path(get, path = "/v1/stats", responses((status = 200, body = Stats)))]
pub(crate) async fn stats(Given(app): Given<Shared>) -> Json<Stats> {
    let state = app.handle.state();
    let counters = app.handle.counters().all();
    Json(Stats {
        seq: state.seq,
        pending: state.index.pending.len() as u64,
        active: state.index.active.len() as u64,
        ended: state.index.ended.len() as u64,
        counters: counters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        alarms: app.alarms.texts(),
    })
}

/// What this machine has and lacks.
#[utoipa::path(get, path = "/v1/doctor", responses((status = 200, body = Object)))]
pub(crate) async fn doctor(Given(app): Given<Shared>) -> Answer<serde_json::Value> {
    let look = tokio::task::spawn_blocking(move || {
        let mut findings = crate::doctor::look(Some(&app.state_dir));
        findings.extend(app.notes.iter().map(|note| crate::doctor::unenforced(note)));
        findings
    });
    let report = look.await.map_err(|error| Refusal::fault(error.to_string()))?;
    let report = serde_json::to_value(report).map_err(|e| Refusal::fault(e.to_string()))?;
    Ok(Json(report))
}

pub(super) fn admins_only(caller: &Principal, what: &str) -> Result<(), Refusal> {
    if caller.admin {
        return Ok(());
    }
    Err(Refusal::forbidden(format!("only an admin may {what}")))
}

/// Reads the configuration anew and takes over what changed.
#[utoipa::path(post, path = "/v1/config/reload", responses(
    (status = 200, body = ReloadResponse), (status = 403, body = ApiError),
    (status = 422, body = ApiError)))]
pub(crate) async fn reload(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
) -> Answer<ReloadResponse> {
    admins_only(&caller, "reload the configuration")?;
    take_over(&app, &caller).await.map(Json)
}

/// Reads the configuration anew and takes over what changed, for an admin or a signal.
///
/// # Errors
/// It cannot be used: the one in force stays.
pub(crate) async fn take_over(app: &App, caller: &Principal) -> Result<ReloadResponse, Refusal> {
    let source = app.source.clone();
    let read = tokio::task::spawn_blocking(move || source.read());
    let config = read.await.map_err(|error| Refusal::fault(error.to_string()))?;
    let config = app.overrides.over(config.map_err(|error| config_refusal(&error))?);
    let before = app.config.load_full();
    let state = app.handle.state();
    let nodes: Vec<&muster_model::Node> = state.nodes.values().map(AsRef::as_ref).collect();
    let others = app.others.clone();
    let (wanted, known) = (config.clone(), state.clone());
    // They may have to be asked.
    let offered =
        tokio::task::spawn_blocking(move || crate::engines::offered(&others, &wanted, &known));
    let offered = offered.await.map_err(|error| Refusal::fault(error.to_string()))?;
    let offered = offered.map_err(|why| Refusal::invalid("E_CONFIG_REFUSED", why))?;
    let site = site::site(&config, &nodes, offered).map_err(|error| config_refusal(&error))?;
    command(&app.handle, caller, Command::Configure(Box::new(site))).await?;
    let mut response = ReloadResponse::default();
    for change in before.changes_to(&config) {
        if change.restart {
            response.restart_needed.push(change.key.clone());
        }
        response.changes.push(ConfigChange {
            key: change.key,
            kind: match change.kind {
                ChangeKind::Changed => "changed",
                ChangeKind::New => "new",
                ChangeKind::Gone => "gone",
            }
            .to_owned(),
            before: change.before,
            after: change.after,
        });
    }
    response.refused = standing::establish(app, &config).await;
    app.admins.store(Arc::new(config.daemon.admins.clone()));
    app.config.store(Arc::new(config));
    Ok(response)
}

pub(crate) fn config_refusal(error: &ConfigError) -> Refusal {
    let problems = error.problems.iter().map(|p| Problem {
        code: p.code.to_owned(),
        message: p.message.clone(),
        place: Some(Place { source: p.source.clone(), line: p.line, column: p.column }),
        hint: p.hint.clone(),
    });
    let error = Box::new(ApiError::of_problems(problems.collect()));
    Refusal { status: StatusCode::UNPROCESSABLE_ENTITY, error }
}

/// Writes a backup while the daemon runs.
#[utoipa::path(post, path = "/v1/backup", request_body = BackupRequest, responses(
    (status = 200, body = BackupResponse), (status = 403, body = ApiError),
    (status = 422, body = ApiError)))]
pub(crate) async fn backup(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<BackupRequest>,
) -> Answer<BackupResponse> {
    admins_only(&caller, "write a backup")?;
    let file = new_file(&request.path, "E_BACKUP_PATH")?;
    let dir = app.state_dir.clone();
    let write = tokio::task::spawn_blocking(move || crate::backup::write(&dir, &file));
    let written = write.await.map_err(|error| Refusal::fault(error.to_string()))?;
    let (bytes, seq) =
        written.map_err(|error| Refusal::invalid(error.code(), error.to_string()))?;
    Ok(Json(BackupResponse { path: request.path, bytes, seq }))
}

/// Writes the newest planning round, input and plan, to a file that `muster replay` reads.
#[utoipa::path(post, path = "/v1/cycle", request_body = CycleRequest, responses(
    (status = 200, body = CycleResponse), (status = 403, body = ApiError),
    (status = 404, body = ApiError), (status = 422, body = ApiError)))]
pub(crate) async fn cycle(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<CycleRequest>,
) -> Answer<CycleResponse> {
    admins_only(&caller, "write a planning round")?;
    let file = new_file(&request.path, "E_CYCLE_FILE")?;
    let round = app.handle.round();
    if round.plan.seq == 0 {
        return Err(Refusal::not_found("planning round", "newest")
            .hint("none was made since the daemon started: nothing has waited"));
    }
    let (seq, now_ms) = (round.plan.seq, round.plan.now);
    let write = tokio::task::spawn_blocking(move || {
        crate::cycle::write(&file, round.base.clone(), round.plan.clone())
    });
    let written = write.await.map_err(|error| Refusal::fault(error.to_string()))?;
    let bytes = written.map_err(|error| {
        Refusal::invalid(error.code(), format!("cannot write {}: {error}", request.path))
    })?;
    Ok(Json(CycleResponse { path: request.path, bytes, seq, now_ms }))
}

/// Ends the daemon; jobs go on.
#[utoipa::path(post, path = "/v1/shutdown", responses(
    (status = 200, body = Object), (status = 403, body = ApiError)))]
pub(crate) async fn shutdown(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
) -> Answer<serde_json::Value> {
    admins_only(&caller, "stop the daemon")?;
    tracing::info!(user = %caller.user, "asked to stop");
    app.stop.send_replace(true);
    Ok(Json(serde_json::json!({ "stopping": true, "pid": std::process::id() })))
}
