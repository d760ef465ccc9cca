//! What counts as one place: a node, a domain of a level, the value of a label.

use crate::world::World;
use std::borrow::Cow;
use std::collections::BTreeMap;

pub(crate) use crate::topology::NONE;

/// By node: the number of its place under a key; [`NONE`] where it has none.
pub(crate) fn places<'a>(world: &'a World, key: &str) -> Cow<'a, [u32]> {
    if key == "node" {
        return (0..world.views().len() as u32).collect();
    }
    if let Some(level) = world.map().level(key) {
        return Cow::Borrowed(world.map().domains_of(level));
    }
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let mut number = |value: &'a String| {
        let next = numbers.len() as u32;
        *numbers.entry(value.as_str()).or_insert(next)
    };
    let views = world.views().iter();
    views.map(|v| v.node.labels.get(key).map_or(NONE, &mut number)).collect()
}
