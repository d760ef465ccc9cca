//! What an attempt is made of in a cluster: a Job with a pod for each node, a Secret with what the
//! pods run, and a headless Service by which they find each other. Pure.

use super::RunnerConfig;
use muster_engine::Launch;
use muster_engine::book::Key;
use muster_model::{JobId, JobKind, Node, NodeShare, Owner, Volume};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The scheduler that the pods name: nobody's, because this engine binds them.
pub const SCHEDULER: &str = "muster-runner";

/// The label of whose attempt an object is: the instance, the job and the attempt.
pub(super) const ATTEMPT: &str = "muster.dev/attempt";

/// The label of the instance alone, to ask for all of them.
pub(super) const INSTANCE: &str = "muster.dev/instance";

/// The label with a pod's number among those of its Job (Kubernetes' own).
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The container that runs the job.
pub(super) const CONTAINER: &str = "job";

/// Where a pod finds what it runs,
const ORDERS: &str = "/muster/job";
/// keeps its own state,
pub(super) const STATE: &str = "/muster/state";
/// has muster where an image brings it, in a folder of its own,
const TOOLS: &str = "/muster/bin/muster";
/// and says how it ended.
const REPORT: &str = "/muster/report";

/// The largest Secret (the API's limit is 1 MiB, and base64 is not counted in it).
const SECRET_MAX: usize = 1 << 20;

/// A pod has so much longer than the script's own grace.
const GRACE_MORE_S: u64 = 10;

/// All that is made for an attempt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Objects {
    pub(super) job: Value,
    pub(super) secret: Value,
    pub(super) service: Value,
}

/// The name of everything of an attempt: a DNS label, shorter than 63 characters with an index.
pub(super) fn name(instance: &str, key: Key) -> String {
    format!("muster-{}-{}-{instance}", key.job.0, key.attempt)
}

/// What labels an attempt's objects.
fn mark(instance: &str, key: Key) -> String {
    format!("{instance}.{}.{}", key.job.0, key.attempt)
}

/// The attempt that labels name, where it is one of this instance.
pub(super) fn key_of(labels: &BTreeMap<String, String>, instance: &str) -> Option<Key> {
    let rest = labels.get(ATTEMPT)?.strip_prefix(instance)?.strip_prefix('.')?;
    let (job, attempt) = rest.split_once('.')?;
    Some(Key { job: JobId(job.parse().ok()?), attempt: attempt.parse().ok()? })
}

/// Makes the objects; a sentence where the cluster cannot run such a job. The pods know each other by
/// `key_text`, which nobody else may guess.
pub(super) fn objects(
    launch: &Launch,
    instance: &str,
    key_text: &str,
    config: &RunnerConfig,
) -> Result<Objects, String> {
    let job = &launch.job;
    let key = Key { job: job.id, attempt: job.attempt };
    let placement = job.placement.as_ref().ok_or("the launch order has no placement")?;
    let shares = &placement.nodes;
    if shares.is_empty() || shares.len() != launch.nodes.len() {
        return Err("the launch order does not name the nodes of its placement".to_owned());
    }
    fits(launch)?;
    let name = name(instance, key);
    let labels = json!({
        "app.kubernetes.io/managed-by": "muster",
        INSTANCE: instance,
        ATTEMPT: mark(instance, key),
    });
    let meta = json!({
        "name": name,
        "namespace": config.namespace,
        "labels": labels,
        "annotations": {
            "muster.dev/job-name": job.spec.name,
            "muster.dev/user": job.spec.owner.user,
        },
    });
    let image = job.spec.image.as_ref().or(config.image.as_ref()).ok_or(
        "no container image is named\nhint: #MUSTER --image=NAME in the script, or image in \
         [kubernetes]",
    )?;
    let text = serde_json::to_string(&as_in_pods(launch, &name)).map_err(|e| e.to_string())?;
    if text.len() > SECRET_MAX {
        return Err(format!(
            "script and environment have {} KiB, and a Secret of Kubernetes at most {}\nhint: \
             --export=NONE, or read what is long from a file",
            text.len() >> 10,
            SECRET_MAX >> 10
        ));
    }
    let template = json!({
        "metadata": {"labels": labels, "annotations": meta["annotations"]},
        "spec": pod(launch, &name, image, config)?,
    });
    let count = shares.len();
    Ok(Objects {
        job: json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": meta,
            "spec": {
                "completions": count, "parallelism": count, "completionMode": "Indexed",
                "backoffLimit": 0, "podReplacementPolicy": "Failed", "template": template,
            },
        }),
        secret: json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque",
            "immutable": true, "stringData": {"launch": text, "key": key_text},
        }),
        service: json!({
            "apiVersion": "v1", "kind": "Service", "metadata": meta,
            "spec": {
                "clusterIP": "None", "selector": {ATTEMPT: mark(instance, key)},
                // The ranks look for each other before they are ready.
                "publishNotReadyAddresses": true,
            },
        }),
    })
}

/// What muster can run and pods cannot.
fn fits(launch: &Launch) -> Result<(), String> {
    let job = &launch.job;
    let refuse = |what: &str| {
        Err(format!("{what} cannot be run on Kubernetes\nhint: name a partition of another engine"))
    };
    let devices = || job.placement.iter().flat_map(|placement| &placement.nodes);
    match job.spec.kind {
        JobKind::Allocation => refuse("an allocation (salloc, srun outside of a job)"),
        JobKind::Terminal => refuse("a job with a terminal of its own"),
        JobKind::Batch if job.het.is_some() => refuse("a heterogeneous job"),
        JobKind::Batch if devices().any(|s| s.devices.iter().any(|d| !d.is_whole())) => {
            refuse("a job with a part of a GPU")
        }
        JobKind::Batch => Ok(()),
    }
}

/// The order as muster in the pods carries it out: nodes have the pods' host names, and the CPUs and
/// devices of each are numbered as it sees them.
fn as_in_pods(launch: &Launch, name: &str) -> Launch {
    let mut job = launch.job.as_ref().clone();
    let mut nodes = Vec::with_capacity(launch.nodes.len());
    if let Some(placement) = job.placement.as_mut() {
        let placement = Arc::make_mut(placement);
        for (at, (share, node)) in placement.nodes.iter_mut().zip(&launch.nodes).enumerate() {
            nodes.push(Arc::new(in_pod(share, node, format!("{name}-{at}"))));
        }
    }
    Launch { job: Arc::new(job), nodes, ..launch.clone() }
}

fn in_pod(share: &mut NodeShare, node: &Node, name: String) -> Node {
    let mut devices = Vec::with_capacity(share.devices.len());
    for (at, grant) in (0u32..).zip(&mut share.devices) {
        let mut device = node.devices.get(grant.index as usize).cloned().unwrap_or_default();
        (grant.index, device.index) = (at, at);
        // Which files they are the container's runtime knows; whose they are tells the variables.
        device.files = match device.product.split('/').next() {
            Some("amd.com") => vec![format!("/dev/dri/{at}")],
            _ => vec![format!("/dev/nvidia{at}")],
        };
        devices.push(device);
    }
    share.cpus = muster_model::CpuSet::first(share.cpu_count());
    Node { name, devices, cpus: share.cpus.clone(), foreign: Vec::new(), ..node.clone() }
}

/// The pod of each node.
fn pod(launch: &Launch, name: &str, image: &str, config: &RunnerConfig) -> Result<Value, String> {
    let job = &launch.job;
    let mut volumes = vec![
        json!({"name": "launch", "secret": {"secretName": name}}),
        json!({"name": "state", "emptyDir": {}}),
        // Ranks of one pod share memory; 64 MiB are what runtimes give without it.
        json!({"name": "shm", "emptyDir": {"medium": "Memory"}}),
    ];
    let mut mounts = vec![
        json!({"name": "launch", "mountPath": ORDERS, "readOnly": true}),
        json!({"name": "state", "mountPath": STATE}),
        json!({"name": "shm", "mountPath": "/dev/shm"}),
    ];
    let mut first = Vec::new();
    if let Some(tools) = &config.muster_image {
        volumes.push(json!({"name": "tools", "emptyDir": {}}));
        let folder = TOOLS.rsplit_once('/').map_or(TOOLS, |(folder, _)| folder);
        let tool = json!({"name": "tools", "mountPath": folder});
        mounts.push(tool.clone());
        first.push(json!({
            "name": "muster", "image": tools, "volumeMounts": [tool],
            "command": [config.program, "pod", "install", TOOLS],
            "securityContext": unprivileged(),
        }));
    }
    for (at, volume) in all_volumes(&job.spec.volumes, config)?.into_iter().enumerate() {
        let name = format!("volume-{at}");
        mounts.push(json!({
            "name": name, "mountPath": volume.target, "readOnly": volume.read_only,
        }));
        volumes.push(match volume.source.starts_with('/') {
            true => json!({"name": name, "hostPath": {"path": volume.source}}),
            false => json!({"name": name, "persistentVolumeClaim": {"claimName": volume.source}}),
        });
    }
    let asks = asks(launch);
    Ok(json!({
        "schedulerName": SCHEDULER,
        "restartPolicy": "Never",
        "subdomain": name,
        "dnsConfig": {"searches": [format!("{name}.{}.svc.cluster.local", config.namespace)]},
        "enableServiceLinks": false,
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": launch.kill_wait.0.saturating_add(GRACE_MORE_S),
        "securityContext": who(&job.spec.owner),
        "initContainers": first,
        "containers": [{
            "name": CONTAINER,
            "image": image,
            "command": [program(config), "pod", "run", ORDERS, STATE, REPORT],
            "env": [
                {"name": "MUSTER_CLUSTER", "value": config.cluster},
                {"name": "MUSTER_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
            "resources": {"requests": asks, "limits": asks},
            "volumeMounts": mounts,
            "terminationMessagePath": REPORT,
            "securityContext": unprivileged(),
        }],
        "volumes": volumes,
    }))
}

/// Where muster lies in the container of a job.
pub(super) fn program(config: &RunnerConfig) -> &str {
    if config.muster_image.is_some() { TOOLS } else { &config.program }
}

/// Whose processes they are: the same user as anywhere else, and no way to become another.
fn who(owner: &Owner) -> Value {
    json!({
        "runAsUser": owner.uid,
        "runAsGroup": owner.gid,
        "runAsNonRoot": owner.uid != 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

fn unprivileged() -> Value {
    json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
}

/// What every pod has, and what the job asks for: claims, and folders below those that every pod has
/// anyway. Any other folder of a node would be a way to the node.
fn all_volumes(asked: &[Volume], config: &RunnerConfig) -> Result<Vec<Volume>, String> {
    let mut all = config.mounts.clone();
    for volume in asked {
        let inside = |mount: &&Volume| {
            let source = std::path::Path::new(&volume.source);
            let plain = source.components().all(|c| c != std::path::Component::ParentDir);
            mount.source.starts_with('/') && plain && source.starts_with(&mount.source)
        };
        let outside = volume.source.starts_with('/');
        let within = config.mounts.iter().find(inside);
        if outside && within.is_none() {
            return Err(format!(
                "the folder {} of a node is not one that jobs may have\nhint: name a claim, or a \
                 folder below one of mounts in [kubernetes]",
                volume.source
            ));
        }
        let read_only = volume.read_only || within.is_some_and(|mount| mount.read_only);
        all.push(Volume { read_only, ..volume.clone() });
    }
    Ok(all)
}

/// What each pod asks for: all pods of a Job are alike, so as much as the largest share.
fn asks(launch: &Launch) -> Value {
    let shares = launch.job.placement.iter().flat_map(|placement| &placement.nodes);
    let most = |of: fn(&NodeShare) -> u64| shares.clone().map(of).max().unwrap_or(0);
    let (cpus, memory) = (most(|share| u64::from(share.cpu_count())), most(|share| share.memory.0));
    let gpus = most(|share| share.devices.len() as u64);
    let mut asks = BTreeMap::from([("cpu".to_owned(), json!(cpus.to_string()))]);
    if memory > 0 {
        asks.insert("memory".to_owned(), json!(format!("{memory}Mi")));
    }
    if gpus > 0 {
        asks.insert(resource(launch).to_owned(), json!(gpus.to_string()));
    }
    json!(asks)
}

/// The extended resource that the GPUs of the nodes are.
fn resource(launch: &Launch) -> &str {
    let mut devices = launch.nodes.iter().flat_map(|node| &node.devices);
    devices.next().map_or("nvidia.com/gpu", |device| device.product.as_str())
}
