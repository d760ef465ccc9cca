//! How fast the devices of a node reach each other: link speeds, rings, predicted bandwidth.
//!
//! Speeds are GB/s in one direction, for each pair, whole numbers that keep the order of links and
//! are near what vendors state (nominal NVLink and xGMI; for PCIe what collective libraries assume,
//! in steps that keep the order of `nvidia-smi topo`). They say which set of devices is better,
//! and predict a bandwidth; they are no measurement.

use crate::{CpuSet, Device, DeviceGrant, LinkKind, Node, NodeShare};
use std::collections::BTreeMap;

/// Rings of up to so many devices are found exactly.
pub const RING_EXACT_MAX: usize = 10;

/// What one NVLink or xGMI lane of a device of this model carries, GB/s in one direction.
pub fn lane_speed(model: &str) -> u32 {
    let model = model.to_ascii_lowercase();
    let is = |names: &[&str]| names.iter().any(|name| model.contains(name));
    if is(&["mi300", "mi325", "mi350", "mi355"]) {
        64
    } else if is(&["mi250", "mi210", "mi200", "b100", "b200", "b300"]) {
        50
    } else if is(&["p100"]) {
        20
    } else if is(&["a40", "a6000", "a5000", "a5500", "a4500", "3090"]) {
        14
    } else {
        25
    }
}

/// The PCIe generation that cards of this model speak.
fn pcie_generation(model: &str) -> u32 {
    let model = model.to_ascii_lowercase();
    let is = |names: &[&str]| names.iter().any(|name| model.contains(name));
    if is(&["h100", "h200", "h800", "b100", "b200", "b300", "mi300", "mi325", "mi350"]) {
        5
    } else if is(&["v100", "p100", "p40", "p4", "t4", "rtx8000", "rtx6000", "2080", "k80"]) {
        3
    } else {
        4
    }
}

/// What a path of this kind between devices of this model carries, GB/s in one direction.
pub fn kind_speed(model: &str, kind: LinkKind) -> u32 {
    let step = match kind {
        LinkKind::NvLink(lanes) => return lanes.saturating_mul(lane_speed(model)).max(1),
        LinkKind::PcieSwitch => 0,
        LinkKind::PcieSwitches => 1,
        LinkKind::HostBridge => 2,
        LinkKind::Numa => 3,
        LinkKind::Socket => 4,
    };
    match pcie_generation(model) {
        3 => [12, 11, 10, 9, 6][step],
        4 => [24, 22, 20, 18, 10][step],
        _ => [48, 44, 40, 36, 20][step],
    }
}

/// What joins two devices of a node: their link, else what their NUMA domains say.
pub fn path(node: &Node, a: u32, b: u32) -> LinkKind {
    let listed = |from: u32, to: u32| {
        let device = node.devices.get(from as usize)?;
        device.links.iter().filter(|l| l.peer == to).map(|l| l.kind).min()
    };
    listed(a, b).or_else(|| listed(b, a)).unwrap_or_else(|| {
        let numa = |index: u32| node.devices.get(index as usize).and_then(|d| d.numa);
        match (numa(a), numa(b)) {
            (Some(one), Some(other)) if one == other => LinkKind::Numa,
            _ => LinkKind::Socket,
        }
    })
}

/// The bandwidth between two devices of a node, GB/s in one direction; the slower card decides.
pub fn speed(node: &Node, a: u32, b: u32) -> u32 {
    let model =
        |index: u32| node.devices.get(index as usize).map_or("", |d: &Device| d.model.as_str());
    let kind = path(node, a, b);
    kind_speed(model(a), kind).min(kind_speed(model(b), kind))
}

/// The bandwidth of all pairs of a node's devices, by index: as [`speed`], found at once.
pub fn matrix(node: &Node) -> Vec<Vec<u32>> {
    let n = node.devices.len() as u32;
    let mut models: Vec<&str> = node.devices.iter().map(|d| d.model.as_str()).collect();
    models.sort_unstable();
    models.dedup();
    if models.len() > 1 {
        return (0..n).map(|a| (0..n).map(|b| speed(node, a, b)).collect()).collect();
    }
    let model = models.first().copied().unwrap_or_default();
    // One look at the model for each kind of path.
    let mut known: BTreeMap<LinkKind, u32> = BTreeMap::new();
    let mut of = |a: u32, b: u32| {
        let kind = path(node, a, b);
        *known.entry(kind).or_insert_with(|| kind_speed(model, kind))
    };
    (0..n).map(|a| (0..n).map(|b| of(a, b)).collect()).collect()
}

/// The CPUs of a job's share that are in no NUMA domain of its devices; none where that is not known
/// of a device, or where it has none.
pub fn far_cpus(node: &Node, share: &NodeShare) -> CpuSet {
    let domain = |grant: &DeviceGrant| node.devices.get(grant.index as usize)?.numa;
    let domains: Option<Vec<u32>> = share.devices.iter().map(domain).collect();
    let Some(domains) = domains.filter(|domains| !domains.is_empty()) else {
        return CpuSet::new();
    };
    let mut far = share.cpus.clone();
    for near in node.numa.iter().filter(|numa| domains.contains(&numa.id)) {
        far.remove_all(&near.cpus);
    }
    far
}

/// The best ring over some devices of a node: its order, and its slowest edge in GB/s.
///
/// Exact up to [`RING_EXACT_MAX`] devices; beyond, each goes to the fastest neighbour left. Begins
/// with the lowest index, then goes to the lower of its two neighbours. The speed of a single
/// device, which sends nothing, is 0.
pub fn ring(node: &Node, devices: &[u32]) -> (Vec<u32>, u32) {
    let mut order = devices.to_vec();
    order.sort_unstable();
    order.dedup();
    let matrix: Vec<Vec<u32>> =
        order.iter().map(|a| order.iter().map(|b| speed(node, *a, *b)).collect()).collect();
    let (places, slowest) = match order.len() {
        0 | 1 => ((0..order.len()).collect(), 0),
        n if n <= RING_EXACT_MAX => exact_ring(&matrix),
        _ => greedy_ring(&matrix),
    };
    (places.into_iter().map(|at| order[at]).collect(), slowest)
}

/// Predicted all-reduce bus bandwidth of a ring over these devices, GB/s: its slowest edge.
pub fn all_reduce_speed(node: &Node, devices: &[u32]) -> u32 {
    ring(node, devices).1
}

fn edges(matrix: &[Vec<u32>], ring: &[usize]) -> (u32, u64) {
    let next = ring.iter().cycle().skip(1);
    let speeds: Vec<u32> = ring.iter().zip(next).map(|(a, b)| matrix[*a][*b]).collect();
    (speeds.iter().copied().min().unwrap_or(0), speeds.into_iter().map(u64::from).sum())
}

/// The ring with the fastest slowest edge, then the greatest sum, then the first in order of index.
fn exact_ring(matrix: &[Vec<u32>]) -> (Vec<usize>, u32) {
    struct Search<'a> {
        matrix: &'a [Vec<u32>],
        ring: Vec<usize>,
        used: u32,
        best: Option<(u32, u64, Vec<usize>)>,
    }
    impl Search<'_> {
        fn extend(&mut self, slowest: u32, sum: u64) {
            let n = self.matrix.len();
            let last = *self.ring.last().unwrap_or(&0);
            if self.ring.len() == n {
                let back = self.matrix[last][0];
                let found = (slowest.min(back), sum + u64::from(back));
                if self.best.as_ref().is_none_or(|b| found > (b.0, b.1)) {
                    self.best = Some((found.0, found.1, self.ring.clone()));
                }
                return;
            }
            let most = self.matrix.iter().flatten().copied().max().unwrap_or(0);
            let left = (n - self.ring.len() + 1) as u64;
            for next in 1..n {
                let edge = self.matrix[last][next];
                // A ring and its reverse are one: the second place has the lower number.
                let reverse = self.ring.len() == n - 1 && n > 2 && next < self.ring[1];
                if self.used & (1 << next) != 0 || reverse {
                    continue;
                }
                let bound =
                    (slowest.min(edge), sum + u64::from(edge) + (left - 1) * u64::from(most));
                if self.best.as_ref().is_some_and(|b| bound <= (b.0, b.1)) {
                    continue;
                }
                self.ring.push(next);
                self.used |= 1 << next;
                self.extend(slowest.min(edge), sum + u64::from(edge));
                self.used &= !(1 << next);
                self.ring.pop();
            }
        }
    }
    let mut search = Search { matrix, ring: vec![0], used: 1, best: None };
    search.extend(u32::MAX, 0);
    let n = matrix.len();
    search.best.map_or(((0..n).collect(), 0), |(slowest, _, ring)| (ring, slowest))
}

fn greedy_ring(matrix: &[Vec<u32>]) -> (Vec<usize>, u32) {
    let mut ring = vec![0];
    let mut left: Vec<usize> = (1..matrix.len()).collect();
    while !left.is_empty() {
        let last = ring[ring.len() - 1];
        let fastest = left.iter().map(|to| matrix[last][*to]).max().unwrap_or(0);
        let at = left.iter().position(|to| matrix[last][*to] == fastest).unwrap_or(0);
        ring.push(left.remove(at));
    }
    let slowest = edges(matrix, &ring).0;
    (ring, slowest)
}
