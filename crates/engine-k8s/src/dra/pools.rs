//! Slices: pools, and what each node can reach of them.

use super::read::{Reach, Slice};
use muster_devices::Offer;
use muster_model::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A pool: its driver and its name.
type PoolKey = (Arc<str>, Arc<str>);

/// All slices, by pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools {
    slices: BTreeMap<String, Slice>,
    by_pool: BTreeMap<PoolKey, BTreeSet<String>>,
    /// Pools with something that only this node can reach.
    by_node: BTreeMap<String, BTreeSet<PoolKey>>,
    /// Of each pool the nodes that it is filed under.
    filed: BTreeMap<PoolKey, BTreeSet<String>>,
    /// Pools with something that several nodes may reach.
    wide: BTreeSet<PoolKey>,
    /// Of each node what it can reach, once it was asked.
    offers: BTreeMap<String, Arc<Offer>>,
}

/// Which nodes a change concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Concerned {
    Nodes(BTreeSet<String>),
    All,
}

fn key(slice: &Slice) -> PoolKey {
    (Arc::clone(&slice.driver), Arc::clone(&slice.pool))
}

impl Pools {
    /// Takes a slice in; the nodes that it concerns, none where it is as before.
    pub(super) fn set(&mut self, slice: Slice) -> Concerned {
        if self.slices.get(&slice.name) == Some(&slice) {
            return Concerned::Nodes(BTreeSet::new());
        }
        let before = self.remove(&slice.name);
        let pool = key(&slice);
        self.by_pool.entry(pool.clone()).or_default().insert(slice.name.clone());
        self.slices.insert(slice.name.clone(), slice);
        self.place(&pool);
        let now = self.concerned(&pool);
        self.forget(both(before, now))
    }

    /// Drops a slice; the nodes that it concerned.
    pub(super) fn remove(&mut self, name: &str) -> Concerned {
        let Some(slice) = self.slices.get(name) else { return Concerned::Nodes(BTreeSet::new()) };
        let pool = key(slice);
        let concerned = self.concerned(&pool);
        self.slices.remove(name);
        if let Some(slices) = self.by_pool.get_mut(&pool) {
            slices.remove(name);
            if slices.is_empty() {
                self.by_pool.remove(&pool);
            }
        }
        self.place(&pool);
        self.forget(concerned)
    }

    /// The names of all slices.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.slices.keys()
    }

    /// A node is another than before.
    pub(super) fn node_changed(&mut self, node: &str) {
        self.offers.remove(node);
    }

    /// The nodes that a pool's devices concern.
    pub(super) fn of_pool(&self, driver: &Arc<str>, pool: &Arc<str>) -> Concerned {
        self.concerned(&(Arc::clone(driver), Arc::clone(pool)))
    }

    /// Drops what was worked out for nodes.
    fn forget(&mut self, concerned: Concerned) -> Concerned {
        match &concerned {
            Concerned::All => self.offers.clear(),
            Concerned::Nodes(nodes) => nodes.iter().for_each(|n| drop(self.offers.remove(n))),
        }
        concerned
    }

    fn slices_of(&self, pool: &PoolKey) -> impl Iterator<Item = &Slice> {
        let names = self.by_pool.get(pool).into_iter().flatten();
        names.filter_map(|name| self.slices.get(name))
    }

    fn concerned(&self, pool: &PoolKey) -> Concerned {
        if self.wide.contains(pool) {
            return Concerned::All;
        }
        let nodes = self.slices_of(pool).flat_map(|slice| &slice.reach);
        Concerned::Nodes(nodes.filter_map(one_node).cloned().collect())
    }

    /// Files a pool under who can reach it.
    fn place(&mut self, pool: &PoolKey) {
        for node in self.filed.remove(pool).unwrap_or_default() {
            if let Some(pools) = self.by_node.get_mut(&node) {
                pools.remove(pool);
            }
        }
        self.wide.remove(pool);
        let reach = || self.slices_of(pool).flat_map(|slice| &slice.reach);
        let wide = reach().any(|one| matches!(one, Reach::Nodes(..) | Reach::All));
        let nodes: BTreeSet<String> = reach().filter_map(one_node).cloned().collect();
        for node in &nodes {
            self.by_node.entry(node.clone()).or_default().insert(pool.clone());
        }
        self.filed.insert(pool.clone(), nodes);
        if wide {
            self.wide.insert(pool.clone());
        }
    }

    /// What a node can reach.
    pub(super) fn offer(&mut self, node: &Node) -> Arc<Offer> {
        if let Some(known) = self.offers.get(&node.name) {
            return Arc::clone(known);
        }
        let mut offer = Offer::default();
        let own = self.by_node.get(&node.name).into_iter().flatten();
        let pools: BTreeSet<&PoolKey> = own.chain(&self.wide).collect();
        for pool in pools {
            self.add(&mut offer, pool, node);
        }
        let offer = Arc::new(offer);
        self.offers.insert(node.name.clone(), Arc::clone(&offer));
        offer
    }

    fn add(&self, offer: &mut Offer, pool: &PoolKey, node: &Node) {
        let slices = || self.slices_of(pool);
        if !slices().flat_map(|slice| &slice.reach).any(|one| reaches(one, node)) {
            return;
        }
        let newest = slices().map(|slice| slice.generation).max().unwrap_or(0);
        let current: Vec<&Slice> = slices().filter(|one| one.generation == newest).collect();
        let name = format!("{}/{}", pool.0, pool.1);
        if current.iter().any(|one| i64::try_from(current.len()) != Ok(one.count)) {
            let (there, count) = (current.len(), current.first().map_or(0, |one| one.count));
            offer.unknown.push(format!(
                "pool {name} is incomplete: {there} of {count} slices of generation {newest}"
            ));
            return;
        }
        let mut names = BTreeSet::new();
        let all = || current.iter().flat_map(|slice| &slice.devices);
        if let Some((twice, _)) = all().find(|(device, _)| !names.insert(&device.id.device)) {
            offer.unknown.push(format!("pool {name} has two devices {}", twice.id.device));
            return;
        }
        for (device, reach) in all() {
            if reaches(reach, node) {
                offer.devices.push(Arc::clone(device));
            } else if !device.consumes.is_empty() {
                offer.beside.push(Arc::clone(device));
            }
        }
        for slice in &current {
            for (set, counters) in &slice.counters {
                for (counter, amount) in counters {
                    let key = (pool.0.clone(), pool.1.clone(), set.clone(), counter.clone());
                    offer.counters.insert(key, *amount);
                }
            }
        }
    }

    /// Who can reach a device.
    pub(super) fn reach(&self, id: &muster_devices::DeviceId) -> Option<&Reach> {
        let pool = (Arc::clone(&id.driver), Arc::clone(&id.pool));
        let newest = self.slices_of(&pool).map(|slice| slice.generation).max()?;
        let current = self.slices_of(&pool).filter(|slice| slice.generation == newest);
        let mut devices = current.flat_map(|slice| &slice.devices);
        devices.find(|(device, _)| device.id == *id).map(|(_, reach)| reach)
    }
}

fn one_node(reach: &Reach) -> Option<&String> {
    match reach {
        Reach::Node(node) => Some(node),
        _ => None,
    }
}

fn reaches(reach: &Reach, node: &Node) -> bool {
    match reach {
        Reach::Node(name) => *name == node.name,
        Reach::Nodes(terms, _) => terms.iter().any(|term| term.holds_on(node)),
        Reach::All => true,
        Reach::Nobody => false,
    }
}

fn both(a: Concerned, b: Concerned) -> Concerned {
    match (a, b) {
        (Concerned::Nodes(mut a), Concerned::Nodes(b)) => {
            a.extend(b);
            Concerned::Nodes(a)
        }
        _ => Concerned::All,
    }
}
