//! What is left on devices that are given out in parts, and which part a job gets.
//!
//! A share goes where it leaves the least behind that typical jobs cannot use: the measure of
//! Fragmentation Gradient Descent (Weng et al., USENIX ATC 2023), in integers, for the share of one
//! device; then to the fullest device, then near free CPUs, then by index.

use crate::ask::Ask;
use crate::devices::sets::Near;
use crate::devices::{Chosen, mig};
use crate::free::{DeviceMask, NodeView, Span, bit};
use muster_model::sharing::part_of;
use muster_model::{
    Device, DeviceGrant, DeviceMilli, DeviceMode, DeviceWish, GpuShare, Isolation, Mib, MigSlot,
    Node, Sharing, Timestamp,
};

/// Who has a part of a device already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Users {
    #[default]
    Nobody,
    One(u32),
    Several,
}

/// What is left of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) index: u32,
    /// Thousandths.
    pub(crate) share: u32,
    /// MiB.
    pub(crate) memory: u64,
    /// Memory slots that instances take, as bits.
    pub(crate) slots: u16,
    /// An instance with media extensions is there.
    pub(crate) media: bool,
    pub(crate) users: Users,
}

/// The shares that jobs typically ask for where the policy names none, with their weights.
const TYPICAL: [(u32, u32); 3] = [(250, 1), (500, 1), (1000, 1)];

/// The devices of a node that may be given out in parts, with all of them left.
pub(crate) fn base(node: &Node) -> Vec<Part> {
    let of = |device: &Device| -> Option<Part> {
        if !node.device_is_partible(device.index) {
            return None;
        }
        let foreign = node.foreign_device_memory(device.index);
        let reserve = match device.mode {
            DeviceMode::Shared(sharing) => sharing.reserve,
            DeviceMode::Whole | DeviceMode::Mig(_) => Mib::ZERO,
        };
        Some(Part {
            index: device.index,
            share: DeviceMilli::WHOLE.0,
            memory: device.memory.minus_or_zero(reserve.plus(foreign)).0,
            slots: 0,
            media: false,
            users: Users::Nobody,
        })
    };
    node.devices.iter().filter_map(of).collect()
}

impl Part {
    /// Takes a grant off what is left.
    pub(crate) fn take(&mut self, grant: &DeviceGrant, uid: u32) {
        self.share = self.share.saturating_sub(grant.share.0);
        self.memory = self.memory.saturating_sub(grant.memory.0);
        if let Some(slot) = grant.mig {
            self.slots |= slot.mask();
            self.media |= slot.media;
        }
        self.users = match self.users {
            Users::Nobody => Users::One(uid),
            Users::One(other) if other == uid => self.users,
            _ => Users::Several,
        };
    }

    fn close(&mut self) {
        *self = Self {
            share: 0,
            memory: 0,
            slots: u16::MAX,
            media: true,
            users: Users::Several,
            index: self.index,
        };
    }

    fn narrow(&mut self, other: &Self) {
        self.share = self.share.min(other.share);
        self.memory = self.memory.min(other.memory);
        self.slots |= other.slots;
        self.media |= other.media;
        self.users = match (self.users, other.users) {
            (Users::Nobody, users) | (users, Users::Nobody) => users,
            (Users::One(a), Users::One(b)) if a == b => self.users,
            _ => Users::Several,
        };
    }
}

/// What is left of the partible devices over the whole span.
pub(crate) fn over(view: &NodeView, span: Span) -> Vec<Part> {
    if view.base_parts.is_empty() {
        return Vec::new();
    }
    let mut least = at(view, span, span.from);
    for reserved in view.promised() {
        if reserved.from > span.from && span.meets(reserved.from, reserved.to) {
            let then = at(view, span, reserved.from);
            for (part, other) in least.iter_mut().zip(&then) {
                part.narrow(other);
            }
        }
    }
    least
}

fn at(view: &NodeView, span: Span, instant: Timestamp) -> Vec<Part> {
    let point = span.at(instant);
    let mut left = view.base_parts.clone();
    for held in view.holdings.iter().filter(|h| !point.sees_gone(h)) {
        take_all(&mut left, held.devices, &held.parts, held.uid);
    }
    for reserved in view.promised() {
        if reserved.from <= instant && (instant < reserved.to || reserved.to == Timestamp::NEVER) {
            take_all(&mut left, reserved.devices, &reserved.parts, reserved.uid);
        }
    }
    left
}

/// Takes off what one job has: devices in `touched` without a grant are its own as a whole.
fn take_all(left: &mut [Part], touched: DeviceMask, grants: &[DeviceGrant], uid: u32) {
    for part in left.iter_mut().filter(|p| touched & bit(p.index) != 0) {
        let (mut any, index) = (false, part.index);
        for grant in grants.iter().filter(|g| g.index == index) {
            part.take(grant, uid);
            any = true;
        }
        if !any {
            part.close();
        }
    }
}

/// At most so many jobs' parts that are still to be had of a device.
pub(crate) fn units(view: &NodeView, part: &Part) -> u32 {
    match view.node.devices.get(part.index as usize).map(|d| &d.mode) {
        Some(DeviceMode::Shared(_)) => 1,
        Some(DeviceMode::Mig(_)) => (!part.slots & 0xff).count_ones(),
        _ => 0,
    }
}

/// A possible part with what decides between such: the least is best.
type Scored = ((i64, u64, u64, u32, u32), DeviceGrant);

/// The best part of one device for the ask; devices that it already has a share of are left out.
pub(crate) fn best(
    ask: &Ask,
    view: &NodeView,
    left: &[Part],
    pool: DeviceMask,
    near: &Near,
    chosen: &Chosen,
) -> Option<DeviceGrant> {
    let DeviceWish::Part { share, isolation, .. } = ask.wish else { return None };
    let mut best: Option<Scored> = None;
    for part in left.iter().filter(|p| pool & bit(p.index) != 0) {
        let Some(device) = view.node.devices.get(part.index as usize) else { continue };
        let found = match &device.mode {
            DeviceMode::Shared(sharing) if chosen.touched() & bit(part.index) == 0 => {
                shared(ask, device, sharing, part, (share, isolation))
            }
            DeviceMode::Mig(_) if share.is_none() => {
                mig::for_memory(device, part, ask.request.gpu_memory.unwrap_or_default())
            }
            _ => None,
        };
        let Some((score, grant)) = found else { continue };
        let score = (score.0, score.1, score.2, near.missing(bit(part.index)), part.index);
        if best.as_ref().is_none_or(|b| score < b.0) {
            best = Some((score, grant));
        }
    }
    best.map(|b| b.1)
}

fn shared(
    ask: &Ask,
    device: &Device,
    sharing: &Sharing,
    part: &Part,
    (share, isolation): (Option<GpuShare>, Isolation),
) -> Option<((i64, u64, u64), DeviceGrant)> {
    let (milli, memory) = part_of(sharing, device.memory, share, ask.request.gpu_memory)?;
    let others = match part.users {
        Users::Nobody => false,
        Users::One(uid) => uid != ask.uid,
        Users::Several => true,
    };
    let fits = sharing.isolation >= isolation
        && milli.0 <= part.share
        && memory.0 <= part.memory
        && !(sharing.isolation == Isolation::Mps && others);
    if !fits {
        return None;
    }
    let left = part.share - milli.0;
    let worse = fragments(&ask.typical, left) - fragments(&ask.typical, part.share);
    let grant = DeviceGrant { index: part.index, share: milli, memory, mig: None };
    Some(((worse, u64::from(left), part.memory - memory.0), grant))
}

/// How much of what is left on a device typical jobs cannot use, by their weights.
pub(crate) fn fragments(typical: &[(u32, u32)], left: u32) -> i64 {
    let typical = known(typical);
    let lost = typical.iter().filter(|(share, _)| left < *share).map(|(_, w)| i64::from(*w));
    lost.sum::<i64>() * i64::from(left)
}

/// The sum of the weights that [`fragments`] counts by.
pub(crate) fn weights(typical: &[(u32, u32)]) -> i64 {
    known(typical).iter().map(|(_, weight)| i64::from(*weight)).sum()
}

fn known(typical: &[(u32, u32)]) -> &[(u32, u32)] {
    if typical.is_empty() { &TYPICAL } else { typical }
}

/// How much less use a device is to others with this grant on it.
pub(crate) fn worse(ask: &Ask, view: &NodeView, part: &Part, grant: &DeviceGrant) -> i64 {
    match grant.mig {
        Some(slot) => {
            let device = view.node.devices.get(part.index as usize);
            let table = device.and_then(Device::mig_table);
            table.map_or(0, |table| mig::weight(table, part.slots, slot))
        }
        None => {
            let left = part.share.saturating_sub(grant.share.0);
            fragments(&ask.typical, left) - fragments(&ask.typical, part.share)
        }
    }
}

/// The grant of an instance.
pub(crate) fn instance(device: &Device, slot: MigSlot) -> DeviceGrant {
    let slices = device.mig_table().map_or(7, |t| u32::from(t.slices));
    DeviceGrant {
        index: device.index,
        share: DeviceMilli(u32::from(slot.compute) * 1000 / slices),
        memory: device.instance_memory(slot),
        mig: Some(slot),
    }
}

#[cfg(test)]
mod tests {
    use super::fragments;

    #[test]
    fn a_rest_is_lost_for_those_that_need_more() {
        assert_eq!(
            [1000, 999, 500, 499, 250, 249, 0].map(|left| fragments(&[], left)),
            [0, 999, 500, 998, 500, 747, 0]
        );
        assert_eq!(fragments(&[(100, 3)], 99), 297);
    }
}
