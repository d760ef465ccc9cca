//! GPUs by `/sys/bus/pci`: what can be known without the vendor's library.

use std::path::Path;

use crate::files::{names, number, text};
use crate::{Gpu, Vendor};

const DEVICES: &str = "sys/bus/pci/devices";
/// PCI vendor ids (<https://pci-ids.ucw.cz>).
const NVIDIA: &str = "0x10de";
const AMD: &str = "0x1002";

pub(crate) fn read(root: &Path, notes: &mut Vec<String>) -> Vec<Gpu> {
    let mut gpus: Vec<Gpu> =
        names(root, DEVICES).iter().filter_map(|address| one(root, address)).collect();
    for gpu in gpus.iter().filter(|g| g.files.is_empty()) {
        notes.push(format!("the GPU at {} has no driver and is left out", gpu.pci));
    }
    gpus.retain(|g| !g.files.is_empty());
    gpus
}

/// A display (0x0300) or 3D (0x0302) controller, or AMD's accelerators (0x0380, 0x1200).
fn one(root: &Path, address: &str) -> Option<Gpu> {
    let base = format!("{DEVICES}/{address}");
    let class = text(root, &format!("{base}/class"))?;
    let vendor = match text(root, &format!("{base}/vendor"))?.as_str() {
        NVIDIA => Vendor::Nvidia,
        AMD => Vendor::Amd,
        _ => return None,
    };
    let kinds: &[&str] = match vendor {
        Vendor::Nvidia => &["0x0300", "0x0302"],
        Vendor::Amd => &["0x0300", "0x0302", "0x0380", "0x1200"],
    };
    if !kinds.iter().any(|kind| class.starts_with(kind)) {
        return None;
    }
    let numa =
        number::<i64>(root, &format!("{base}/numa_node")).and_then(|n| u32::try_from(n).ok());
    let mut gpu =
        Gpu { vendor, uuid: address.to_owned(), pci: address.to_owned(), numa, ..Gpu::default() };
    match vendor {
        Vendor::Nvidia => nvidia(root, address, &mut gpu),
        Vendor::Amd => amd(root, &base, &mut gpu),
    }
    Some(gpu)
}

/// NVIDIA's driver tells the product and the device file's number in `/proc`.
fn nvidia(root: &Path, address: &str, gpu: &mut Gpu) {
    let info = text(root, &format!("proc/driver/nvidia/gpus/{address}/information"));
    let info = info.unwrap_or_default();
    let field = |name: &str| {
        info.lines()
            .find_map(|l| Some(l.strip_prefix(name)?.trim_start_matches(':').trim().to_owned()))
    };
    gpu.product = field("Model").unwrap_or_else(|| "NVIDIA GPU".to_owned());
    if let Some(uuid) = field("GPU UUID") {
        gpu.uuid = uuid;
    }
    if let Some(minor) = field("Device Minor") {
        gpu.files = vec![format!("/dev/nvidia{minor}")];
    }
}

/// AMD's driver tells memory and product in the device's own directory.
fn amd(root: &Path, base: &str, gpu: &mut Gpu) {
    let bytes: u64 = number(root, &format!("{base}/mem_info_vram_total")).unwrap_or(0);
    gpu.memory_mib = bytes >> 20;
    let product = text(root, &format!("{base}/product_name")).filter(|name| !name.is_empty());
    gpu.product = product.unwrap_or_else(|| "AMD GPU".to_owned());
    if let Some(id) = text(root, &format!("{base}/unique_id")).filter(|id| !id.is_empty()) {
        gpu.uuid = format!("GPU-{id}");
    }
    gpu.files = names(root, &format!("{base}/drm"))
        .iter()
        .filter(|name| name.starts_with("renderD"))
        .map(|name| format!("/dev/dri/{name}"))
        .collect();
}
