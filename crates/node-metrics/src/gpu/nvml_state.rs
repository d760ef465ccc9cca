//! The state of NVIDIA's GPUs by its management library: one call, one value, and an error of a
//! call is no value.

use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::{Device, Nvml};

use super::source::GpuLibrary;
use super::state::{GpuState, InstanceState, short_address};

/// Fields that have no call of their own (`nvml.h`): memory temperature and rows replaced.
const MEMORY_TEMPERATURE: u32 = 82;
const ROWS_CORRECTED: u32 = 142;
const ROWS_UNCORRECTED: u32 = 143;
const ROW_FAILURE: u32 = 145;

/// Loads the library.
pub(crate) fn load() -> Result<Box<dyn GpuLibrary>, String> {
    let nvml = Nvml::init().map_err(|error| error.to_string())?;
    Ok(Box::new(Library(nvml)))
}

struct Library(Nvml);

impl GpuLibrary for Library {
    fn states(&mut self) -> Result<Vec<GpuState>, String> {
        let count = self.0.device_count().map_err(|error| error.to_string())?;
        (0..count)
            .map(|index| match self.0.device_by_index(index) {
                Ok(device) => Ok(state(&self.0, index, &device)),
                Err(NvmlError::Uninitialized) => Err("the library is not loaded".to_owned()),
                Err(_) => Ok(GpuState { index: Some(index), lost: true, ..GpuState::default() }),
            })
            .collect()
    }
}

fn state(nvml: &Nvml, index: u32, device: &Device<'_>) -> GpuState {
    let used = device.utilization_rates();
    let lost = matches!(used, Err(NvmlError::GpuLost | NvmlError::ResetRequired));
    let used = used.ok();
    let memory = device.memory_info().ok();
    let mig = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    let ecc = |kind| device.total_ecc_errors(kind, EccCounter::Volatile).ok();
    let rows = |field| field_value(device, field);
    GpuState {
        uuid: device.uuid().unwrap_or_default(),
        index: Some(index),
        pci: device.pci_info().ok().map(|pci| short_address(&pci.bus_id)),
        product: device.name().ok(),
        busy: used.as_ref().map(|used| f64::from(used.gpu) / 100.0),
        memory_busy: used.as_ref().map(|used| f64::from(used.memory) / 100.0),
        memory_total: memory.as_ref().map(|memory| memory.total),
        memory_used: memory.as_ref().map(|memory| memory.used),
        memory_free: memory.as_ref().map(|memory| memory.free),
        temperature: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
        memory_temperature: rows(MEMORY_TEMPERATURE).map(|value| value as f64),
        power: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
        power_limit: device.enforced_power_limit().ok().map(|mw| f64::from(mw) / 1e3),
        energy_mj: device.total_energy_consumption().ok(),
        sm_clock: device.clock_info(Clock::SM).ok().map(u64::from),
        memory_clock: device.clock_info(Clock::Memory).ok().map(u64::from),
        clock_reasons: device.current_throttle_reasons().ok().map(|reasons| reasons.bits()),
        fan: device.fan_speed(0).ok().map(|percent| f64::from(percent) / 100.0),
        ecc_corrected: ecc(MemoryError::Corrected),
        ecc_uncorrected: ecc(MemoryError::Uncorrected),
        rows_corrected: rows(ROWS_CORRECTED),
        rows_uncorrected: rows(ROWS_UNCORRECTED),
        row_failure: rows(ROW_FAILURE).map(|value| value > 0),
        pcie_replays: device.pcie_replay_counter().ok().map(u64::from),
        pcie_link: device.current_pcie_link_gen().ok().zip(device.current_pcie_link_width().ok()),
        lost,
        mig,
        instances: if mig { instances(nvml, device) } else { Vec::new() },
        processes: processes(device),
        ..GpuState::default()
    }
}

fn field_value(device: &Device<'_>, field: u32) -> Option<u64> {
    let sample = device.field_values_for(&[FieldId(field)]).ok()?.into_iter().next()?.ok()?;
    Some(match sample.value.ok()? {
        SampleValue::U32(value) => u64::from(value),
        SampleValue::U64(value) => value,
        _ => return None,
    })
}

/// Numbers of instances have holes.
fn instances(nvml: &Nvml, device: &Device<'_>) -> Vec<InstanceState> {
    let count = device.mig_device_count().unwrap_or(0);
    (0..count)
        .filter_map(|at| {
            let instance = device.mig_device_by_index(at).ok()?;
            let memory = instance.memory_info().ok();
            Some(InstanceState {
                id: super::nvml::instance_id(nvml, &instance)?,
                memory_total: memory.as_ref().map(|memory| memory.total),
                memory_used: memory.as_ref().map(|memory| memory.used),
                ..InstanceState::default()
            })
        })
        .collect()
}

fn processes(device: &Device<'_>) -> Vec<(u32, Option<u64>)> {
    let found = device.running_compute_processes().unwrap_or_default();
    found
        .into_iter()
        .map(|process| match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => (process.pid, Some(bytes)),
            UsedGpuMemory::Unavailable => (process.pid, None),
        })
        .collect()
}
