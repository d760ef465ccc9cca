//! What a pod with claims needs of a node.

use super::ledger::Ledger;
use super::read::ClaimKey;
use super::write::Release;
use crate::read::PodKey;
use k8s_openapi::api::core::v1::Pod;
use muster_devices::Claim;
use muster_model::Term;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pods that may have a claim at once, as the API has it.
const RESERVED_MAX: usize = 256;

/// A number for what the claims of a pod ask for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShapeId(pub u32);

impl ShapeId {
    /// The countable resource of nodes that says how often it has devices for the shape.
    pub fn resource(self) -> String {
        format!("{}{}", super::COUNTED, self.0)
    }
}

/// What the claims of pods ask for together, and whose.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The claims.
    pub claims: Arc<[Claim]>,
    /// The pods.
    pub(super) users: BTreeSet<PodKey>,
}

/// What the claims of a pod add to what it asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// The pod's unique id.
    pub uid: String,
    /// Its claims.
    pub claims: Vec<ClaimKey>,
    /// What those ask for that have nothing yet.
    pub shape: Option<ShapeId>,
    /// Where those can be reached that have something: of each list one term holds.
    pub places: Vec<Vec<Term>>,
    /// Claims that other pods wait for as well, and that this one brings its devices.
    pub leads: Vec<ClaimKey>,
    /// Claims that another pod brings their devices: this one follows it to its node.
    pub follows: Vec<ClaimKey>,
    /// Why it cannot be scheduled yet.
    pub waits: Option<String>,
    /// Its claims have devices on its way to a node: all this stays as it is.
    pub(super) given: bool,
    /// So often no devices were found on a node that was chosen for it.
    pub(super) failed: u8,
}

/// The names of the claims of a pod.
///
/// # Errors
/// What it waits for, a sentence.
fn names(pod: &Pod) -> Result<Vec<(String, bool)>, String> {
    let said = pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_ref());
    let made = pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_ref());
    let mut names = Vec::new();
    for one in said.into_iter().flatten() {
        if let Some(name) = &one.resource_claim_name {
            names.push((name.clone(), false));
        } else if one.resource_claim_template_name.is_some() {
            let found = made.into_iter().flatten().find(|made| made.name == one.name);
            let Some(found) = found else {
                return Err(format!(
                    "waiting for the resource claim \"{}\" to be made from its template",
                    one.name
                ));
            };
            // Without a name there it needs none.
            names.extend(found.resource_claim_name.clone().map(|name| (name, true)));
        } else {
            return Err(format!(
                "resource claim \"{}\" has neither resourceClaimName nor \
                 resourceClaimTemplateName",
                one.name
            ));
        }
    }
    Ok(names)
}

impl Ledger {
    /// What a pod's claims add to it; `None` where it has none. `competes` where this scheduler has
    /// to find a node for it.
    pub fn overlay(&mut self, pod: &Pod, key: &PodKey, competes: bool) -> Option<Overlay> {
        let spec = pod.spec.as_ref()?;
        if spec.resource_claims.as_ref().is_none_or(Vec::is_empty) {
            self.forget(key);
            return None;
        }
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let known = self.overlays.get(key).filter(|known| known.uid == uid);
        if let Some(given) = known.filter(|known| known.given) {
            return Some(given.clone());
        }
        if !competes {
            self.forget(key);
            return None;
        }
        let failed = known.map_or(0, |known| known.failed);
        let mut overlay = Overlay { uid, failed, ..Overlay::default() };
        match names(pod) {
            Ok(names) => {
                let own = |name: &String| ClaimKey {
                    namespace: key.namespace.clone(),
                    name: name.clone(),
                };
                overlay.claims = names.iter().map(|(name, _)| own(name)).collect();
                overlay.claims.sort_unstable();
                overlay.claims.dedup();
                self.use_claims(key, &overlay.claims);
                let made: BTreeSet<ClaimKey> =
                    names.iter().filter(|one| one.1).map(|(name, _)| own(name)).collect();
                overlay.waits = self.fill(key, &mut overlay, &made).err();
            }
            Err(why) => {
                self.use_claims(key, &[]);
                overlay.waits = Some(why);
            }
        }
        if !self.is_served {
            overlay.waits =
                Some("resource claims are not served here (resource.k8s.io/v1)".to_owned());
        }
        if overlay.waits.is_some() {
            overlay = Overlay {
                shape: None,
                places: Vec::new(),
                leads: Vec::new(),
                follows: Vec::new(),
                ..overlay
            };
        } else if overlay.failed >= 2 && self.aside.contains(key) {
            overlay.waits = Some("cannot allocate all claims of it, or of its gang".to_owned());
        }
        self.use_shape(key, overlay.shape);
        self.overlays.insert(key.clone(), overlay.clone());
        Some(overlay)
    }

    fn fill(
        &mut self,
        key: &PodKey,
        overlay: &mut Overlay,
        made: &BTreeSet<ClaimKey>,
    ) -> Result<(), String> {
        let mut asks: Vec<Claim> = Vec::new();
        for name in &overlay.claims {
            let record = self.claims.get(name);
            let record =
                record.ok_or_else(|| format!("resourceclaim \"{}\" not found", name.name))?;
            let of = format!("resource claim \"{}\"", name.name);
            if made.contains(name) && record.owner.as_ref() != Some(&overlay.uid) {
                return Err(format!("{of} was not made for this pod"));
            }
            if record.leaving {
                return Err(format!("{of} is being deleted"));
            }
            if let Some(allocated) = self.allocated(name) {
                if record.reserved.len() >= RESERVED_MAX && !record.reserved.contains(&overlay.uid)
                {
                    return Err(format!("{of} is in use by {RESERVED_MAX} pods"));
                }
                overlay.places.extend(allocated.places.clone());
                continue;
            }
            let claim = record
                .asks
                .clone()
                .map_err(|what| format!("{of}: {}", crate::read::Refusal { what }))?;
            let alternatives = claim.requests.iter().flat_map(|request| &request.alternatives);
            for alternative in alternatives {
                let read = self.selectors.read(alternative, &self.selectors_of);
                read.map_err(|error| format!("{of}: {error}"))?;
            }
            let users = self.users.get(name);
            let shared = users.is_some_and(|users| users.len() > 1);
            if users.and_then(BTreeSet::first).is_some_and(|first| first != key) {
                overlay.follows.push(name.clone());
                continue;
            }
            if shared {
                overlay.leads.push(name.clone());
            }
            asks.push(Claim::clone(&claim));
        }
        if !asks.is_empty() {
            overlay.shape = Some(self.shape(asks));
        }
        Ok(())
    }

    /// Notes whose claims these are. Where a claim comes to be shared, or is not any more, the other
    /// pods are looked at again.
    fn use_claims(&mut self, pod: &PodKey, claims: &[ClaimKey]) {
        let before = self.names.remove(pod).unwrap_or_default();
        if before == claims {
            self.names.insert(pod.clone(), before);
            return;
        }
        for claim in before.iter().filter(|claim| !claims.contains(claim)) {
            if let Some(users) = self.users.get_mut(claim) {
                users.remove(pod);
                self.stale.extend(users.iter().cloned());
                if users.is_empty() {
                    self.users.remove(claim);
                }
            }
        }
        for claim in claims {
            let users = self.users.entry(claim.clone()).or_default();
            if users.insert(pod.clone()) && users.len() > 1 {
                self.stale.extend(users.iter().filter(|user| *user != pod).cloned());
            }
        }
        if !claims.is_empty() {
            self.names.insert(pod.clone(), claims.to_vec());
        }
    }

    /// The pods whose claims count for what they ask for.
    pub fn with_claims(&self) -> impl Iterator<Item = &PodKey> {
        self.overlays.keys()
    }

    /// Claims with devices that nobody but this waiting pod may use: it fits nowhere where those are,
    /// and may fit elsewhere without them.
    pub fn idle(&self, pod: &PodKey) -> Vec<Release> {
        let Some(overlay) = self.overlays.get(pod).filter(|one| !one.given) else {
            return Vec::new();
        };
        let claims = overlay.claims.iter().filter_map(|key| self.claims.get(key));
        let idle = claims.filter(|claim| {
            claim.allocated.as_ref().is_some_and(|allocated| allocated.places.is_some())
                && !claim.leaving
                && claim.reserved.iter().all(|user| *user == overlay.uid)
        });
        idle.map(|claim| Release {
            claim: claim.key.clone(),
            uid: claim.uid.clone(),
            version: claim.version.clone(),
        })
        .collect()
    }

    /// A pod is gone, or needs nothing any more.
    pub fn forget(&mut self, pod: &PodKey) {
        self.aside.remove(pod);
        if self.overlays.remove(pod).is_some() {
            self.use_claims(pod, &[]);
            self.use_shape(pod, None);
        }
    }

    /// The number of what these claims ask for.
    fn shape(&mut self, claims: Vec<Claim>) -> ShapeId {
        let claims: Arc<[Claim]> = claims.into();
        if let Some(id) = self.shape_ids.get(&claims) {
            return *id;
        }
        self.last_shape += 1;
        let id = ShapeId(self.last_shape);
        self.shape_ids.insert(Arc::clone(&claims), id);
        self.shapes.insert(id, Shape { claims, users: BTreeSet::new() });
        self.all_nodes = true;
        id
    }

    /// Notes which shape a pod has; one that nobody has is forgotten.
    fn use_shape(&mut self, pod: &PodKey, shape: Option<ShapeId>) {
        let before = self.last_of.get(pod).copied();
        if before != shape
            && let Some(id) = before
            && let Some(old) = self.shapes.get_mut(&id)
        {
            old.users.remove(pod);
            if old.users.is_empty()
                && let Some(old) = self.shapes.remove(&id)
            {
                self.shape_ids.remove(&old.claims);
                let of = (id, String::new())..(ShapeId(id.0 + 1), String::new());
                let of: Vec<_> = self.fits.range(of).map(|(key, _)| key.clone()).collect();
                for key in &of {
                    self.fits.remove(key);
                }
            }
        }
        match shape {
            Some(id) => {
                if let Some(shape) = self.shapes.get_mut(&id) {
                    shape.users.insert(pod.clone());
                }
                self.last_of.insert(pod.clone(), id);
            }
            None => drop(self.last_of.remove(pod)),
        }
    }
}
