//! Who uses a GPU now.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::text;

/// A process that uses a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// Where the use of GPUs is read from.
pub trait GpuReader: std::fmt::Debug + Send + Sync {
    /// Every process that uses a GPU, each once a GPU; none where it cannot be known.
    fn processes(&self) -> Vec<GpuProcess>;
}

/// The drivers of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drivers;

impl GpuReader for Drivers {
    fn processes(&self) -> Vec<GpuProcess> {
        described("/".as_ref(), raw_processes())
    }
}

/// A file in which processes say themselves what they use: for GPUs that nobody has. Each line is a
/// process, a GPU and MiB; the last line of a process about a GPU counts.
#[derive(Clone, Debug)]
pub struct UseFile {
    /// The file; where it is missing nobody uses anything.
    pub path: PathBuf,
}

impl GpuReader for UseFile {
    fn processes(&self) -> Vec<GpuProcess> {
        let text = text("".as_ref(), &self.path.to_string_lossy()).unwrap_or_default();
        described("/".as_ref(), said(&text))
    }
}

fn said(text: &str) -> Vec<RawProcess> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let pid = words.next()?.parse().ok()?;
        let gpu = words.next()?.parse().ok()?;
        let memory_mib = words.next()?.parse().ok()?;
        Some(RawProcess { gpu, pid, memory_mib })
    };
    // The newest first: the first of those alike is kept.
    text.lines().rev().filter_map(line).collect()
}

/// A process as the vendor's library names it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RawProcess {
    pub(crate) gpu: u32,
    pub(crate) pid: u32,
    pub(crate) memory_mib: u64,
}

fn described(root: &Path, mut raw: Vec<RawProcess>) -> Vec<GpuProcess> {
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
fn raw_processes() -> Vec<RawProcess> {
    crate::gpu::nvml::processes().unwrap_or_default()
}

#[cfg(not(all(feature = "nvml", not(target_feature = "crt-static"))))]
fn raw_processes() -> Vec<RawProcess> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::{GpuReader, UseFile, said};

    #[test]
    fn processes_say_what_they_use() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("use");
        let reader = UseFile { path: path.clone() };
        assert!(reader.processes().is_empty());
        let own = std::process::id();
        std::fs::write(&path, format!("{own} 0 100\nnonsense\n{own} 1 7\n{own} 0 300\n"))
            .expect("file");
        let seen: Vec<(u32, u32, u64)> =
            reader.processes().iter().map(|p| (p.pid, p.gpu, p.memory_mib)).collect();
        assert_eq!(seen, [(own, 0, 300), (own, 1, 7)]);
        // One that does not run uses nothing.
        std::fs::write(&path, "4194304999 0 100\n").expect("file");
        assert!(reader.processes().is_empty());
        assert_eq!(said("1 2\n1 2 x\n-1 2 3\n"), []);
    }
}
