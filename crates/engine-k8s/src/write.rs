//! What is written to the API server: bindings, conditions and events of pods.

use crate::read::PodKey;
use crate::{Cluster, K8sError};
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::core::params::GetParams;
use muster_model::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// A write is given up after this; it may have been carried out all the same.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest message of a condition or event (the API's limit of an event's note).
const MESSAGE_MAX: usize = 1024;

/// An event about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The pod.
    pub pod: PodKey,
    /// Its unique id.
    pub uid: String,
    /// `Normal` or `Warning`.
    pub kind: &'static str,
    /// One word: `Scheduled`, `FailedScheduling`, `Preempted`.
    pub reason: &'static str,
    /// What was done: `Binding`, `Scheduling`, `Preempting`.
    pub action: &'static str,
    /// A sentence.
    pub message: String,
}

/// Cuts a message to what the API takes.
pub fn cut(message: &str) -> String {
    if message.len() <= MESSAGE_MAX {
        return message.to_owned();
    }
    let end = (0..=MESSAGE_MAX - 3).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
    format!("{}...", &message[..end])
}

/// An instant as RFC 3339 has it, to the second.
pub fn rfc3339(at: Timestamp) -> String {
    let at = k8s_openapi::jiff::Timestamp::from_second(at.secs()).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Cluster {
    /// Binds a pod to a node. Only that pod: one made anew under its name is refused.
    ///
    /// # Errors
    /// [`K8sError`]; where it is [`K8sError::is_passing`], it may have been bound all the same.
    pub async fn bind(&self, pod: &PodKey, uid: &str, node: &str) -> Result<(), K8sError> {
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(pod.name.clone()),
                namespace: Some(pod.namespace.clone()),
                uid: Some(uid.to_owned()),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let url = format!("/api/v1/namespaces/{}/pods", pod.namespace);
        let data = serde_json::to_vec(&binding).unwrap_or_default();
        let request = Request::new(url)
            .create_subresource("binding", &pod.name, &PostParams::default(), data)
            .map_err(|e| K8sError::Refused { code: 400, said: e.to_string() })?;
        self.within(self.client.request::<Status>(request)).await.map(drop)
    }

    /// The node that a pod is bound to; [`K8sError::Gone`] where it is another pod by now.
    ///
    /// # Errors
    /// [`K8sError`].
    pub async fn node_of(&self, pod: &PodKey, uid: &str) -> Result<Option<String>, K8sError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let found = self.within(api.get_opt(&pod.name)).await?;
        match found.filter(|found| found.metadata.uid.as_deref() == Some(uid)) {
            Some(found) => Ok(found.spec.and_then(|spec| spec.node_name)),
            None => Err(K8sError::Gone(pod.clone())),
        }
    }

    /// Says on a pod why it is not scheduled (condition `PodScheduled`, reason `Unschedulable`).
    ///
    /// # Errors
    /// [`K8sError`].
    pub async fn tell(&self, pod: &PodKey, uid: &str, message: &str) -> Result<(), K8sError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let now = k8s_openapi::jiff::Timestamp::now().as_millisecond();
        let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": cut(message),
            "lastProbeTime": null,
            "lastTransitionTime": rfc3339(Timestamp::from_millis(now)),
        }]}});
        let params = PatchParams::default();
        let patch = Patch::Strategic(patch);
        self.within(api.patch_status(&pod.name, &params, &patch)).await.map(drop)
    }

    /// Tells a pod to end so that another gets its room: says so on it (condition
    /// `DisruptionTarget`), then deletes it, and only it, with the grace that it asks for.
    ///
    /// # Errors
    /// [`K8sError`]; [`K8sError::Gone`] where it is another pod by now.
    pub async fn evict(&self, pod: &PodKey, uid: &str, from: &str) -> Result<(), K8sError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let gone = |error: K8sError| match error {
            K8sError::Refused { code: 404 | 409, .. } => K8sError::Gone(pod.clone()),
            other => other,
        };
        let now = k8s_openapi::jiff::Timestamp::now().as_millisecond();
        let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": format!("{from}: preempting to accommodate a higher priority pod"),
            "lastProbeTime": null,
            "lastTransitionTime": rfc3339(Timestamp::from_millis(now)),
        }]}});
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        self.within(api.patch_status(&pod.name, &params, &patch)).await.map_err(gone)?;
        let only = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
        self.within(api.delete(&pod.name, &params)).await.map_err(gone)?;
        Ok(())
    }

    /// Says on a waiting pod for which node it is meant (`status.nominatedNodeName`), or that it is
    /// meant for none any more.
    ///
    /// # Errors
    /// [`K8sError`].
    pub async fn nominate(
        &self,
        pod: &PodKey,
        uid: &str,
        node: Option<&str>,
    ) -> Result<(), K8sError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let patch = json!({"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}});
        let patch = Patch::Merge(patch);
        self.within(api.patch_status(&pod.name, &PatchParams::default(), &patch)).await.map(drop)
    }

    /// Makes an event about a pod, as the default scheduler does.
    ///
    /// # Errors
    /// [`K8sError`].
    pub async fn note(&self, note: &Note, from: &str) -> Result<(), K8sError> {
        let at = k8s_openapi::jiff::Timestamp::now();
        // Named as client-go names them: by the pod and the instant.
        let name = format!("{}.{:x}", note.pod.name, at.as_nanosecond());
        let event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": note.pod.namespace},
            "eventTime": at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            "reportingController": from,
            "reportingInstance": from,
            "action": note.action,
            "reason": note.reason,
            "type": note.kind,
            "note": cut(&note.message),
            "regarding": {"apiVersion": "v1", "kind": "Pod", "name": note.pod.name,
                "namespace": note.pod.namespace, "uid": note.uid},
        });
        let url = format!("/apis/events.k8s.io/v1/namespaces/{}/events", note.pod.namespace);
        self.create(&url, &event).await.map(drop)
    }

    /// Makes an object of the kind that is at `url` (`/api/v1/namespaces/default/pods`); gives it as
    /// it is then.
    ///
    /// # Errors
    /// [`K8sError`].
    pub async fn create(&self, url: &str, object: &impl Serialize) -> Result<Value, K8sError> {
        let data = serde_json::to_vec(object).unwrap_or_default();
        let request = Request::new(url)
            .create(&PostParams::default(), data)
            .map_err(|e| K8sError::Refused { code: 400, said: e.to_string() })?;
        self.within(self.client.request(request)).await
    }

    /// Deletes every object of the kind that is at `url`.
    ///
    /// # Errors
    /// [`K8sError`].
    pub async fn delete_all(&self, url: &str) -> Result<(), K8sError> {
        let request = Request::new(url)
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .map_err(|e| K8sError::Refused { code: 400, said: e.to_string() })?;
        self.within(self.client.request::<Value>(request)).await.map(drop)
    }

    /// An object as it is.
    pub(crate) async fn get(&self, url: &str, name: &str) -> Result<Value, K8sError> {
        let request = Request::new(url)
            .get(name, &GetParams::default())
            .map_err(|e| K8sError::Refused { code: 400, said: e.to_string() })?;
        self.within(self.client.request(request)).await
    }

    pub(crate) async fn within<T>(
        &self,
        asked: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, K8sError> {
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                let why = format!("no answer within {} s", PATIENCE.as_secs());
                Err(K8sError::Unreachable { why })
            }
        }
    }
}
