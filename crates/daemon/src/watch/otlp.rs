//! The daemon's metrics, pushed by OTLP where a receiver is named.

use crate::app::{App, Shared};
use crate::identity;
use muster_exporter::{Exposition, Push, PushWish, Settings, exposition, push};
use std::sync::Arc;
use std::time::Duration;

/// Starts to push. What is set and cannot be used is logged: jobs are not to wait for metrics.
pub(crate) fn start(app: &Shared) {
    let section = &app.config.load().otlp;
    let wish = PushWish {
        endpoint: section.endpoint.as_ref().map(|address| address.as_str().to_owned()),
        headers_file: section.headers_file.clone(),
        period: section.period.map(|period| Duration::from_secs(period.0)),
        service: "muster",
        hostname: App::hostname(),
    };
    let found = match Push::from(&wish, |name| std::env::var(name).ok()) {
        Ok(None) => return,
        Ok(Some(found)) => found,
        Err(error) => {
            tracing::error!("metrics are not pushed: {error}");
            return;
        }
    };
    tracing::info!("metrics go to {found}");
    let collected = Arc::clone(app);
    let started = push(found, move || told(&collected), |line| tracing::warn!("{line}"));
    if let Err(error) = started {
        tracing::error!(%error, "metrics are not pushed");
    }
}

fn told(app: &Shared) -> Exposition {
    let owners = app.watch.owners(&app.handle.state(), &identity::daemon());
    let settings = Settings { hostname: App::hostname(), ..Settings::default() };
    exposition(&app.watch.snapshot(), &owners, &settings)
}
