//! Which CPUs of a node a job gets: near its devices, in few pieces, by number where all is equal.

use crate::free::{DeviceMask, NodeView, bits};
use muster_model::CpuSet;

/// So many CPUs of the free ones: beside the devices first, then from one NUMA domain where one has
/// enough (the one with the fewest to spare), then by number.
pub(crate) fn choose(view: &NodeView, devices: DeviceMask, count: u32) -> Option<CpuSet> {
    if view.free_cpu_count < count {
        return None;
    }
    let beside: Vec<u32> = bits(devices)
        .filter_map(|i| view.node.devices.get(i as usize).and_then(|d| d.numa))
        .collect();
    let mut domains: Vec<(bool, bool, u32, u32, CpuSet)> = view
        .node
        .numa
        .iter()
        .map(|numa| {
            let free = numa.cpus.intersection(&view.free_cpus);
            let n = free.len();
            (!beside.contains(&numa.id), n < count, n, numa.id, free)
        })
        .collect();
    // A domain that holds the whole job: the tightest. Else the fullest first, for few pieces.
    domains.sort_by_key(|d| (d.0, d.1, if d.1 { u32::MAX - d.2 } else { d.2 }, d.3));
    let mut chosen = CpuSet::new();
    let pieces = domains.iter().map(|d| &d.4).chain(std::iter::once(&view.free_cpus));
    let mut left = count;
    for cpu in pieces.flat_map(CpuSet::iter) {
        if left == 0 {
            break;
        }
        if !chosen.contains(cpu) {
            chosen.insert(cpu);
            left -= 1;
        }
    }
    (left == 0).then_some(chosen)
}
