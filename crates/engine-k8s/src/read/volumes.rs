//! Claims of volumes: where a pod may be for the volumes that it needs.

use super::affinity::node_term;
use super::{Context, Refusal};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PodSpec};
use k8s_openapi::api::storage::v1::StorageClass as ToldClass;
use muster_model::Term;

/// More alternatives than this from several volumes are not laid out.
const TERMS_MAX: usize = 1024;

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Its volume, once it is bound.
    pub volume: Option<String>,
    /// Its storage class.
    pub class: Option<String>,
}

/// A storage class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageClass {
    /// Its volumes are made where their first pod will be (`WaitForFirstConsumer`).
    pub waits: bool,
}

/// What matters of a claim.
pub fn claim(told: &PersistentVolumeClaim) -> Claim {
    let spec = told.spec.as_ref();
    let bound = told.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound");
    Claim {
        volume: spec.and_then(|s| s.volume_name.clone()).filter(|_| bound),
        class: spec.and_then(|s| s.storage_class_name.clone()),
    }
}

/// What matters of a storage class.
pub fn storage_class(told: &ToldClass) -> StorageClass {
    StorageClass { waits: told.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") }
}

/// The nodes that a volume can be had on; none where on all.
///
/// # Errors
/// [`Refusal`].
pub fn volume(told: &PersistentVolume) -> Result<Vec<Term>, Refusal> {
    let affinity = told.spec.as_ref().and_then(|s| s.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required.as_ref());
    required.iter().flat_map(|r| &r.node_selector_terms).map(node_term).collect()
}

/// What a pod's volumes say of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// It may be on nodes that one of the terms names; on any where there are none.
    On(Vec<Term>),
    /// It has to wait for this.
    Waits(String),
}

/// The claims that a pod names, by name.
pub(super) fn claims(pod: &str, spec: &PodSpec) -> Vec<String> {
    let volumes = spec.volumes.iter().flatten();
    let names = volumes.filter_map(|volume| match &volume.persistent_volume_claim {
        Some(claim) => Some(claim.claim_name.clone()),
        // The ephemeral-volume controller names it so.
        None => volume.ephemeral.as_ref().map(|_| format!("{pod}-{}", volume.name)),
    });
    names.collect()
}

/// Where the volumes of a pod let it be.
///
/// # Errors
/// [`Refusal`].
pub(super) fn reach(
    namespace: &str,
    claims: &[String],
    context: &Context,
) -> Result<Reach, Refusal> {
    let mut terms: Vec<Term> = Vec::new();
    for name in claims {
        let Some(claim) = context.claims.get(&(namespace.to_owned(), name.clone())) else {
            return Ok(Reach::Waits(format!("persistentvolumeclaim \"{name}\" not found")));
        };
        let Some(volume) = &claim.volume else {
            let class = claim.class.as_ref().and_then(|class| context.classes.get(class));
            if class.is_some_and(|class| class.waits) {
                let what = format!("the unbound volume of claim \"{name}\" (WaitForFirstConsumer)");
                return Err(Refusal { what });
            }
            let words = "pod has unbound immediate PersistentVolumeClaims";
            return Ok(Reach::Waits(words.to_owned()));
        };
        let Some(own) = context.volumes.get(volume) else {
            return Ok(Reach::Waits(format!("persistentvolume \"{volume}\" not found")));
        };
        terms = both(terms, own);
        if terms.len() > TERMS_MAX {
            return Err(Refusal { what: "so many node terms of volumes".to_owned() });
        }
    }
    Ok(Reach::On(terms))
}

/// Alternatives of which one of each list holds; an empty list is no condition.
pub(super) fn both(these: Vec<Term>, those: &[Term]) -> Vec<Term> {
    match (these.is_empty(), those.is_empty()) {
        (_, true) => these,
        (true, false) => those.to_vec(),
        (false, false) => these
            .iter()
            .flat_map(|a| those.iter().map(move |b| (a, b)))
            .map(|(a, b)| match a.all.is_empty() || b.all.is_empty() {
                // A term without a condition holds nowhere.
                true => Term::default(),
                false => Term { all: a.all.iter().chain(&b.all).cloned().collect() },
            })
            .collect(),
    }
}
