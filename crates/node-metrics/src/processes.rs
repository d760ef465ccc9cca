//! Who uses a GPU now.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::text;

/// A process that uses a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// The GPU's index.
    pub gpu: u32,
    /// The process.
    pub pid: u32,
    /// Whose it is.
    pub uid: u32,
    /// Its program's name.
    pub name: String,
    /// GPU memory it holds, MiB.
    pub memory_mib: u64,
}

/// A process as the vendor's library names it.
pub(crate) struct RawProcess {
    pub(crate) gpu: u32,
    pub(crate) pid: u32,
    pub(crate) memory_mib: u64,
}

/// Every process that uses one of the machine's GPUs, each once a GPU; none where it cannot be
/// known.
pub fn gpu_processes(root: &Path) -> Vec<GpuProcess> {
    let mut raw = raw_processes(root);
    raw.sort_by_key(|p| (p.gpu, p.pid));
    raw.dedup_by_key(|p| (p.gpu, p.pid));
    raw.iter()
        .filter_map(|process| {
            let directory = root.join(format!("proc/{}", process.pid));
            Some(GpuProcess {
                gpu: process.gpu,
                pid: process.pid,
                // One that is gone meanwhile uses nothing.
                uid: fs::metadata(directory).ok()?.uid(),
                name: text(root, &format!("proc/{}/comm", process.pid)).unwrap_or_default(),
                memory_mib: process.memory_mib,
            })
        })
        .collect()
}

#[cfg(all(feature = "nvml", not(target_feature = "crt-static")))]
fn raw_processes(root: &Path) -> Vec<RawProcess> {
    if root != Path::new("/") {
        return Vec::new();
    }
    crate::nvml::processes().unwrap_or_default()
}

#[cfg(not(all(feature = "nvml", not(target_feature = "crt-static"))))]
fn raw_processes(_root: &Path) -> Vec<RawProcess> {
    Vec::new()
}
