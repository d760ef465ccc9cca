//! What counts as one place: a node, a domain of a level, the value of a label.

use crate::world::World;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use crate::topology::NONE;

/// So many keys are kept at once: users name them.
const KEPT: usize = 64;

/// The places under one key. Reads as a list: by node, the number of its place, [`NONE`] where it
/// has none.
#[derive(Debug, Default)]
pub(crate) struct Places {
    numbers: Vec<u32>,
    nodes: Vec<Vec<usize>>,
}

impl Places {
    fn new(numbers: Vec<u32>) -> Self {
        let mut nodes: Vec<Vec<usize>> = Vec::new();
        for (node, number) in numbers.iter().enumerate().filter(|(_, number)| **number != NONE) {
            let place = *number as usize;
            if nodes.len() <= place {
                nodes.resize_with(place + 1, Vec::new);
            }
            nodes[place].push(node);
        }
        Self { numbers, nodes }
    }

    /// The nodes of a place, ascending.
    pub(crate) fn nodes_of(&self, place: u32) -> &[usize] {
        self.nodes.get(place as usize).map_or(&[], Vec::as_slice)
    }

    /// Every place that has a node, with its nodes.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u32, &[usize])> {
        let all = self.nodes.iter().enumerate().filter(|(_, nodes)| !nodes.is_empty());
        all.map(|(place, nodes)| (place as u32, nodes.as_slice()))
    }
}

impl Deref for Places {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.numbers
    }
}

/// The places of the keys that were asked for, as long as nodes stay what they are.
#[derive(Debug, Default)]
pub(crate) struct Keys(Mutex<BTreeMap<String, Arc<Places>>>);

impl Clone for Keys {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }
}

impl Keys {
    /// The places under a key. Work: a pass over the nodes when it is first asked for.
    pub(crate) fn places(&self, world: &World, key: &str) -> Arc<Places> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = kept.get(key) {
            return Arc::clone(places);
        }
        let places = Arc::new(Places::new(numbers(world, key)));
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key.to_owned(), Arc::clone(&places));
        places
    }

    /// Nodes are others than before.
    pub(crate) fn forget(&mut self) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// By node: the number of its place under a key; [`NONE`] where it has none.
fn numbers(world: &World, key: &str) -> Vec<u32> {
    if key == "node" {
        return (0..world.views().len() as u32).collect();
    }
    if let Some(level) = world.map().level(key) {
        return world.map().domains_of(level).to_vec();
    }
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let views = world.views().iter();
    views
        .map(|view| {
            let Some(value) = view.node.labels.get(key) else { return NONE };
            let next = numbers.len() as u32;
            *numbers.entry(value.as_str()).or_insert(next)
        })
        .collect()
}
