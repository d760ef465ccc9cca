//! GPUs and their Xids.

use std::collections::BTreeMap;

use muster_node_metrics::collector::{Part, Snapshot};
use muster_node_metrics::gpu::state::{GpuState, InstanceState};
use muster_node_metrics::gpu::xid::Count;

use crate::exposition::{Exposition, Settings};
use crate::families;
use crate::owners::Owners;

const MIB: u64 = 1 << 20;

/// The unique ids of GPUs by their addresses.
pub(super) fn addresses(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let gpus = snapshot.parts.iter().filter_map(|part| match &**part {
        Part::Gpus(gpus) => Some(gpus),
        _ => None,
    });
    gpus.flatten().filter_map(|gpu| Some((gpu.pci.clone()?, gpu.uuid.clone()))).collect()
}

/// Each GPU once for each job that has it, and once where none has.
pub(super) fn put(out: &mut Exposition, all: &[GpuState], owners: &Owners, settings: &Settings) {
    for gpu in all {
        let index = gpu.index.map(|index| index.to_string()).unwrap_or_default();
        let short = [("gpu", index.as_str()), ("UUID", gpu.uuid.as_str())];
        out.put(&families::GPU_LOST, &short, gpu.lost);
        out.put(&families::GPU_RECOVERY, &short, gpu.recovery_action.map(u64::from));
        out.put(&families::GPU_POWER_LIMIT, &short, gpu.power_limit);
        out.put(&families::GPU_MEMORY, &short, gpu.memory_total);
        let jobs = owners.gpus.get(&gpu.uuid).map(Vec::as_slice).unwrap_or_default();
        for job in jobs {
            let job = job.to_string();
            let labels = [("jobid", job.as_str()), ("UUID", gpu.uuid.as_str())];
            out.put(&families::JOB_GPU_INFO, &labels, 1_u64);
        }
        let mut told: Vec<String> = jobs.iter().map(u64::to_string).collect();
        if told.is_empty() {
            told.push(String::new());
        }
        for job in told {
            whole(out, gpu, &index, &job, settings);
        }
    }
}

fn whole(out: &mut Exposition, gpu: &GpuState, index: &str, job: &str, settings: &Settings) {
    let device = format!("nvidia{index}");
    let labels = [
        ("gpu", index),
        ("UUID", gpu.uuid.as_str()),
        ("pci_bus_id", gpu.pci.as_deref().unwrap_or_default()),
        ("device", if index.is_empty() { "" } else { device.as_str() }),
        ("modelName", gpu.product.as_deref().unwrap_or_default()),
        ("Hostname", settings.hostname.as_str()),
        ("hostname", settings.hostname.as_str()),
        ("hpc_job", job),
    ];
    let percent = |share: Option<f64>| share.map(|share| (share * 100.0).round());
    let mib = |bytes: Option<u64>| bytes.map(|bytes| bytes / MIB);
    out.put(&families::GPU_UTIL, &labels, percent(gpu.busy));
    out.put(&families::GPU_MEM_COPY, &labels, percent(gpu.memory_busy));
    out.put(&families::GPU_FB_USED, &labels, mib(gpu.memory_used));
    out.put(&families::GPU_FB_FREE, &labels, mib(gpu.memory_free));
    out.put(&families::GPU_FB_RESERVED, &labels, mib(gpu.memory_reserved));
    out.put(&families::GPU_SM_CLOCK, &labels, gpu.sm_clock);
    out.put(&families::GPU_MEM_CLOCK, &labels, gpu.memory_clock);
    out.put(&families::GPU_TEMP, &labels, gpu.temperature);
    out.put(&families::GPU_MEMORY_TEMP, &labels, gpu.memory_temperature);
    out.put(&families::GPU_POWER, &labels, gpu.power);
    out.put(&families::GPU_ENERGY, &labels, gpu.energy_mj);
    out.put(&families::GPU_REPLAYS, &labels, gpu.pcie_replays);
    out.put(&families::GPU_ROWS_COR, &labels, gpu.rows_corrected);
    out.put(&families::GPU_ROWS_UNC, &labels, gpu.rows_uncorrected);
    out.put(&families::GPU_ROW_FAILURE, &labels, gpu.row_failure);
    out.put(&families::GPU_ECC_SBE, &labels, gpu.ecc_corrected);
    out.put(&families::GPU_ECC_DBE, &labels, gpu.ecc_uncorrected);
    out.put(&families::GPU_CLOCK_REASONS, &labels, gpu.clock_reasons);
    out.put(&families::GPU_SM_ACTIVE, &labels, gpu.sm_active);
    out.put(&families::GPU_SM_OCCUPANCY, &labels, gpu.sm_occupancy);
    out.put(&families::GPU_TENSOR, &labels, gpu.tensor_active);
    out.put(&families::GPU_DRAM, &labels, gpu.dram_active);
    out.put(&families::GPU_PCIE_TX, &labels, gpu.pcie_tx);
    out.put(&families::GPU_PCIE_RX, &labels, gpu.pcie_rx);
    for instance in &gpu.instances {
        part(out, instance, &labels);
    }
}

fn part(out: &mut Exposition, instance: &InstanceState, labels: &[(&'static str, &str)]) {
    let id = instance.id.to_string();
    let mut labels = labels.to_vec();
    labels.push(("GPU_I_ID", id.as_str()));
    labels.push(("GPU_I_PROFILE", instance.profile.as_deref().unwrap_or_default()));
    out.put(&families::GPU_FB_USED, &labels, instance.memory_used.map(|bytes| bytes / MIB));
    out.put(&families::GPU_GR_ENGINE, &labels, instance.active);
}

pub(super) fn xids(
    out: &mut Exposition,
    counts: &[(String, u32, Count)],
    addresses: &BTreeMap<String, String>,
    boot_time: Option<u64>,
) {
    let mut last: BTreeMap<&str, (Option<u64>, u32)> = BTreeMap::new();
    for (pci, xid, count) in counts {
        let number = xid.to_string();
        let uuid = addresses.get(pci).map(String::as_str).unwrap_or_default();
        let labels = [
            ("pci_bus_id", pci.as_str()),
            ("UUID", uuid),
            ("xid", number.as_str()),
            ("class", count.class.word()),
        ];
        out.put(&families::GPU_XID_COUNT, &labels, count.count);
        let at = boot_time.zip(count.last_us).map(|(boot, us)| boot as f64 + us as f64 / 1e6);
        out.put(&families::GPU_XID_LAST, &labels, at);
        let newest = last.entry(pci).or_insert((count.last_us, *xid));
        *newest = (*newest).max((count.last_us, *xid));
    }
    for (pci, (_, xid)) in last {
        let uuid = addresses.get(pci).map(String::as_str).unwrap_or_default();
        let labels = [("UUID", uuid), ("pci_bus_id", pci)];
        out.put(&families::GPU_XID, &labels, u64::from(xid));
    }
}
