//! On a real API server: `cargo xtask k8s up`, then
//! `MUSTER_TEST_KUBECONFIG=$(cat target/k8s-bed)/kubeconfig cargo test -p muster-engine-k8s --test bed`.
//!
//! Each test has a scheduler name, a namespace and tainted nodes of its own, so that they do not
//! meet each other.

mod claims;
mod manifest;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt};
use muster_engine_k8s::Cluster;
use muster_engine_k8s::lease::Candidate;
use muster_pods::{Happened, Settings};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// What has to happen happens within this.
const PATIENCE: Duration = Duration::from_mins(1);

fn kubeconfig() -> Option<PathBuf> {
    let found = std::env::var_os("MUSTER_TEST_KUBECONFIG").map(PathBuf::from);
    if found.is_none() {
        eprintln!("skipped: MUSTER_TEST_KUBECONFIG names no cluster (cargo xtask k8s up)");
    }
    found
}

/// A test's part of the bed.
struct Part {
    name: String,
    client: Client,
    kubeconfig: PathBuf,
}

/// A scheduler that runs.
struct Running {
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<Result<(), muster_engine_k8s::K8sError>>,
    bound: Arc<AtomicUsize>,
    leads: Arc<AtomicUsize>,
}

impl Part {
    /// A namespace and so many nodes of four CPUs and so many GPUs.
    async fn new(name: &str, nodes: u32, gpus: u32) -> Option<Self> {
        let kubeconfig = kubeconfig()?;
        let read = Kubeconfig::read_from(&kubeconfig).expect("a kubeconfig");
        let config =
            kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.expect("a way to the bed")).expect("a client");
        let part = Self { name: format!("t-{name}"), client, kubeconfig };
        let params = PostParams::default();
        let namespace = json!({"metadata": {"name": part.name}});
        let namespaces: Api<Namespace> = Api::all(part.client.clone());
        namespaces.create(&params, &from(namespace)).await.expect("a namespace");
        let all: Api<Node> = Api::all(part.client.clone());
        for at in 0..nodes {
            let has = json!({"cpu": "4", "memory": "8Gi", "pods": "40",
                "nvidia.com/gpu": gpus.to_string()});
            let node = json!({"metadata": {"name": format!("{}-{at}", part.name),
                    "labels": {"test": part.name}},
                "spec": {"taints": [{"key": "test", "value": part.name, "effect": "NoSchedule"}]},
                "status": {"allocatable": has, "capacity": has}});
            all.create(&params, &from(node)).await.expect("a node");
        }
        Some(part)
    }

    /// A pod of this part that asks for so many GPUs, with this beside or instead.
    fn pod(&self, name: &str, gpus: u32, more: &Value) -> Pod {
        let mut pod = json!({"metadata": {"name": name}, "spec": {
            "schedulerName": self.name,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"test": self.name},
            "tolerations": [{"key": "test", "value": self.name}],
            "containers": [{"name": "c", "image": "none", "resources":
                {"requests": {"cpu": "10m"}, "limits": {"nvidia.com/gpu": gpus.to_string()}}}]}});
        for (part, fields) in more.as_object().expect("an object") {
            let fields = fields.as_object().expect("an object").clone();
            pod[part].as_object_mut().expect("one").extend(fields);
        }
        from(pod)
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    async fn create(&self, pod: &Pod) {
        self.pods().create(&PostParams::default(), pod).await.expect("a pod");
    }

    /// Pods by name with their nodes.
    async fn nodes(&self) -> BTreeMap<String, Option<String>> {
        let all = self.pods().list(&ListParams::default()).await.expect("pods");
        all.into_iter()
            .map(|pod| (pod.name_any(), pod.spec.and_then(|spec| spec.node_name)))
            .collect()
    }

    async fn bound(&self) -> usize {
        self.nodes().await.values().flatten().count()
    }

    /// Waits until so many pods are bound.
    async fn wait_bound(&self, count: usize) {
        let what = format!("{count} are bound");
        looked(&self.pods(), &what, async || (self.bound().await == count).then_some(())).await;
    }

    /// The message of a pod that waits, once it is told one that begins so.
    async fn message(&self, pod: &str, begins: &str) -> String {
        let what = format!("{pod} is told {begins:?}");
        looked(&self.pods(), &what, async || {
            let found = self.pods().get(pod).await.expect("the pod");
            let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
            let told = conditions.into_iter().find(|c| {
                c.type_ == "PodScheduled" && c.reason.as_deref() == Some("Unschedulable")
            });
            told.and_then(|c| c.message).filter(|message| message.starts_with(begins))
        })
        .await
    }

    async fn run(&self, lease: Option<&str>) -> Running {
        let lease = lease.map(|identity| Candidate {
            namespace: self.name.clone(),
            name: self.name.clone(),
            identity: identity.to_owned(),
        });
        let settings = Settings { name: self.name.clone(), lease, ..Settings::default() };
        self.run_as(&self.kubeconfig, settings).await
    }

    async fn run_as(&self, kubeconfig: &Path, settings: Settings) -> Running {
        let cluster = Cluster::find(Some(kubeconfig)).await.expect("the bed");
        let (stop, stopped) = watch::channel(false);
        let (bound, leads) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counts, terms) = (Arc::clone(&bound), Arc::clone(&leads));
        let look_on = move |happened: Happened| match happened {
            Happened::Bound(..) => drop(counts.fetch_add(1, Ordering::Relaxed)),
            Happened::Leads => drop(terms.fetch_add(1, Ordering::Relaxed)),
            Happened::Broken(rules) => panic!("a plan broke rules: {rules:?}"),
            _ => {}
        };
        let task = tokio::spawn(muster_pods::run(cluster, settings, stopped, look_on));
        Running { stop, task, bound, leads }
    }

    /// No node has more GPUs in use than it has.
    async fn nothing_is_used_twice(&self, gpus: usize) {
        let mut used: BTreeMap<String, usize> = BTreeMap::new();
        for node in self.nodes().await.into_values().flatten() {
            *used.entry(node).or_default() += 1;
        }
        assert!(used.values().all(|used| *used <= gpus), "{used:?}");
    }

    async fn end(self) {
        let params = DeleteParams::default();
        let now = params.clone().grace_period(0);
        let all = ListParams::default();
        self.pods().delete_collection(&now, &all).await.expect("no pods");
        let nodes: Api<Node> = Api::all(self.client.clone());
        for node in nodes.list(&all).await.expect("nodes") {
            if node.name_any().starts_with(&format!("{}-", self.name)) {
                nodes.delete(&node.name_any(), &params).await.expect("no node");
            }
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.name, &params).await.expect("no namespace");
    }
}

impl Running {
    async fn end(self) {
        self.stop.send(true).expect("it listens");
        self.task.await.expect("no panic").expect("no error");
    }
}

/// Looks again at each change of these objects until there is something to be seen.
async fn looked<K, T>(api: &Api<K>, what: &str, look: impl AsyncFn() -> Option<T>) -> T
where
    K: Resource + Clone + Debug + Send + serde::de::DeserializeOwned + 'static,
{
    let mut changes = watcher(api.clone(), watcher::Config::default()).boxed();
    let wait = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            changes.next().await.expect("a watch has no end").expect("a change");
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"))
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_bound_and_those_that_wait_are_told_why() {
    let Some(part) = Part::new("told", 2, 2).await else { return };
    let running = part.run(None).await;
    for at in 0..3 {
        part.create(&part.pod(&format!("p{at}"), 1, &json!({}))).await;
    }
    part.create(&part.pod("big", 3, &json!({}))).await;
    part.create(&part.pod("other", 1, &json!({"spec": {"schedulerName": "somebody"}}))).await;
    part.wait_bound(3).await;
    let message = part.message("big", "").await;
    assert!(message.contains("2 Insufficient nvidia.com/gpu"), "{message}");
    assert_eq!(part.nodes().await["other"], None);
    part.nothing_is_used_twice(2).await;
    running.end().await;
    part.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_of_the_upstream_interface_starts_whole_or_not_at_all() {
    let Some(part) = Part::new("gang", 2, 2).await else { return };
    let running = part.run(None).await;
    let kind = GroupVersionKind::gvk("scheduling.k8s.io", "v1alpha2", "PodGroup");
    let groups: Api<DynamicObject> =
        Api::namespaced_with(part.client.clone(), &part.name, &ApiResource::from_gvk(&kind));
    let group = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": "train"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}});
    groups.create(&PostParams::default(), &from(group)).await.expect("a group");
    let member = json!({"spec": {"schedulingGroup": {"podGroupName": "train"}}});
    for at in 0..3 {
        part.create(&part.pod(&format!("w{at}"), 1, &member)).await;
    }
    let message = part.message("w2", "").await;
    assert_eq!(message, "waiting for pods of gang \"train\": 3 of at least 4 are there");
    assert_eq!(part.bound().await, 0);
    // One GPU less than the four need.
    part.create(&part.pod("alone", 1, &json!({"spec": {"priority": 0}}))).await;
    part.wait_bound(1).await;
    part.create(&part.pod("w3", 1, &member)).await;
    part.message("w3", "0/").await;
    assert_eq!(part.bound().await, 1);
    let now = DeleteParams::default().grace_period(0);
    part.pods().delete("alone", &now).await.expect("deleted");
    part.wait_bound(4).await;
    running.end().await;
    part.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_killed_in_its_work_is_followed_by_another_and_nothing_is_used_twice() {
    let Some(part) = Part::new("killed", 5, 20).await else { return };
    let first = part.run(None).await;
    for at in 0..120 {
        part.create(&part.pod(&format!("p{at}"), 1, &json!({}))).await;
        if at == 60 {
            // In the midst of its bindings: what it ordered may or may not arrive.
            first.task.abort();
        }
    }
    let second = part.run(None).await;
    part.wait_bound(100).await;
    part.nothing_is_used_twice(20).await;
    let now = DeleteParams::default().grace_period(0);
    let some: Vec<String> =
        part.nodes().await.into_iter().filter(|p| p.1.is_some()).map(|p| p.0).take(30).collect();
    for pod in &some {
        part.pods().delete(pod, &now).await.expect("deleted");
    }
    part.wait_bound(90).await;
    part.nothing_is_used_twice(20).await;
    second.end().await;
    part.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_one_schedules_and_the_other_follows_when_it_is_gone() {
    let Some(part) = Part::new("lease", 1, 8).await else { return };
    let first = part.run(Some("first")).await;
    part.create(&part.pod("a", 1, &json!({}))).await;
    part.wait_bound(1).await;
    let second = part.run(Some("second")).await;
    part.create(&part.pod("b", 1, &json!({}))).await;
    part.wait_bound(2).await;
    assert_eq!((first.leads.load(Ordering::Relaxed), second.leads.load(Ordering::Relaxed)), (1, 0));
    // It gives the lease back: the other need not wait until it lapses.
    first.end().await;
    part.create(&part.pod("c", 1, &json!({}))).await;
    part.wait_bound(3).await;
    assert_eq!(second.leads.load(Ordering::Relaxed), 1);
    // A binding is seen by others before it is answered, so it is counted once all is done.
    let bound = Arc::clone(&second.bound);
    second.end().await;
    assert_eq!(bound.load(Ordering::Relaxed), 1);
    part.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_of_the_manifest_are_enough() {
    let Some(part) = Part::new("rights", 1, 2).await else { return };
    manifest::install(&part.client, "muster.yaml").await;
    let own = part.kubeconfig.with_file_name("kubeconfig-muster");
    let settings = Settings {
        lease: Some(Candidate {
            namespace: "muster-system".to_owned(),
            name: "muster".to_owned(),
            identity: "test".to_owned(),
        }),
        ..Settings::default()
    };
    let running = part.run_as(&own, settings).await;
    let named = json!({"spec": {"schedulerName": "muster"}});
    part.create(&part.pod("a", 2, &named)).await;
    part.create(&part.pod("b", 1, &named)).await;
    part.wait_bound(1).await;
    part.message("b", "0/").await;
    priority_class(&part.client, "t-rights-high", 1000).await;
    let high = json!({"spec": {"schedulerName": "muster", "priorityClassName": "t-rights-high"}});
    part.create(&part.pod("c", 2, &high)).await;
    looked(&part.pods(), "c has a's place", async || {
        part.nodes().await.get("c")?.as_ref().map(drop)
    })
    .await;
    let events: Api<Event> = Api::namespaced(part.client.clone(), &part.name);
    looked(&events, "all are told of by events", async || {
        let all = events.list(&ListParams::default()).await.expect("events");
        let mut reasons: Vec<String> = all.into_iter().filter_map(|event| event.reason).collect();
        reasons.sort();
        reasons.dedup();
        (reasons == ["FailedScheduling", "Preempted", "Scheduled"]).then_some(())
    })
    .await;
    running.end().await;
    let classes: Api<PriorityClass> = Api::all(part.client.clone());
    classes.delete("t-rights-high", &DeleteParams::default()).await.expect("no class");
    part.end().await;
}

/// A priority class of the bed.
async fn priority_class(client: &Client, name: &str, value: i32) {
    let classes: Api<PriorityClass> = Api::all(client.clone());
    let class = from(json!({"metadata": {"name": name}, "value": value}));
    classes.create(&PostParams::default(), &class).await.expect("a priority class");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_of_lower_priority_is_told_to_end_and_its_room_goes_to_the_higher_one() {
    let Some(part) = Part::new("room", 1, 1).await else { return };
    priority_class(&part.client, "t-room-high", 1000).await;
    priority_class(&part.client, "t-room-middle", 500).await;
    let running = part.run(None).await;
    // Whoever plays the kubelet may end it at once: it is there until the test says that it is over.
    let slow = json!({"spec": {"terminationGracePeriodSeconds": 600},
        "metadata": {"finalizers": ["muster.dev/test"]}});
    part.create(&part.pod("low", 1, &slow)).await;
    part.wait_bound(1).await;
    let high = json!({"spec": {"priorityClassName": "t-room-high"}});
    part.create(&part.pod("high", 1, &high)).await;
    looked(&part.pods(), "low is being deleted, and says for what", async || {
        let low = part.pods().get("low").await.expect("it is still there");
        let conditions = low.status.and_then(|status| status.conditions).unwrap_or_default();
        let target = conditions.into_iter().find(|c| c.type_ == "DisruptionTarget");
        let reason = target.and_then(|c| c.reason)?;
        low.metadata.deletion_timestamp.is_some().then(|| {
            assert_eq!(reason, "PreemptionByScheduler");
        })
    })
    .await;
    looked(&part.pods(), "high is meant for its node", async || {
        let high = part.pods().get("high").await.expect("the pod");
        let node = high.status.and_then(|status| status.nominated_node_name)?;
        (node == "t-room-0").then_some(())
    })
    .await;
    // One of middle priority comes in between: it gets nothing of that room.
    let middle = json!({"spec": {"priorityClassName": "t-room-middle"}});
    part.create(&part.pod("middle", 1, &middle)).await;
    part.message("middle", "0/").await;
    let now = DeleteParams::default().grace_period(0);
    part.pods().delete("low", &now).await.expect("its time is up");
    let over = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    part.pods().patch("low", &PatchParams::default(), &over).await.expect("over");
    part.wait_bound(1).await;
    assert_eq!(part.nodes().await["high"].as_deref(), Some("t-room-0"));
    assert_eq!(part.nodes().await["middle"], None);
    let events: Api<Event> = Api::namespaced(part.client.clone(), &part.name);
    looked(&events, "an event says who was preempted", async || {
        let all = events.list(&ListParams::default()).await.expect("events");
        let told = all.into_iter().find(|e| e.reason.as_deref() == Some("Preempted"))?;
        (told.regarding?.name.as_deref() == Some("low")).then_some(())
    })
    .await;
    running.end().await;
    let classes: Api<PriorityClass> = Api::all(part.client.clone());
    for name in ["t-room-high", "t-room-middle"] {
        classes.delete(name, &DeleteParams::default()).await.expect("no class");
    }
    part.end().await;
}
