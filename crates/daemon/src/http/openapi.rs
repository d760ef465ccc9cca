//! The interface's own description (`OpenAPI` 3.1).

use super::{act, admin, events, history, jobs, nodes, plan, priority, queue, reservations, watch};
use axum::Json;
use utoipa::OpenApi;

/// All paths. A test compares them with the router's.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "muster",
        description = "One scheduler for this machine, Slurm and Kubernetes. Served over a unix \
                       socket; the peer's credentials are the identity. Instants are UTC \
                       milliseconds, durations seconds, memory MiB.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    paths(
        admin::ping,
        admin::stats,
        admin::doctor,
        admin::reload,
        admin::backup,
        admin::cycle,
        admin::shutdown,
        description,
        watch::metrics,
        queue::queue,
        queue::job,
        jobs::submit,
        jobs::why,
        jobs::script,
        jobs::payload,
        jobs::wait,
        jobs::whatif,
        jobs::steps,
        watch::diagnosis,
        watch::series,
        watch::machine,
        watch::bandwidth,
        watch::machine_series,
        watch::node_series,
        watch::report,
        act::actions,
        act::update,
        act::drain,
        act::resume,
        nodes::nodes,
        nodes::node,
        nodes::partitions,
        nodes::accounts,
        nodes::qos,
        nodes::licences,
        priority::priority,
        priority::shares,
        nodes::topology,
        plan::plan,
        reservations::reservations,
        reservations::reservation,
        reservations::create,
        reservations::plan,
        reservations::update,
        reservations::remove,
        history::history,
        events::events,
    )
)]
pub(crate) struct Api;

/// This description.
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, body = Object)))]
pub(crate) async fn description() -> Json<utoipa::openapi::OpenApi> {
    Json(Api::openapi())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::router::ROUTES;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn described() -> serde_json::Value {
        serde_json::to_value(Api::openapi()).unwrap()
    }

    #[test]
    fn every_route_is_described_and_every_description_is_a_route() {
        let description = described();
        let paths = description["paths"].as_object().unwrap();
        let described: BTreeSet<(String, String)> = paths
            .iter()
            .flat_map(|(path, methods)| {
                let methods = methods.as_object().unwrap().keys();
                methods.map(move |method| (method.clone(), path.clone()))
            })
            .collect();
        let routes: BTreeSet<(String, String)> =
            ROUTES.iter().map(|(m, p)| ((*m).to_owned(), (*p).to_owned())).collect();
        assert_eq!(described, routes);
    }

    #[test]
    fn every_reference_is_there() {
        let description = described();
        let text = description.to_string();
        let schemas = description["components"]["schemas"].as_object().unwrap();
        for piece in text.split("#/components/schemas/").skip(1) {
            let name = piece.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name} is not described");
        }
        assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
    }

    #[test]
    fn the_description_in_the_docs_is_this_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        let text = serde_json::to_string_pretty(&described()).unwrap() + "\n";
        if std::env::var_os("MUSTER_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "stale: run the test again with MUSTER_BLESS=1, read the diff");
    }
}
