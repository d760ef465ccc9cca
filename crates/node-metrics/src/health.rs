//! What a machine's own signs ask for: no new jobs on it.
//!
//! Signs count from the first look on: what the kernel's log says of the time before may long be
//! mended. Each is told once, when it comes; a disk that is full again after it was not, again.

use std::collections::{BTreeMap, BTreeSet};

use crate::collector::{Part, Snapshot};
use crate::gpu::state::GpuState;
use crate::gpu::xid;

/// A link that was lost so often within [`FLAP_SECONDS`] flaps.
pub const FLAP_LOSSES: u64 = 3;

/// The time in which losses of a link count together.
pub const FLAP_SECONDS: f64 = 600.0;

/// A filesystem with a smaller share free is full; with twice as much it is not any more.
pub const FULL_SHARE: f64 = 0.02;

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Health {
    /// Xid messages by address, number and what they ask for; `None` before the first look.
    xids: Option<BTreeMap<xid::Key, u64>>,
    /// Losses of each link, as often as they were looked at within the time that counts.
    links: BTreeMap<String, Vec<(f64, u64)>>,
    /// GPUs whose driver asks for recovery.
    ill: BTreeMap<String, u8>,
    /// GPUs that cannot be reached.
    lost: BTreeSet<String>,
    /// The disk was full.
    full: bool,
}

impl Health {
    /// A GPU that cannot be reached any more; one that is back may be lost again.
    fn reached(&mut self, gpu: &GpuState) -> Option<String> {
        let address = gpu.pci.clone().unwrap_or_default();
        let name = if gpu.uuid.is_empty() { address } else { gpu.uuid.clone() };
        if !gpu.lost {
            self.lost.remove(&name);
            return None;
        }
        let told = format!("GPU {name} is lost");
        self.lost.insert(name).then_some(told)
    }

    /// What is new at an instant, in seconds on any clock that only goes forward: each as a
    /// sentence. `free` is the share that is free where jobs write.
    pub fn look(&mut self, at: f64, snapshot: &Snapshot, free: Option<f64>) -> Vec<String> {
        let mut found = Vec::new();
        for part in &snapshot.parts {
            match &**part {
                Part::Xids(counts) => {
                    let key = |(pci, xid, count): &(String, u32, xid::Count)| {
                        (pci.clone(), *xid, count.class)
                    };
                    let now = counts.iter().map(|one| (key(one), one.2.count));
                    let before = self.xids.replace(now.collect());
                    let Some(before) = before else { continue };
                    for one in counts.iter().filter(|(.., n)| n.class.drains()) {
                        let (pci, xid, count) = one;
                        let known = before.get(&key(one)).copied().unwrap_or(0);
                        if count.count > known {
                            let what = count.class.word();
                            found.push(format!("GPU {pci} reported Xid {xid} ({what})"));
                        }
                    }
                }
                Part::Gpus(all) => {
                    for gpu in all {
                        found.extend(self.reached(gpu));
                        let action = gpu.recovery_action.unwrap_or(0);
                        let before = self.ill.insert(gpu.uuid.clone(), action);
                        if action > 0 && before.unwrap_or(0) == 0 {
                            found.push(format!(
                                "GPU {} asks for recovery (action {action})",
                                gpu.uuid
                            ));
                        }
                    }
                }
                Part::Interfaces(all) => {
                    for one in all.iter().filter(|one| one.device) {
                        let losses = one.carrier_changes.map(|changes| changes / 2);
                        found.extend(self.link(at, &one.name, losses));
                    }
                }
                Part::Ports(all) => {
                    for one in all {
                        let name = format!("{}/{}", one.device, one.port);
                        found.extend(self.link(at, &name, one.counter("link_downed")));
                    }
                }
                _ => {}
            }
        }
        found.extend(self.disk(free));
        found
    }

    fn link(&mut self, at: f64, name: &str, losses: Option<u64>) -> Option<String> {
        let losses = losses?;
        let seen = self.links.entry(name.to_owned()).or_default();
        // A count that fell began anew with its driver.
        seen.retain(|(then, before)| at - then <= FLAP_SECONDS && *before <= losses);
        seen.push((at, losses));
        let first = seen.first().map_or(losses, |(_, losses)| *losses);
        if losses - first < FLAP_LOSSES {
            return None;
        }
        // Told once; what comes later counts from here.
        *seen = vec![(at, losses)];
        Some(format!("link {name} was lost {} times within minutes", losses - first))
    }

    fn disk(&mut self, free: Option<f64>) -> Option<String> {
        let free = free?;
        let was = self.full;
        self.full = free < FULL_SHARE || (was && free < 2.0 * FULL_SHARE);
        (self.full && !was).then(|| format!("the disk is full: {:.1} % are free", free * 100.0))
    }
}

#[cfg(test)]
mod tests {
    use super::Health;
    use crate::collector::{Part, Snapshot};
    use crate::gpu::catalogue::class_of;
    use crate::gpu::state::GpuState;
    use crate::gpu::xid::Count;
    use crate::network::interfaces::Interface;
    use std::sync::Arc;

    fn snapshot(part: Part) -> Snapshot {
        Snapshot { parts: vec![Arc::new(part)], ..Snapshot::default() }
    }

    fn xids(counts: &[(u32, u64)]) -> Snapshot {
        let one = |(xid, count): &(u32, u64)| {
            let count = Count { count: *count, last_us: None, class: class_of(*xid, "") };
            ("0000:17:00.0".to_owned(), *xid, count)
        };
        snapshot(Part::Xids(counts.iter().map(one).collect()))
    }

    #[test]
    fn an_xid_that_demands_it_is_told_when_it_comes_and_when_it_comes_again() {
        let mut health = Health::default();
        // Before the daemon was there.
        assert!(health.look(0.0, &xids(&[(79, 1)]), None).is_empty());
        assert!(health.look(60.0, &xids(&[(79, 1), (31, 5)]), None).is_empty());
        let found = health.look(120.0, &xids(&[(79, 2), (31, 9), (48, 1)]), None);
        assert_eq!(
            found,
            [
                "GPU 0000:17:00.0 reported Xid 79 (drain_reboot)",
                "GPU 0000:17:00.0 reported Xid 48 (drain_reset)",
            ]
        );
        assert!(health.look(180.0, &xids(&[(79, 2), (31, 9), (48, 1)]), None).is_empty());
    }

    #[test]
    fn a_gpu_whose_driver_asks_for_recovery_is_told_once() {
        let gpu = |action| {
            let gpu =
                GpuState { uuid: "GPU-a".to_owned(), recovery_action: action, ..<_>::default() };
            snapshot(Part::Gpus(vec![gpu]))
        };
        let mut health = Health::default();
        assert!(health.look(0.0, &gpu(None), None).is_empty());
        assert_eq!(health.look(60.0, &gpu(Some(1)), None).len(), 1);
        assert!(health.look(120.0, &gpu(Some(1)), None).is_empty());
        assert!(health.look(180.0, &gpu(Some(0)), None).is_empty());
        assert_eq!(health.look(240.0, &gpu(Some(2)), None).len(), 1);
    }

    #[test]
    fn a_gpu_that_is_lost_is_told_once_and_again_when_it_was_back() {
        let gpu = |lost| {
            let gpu = GpuState { uuid: "GPU-a".to_owned(), lost, ..<_>::default() };
            snapshot(Part::Gpus(vec![gpu]))
        };
        let mut health = Health::default();
        let told: Vec<usize> = [false, true, true, false, true]
            .into_iter()
            .map(|lost| health.look(0.0, &gpu(lost), None).len())
            .collect();
        assert_eq!(told, [0, 1, 0, 0, 1]);
    }

    #[test]
    fn a_link_flaps_where_it_is_lost_often_in_a_short_time() {
        let link = |changes| {
            let one = Interface {
                name: "eth0".to_owned(),
                device: true,
                carrier_changes: Some(changes),
                ..Interface::default()
            };
            snapshot(Part::Interfaces(vec![one]))
        };
        let mut health = Health::default();
        // Many losses before, then one now and then: a cable that was changed.
        for (at, changes) in [(0.0, 400), (60.0, 402), (1_000.0, 404), (2_000.0, 406)] {
            assert!(health.look(at, &link(changes), None).is_empty(), "{at}");
        }
        assert!(health.look(2_060.0, &link(410), None).is_empty());
        let found = health.look(2_120.0, &link(412), None);
        assert_eq!(found, ["link eth0 was lost 3 times within minutes"]);
        assert!(health.look(2_180.0, &link(412), None).is_empty());
        // The driver was loaded anew.
        assert!(health.look(2_240.0, &link(2), None).is_empty());
    }

    #[test]
    fn a_full_disk_is_told_again_only_after_it_was_not_full() {
        let mut health = Health::default();
        let none = Snapshot::default();
        let told: Vec<usize> = [None, Some(0.5), Some(0.019), Some(0.01), Some(0.03), Some(0.019)]
            .into_iter()
            .chain([Some(0.05), Some(0.015)])
            .map(|free| health.look(0.0, &none, free).len())
            .collect();
        assert_eq!(told, [0, 0, 1, 0, 0, 0, 0, 1]);
    }
}
