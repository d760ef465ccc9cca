//! Devices, and what a node can reach of them.

use crate::quantity::Quantity;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Which device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId {
    /// Its driver.
    pub driver: Arc<str>,
    /// Its pool, unique within the driver.
    pub pool: Arc<str>,
    /// Its name, unique within the pool.
    pub device: Arc<str>,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

/// What is said of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// True or false.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// A semantic version.
    Version(String),
    /// Several values.
    Many(Vec<Attribute>),
}

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Nothing.
    None,
    /// It is given to nobody who does not tolerate it.
    NoSchedule,
    /// As `NoSchedule`; who has it already is evicted, by others.
    NoExecute,
}

/// A taint of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What it does.
    pub effect: Effect,
}

/// What a request tolerates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    /// The key; `None` is every key.
    pub key: Option<String>,
    /// The value; `None` is every value.
    pub value: Option<String>,
    /// The effect; `None` is every one.
    pub effect: Option<Effect>,
}

impl Toleration {
    fn covers(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

/// What a device takes of a set of counters of its pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Consumption {
    /// The set.
    pub set: String,
    /// So much of each counter.
    pub counters: BTreeMap<String, Quantity>,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Which.
    pub id: DeviceId,
    /// What is said of it, by full name (`domain/name`).
    pub attributes: BTreeMap<String, Attribute>,
    /// What it has, by full name.
    pub capacity: BTreeMap<String, Quantity>,
    /// What keeps others off.
    pub taints: Vec<Taint>,
    /// What it takes of its pool's counters while it is allocated.
    pub consumes: Vec<Consumption>,
    /// Several claims may have it at once.
    pub shared: bool,
    /// Why it is never given to anyone here: it has something that is not understood.
    pub unusable: Option<String>,
}

impl Device {
    /// True where none of its taints keeps those with these tolerations off.
    pub fn is_tolerated(&self, tolerations: &[Toleration]) -> bool {
        let mut taints = self.taints.iter().filter(|taint| taint.effect != Effect::None);
        taints.all(|taint| tolerations.iter().any(|one| one.covers(taint)))
    }
}

/// What a node can reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The devices of complete pools that it can reach.
    pub devices: Vec<Arc<Device>>,
    /// Devices of the same pools that it cannot reach, where they share counters with others.
    pub beside: Vec<Arc<Device>>,
    /// The counters of those pools: by driver, pool, set and counter.
    pub counters: BTreeMap<(Arc<str>, Arc<str>, String, String), Quantity>,
    /// Pools that are not known whole, or whose devices cannot be told apart, each with a sentence:
    /// nothing is taken from them, and nobody gets "all" while there is one.
    pub unknown: Vec<String>,
}
