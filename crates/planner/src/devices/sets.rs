//! Which whole devices a job gets: the set with the best links.
//!
//! Sets of one size are compared by (1) the slowest edge of their best ring, (2) the sum of the
//! speeds of all their pairs, (3) CPUs that could not be had beside them, (4) memory given away,
//! (5) sockets and NUMA domains touched, (6) what is left: the best four, the heaviest pairing and
//! the sum of all pairs among the free devices not taken, (7) free devices left in the domains
//! touched, (8) the lowest indices. Speeds are those of `muster_model::links`.
//!
//! With up to [`EXACT_MAX`] devices to choose from the set is the best there is: the rings of all
//! subsets are found together, speed by speed, in steps of `2^n · n`. Where all links are alike
//! only (3) to (8) are looked at. Beyond, devices are taken near each other by NUMA domain.

use crate::free::{DeviceMask, NodeView, bit, bits};
use muster_model::{CpuSet, links};
use std::cmp::Reverse;

/// Up to so many devices the best set is found by looking at all.
const EXACT_MAX: u32 = 16;

/// What is left is compared only where that takes no more than so many steps.
const REST_STEPS_MAX: u64 = 400_000;

/// What is looked for.
pub(crate) struct Wish<'a> {
    pub(crate) count: u32,
    /// Devices to be taken before others.
    pub(crate) first: DeviceMask,
    /// CPUs that the job gets on the node.
    pub(crate) cpus: u32,
    /// All devices that are free, those of other models or sizes too.
    pub(crate) rest: DeviceMask,
    /// All CPUs have to be on the sockets of the devices, and each of these has to have one.
    pub(crate) enforce: bool,
    /// The CPUs that are free then.
    pub(crate) free: &'a CpuSet,
}

/// The links of a node's devices, and where they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fabric {
    speeds: Vec<Vec<u32>>,
    /// Socket and NUMA domain of each device, by dense number; `None` where it is not known.
    places: Vec<Option<(u32, u32)>>,
    memory: Vec<u64>,
    /// All pairs have one speed.
    uniform: bool,
}

impl Fabric {
    pub(crate) fn of(node: &muster_model::Node) -> Self {
        let speeds = links::matrix(node);
        let place = |device: &muster_model::Device| {
            let at = node.numa.iter().position(|n| Some(n.id) == device.numa)?;
            Some((node.numa[at].socket, at as u32))
        };
        let mut pairs = speeds
            .iter()
            .enumerate()
            .flat_map(|(a, row)| row.iter().enumerate().filter(move |(b, _)| *b != a))
            .map(|(_, speed)| *speed);
        let first = pairs.next();
        Self {
            uniform: pairs.all(|speed| Some(speed) == first),
            places: node.devices.iter().map(place).collect(),
            memory: node.devices.iter().map(|d| d.memory.0).collect(),
            speeds,
        }
    }

    fn speed(&self, a: u32, b: u32) -> u32 {
        self.speeds[a as usize][b as usize]
    }

    fn sum(&self, set: DeviceMask) -> u64 {
        let pairs = |a: u32| bits(set).filter(move |b| *b > a).map(move |b| self.speed(a, b));
        bits(set).flat_map(pairs).map(u64::from).sum()
    }

    /// The slowest edge of the best ring over four.
    fn ring_of_four(&self, [a, b, c, d]: [u32; 4]) -> u32 {
        let ring = |[p, q, r, s]: [u32; 4]| {
            let edges = [self.speed(p, q), self.speed(q, r), self.speed(r, s), self.speed(s, p)];
            edges.into_iter().min().unwrap_or(0)
        };
        [[a, b, c, d], [a, b, d, c], [a, c, b, d]].map(ring).into_iter().max().unwrap_or(0)
    }

    /// Sockets and NUMA domains that a set is on.
    fn spread(&self, set: DeviceMask) -> (u32, u32) {
        let (mut sockets, mut domains) = (0u128, 0u128);
        for place in bits(set).map(|i| self.places[i as usize]) {
            let (socket, domain) = place.unwrap_or((127, 127));
            sockets |= bit(socket.min(127));
            domains |= bit(domain.min(127));
        }
        (sockets.count_ones(), domains.count_ones())
    }
}

/// Free CPUs by NUMA domain, against what a job needs.
pub(crate) struct Near<'a> {
    fabric: &'a Fabric,
    free: Vec<u32>,
    cpus: u32,
}

impl<'a> Near<'a> {
    pub(crate) fn of(view: &'a NodeView, cpus: u32) -> Self {
        let one = view.node.numa.len() <= 1;
        let free = |n: &muster_model::NumaDomain| {
            if one { view.free_cpu_count } else { n.cpus.intersection(&view.free_cpus).len() }
        };
        Self { fabric: view.fabric(), free: view.node.numa.iter().map(free).collect(), cpus }
    }

    /// CPUs of the job that would not be in the NUMA domains of the set.
    pub(crate) fn missing(&self, set: DeviceMask) -> u32 {
        let mut domains = 0u128;
        for place in bits(set).filter_map(|i| self.fabric.places[i as usize]) {
            domains |= bit(place.1.min(127));
        }
        if domains == 0 {
            return 0;
        }
        let near = bits(domains).filter_map(|at| self.free.get(at as usize)).sum::<u32>();
        self.cpus.saturating_sub(near)
    }
}

/// The free CPUs of each socket, where a job takes only those beside its devices.
#[derive(Default)]
struct Beside {
    sockets: Option<Vec<(DeviceMask, u32)>>,
    cpus: u32,
}

impl Beside {
    fn of(view: &NodeView, wish: &Wish<'_>) -> Self {
        let free = |socket: u32| {
            let domains = view.node.numa.iter().filter(|n| n.socket == socket);
            domains.map(|n| n.cpus.intersection(wish.free).len()).sum::<u32>()
        };
        let of_sockets = || view.sockets_with_devices().map(|(id, mask)| (mask, free(id)));
        Self { sockets: wish.enforce.then(|| of_sockets().collect()), cpus: wish.cpus }
    }

    /// True where every socket of the set has a CPU for the job and all of them have enough.
    fn serves(&self, set: DeviceMask) -> bool {
        let Some(sockets) = &self.sockets else { return true };
        let (mut used, mut free, mut all_have) = (0, 0u32, true);
        for (_, count) in sockets.iter().filter(|(mask, _)| mask & set != 0) {
            used += 1;
            free += count;
            all_have &= *count > 0;
        }
        all_have && used <= self.cpus && free >= self.cpus
    }
}

/// The best so many devices of the pool, by the order in the module's text; those in `first`
/// before all others.
pub(crate) fn best(view: &NodeView, pool: DeviceMask, wish: &Wish<'_>) -> Option<DeviceMask> {
    let there = pool.count_ones();
    if there < wish.count {
        return None;
    }
    let beside = Beside::of(view, wish);
    if there == wish.count {
        return beside.serves(pool).then_some(pool);
    }
    if wish.count == 0 {
        return Some(0);
    }
    let fabric = view.fabric();
    if there > EXACT_MAX {
        return Some(by_domain(fabric, pool, wish)).filter(|set| beside.serves(*set));
    }
    let mut sets = if wish.first & pool != 0 {
        // Where a promise takes what is busy now, links count for less than leaving others alone.
        let sets =
            least(subsets(pool, wish.count, &beside), |set| (set & !wish.first).count_ones());
        least(sets, |set| Reverse(fabric.sum(set)))
    } else if fabric.uniform || wish.count == 1 {
        subsets(pool, wish.count, &beside)
    } else {
        let rings = best_rings(fabric, pool, wish.count, &beside);
        least(rings, |set| Reverse(fabric.sum(set)))
    };
    let near = Near::of(view, wish.cpus);
    sets = least(sets, |set| near.missing(set));
    sets = least(sets, |set| bits(set).map(|i| fabric.memory[i as usize]).sum::<u64>());
    sets = least(sets, |set| fabric.spread(set));
    if !fabric.uniform {
        sets = best_rest(fabric, sets, wish.rest);
    }
    sets = least(sets, |set| left_in_domains(fabric, set, wish.rest));
    // Of two sets that with the lower index where they first differ.
    sets.into_iter().max_by_key(|set| set.reverse_bits())
}

/// The sets with the least key.
fn least<K: Ord>(sets: Vec<DeviceMask>, key: impl Fn(DeviceMask) -> K) -> Vec<DeviceMask> {
    if sets.len() < 2 {
        return sets;
    }
    let mut best: Option<K> = None;
    let mut kept = Vec::new();
    for set in sets {
        let found = key(set);
        match best.as_ref().map(|b| found.cmp(b)) {
            Some(std::cmp::Ordering::Greater) => continue,
            Some(std::cmp::Ordering::Equal) => {}
            _ => {
                kept.clear();
                best = Some(found);
            }
        }
        kept.push(set);
    }
    kept
}

/// All sets of so many devices of the pool that have the CPUs beside them.
fn subsets(pool: DeviceMask, count: u32, beside: &Beside) -> Vec<DeviceMask> {
    let devices: Vec<u32> = bits(pool).collect();
    let all = dense_subsets(devices.len() as u32, count);
    let sets = all.into_iter().map(|set| spread_out(&devices, set));
    sets.filter(|set| beside.serves(*set)).collect()
}

/// All sets of `count` out of `n` as bits, ascending as numbers.
fn dense_subsets(n: u32, count: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut set: u64 = (1 << count) - 1;
    while set < 1 << n {
        found.push(set as u32);
        // The next number with as many bits.
        let low = set & set.wrapping_neg();
        let high = set + low;
        set = high | (((set ^ high) >> 2) / low);
    }
    found
}

fn spread_out(devices: &[u32], set: u32) -> DeviceMask {
    let chosen = devices.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0);
    chosen.fold(0, |mask, (_, index)| mask | bit(*index))
}

/// The sets whose best ring has the fastest slowest edge.
///
/// For each speed, the fastest first: which subsets can be walked through by links of at least
/// that speed, from their lowest device to which of their devices.
fn best_rings(fabric: &Fabric, pool: DeviceMask, count: u32, beside: &Beside) -> Vec<DeviceMask> {
    let devices: Vec<u32> = bits(pool).collect();
    let n = devices.len();
    let mut speeds: Vec<u32> = Vec::new();
    for (at, a) in devices.iter().enumerate() {
        speeds.extend(devices[at + 1..].iter().map(|b| fabric.speed(*a, *b)));
    }
    speeds.sort_unstable_by_key(|speed| Reverse(*speed));
    speeds.dedup();
    let mut candidates = dense_subsets(n as u32, count);
    candidates.retain(|set| beside.serves(spread_out(&devices, *set)));
    for least in speeds {
        let joined = |a: usize| {
            let fast = |b: &usize| *b != a && fabric.speed(devices[a], devices[*b]) >= least;
            (0..n).filter(fast).fold(0u32, |mask, b| mask | 1 << b)
        };
        let neighbours: Vec<u32> = (0..n).map(joined).collect();
        let ends = walks(&neighbours, count);
        let is_ring = |set: &u32| {
            let low = set.trailing_zeros() as usize;
            ends[*set as usize] & neighbours[low] != 0
        };
        let found: Vec<u32> = candidates.iter().copied().filter(is_ring).collect();
        if !found.is_empty() {
            return found.into_iter().map(|set| spread_out(&devices, set)).collect();
        }
    }
    candidates.into_iter().map(|set| spread_out(&devices, set)).collect()
}

/// For each subset of up to `count`, the ends of walks through all of it that begin at its lowest.
fn walks(neighbours: &[u32], count: u32) -> Vec<u32> {
    let n = neighbours.len();
    let mut ends = vec![0u32; 1 << n];
    for start in 0..n {
        ends[1 << start] = 1 << start;
    }
    for set in 1usize..1 << n {
        let here = ends[set];
        if here == 0 || set.count_ones() >= count {
            continue;
        }
        let above = !0u32 << (set.trailing_zeros() + 1);
        let mut from = here;
        while from != 0 {
            let end = from.trailing_zeros() as usize;
            from &= from - 1;
            let mut next = neighbours[end] & above & !(set as u32);
            while next != 0 {
                let to = next.trailing_zeros();
                next &= next - 1;
                ends[set | 1 << to] |= 1 << to;
            }
        }
    }
    ends
}

/// The sets that leave the most to others: the best four, the heaviest pairing, the sum.
fn best_rest(fabric: &Fabric, sets: Vec<DeviceMask>, free: DeviceMask) -> Vec<DeviceMask> {
    let devices: Vec<u32> = bits(free).collect();
    let left = (devices.len() as u64)
        .saturating_sub(sets.first().map_or(0, |s| u64::from(s.count_ones())));
    let fours =
        left.saturating_sub(3) * left.saturating_sub(2) * left.saturating_sub(1) * left / 24;
    let steps = fours.saturating_mul(sets.len() as u64).saturating_add(1 << devices.len().min(40));
    if sets.len() < 2 || devices.len() > EXACT_MAX as usize || steps > REST_STEPS_MAX {
        return sets;
    }
    let pairing = pairings(fabric, &devices);
    let dense = |set: DeviceMask| {
        let left = devices.iter().enumerate().filter(|(_, i)| set & bit(**i) == 0);
        left.fold(0usize, |mask, (at, _)| mask | 1 << at)
    };
    let sets = least(sets, |set| Reverse(best_four(fabric, free & !set)));
    let sets = least(sets, |set| Reverse(pairing[dense(set)]));
    least(sets, |set| Reverse(fabric.sum(free & !set)))
}

fn best_four(fabric: &Fabric, rest: DeviceMask) -> (u32, u64) {
    if rest.count_ones() < 4 {
        return (0, 0);
    }
    let score = |set: DeviceMask| {
        let mut four = [0; 4];
        for (place, index) in four.iter_mut().zip(bits(set)) {
            *place = index;
        }
        (fabric.ring_of_four(four), fabric.sum(set))
    };
    subsets(rest, 4, &Beside::default()).into_iter().map(score).max().unwrap_or((0, 0))
}

/// The heaviest pairing of every subset.
fn pairings(fabric: &Fabric, devices: &[u32]) -> Vec<u64> {
    let mut best = vec![0u64; 1 << devices.len()];
    for set in 1usize..1 << devices.len() {
        let low = set.trailing_zeros() as usize;
        let rest = set & (set - 1);
        let mut most = best[rest];
        let mut others = rest;
        while others != 0 {
            let other = others.trailing_zeros() as usize;
            others &= others - 1;
            let speed = u64::from(fabric.speed(devices[low], devices[other]));
            most = most.max(speed + best[rest & !(1 << other)]);
        }
        best[set] = most;
    }
    best
}

/// Free devices that stay in the domains that a set touches.
fn left_in_domains(fabric: &Fabric, set: DeviceMask, free: DeviceMask) -> u32 {
    let domain = |i: u32| fabric.places[i as usize].map(|p| p.1);
    let touched: Vec<Option<u32>> = bits(set).map(domain).collect();
    bits(free & !set).filter(|i| touched.contains(&domain(*i))).count() as u32
}

/// For many devices: those in `first`, then all from the domain with the fewest that has enough,
/// then the smallest memory, then by index.
fn by_domain(fabric: &Fabric, pool: DeviceMask, wish: &Wish<'_>) -> DeviceMask {
    let domain = |i: u32| fabric.places[i as usize].map(|p| p.1);
    let in_domain = |d: Option<u32>| bits(pool).filter(|i| domain(*i) == d).count() as u32;
    let best = bits(pool)
        .map(domain)
        .filter(|d| d.is_some() && in_domain(*d) >= wish.count)
        .min_by_key(|d| (in_domain(*d), *d));
    let mut ranked: Vec<u32> = bits(pool).collect();
    ranked.sort_by_key(|i| {
        let away = best.is_some_and(|best| domain(*i) != best);
        (wish.first & bit(*i) == 0, away, fabric.memory[*i as usize], *i)
    });
    ranked.into_iter().take(wish.count as usize).fold(0, |mask, i| mask | bit(i))
}
