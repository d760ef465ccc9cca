//! GPUs by NVIDIA's management library, loaded while running.
// Where an instance lies is only to be had from the library's own functions.
#![allow(unsafe_code)]

use nvml_wrapper::enum_wrappers::device::TopologyLevel;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use crate::gpu::mig::{self, MigDevice, MigLibrary};
use crate::gpu::processes::RawProcess;
use crate::{Gpu, GpuLink, LinkKind, Vendor};

/// NVLink lanes that a GPU may have (`NVML_NVLINK_MAX_LINKS`).
const LINKS_MAX: u32 = 18;

/// All NVIDIA GPUs, in the library's order, which is the PCI bus order, and remarks.
pub(crate) fn read() -> Result<(Vec<Gpu>, Vec<String>), NvmlError> {
    let nvml = Nvml::init()?;
    let count = nvml.device_count()?;
    let mut gpus = Vec::new();
    let mut notes = Vec::new();
    for index in 0..count {
        let mut gpu = one(&nvml, index)?;
        let device = nvml.device_by_index(index)?;
        if let Some((parts, remarks)) = mig::instances(&Cut { nvml: &nvml, device: &device }) {
            gpu.mig = Some(parts);
            notes.extend(remarks);
        }
        gpus.push(gpu);
    }
    let lanes: Vec<Vec<Lane>> = (0..count).map(|index| lanes(&nvml, index)).collect();
    for index in 0..count {
        let links = (0..count)
            .filter(|peer| *peer != index)
            .filter_map(|peer| {
                Some(GpuLink { peer, kind: link(&nvml, &gpus, &lanes, index, peer)? })
            })
            .collect();
        gpus[index as usize].links = links;
    }
    Ok((gpus, notes))
}

/// A GPU that may be cut into MIG instances.
struct Cut<'a> {
    nvml: &'a Nvml,
    device: &'a Device<'a>,
}

impl MigLibrary for Cut<'_> {
    fn devices_max(&self) -> Option<u32> {
        // A GPU without MIG says so by an error.
        let cut = self.device.mig_mode().is_ok_and(|mode| mode.current == 1);
        cut.then(|| self.device.mig_device_count().unwrap_or(0))
    }

    fn device(&self, at: u32) -> Option<MigDevice> {
        let found = self.device.mig_device_by_index(at).ok()?;
        let uuid = found.uuid().ok()?;
        let id = instance_id(self.nvml, &found)?;
        let library = self.nvml.lib();
        let by_id = library.nvmlDeviceGetGpuInstanceById.as_ref().ok()?;
        let info_of = library.nvmlGpuInstanceGetInfo.as_ref().ok()?;
        // SAFETY: the handles are the library's own and live as long as it; what it fills in are
        // plain numbers and handles, for which zero is a value.
        unsafe {
            let mut instance = std::mem::zeroed();
            if by_id(self.device.handle(), id, &raw mut instance) != 0 {
                return None;
            }
            let mut info = std::mem::zeroed();
            // Only root may ask where it lies.
            let known = info_of(instance, &raw mut info) == 0;
            let placement =
                if known { (info.placement.start, info.placement.size) } else { (0, 0) };
            let has = found.attributes().ok()?;
            let compute = has.gpu_instance_slice_count;
            // Only the smallest comes with and without; the large ones have what there is.
            let media = compute == 1 && has.shared_ofa_count > 0;
            Some(MigDevice { uuid, gpu_instance: id, placement, compute, media })
        }
    }
}

/// The number of the GPU instance that a MIG device belongs to.
pub(crate) fn instance_id(nvml: &Nvml, device: &Device<'_>) -> Option<u32> {
    let id_of = nvml.lib().nvmlDeviceGetGpuInstanceId.as_ref().ok()?;
    let mut id = 0;
    // SAFETY: the handle is the library's own, and what it fills in is a plain number.
    let status = unsafe { id_of(device.handle(), &raw mut id) };
    (status == 0).then_some(id)
}

fn one(nvml: &Nvml, index: u32) -> Result<Gpu, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let pci = short_address(&device.pci_info()?.bus_id);
    let numa =
        crate::files::number::<i64>("/".as_ref(), &format!("sys/bus/pci/devices/{pci}/numa_node"));
    let minor = device.minor_number().ok();
    Ok(Gpu {
        index,
        vendor: Vendor::Nvidia,
        product: device.name()?,
        uuid: device.uuid()?,
        // A machine whose GPUs share the CPU's memory has none of its own to tell.
        memory_mib: device.memory_info().map_or(0, |memory| memory.total >> 20),
        numa: numa.and_then(|n| u32::try_from(n).ok()),
        links: Vec::new(),
        files: minor.map(|m| format!("/dev/nvidia{m}")).into_iter().collect(),
        pci,
        nic: None,
        mig: None,
    })
}

/// The library writes the domain with eight digits, the kernel with four, in lower case.
fn short_address(bus_id: &str) -> String {
    let lower = bus_id.to_lowercase();
    match lower.split_once(':') {
        Some((domain, rest)) if domain.len() > 4 => {
            format!("{}:{rest}", &domain[domain.len() - 4..])
        }
        _ => lower,
    }
}

/// The other end of an NVLink lane that is up.
struct Lane {
    address: String,
}

fn lanes(nvml: &Nvml, index: u32) -> Vec<Lane> {
    let Ok(device) = nvml.device_by_index(index) else { return Vec::new() };
    (0..LINKS_MAX)
        .map(|number| device.link_wrapper_for(number))
        .filter(|lane| lane.is_active().unwrap_or(false))
        .filter_map(|lane| {
            Some(Lane { address: short_address(&lane.remote_pci_info().ok()?.bus_id) })
        })
        .collect()
}

fn link(nvml: &Nvml, gpus: &[Gpu], lanes: &[Vec<Lane>], from: u32, to: u32) -> Option<LinkKind> {
    let direct = lanes[from as usize].iter().filter(|l| l.address == gpus[to as usize].pci).count();
    if direct > 0 {
        return Some(LinkKind::NvLink(direct as u32));
    }
    // What is no GPU at the other end is a switch, and a switch leads to all that have one.
    let to_switch = |of: u32| {
        lanes[of as usize].iter().filter(|l| gpus.iter().all(|g| g.pci != l.address)).count() as u32
    };
    let through_switch = to_switch(from).min(to_switch(to));
    if through_switch > 0 {
        return Some(LinkKind::NvLink(through_switch));
    }
    let one = nvml.device_by_index(from).ok()?;
    let other = nvml.device_by_index(to).ok()?;
    Some(match one.topology_common_ancestor(other).ok()? {
        TopologyLevel::Internal | TopologyLevel::Single => LinkKind::PcieSwitch,
        TopologyLevel::Multiple => LinkKind::PcieSwitches,
        TopologyLevel::HostBridge => LinkKind::HostBridge,
        TopologyLevel::Node => LinkKind::Numa,
        TopologyLevel::System => LinkKind::Socket,
    })
}

/// Processes that use a GPU now.
pub(crate) fn processes() -> Result<Vec<RawProcess>, NvmlError> {
    let nvml = Nvml::init()?;
    let mut found = Vec::new();
    for gpu in 0..nvml.device_count()? {
        let device = nvml.device_by_index(gpu)?;
        let compute = device.running_compute_processes().unwrap_or_default();
        let graphics = device.running_graphics_processes().unwrap_or_default();
        for process in compute.into_iter().chain(graphics) {
            let bytes = match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => bytes,
                UsedGpuMemory::Unavailable => 0,
            };
            found.push(RawProcess { gpu, pid: process.pid, memory_mib: bytes >> 20 });
        }
    }
    Ok(found)
}
