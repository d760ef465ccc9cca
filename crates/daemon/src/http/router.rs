//! Which path does what, and the bounds on all of them.

use super::error::Refusal;
use super::{
    act, admin, events, history, jobs, nodes, openapi, plan, priority, queue, reservations, watch,
};
use crate::app::Shared;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State as Given};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, patch, post};
use hyper::StatusCode;
use muster_api::BODY_MAX;

/// Builds the router and, from the same lines, the list of its routes.
macro_rules! routes {
    ($($method:ident $path:literal => $handler:path,)*) => {
        /// Every route: method and path.
        #[cfg(test)]
        pub(crate) const ROUTES: &[(&str, &str)] = &[$((stringify!($method), $path)),*];

        fn routes() -> Router<Shared> {
            Router::new()$(.route($path, $method($handler)))*
        }
    };
}

routes! {
    get "/v1/ping" => admin::ping,
    get "/v1/stats" => admin::stats,
    get "/v1/doctor" => admin::doctor,
    post "/v1/config/reload" => admin::reload,
    post "/v1/backup" => admin::backup,
    post "/v1/cycle" => admin::cycle,
    post "/v1/shutdown" => admin::shutdown,
    get "/v1/openapi.json" => openapi::description,
    get "/v1/metrics" => watch::metrics,
    get "/v1/queue" => queue::queue,
    post "/v1/jobs" => jobs::submit,
    post "/v1/jobs/actions" => act::actions,
    get "/v1/jobs/{job}" => queue::job,
    patch "/v1/jobs/{job}" => act::update,
    get "/v1/jobs/{job}/why" => jobs::why,
    post "/v1/whatif" => jobs::whatif,
    get "/v1/jobs/{job}/script" => jobs::script,
    get "/v1/jobs/{job}/payload" => jobs::payload,
    get "/v1/jobs/{job}/wait" => jobs::wait,
    get "/v1/jobs/{job}/steps" => jobs::steps,
    get "/v1/jobs/{job}/diagnosis" => watch::diagnosis,
    get "/v1/jobs/{job}/series" => watch::series,
    get "/v1/machine" => watch::machine,
    get "/v1/machine/series" => watch::machine_series,
    get "/v1/nodes/{node}/series" => watch::node_series,
    post "/v1/machine/bandwidth" => watch::bandwidth,
    get "/v1/jobs/{job}/report" => watch::report,
    get "/v1/nodes" => nodes::nodes,
    get "/v1/nodes/{node}" => nodes::node,
    post "/v1/nodes/{node}/drain" => act::drain,
    post "/v1/nodes/{node}/resume" => act::resume,
    get "/v1/partitions" => nodes::partitions,
    get "/v1/accounts" => nodes::accounts,
    get "/v1/qos" => nodes::qos,
    get "/v1/licences" => nodes::licences,
    get "/v1/priority" => priority::priority,
    get "/v1/shares" => priority::shares,
    get "/v1/topology" => nodes::topology,
    get "/v1/plan" => plan::plan,
    get "/v1/reservations" => reservations::reservations,
    post "/v1/reservations" => reservations::create,
    post "/v1/reservations/plan" => reservations::plan,
    get "/v1/reservations/{name}" => reservations::reservation,
    patch "/v1/reservations/{name}" => reservations::update,
    delete "/v1/reservations/{name}" => reservations::remove,
    get "/v1/history" => history::history,
    get "/v1/events" => events::events,
}

/// The whole interface.
pub(crate) fn router(app: Shared) -> Router {
    routes()
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), bounded))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(app)
}

/// Bounds how many requests are worked on and how long each may take. Waits and streams are not
/// work: they have bounds of their own.
async fn bounded(Given(app): Given<Shared>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if path == "/v1/events" || path.ends_with("/wait") {
        return next.run(request).await;
    }
    let limit = std::time::Duration::from_secs(app.config.load().daemon.request_timeout.0.max(1));
    let work = async {
        match app.requests.acquire().await {
            Ok(_permit) => next.run(request).await,
            Err(_) => late(limit),
        }
    };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| late(limit))
}

fn late(limit: std::time::Duration) -> Response {
    let message = format!("the request took longer than {} s and was given up", limit.as_secs());
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "E_TIMEOUT", message)
        .hint("whether it was done is not known; look before you repeat it")
        .into_response()
}

async fn unknown(request: Request) -> Refusal {
    Refusal::not_found("path", request.uri().path()).hint("/v1/openapi.json lists what there is")
}

async fn wrong_method(request: Request) -> Refusal {
    let message = format!("{} is not for {}", request.method(), request.uri().path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "E_METHOD", message)
}
