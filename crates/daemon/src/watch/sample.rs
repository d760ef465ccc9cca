//! One job out of a snapshot of the machine.

use muster_diagnosis::{Gpu, Sample};
use muster_model::JobId;
use muster_node_metrics::block::disks::{Disk, SECTOR_BYTES};
use muster_node_metrics::cgroup::paths::Owner;
use muster_node_metrics::cgroup::usage::{Io, Usage};
use muster_node_metrics::collector::{Part, Snapshot};
use muster_node_metrics::filesystems::{gpfs, lustre, nfs};
use muster_node_metrics::gpu::state::{GpuState, HEAT_THROTTLE, POWER_THROTTLE};
use muster_node_metrics::host::pressure::{Pressure, Stall};
use muster_node_metrics::network::infiniband::Port;
use muster_node_metrics::network::interfaces::Interface;

/// Bytes a second of one PCIe lane, by generation from the first.
const LANE_BYTES: [f64; 6] = [0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9];

/// What a snapshot says of a job with these GPUs for itself; what the machine does as a whole only
/// where the job is alone on it.
pub(super) fn of(
    snapshot: &Snapshot,
    instance: &str,
    job: JobId,
    gpus: &[String],
    alone: bool,
) -> Sample {
    let mut sample = Sample::default();
    for part in &snapshot.parts {
        match &**part {
            Part::Jobs(all) => {
                let is_it = |usage: &&Usage| {
                    usage.key.owner == Owner::Muster
                        && usage.key.instance == instance
                        && usage.key.job == Some(u64::from(job.0))
                        && usage.key.step.is_empty()
                };
                if let Some(usage) = all.iter().find(is_it) {
                    by_cgroup(&mut sample, usage);
                }
            }
            Part::Gpus(all) => {
                let own = all.iter().filter(|gpu| gpus.contains(&gpu.uuid));
                sample.gpus.extend(own.map(gpu));
            }
            Part::Disks(all) if alone => by_disks(&mut sample, all),
            Part::Lustre(all) if alone => by_lustre(&mut sample, all),
            Part::Gpfs(all) if alone => by_gpfs(&mut sample, all),
            Part::Nfs(all) if alone => by_nfs(&mut sample, all),
            Part::Ports(all) if alone => by_ports(&mut sample, all),
            Part::Interfaces(all) if alone => by_interfaces(&mut sample, all),
            _ => {}
        }
    }
    if sample.disk_reads.is_some() {
        // Its own are more exact, and not to be counted twice.
        (sample.machine_reads, sample.machine_read_bytes) = (None, None);
        sample.machine_written_bytes = None;
    }
    sample
}

fn by_cgroup(sample: &mut Sample, usage: &Usage) {
    let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
    let number = |value: Option<u64>| value.map(|value| value as f64);
    sample.cpu_seconds = seconds(usage.cpu_ns);
    sample.cpus = number(usage.cpus);
    sample.throttled_seconds = seconds(usage.throttled_ns);
    // Cached files can be thrown out; shared memory, which is among them, cannot.
    let own = usage.rss.map(|rss| rss.saturating_add(usage.shared.unwrap_or(0)));
    sample.memory = number(own);
    sample.memory_limit = number(usage.memory_limit);
    sample.limit_hits = number(usage.limit_hits);
    sample.refaults = number(usage.refaults);
    let waited = |pressure: Option<Pressure>, which: fn(&Pressure) -> Option<Stall>| {
        Some(which(&pressure?)?.total_us as f64 / 1e6)
    };
    sample.cpu_waiting = waited(usage.pressure.cpu, |pressure| pressure.some);
    sample.memory_stalled = waited(usage.pressure.memory, |pressure| pressure.full);
    sample.io_waiting = waited(usage.pressure.io, |pressure| pressure.some);
    sample.io_stalled = waited(usage.pressure.io, |pressure| pressure.full);
    let sum = |of: fn(&Io) -> u64| {
        (!usage.io.is_empty()).then(|| usage.io.values().map(|io| of(io) as f64).sum())
    };
    sample.disk_reads = sum(|io| io.reads);
    sample.disk_read_bytes = sum(|io| io.read_bytes);
    sample.disk_written_bytes = sum(|io| io.written_bytes);
}

fn gpu(state: &GpuState) -> Gpu {
    let memory = state.memory_used.zip(state.memory_total);
    let held = |bits: u64| state.clock_reasons.map(|reasons| reasons & bits != 0);
    let link = state.pcie_link.and_then(|(generation, lanes)| {
        let lane = LANE_BYTES.get(generation.checked_sub(1)? as usize)?;
        Some(lane * f64::from(lanes)).filter(|bytes| *bytes > 0.0)
    });
    Gpu {
        uuid: state.uuid.clone(),
        busy: state.busy,
        sm_active: state.sm_active,
        memory: memory.map(|(used, total)| used as f64 / total.max(1) as f64),
        from_host: state.pcie_rx.zip(link).map(|(rate, link)| rate / link),
        heat: held(HEAT_THROTTLE),
        power: held(POWER_THROTTLE),
        watts: state.power,
        joules: state.energy_mj.map(|mj| mj as f64 / 1e3),
    }
}

fn add(to: &mut Option<f64>, more: Option<u64>) {
    if let Some(more) = more {
        *to = Some(to.unwrap_or(0.0) + more as f64);
    }
}

/// What is stacked on disks (LVM, RAID) would count the same reads again.
fn by_disks(sample: &mut Sample, all: &[Disk]) {
    let stacked = |disk: &Disk| disk.name.starts_with("dm-") || disk.name.starts_with("md");
    for disk in all.iter().filter(|disk| !disk.partition && !stacked(disk)) {
        add(&mut sample.machine_reads, Some(disk.reads.count));
        add(&mut sample.machine_read_bytes, Some(disk.reads.sectors.saturating_mul(SECTOR_BYTES)));
        add(
            &mut sample.machine_written_bytes,
            Some(disk.writes.sectors.saturating_mul(SECTOR_BYTES)),
        );
    }
}

fn by_lustre(sample: &mut Sample, all: &[lustre::ClientStats]) {
    for client in all.iter().filter(|client| client.layer == "llite") {
        let count = |name: &str| client.operations.get(name).map(|operation| operation.count);
        add(&mut sample.shared_reads, count("read_bytes"));
        add(&mut sample.shared_read_bytes, client.sum("read_bytes", "bytes"));
        add(&mut sample.shared_written_bytes, client.sum("write_bytes", "bytes"));
        for name in lustre::METADATA {
            add(&mut sample.shared_metadata, count(name));
        }
    }
}

fn by_gpfs(sample: &mut Sample, all: &[gpfs::Filesystem]) {
    for one in all {
        add(&mut sample.shared_reads, one.reads);
        add(&mut sample.shared_read_bytes, one.read_bytes);
        add(&mut sample.shared_written_bytes, one.written_bytes);
        for count in [one.opens, one.closes, one.directory_reads, one.inode_updates] {
            add(&mut sample.shared_metadata, count);
        }
    }
}

fn by_nfs(sample: &mut Sample, all: &[nfs::Mount]) {
    for mount in all.iter().filter(|mount| mount.shares_with.is_none()) {
        let count = |name: &str| mount.operations.get(name).map(|operation| operation.count);
        add(&mut sample.shared_reads, count("READ"));
        add(&mut sample.shared_read_bytes, mount.bytes.map(|bytes| bytes[4]));
        add(&mut sample.shared_written_bytes, mount.bytes.map(|bytes| bytes[5]));
        for name in nfs::METADATA {
            add(&mut sample.shared_metadata, count(name));
        }
    }
}

fn by_ports(sample: &mut Sample, all: &[Port]) {
    for port in all.iter().filter(|port| port.active()) {
        add(&mut sample.rdma_bytes, port.counter("port_xmit_data"));
        add(&mut sample.rdma_bytes, port.counter("port_rcv_data"));
    }
}

fn by_interfaces(sample: &mut Sample, all: &[Interface]) {
    for interface in all.iter().filter(|interface| interface.device) {
        add(&mut sample.ethernet_bytes, interface.counter("rx_bytes"));
        add(&mut sample.ethernet_bytes, interface.counter("tx_bytes"));
    }
}

#[cfg(test)]
mod tests {
    use super::of;
    use muster_model::JobId;
    use muster_node_metrics::collector::{Collector, Options};
    use std::path::PathBuf;

    #[test]
    fn a_job_is_told_by_its_cgroup_and_by_the_machine_where_it_is_alone() {
        let root =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../exporter/tests/captured/gpu-node");
        let snapshot = Collector::new(&Options { root, ..Options::default() }).collect();
        let gpus = ["GPU-0a000000-1111-2222-3333-000000000001".to_owned()];
        let sample = of(&snapshot, "abcd", JobId(42), &gpus, true);
        assert_eq!((sample.cpu_seconds, sample.cpus), (Some(360.0), Some(8.0)));
        assert_eq!(sample.memory_limit, Some(17_179_869_184.0));
        assert_eq!((sample.disk_reads, sample.io_stalled), (Some(1_000.0), Some(0.25)));
        // Lustre, Storage Scale and NFS together.
        assert_eq!(sample.shared_reads, Some(300_000.0 + 532_704.0 + 40_000.0));
        assert_eq!(sample.rdma_bytes, Some(4_020_000_000_308.0));
        // Its cgroup counts its I/O: the disks as a whole say nothing more.
        assert_eq!((sample.machine_reads, sample.machine_read_bytes), (None, None));
        let gpu = &sample.gpus[0];
        assert_eq!(
            (sample.gpus.len(), gpu.busy, gpu.power, gpu.heat),
            (1, Some(0.31), Some(true), Some(false))
        );
        let shared = of(&snapshot, "abcd", JobId(42), &[], false);
        assert_eq!((shared.shared_reads, shared.rdma_bytes, shared.gpus.len()), (None, None, 0));
        // No cgroup counts for this one, which is alone: what all disks do is its doing.
        let other = of(&snapshot, "other", JobId(42), &[], true);
        assert_eq!(other.machine_reads, Some(540_000.0));
        assert_eq!(other.machine_read_bytes, Some(64_320_000.0 * 512.0));
        // Another muster's job with the same number.
        assert_eq!(of(&snapshot, "other", JobId(42), &[], false).cpu_seconds, None);
    }
}
