//! Connections: taken, named by their credentials, counted and ended.

use crate::app::App;
use crate::identity;
use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt as _;

/// The most connections at once.
const CONNECTIONS_MAX: usize = 8_192;

/// The most connections of one user who is no admin.
const CONNECTIONS_MAX_PER_USER: usize = 1_024;

/// Connections by user.
#[derive(Default)]
struct Counts(Mutex<BTreeMap<u32, usize>>);

/// Takes one off the count when its connection is over.
struct Counted {
    counts: Arc<Counts>,
    uid: u32,
}

impl Counts {
    fn enter(self: &Arc<Self>, uid: u32, admin: bool) -> Option<Counted> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(uid).or_default();
        if !admin && *count >= CONNECTIONS_MAX_PER_USER {
            return None;
        }
        *count += 1;
        Some(Counted { counts: Arc::clone(self), uid })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.uid);
            }
        }
    }
}

/// Serves connections until `stop` turns true, then lets running requests end.
pub(crate) async fn serve(
    listener: UnixListener,
    app: Arc<App>,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let counts = Arc::new(Counts::default());
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) if connections.len() < CONNECTIONS_MAX => {
                let work = connection(
                    stream,
                    Arc::clone(&app),
                    router.clone(),
                    Arc::clone(&counts),
                    stop.clone(),
                );
                connections.spawn(work);
            }
            Ok(_) => tracing::warn!(connections.max = CONNECTIONS_MAX, "a connection was dropped"),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                // Out of descriptors: give connections time to end.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: UnixStream,
    app: Arc<App>,
    router: Router,
    counts: Arc<Counts>,
    mut stop: watch::Receiver<bool>,
) {
    let Ok(peer) = stream.peer_cred() else { return };
    let names = Arc::clone(&app);
    let lookup = move || {
        let admins = names.admins.load();
        identity::principal(&names.names, &admins, peer.uid(), peer.gid())
    };
    let Ok(principal) = tokio::task::spawn_blocking(lookup).await else { return };
    let Some(_counted) = counts.enter(principal.uid, principal.admin) else {
        tracing::warn!(uid = principal.uid, "too many connections of one user");
        return;
    };
    let principal = Arc::new(principal);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&principal));
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // How a client ends its connection is its own affair.
        _ = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
