//! GPUs counted again: whole ones, shares and MIG instances, each device by itself.

use crate::Rule;
use crate::layout::fixed_gpus;
use crate::usage::{Use, may_take_turns, sharers_max};
use muster_model::mig::split_type;
use muster_model::{
    Device, DeviceGrant, DeviceMode, DevicePolicy, DeviceWish, GpuShare, Isolation, Mib, Node,
    NodeShare, Request,
};
use std::collections::{BTreeMap, BTreeSet};

/// At most so many steps to find places for instances; beyond, it is not known.
const STEPS_MAX: u32 = 2_000;

/// GPUs wanted on a node, by type as written (`None` is any).
pub(crate) type Wanted = BTreeMap<Option<String>, u32>;

/// What is left of a device that is given out in parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartRoom {
    pub(crate) index: u32,
    share: u32,
    memory: u64,
    /// Memory slots taken, as bits.
    slots: u16,
    media: bool,
    users: BTreeSet<u32>,
}

fn device(node: &Node, index: u32) -> Option<&Device> {
    node.devices.get(index as usize)
}

/// Memory of a device that jobs may have parts of.
fn memory_there(node: &Node, device: &Device, foreign: bool) -> u64 {
    let reserve = match device.mode {
        DeviceMode::Shared(sharing) => sharing.reserve.0,
        DeviceMode::Whole | DeviceMode::Mig(_) => 0,
    };
    let others: u64 = node
        .foreign
        .iter()
        .filter(|f| foreign && f.device == Some(device.index))
        .map(|f| f.memory.0)
        .sum();
    device.memory.0.saturating_sub(reserve).saturating_sub(others)
}

fn has_foreign(node: &Node, index: u32) -> bool {
    node.foreign.iter().any(|f| f.device == Some(index))
}

/// True where the device may be given to somebody new in this way.
fn may_be_given(node: &Node, grant: &DeviceGrant) -> bool {
    let Some(device) = device(node, grant.index) else { return false };
    let in_parts = !grant.is_whole();
    device.unhealthy.is_none()
        && match device.mode {
            DeviceMode::Whole => !has_foreign(node, grant.index),
            DeviceMode::Shared(_) => in_parts || !has_foreign(node, grant.index),
            DeviceMode::Mig(_) => in_parts && !has_foreign(node, grant.index),
        }
}

/// Nothing of a device is given twice, and nothing that is not there.
pub(crate) fn check_use(
    node: &Node,
    uses: &[Use<'_>],
    say: &mut dyn FnMut(Rule, &[&Use<'_>], String),
) {
    let mut by_device: BTreeMap<u32, Vec<(&Use<'_>, &DeviceGrant)>> = BTreeMap::new();
    for one in uses {
        for grant in &one.share.devices {
            by_device.entry(grant.index).or_default().push((one, grant));
            if device(node, grant.index).is_none() || (one.new && !may_be_given(node, grant)) {
                let detail = format!("GPU {} of node {} is not to be had", grant.index, node.name);
                say(Rule::GpuOverallocated, &[one], detail);
            }
        }
    }
    for (index, grants) in by_device {
        let Some(device) = device(node, index) else { continue };
        let users: Vec<&Use<'_>> = grants.iter().map(|g| g.0).collect();
        let grants: Vec<&DeviceGrant> = grants.iter().map(|g| g.1).collect();
        let name = format!("GPU {index} of node {}", node.name);
        if grants.iter().any(|g| g.is_whole()) {
            let turns = grants.iter().all(|g| g.is_whole()) && may_take_turns(&users);
            let memory = grants.iter().fold(0u64, |sum, g| sum.saturating_add(g.memory.0));
            if grants.len() > 1 && !turns {
                let detail = format!("{name} given {} times", grants.len());
                say(Rule::GpuOverallocated, &users, detail);
            } else if grants.len() > 1 && grants.len() > sharers_max(&users) {
                let detail = format!("{} jobs on {name}", grants.len());
                say(Rule::SharedTooOften, &users, detail);
            } else if memory > device.memory.0 {
                let detail = format!("{memory} MiB of {} of {name}", device.memory);
                say(Rule::GpuOverallocated, &users, detail);
            }
            continue;
        }
        let any_new = users.iter().any(|u| u.new);
        let share: u64 = grants.iter().map(|g| u64::from(g.share.0)).sum();
        if share > 1000 {
            say(Rule::GpuShare, &users, format!("{share} thousandths of {name}"));
        }
        let memory = grants.iter().fold(0u64, |sum, g| sum.saturating_add(g.memory.0));
        let there = memory_there(node, device, any_new);
        if memory > there {
            say(Rule::GpuShare, &users, format!("{memory} MiB of {there} of {name}"));
        }
        let uids: BTreeSet<u32> = users.iter().map(|u| u.job.spec.owner.uid).collect();
        let one_user =
            matches!(device.mode, DeviceMode::Shared(s) if s.isolation == Isolation::Mps);
        if one_user && uids.len() > 1 {
            say(Rule::GpuIsolation, &users, format!("{name} serves one user at a time"));
        }
        let (mut taken, mut media) = (0u16, 0);
        for slot in grants.iter().filter_map(|g| g.mig) {
            media += u32::from(slot.media);
            if taken & slot.mask() != 0 || media > 1 {
                let detail = format!("instances on {name} lie on each other");
                say(Rule::MigLayout, &users, detail);
            }
            taken |= slot.mask();
        }
    }
}

/// The thousandths and memory that a request gets of a shared device.
fn amounts(request: &Request, device: &Device) -> Option<(u32, u64)> {
    let DeviceMode::Shared(sharing) = device.mode else { return None };
    let all = device.memory.0.checked_sub(sharing.reserve.0)?;
    let asked = request.gpu_memory.map(|m| m.0);
    let share = match request.gpu_share {
        Some(GpuShare::Milli(share)) => share.0,
        Some(GpuShare::Pieces(count)) => {
            if count == 0 || count > sharing.pieces {
                return None;
            }
            (count * 1000 / sharing.pieces).max(1)
        }
        None => u32::try_from(asked?.saturating_mul(1000) / all.max(1)).ok()?.max(1),
    };
    let memory = asked.unwrap_or(all * u64::from(share) / 1000);
    (share <= 1000 && memory <= all).then_some((share, memory))
}

/// Every grant is something that the request asks for.
pub(crate) fn check_grants(
    request: &Request,
    (policy, has_turns): (&DevicePolicy, bool),
    node: &Node,
    share: &NodeShare,
    say: &mut dyn FnMut(Rule, String),
) {
    let wish = request.device_wish(policy);
    // Where jobs take turns on a whole device, each has the memory that it asks for.
    let of_whole = request.gpu_memory.filter(|_| has_turns);
    let is_big_whole = |device: &Device, grant: &DeviceGrant, least: Mib| {
        grant.is_whole()
            && grant.memory == of_whole.unwrap_or(device.memory)
            && device.memory >= least
    };
    for grant in &share.devices {
        let Some(device) = device(node, grant.index) else { continue };
        let name = format!("GPU {} of node {}", grant.index, node.name);
        let least = request.gpu_memory.unwrap_or_default();
        match (grant.mig, wish) {
            (Some(slot), _) => {
                let legal = device.mig_table().and_then(|t| t.profile_of(slot));
                let there = match &device.mode {
                    DeviceMode::Mig(mode) => {
                        mode.carve || mode.instances.iter().any(|i| i.slot == slot)
                    }
                    DeviceMode::Whole | DeviceMode::Shared(_) => false,
                };
                let (Some(profile), true) = (legal, there) else {
                    say(Rule::MigLayout, format!("{name} has no instance {slot:?}"));
                    continue;
                };
                let named = request
                    .gpus
                    .iter()
                    .filter_map(|g| g.model.as_deref())
                    .any(|k| split_type(k).1.is_some() && is_of(device, grant, Some(k)));
                let by_memory = matches!(wish, DeviceWish::Part { share: None, .. })
                    && device.instance_memory(slot) >= least;
                if grant.memory != device.instance_memory(slot) || !(named || by_memory) {
                    let detail = format!("{name} gives {}, not what was asked", profile.name);
                    say(Rule::GpuMemory, detail);
                }
            }
            (None, DeviceWish::Part { isolation, or_whole, .. }) => {
                let as_asked = amounts(request, device) == Some((grant.share.0, grant.memory.0));
                let whole = or_whole && is_big_whole(device, grant, least);
                if !as_asked && !whole {
                    say(Rule::GpuMemory, format!("{name} is not the part that was asked"));
                }
                let offered = match device.mode {
                    DeviceMode::Shared(sharing) if !whole => sharing.isolation,
                    // Nobody else is on it.
                    _ => Isolation::Mig,
                };
                if offered < isolation {
                    let detail = format!("{name} fences by {offered}, {isolation} was asked");
                    say(Rule::GpuIsolation, detail);
                }
            }
            (None, DeviceWish::Whole) => {
                if !is_big_whole(device, grant, least) {
                    say(Rule::GpuMemory, format!("{name} is not what was asked"));
                }
            }
        }
    }
}

/// True where a grant is of a type as users write it: a model, a MIG profile, or both.
fn is_of(device: &Device, grant: &DeviceGrant, kind: Option<&str>) -> bool {
    let (model, profile) = kind.map_or((None, None), split_type);
    let name = grant.mig.and_then(|slot| device.profile_name(slot));
    model.is_none_or(|m| device.model.eq_ignore_ascii_case(m))
        && match (profile, name) {
            (Some(profile), Some(name)) => profile.eq_ignore_ascii_case(name),
            (Some(_), None) => false,
            (None, _) => true,
        }
}

/// How many grants of a node are of a type.
pub(crate) fn of_type(node: &Node, share: &NodeShare, kind: &str) -> u32 {
    let is = |grant: &&DeviceGrant| {
        device(node, grant.index).is_some_and(|d| is_of(d, grant, Some(kind)))
    };
    share.devices.iter().filter(is).count() as u32
}

/// The sockets of a node that have as many GPUs of the job as it asks for on each socket.
pub(crate) fn sockets_served(request: &Request, node: &Node, share: &NodeShare) -> u32 {
    let wanted: Vec<_> = request
        .gpus
        .iter()
        .filter(|g| g.scope == muster_model::GpuScope::Socket && g.count > 0)
        .collect();
    let served = |socket: u32| {
        wanted.iter().all(|gpus| {
            let here = share.devices.iter().filter(|grant| {
                device(node, grant.index).is_some_and(|d| {
                    socket_of(node, d) == socket && is_of(d, grant, gpus.model.as_deref())
                })
            });
            here.count() as u32 >= gpus.count
        })
    };
    let sockets: BTreeSet<u32> = node.numa.iter().map(|n| n.socket).collect();
    let sockets = if sockets.is_empty() { BTreeSet::from([0]) } else { sockets };
    sockets.into_iter().filter(|socket| served(*socket)).count() as u32
}

/// True where all CPUs of a share are on the sockets of its GPUs.
pub(crate) fn cpus_are_near(node: &Node, share: &NodeShare) -> bool {
    let sockets: BTreeSet<u32> = share
        .devices
        .iter()
        .filter_map(|grant| device(node, grant.index))
        .map(|d| socket_of(node, d))
        .collect();
    let away = node.numa.iter().filter(|n| !sockets.contains(&n.socket));
    sockets.is_empty() || away.into_iter().all(|n| !n.cpus.intersects(&share.cpus))
}

fn socket_of(node: &Node, device: &Device) -> u32 {
    let domain = node.numa.iter().find(|n| Some(n.id) == device.numa);
    let first = node.numa.iter().map(|n| n.socket).min().unwrap_or(0);
    domain.map_or(first, |n| n.socket)
}

/// The devices that may be given out in parts, with all of them left.
pub(crate) fn part_rooms(node: &Node) -> Vec<PartRoom> {
    let of = |d: &Device| PartRoom {
        index: d.index,
        share: 1000,
        memory: memory_there(node, d, true),
        ..PartRoom::default()
    };
    node.devices.iter().filter(|d| node.device_is_partible(d.index)).map(of).collect()
}

impl PartRoom {
    /// Takes off what somebody has of it.
    pub(crate) fn take(&mut self, grants: &[DeviceGrant], uid: u32) {
        for grant in grants.iter().filter(|g| g.index == self.index) {
            self.share = self.share.saturating_sub(grant.share.0);
            self.memory = self.memory.saturating_sub(grant.memory.0);
            self.users.insert(uid);
            if let Some(slot) = grant.mig {
                self.slots |= slot.mask();
                self.media |= slot.media;
            }
            if grant.is_whole() {
                (self.share, self.memory, self.slots) = (0, 0, u16::MAX);
            }
        }
    }
}

/// What of a node's GPUs is left.
pub(crate) struct GpuRoom<'a> {
    pub(crate) node: &'a Node,
    pub(crate) policy: &'a DevicePolicy,
    /// Devices of which nobody has anything.
    pub(crate) whole: &'a [u32],
    pub(crate) parts: &'a [PartRoom],
}

/// Whether so many GPUs can be had at once; `None` where that is not known.
pub(crate) fn gpus_fit(
    request: &Request,
    room: &GpuRoom<'_>,
    wanted: &Wanted,
    uid: u32,
) -> Option<bool> {
    let (profiles, others): (Wanted, Wanted) = wanted
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| (kind.clone(), *count))
        .partition(|(kind, _)| kind.as_deref().is_some_and(|k| split_type(k).1.is_some()));
    let wish = request.device_wish(room.policy);
    let by_memory = matches!(wish, DeviceWish::Part { share: None, .. });
    if !profiles.is_empty() {
        if by_memory && !others.is_empty() {
            return None;
        }
        if !instances_fit(room, &profiles)? {
            return Some(false);
        }
    }
    let least = request.gpu_memory.unwrap_or_default();
    let big = |index: &&u32| device(room.node, **index).is_some_and(|d| d.memory >= least);
    let have = |model: Option<&str>| -> u32 {
        let of = |index: u32| {
            let device = device(room.node, index);
            device.is_some_and(|d| model.is_none_or(|m| d.model.eq_ignore_ascii_case(m)))
        };
        let whole = || room.whole.iter().filter(big).filter(|i| of(**i));
        match wish {
            DeviceWish::Whole => whole().count() as u32,
            DeviceWish::Part { isolation, or_whole, .. } => {
                let part = |p: &PartRoom| parts_of(request, room, p, isolation, uid);
                let parts: u32 = room.parts.iter().filter(|p| of(p.index)).map(part).sum();
                // A device that can give no part may still be had as a whole.
                let gives = |i: &u32| room.parts.iter().any(|p| p.index == *i && part(p) > 0);
                let more = whole().filter(|i| or_whole && !gives(i)).count() as u32;
                parts + more
            }
        }
    };
    let total = others.values().fold(0, |sum: u32, n| sum.saturating_add(*n));
    let named = |(kind, n): (&Option<String>, &u32)| kind.is_none() || have(kind.as_deref()) >= *n;
    Some(others.iter().all(named) && have(None) >= total)
}

/// How many parts the request could get of one device.
fn parts_of(
    request: &Request,
    room: &GpuRoom<'_>,
    part: &PartRoom,
    isolation: Isolation,
    uid: u32,
) -> u32 {
    let Some(device) = device(room.node, part.index) else { return 0 };
    match &device.mode {
        DeviceMode::Whole => 0,
        DeviceMode::Shared(sharing) => {
            let alone = part.users.iter().all(|user| *user == uid);
            let fits = sharing.isolation >= isolation
                && (sharing.isolation != Isolation::Mps || alone)
                && amounts(request, device)
                    .is_some_and(|(share, memory)| share <= part.share && memory <= part.memory);
            u32::from(fits)
        }
        DeviceMode::Mig(_) if request.gpu_share.is_some() => 0,
        DeviceMode::Mig(_) => {
            let Some(table) = device.mig_table() else { return 0 };
            let least = request.gpu_memory.unwrap_or_default();
            // Smaller ones first: whatever a larger one would block, they block less of.
            let mut sizes: Vec<_> = table.profiles.iter().filter(|p| !p.media).collect();
            sizes.sort_by_key(|p| p.size);
            let (mut taken, mut count) = (part.slots, 0);
            for profile in sizes {
                for slot in profile.slots() {
                    let big = device.instance_memory(slot) >= least;
                    if big && slot.mask() & taken == 0 && exists(device, slot) {
                        taken |= slot.mask();
                        count += 1;
                    }
                }
            }
            count
        }
    }
}

fn exists(device: &Device, slot: muster_model::MigSlot) -> bool {
    matches!(&device.mode, DeviceMode::Mig(mode)
        if mode.carve || mode.instances.iter().any(|i| i.slot == slot))
}

fn instances_fit(room: &GpuRoom<'_>, profiles: &Wanted) -> Option<bool> {
    let units: Vec<&str> = profiles
        .iter()
        .flat_map(|(kind, n)| {
            std::iter::repeat_n(kind.as_deref().unwrap_or_default(), (*n).min(1000) as usize)
        })
        .collect();
    if profiles.len() == 1 {
        // The places of one profile do not touch each other: a count is enough.
        return Some(places_of(room, units[0]) >= units.len() as u32);
    }
    if units.len() > room.parts.len() * 8 {
        return Some(false);
    }
    let mut left = room.parts.to_vec();
    let mut steps = 0;
    let found = lay(room.node, &mut left, &units, &mut steps);
    (found || steps < STEPS_MAX).then_some(found)
}

fn places_of(room: &GpuRoom<'_>, kind: &str) -> u32 {
    let (model, profile) = split_type(kind);
    let mut count = 0;
    for part in room.parts {
        let Some(device) = device(room.node, part.index) else { continue };
        let named = model.is_none_or(|m| device.model.eq_ignore_ascii_case(m));
        let table = device.mig_table().filter(|_| named);
        let Some(profile) = profile.and_then(|p| table?.profile(p)) else { continue };
        let open = profile.slots().filter(|s| s.mask() & part.slots == 0 && exists(device, *s));
        let open = open.count() as u32;
        count += if profile.media { open.min(u32::from(!part.media)) } else { open };
    }
    count
}

fn lay(node: &Node, left: &mut [PartRoom], units: &[&str], steps: &mut u32) -> bool {
    let Some((kind, rest)) = units.split_first() else { return true };
    let (model, profile) = split_type(kind);
    for at in 0..left.len() {
        let Some(device) = device(node, left[at].index) else { continue };
        let named = model.is_none_or(|m| device.model.eq_ignore_ascii_case(m));
        let table = device.mig_table().filter(|_| named);
        let Some(profile) = profile.and_then(|p| table?.profile(p)) else { continue };
        for slot in profile.slots() {
            let open = slot.mask() & left[at].slots == 0 && !(slot.media && left[at].media);
            if !open || !exists(device, slot) {
                continue;
            }
            *steps += 1;
            if *steps >= STEPS_MAX {
                return false;
            }
            let before = left[at].clone();
            left[at].slots |= slot.mask();
            left[at].media |= slot.media;
            if lay(node, left, rest, steps) {
                return true;
            }
            left[at] = before;
        }
    }
    false
}

/// GPUs of a node as wanted by type: what is fixed, and so many of the job's total.
pub(crate) fn wanted_on(request: &Request, node: &Node, tasks: u32, of_total: u32) -> Wanted {
    let mut wanted = fixed_gpus(request, node, tasks);
    let total =
        request.gpus.iter().find(|gpu| gpu.scope == muster_model::GpuScope::Job && gpu.count > 0);
    if let Some(total) = total {
        let entry = wanted.entry(total.model.as_ref().map(|m| m.to_ascii_lowercase()));
        let sum = entry.or_default();
        *sum = sum.saturating_add(of_total);
    }
    wanted
}

/// Whether each of so many sockets could give its GPUs, beside nothing else.
pub(crate) fn sockets_fit(request: &Request, room: &GpuRoom<'_>, uid: u32) -> Option<bool> {
    let mut each: Wanted = BTreeMap::new();
    for gpus in request.gpus.iter().filter(|g| g.scope == muster_model::GpuScope::Socket) {
        let kind = gpus.model.as_ref().map(|m| m.to_ascii_lowercase());
        *each.entry(kind).or_default() += gpus.count;
    }
    if each.values().all(|n| *n == 0) {
        return Some(true);
    }
    let node = room.node;
    let needed = request.sockets_per_node.unwrap_or_else(|| node.sockets()).max(1);
    let mut sockets: BTreeSet<u32> = node.numa.iter().map(|n| n.socket).collect();
    if sockets.is_empty() {
        sockets.insert(0);
    }
    let on =
        |socket: u32, index: u32| device(node, index).is_some_and(|d| socket_of(node, d) == socket);
    let mut served = 0;
    for socket in sockets {
        let whole: Vec<u32> = room.whole.iter().copied().filter(|i| on(socket, *i)).collect();
        let parts: Vec<PartRoom> =
            room.parts.iter().filter(|p| on(socket, p.index)).cloned().collect();
        let here = GpuRoom { node, policy: room.policy, whole: &whole, parts: &parts };
        served += u32::from(gpus_fit(request, &here, &each, uid)?);
    }
    Some(served >= needed)
}
