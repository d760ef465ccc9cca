//! Who has which devices: what the API server tells, and what is on its way there.

use super::Told;
use super::pods::{Overlay, Shape, ShapeId};
use super::pools::{Concerned, Pools};
use super::read::{Allocated, ClaimKey, ClaimRecord, Class};
use super::result::allocation;
use super::write::Reserve;
use crate::mirror::Kind;
use crate::read::PodKey;
use muster_devices::{Claim, DeviceId, Fit, Refusal, SelectorError, Selectors, allocate, capacity};
use muster_model::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Devices that were given and that the API server may not know of yet.
#[derive(Clone, Debug)]
struct Assumed {
    /// The claim's unique id.
    uid: String,
    allocated: Allocated,
    /// As it is written.
    told: serde_json::Value,
    /// The version of the claim that has it, once it is written.
    written: Option<u128>,
    /// So many pods' writes of it are on their way.
    on_its_way: u32,
}

/// What became of a claim that was to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// It was, and has this version now.
    Yes(String),
    /// It was not.
    No,
    /// It was not; it is this.
    Other(Box<ClaimRecord>),
    /// Nobody knows.
    Unknown,
}

/// Devices and claims of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The API server has `resource.k8s.io/v1`.
    pub(super) is_served: bool,
    pools: Pools,
    classes: BTreeMap<String, Class>,
    /// The selectors of each class.
    pub(super) selectors_of: BTreeMap<String, Vec<String>>,
    pub(super) selectors: Selectors,
    pub(super) claims: BTreeMap<ClaimKey, ClaimRecord>,
    /// What claims ask for, each text once.
    asks: BTreeSet<Arc<Claim>>,
    assumed: BTreeMap<ClaimKey, Assumed>,
    /// How many claims have a device, told or assumed.
    holders: BTreeMap<DeviceId, u32>,
    /// The pods that wait with a claim.
    pub(super) users: BTreeMap<ClaimKey, BTreeSet<PodKey>>,
    pub(super) names: BTreeMap<PodKey, Vec<ClaimKey>>,
    pub(super) overlays: BTreeMap<PodKey, Overlay>,
    pub(super) shapes: BTreeMap<ShapeId, Shape>,
    pub(super) shape_ids: BTreeMap<Arc<[Claim]>, ShapeId>,
    pub(super) last_shape: u32,
    pub(super) last_of: BTreeMap<PodKey, ShapeId>,
    /// Which devices of a node may serve a shape, once it was asked.
    pub(super) fits: BTreeMap<(ShapeId, String), Arc<Result<Fit, SelectorError>>>,
    /// Pods that are to be read again.
    pub(super) stale: BTreeSet<PodKey>,
    /// Pods for which no devices were found where there should have been: they wait until something
    /// is given back.
    pub(super) aside: BTreeSet<PodKey>,
    /// Nodes whose devices are to be counted again.
    nodes: BTreeSet<String>,
    pub(super) all_nodes: bool,
}

impl Ledger {
    /// Something of `resource.k8s.io/v1` was told: there is such a thing here.
    fn serve(&mut self) {
        if !std::mem::replace(&mut self.is_served, true) {
            self.stale.extend(self.overlays.keys().cloned());
        }
    }

    /// Takes in what was told.
    pub fn take(&mut self, told: Told) {
        self.serve();
        match told {
            Told::Slice(slice) => {
                let concerned = self.pools.set(*slice);
                self.changed(concerned);
            }
            Told::Class(name, class) => self.set_class(name, Some(*class)),
            Told::Claim(claim) => self.set_claim(*claim),
        }
    }

    /// An object is gone.
    pub fn gone(&mut self, kind: Kind, namespace: &str, name: &str) {
        match kind {
            Kind::Slice => {
                let concerned = self.pools.remove(name);
                self.changed(concerned);
            }
            Kind::DeviceClass => self.set_class(name.to_owned(), None),
            Kind::ResourceClaim => {
                let (namespace, name) = (namespace.to_owned(), name.to_owned());
                self.remove_claim(&ClaimKey { namespace, name });
            }
            _ => {}
        }
    }

    /// After a listing: what it lacks is gone.
    pub fn listed(&mut self, kind: Kind, names: &BTreeSet<(String, String)>) {
        let lacks =
            |namespace: &str, name: &str| !names.contains(&(namespace.to_owned(), name.to_owned()));
        let gone: Vec<(String, String)> = match kind {
            Kind::Slice => {
                let known = self.pools.names().filter(|name| lacks("", name));
                known.map(|name| (String::new(), name.clone())).collect()
            }
            Kind::DeviceClass => {
                let known = self.classes.keys().filter(|name| lacks("", name));
                known.map(|name| (String::new(), name.clone())).collect()
            }
            Kind::ResourceClaim => {
                let known = self.claims.keys().filter(|key| lacks(&key.namespace, &key.name));
                known.map(|key| (key.namespace.clone(), key.name.clone())).collect()
            }
            _ => return,
        };
        self.serve();
        for (namespace, name) in gone {
            self.gone(kind, &namespace, &name);
        }
        if kind == Kind::ResourceClaim {
            // What nobody writes any more and what is not there was never written.
            let idle = self.assumed.iter().filter(|(_, one)| one.on_its_way == 0);
            let idle: Vec<ClaimKey> = idle.map(|(key, _)| key.clone()).collect();
            for key in &idle {
                self.drop_assumed(key);
            }
        }
    }

    /// Nodes whose devices are to be counted again: `None` is all of them.
    pub fn take_nodes(&mut self) -> Option<BTreeSet<String>> {
        let nodes = std::mem::take(&mut self.nodes);
        match std::mem::take(&mut self.all_nodes) {
            true => None,
            false => Some(nodes),
        }
    }

    /// Pods that are to be read again.
    pub fn take_stale(&mut self) -> BTreeSet<PodKey> {
        std::mem::take(&mut self.stale)
    }

    /// A node is another than before.
    pub fn node_changed(&mut self, node: &str) {
        self.pools.node_changed(node);
        self.forget_fits(node);
        self.nodes.insert(node.to_owned());
    }

    fn forget_fits(&mut self, node: &str) {
        for shape in self.shapes.keys() {
            self.fits.remove(&(*shape, node.to_owned()));
        }
    }

    /// How often there are devices on a node for each shape that pods wait with or have.
    pub fn count(&mut self, node: &Node) -> Vec<(ShapeId, u64)> {
        if self.shapes.is_empty() {
            return Vec::new();
        }
        let shapes: Vec<(ShapeId, Arc<[Claim]>)> =
            self.shapes.iter().map(|(id, shape)| (*id, Arc::clone(&shape.claims))).collect();
        let offer = self.pools.offer(node);
        let mut counts = Vec::with_capacity(shapes.len());
        for (id, claims) in shapes {
            let fit = self.fit(id, node, &claims);
            let taken = |device: &DeviceId| self.holders.contains_key(device);
            let count = match fit.as_ref() {
                Ok(fit) => capacity(&offer, &claims, fit, taken),
                Err(_) => 0,
            };
            counts.push((id, u64::from(count)));
        }
        counts
    }

    fn fit(
        &mut self,
        shape: ShapeId,
        node: &Node,
        claims: &[Claim],
    ) -> Arc<Result<Fit, SelectorError>> {
        let key = (shape, node.name.clone());
        if let Some(known) = self.fits.get(&key) {
            return Arc::clone(known);
        }
        let offer = self.pools.offer(node);
        let fit = Arc::new(self.selectors.fit(&offer, claims, &self.selectors_of));
        self.fits.insert(key, Arc::clone(&fit));
        fit
    }

    /// What a claim has, or is about to have.
    pub(super) fn allocated(&self, claim: &ClaimKey) -> Option<&Allocated> {
        let told = self.claims.get(claim)?;
        let assumed = self.assumed.get(claim).filter(|one| one.uid == told.uid);
        told.allocated.as_ref().or(assumed.map(|one| &one.allocated))
    }

    /// Gives the claims of a pod devices of this node. They are nobody else's from here on.
    ///
    /// # Errors
    /// Why there are none, a sentence.
    pub fn give(&mut self, pod: &PodKey, node: &Node) -> Result<Vec<Reserve>, String> {
        let Some(overlay) = self.overlays.get(pod).cloned() else { return Ok(Vec::new()) };
        let (mut lacking, mut there) = (Vec::new(), Vec::new());
        for key in &overlay.claims {
            let claim = self.claims.get(key).filter(|claim| !claim.leaving);
            let claim = claim.ok_or_else(|| format!("resourceclaim \"{}\" not found", key.name))?;
            match self.allocated(key) {
                Some(allocated) => {
                    let here = allocated.places.as_ref();
                    if here.is_some_and(|terms| !terms.iter().any(|term| term.holds_on(node))) {
                        return Err(format!("the devices of {key} are elsewhere"));
                    }
                    there.push(key.clone());
                }
                None => lacking.push((key.clone(), claim.asks.clone()?)),
            }
        }
        let mut writes: Vec<Reserve> = Vec::new();
        if !lacking.is_empty() {
            writes.extend(self.choose(node, &lacking)?);
        }
        for key in there {
            writes.extend(self.reserve(&key, &overlay.uid));
        }
        if let Some(overlay) = self.overlays.get_mut(pod) {
            overlay.given = true;
        }
        Ok(writes)
    }

    fn choose(
        &mut self,
        node: &Node,
        lacking: &[(ClaimKey, Arc<Claim>)],
    ) -> Result<Vec<Reserve>, String> {
        let claims: Vec<Claim> = lacking.iter().map(|(_, claim)| Claim::clone(claim)).collect();
        let fit = match self.shape_ids.get(claims.as_slice()).copied() {
            Some(shape) => self.fit(shape, node, &claims),
            None => {
                let offer = self.pools.offer(node);
                Arc::new(self.selectors.fit(&offer, &claims, &self.selectors_of))
            }
        };
        let fit = fit.as_ref().as_ref().map_err(ToString::to_string)?;
        let offer = self.pools.offer(node);
        let taken = |device: &DeviceId| self.holders.contains_key(device);
        let grants = allocate(&offer, &claims, fit, taken)
            .map_err(|refusal: Refusal| refusal.to_string())?;
        let mut writes = Vec::new();
        for ((key, claim), grants) in lacking.iter().zip(grants) {
            let Some(record) = self.claims.get(key) else { continue };
            let reach = |device: &DeviceId| self.pools.reach(device);
            let (told, allocated) = allocation(record, claim, &grants, &self.classes, reach, node);
            let assumed =
                Assumed { uid: record.uid.clone(), allocated, told, written: None, on_its_way: 0 };
            self.assume(key, assumed);
            writes.extend(self.reserve(key, ""));
        }
        Ok(writes)
    }

    fn assume(&mut self, key: &ClaimKey, assumed: Assumed) {
        for device in &assumed.allocated.devices {
            *self.holders.entry(device.clone()).or_default() += 1;
            let concerned = self.pools.of_pool(&device.driver, &device.pool);
            self.count_again(concerned);
        }
        self.assumed.insert(key.clone(), assumed);
        self.users_are_stale(key);
    }

    /// What is written of a claim so that the pod with this id may use it; `None` where it may.
    fn reserve(&mut self, key: &ClaimKey, uid: &str) -> Option<Reserve> {
        let claim = self.claims.get(key)?;
        let assumed = self.assumed.get_mut(key).filter(|one| one.uid == claim.uid);
        if claim.allocated.is_some() && claim.reserved.iter().any(|one| one == uid) {
            return None;
        }
        let allocation = assumed.map(|one| {
            one.on_its_way += 1;
            one.told.clone()
        });
        Some(Reserve {
            claim: key.clone(),
            uid: claim.uid.clone(),
            version: claim.version.clone(),
            is_kept: claim.is_kept,
            allocation: allocation.filter(|_| claim.allocated.is_none()),
        })
    }

    /// What was given a pod is given back: nothing of it was written.
    pub fn take_back(&mut self, pod: &PodKey, given: &[Reserve]) {
        for one in given.iter().filter(|one| one.allocation.is_some()) {
            self.settle(&one.claim, Written::No);
        }
        self.not_given(pod);
    }

    /// A pod did not get to its node: what it needs is worked out anew.
    pub fn not_given(&mut self, pod: &PodKey) {
        if let Some(overlay) = self.overlays.get_mut(pod) {
            overlay.given = false;
            self.stale.insert(pod.clone());
        }
    }

    /// No devices were found for a pod where there should have been some. Once that may be the work
    /// of others; after that it waits until something is given back.
    pub fn failed(&mut self, pod: &PodKey) {
        let Some(overlay) = self.overlays.get_mut(pod) else { return };
        overlay.failed = overlay.failed.saturating_add(1);
        if overlay.failed >= 2 {
            self.aside.insert(pod.clone());
        }
        self.stale.insert(pod.clone());
    }

    /// What became of claims that were written.
    pub fn settle(&mut self, claim: &ClaimKey, written: Written) {
        let mut others = false;
        if let Some(assumed) = self.assumed.get_mut(claim) {
            assumed.on_its_way = assumed.on_its_way.saturating_sub(1);
            others = assumed.on_its_way > 0 || assumed.written.is_some();
        }
        match written {
            Written::Yes(version) => {
                let newer = self.claims.get(claim).is_some_and(|told| {
                    told.allocated.is_none() && is_after(&told.version, number(&version))
                });
                if let Some(assumed) = self.assumed.get_mut(claim) {
                    assumed.written = number(&version);
                }
                if newer {
                    self.drop_assumed(claim);
                }
            }
            Written::No if others => {}
            Written::No => self.drop_assumed(claim),
            Written::Other(record) => {
                // Where it has something, that counts from here on.
                if record.allocated.is_none() && !others {
                    self.drop_assumed(claim);
                }
                self.set_claim(*record);
            }
            Written::Unknown => {}
        }
    }

    fn drop_assumed(&mut self, claim: &ClaimKey) {
        let Some(assumed) = self.assumed.remove(claim) else { return };
        self.give_back(&assumed.allocated);
        self.users_are_stale(claim);
    }

    fn give_back(&mut self, allocated: &Allocated) {
        for device in &allocated.devices {
            let left = match self.holders.get_mut(device) {
                Some(holders) => {
                    *holders = holders.saturating_sub(1);
                    *holders
                }
                None => 0,
            };
            if left == 0 {
                self.holders.remove(device);
                let concerned = self.pools.of_pool(&device.driver, &device.pool);
                self.count_again(concerned);
                self.freed();
            }
        }
    }

    /// Something is to be had that was not before.
    fn freed(&mut self) {
        for pod in std::mem::take(&mut self.aside) {
            if let Some(overlay) = self.overlays.get_mut(&pod) {
                overlay.failed = 0;
            }
            self.stale.insert(pod);
        }
    }

    fn users_are_stale(&mut self, claim: &ClaimKey) {
        self.stale.extend(self.users.get(claim).into_iter().flatten().cloned());
    }

    fn count_again(&mut self, concerned: Concerned) {
        match concerned {
            Concerned::All => self.all_nodes = true,
            Concerned::Nodes(nodes) => self.nodes.extend(nodes),
        }
    }

    /// Devices of these nodes are others than before.
    fn changed(&mut self, concerned: Concerned) {
        match &concerned {
            Concerned::All => self.fits.clear(),
            Concerned::Nodes(nodes) if nodes.is_empty() => return,
            Concerned::Nodes(nodes) => {
                for node in nodes {
                    self.forget_fits(node);
                }
            }
        }
        self.count_again(concerned);
        self.freed();
    }

    fn set_class(&mut self, name: String, class: Option<Class>) {
        if self.classes.get(&name) == class.as_ref() {
            return;
        }
        match class {
            Some(class) => {
                self.selectors_of.insert(name.clone(), class.selectors.clone());
                self.classes.insert(name, class);
            }
            None => {
                self.selectors_of.remove(&name);
                self.classes.remove(&name);
            }
        }
        self.selectors.clear();
        self.changed(Concerned::All);
        self.stale.extend(self.overlays.keys().cloned());
    }

    fn set_claim(&mut self, mut record: ClaimRecord) {
        let key = record.key.clone();
        if let Ok(asks) = &mut record.asks {
            match self.asks.get(asks) {
                Some(known) => *asks = Arc::clone(known),
                None => drop(self.asks.insert(Arc::clone(asks))),
            }
        }
        let old = self.claims.insert(key.clone(), record.clone());
        // What is told again is held before it is given back, so that nothing is free in between.
        for device in record.allocated.iter().flat_map(|allocated| &allocated.devices) {
            *self.holders.entry(device.clone()).or_default() += 1;
        }
        let is_new = old.as_ref().is_none_or(|old| old.allocated != record.allocated);
        if let Some(assumed) = self.assumed.get(&key) {
            let stands = assumed.uid == record.uid
                && record.allocated.is_none()
                && !(assumed.written.is_some() && is_after(&record.version, assumed.written));
            if !stands {
                self.drop_assumed(&key);
            }
        }
        if let Some(allocated) = old.as_ref().and_then(|old| old.allocated.as_ref()) {
            self.give_back(allocated);
        }
        if is_new && let Some(allocated) = &record.allocated {
            for device in &allocated.devices {
                let concerned = self.pools.of_pool(&device.driver, &device.pool);
                self.count_again(concerned);
            }
        }
        let same = old.is_some_and(|old| {
            ClaimRecord { version: String::new(), ..old }
                == ClaimRecord { version: String::new(), ..record }
        });
        if !same {
            self.users_are_stale(&key);
        }
    }

    fn remove_claim(&mut self, key: &ClaimKey) {
        let Some(old) = self.claims.remove(key) else { return };
        self.drop_assumed(key);
        if let Some(allocated) = &old.allocated {
            self.give_back(allocated);
        }
        if let Ok(asks) = old.asks
            // The set and this one.
            && Arc::strong_count(&asks) <= 2
        {
            self.asks.remove(&asks);
        }
        self.users_are_stale(key);
    }

    /// The first thing that keeps every device of a shape from being looked at.
    pub fn complaint(&self, pod: &PodKey) -> Option<String> {
        let shape = self.overlays.get(pod)?.shape?;
        let mut of = self.fits.range((shape, String::new())..).take_while(|one| one.0.0 == shape);
        of.find_map(|(_, fit)| fit.as_ref().as_ref().err()).map(ToString::to_string)
    }

    /// Devices that two claims have: there are none.
    pub fn given_twice(&self) -> Vec<DeviceId> {
        let mut seen = BTreeSet::new();
        let told =
            self.claims.iter().filter_map(|(key, claim)| Some((key, claim.allocated.as_ref()?)));
        let assumed = self.assumed.iter().map(|(key, one)| (key, &one.allocated));
        let all: BTreeMap<&ClaimKey, &Allocated> = assumed.chain(told).collect();
        let devices = all.into_values().flat_map(|allocated| &allocated.devices);
        devices.filter(|device| !seen.insert(*device)).cloned().collect()
    }
}

fn number(version: &str) -> Option<u128> {
    version.parse().ok()
}

/// True where a version is surely later than another.
fn is_after(version: &str, other: Option<u128>) -> bool {
    match (number(version), other) {
        (Some(one), Some(other)) => one > other,
        _ => false,
    }
}
