//! Pods in muster's words: each is a job of one node.

use super::affinity::{affinity, nodes};
use super::gang::{self, GangName};
use super::node::{is_gpu, is_known};
use super::requests::requests;
use super::selector::{LEAVING, NAMESPACE, pod_label};
use super::volumes::{alone, claims, reach};
use super::{Context, PODS, Refusal, ports};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use muster_model::{
    Affinity, GpuCount, GpuScope, JobSpec, Labels, MemoryRequest, Mib, Owner, Request, Seconds,
    TimeLimit, Timestamp,
};
use muster_slurm_syntax::duration;
use std::fmt;
use std::sync::Arc;

/// The partition that all nodes are in.
pub const PARTITION: &str = "kubernetes";

/// The annotation that says how long a pod runs at most, as `sbatch --time` has it.
const TIME: &str = "muster.dev/time";

/// Bytes in a MiB.
const MIB: u64 = 1 << 20;

/// A pod's namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// This, as a job, as far as it is understood: what a pod has that is bound.
    pub job: Arc<JobSpec>,
    /// Why it cannot be scheduled yet, a sentence: of no matter once it is bound.
    pub waits: Option<String>,
}

/// A pod as far as scheduling goes.
#[derive(Clone, Debug, PartialEq)]
pub struct PodRecord {
    /// Its namespace and name.
    pub key: PodKey,
    /// Its unique id: a pod made anew under the same name has another.
    pub uid: String,
    /// When it was made.
    pub created: Timestamp,
    /// Who schedules it.
    pub scheduler: String,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// It has succeeded or failed: it needs nothing any more.
    pub over: bool,
    /// It is being deleted.
    pub leaving: bool,
    /// The node on which room is made for it.
    pub nominated: Option<String>,
    /// It has scheduling gates: nobody may try it.
    pub gated: bool,
    /// The group that it starts with, and how many start together where the pod says it.
    pub gang: Option<(GangName, Option<u32>)>,
    /// What it asks for.
    pub ask: Ask,
    /// The message of its condition `PodScheduled`, where that is false.
    pub told: Option<String>,
    /// The pod itself where what it asks for depends on other objects.
    pub depends: Option<Arc<Pod>>,
}

/// Reads a pod.
pub fn pod(told: &Pod, context: &Context) -> PodRecord {
    let meta = &told.metadata;
    let key = PodKey {
        namespace: meta.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        name: meta.name.clone().unwrap_or_default(),
    };
    let empty = PodSpec::default();
    let spec = told.spec.as_ref().unwrap_or(&empty);
    let status = told.status.as_ref();
    let scheduled = status.and_then(|s| s.conditions.as_ref()).into_iter().flatten();
    let mut scheduled = scheduled.filter(|c| c.type_ == "PodScheduled" && c.status == "False");
    let ask = ask(told, &key, spec, context);
    PodRecord {
        uid: meta.uid.clone().unwrap_or_default(),
        created: meta
            .creation_timestamp
            .as_ref()
            .map_or(Timestamp::default(), |t| Timestamp::from_millis(t.0.as_millisecond())),
        scheduler: spec.scheduler_name.clone().unwrap_or_default(),
        node: spec.node_name.clone().filter(|node| !node.is_empty()),
        over: status
            .and_then(|s| s.phase.as_deref())
            .is_some_and(|phase| matches!(phase, "Succeeded" | "Failed")),
        leaving: meta.deletion_timestamp.is_some(),
        nominated: status
            .and_then(|s| s.nominated_node_name.clone())
            .filter(|node| !node.is_empty()),
        gated: spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()),
        gang: gang::of(told),
        ask,
        told: scheduled.next().and_then(|c| c.message.clone()),
        depends: depends(&key.name, spec).then(|| Arc::new(told.clone())),
        key,
    }
}

/// True where what it asks for depends on other objects: namespaces or claims.
fn depends(name: &str, spec: &PodSpec) -> bool {
    let affinity = spec.affinity.as_ref();
    let near = affinity.and_then(|a| a.pod_affinity.as_ref());
    let apart = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    let required = [
        near.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()),
        apart.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()),
    ];
    let preferred = [
        near.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref()),
        apart.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref()),
    ];
    let preferred = preferred.into_iter().flatten().flatten().map(|t| &t.pod_affinity_term);
    let mut terms = required.into_iter().flatten().flatten().chain(preferred);
    terms.any(|term| term.namespace_selector.is_some()) || !claims(name, spec).is_empty()
}

/// The priority of a job of this pod: higher is first, none below zero.
pub fn priority_of(priority: i32) -> u32 {
    u32::try_from(i64::from(priority) - i64::from(i32::MIN)).unwrap_or(u32::MAX)
}

fn ask(pod: &Pod, key: &PodKey, spec: &PodSpec, context: &Context) -> Ask {
    let mut waits = None;
    let mut wait = |why: String| {
        waits.get_or_insert(why);
    };
    let mut affinity = affinity(pod, spec, context);
    let claims = claims(&key.name, spec);
    let mut labels = labels(pod, key, spec);
    for (label, term) in alone(&key.namespace, &claims, context) {
        labels.insert(label, String::new());
        affinity.apart.required.push(term);
    }
    match reach(&key.namespace, &claims, context) {
        Ok(volumes) => affinity.volumes = volumes,
        Err(why) => wait(why),
    }
    match nodes(spec) {
        Ok(nodes) => affinity.node = nodes,
        Err(refusal) => wait(refusal.to_string()),
    }
    let request = request(pod).unwrap_or_else(|refusal| {
        wait(refusal.to_string());
        Request::default()
    });
    let time_limit = time_limit(pod, spec).unwrap_or_else(|refusal| {
        wait(refusal.to_string());
        None
    });
    let affinity = (affinity != Affinity::default()).then(|| Arc::new(affinity));
    let job = Arc::new(JobSpec {
        name: key.name.clone(),
        owner: Owner { uid: 0, gid: 0, user: key.namespace.clone() },
        account: key.namespace.clone(),
        qos: "normal".to_owned(),
        partitions: vec![PARTITION.to_owned()],
        request: Request { affinity, ..request },
        labels,
        time_limit,
        priority: Some(priority_of(spec.priority.unwrap_or(0))),
        never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
        ends_within: Some(grace(spec)),
        ..JobSpec::default()
    });
    Ask { job, waits }
}

/// The amounts that a pod asks for.
fn request(pod: &Pod) -> Result<Request, Refusal> {
    let wants = requests(pod).map_err(|bad| Refusal { what: bad.to_string() })?;
    let amount = |name: &str| wants.get(name).copied().unwrap_or_default();
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let others = wants.iter().filter(|(name, _)| !is_known(name));
    let mut gres: std::collections::BTreeMap<String, u64> =
        others.map(|(name, n)| (name.clone(), n.units())).filter(|(_, n)| *n > 0).collect();
    gres.insert(PODS.to_owned(), 1);
    let gpus = wants.iter().filter(|(name, n)| is_gpu(name) && n.units() > 0);
    Ok(Request {
        cpus_per_task: Some(count(amount("cpu").millis())),
        memory: MemoryRequest::PerNode(Mib(amount("memory").units().div_ceil(MIB))),
        gpus: gpus
            .map(|(name, n)| GpuCount {
                model: Some(name.clone()),
                count: count(n.units()),
                scope: GpuScope::Node,
            })
            .collect(),
        gres,
        ..Request::default()
    })
}

/// How long it takes at most to end once it is deleted (30 s where it does not say).
fn grace(spec: &PodSpec) -> Seconds {
    let said = spec.termination_grace_period_seconds.map(|s| u64::try_from(s).unwrap_or(0));
    Seconds(said.unwrap_or(30))
}

/// What other pods' rules go by.
fn labels(pod: &Pod, key: &PodKey, spec: &PodSpec) -> Labels {
    let own = pod.metadata.labels.iter().flatten();
    let mut labels: Labels =
        own.map(|(key, value)| (pod_label(key).into_owned(), value.clone())).collect();
    labels.extend(ports::labels(spec));
    labels.insert(NAMESPACE.to_owned(), key.namespace.clone());
    if pod.metadata.deletion_timestamp.is_some() {
        labels.insert(LEAVING.to_owned(), String::new());
    }
    labels
}

/// How long it runs at most: what its annotation says, else `activeDeadlineSeconds`.
fn time_limit(pod: &Pod, spec: &PodSpec) -> Result<Option<TimeLimit>, Refusal> {
    if let Some(text) = pod.metadata.annotations.as_ref().and_then(|all| all.get(TIME)) {
        let limit = duration::parse_limit(text);
        return limit.map(Some).map_err(|bad| Refusal { what: format!("{TIME}: {bad}") });
    }
    let deadline = spec.active_deadline_seconds.and_then(|s| u64::try_from(s).ok());
    Ok(deadline.map(|seconds| TimeLimit::Of(Seconds(seconds))))
}
