//! Claims are written: their devices, and which pods may use them.

use super::ledger::Written;
use super::read::{ClaimKey, FINALIZER, resource_claim};
use crate::read::PodKey;
use crate::{Cluster, K8sError};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

/// A claim that others changed meanwhile is looked at and written again so often.
const TRIES: u32 = 4;

/// A claim that a pod is to use.
#[derive(Clone, Debug, PartialEq)]
pub struct Reserve {
    /// The claim.
    pub claim: ClaimKey,
    /// Its unique id.
    pub uid: String,
    /// The version that this was decided on.
    pub version: String,
    /// It has the finalizer of those that have devices.
    pub is_kept: bool,
    /// The devices that it gets; `None` where it has them.
    pub allocation: Option<Value>,
}

/// A claim whose devices are taken from it, as its pod fits nowhere where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The claim.
    pub claim: ClaimKey,
    /// Its unique id.
    pub uid: String,
    /// The version that this was decided on.
    pub version: String,
}

impl Cluster {
    /// Takes the devices from a claim, as it was when this was decided and not otherwise.
    ///
    /// # Errors
    /// [`K8sError`].
    pub async fn release(&self, release: &Release) -> Result<(), K8sError> {
        let Release { claim, uid, version } = release;
        let api: Api<ResourceClaim> = Api::namespaced(self.client.clone(), &claim.namespace);
        let params = PatchParams::default();
        let patch = Patch::Merge(json!({"metadata": {"uid": uid, "resourceVersion": version},
            "status": {"allocation": null, "reservedFor": null}}));
        let now = self.within(api.patch_status(&claim.name, &params, &patch)).await?.metadata;
        let others: Vec<String> =
            now.finalizers.into_iter().flatten().filter(|one| one != FINALIZER).collect();
        let patch = Patch::Merge(json!({"metadata": {"uid": uid,
            "resourceVersion": now.resource_version, "finalizers": others}}));
        self.within(api.patch(&claim.name, &params, &patch)).await.map(drop)
    }

    /// Gives a claim its devices and lets a pod use it: what is there is left alone where it is
    /// another than when it was decided.
    ///
    /// # Errors
    /// [`K8sError`], with what is known of the claim then.
    pub async fn reserve(
        &self,
        reserve: &Reserve,
        pod: &PodKey,
        uid: &str,
    ) -> Result<String, (K8sError, Written)> {
        let mut one = reserve.clone();
        let mut tries = 1;
        loop {
            let error = match self.try_reserve(&mut one, pod, uid).await {
                Ok(version) => return Ok(version),
                Err(error) => error,
            };
            // It may have been carried out though nothing was heard of it.
            let Ok(there) = self.claim(&one.claim).await else {
                return Err((error, Written::Unknown));
            };
            let Some(there) = there else { return Err((error, Written::No)) };
            let record = resource_claim(&there);
            let other = |error| Err((error, Written::Other(Box::new(record.clone()))));
            if record.uid != one.uid || record.leaving {
                return other(error);
            }
            match (&one.allocation, there.status.as_ref().and_then(|s| s.allocation.as_ref())) {
                (Some(own), Some(found)) => {
                    if serde_json::to_value(found).ok().as_ref() != Some(own) {
                        let said =
                            format!("resource claim {} was allocated by someone else", one.claim);
                        return other(K8sError::Refused { code: 409, said });
                    }
                    if record.reserved.iter().any(|user| user == uid) {
                        return Ok(record.version);
                    }
                    one.allocation = None;
                }
                (None, None) => return other(error),
                (None, Some(_)) if record.reserved.iter().any(|user| user == uid) => {
                    return Ok(record.version);
                }
                _ => {}
            }
            let again = matches!(error, K8sError::Refused { code: 409, .. }) || error.is_passing();
            if !again || tries >= TRIES {
                // What was never answered may still be carried out.
                return match error {
                    K8sError::Unreachable { .. } if record.allocated.is_none() => {
                        Err((error, Written::Unknown))
                    }
                    error => other(error),
                };
            }
            tries += 1;
            one.version.clone_from(&record.version);
            one.is_kept = record.is_kept;
        }
    }

    async fn try_reserve(
        &self,
        one: &mut Reserve,
        pod: &PodKey,
        uid: &str,
    ) -> Result<String, K8sError> {
        let api: Api<ResourceClaim> = Api::namespaced(self.client.clone(), &one.claim.namespace);
        let params = PatchParams::default();
        if one.allocation.is_some() && !one.is_kept {
            let patch = json!({"metadata": {"uid": one.uid, "resourceVersion": one.version,
                "finalizers": [FINALIZER]}});
            let patch = Patch::Strategic(patch);
            let now = self.within(api.patch(&one.claim.name, &params, &patch)).await?;
            one.version = now.metadata.resource_version.unwrap_or_default();
            one.is_kept = true;
        }
        let mut status = json!({"reservedFor": [
            {"resource": "pods", "name": pod.name, "uid": uid}]});
        if let Some(allocation) = &one.allocation {
            status["allocation"] = allocation.clone();
        }
        let patch = json!({"metadata": {"uid": one.uid, "resourceVersion": one.version},
            "status": status});
        let patch = Patch::Strategic(patch);
        let now = self.within(api.patch_status(&one.claim.name, &params, &patch)).await?;
        Ok(now.metadata.resource_version.unwrap_or_default())
    }

    async fn claim(&self, key: &ClaimKey) -> Result<Option<ResourceClaim>, K8sError> {
        let api: Api<ResourceClaim> = Api::namespaced(self.client.clone(), &key.namespace);
        self.within(api.get_opt(&key.name)).await
    }
}
