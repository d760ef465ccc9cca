//! The engine trait on a Kubernetes cluster: each attempt of a job is an Indexed Job with a pod for
//! each of its nodes, in which muster itself starts the script and its steps.
//!
//! The core has decided where the job goes, so its pods name a scheduler that nobody is
//! ([`SCHEDULER`]), and this engine binds each to its node.

mod ending;
mod follow;
mod launch;
mod look;
mod nodes;
mod objects;
mod orders;
mod seen;
#[cfg(test)]
mod tests;

pub use objects::SCHEDULER;

use crate::{Cluster, K8sError};
use muster_engine::book::{Book, Key};
use muster_engine::{Capabilities, Engine, EngineError, Inventory, Observation, Order};
use muster_model::{EngineName, Partition, TimeLimit, Volume};
use seen::Seen;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The journal's name in the state directory.
const JOURNAL: &str = "kubernetes-attempts.log";

/// Whoever asks the engine waits no longer than this.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the engine needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunnerConfig {
    /// Its name, as nodes carry it.
    pub name: EngineName,
    /// Muster's state directory: the journal lies in it.
    pub state_directory: PathBuf,
    /// The cluster's name, for `SLURM_CLUSTER_NAME`.
    pub cluster: String,
    /// Where the cluster is and who muster is there; without it as `kubectl` finds it.
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of all that is made.
    pub namespace: String,
    /// The image of jobs that name none.
    pub image: Option<String>,
    /// An image that has muster, which is copied from it into every pod.
    pub muster_image: Option<String>,
    /// Where muster lies: in `muster_image`, or where that is not set in the images of jobs.
    pub program: String,
    /// What every pod has: folders of nodes (absolute paths), or claims by name.
    pub mounts: Vec<Volume>,
    /// Muster's partitions, each with the labels of its nodes; all nodes where there are none.
    pub partitions: BTreeMap<String, BTreeMap<String, String>>,
}

/// Runs jobs as pods of a cluster.
pub struct KubernetesEngine {
    shared: Arc<Shared>,
    /// `None` once it ends.
    runtime: Option<tokio::runtime::Runtime>,
}

/// Where changes go.
type Sink = Arc<dyn Fn(Observation) + Send + Sync>;

struct Shared {
    config: RunnerConfig,
    cluster: Cluster,
    handle: tokio::runtime::Handle,
    /// Whose marks its objects carry.
    instance: String,
    book: Mutex<Book>,
    seen: Mutex<Seen>,
    sink: Mutex<Option<Sink>>,
    /// Until then the first listing is waited for.
    waits_until: Instant,
}

impl KubernetesEngine {
    /// Reads the journal and begins to watch the cluster, which need not answer yet.
    ///
    /// # Errors
    /// [`K8sError::NoCluster`] where it is not said how the cluster is reached,
    /// [`K8sError::Journal`] where the journal cannot be used.
    pub fn start(config: RunnerConfig) -> Result<Self, K8sError> {
        let journal = |error: std::io::Error| K8sError::Journal {
            path: config.state_directory.join(JOURNAL),
            why: error.to_string(),
        };
        let book = Book::open(&config.state_directory, JOURNAL).map_err(journal)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("kubernetes")
            .enable_all()
            .build()
            .map_err(journal)?;
        let kubeconfig = config.kubeconfig.clone();
        let found =
            wait(runtime.handle(), async move { Cluster::find(kubeconfig.as_deref()).await });
        let shared = Arc::new(Shared {
            cluster: found.ok_or_else(ended)??,
            handle: runtime.handle().clone(),
            instance: book.instance().to_owned(),
            book: Mutex::new(book),
            seen: Mutex::new(Seen::default()),
            sink: Mutex::new(None),
            waits_until: Instant::now() + PATIENCE,
            config,
        });
        follow::start(&shared);
        Ok(Self { shared, runtime: Some(runtime) })
    }
}

fn ended() -> K8sError {
    K8sError::Unreachable { why: "muster ends".to_owned() }
}

impl Drop for KubernetesEngine {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Engine for KubernetesEngine {
    fn name(&self) -> EngineName {
        self.shared.config.name.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { places_devices: false, suspends: true, preempts: true }
    }

    fn partitions(&self) -> Result<Vec<Partition>, EngineError> {
        let seen = self.shared.whole()?;
        let named = self.shared.config.partitions.iter();
        let offered = named.map(|(name, labels)| Partition {
            name: name.clone(),
            nodes: seen.nodes_with(labels).map(str::to_owned).collect(),
            max_time: TimeLimit::Unlimited,
            ..Partition::default()
        });
        Ok(offered.collect())
    }

    fn inventory(&self) -> Result<Inventory, EngineError> {
        let shared = &self.shared;
        let seen = shared.whole()?;
        let book = shared.book();
        let nodes = nodes::nodes(&seen, &book, &shared.config);
        drop(seen);
        Ok(book.inventory(nodes))
    }

    fn execute(&self, fence: u64, order: &Order) -> Result<(), EngineError> {
        let shared = &self.shared;
        let fenced = shared.book().check_fence(fence)?;
        fenced.map_err(|error| shared.unreachable(error))?;
        match order {
            Order::Launch(launch) => shared.launch(launch),
            Order::Stop { job, attempt, cause: _, grace } => {
                shared.stop(Key { job: *job, attempt: *attempt }, *grace)
            }
            Order::Signal { job, attempt, number, .. } => {
                shared.signal(Key { job: *job, attempt: *attempt }, *number, order)
            }
            Order::Suspend { job, attempt, suspend } => {
                shared.suspend(Key { job: *job, attempt: *attempt }, *suspend, order)
            }
            Order::Limit { job, attempt, .. } => {
                shared.pass_on(Key { job: *job, attempt: *attempt }, order).map(drop)
            }
            Order::Resize { .. } => {
                Err(shared.refused("a job of several pods keeps all of its nodes"))
            }
            Order::Acknowledge { job, attempt } => {
                shared.acknowledge(Key { job: *job, attempt: *attempt })
            }
        }
    }

    fn watch(&self, sink: Sink) {
        *self.shared.sink.lock().unwrap_or_else(PoisonError::into_inner) = Some(sink);
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        // What the lock protects is changed in single steps, so a panic leaves it whole.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is seen, once all of it is. Only a start is waited for.
    fn whole(&self) -> Result<MutexGuard<'_, Seen>, EngineError> {
        let mut seen = self.seen();
        while !seen.is_whole() {
            let left = self.waits_until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.unreachable("its nodes and pods are not listed yet"));
            }
            let bell = Arc::clone(&seen.bell);
            seen = bell.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(seen)
    }

    fn tell(&self, observation: Observation) {
        let sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sink) = sink {
            sink(observation);
        }
    }

    /// Nothing is known; it may be tried again.
    fn unreachable(&self, why: impl std::fmt::Display) -> EngineError {
        EngineError::Unreachable { engine: self.config.name.clone(), why: why.to_string() }
    }

    /// It will never be done.
    fn refused(&self, why: impl Into<String>) -> EngineError {
        EngineError::Refused { engine: self.config.name.clone(), why: why.into() }
    }

    /// Asks the cluster and waits for the answer, no longer than others can wait for this thread.
    fn ask<T, F>(&self, asked: F) -> Result<T, K8sError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, K8sError>> + Send + 'static,
    {
        let asked = async move { tokio::time::timeout(PATIENCE, asked).await };
        match wait(&self.handle, asked).ok_or_else(ended)? {
            Ok(answer) => answer,
            Err(_) => {
                let why = format!("no answer within {} s", PATIENCE.as_secs());
                Err(K8sError::Unreachable { why })
            }
        }
    }

    /// Notes an exit and tells of it, once. One that cannot be written down is found again.
    fn exited(&self, key: Key, report: muster_model::ExitReport) -> bool {
        if let Err(error) = self.book().exited(key, report.clone()) {
            tracing::warn!(job = %key.job, %error, "cannot write an exit down");
            return false;
        }
        self.tell(Observation::Exited { job: key.job, attempt: key.attempt, report });
        true
    }
}

/// Waits for something on the engine's own threads, on whichever thread this is; `None` where they
/// have ended.
fn wait<T: Send + 'static>(
    handle: &tokio::runtime::Handle,
    asked: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (tell, told) = sync_channel(1);
    handle.spawn(async move {
        // Nobody waits any more where the other end is gone.
        tell.send(asked.await).ok();
    });
    told.recv().ok()
}
