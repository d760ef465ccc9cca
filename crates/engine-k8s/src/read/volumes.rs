//! Claims of volumes: where a pod may be for the volumes that it needs.

use super::affinity::node_term;
use super::selector::{EVERYWHERE, is_one_of};
use super::{Context, Refusal};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PodSpec};
use k8s_openapi::api::storage::v1::StorageClass as ToldClass;
use muster_model::{Expression, JobTerm, Operator, Term};

/// The annotation of a claim that is bound for good.
const BOUND: &str = "pv.kubernetes.io/bind-completed";

/// The labels of nodes and volumes that say where they are, and what a node may call it beside.
const PLACES: [(&str, Option<&str>); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", Some("topology.kubernetes.io/zone")),
    ("failure-domain.beta.kubernetes.io/region", Some("topology.kubernetes.io/region")),
    ("topology.kubernetes.io/zone", None),
    ("topology.kubernetes.io/region", None),
];

/// Where a volume can be had: of each list one term holds.
pub type Places = Vec<Vec<Term>>;

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Its volume, once it is bound.
    pub volume: Option<String>,
    /// Its storage class.
    pub class: Option<String>,
    /// Its volume is gone.
    pub lost: bool,
    /// It is being deleted.
    pub leaving: bool,
    /// One pod at a time may have it (`ReadWriteOncePod`).
    pub alone: bool,
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
    let bound = told.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(BOUND));
    Claim {
        volume: spec.and_then(|s| s.volume_name.clone()).filter(|_| bound),
        class: spec.and_then(|s| s.storage_class_name.clone()),
        lost: told.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Lost"),
        leaving: told.metadata.deletion_timestamp.is_some(),
        alone: spec
            .and_then(|s| s.access_modes.as_ref())
            .is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteOncePod")),
    }
}

/// What matters of a storage class.
pub fn storage_class(told: &ToldClass) -> StorageClass {
    StorageClass { waits: told.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") }
}

/// Where a volume can be had: by its node affinity, and by its labels of zone and region.
///
/// # Errors
/// [`Refusal`].
pub fn volume(told: &PersistentVolume) -> Result<Places, Refusal> {
    let affinity = told.spec.as_ref().and_then(|s| s.node_affinity.as_ref());
    let mut places = Places::new();
    if let Some(required) = affinity.and_then(|a| a.required.as_ref()) {
        places.push(required.node_selector_terms.iter().map(node_term).collect::<Result<_, _>>()?);
    }
    let labels = told.metadata.labels.iter().flatten();
    places.extend(labels.filter_map(|(key, value)| place(key, value)));
    Ok(places)
}

/// What a label of a volume says of nodes: those that say of themselves where they are, are there.
/// Several values have two underscores between them.
fn place(key: &str, value: &str) -> Option<Vec<Term>> {
    let (key, other) = PLACES.iter().find(|(known, _)| *known == key)?;
    let values: Vec<String> = value.split("__").map(|one| one.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) {
        return None;
    }
    let absent = |key: &str| Expression {
        key: key.to_owned(),
        operator: Operator::DoesNotExist,
        values: Vec::new(),
    };
    let nowhere = Term { all: PLACES.iter().map(|(key, _)| absent(key)).collect() };
    let mut terms = vec![nowhere, Term { all: vec![is_one_of(key, values.clone())] }];
    let other = other.map(|other| Term { all: vec![absent(key), is_one_of(other, values)] });
    terms.extend(other);
    Some(terms)
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

/// What keeps pods with a claim for one pod at a time from each other: a label of each, and a term
/// that keeps away from whoever has it, wherever that is.
pub(super) fn alone(
    namespace: &str,
    claims: &[String],
    context: &Context,
) -> Vec<(String, JobTerm)> {
    let of = |name: &String| context.claims.get(&(namespace.to_owned(), name.clone()));
    let alone = claims.iter().filter(|name| of(name).is_some_and(|claim| claim.alone));
    let one = |name: &String| {
        let label = format!(".claim/{namespace}/{name}");
        let has = Expression { key: label.clone(), operator: Operator::Exists, values: Vec::new() };
        (label, JobTerm { key: EVERYWHERE.to_owned(), selector: Term { all: vec![has] } })
    };
    alone.map(one).collect()
}

/// Where the volumes of a pod let it be.
///
/// # Errors
/// What it has to wait for, in a sentence.
pub(super) fn reach(
    namespace: &str,
    claims: &[String],
    context: &Context,
) -> Result<Places, String> {
    let mut places = Places::new();
    for name in claims {
        let claim = context.claims.get(&(namespace.to_owned(), name.clone()));
        let claim = claim.ok_or_else(|| format!("persistentvolumeclaim \"{name}\" not found"))?;
        if claim.lost {
            let volume = claim.volume.as_deref().unwrap_or_default();
            return Err(format!(
                "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \
                 \"{volume}\""
            ));
        }
        if claim.leaving {
            return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
        }
        let Some(volume) = &claim.volume else {
            let class = claim.class.as_ref().and_then(|class| context.classes.get(class));
            if class.is_some_and(|class| class.waits) {
                let what = format!("the unbound volume of claim \"{name}\" (WaitForFirstConsumer)");
                return Err(Refusal { what }.to_string());
            }
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        };
        let own = context.volumes.get(volume);
        let own = own.ok_or_else(|| format!("persistentvolume \"{volume}\" not found"))?;
        places.extend(own.iter().cloned());
    }
    places.sort_unstable();
    places.dedup();
    Ok(places)
}
