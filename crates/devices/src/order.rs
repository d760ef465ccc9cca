//! Which of several devices that would do are tried first.
//!
//! What is left over should be of the most use: partitions of what is broken up already come before
//! untouched devices, and small ones before large. Among whole devices the smallest group by topology
//! (NUMA node, then PCIe root) that has enough is taken, so that larger groups stay whole.

use crate::{Attribute, Device};
use std::collections::BTreeMap;

/// The end of the names of attributes that say where a device is, from far to near.
const PLACES: [&[&str]; 2] = [&["/numaNode", "/numa"], &["/pcieRoot"]];

fn place(device: &Device, level: usize) -> Option<&Attribute> {
    let is_one = |name: &str| PLACES[level].iter().any(|end| name.ends_with(end));
    device.attributes.iter().find(|(name, _)| is_one(name)).map(|(_, value)| value)
}

/// Where devices are: their groups by NUMA node, and by PCIe root within it.
type Groups<'a> = BTreeMap<(Option<&'a Attribute>, Option<&'a Attribute>), u32>;

/// Orders free devices for a request of so many. `broken` says how far the counters that a device
/// takes from are used already, `size` how much it takes of them, both in comparable units.
pub(crate) fn order<'a>(
    free: &[usize],
    count: u32,
    device: impl Fn(usize) -> &'a Device,
    broken: impl Fn(usize) -> bool,
    size: impl Fn(usize) -> i128,
) -> Vec<usize> {
    let at = |index: usize| (place(device(index), 0), place(device(index), 1));
    let (mut far, mut near) = (BTreeMap::new(), Groups::new());
    for index in free {
        *far.entry(at(*index).0).or_insert(0u32) += 1;
        *near.entry(at(*index)).or_default() += 1;
    }
    // Enough: the fewest first. Not enough: the most first, so that the fewest are needed.
    let rank = |has: u32| match has >= count {
        true => (0, has),
        false => (1, u32::MAX - has),
    };
    let mut ordered = free.to_vec();
    ordered.sort_by_cached_key(|index| {
        let (numa, root) = at(*index);
        let of = |known: Option<&u32>| rank(known.copied().unwrap_or(0));
        let topology = (of(far.get(&numa)), numa, of(near.get(&(numa, root))), root);
        (size(*index), !broken(*index), topology, *index)
    });
    ordered
}
