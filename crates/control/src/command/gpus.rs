//! What GPUs could ever give to a request: one at a time, as if nobody used them.

use muster_model::mig::split_type;
use muster_model::sharing::{self, DeviceWish};
use muster_model::{Device, DeviceMode, DevicePolicy, GpuCount, Isolation, Mib, Node, Request};
use std::collections::BTreeSet;

/// How many GPUs, instances or parts of one device could be had for a count.
pub(super) fn units(device: &Device, r: &Request, policy: &DevicePolicy, gpus: &GpuCount) -> u64 {
    let (model, profile) = gpus.model.as_deref().map_or((None, None), split_type);
    if !model.is_none_or(|m| device.model.eq_ignore_ascii_case(m)) {
        return 0;
    }
    match profile {
        Some(profile) => instances(device, profile),
        None => wished(device, r, policy),
    }
}

fn instances(device: &Device, profile: &str) -> u64 {
    let DeviceMode::Mig(mode) = &device.mode else { return 0 };
    let Some(profile) = device.mig_table().and_then(|t| t.profile(profile)) else { return 0 };
    let there = |slot| mode.carve || mode.instances.iter().any(|i| i.slot == slot);
    let count = profile.slots().filter(|slot| there(*slot)).count() as u64;
    if profile.media { count.min(1) } else { count }
}

fn wished(device: &Device, r: &Request, policy: &DevicePolicy) -> u64 {
    let whole = !matches!(device.mode, DeviceMode::Mig(_))
        && r.gpu_memory.is_none_or(|memory| device.memory >= memory);
    match r.device_wish(policy) {
        DeviceWish::Whole => u64::from(whole),
        DeviceWish::Part { share, isolation, or_whole } => match &device.mode {
            DeviceMode::Shared(s) if s.isolation >= isolation => {
                let part = sharing::part_of(s, device.memory, share, r.gpu_memory);
                u64::from(part.is_some() || (or_whole && whole))
            }
            DeviceMode::Mig(mode) if share.is_none() => {
                let least = r.gpu_memory.unwrap_or_default();
                let Some(table) = device.mig_table() else { return 0 };
                let places = table.profiles.iter().flat_map(muster_model::MigProfile::slots);
                let big = places.filter(|slot| device.instance_memory(*slot) >= least);
                let there = |slot| mode.carve || mode.instances.iter().any(|i| i.slot == slot);
                // The smallest instances that do are the most that there could be.
                let fitting: Vec<_> = big.filter(|slot| there(*slot)).collect();
                let smallest = fitting.iter().map(|slot| slot.size).min();
                if mode.carve {
                    let same = |slot: &&sharing::MigSlot| Some(slot.size) == smallest;
                    let starts: BTreeSet<u8> =
                        fitting.iter().filter(same).map(|slot| slot.start).collect();
                    starts.len() as u64
                } else {
                    fitting.len() as u64
                }
            }
            DeviceMode::Whole | DeviceMode::Shared(_) | DeviceMode::Mig(_) => {
                u64::from(or_whole && whole)
            }
        },
    }
}

/// Why no GPU of these nodes, one at a time, could ever give what is asked of each, as a clause;
/// `None` where some could for every count.
pub(super) fn lacking(nodes: &[&Node], r: &Request, policy: &DevicePolicy) -> Option<String> {
    let devices: Vec<&Device> = nodes.iter().flat_map(|n| &n.devices).collect();
    let wanted = r.gpus.iter().filter(|g| g.count > 0);
    let missing = |gpus: &&GpuCount| devices.iter().all(|d| units(d, r, policy, gpus) == 0);
    let gpus = wanted.into_iter().find(missing)?;
    let (model, profile) = gpus.model.as_deref().map_or((None, None), split_type);
    let of_model: Vec<&Device> = devices
        .iter()
        .filter(|d| model.is_none_or(|m| d.model.eq_ignore_ascii_case(m)))
        .copied()
        .collect();
    if of_model.is_empty() {
        // The counts say the rest.
        return model.filter(|_| !devices.is_empty()).map(|model| {
            let there: BTreeSet<&str> = devices.iter().map(|d| d.model.as_str()).collect();
            let there = there.into_iter().collect::<Vec<_>>().join(", ");
            format!("no GPU of it is of model {model}; there are {there}")
        });
    }
    if let Some(profile) = profile {
        return Some(no_profile(&of_model, profile));
    }
    let largest = of_model.iter().map(|d| d.memory).max().unwrap_or(Mib::ZERO);
    if let Some(memory) = r.gpu_memory.filter(|memory| *memory > largest) {
        return Some(format!("no GPU of it has {memory}; the largest has {largest}"));
    }
    let DeviceWish::Part { share, isolation, .. } = r.device_wish(policy) else {
        return Some(
            "its GPUs are all cut into MIG instances: ask for a profile (--mig)".to_owned(),
        );
    };
    let shared: Vec<&sharing::Sharing> = of_model
        .iter()
        .filter_map(|d| match &d.mode {
            DeviceMode::Shared(s) => Some(s),
            DeviceMode::Whole | DeviceMode::Mig(_) => None,
        })
        .collect();
    let best = shared.iter().map(|s| s.isolation).max();
    Some(match (best, share) {
        (None, _) => "no GPU of it is shared: leave the share out for a whole one".to_owned(),
        (Some(best), _) if best < isolation => {
            let weaker = format!("its shared GPUs are kept apart by {best} at most");
            match isolation {
                Isolation::Mig => format!("{weaker}, and MIG instances have no share"),
                _ => format!("{weaker}, not by {isolation}"),
            }
        }
        (_, Some(sharing::GpuShare::Pieces(count))) => {
            let most = shared.iter().map(|s| s.pieces).max().unwrap_or(0);
            format!("{count} pieces of one GPU; a GPU of it is counted in {most}")
        }
        _ => "no GPU of it has a part as large as this to give".to_owned(),
    })
}

fn no_profile(devices: &[&Device], profile: &str) -> String {
    let modes = devices.iter().filter_map(|d| match &d.mode {
        DeviceMode::Mig(mode) => Some((*d, mode)),
        DeviceMode::Whole | DeviceMode::Shared(_) => None,
    });
    let cut: Vec<_> = modes.collect();
    if cut.is_empty() {
        return format!("no GPU of it is cut into MIG instances, so none is a {profile}");
    }
    let mut there: BTreeSet<&str> = BTreeSet::new();
    for (device, mode) in cut {
        let all = device.mig_table().into_iter().flat_map(|t| t.profiles).map(|p| p.name);
        let own = mode.instances.iter().filter_map(|i| device.profile_name(i.slot));
        there.extend(all.filter(|_| mode.carve).chain(own));
    }
    let there = there.into_iter().collect::<Vec<_>>().join(", ");
    format!("no GPU of it has {profile} instances; there are {there}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::sharing::{GpuShare, MigMode, Sharing};
    use muster_model::{DeviceMilli, GpuScope};

    fn node(modes: Vec<DeviceMode>) -> Node {
        let device = |mode| Device {
            model: "a100".to_owned(),
            memory: Mib(80 << 10),
            mode,
            ..Device::default()
        };
        let devices = modes.into_iter().map(device).collect();
        Node { devices, ..Node::default() }
    }

    fn one(model: Option<&str>) -> Request {
        let gpus = GpuCount { model: model.map(str::to_owned), count: 1, scope: GpuScope::Node };
        Request { gpus: vec![gpus], ..Request::default() }
    }

    fn said(modes: Vec<DeviceMode>, r: &Request) -> Option<String> {
        lacking(&[&node(modes)], r, &DevicePolicy::default())
    }

    #[test]
    fn each_impossible_wish_is_told_with_what_there_is() {
        let shared = |isolation, pieces| {
            DeviceMode::Shared(Sharing { isolation, pieces, ..Sharing::default() })
        };
        let big = Request { gpu_memory: Some(Mib(100 << 10)), ..one(None) };
        assert_eq!(
            said(vec![DeviceMode::Whole], &big).as_deref(),
            Some("no GPU of it has 100G; the largest has 80G")
        );
        let half = Request { gpu_share: Some(GpuShare::Milli(DeviceMilli(500))), ..one(None) };
        assert_eq!(
            said(vec![DeviceMode::Whole], &half).as_deref(),
            Some("no GPU of it is shared: leave the share out for a whole one")
        );
        assert_eq!(said(vec![shared(Isolation::Mps, 0)], &half), None);
        let six = Request { gpu_share: Some(GpuShare::Pieces(6)), ..one(None) };
        assert_eq!(
            said(vec![shared(Isolation::TimeSlice, 5)], &six).as_deref(),
            Some("6 pieces of one GPU; a GPU of it is counted in 5")
        );
        let fenced = Request { gpu_isolation: Some(Isolation::Mps), ..half };
        assert_eq!(
            said(vec![shared(Isolation::TimeSlice, 5)], &fenced).as_deref(),
            Some("its shared GPUs are kept apart by time-slice at most, not by mps")
        );
        let mig = || DeviceMode::Mig(MigMode { carve: true, instances: Vec::new() });
        assert_eq!(said(vec![mig()], &one(Some("3g.40gb"))), None);
        assert_eq!(
            said(vec![DeviceMode::Whole], &one(Some("3g.40gb"))).as_deref(),
            Some("no GPU of it is cut into MIG instances, so none is a 3g.40gb")
        );
        let wrong = said(vec![mig()], &one(Some("3g.20gb"))).unwrap_or_default();
        assert!(wrong.starts_with("no GPU of it has 3g.20gb instances; there are 1g.10gb,"));
        assert!(said(vec![mig()], &one(None)).is_some_and(|s| s.contains("--mig")));
        assert_eq!(
            said(vec![DeviceMode::Whole], &one(Some("h100"))).as_deref(),
            Some("no GPU of it is of model h100; there are a100")
        );
        assert_eq!(said(vec![mig(), DeviceMode::Whole], &one(None)), None);
    }
}
