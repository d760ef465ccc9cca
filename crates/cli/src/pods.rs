//! `muster drive kubernetes`: the pods of a Kubernetes cluster that name muster.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::say::Outcome;

/// Words of `muster drive kubernetes`.
#[derive(Args)]
#[cfg_attr(not(feature = "kubernetes"), allow(dead_code))]
pub(crate) struct KubernetesArgs {
    /// The cluster's file, in place of $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The schedulerName of the pods
    #[arg(long, value_name = "NAME", default_value = "muster")]
    scheduler_name: String,
    /// Where the lease is by which one of several schedules
    #[arg(long, value_name = "NAMESPACE", default_value = "muster-system")]
    lease_namespace: String,
    /// Schedule at once, without a lease: only where no other muster does
    #[arg(long)]
    without_lease: bool,
    /// So many writes to the API server at once
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Answer /livez, /readyz and /metrics here (0.0.0.0:10251)
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Print JSON, one object for each thing that happened
    #[arg(long)]
    json: bool,
}

#[cfg(not(feature = "kubernetes"))]
pub(crate) fn run(_args: &KubernetesArgs) -> Outcome {
    let code = "E_K8S_NOT_BUILT";
    Err(crate::say::Failure::new(format!(
        "this muster was built without Kubernetes: build it with `--features kubernetes`, or take \
         a released one [{code}]"
    )))
}

#[cfg(feature = "kubernetes")]
pub(crate) use with::run;

#[cfg(feature = "kubernetes")]
mod with {
    use super::{KubernetesArgs, Outcome};
    use crate::interrupt;
    use crate::say::{self, Failure};
    use muster_engine_k8s::lease::Candidate;
    use muster_engine_k8s::{Cluster, K8sError};
    use muster_pages::{Asked, OPEN_METRICS, Page};
    use muster_pods::{Happened, Health, Metrics, Settings};
    use serde_json::{Value, json};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
    use std::time::{Duration, Instant};
    use tokio::net::TcpListener;
    use tokio::sync::watch;

    /// It is looked so often whether it is to end.
    const GLANCE: Duration = Duration::from_millis(50);

    fn failed(error: &K8sError) -> Failure {
        Failure::new(format!("{error} [{}]", error.code()))
    }

    /// Carries it out.
    pub(crate) fn run(args: &KubernetesArgs) -> Outcome {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(error.to_string()))?;
        let ending = Arc::new(AtomicBool::new(false));
        interrupt::sets(&ending);
        runtime.block_on(async {
            let (tell, stop) = watch::channel(false);
            tokio::spawn(async move {
                while !ending.load(Ordering::Relaxed) {
                    tokio::time::sleep(GLANCE).await;
                }
                // Whoever listened is gone already.
                let _ = tell.send(true);
            });
            drive(args, stop).await
        })?;
        Ok(0)
    }

    async fn drive(args: &KubernetesArgs, stop: watch::Receiver<bool>) -> Result<(), Failure> {
        let seen = Arc::new(Seen::new(&args.scheduler_name));
        if let Some(address) = args.listen {
            let listener = TcpListener::bind(address).await;
            let listener =
                listener.map_err(|error| Failure::new(format!("--listen {address}: {error}")))?;
            let seen = Arc::clone(&seen);
            tokio::spawn(muster_pages::serve(listener, move |asked| seen.page(asked)));
        }
        let cluster =
            Cluster::find(args.kubeconfig.as_deref()).await.map_err(|error| failed(&error))?;
        let version = cluster.version().await.map_err(|error| failed(&error))?;
        say::note(&format!(
            "Kubernetes {version}; pods with schedulerName {}",
            args.scheduler_name
        ));
        let lease = (!args.without_lease).then(|| Candidate {
            namespace: args.lease_namespace.clone(),
            name: args.scheduler_name.clone(),
            identity: identity(),
        });
        let settings = Settings {
            name: args.scheduler_name.clone(),
            lease,
            connections: usize::from(args.connections),
        };
        let json = args.json;
        let look_on = move |happened: Happened| {
            seen.see(&happened);
            say_it(&happened, json);
        };
        muster_pods::run(cluster, settings, stop, look_on).await.map_err(|error| failed(&error))
    }

    /// What probes and scrapes are told.
    struct Seen {
        health: Mutex<Health>,
        metrics: Metrics,
    }

    impl Seen {
        fn new(name: &str) -> Self {
            Self { health: Mutex::new(Health::new(Instant::now())), metrics: Metrics::new(name) }
        }

        fn see(&self, happened: &Happened) {
            self.health().see(happened, Instant::now());
            self.metrics.see(happened, say::now());
        }

        fn health(&self) -> MutexGuard<'_, Health> {
            self.health.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn page(&self, asked: &Asked) -> Page {
            let probe = |is_well: bool, why: &str| match is_well {
                true => Page::plain(200, "ok"),
                false => Page::plain(503, why),
            };
            let health = *self.health();
            match asked.path.as_str() {
                "/livez" | "/healthz" => {
                    probe(health.is_live(Instant::now()), "it has not looked round for a minute\n")
                }
                "/readyz" => probe(health.is_ready(), "the cluster is not known whole yet\n"),
                "/metrics" => Page { status: 200, kind: OPEN_METRICS, text: self.metrics.text() },
                _ => Page::plain(404, "there are /livez, /readyz and /metrics here\n"),
            }
        }
    }

    /// No two processes are the same.
    fn identity() -> String {
        let host = nix::unistd::gethostname()
            .map_or_else(|_| "unknown".to_owned(), |name| name.to_string_lossy().into_owned());
        format!("{host}_{}_{}", std::process::id(), say::now().millis())
    }

    fn say_it(happened: &Happened, json: bool) {
        let Some((text, value)) = words(happened) else { return };
        if json {
            say::print(&format!("{value}\n"));
        } else {
            say::print(&format!("{} {text}\n", say::instant(say::now())));
        }
    }

    fn words(happened: &Happened) -> Option<(String, Value)> {
        Some(match happened {
            Happened::Planned(_) | Happened::Looked(_) => return None,
            Happened::Leads => ("schedules from here on".to_owned(), json!({"leads": true})),
            Happened::Knows { nodes, pods } => (
                format!("{nodes} nodes and {pods} pods are known"),
                json!({"nodes": nodes, "pods": pods}),
            ),
            Happened::Bound(bind, _) => (
                format!("pod {} goes to {}", bind.pod, bind.node),
                json!({"bound": bind.pod.to_string(), "node": bind.node}),
            ),
            Happened::NotBound(bind, error) => (
                format!(
                    "pod {} was not bound to {}: {error} [{}]",
                    bind.pod,
                    bind.node,
                    error.code()
                ),
                json!({"not_bound": bind.pod.to_string(), "node": bind.node,
                    "code": error.code(), "why": error.to_string()}),
            ),
            Happened::MakesRoom { pods, victims } => (
                format!("{victims} pods make room for {pods}"),
                json!({"makes_room": {"pods": pods, "victims": victims}}),
            ),
            Happened::Evicted(evict) => (
                format!(
                    "pod {} is told to end: its room on {} goes to another",
                    evict.pod, evict.node
                ),
                json!({"evicted": evict.pod.to_string(), "node": evict.node, "by": evict.by}),
            ),
            Happened::NotEvicted(evict, error) => (
                format!("pod {} was not told to end: {error} [{}]", evict.pod, error.code()),
                json!({"not_evicted": evict.pod.to_string(), "node": evict.node,
                    "code": error.code(), "why": error.to_string()}),
            ),
            Happened::Told(tell) => (
                format!("pod {} waits: {}", tell.pod, tell.message),
                json!({"waits": tell.pod.to_string(), "message": tell.message}),
            ),
            Happened::Broken(rules) => {
                (format!("not started: {}", rules.join("; ")), json!({"broken": rules}))
            }
        })
    }
}
