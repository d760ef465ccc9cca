//! What a machine is and does: CPUs, memory, GPUs, disks, networks, filesystems and jobs, read from a
//! given root.
//!
//! Everything but NVIDIA's library is read from files below a root, so that a captured `/proc` and
//! `/sys` tree serves as a test. A reading that fails is a note, never an error: a machine with one
//! unreadable file is still a machine.
//!
//! ```
//! let machine = muster_node_metrics::discover(std::path::Path::new("/"));
//! assert!(!machine.cpus.is_empty());
//! ```

use std::path::Path;

use serde::{Deserialize, Serialize};

pub mod apart;
pub mod block;
pub mod cgroup;
pub mod collector;
mod commands;
pub mod counter;
pub mod exposition;
pub mod files;
pub mod filesystems;
pub mod gpu;
pub mod health;
pub mod host;
pub mod network;
pub mod past;
#[cfg(test)]
mod test_tree;

pub use gpu::mig::{MigDevice, MigLibrary, MigPart, instances};
pub use gpu::processes::{Drivers, GpuProcess, GpuReader, UseFile};

use gpu::{paths, pci};
use host::cpu;
use network::cards;

/// A machine as found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its host name up to the first dot.
    pub hostname: String,
    /// The id of this boot.
    pub boot_id: String,
    /// Its CPUs that are online, by number.
    pub cpus: Vec<Cpu>,
    /// Its memory domains, by number.
    pub numa: Vec<Numa>,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Its GPUs, by index.
    pub gpus: Vec<Gpu>,
    /// How its GPUs are joined is not known for certain: what is said of it contradicts itself, or
    /// is missing.
    pub topology_uncertain: bool,
    /// What could not be read and what that means.
    pub notes: Vec<String>,
}

/// One hardware thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// Its core, unique within the socket.
    pub core: u32,
    /// Its socket.
    pub socket: u32,
    /// Its memory domain.
    pub numa: u32,
    /// Whether this process may use it (cpusets and affinity can forbid it).
    pub allowed: bool,
}

/// One memory domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numa {
    /// Its number.
    pub id: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
}

/// One GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its number, in PCI bus order.
    pub index: u32,
    /// Who made it.
    pub vendor: Vendor,
    /// The vendor's full name for it.
    pub product: String,
    /// The vendor's unique id, or the PCI address where there is none.
    pub uuid: String,
    /// Its PCI address, `0000:3b:00.0`.
    pub pci: String,
    /// Its memory in MiB, 0 where unknown.
    pub memory_mib: u64,
    /// Its memory domain.
    pub numa: Option<u32>,
    /// What joins it to the others.
    pub links: Vec<GpuLink>,
    /// The device files that open it.
    pub files: Vec<String>,
    /// The network card below the same PCIe switches.
    pub nic: Option<String>,
    /// Its MIG instances, where it is cut into such.
    pub mig: Option<Vec<MigPart>>,
}

/// Who made a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vendor {
    /// NVIDIA.
    #[default]
    Nvidia,
    /// AMD.
    Amd,
}

/// What joins a GPU to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuLink {
    /// The other's index.
    pub peer: u32,
    /// What joins them.
    pub kind: LinkKind,
}

/// What joins two GPUs, the nearest first; the letters are those of `nvidia-smi topo`.
///
/// This crate sees nothing of the others, so that it can serve without them; the engine turns this
/// into the model's word for the same, case by case, where it describes the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// So many NVLink lanes (`NV#`), directly or through a switch.
    NvLink(u32),
    /// One PCIe switch (`PIX`).
    PcieSwitch,
    /// Several PCIe switches (`PXB`).
    PcieSwitches,
    /// A PCIe host bridge (`PHB`).
    HostBridge,
    /// The same memory domain (`NODE`).
    Numa,
    /// The link between sockets (`SYS`).
    Socket,
}

/// Reads the machine below `root`; NVIDIA's library is asked only for `/`.
pub fn discover(root: &Path) -> Machine {
    let mut notes = Vec::new();
    let (cpus, numa) = cpu::read(root, &mut notes);
    let memory_mib = cpu::memory_mib(root);
    if memory_mib == 0 {
        notes.push("proc/meminfo cannot be read: the memory is taken as unknown".to_owned());
    }
    let mut gpus = gpus(root, &mut notes);
    let trees: Vec<_> = gpus.iter().map(|gpu| paths::bridges(root, &gpu.pci)).collect();
    let domains: std::collections::BTreeSet<u32> = cpus.iter().map(|cpu| cpu.numa).collect();
    let topology_uncertain = paths::settle(&mut gpus, &trees, domains.len());
    cards::assign(root, &mut gpus, &trees);
    if topology_uncertain {
        notes.push(
            "how the GPUs are joined is not certain: the PCIe tree is hidden, and the driver and \
             the memory domains do not agree or say nothing"
                .to_owned(),
        );
    }
    let hostname = files::text(root, "proc/sys/kernel/hostname").unwrap_or_default();
    Machine {
        hostname: hostname.split('.').next().unwrap_or_default().to_owned(),
        boot_id: files::text(root, "proc/sys/kernel/random/boot_id").unwrap_or_default(),
        cpus,
        numa,
        memory_mib,
        gpus,
        topology_uncertain,
        notes,
    }
}

fn gpus(root: &Path, notes: &mut Vec<String>) -> Vec<Gpu> {
    let mut found = pci::read(root, notes);
    #[cfg(all(feature = "nvml", target_feature = "crt-static"))]
    if root == Path::new("/") && found.iter().any(|g| g.vendor == Vendor::Nvidia) {
        notes.push(
            "this is the static program, which cannot load NVIDIA's library: GPU memory, links \
             and use by others are unknown"
                .to_owned(),
        );
    }
    #[cfg(all(feature = "nvml", not(target_feature = "crt-static")))]
    if root == Path::new("/") && found.iter().any(|g| g.vendor == Vendor::Nvidia) {
        match gpu::nvml::read() {
            Ok((detailed, remarks)) => {
                notes.extend(remarks);
                found.retain(|g| g.vendor != Vendor::Nvidia);
                found.splice(0..0, detailed);
            }
            Err(why) => notes.push(format!(
                "NVIDIA's library cannot be used ({why}): GPU memory, links and use by others are unknown"
            )),
        }
    }
    for (index, gpu) in found.iter_mut().enumerate() {
        gpu.index = index as u32;
    }
    found
}

impl Gpu {
    /// Its model as users ask for it: the one word of the product that names it, lower case.
    ///
    /// `NVIDIA A100-SXM4-80GB` is `a100`, `Tesla V100-PCIE-16GB` is `v100`, `NVIDIA GeForce RTX
    /// 4090` is `rtx4090`.
    pub fn model(&self) -> String {
        model_of(&self.product)
    }
}

fn model_of(product: &str) -> String {
    let noise =
        ["nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "radeon", "graphics", "hgx"];
    let lower = product.to_lowercase();
    let words: Vec<&str> = lower
        .split([' ', '-', '_', '/', '[', ']'])
        .filter(|w| !w.is_empty() && !noise.contains(w))
        .collect();
    let Some(first) = words.first() else { return "gpu".to_owned() };
    let joins = !first.chars().any(|c| c.is_ascii_digit());
    match words.get(1) {
        Some(second) if joins && second.chars().any(|c| c.is_ascii_digit()) => {
            format!("{first}{second}")
        }
        _ => (*first).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::model_of;

    #[test]
    fn models_are_what_users_say() {
        for (product, model) in [
            ("NVIDIA A100-SXM4-80GB", "a100"),
            ("Tesla V100-PCIE-16GB", "v100"),
            ("NVIDIA GeForce RTX 4090", "rtx4090"),
            ("NVIDIA H100 80GB HBM3", "h100"),
            ("NVIDIA H200", "h200"),
            ("NVIDIA GH200 480GB", "gh200"),
            ("NVIDIA RTX A6000", "rtxa6000"),
            ("NVIDIA L40S", "l40s"),
            ("AMD Instinct MI250X", "mi250x"),
            ("", "gpu"),
        ] {
            assert_eq!(model_of(product), model, "{product}");
        }
    }
}
