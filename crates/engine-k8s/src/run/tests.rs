//! What is made for an attempt, and what its pods tell, without a cluster.

use super::look::needs;
use super::objects::{ATTEMPT, Objects, key_of, name, objects};
use super::seen::{PodSeen, Seen};
use super::{RunnerConfig, ending, nodes};
use k8s_openapi::api::core::v1::{Node as ToldNode, Pod, PodStatus};
use muster_engine::book::{Attempt, Book, Key, Spot};
use muster_engine::contract::Subject;
use muster_engine::{Launch, Order, Pace, ScriptedEngine};
use muster_model::{
    CpuSet, EndCause, EngineName, ExitReport, JobId, JobSpec, Mib, Node, Owner, Timestamp, Volume,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const INSTANCE: &str = "0123456789ab";

fn volume(text: &str) -> Volume {
    muster_slurm_syntax::volume::parse(text).expect("a volume")
}

fn config() -> RunnerConfig {
    RunnerConfig {
        name: EngineName("kubernetes".to_owned()),
        cluster: "site".to_owned(),
        namespace: "jobs".to_owned(),
        image: Some("registry/usual:1".to_owned()),
        program: "/usr/local/bin/muster".to_owned(),
        mounts: vec![volume("/home:/home"), volume("scratch:/scratch")],
        ..RunnerConfig::default()
    }
}

/// The order to launch a job that was changed so.
fn launch(change: impl FnOnce(&mut JobSpec)) -> Launch {
    let node = Node { name: "n0".to_owned(), cpus: CpuSet::first(4), ..Node::default() };
    let engine =
        ScriptedEngine::new(EngineName::local(), vec![node], Pace::Stepped, Timestamp::default);
    let order = Subject::new(Arc::new(engine), "/home/ada").launch_of(7, "#!/bin/sh\n", |spec| {
        spec.owner = Owner { uid: 1000, gid: 100, user: "ada".to_owned() };
        change(spec);
    });
    match order {
        Order::Launch(launch) => *launch,
        other => panic!("{other:?}"),
    }
}

fn made(launch: &Launch) -> Result<Objects, String> {
    objects(launch, INSTANCE, "a key of the job", &config())
}

#[test]
fn an_attempt_is_a_job_of_its_owner_in_the_usual_image() {
    let made = made(&launch(|_| {})).expect("objects");
    let spec = &made.job["spec"]["template"]["spec"];
    let container = &spec["containers"][0];
    assert_eq!(container["image"], "registry/usual:1");
    assert_eq!(container["resources"]["requests"], json!({"cpu": "1", "memory": "64Mi"}));
    assert_eq!(container["resources"]["limits"], container["resources"]["requests"]);
    let who = json!({"runAsUser": 1000, "runAsGroup": 100, "runAsNonRoot": true,
        "seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(spec["securityContext"], who);
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    assert_eq!(made.job["metadata"]["name"], "muster-7-1-0123456789ab");
    let claim = json!({"name": "volume-1", "persistentVolumeClaim": {"claimName": "scratch"}});
    assert!(spec["volumes"].as_array().expect("volumes").contains(&claim), "{spec}");
}

#[test]
fn what_a_job_knows_is_in_its_secret_and_nowhere_else() {
    let mut launch = launch(|_| {});
    let mut payload = launch.payload.as_ref().clone();
    payload.environment.push(("TOKEN".to_owned(), "do-not-tell".to_owned()));
    launch.payload = Arc::new(payload);
    let made = made(&launch).expect("objects");
    let told = |value: &Value| value.to_string().contains("do-not-tell");
    assert!(told(&made.secret) && !told(&made.job) && !told(&made.service));
    assert!(!made.job.to_string().contains("a key of the job"));
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let refused = |change: fn(&mut JobSpec)| made(&launch(change)).expect_err("refused");
    for folder in ["/etc:/mnt", "/home/../etc:/mnt", "/homework:/mnt"] {
        let asked = launch(|spec| spec.volumes.push(volume(folder)));
        let said = made(&asked).expect_err("refused");
        assert!(said.contains("hint: name a claim"), "{folder}: {said}");
    }
    assert!(refused(|spec| spec.kind = muster_model::JobKind::Allocation).contains("hint"));
    let nameless = RunnerConfig { image: None, ..config() };
    let said = objects(&launch(|_| {}), INSTANCE, "k", &nameless).expect_err("refused");
    assert!(said.contains("--image"), "{said}");
    let mut long = launch(|_| {});
    let mut payload = long.payload.as_ref().clone();
    payload.script = "#".repeat(2 << 20);
    long.payload = Arc::new(payload);
    assert!(made(&long).expect_err("refused").contains("KiB"));
    let below = launch(|spec| spec.volumes.push(volume("/home/ada/data:/data:ro")));
    assert!(made(&below).is_ok());
}

#[test]
fn labels_name_the_attempt_of_one_instance() {
    let key = Key { job: JobId(12), attempt: 3 };
    let of = |text: &str| BTreeMap::from([(ATTEMPT.to_owned(), text.to_owned())]);
    assert_eq!(key_of(&of("0123456789ab.12.3"), INSTANCE), Some(key));
    for other in ["0123456789ac.12.3", "0123456789ab.12", "0123456789ab.x.3", ""] {
        assert_eq!(key_of(&of(other), INSTANCE), None, "{other}");
    }
    // With the longest number and an index, a label of DNS.
    let longest = name(INSTANCE, Key { job: JobId(u32::MAX), attempt: u32::MAX });
    assert!(longest.len() + "-100000".len() <= 63, "{longest}");
}

/// A part of attempt 7.1 with this status.
fn pod(index: u32, node: Option<&str>, status: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("p{index}"), "namespace": "jobs", "uid": format!("u{index}"),
            "labels": {
                "muster.dev/attempt": "0123456789ab.7.1",
                "batch.kubernetes.io/job-completion-index": index.to_string(),
            },
        },
        "spec": {"nodeName": node, "containers": [{"name": "job"}]},
        "status": status,
    }))
    .expect("a pod")
}

fn attempt(stopping: bool) -> Attempt {
    let dir = tempfile::tempdir().expect("a folder");
    let mut book = Book::open(dir.path(), "log").expect("a journal");
    let key = Key { job: JobId(7), attempt: 1 };
    let spot = |node: &str| Spot { node: node.to_owned(), cpus: CpuSet::first(1), devices: vec![] };
    let spots = vec![spot("n0"), spot("n1")];
    book.accept(key, Timestamp::from_secs(100), Owner::default(), spots).expect("noted");
    book.submitted(key, 0).expect("noted");
    if stopping {
        book.stopping(key).expect("noted");
    }
    book.get(key).expect("there").clone()
}

fn seen(pods: Vec<Pod>) -> BTreeMap<u32, (crate::read::PodKey, PodSeen)> {
    let mut seen = Seen::default();
    for pod in pods {
        seen.take(pod, INSTANCE, false);
    }
    seen.parts.remove(&Key { job: JobId(7), attempt: 1 }).unwrap_or_default()
}

#[test]
fn unbound_pods_are_bound_to_their_own_nodes_and_end_together() {
    let running = json!({"phase": "Running"});
    let parts = seen(vec![pod(0, None, &json!({})), pod(1, None, &json!({}))]);
    let bound: Vec<String> =
        needs(&attempt(false), &parts).bind.into_iter().map(|(_, _, node)| node).collect();
    assert_eq!(bound, ["n0", "n1"]);
    let parts = seen(vec![pod(0, Some("n0"), &running), pod(1, Some("n1"), &running)]);
    let nothing = needs(&attempt(false), &parts);
    assert!(nothing.bind.is_empty() && nothing.end.is_empty());
    assert_eq!(needs(&attempt(true), &parts).end.len(), 2);
    let lost = json!({"phase": "Failed", "reason": "Evicted"});
    let parts = seen(vec![pod(0, Some("n0"), &running), pod(1, Some("n1"), &lost)]);
    let ending: Vec<String> =
        needs(&attempt(false), &parts).end.into_iter().map(|pod| pod.name).collect();
    assert_eq!(ending, ["p0"]);
}

fn report_of(stopping: bool, status: &Value) -> ExitReport {
    let parts = seen(vec![pod(0, Some("n0"), status)]);
    ending::report(&attempt(stopping), &parts[&0].1, Timestamp::from_secs(500))
}

/// A container that ended so.
fn ended(more: &Value) -> Value {
    let mut terminated = json!({"startedAt": "1970-01-01T00:03:20Z", "exitCode": 0});
    for (name, value) in more.as_object().expect("fields") {
        terminated[name] = value.clone();
    }
    json!({"phase": "Failed", "containerStatuses": [{"name": "job", "image": "", "imageID": "",
        "ready": false, "restartCount": 0, "state": {"terminated": terminated}}]})
}

#[test]
fn how_an_attempt_ended_is_in_musters_own_words_where_it_wrote_any() {
    let own = ExitReport {
        status: muster_model::ExitStatus { code: 7, signal: 0 },
        started: Some(Timestamp::from_secs(50)),
        ended: Timestamp::from_secs(900),
        ..ExitReport::never_ran(EndCause::Exited, "as it wished", Timestamp::from_secs(0))
    };
    let text = serde_json::to_string(&own).expect("text");
    let told = report_of(false, &ended(&json!({"exitCode": 7, "message": text})));
    assert_eq!((told.status, told.cause), (own.status, EndCause::Exited));
    // The node's clock is not ours.
    assert_eq!(told.started, Some(Timestamp::from_secs(100)));
    assert_eq!(told.ended, Timestamp::from_secs(500));
    // Nobody but the cluster had it stop.
    let text =
        serde_json::to_string(&ExitReport { cause: EndCause::Stopped, ..own }).expect("text");
    let stopped = ended(&json!({"exitCode": 143, "message": text}));
    assert_eq!(report_of(false, &stopped).cause, EndCause::NodeLost);
    assert_eq!(report_of(true, &stopped).cause, EndCause::Stopped);
}

#[test]
fn how_it_ended_is_else_what_the_kubelet_says() {
    let waits = json!({"containerStatuses": [{"name": "job", "image": "", "imageID": "",
        "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]});
    for (status, cause, said) in [
        (ended(&json!({"exitCode": 137, "reason": "OOMKilled"})), EndCause::OutOfMemory, "memory"),
        (ended(&json!({"exitCode": 127})), EndCause::LaunchFailed, "image"),
        (waits, EndCause::LaunchFailed, "no such image"),
        (
            json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}),
            EndCause::NodeLost,
            "Evicted The node was low",
        ),
        (json!({"phase": "Failed", "reason": "OutOfcpu"}), EndCause::NodeLost, "OutOfcpu"),
        (ended(&json!({"exitCode": 0, "message": "{\"cause\":"})), EndCause::NodeLost, "a word"),
    ] {
        let report = report_of(false, &status);
        assert_eq!(report.cause, cause, "{status}");
        assert!(report.message.contains(said), "{}", report.message);
        assert_eq!(report_of(true, &status).cause, EndCause::Stopped, "{status}");
    }
    let killed = report_of(true, &ended(&json!({"exitCode": 137})));
    assert_eq!((killed.status.code, killed.status.signal), (0, 9));
}

fn told_node(ready: &str) -> ToldNode {
    serde_json::from_value(json!({
        "metadata": {"name": "n0", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100"}},
        "status": {
            "allocatable": {"cpu": "7900m", "memory": "16Gi", "nvidia.com/gpu": "2", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready, "reason": "KubeletNotReady"}],
        },
    }))
    .expect("a node")
}

#[test]
fn a_node_is_offered_in_whole_cpus_without_what_others_have() {
    let mut all = Seen::default();
    all.nodes.insert("n0".to_owned(), told_node("True"));
    for (at, cpu) in ["100m", "1500m", "200m"].iter().enumerate() {
        let pod = json!({
            "metadata": {"name": format!("daemon-{at}"), "namespace": "kube-system"},
            "spec": {"nodeName": "n0", "containers": [{"name": "c", "resources": {"requests":
                {"cpu": cpu, "memory": "1Gi", "nvidia.com/gpu": if at == 0 { "1" } else { "0" }}}}]},
        });
        all.take(serde_json::from_value(pod).expect("a pod"), INSTANCE, false);
    }
    let dir = tempfile::tempdir().expect("a folder");
    let book = Book::open(dir.path(), "log").expect("a journal");
    let offered = nodes::nodes(&all, &book, &config());
    let node = &offered[0];
    assert_eq!((node.cpus.len(), node.memory, node.counts_only), (7, Mib(16 << 10), true));
    assert_eq!(node.devices[0].model, "nvidia-h100");
    assert_eq!(node.devices[0].product, "nvidia.com/gpu");
    let cpus: u32 = node.foreign.iter().map(|foreign| foreign.cpus.len()).sum();
    let memory: u64 = node.foreign.iter().map(|foreign| foreign.memory.0).sum();
    let gpus = node.foreign.iter().filter(|foreign| foreign.device.is_some()).count();
    assert_eq!((cpus, memory, gpus), (2, 3 << 10, 1));
    let away = nodes::standing(&told_node("Unknown")).expect("a node");
    assert!(!away.is_usable());
    // Of an older API server a kubelet's word may be missing.
    let silent = PodSeen { status: PodStatus::default(), ..PodSeen::default() };
    assert_eq!(ending::standing(&silent), ending::Standing::Waits);
}
