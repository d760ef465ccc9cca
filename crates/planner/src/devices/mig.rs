//! Where on a card an instance goes: where the largest profiles stay possible.

use crate::devices::parts::{self, Part};
use crate::free::NodeView;
use muster_model::{Device, DeviceGrant, DeviceMode, Mib, MigProfile, MigSlot, MigTable};

/// A search for places of several instances is given up beyond so many steps.
const STEPS_MAX: u32 = 5_000;

/// So many instances of a profile, of a model where it names one.
type Profiles<'a> = (Option<&'a str>, &'a str, u32);

/// For each profile, the largest first, how many of it could still be cut alone.
fn possible(table: &MigTable, taken: u16) -> Vec<u32> {
    let mut profiles: Vec<&MigProfile> = table.profiles.iter().filter(|p| !p.media).collect();
    profiles.sort_by_key(|p| std::cmp::Reverse((p.size, p.compute)));
    let open = |p: &&MigProfile| p.slots().filter(|s| s.mask() & taken == 0).count() as u32;
    profiles.iter().map(open).collect()
}

/// What placing an instance makes impossible, the largest profile first; less is better.
fn loss(table: &MigTable, taken: u16, slot: MigSlot) -> Vec<u32> {
    let (before, after) = (possible(table, taken), possible(table, taken | slot.mask()));
    before.iter().zip(after).map(|(b, a)| b.saturating_sub(a)).collect()
}

/// [`loss`] as one number.
pub(crate) fn weight(table: &MigTable, taken: u16, slot: MigSlot) -> i64 {
    loss(table, taken, slot).iter().fold(0, |sum, n| sum * 8 + i64::from(*n))
}

/// The places that a profile may have on a device now.
fn places(device: &Device, part: &Part, profile: &MigProfile) -> Vec<MigSlot> {
    let DeviceMode::Mig(mode) = &device.mode else { return Vec::new() };
    let there = |slot: &MigSlot| mode.carve || mode.instances.iter().any(|i| i.slot == *slot);
    profile
        .slots()
        .filter(|slot| slot.mask() & part.slots == 0 && !(slot.media && part.media))
        .filter(there)
        .collect()
}

/// The smallest instance of a device with so much memory, where it costs the least; its score is
/// the slots it takes and what it makes impossible.
pub(crate) fn for_memory(
    device: &Device,
    part: &Part,
    least: Mib,
) -> Option<((i64, u64, u64), DeviceGrant)> {
    let table = device.mig_table()?;
    let mut profiles: Vec<&MigProfile> = table
        .profiles
        .iter()
        .filter(|p| !p.media && table.memory(p.size, device.memory) >= least)
        .collect();
    profiles.sort_by_key(|p| (p.size, p.compute));
    let of = |profile: &&MigProfile| {
        let places = places(device, part, profile).into_iter();
        places.min_by_key(|slot| (loss(table, part.slots, *slot), slot.start))
    };
    let slot = profiles.iter().find_map(of)?;
    let weight = weight(table, part.slots, slot).unsigned_abs();
    Some(((i64::from(slot.size), weight, 0), parts::instance(device, slot)))
}

/// Places for all instances asked for, taken off what is left; `None` where they do not all fit.
///
/// Exact within a bound of steps: the largest first, each tried first where it costs the least.
pub(crate) fn place(
    view: &NodeView,
    left: &mut [Part],
    wanted: &[Profiles<'_>],
) -> Option<Vec<DeviceGrant>> {
    let mut units: Vec<(Option<&str>, &str)> = Vec::new();
    for (model, profile, count) in wanted {
        if *count as usize > left.len() * 8 {
            return None;
        }
        units.extend(std::iter::repeat_n((*model, *profile), *count as usize));
    }
    let size = |profile: &str| {
        let tables =
            left.iter().filter_map(|p| view.node.devices.get(p.index as usize)?.mig_table());
        tables.filter_map(|t| t.profile(profile)).map(|p| p.size).max().unwrap_or(0)
    };
    units.sort_by_key(|(_, profile)| std::cmp::Reverse(size(profile)));
    let mut steps = 0;
    let mut chosen = Vec::with_capacity(units.len());
    search(view, left, &units, &mut chosen, &mut steps).then_some(chosen)
}

fn search(
    view: &NodeView,
    left: &mut [Part],
    units: &[(Option<&str>, &str)],
    chosen: &mut Vec<DeviceGrant>,
    steps: &mut u32,
) -> bool {
    let Some(((model, profile), rest)) = units.split_first() else { return true };
    let mut candidates = Vec::new();
    for (at, part) in left.iter().enumerate() {
        let Some(device) = view.node.devices.get(part.index as usize) else { continue };
        let named = model.is_none_or(|m| device.model.eq_ignore_ascii_case(m));
        let Some(table) = device.mig_table().filter(|_| named) else { continue };
        let Some(profile) = table.profile(profile) else { continue };
        for slot in places(device, part, profile) {
            candidates.push((loss(table, part.slots, slot), at, slot));
        }
    }
    candidates.sort();
    for (_, at, slot) in candidates {
        *steps += 1;
        if *steps > STEPS_MAX {
            return false;
        }
        let before = left[at].clone();
        let Some(device) = view.node.devices.get(before.index as usize) else { continue };
        let grant = parts::instance(device, slot);
        left[at].take(&grant, 0);
        chosen.push(grant);
        if search(view, left, rest, chosen, steps) {
            return true;
        }
        chosen.pop();
        left[at] = before;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> &'static MigTable {
        MigTable::of("a100", Mib(40 << 10)).expect("a100")
    }

    fn start(taken: u16, profile: &str) -> Option<u8> {
        let table = table();
        let profile = table.profile(profile).expect("profile");
        let open = profile.slots().filter(|s| s.mask() & taken == 0);
        open.min_by_key(|s| (loss(table, taken, *s), s.start)).map(|s| s.start)
    }

    #[test]
    fn t31_the_first_goes_where_large_ones_stay_possible() {
        assert_eq!(start(0, "1g.5gb"), Some(6));
        assert_eq!(start(0, "2g.10gb"), Some(4));
        assert_eq!(start(0, "3g.20gb"), Some(4));
    }

    #[test]
    fn t32_order_matters() {
        let mask = |start: u8, size: u8| MigSlot { start, size, ..MigSlot::default() }.mask();
        assert_eq!(start(mask(0, 1), "4g.20gb"), None);
        let mut taken = mask(6, 1);
        assert_eq!(start(taken, "4g.20gb"), Some(0));
        taken |= mask(0, 4);
        assert_eq!(start(taken, "2g.10gb"), Some(4));
        taken |= mask(4, 2);
        assert_eq!(start(taken, "1g.5gb"), None);
        assert_eq!(start(mask(0, 2) | mask(4, 1), "3g.20gb"), None);
        assert_eq!(start(mask(1, 1) | mask(5, 1), "3g.20gb"), None);
    }
}
