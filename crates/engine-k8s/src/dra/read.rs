//! Objects of `resource.k8s.io/v1` in muster's words.

use crate::quantity::Quantity;
use crate::read::node_term;
use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::{
    AllocationResult, Device as ToldDevice, DeviceAttribute, DeviceClaim, DeviceClass,
    DeviceClassConfiguration, DeviceRequest, DeviceSelector, DeviceTaint, DeviceToleration,
    ResourceClaim, ResourceSlice,
};
use muster_devices::{
    Alternative, Attribute, Claim, Constraint, Consumption, Device, DeviceId, Effect, Mode,
    Request, Rule, Taint, Toleration,
};
use muster_model::Term;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keeps a claim from being deleted while it has devices.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// A namespace and a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl std::fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Who can reach devices.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// One node.
    Node(String),
    /// Nodes of which a term holds; the selector as it was told.
    Nodes(Vec<Term>, Box<NodeSelector>),
    /// Every node.
    All,
    /// It is not understood: nobody.
    Nobody,
}

/// A part of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Its name.
    pub name: String,
    /// The driver.
    pub driver: Arc<str>,
    /// The pool.
    pub pool: Arc<str>,
    /// Of slices of several generations only those of the newest count.
    pub generation: i64,
    /// So many slices make the pool.
    pub count: i64,
    /// The devices, each with who can reach it.
    pub devices: Vec<(Arc<Device>, Reach)>,
    /// Who can reach something of it.
    pub reach: Vec<Reach>,
    /// Sets of counters.
    pub counters: BTreeMap<String, BTreeMap<String, Quantity>>,
}

/// A class of devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    /// Its selectors.
    pub selectors: Vec<String>,
    /// What drivers are told of its devices.
    pub config: Vec<DeviceClassConfiguration>,
}

/// What a claim has.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocated {
    /// Devices that nobody else has.
    pub devices: Vec<DeviceId>,
    /// Where they can be reached: one of these holds; `None` is everywhere.
    pub places: Option<Vec<Term>>,
}

/// A claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimRecord {
    /// Its namespace and name.
    pub key: ClaimKey,
    /// Its unique id.
    pub uid: String,
    /// Its version.
    pub version: String,
    /// The pod that it was made for, by unique id.
    pub owner: Option<String>,
    /// It is being deleted.
    pub leaving: bool,
    /// It has the finalizer of those that have devices.
    pub is_kept: bool,
    /// What it asks for, or why that is not understood.
    pub asks: Result<Arc<Claim>, String>,
    /// The claim as it was told, where what is written needs more of it.
    pub raw: Option<Arc<DeviceClaim>>,
    /// What it has.
    pub allocated: Option<Allocated>,
    /// Who may use that, by unique id.
    pub reserved: Vec<String>,
}

/// A slice.
pub fn slice(told: &ResourceSlice) -> Slice {
    let spec = &told.spec;
    let (driver, pool): (Arc<str>, Arc<str>) =
        (spec.driver.as_str().into(), spec.pool.name.as_str().into());
    let of_all = reach(spec.node_name.as_ref(), spec.node_selector.as_ref(), spec.all_nodes);
    let devices: Vec<(Arc<Device>, Reach)> = spec
        .devices
        .iter()
        .flatten()
        .map(|one| {
            let own = match spec.per_device_node_selection {
                Some(true) => {
                    reach(one.node_name.as_ref(), one.node_selector.as_ref(), one.all_nodes)
                }
                _ => of_all.clone(),
            };
            (Arc::new(device(one, &driver, &pool)), own)
        })
        .collect();
    let mut reach = vec![of_all];
    if spec.per_device_node_selection == Some(true) {
        reach = devices.iter().map(|one| one.1.clone()).collect();
    }
    let counters = spec.shared_counters.iter().flatten().map(|set| {
        let counters = set.counters.iter().filter_map(|(name, counter)| {
            Some((name.clone(), Quantity::parse(&counter.value.0).ok()?))
        });
        (set.name.clone(), counters.collect())
    });
    Slice {
        name: told.metadata.name.clone().unwrap_or_default(),
        generation: spec.pool.generation,
        count: spec.pool.resource_slice_count,
        counters: counters.collect(),
        driver,
        pool,
        devices,
        reach,
    }
}

fn reach(node: Option<&String>, selector: Option<&NodeSelector>, all: Option<bool>) -> Reach {
    match (node, selector, all) {
        (Some(node), ..) => Reach::Node(node.clone()),
        (None, Some(selector), _) => match terms(selector) {
            Some(terms) => Reach::Nodes(terms, Box::new(selector.clone())),
            None => Reach::Nobody,
        },
        (None, None, Some(true)) => Reach::All,
        (None, None, _) => Reach::Nobody,
    }
}

/// The terms of a selector; `None` where it is not understood.
fn terms(selector: &NodeSelector) -> Option<Vec<Term>> {
    selector.node_selector_terms.iter().map(|term| node_term(term).ok()).collect()
}

fn device(told: &ToldDevice, driver: &Arc<str>, pool: &Arc<str>) -> Device {
    let mut unusable = None;
    let mut not = |why: &str| {
        unusable.get_or_insert_with(|| why.to_owned());
    };
    if told.allow_multiple_allocations == Some(true) {
        not("several claims may have it at once");
    }
    if told.binding_conditions.as_ref().is_some_and(|all| !all.is_empty()) {
        not("it has binding conditions");
    }
    if told.node_allocatable_resource_mappings.as_ref().is_some_and(|all| !all.is_empty()) {
        not("it counts as other resources of its node");
    }
    let mut attributes = BTreeMap::new();
    for (name, value) in told.attributes.iter().flatten() {
        match attribute(value) {
            Some(value) => drop(attributes.insert(full(driver, name), value)),
            None => not("it has an attribute that is not understood"),
        }
    }
    let mut capacity = BTreeMap::new();
    for (name, has) in told.capacity.iter().flatten() {
        match Quantity::parse(&has.value.0) {
            Ok(amount) => drop(capacity.insert(full(driver, name), amount)),
            Err(_) => not("it has a capacity that is no quantity"),
        }
    }
    let mut consumes = Vec::new();
    for part in told.consumes_counters.iter().flatten() {
        let mut counters = BTreeMap::new();
        for (name, counter) in &part.counters {
            match Quantity::parse(&counter.value.0) {
                Ok(amount) => drop(counters.insert(name.clone(), amount)),
                Err(_) => not("it takes of a counter what is no quantity"),
            }
        }
        consumes.push(Consumption { set: part.counter_set.clone(), counters });
    }
    Device {
        id: DeviceId {
            driver: Arc::clone(driver),
            pool: Arc::clone(pool),
            device: told.name.as_str().into(),
        },
        attributes,
        capacity,
        taints: told.taints.iter().flatten().map(taint).collect(),
        consumes,
        shared: told.allow_multiple_allocations == Some(true),
        unusable,
    }
}

/// A name without a domain is of the driver's.
fn full(driver: &str, name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("{driver}/{name}") }
}

fn attribute(told: &DeviceAttribute) -> Option<Attribute> {
    let one = told
        .bool
        .map(Attribute::Bool)
        .or_else(|| told.int.map(Attribute::Int))
        .or_else(|| told.string.clone().map(Attribute::Text))
        .or_else(|| told.version.clone().map(Attribute::Version));
    let many = || {
        let texts = |all: &Vec<String>, of: fn(String) -> Attribute| {
            Attribute::Many(all.iter().cloned().map(of).collect())
        };
        let bools = |all: &Vec<bool>| all.iter().copied().map(Attribute::Bool).collect();
        let ints = |all: &Vec<i64>| all.iter().copied().map(Attribute::Int).collect();
        (told.bools.as_ref().map(|all| Attribute::Many(bools(all))))
            .or_else(|| told.ints.as_ref().map(|all| Attribute::Many(ints(all))))
            .or_else(|| told.strings.as_ref().map(|all| texts(all, Attribute::Text)))
            .or_else(|| told.versions.as_ref().map(|all| texts(all, Attribute::Version)))
    };
    one.or_else(many)
}

fn effect(told: &str) -> Effect {
    match told {
        "None" => Effect::None,
        "NoExecute" => Effect::NoExecute,
        // One that is not known keeps off rather than not.
        _ => Effect::NoSchedule,
    }
}

fn taint(told: &DeviceTaint) -> Taint {
    Taint {
        key: told.key.clone(),
        value: told.value.clone().unwrap_or_default(),
        effect: effect(&told.effect),
    }
}

fn toleration(told: &DeviceToleration) -> Toleration {
    let exists = told.operator.as_deref() == Some("Exists");
    Toleration {
        key: told.key.clone().filter(|key| !key.is_empty()),
        value: (!exists).then(|| told.value.clone().unwrap_or_default()),
        effect: told.effect.as_deref().filter(|e| !e.is_empty()).map(effect),
    }
}

/// What matters of a class.
pub fn class(told: &DeviceClass) -> Class {
    let selectors = selectors(told.spec.selectors.as_deref());
    // A selector of another kind than CEL: nothing can be said of it.
    let selectors = selectors.unwrap_or_else(|| vec!["selector of an unknown kind".to_owned()]);
    Class { selectors, config: told.spec.config.clone().unwrap_or_default() }
}

fn selectors(told: Option<&[DeviceSelector]>) -> Option<Vec<String>> {
    told.unwrap_or_default().iter().map(|one| Some(one.cel.as_ref()?.expression.clone())).collect()
}

/// What matters of a claim.
pub fn resource_claim(told: &ResourceClaim) -> ClaimRecord {
    let meta = &told.metadata;
    let status = told.status.as_ref();
    let devices = told.spec.devices.as_ref();
    let asks = devices.map_or_else(|| Ok(Claim::default()), asks).map(Arc::new);
    let tolerates = |request: &DeviceRequest| {
        let exactly = request.exactly.as_ref().and_then(|one| one.tolerations.as_ref());
        let others = request.first_available.iter().flatten();
        exactly.is_some() || others.into_iter().any(|one| one.tolerations.is_some())
    };
    let is_needed = |claim: &&DeviceClaim| {
        claim.config.as_ref().is_some_and(|all| !all.is_empty())
            || claim.requests.iter().flatten().any(tolerates)
    };
    let owner = meta.owner_references.iter().flatten();
    let mut owner = owner.filter(|one| one.kind == "Pod" && one.controller == Some(true));
    let reserved = status.and_then(|s| s.reserved_for.as_ref()).into_iter().flatten();
    ClaimRecord {
        key: ClaimKey {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        },
        uid: meta.uid.clone().unwrap_or_default(),
        version: meta.resource_version.clone().unwrap_or_default(),
        owner: owner.next().map(|one| one.uid.clone()),
        leaving: meta.deletion_timestamp.is_some(),
        is_kept: meta.finalizers.iter().flatten().any(|one| one == FINALIZER),
        asks,
        raw: devices.filter(is_needed).map(|claim| Arc::new(claim.clone())),
        allocated: status.and_then(|s| s.allocation.as_ref()).map(allocated),
        reserved: reserved.map(|one| one.uid.clone()).collect(),
    }
}

fn allocated(told: &AllocationResult) -> Allocated {
    let results = told.devices.as_ref().and_then(|d| d.results.as_ref()).into_iter().flatten();
    let own = results.filter(|one| one.admin_access != Some(true)).map(|one| DeviceId {
        driver: one.driver.as_str().into(),
        pool: one.pool.as_str().into(),
        device: one.device.as_str().into(),
    });
    Allocated {
        devices: own.collect(),
        // What is not understood is nowhere.
        places: told.node_selector.as_ref().map(|selector| terms(selector).unwrap_or_default()),
    }
}

fn asks(told: &DeviceClaim) -> Result<Claim, String> {
    let requests = told.requests.iter().flatten().map(request).collect::<Result<_, _>>()?;
    let constraints = told.constraints.iter().flatten().map(|one| {
        let rule = match (&one.match_attribute, &one.distinct_attribute) {
            (Some(name), None) => Rule::Match(name.clone()),
            (None, Some(name)) => Rule::Distinct(name.clone()),
            _ => return Err("a constraint that is neither matchAttribute nor distinctAttribute"),
        };
        Ok(Constraint { requests: one.requests.clone().unwrap_or_default(), rule })
    });
    Ok(Claim { requests, constraints: constraints.collect::<Result<_, _>>()? })
}

fn request(told: &DeviceRequest) -> Result<Request, String> {
    let name = &told.name;
    let mut alternatives = Vec::new();
    if let Some(one) = &told.exactly {
        if one.capacity.is_some() {
            return Err(format!("request \"{name}\": a part of a device's capacity"));
        }
        alternatives.push(Alternative {
            name: name.clone(),
            class: one.device_class_name.clone(),
            selectors: selectors(one.selectors.as_deref()).ok_or_else(|| kind(name))?,
            mode: mode(name, one.allocation_mode.as_deref(), one.count)?,
            admin: one.admin_access == Some(true),
            tolerations: one.tolerations.iter().flatten().map(toleration).collect(),
        });
    }
    for one in told.first_available.iter().flatten() {
        let name = format!("{name}/{}", one.name);
        if one.capacity.is_some() {
            return Err(format!("request \"{name}\": a part of a device's capacity"));
        }
        alternatives.push(Alternative {
            class: one.device_class_name.clone(),
            selectors: selectors(one.selectors.as_deref()).ok_or_else(|| kind(&name))?,
            mode: mode(&name, one.allocation_mode.as_deref(), one.count)?,
            admin: false,
            tolerations: one.tolerations.iter().flatten().map(toleration).collect(),
            name,
        });
    }
    if alternatives.is_empty() {
        return Err(format!("request \"{name}\": neither exactly nor firstAvailable"));
    }
    Ok(Request { name: name.clone(), alternatives })
}

fn kind(request: &str) -> String {
    format!("request \"{request}\": a selector of another kind than CEL")
}

fn mode(request: &str, mode: Option<&str>, count: Option<i64>) -> Result<Mode, String> {
    match mode.unwrap_or("ExactCount") {
        "" | "ExactCount" => match u32::try_from(count.unwrap_or(1)) {
            Ok(count @ 1..=32) => Ok(Mode::Count(count)),
            _ => Err(format!(
                "request \"{request}\": {} devices (1 to 32 can be allocated to a claim)",
                count.unwrap_or(1)
            )),
        },
        "All" => Ok(Mode::All),
        other => Err(format!("request \"{request}\": allocation mode `{other}`")),
    }
}

/// The tolerations of an alternative as they were told.
pub(super) fn tolerations(raw: &DeviceClaim, name: &str) -> Option<Vec<DeviceToleration>> {
    let of = name.split_once('/');
    raw.requests.iter().flatten().find_map(|request| match of {
        None if request.name == name => request.exactly.as_ref()?.tolerations.clone(),
        Some((own, part)) if request.name == own => {
            let mut parts = request.first_available.iter().flatten();
            parts.find(|one| one.name == part)?.tolerations.clone()
        }
        _ => None,
    })
}
