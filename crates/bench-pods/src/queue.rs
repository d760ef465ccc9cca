//! The pods of a run, and what they need beside.

use crate::SCHEDULER;
use clap::ValueEnum;
use muster_engine_k8s::{Cluster, K8sError};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Where the pods of a run are.
pub(crate) const NAMESPACE: &str = "bench";

/// So many objects are made at once.
const MAKERS: usize = 64;

/// So many pods must not share a node with each other, and so many are spread together.
const APART: u32 = 10;
const SPREAD: u32 = 100;

const GROUPS: &str = "/apis/scheduling.k8s.io/v1alpha2/namespaces/bench/podgroups";
const PODS: &str = "/api/v1/namespaces/bench/pods";

/// What the pods of a queue ask for beside a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Nothing.
    Plain,
    /// No other of their ten on the same node (required).
    Apart,
    /// Their hundred evenly over the zones (`DoNotSchedule`, skew 1).
    Spread,
    /// To start together with the others of their gang.
    Gang,
}

/// A queue.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Queue {
    /// What its pods ask for beside a GPU
    #[arg(long, value_enum, default_value = "plain")]
    kind: Kind,
    /// So many pods
    #[arg(long, default_value_t = 5000)]
    pub(crate) pods: u32,
    /// Pods of a gang
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    gang: u32,
    /// The scheduler that the pods name
    #[arg(long, default_value = SCHEDULER)]
    scheduler: String,
}

impl Queue {
    /// Makes its objects; nobody is to schedule them yet.
    pub(crate) async fn make(&self, cluster: &Cluster) -> Result<(), K8sError> {
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        match cluster.create("/api/v1/namespaces", &namespace).await {
            Ok(_) | Err(K8sError::Refused { code: 409, .. }) => {}
            Err(error) => return Err(error),
        }
        make(cluster, GROUPS, self.groups().map(|(_, group)| group).collect()).await?;
        make(cluster, PODS, (0..self.pods).map(|at| self.pod(at)).collect()).await
    }

    /// Takes everything away again.
    pub(crate) async fn clear(&self, cluster: &Cluster) -> Result<(), K8sError> {
        cluster.delete_all(PODS).await?;
        cluster.delete_all(GROUPS).await?;
        cluster.delete_all("/apis/events.k8s.io/v1/namespaces/bench/events").await
    }

    /// Its groups of pods, by name.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (String, Value)> {
        let count = if self.kind == Kind::Gang { self.pods.div_ceil(self.gang) } else { 0 };
        (0..count).map(|gang| (format!("gang-{gang}"), self.group(gang)))
    }

    fn group(&self, gang: u32) -> Value {
        // The last one has what is left.
        let members = self.gang.min(self.pods - gang * self.gang);
        json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": format!("gang-{gang}")},
            "spec": {"schedulingPolicy": {"gang": {"minCount": members}}}})
    }

    /// One of its pods.
    pub(crate) fn pod(&self, at: u32) -> Value {
        let mut pod = json!({"metadata": {"name": format!("pod-{at}"), "labels": {}}, "spec": {
            "schedulerName": self.scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none", "resources": {
                "requests": {"cpu": "1", "memory": "1Gi"},
                "limits": {"nvidia.com/gpu": "1"}}}]}});
        match self.kind {
            Kind::Plain => {}
            Kind::Apart => {
                let label = json!({"group": format!("apart-{}", at / APART)});
                pod["metadata"]["labels"] = label.clone();
                pod["spec"]["affinity"] = json!({"podAntiAffinity":
                    {"requiredDuringSchedulingIgnoredDuringExecution": [{
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": label}}]}});
            }
            Kind::Spread => {
                let label = json!({"group": format!("spread-{}", at / SPREAD)});
                pod["metadata"]["labels"] = label.clone();
                pod["spec"]["topologySpreadConstraints"] = json!([{
                    "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                    "topologyKey": "topology.kubernetes.io/zone",
                    "labelSelector": {"matchLabels": label}}]);
            }
            Kind::Gang => {
                let group = format!("gang-{}", at / self.gang);
                pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
            }
        }
        pod
    }
}

async fn make(cluster: &Cluster, url: &'static str, objects: Vec<Value>) -> Result<(), K8sError> {
    let slots = Arc::new(Semaphore::new(MAKERS));
    let mut making = JoinSet::new();
    for object in objects {
        let (cluster, slots) = (cluster.clone(), Arc::clone(&slots));
        making.spawn(async move {
            let _slot = slots.acquire().await;
            cluster.create(url, &object).await.map(drop)
        });
    }
    for made in making.join_all().await {
        made?;
    }
    Ok(())
}
