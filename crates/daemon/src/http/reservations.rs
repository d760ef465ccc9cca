//! Reservations: listed, planned, made, changed, ended.

use super::error::{Answer, Refusal};
use super::extract::Body;
use super::jobs::command;
use crate::app::{App, Caller, Shared};
use crate::reservation::{Clock, read};
use crate::whatif::moved;
use axum::extract::{Path, State as Given};
use axum::{Extension, Json};
use muster_api::{ApiError, PAGE_MAX, ReservationPlan, ReservationRequest, ReservationView};
use muster_control::command::{Command, Principal, Reply};
use muster_control::reservations::{ReservationOrder, earliest};
use muster_model::EventKind;

/// Every reservation, by name.
#[utoipa::path(get, path = "/v1/reservations", responses((status = 200, body = [ReservationView])))]
pub(crate) async fn reservations(Given(app): Given<Shared>) -> Json<Vec<ReservationView>> {
    let (state, now) = (app.handle.state(), App::now());
    Json(state.reservations.values().map(|r| ReservationView::of(&state, r, now)).collect())
}

/// One reservation.
#[utoipa::path(get, path = "/v1/reservations/{name}", params(("name" = String, Path)), responses(
    (status = 200, body = ReservationView), (status = 404, body = ApiError)))]
pub(crate) async fn reservation(
    Given(app): Given<Shared>,
    Path(name): Path<String>,
) -> Answer<ReservationView> {
    view(&app, &name)
}

/// Makes one.
#[utoipa::path(post, path = "/v1/reservations", request_body = ReservationRequest, responses(
    (status = 200, body = ReservationView), (status = 403, body = ApiError),
    (status = 409, body = ApiError), (status = 422, body = ApiError)))]
pub(crate) async fn create(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<ReservationRequest>,
) -> Answer<ReservationView> {
    let order = Command::CreateReservation(Box::new(order(&app, &request, None)?));
    done(&app, &caller, order).await
}

/// Finds the earliest time for one, and whom it would delay. Nothing is stored.
#[utoipa::path(post, path = "/v1/reservations/plan", request_body = ReservationRequest, responses(
    (status = 200, body = ReservationPlan), (status = 403, body = ApiError),
    (status = 409, body = ApiError), (status = 422, body = ApiError)))]
pub(crate) async fn plan(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<ReservationRequest>,
) -> Answer<ReservationPlan> {
    let order = order(&app, &request, None)?;
    let try_it = tokio::task::spawn_blocking(move || planned(&app, &caller, &order));
    Ok(Json(try_it.await.map_err(|error| Refusal::fault(error.to_string()))??))
}

/// Changes one.
#[utoipa::path(patch, path = "/v1/reservations/{name}", request_body = ReservationRequest,
    params(("name" = String, Path)), responses(
    (status = 200, body = ReservationView), (status = 403, body = ApiError),
    (status = 409, body = ApiError), (status = 422, body = ApiError)))]
pub(crate) async fn update(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Body(request): Body<ReservationRequest>,
) -> Answer<ReservationView> {
    let order = order(&app, &request, Some(&name))?;
    let order = ReservationOrder { name, ..order };
    done(&app, &caller, Command::UpdateReservation(Box::new(order))).await
}

/// Ends one; its waiting jobs are held or let go, as it says.
#[utoipa::path(delete, path = "/v1/reservations/{name}", params(("name" = String, Path)), responses(
    (status = 200, body = ReservationView), (status = 403, body = ApiError),
    (status = 409, body = ApiError), (status = 422, body = ApiError)))]
pub(crate) async fn remove(
    Given(app): Given<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer<ReservationView> {
    let last = view(&app, &name);
    let order = Command::DeleteReservation { name, standing: false };
    command(&app.handle, &caller, order).await?;
    last
}

/// A new one, or a change of the one of this name; that there is none the writer says.
fn order(
    app: &App,
    request: &ReservationRequest,
    changes: Option<&str>,
) -> Result<ReservationOrder, Refusal> {
    let state = app.handle.state();
    let before = changes.and_then(|name| state.reservations.get(name));
    let clock = Clock { now: App::now(), zone: &app.zone };
    read(request, before.map(AsRef::as_ref), &state, &clock)
}

async fn done(app: &App, caller: &Principal, order: Command) -> Answer<ReservationView> {
    match command(&app.handle, caller, order).await? {
        Reply::Reservation { name } => view(app, &name),
        other => Err(Refusal::fault(format!("{other:?}"))),
    }
}

fn view(app: &App, name: &str) -> Answer<ReservationView> {
    let state = app.handle.state();
    let found = state.reservations.get(name);
    let found = found.ok_or_else(|| Refusal::not_found("reservation", name))?;
    Ok(Json(ReservationView::of(&state, found, App::now())))
}

/// The reservation at its earliest, and everybody's start without and with it.
fn planned(
    app: &App,
    caller: &Principal,
    order: &ReservationOrder,
) -> Result<ReservationPlan, Refusal> {
    let (state, now) = (app.handle.state(), App::now());
    let reservation = earliest(&state, now, caller, order)?;
    let name = reservation.name.clone();
    let change = EventKind::ReservationSet { reservation: Box::new(reservation) };
    let found = muster_sim::whatif(&state, now, &[change])
        .map_err(|error| Refusal::fault(error.to_string()))?;
    let most = PAGE_MAX as usize;
    let made = found.changed.reservations.get(&name);
    let made = made.ok_or_else(|| Refusal::fault("the reservation was not tried"))?;
    Ok(ReservationPlan {
        reservation: ReservationView::of(&found.changed, made, now),
        moved: found.moved.iter().take(most).map(|m| moved(&found, m)).collect(),
        left_out: found.moved.len().saturating_sub(most) as u32,
        later: found.moved.iter().filter(|m| m.delay_ms() > 0).count() as u32,
        unmoved: found.unmoved,
        now_ms: now,
    })
}
