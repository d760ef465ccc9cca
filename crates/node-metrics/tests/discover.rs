//! Machines from captured trees, and this one.

use std::fs;
use std::path::Path;

use muster_node_metrics::{LinkKind, Vendor, discover};

/// A tree of files, each line `path: text`.
fn tree(lines: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("directory");
    for line in lines.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (path, text) = line.split_once(": ").expect("path and text");
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        fs::write(path, text.replace("\\n", "\n")).expect("file");
    }
    root
}

/// Two sockets of two cores with two threads each, CPU 7 off line, CPUs 0 to 5 allowed.
const TWO_SOCKETS: &str = r"
    proc/sys/kernel/hostname: gpu08.site.example\n
    proc/sys/kernel/random/boot_id: 11111111-2222-3333-4444-555555555555\n
    proc/meminfo: MemTotal:       16777216 kB\nMemFree: 1 kB
    proc/self/status: Name: x\nCpus_allowed_list:	0-5
    sys/devices/system/cpu/online: 0-6
    sys/devices/system/cpu/cpu0/topology/core_id: 0
    sys/devices/system/cpu/cpu0/topology/physical_package_id: 0
    sys/devices/system/cpu/cpu1/topology/core_id: 0
    sys/devices/system/cpu/cpu1/topology/physical_package_id: 1
    sys/devices/system/cpu/cpu2/topology/core_id: 1
    sys/devices/system/cpu/cpu2/topology/physical_package_id: 0
    sys/devices/system/node/node0/cpulist: 0,2,4,6
    sys/devices/system/node/node0/meminfo: Node 0 MemTotal:        8388608 kB
    sys/devices/system/node/node1/cpulist: 1,3,5
    sys/devices/system/node/node1/meminfo: Node 1 MemTotal:        8388608 kB
    sys/bus/pci/devices/0000:03:00.0/class: 0x030000
    sys/bus/pci/devices/0000:03:00.0/vendor: 0x1a03
    sys/bus/pci/devices/0000:3b:00.0/class: 0x030200
    sys/bus/pci/devices/0000:3b:00.0/vendor: 0x10de
    sys/bus/pci/devices/0000:3b:00.0/numa_node: 1
    proc/driver/nvidia/gpus/0000:3b:00.0/information: Model: 		 NVIDIA A100-SXM4-80GB\nGPU UUID: 	 GPU-abc\nDevice Minor: 	 3
    sys/bus/pci/devices/0000:86:00.0/class: 0x038000
    sys/bus/pci/devices/0000:86:00.0/vendor: 0x1002
    sys/bus/pci/devices/0000:86:00.0/numa_node: -1
    sys/bus/pci/devices/0000:86:00.0/mem_info_vram_total: 68702699520
    sys/bus/pci/devices/0000:86:00.0/product_name: AMD Instinct MI250X
    sys/bus/pci/devices/0000:86:00.0/unique_id: a1b2
    sys/bus/pci/devices/0000:86:00.0/drm/renderD129/dev: 226:129
    sys/bus/pci/devices/0000:af:00.0/class: 0x030200
    sys/bus/pci/devices/0000:af:00.0/vendor: 0x10de
";

#[test]
fn a_captured_machine_is_read_whole() {
    let root = tree(TWO_SOCKETS);
    let machine = discover(root.path());
    assert_eq!(machine.hostname, "gpu08");
    assert_eq!(machine.boot_id, "11111111-2222-3333-4444-555555555555");
    assert_eq!(machine.memory_mib, 16_384);
    let numa: Vec<(u32, u64)> = machine.numa.iter().map(|n| (n.id, n.memory_mib)).collect();
    assert_eq!(numa, [(0, 8_192), (1, 8_192)]);
    let cpus: Vec<(u32, u32, u32, u32, bool)> =
        machine.cpus.iter().map(|c| (c.id, c.socket, c.core, c.numa, c.allowed)).collect();
    assert_eq!(cpus[..3], [(0, 0, 0, 0, true), (1, 1, 0, 1, true), (2, 0, 1, 0, true)]);
    assert_eq!((cpus.len(), cpus[6].4), (7, false));
}

#[test]
fn gpus_are_known_without_the_vendors_library() {
    let root = tree(TWO_SOCKETS);
    let machine = discover(root.path());
    assert_eq!(machine.gpus.len(), 2, "{:?}", machine.gpus);
    let nvidia = &machine.gpus[0];
    assert_eq!((nvidia.vendor, nvidia.model().as_str()), (Vendor::Nvidia, "a100"));
    assert_eq!((nvidia.uuid.as_str(), nvidia.numa), ("GPU-abc", Some(1)));
    assert_eq!(nvidia.files, ["/dev/nvidia3"]);
    let amd = &machine.gpus[1];
    assert_eq!((amd.index, amd.vendor, amd.model().as_str()), (1, Vendor::Amd, "mi250x"));
    assert_eq!((amd.memory_mib, amd.numa), (65_520, None));
    assert_eq!(amd.files, ["/dev/dri/renderD129"]);
    assert!(machine.notes.iter().any(|n| n.contains("0000:af:00.0")), "{:?}", machine.notes);
}

#[test]
fn an_empty_tree_is_a_machine_with_notes() {
    let root = tempfile::tempdir().expect("directory");
    let machine = discover(root.path());
    assert_eq!((machine.cpus.len(), machine.memory_mib, machine.gpus.len()), (1, 0, 0));
    assert_eq!(machine.notes.len(), 2, "{:?}", machine.notes);
}

#[test]
fn bridges_and_cards_are_read_from_the_bus() {
    let root = tree(TWO_SOCKETS);
    let devices = root.path().join("sys/bus/pci/devices");
    let cards = root.path().join("sys/class/infiniband");
    fs::create_dir_all(&cards).expect("directory");
    let bus = root.path().join("sys/devices");
    let link = |address: &str, above: &str| {
        let real = bus.join(above).join(address);
        let old = devices.join(address);
        match old.exists() {
            true => {
                fs::create_dir_all(real.parent().expect("parent")).expect("directory");
                fs::rename(&old, &real).expect("moved");
            }
            false => fs::create_dir_all(&real).expect("directory"),
        }
        std::os::unix::fs::symlink(format!("../../../devices/{above}/{address}"), &old)
            .expect("link");
    };
    link("0000:3b:00.0", "pci0000:3a/0000:3a:00.0");
    link("0000:86:00.0", "pci0000:85/0000:85:00.0");
    link("0000:3c:00.0", "pci0000:3a/0000:3a:00.0");
    fs::create_dir(cards.join("mlx5_4")).expect("directory");
    std::os::unix::fs::symlink("../../../devices/x/0000:3c:00.0", cards.join("mlx5_4/device"))
        .expect("link");
    let machine = discover(root.path());
    assert_eq!(machine.gpus[0].nic.as_deref(), Some("mlx5_4"));
    assert_eq!(machine.gpus[1].nic, None);
    assert_eq!(machine.gpus[0].links[0].kind, LinkKind::Socket);
    // The second GPU's memory domain is not known, and there are two.
    assert!(machine.topology_uncertain, "{:?}", machine.notes);
}

#[test]
fn this_machine_has_cpus_and_memory() {
    let machine = discover(Path::new("/"));
    assert!(machine.cpus.iter().any(|c| c.allowed));
    assert!(machine.memory_mib > 0 && !machine.hostname.is_empty());
    println!("{} GPUs, notes: {:?}", machine.gpus.len(), machine.notes);
}
