//! What NVIDIA's DCGM exporter serves, read instead of asking the GPUs oneself.
//!
//! Names and units are the older ones, which dashboards use; values at and above DCGM's blanks stand
//! for no value (`dcgm_structs.h`).

use std::collections::BTreeMap;

use super::state::{GpuState, InstanceState, short_address};
use crate::exposition::sample;
use crate::files::Skipped;

/// From here on a 64-bit value is blank: not found, not supported, not permitted.
const BLANK_64: f64 = 9_223_372_036_854_775_792.0;
/// From here on a floating value is.
const BLANK_FLOAT: f64 = 140_737_488_355_328.0;
/// And these 16 of 32 bits.
const BLANK_32: std::ops::RangeInclusive<f64> = 2_147_483_632.0..=2_147_483_647.0;

const MIB: f64 = 1_048_576.0;

/// Whether a value stands for none.
pub fn is_blank(name: &str, value: f64) -> bool {
    let counted = name.ends_with("TOTAL_ENERGY_CONSUMPTION") || name.contains("_BYTES");
    !value.is_finite()
        || value >= BLANK_64
        || (!counted && value >= BLANK_FLOAT)
        || (!counted && BLANK_32.contains(&value))
}

/// The GPUs in what an exporter serves, by their ids.
pub fn parse(text: &str, skipped: &mut Skipped) -> Vec<GpuState> {
    let mut found: BTreeMap<String, GpuState> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("DCGM_FI_")) {
        let Some((name, labels, value)) = sample(line) else {
            skipped.note(line);
            continue;
        };
        let Some(uuid) = labels.get("UUID").filter(|_| !is_blank(name, value)) else { continue };
        let gpu = found.entry(uuid.clone()).or_insert_with(|| described(uuid, &labels));
        match labels.get("GPU_I_ID").and_then(|id| id.parse().ok()) {
            Some(id) => instance(gpu, id, &labels, name, value),
            None => whole(gpu, name, value),
        }
    }
    found.into_values().collect()
}

fn described(uuid: &str, labels: &BTreeMap<&str, String>) -> GpuState {
    GpuState {
        uuid: uuid.to_owned(),
        index: labels.get("gpu").and_then(|index| index.parse().ok()),
        pci: labels.get("pci_bus_id").map(|address| short_address(address)),
        product: labels.get("modelName").cloned(),
        ..GpuState::default()
    }
}

fn whole(gpu: &mut GpuState, name: &str, value: f64) {
    let bytes = Some((value * MIB) as u64);
    match name {
        "DCGM_FI_DEV_GPU_UTIL" => gpu.busy = Some(value / 100.0),
        "DCGM_FI_DEV_MEM_COPY_UTIL" => gpu.memory_busy = Some(value / 100.0),
        "DCGM_FI_DEV_FB_USED" => gpu.memory_used = bytes,
        "DCGM_FI_DEV_FB_FREE" => gpu.memory_free = bytes,
        "DCGM_FI_DEV_FB_RESERVED" => gpu.memory_reserved = bytes,
        "DCGM_FI_DEV_FB_TOTAL" => gpu.memory_total = bytes,
        "DCGM_FI_DEV_GPU_TEMP" => gpu.temperature = Some(value),
        "DCGM_FI_DEV_MEMORY_TEMP" => gpu.memory_temperature = Some(value),
        "DCGM_FI_DEV_POWER_USAGE" => gpu.power = Some(value),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" => gpu.energy_mj = Some(value as u64),
        "DCGM_FI_DEV_SM_CLOCK" => gpu.sm_clock = Some(value as u64),
        "DCGM_FI_DEV_MEM_CLOCK" => gpu.memory_clock = Some(value as u64),
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" | "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS" => {
            gpu.clock_reasons = Some(value as u64);
        }
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER" => gpu.pcie_replays = Some(value as u64),
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS" => gpu.rows_corrected = Some(value as u64),
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS" => gpu.rows_uncorrected = Some(value as u64),
        "DCGM_FI_DEV_ROW_REMAP_FAILURE" => gpu.row_failure = Some(value > 0.0),
        "DCGM_FI_PROF_SM_ACTIVE" => gpu.sm_active = Some(value),
        "DCGM_FI_PROF_SM_OCCUPANCY" => gpu.sm_occupancy = Some(value),
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" => gpu.tensor_active = Some(value),
        "DCGM_FI_PROF_DRAM_ACTIVE" => gpu.dram_active = Some(value),
        "DCGM_FI_PROF_PCIE_TX_BYTES" => gpu.pcie_tx = Some(value),
        "DCGM_FI_PROF_PCIE_RX_BYTES" => gpu.pcie_rx = Some(value),
        _ => {}
    }
}

fn instance(gpu: &mut GpuState, id: u32, labels: &BTreeMap<&str, String>, name: &str, value: f64) {
    gpu.mig = true;
    let at = gpu.instances.iter().position(|known| known.id == id).unwrap_or_else(|| {
        let profile = labels.get("GPU_I_PROFILE").cloned();
        gpu.instances.push(InstanceState { id, profile, ..InstanceState::default() });
        gpu.instances.len() - 1
    });
    match name {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE" => gpu.instances[at].active = Some(value),
        "DCGM_FI_DEV_FB_USED" => gpu.instances[at].memory_used = Some((value * MIB) as u64),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{is_blank, parse};
    use crate::files::Skipped;

    #[test]
    fn m05_blanks_are_no_values() {
        let text = r#"# HELP DCGM_FI_DEV_GPU_UTIL x
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",pci_bus_id="00000000:C1:00.0",modelName="NVIDIA \"A\""} 9223372036854775794
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 9223372036854775792
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-a"} 140737488355330.0
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a"} 42
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",broken} 1
"#;
        let mut skipped = Skipped::default();
        let found = parse(text, &mut skipped);
        let gpu = &found[0];
        assert_eq!((gpu.busy, gpu.temperature, gpu.tensor_active), (None, None, None));
        assert_eq!((gpu.power, skipped.count), (Some(42.0), 1));
        assert!(is_blank("DCGM_FI_DEV_SM_CLOCK", 2_147_483_632.0));
        // Energy may be that large.
        assert!(!is_blank("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 2_147_483_640.0));
    }

    #[test]
    fn m06_an_instance_without_a_second_reading_says_nothing() {
        let text = r#"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="1"} 0.62
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="2"} 140737488355330.0
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="2"} 5
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 9223372036854775794
"#;
        let gpu = parse(text, &mut Skipped::default()).remove(0);
        let active: Vec<(u32, Option<f64>)> =
            gpu.instances.iter().map(|one| (one.id, one.active)).collect();
        assert_eq!((gpu.busy, active), (None, vec![(1, Some(0.62)), (2, None)]));
        assert_eq!(gpu.instances[1].memory_used, Some(5 << 20));
    }
}
