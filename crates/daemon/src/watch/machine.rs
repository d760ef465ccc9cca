//! What the machine does with disks, filesystems and networks between two looks at it.

use super::Watch;
use crate::app::App;
use muster_api::{FilesystemView, LinkView, MachineView, StorageView};
use muster_node_metrics::block::disks::{self, Disk};
use muster_node_metrics::collector::{Outcome, Part, Snapshot};
use muster_node_metrics::counter::Width;
use muster_node_metrics::filesystems::space::Space;
use muster_node_metrics::filesystems::{Rates, beegfs, gpfs, lustre, nfs};
use muster_node_metrics::host::pressure::{Pressure, Pressures};
use muster_node_metrics::network::ethtool::Card;
use muster_node_metrics::network::infiniband::{self, Port};
use muster_node_metrics::network::interfaces::{self, Interface};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

impl Watch {
    /// What the machine does. Takes a while; for threads that may wait.
    pub(crate) fn machine(&self) -> MachineView {
        let now = self.snapshot();
        let earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before = earlier.as_ref().map(|(passed, snapshot)| (*passed, snapshot));
        MachineView { bandwidth: self.bandwidth.all(), ..of(before, &now) }
    }
}

/// A snapshot, and the one before it with the time that passed in between.
pub(super) fn of(before: Option<(Duration, &Snapshot)>, now: &Snapshot) -> MachineView {
    let seconds = before.map(|(passed, _)| passed.as_secs_f64());
    let mut view = MachineView { now_ms: App::now(), seconds, ..MachineView::default() };
    let silent = now.reports.iter().filter_map(|report| match &report.outcome {
        Outcome::Read | Outcome::Absent => None,
        Outcome::Late => Some(format!("{}: no answer in time", report.source)),
        Outcome::Failed(why) => Some(format!("{}: {why}", report.source)),
    });
    view.silent.extend(silent);
    let parts = before.map_or(&[][..], |(_, snapshot)| &snapshot.parts);
    let gap = Gap { before: parts, seconds: seconds.unwrap_or(0.0) };
    for part in &now.parts {
        match &**part {
            Part::Pressure(now) => gap.pressure(&mut view, now),
            Part::Disks(all) => {
                let whole = all.iter().filter(|disk| !disk.partition);
                view.storage.extend(whole.map(|disk| gap.disk(disk)));
            }
            Part::Lustre(all) => {
                let mounts = all.iter().filter(|client| client.layer == "llite");
                view.storage.extend(mounts.map(|client| gap.lustre(client)));
            }
            Part::Gpfs(all) => view.storage.extend(all.iter().map(|one| gap.gpfs(one))),
            Part::Beegfs(all) => {
                view.storage.extend(all.iter().map(|(kind, clients)| gap.beegfs(kind, clients)));
            }
            Part::Nfs(all) => {
                let mounts = all.iter().filter(|mount| mount.shares_with.is_none());
                view.storage.extend(mounts.map(|mount| gap.nfs(mount)));
            }
            Part::Spaces(all) => view.filesystems.extend(all.iter().map(filesystem)),
            Part::Interfaces(all) => {
                let real = all.iter().filter(|interface| interface.device);
                view.links
                    .extend(real.map(|interface| gap.interface(interface, card(now, interface))));
            }
            Part::Ports(all) => view.links.extend(all.iter().map(|port| gap.port(port))),
            _ => {}
        }
    }
    view
}

/// What there was before, and how long ago.
struct Gap<'a> {
    before: &'a [Arc<Part>],
    seconds: f64,
}

/// The earlier reading of one thing in the parts of a kind.
macro_rules! earlier {
    ($gap:expr, $part:ident, $is_it:expr) => {
        $gap.before
            .iter()
            .find_map(|part| if let Part::$part(all) = &**part { Some(all) } else { None })
            .and_then(|all| all.iter().find($is_it))
    };
}

impl Gap<'_> {
    fn pressure(&self, view: &mut MachineView, now: &Pressures) {
        let before = self.before.iter().find_map(|part| match &**part {
            Part::Pressure(before) => Some(*before),
            _ => None,
        });
        let Some(before) = before.filter(|_| self.seconds > 0.0) else { return };
        let share = |before: Option<Pressure>, now: Option<Pressure>| {
            let total = |pressure: Option<Pressure>| Some(pressure?.some?.total_us);
            let waited = total(now)?.checked_sub(total(before)?)?;
            Some((waited as f64 / 1e6 / self.seconds).min(1.0))
        };
        view.cpu_waiting = share(before.cpu, now.cpu);
        view.memory_waiting = share(before.memory, now.memory);
        view.io_waiting = share(before.io, now.io);
    }

    fn disk(&self, now: &Disk) -> StorageView {
        let found = earlier!(self, Disks, |disk: &&Disk| disk.number == now.number);
        let rates = found.map(|before| disks::rates(before, now, self.seconds)).unwrap_or_default();
        let bytes = |kb: Option<f64>| kb.map(|kb| kb * 1024.0);
        StorageView {
            kind: "disk".to_owned(),
            name: now.name.clone(),
            read: bytes(rates.read.kb),
            written: bytes(rates.write.kb),
            reads: rates.read.requests,
            read_size: bytes(rates.read.size_kb),
            metadata: None,
            wait_ms: rates.read.wait_ms,
            busy: rates.busy_percent.map(|percent| percent / 100.0),
        }
    }

    fn lustre(&self, now: &lustre::ClientStats) -> StorageView {
        let is_it =
            |one: &&lustre::ClientStats| (&one.layer, &one.instance) == (&now.layer, &now.instance);
        let rates = earlier!(self, Lustre, is_it)
            .map(|before| lustre::rates(before, now, self.seconds))
            .unwrap_or_default();
        network("lustre", &now.filesystem, rates)
    }

    fn gpfs(&self, now: &gpfs::Filesystem) -> StorageView {
        let is_it =
            |one: &&gpfs::Filesystem| (&one.cluster, &one.name) == (&now.cluster, &now.name);
        let rates =
            earlier!(self, Gpfs, is_it).map(|before| gpfs::rates(before, now)).unwrap_or_default();
        network("gpfs", &now.name, rates)
    }

    fn beegfs(&self, servers: &str, now: &[beegfs::ClientCounts]) -> StorageView {
        let rates = earlier!(self, Beegfs, |(kind, _): &&(&str, _)| *kind == servers)
            .map(|(_, before)| beegfs::rates(before, now, self.seconds))
            .unwrap_or_default();
        let metadata = rates.metadata.filter(|_| servers == "meta");
        network("beegfs", servers, Rates { metadata, ..rates })
    }

    fn nfs(&self, now: &nfs::Mount) -> StorageView {
        let is_it = |one: &&nfs::Mount| (&one.device, &one.path) == (&now.device, &now.path);
        let before = earlier!(self, Nfs, is_it);
        let rates = |name: &str| {
            let (before, now) = (before?.operations.get(name)?, now.operations.get(name)?);
            Some(nfs::rates(before, now, self.seconds))
        };
        let (reads, writes) = (rates("READ"), rates("WRITE"));
        let metadata = nfs::METADATA.iter().filter_map(|name| rates(name)?.operations);
        StorageView {
            kind: "nfs".to_owned(),
            name: now.device.clone(),
            read: reads.and_then(|rates| rates.bytes),
            written: writes.and_then(|rates| rates.bytes),
            reads: reads.and_then(|rates| rates.operations),
            read_size: reads.and_then(|rates| rates.size),
            metadata: metadata.reduce(|sum, more| sum + more),
            wait_ms: reads.and_then(|rates| rates.total_ms),
            busy: None,
        }
    }

    fn interface(&self, now: &Interface, card: Option<&Card>) -> LinkView {
        let found = earlier!(self, Interfaces, |one: &&Interface| one.name == now.name);
        let rates = found
            .map(|before| interfaces::rates(before, now, Width::Bits64, self.seconds))
            .unwrap_or_default();
        LinkView {
            kind: "ethernet".to_owned(),
            name: now.name.clone(),
            up: now.carrier,
            speed: now.speed.or(card.and_then(|card| card.speed)),
            speed_max: card.and_then(Card::speed_max),
            full_duplex: now.full_duplex,
            received: rates.rx_bytes,
            sent: rates.tx_bytes,
            errors: both(now.counter("rx_errors"), now.counter("tx_errors")),
            dropped: both(now.counter("rx_dropped"), now.counter("tx_dropped")),
            // Each loss of the carrier is followed by its return.
            lost: now.carrier_changes.map(|changes| changes / 2),
            pauses: card.and_then(|card| both(card.pause.received, card.pause.sent)),
            down_because: card.and_then(|card| card.down_because).map(str::to_owned),
        }
    }

    fn port(&self, now: &Port) -> LinkView {
        let is_it = |one: &&Port| (&one.device, one.port) == (&now.device, now.port);
        let (sent, received) = earlier!(self, Ports, is_it)
            .map(|before| infiniband::rates(before, now, self.seconds))
            .unwrap_or_default();
        LinkView {
            kind: "infiniband".to_owned(),
            name: format!("{}/{}", now.device, now.port),
            up: Some(now.active()),
            speed: now.rate,
            received,
            sent,
            errors: both(now.counter("symbol_error"), now.counter("port_rcv_errors")),
            dropped: now.counter("port_xmit_discards"),
            lost: now.counter("link_downed"),
            ..LinkView::default()
        }
    }
}

fn network(kind: &str, name: &str, rates: Rates) -> StorageView {
    StorageView {
        kind: kind.to_owned(),
        name: name.to_owned(),
        read: rates.read_bytes,
        written: rates.written_bytes,
        reads: rates.reads,
        read_size: rates.read_size,
        metadata: rates.metadata,
        ..StorageView::default()
    }
}

fn filesystem(space: &Space) -> FilesystemView {
    let sizes = space.sizes;
    let inodes = sizes.filter(|sizes| sizes.inodes > 0);
    FilesystemView {
        path: space.path.clone(),
        device: space.device.clone(),
        kind: space.kind.clone(),
        read_only: space.read_only,
        silent: sizes.is_none(),
        nearly_full: space.nearly_full(),
        size: sizes.map(|sizes| sizes.size),
        used: sizes.map(|sizes| sizes.used),
        free: sizes.map(|sizes| sizes.free),
        inodes: inodes.map(|sizes| sizes.inodes),
        inodes_free: inodes.map(|sizes| sizes.inodes_free),
    }
}

/// What the card behind an interface says of itself.
fn card<'a>(now: &'a Snapshot, interface: &Interface) -> Option<&'a Card> {
    let cards = now.parts.iter().find_map(|part| match &**part {
        Part::Cards(cards) => Some(cards),
        _ => None,
    })?;
    cards.iter().find(|card| card.name == interface.name)
}

fn both(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one?.saturating_add(other?))
}

#[cfg(test)]
mod tests {
    use super::of;
    use muster_api::MachineView;
    use muster_node_metrics::collector::{Collector, Options, Snapshot};
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    fn snapshot(root: &Path) -> Snapshot {
        Collector::new(&Options { root: root.to_path_buf(), ..Options::default() }).collect()
    }

    #[test]
    fn one_look_has_names_and_states_but_no_rates() {
        let root =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../exporter/tests/captured/gpu-node");
        let view: MachineView = of(None, &snapshot(&root));
        assert_eq!((view.seconds, view.io_waiting), (None, None));
        let kinds: Vec<&str> = view.storage.iter().map(|one| one.kind.as_str()).collect();
        assert!(
            ["disk", "lustre", "gpfs", "beegfs", "nfs"].iter().all(|kind| kinds.contains(kind))
        );
        assert!(view.storage.iter().all(|one| one.read.is_none()), "{:?}", view.storage);
        let full: Vec<&str> = view
            .filesystems
            .iter()
            .filter(|one| one.nearly_full)
            .map(|one| one.path.as_str())
            .collect();
        assert_eq!((view.filesystems.len(), &full[..]), (4, &["/scratch"][..]));
        let slow = view.links.iter().find(|link| link.name == "eth0").expect("eth0");
        assert_eq!((slow.speed, slow.speed_max), (Some(3_125_000_000), Some(12_500_000_000)));
        assert_eq!((slow.full_duplex, slow.pauses), (Some(true), Some(44)));
        let port = view.links.iter().find(|link| link.kind == "infiniband").expect("a port");
        assert_eq!((port.up, port.received), (Some(true), None));
    }

    #[test]
    fn two_looks_have_rates_and_what_fell_has_none() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let look = |reads: u64, waited: u64| {
            let disk = |name: &str, reads: u64| {
                let sectors = reads * 16;
                format!("   8 0 {name} {reads} 0 {sectors} {reads} 0 0 0 0 0 {reads} 0\n")
            };
            write("proc/diskstats", &disk("sda", reads));
            write("proc/pressure/io", &format!("some avg10=0 avg60=0 avg300=0 total={waited}\n"));
            snapshot(root.path())
        };
        let (first, second, third) = (look(1_000, 0), look(3_000, 4_000_000), look(5, 0));
        let gap = Duration::from_secs(10);
        let view = of(Some((gap, &first)), &second);
        let disk = &view.storage[0];
        assert_eq!((disk.reads, disk.read_size), (Some(200.0), Some(8_192.0)));
        assert_eq!((disk.read, disk.wait_ms), (Some(200.0 * 8_192.0), Some(1.0)));
        assert_eq!((view.seconds, view.io_waiting), (Some(10.0), Some(0.4)));
        let begun = of(Some((gap, &second)), &third);
        assert_eq!((begun.storage[0].reads, begun.io_waiting), (None, None));
    }
}
