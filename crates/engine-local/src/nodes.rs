//! The nodes this engine has: the machine itself, or the machine dressed up as several.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::{
    CpuSet, Device, DeviceLink, DeviceMode, EngineName, ForeignUse, LinkKind, Mib, MigInstance,
    MigMode, MigSlot, Node, NumaDomain,
};
use muster_node_metrics::{Gpu, GpuProcess, LinkKind as Found, Machine, MigPart};

/// The machine dressed up: so many nodes with so many invented GPUs each, written `4x8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PracticeSpec {
    /// Nodes.
    pub nodes: u32,
    /// Invented GPUs on each.
    pub gpus: u32,
    /// CPUs of each, at least 1.
    pub cpus: u32,
    /// Memory of each.
    pub memory: Mib,
    /// The model of the GPUs.
    pub gpu_model: String,
    /// The memory of each GPU.
    pub gpu_memory: Mib,
}

impl PracticeSpec {
    /// So many nodes with so many GPUs, and the usual of everything else.
    pub fn of(nodes: u32, gpus: u32) -> Self {
        Self {
            nodes,
            gpus,
            cpus: CPUS_PER_GPU * gpus.max(2),
            memory: Mib(MIB_PER_GPU * u64::from(gpus.max(2))),
            gpu_model: "h100".to_owned(),
            gpu_memory: Mib(GPU_MIB),
        }
    }
}

/// The most practice nodes.
pub const PRACTICE_NODES_MAX: u32 = 1_024;
/// The most invented GPUs on one.
pub const PRACTICE_GPUS_MAX: u32 = 16;

/// CPUs of a practice node for each of its GPUs.
const CPUS_PER_GPU: u32 = 8;
/// Memory of a practice node for each of its GPUs.
const MIB_PER_GPU: u64 = 64 << 10;
/// Memory of an invented GPU.
const GPU_MIB: u64 = 80 << 10;
/// NVLink lanes between two invented GPUs of a node.
const GPU_LANES: u32 = 18;
/// Practice nodes below one leaf switch.
const NODES_PER_LEAF: u32 = 4;

impl std::str::FromStr for PracticeSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "practice nodes are written NODESxGPUS, such as 4x8 (up to \
                 {PRACTICE_NODES_MAX}x{PRACTICE_GPUS_MAX}), found `{text}`"
            )
        };
        let (nodes, gpus) = text.split_once(['x', 'X']).ok_or_else(wrong)?;
        let nodes = nodes.parse().map_err(|_| wrong())?;
        let gpus = gpus.parse().map_err(|_| wrong())?;
        if nodes == 0 || nodes > PRACTICE_NODES_MAX || gpus > PRACTICE_GPUS_MAX {
            return Err(wrong());
        }
        Ok(Self::of(nodes, gpus))
    }
}

impl std::fmt::Display for PracticeSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.nodes, self.gpus)
    }
}

/// Memory that is left to the system: a 32nd of all, at most this many MiB.
const SYSTEM_MIB_MAX: u64 = 4 << 10;

/// The machine as one node with what this process may use of it.
pub(crate) fn machine_node(machine: &Machine) -> Node {
    let allowed = || machine.cpus.iter().filter(|c| c.allowed);
    let cpus: CpuSet = allowed().map(|c| c.id).collect();
    let cores: BTreeSet<(u32, u32)> = allowed().map(|c| (c.socket, c.core)).collect();
    let numa = machine
        .numa
        .iter()
        .map(|domain| NumaDomain {
            id: domain.id,
            socket: allowed().find(|c| c.numa == domain.id).map_or(0, |c| c.socket),
            cpus: allowed().filter(|c| c.numa == domain.id).map(|c| c.id).collect(),
            memory: Mib(domain.memory_mib),
        })
        .collect();
    let kept = (machine.memory_mib / 32).min(SYSTEM_MIB_MAX);
    Node {
        name: machine.hostname.clone(),
        engine: EngineName::local(),
        threads_per_core: (cpus.len() / cores.len().max(1) as u32).max(1),
        cpus,
        numa,
        memory: Mib(machine.memory_mib - kept),
        devices: machine.gpus.iter().map(device).collect(),
        topology_uncertain: machine.topology_uncertain,
        boot: machine.boot_id.clone(),
        ..Node::default()
    }
}

/// The core of each CPU, by a number that no other core has: the kernel counts cores by socket.
pub(crate) fn cores(machine: &Machine) -> BTreeMap<u32, u32> {
    let mut firsts: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    machine.cpus.iter().map(|c| (c.id, *firsts.entry((c.socket, c.core)).or_insert(c.id))).collect()
}

fn device(gpu: &Gpu) -> Device {
    // The two crates see nothing of each other; a new kind in one does not compile here.
    let kind = |found| match found {
        Found::NvLink(lanes) => LinkKind::NvLink(lanes),
        Found::PcieSwitch => LinkKind::PcieSwitch,
        Found::PcieSwitches => LinkKind::PcieSwitches,
        Found::HostBridge => LinkKind::HostBridge,
        Found::Numa => LinkKind::Numa,
        Found::Socket => LinkKind::Socket,
    };
    Device {
        index: gpu.index,
        model: gpu.model(),
        product: gpu.product.clone(),
        uuid: gpu.uuid.clone(),
        memory: Mib(gpu.memory_mib),
        numa: gpu.numa,
        unhealthy: None,
        links: gpu.links.iter().map(|l| DeviceLink { peer: l.peer, kind: kind(l.kind) }).collect(),
        files: gpu.files.clone(),
        nic: gpu.nic.clone(),
        mode: gpu.mig.as_deref().map_or(DeviceMode::Whole, cut),
    }
}

/// A GPU with the instances that the driver has on it; muster makes no others there.
fn cut(parts: &[MigPart]) -> DeviceMode {
    let instance = |part: &MigPart| MigInstance {
        slot: MigSlot {
            start: part.start,
            size: part.size,
            compute: part.compute,
            media: part.media,
        },
        uuid: part.uuid.clone(),
    };
    DeviceMode::Mig(MigMode { carve: false, instances: parts.iter().map(instance).collect() })
}

/// GPU use by processes that are not muster's.
pub(crate) fn foreign_use(
    processes: &[GpuProcess],
    is_ours: impl Fn(i32) -> bool,
    user_name: impl Fn(u32) -> String,
) -> Vec<ForeignUse> {
    processes
        .iter()
        .filter(|process| !is_ours(process.pid as i32))
        .map(|process| ForeignUse {
            device: Some(process.gpu),
            cpus: CpuSet::new(),
            memory: Mib(process.memory_mib),
            owner: user_name(process.uid),
            what: format!("{} {}", process.pid, process.name),
        })
        .collect()
}

/// The practice nodes `node1`, `node2`, …, all alike.
pub(crate) fn practice_nodes(spec: &PracticeSpec, boot: &str) -> Vec<Node> {
    (0..spec.nodes).map(|at| practice_node(spec, at, boot)).collect()
}

fn practice_node(spec: &PracticeSpec, at: u32, boot: &str) -> Node {
    let (cpus, memory) = (spec.cpus, spec.memory);
    let sockets = if cpus.is_multiple_of(2) { 2 } else { 1 };
    let per_socket = cpus / sockets;
    let numa = (0..sockets)
        .map(|socket| NumaDomain {
            id: socket,
            socket,
            cpus: (socket * per_socket..(socket + 1) * per_socket).collect(),
            memory: Mib(memory.0 / u64::from(sockets)),
        })
        .collect();
    Node {
        name: format!("node{}", at + 1),
        engine: EngineName::local(),
        cpus: CpuSet::first(cpus),
        threads_per_core: 1,
        numa,
        memory,
        devices: (0..spec.gpus).map(|index| practice_gpu(spec, sockets, at, index)).collect(),
        features: BTreeSet::from(["practice".to_owned()]),
        switches: vec![format!("leaf{}", at / NODES_PER_LEAF + 1)],
        practice: true,
        boot: boot.to_owned(),
        ..Node::default()
    }
}

fn practice_gpu(spec: &PracticeSpec, sockets: u32, node: u32, index: u32) -> Device {
    let links = (0..spec.gpus)
        .filter(|peer| *peer != index)
        .map(|peer| DeviceLink { peer, kind: LinkKind::NvLink(GPU_LANES) })
        .collect();
    Device {
        index,
        model: spec.gpu_model.clone(),
        product: format!("practice {}", spec.gpu_model.to_uppercase()),
        uuid: format!("GPU-practice-{}-{index}", node + 1),
        memory: spec.gpu_memory,
        numa: Some(u32::from(sockets > 1 && index >= spec.gpus.div_ceil(2))),
        links,
        ..Device::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceMode, Mib, PracticeSpec, foreign_use, machine_node, practice_nodes};
    use muster_node_metrics::{Cpu, Gpu, GpuProcess, Machine, MigPart, Numa};

    #[test]
    fn four_by_eight_is_four_nodes_of_eight_gpus() {
        let spec: PracticeSpec = "4x8".parse().expect("spec");
        let nodes = practice_nodes(&spec, "boot");
        let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(names, ["node1", "node2", "node3", "node4"]);
        assert!(nodes.iter().all(|n| n.devices.len() == 8 && n.cpus.len() == 64 && n.practice));
        assert_eq!(nodes[0].sockets(), 2);
        assert_eq!(nodes[0].devices[7].numa, Some(1));
        assert_eq!(spec.to_string(), "4x8");
    }

    #[test]
    fn practice_nodes_are_made_of_what_was_asked_for() {
        let spec = PracticeSpec {
            cpus: 3,
            memory: Mib(999),
            gpu_model: "l4".to_owned(),
            gpu_memory: Mib(24 << 10),
            ..PracticeSpec::of(1, 2)
        };
        let node = practice_nodes(&spec, "boot").remove(0);
        assert_eq!((node.cpus.len(), node.memory, node.sockets()), (3, Mib(999), 1));
        let cpus: u32 = node.numa.iter().map(|domain| domain.cpus.len()).sum();
        assert_eq!(cpus, 3);
        assert!(node.devices.iter().all(|d| d.model == "l4" && d.memory == Mib(24 << 10)));
        assert!(node.devices.iter().all(|d| d.product == "practice L4" && d.numa == Some(0)));
    }

    #[test]
    fn the_machine_is_one_node_of_what_may_be_used() {
        let cpu = |id: u32, core, socket, allowed| Cpu { id, core, socket, numa: socket, allowed };
        let machine = Machine {
            hostname: "box".to_owned(),
            cpus: vec![
                cpu(0, 0, 0, true),
                cpu(1, 0, 1, true),
                cpu(2, 0, 0, true),
                cpu(3, 0, 1, false),
            ],
            numa: vec![Numa { id: 0, memory_mib: 100 }, Numa { id: 1, memory_mib: 200 }],
            memory_mib: 3_200,
            ..Machine::default()
        };
        let node = machine_node(&machine);
        assert_eq!((node.name.as_str(), node.cpus.to_string()), ("box", "0-2".to_owned()));
        assert_eq!((node.memory.0, node.sockets(), node.practice), (3_100, 2, false));
        assert_eq!(node.numa[1].cpus.to_string(), "1");
    }

    #[test]
    fn instances_of_the_driver_are_offered_as_they_are() {
        let part = |uuid: &str, start, size, compute| MigPart {
            uuid: uuid.to_owned(),
            start,
            size,
            compute,
            media: false,
        };
        let gpu = Gpu {
            product: "NVIDIA A100-SXM4-40GB".to_owned(),
            memory_mib: 40 << 10,
            mig: Some(vec![part("MIG-a", 0, 4, 3), part("MIG-b", 4, 2, 2)]),
            nic: Some("mlx5_0".to_owned()),
            ..Gpu::default()
        };
        let machine = Machine { gpus: vec![gpu, Gpu::default()], ..Machine::default() };
        let node = machine_node(&machine);
        let DeviceMode::Mig(mode) = &node.devices[0].mode else { panic!("it is cut") };
        assert!(!mode.carve);
        let slots: Vec<(u8, u8)> =
            mode.instances.iter().map(|i| (i.slot.start, i.slot.size)).collect();
        assert_eq!(slots, [(0, 4), (4, 2)]);
        let second = mode.instances[1].slot;
        assert_eq!(node.devices[0].instance_uuid(second), Some("MIG-b"));
        assert_eq!(node.devices[0].profile_name(second), Some("2g.10gb"));
        assert_eq!(node.devices[0].nic.as_deref(), Some("mlx5_0"));
        assert_eq!(node.devices[1].mode, DeviceMode::Whole);
    }

    #[test]
    fn gpu_use_of_others_is_seen_with_its_owner() {
        let process =
            |pid| GpuProcess { gpu: 1, pid, uid: 7, name: "python".to_owned(), memory_mib: 900 };
        let seen =
            foreign_use(&[process(10), process(11)], |pid| pid == 10, |uid| format!("u{uid}"));
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].device, seen[0].owner.as_str()), (Some(1), "u7"));
        assert_eq!((seen[0].what.as_str(), seen[0].memory.0), ("11 python", 900));
    }

    #[test]
    fn nonsense_is_refused_with_the_form() {
        for text in ["", "4", "0x8", "4x99", "x", "-1x2", "2000x1"] {
            let error = text.parse::<PracticeSpec>().expect_err(text);
            assert!(error.contains("4x8"), "{error}");
        }
        assert!("2x0".parse::<PracticeSpec>().is_ok());
    }
}
