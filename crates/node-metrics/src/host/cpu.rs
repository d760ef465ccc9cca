//! CPUs and memory: `/sys/devices/system`, `/proc/self/status`, `/proc/meminfo`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::files::{list, number, numbered, text};
use crate::{Cpu, Numa};

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

pub(crate) fn read(root: &Path, notes: &mut Vec<String>) -> (Vec<Cpu>, Vec<Numa>) {
    let online = match text(root, &format!("{CPUS}/online")) {
        Some(text) => list(&text),
        None => {
            notes.push(format!("{CPUS}/online cannot be read: CPUs are counted by /proc/cpuinfo"));
            counted(root)
        }
    };
    let allowed: Option<BTreeSet<u32>> = text(root, "proc/self/status").and_then(|status| {
        let line = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?;
        Some(list(line.trim()).into_iter().collect())
    });
    let numa_of = memory_domains(root);
    let cpus = online
        .iter()
        .map(|id| Cpu {
            id: *id,
            core: number(root, &format!("{CPUS}/cpu{id}/topology/core_id")).unwrap_or(*id),
            socket: number(root, &format!("{CPUS}/cpu{id}/topology/physical_package_id"))
                .unwrap_or(0),
            numa: numa_of.get(id).copied().unwrap_or(0),
            allowed: allowed.as_ref().is_none_or(|a| a.contains(id)),
        })
        .collect();
    (cpus, numa(root))
}

fn counted(root: &Path) -> Vec<u32> {
    let info = text(root, "proc/cpuinfo").unwrap_or_default();
    let count = info.lines().filter(|l| l.starts_with("processor")).count() as u32;
    (0..count.max(1)).collect()
}

/// The memory domain of each CPU.
fn memory_domains(root: &Path) -> BTreeMap<u32, u32> {
    numbered(root, NODES, "node")
        .into_iter()
        .flat_map(|node| {
            let cpus = text(root, &format!("{NODES}/node{node}/cpulist")).unwrap_or_default();
            list(&cpus).into_iter().map(move |cpu| (cpu, node))
        })
        .collect()
}

fn numa(root: &Path) -> Vec<Numa> {
    let nodes = numbered(root, NODES, "node");
    if nodes.is_empty() {
        return vec![Numa { id: 0, memory_mib: memory_mib(root) }];
    }
    nodes
        .into_iter()
        .map(|id| {
            let info = text(root, &format!("{NODES}/node{id}/meminfo")).unwrap_or_default();
            let total = info.lines().find_map(|l| kib(l.split_once("MemTotal:")?.1));
            Numa { id, memory_mib: total.unwrap_or(0) / 1024 }
        })
        .collect()
}

/// The machine's memory in MiB.
pub(crate) fn memory_mib(root: &Path) -> u64 {
    let info = text(root, "proc/meminfo").unwrap_or_default();
    info.lines().find_map(|l| kib(l.strip_prefix("MemTotal:")?)).unwrap_or(0) / 1024
}

fn kib(text: &str) -> Option<u64> {
    text.trim().strip_suffix("kB")?.trim().parse().ok()
}
