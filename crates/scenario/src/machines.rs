//! Real machine layouts: links, NUMA domains and CPUs of nodes that were published somewhere.
//!
//! The notation is that of the topology cases: `links` names the fast links by class, `pci` the
//! switches (`[..]` one switch, `{..}` several under one root, `(..)` one host bridge, `/` the
//! border between NUMA domains, `k0` a network card), `cpu` the domains as `ID@SOCKET = CPUS : GPUS`.

use muster_model::{
    Availability, CpuSet, Device, DeviceLink, EngineName, LinkKind, Mib, Node, NodeId, NumaDomain,
};

/// A layout as text.
struct Layout {
    name: &'static str,
    model: &'static str,
    /// GiB of each GPU.
    memory: &'static [u64],
    links: &'static str,
    pci: &'static str,
    cpu: &'static str,
}

static LAYOUTS: &[Layout] = &[
    Layout {
        name: "M01",
        model: "v100",
        memory: &[32; 8],
        links: "2: 0-3 0-4 1-2 1-5 2-3 4-7 5-6 6-7; 1: 0-1 0-2 1-3 2-6 3-7 4-5 4-6 5-7",
        pci: "[0 1 k0] [2 3 k1] / [4 5 k2] [6 7 k3]",
        cpu: "0@0 = 0-19,40-59 : 0-3; 1@1 = 20-39,60-79 : 4-7",
    },
    Layout {
        name: "M02",
        model: "p100",
        memory: &[16; 8],
        links: "1: 0-3 0-4 1-2 1-5 2-3 4-7 5-6 6-7 0-1 0-2 1-3 2-6 3-7 4-5 4-6 5-7",
        pci: "[0 2] [1 3] / [4 6] [5 7]",
        cpu: "0@0 = 0-19,40-59 : 0-3; 1@1 = 20-39,60-79 : 4-7",
    },
    Layout {
        name: "M03",
        model: "v100",
        memory: &[32; 16],
        links: "6: all",
        pci: "{[0 1] [2 3]} {[4 5] [6 7]} / {[8 9] [10 11]} {[12 13] [14 15]}",
        cpu: "0@0 = 0-23,48-71 : 0-7; 1@1 = 24-47,72-95 : 8-15",
    },
    Layout {
        name: "M04",
        model: "a100",
        memory: &[80; 8],
        links: "12: all",
        pci: "{0 1} / {2 3} / {4 5} / {6 7}",
        cpu: "0@0 = 0-15,128-143 :; 1@0 = 16-31,144-159 : 2-3; 2@0 = 32-47,160-175 :; \
              3@0 = 48-63,176-191 : 0-1; 4@1 = 64-79,192-207 :; 5@1 = 80-95,208-223 : 6-7; \
              6@1 = 96-111,224-239 :; 7@1 = 112-127,240-255 : 4-5",
    },
    Layout {
        name: "M05",
        model: "a100",
        memory: &[40; 4],
        links: "4: all",
        pci: "0 / 1 / 2 / 3",
        cpu: "0@0 = 0-63 : 0-3",
    },
    Layout {
        name: "M06",
        model: "h100",
        memory: &[80; 8],
        links: "18: all",
        pci: "{0 k0} {1 k3} {2 k4} {3 k5} k1 k2 / {4 k6} {5 k9} {6 k10} {7 k11} k7 k8",
        cpu: "0@0 = 0-55,112-167 : 0-3; 1@1 = 56-111,168-223 : 4-7",
    },
    // GPU 5 has lost its NVLinks.
    Layout {
        name: "M06-hurt",
        model: "h100",
        memory: &[80; 8],
        links: "18: 0-1 0-2 0-3 0-4 0-6 0-7 1-2 1-3 1-4 1-6 1-7 2-3 2-4 2-6 2-7 3-4 3-6 3-7 4-6 \
                4-7 6-7",
        pci: "{0} {1} {2} {3} / {4} {5} {6} {7}",
        cpu: "0@0 = 0-55,112-167 : 0-3; 1@1 = 56-111,168-223 : 4-7",
    },
    Layout {
        name: "M07",
        model: "h100",
        memory: &[80; 8],
        links: "18: all",
        pci: "{0} {1} {2} / {3} / {4} {5} {6} / {7}",
        cpu: "0@0 = 0-23,96-119 : 0-2; 1@0 = 24-47,120-143 : 3; 2@1 = 48-71,144-167 : 4-6; \
              3@1 = 72-95,168-191 : 7",
    },
    Layout {
        name: "M08",
        model: "a40",
        memory: &[48; 8],
        links: "4: 0-1 2-3 4-5 6-7",
        pci: "(0) (1) (2) (3) / (4) (5) (6) (7)",
        cpu: "0@0 = 0-63 : 0-3; 1@1 = 64-127 : 4-7",
    },
    Layout {
        name: "M09",
        model: "rtx4090",
        memory: &[24; 8],
        links: "",
        pci: "(0) (1) (2) (3) / (4) (5) (6) (7)",
        cpu: "0@0 = 0-63,128-191 : 0-3; 1@1 = 64-127,192-255 : 4-7",
    },
    Layout {
        name: "M10",
        model: "a100",
        memory: &[40; 8],
        links: "",
        pci: "{[0 1] 2 3} / {[4 5] 6 7}",
        cpu: "0@0 = 0-63 : 0-3; 1@1 = 64-127 : 4-7",
    },
    Layout {
        name: "M11",
        model: "v100",
        memory: &[32; 8],
        links: "",
        pci: "[0 1 2 3 4] / [5 6 7]",
        cpu: "0@0 = 0-31,64-95 : 0-4; 1@1 = 32-63,96-127 : 5-7",
    },
    Layout {
        name: "M12",
        model: "rtx3090",
        memory: &[24; 4],
        links: "4: 0-1 2-3",
        pci: "0 1 / {2 [3]}",
        cpu: "0@0 = 0-23,48-71 : 0-1; 1@1 = 24-47,72-95 : 2-3",
    },
    Layout {
        name: "M13",
        model: "a10g",
        memory: &[24; 4],
        links: "",
        pci: "(0 1 2 3)",
        cpu: "0@0 = 0-47 : 0-3",
    },
    Layout {
        name: "M14",
        model: "rtx8000",
        memory: &[48; 4],
        links: "2: 0-3 1-2",
        pci: "0 1 / 2 3",
        cpu: "0@0 = 0-15 : 0-1; 1@1 = 16-31 : 2-3",
    },
    Layout {
        name: "M15",
        model: "a100",
        memory: &[80; 4],
        links: "12: 0-1 2-3",
        pci: "0 / 1 / 2 / 3",
        cpu: "0@0 = 0-23 : 0; 1@1 = 24-47 : 1; 2@2 = 48-71 : 2; 3@3 = 72-95 : 3",
    },
    Layout {
        name: "M16",
        model: "rtx4090",
        memory: &[24; 5],
        links: "",
        pci: "0 / (1 2) (3 4)",
        cpu: "0@0 = 0-7,16-23 : 1-4; 1@1 = 8-15,24-31 : 0",
    },
    Layout {
        name: "M17",
        model: "gh200",
        memory: &[96; 4],
        links: "6: all",
        pci: "0 / 1 / 2 / 3",
        cpu: "0@0 = 0-71 : 0; 1@1 = 72-143 : 1; 2@2 = 144-215 : 2; 3@3 = 216-287 : 3; \
              4@0 = :; 12@1 = :; 20@2 = :; 28@3 = :",
    },
    Layout {
        name: "M18",
        model: "gb200",
        memory: &[186; 4],
        links: "18: all",
        pci: "0 1 / 2 3",
        cpu: "0@0 = 0-71 : 0-1; 1@1 = 72-143 : 2-3",
    },
    Layout {
        name: "M19",
        model: "mi250x",
        memory: &[64; 8],
        links: "4: 0-1 2-3 4-5 6-7; 2: 0-6 2-4 1-3 5-7; 1: 0-2 4-6 1-5 3-7",
        pci: "0 1 2 3 4 5 6 7",
        cpu: "0@0 = 0-15,64-79 : 4-5; 1@0 = 16-31,80-95 : 2-3; 2@0 = 32-47,96-111 : 6-7; \
              3@0 = 48-63,112-127 : 0-1",
    },
    Layout {
        name: "M20",
        model: "mi300x",
        memory: &[192; 8],
        links: "1: all",
        pci: "0 1 2 3 / 4 5 6 7",
        cpu: "0@0 = 0-63 : 0-3; 1@1 = 64-127 : 4-7",
    },
    Layout {
        name: "M21",
        model: "rtx2080",
        memory: &[22, 11, 11, 10],
        links: "2: 1-2",
        pci: "(0 1 2 3)",
        cpu: "0@0 = 0-31 : 0-3",
    },
];

/// The names of all layouts.
pub fn names() -> impl Iterator<Item = &'static str> {
    LAYOUTS.iter().map(|layout| layout.name)
}

/// A node laid out like the machine of this name (`M01` to `M21`); `None` where there is none.
pub fn machine(id: NodeId, name: &str, layout: &str) -> Option<Node> {
    let layout = LAYOUTS.iter().find(|l| l.name == layout)?;
    Some(laid_out(id, name, layout))
}

/// The texts are our own, so what is wrong with one is a fault of the program: a test makes every
/// machine.
fn laid_out(id: NodeId, name: &str, layout: &Layout) -> Node {
    let count = layout.memory.len() as u32;
    let mut devices: Vec<Device> = (0..count)
        .map(|index| Device {
            index,
            model: layout.model.to_owned(),
            memory: Mib(layout.memory[index as usize] * 1024),
            ..Device::default()
        })
        .collect();
    let mut cpus = CpuSet::new();
    let mut numa = Vec::new();
    for part in layout.cpu.split(';').map(str::trim) {
        let (head, rest) = part.split_once('=').expect("cpu");
        let (domain, socket) = head.trim().split_once('@').expect("socket");
        let (own, gpus) = rest.split_once(':').expect("gpus");
        let id: u32 = domain.parse().expect("domain");
        let own = if own.trim().is_empty() {
            CpuSet::new()
        } else {
            CpuSet::parse(own.trim()).expect("cpus")
        };
        if !gpus.trim().is_empty() {
            for gpu in CpuSet::parse(gpus.trim()).expect("gpus").iter() {
                devices[gpu as usize].numa = Some(id);
            }
        }
        cpus.add_all(&own);
        numa.push(NumaDomain {
            id,
            socket: socket.parse().expect("socket"),
            cpus: own,
            memory: Mib(64 * 1024),
        });
    }
    let (places, cards) = pci(layout.pci, count);
    for (device, place) in devices.iter_mut().zip(&places) {
        device.nic = card(place, &cards);
    }
    for a in 0..count {
        for b in (0..count).filter(|b| *b != a) {
            let kind = pci_kind(&places[a as usize], &places[b as usize]);
            let links = &mut devices[a as usize].links;
            links.extend(lanes(layout.links, a, b).map(|kind| DeviceLink { peer: b, kind }));
            links.push(DeviceLink { peer: b, kind });
        }
    }
    Node {
        id,
        name: name.to_owned(),
        engine: EngineName::local(),
        cpus,
        threads_per_core: 1,
        numa,
        memory: Mib(512 * 1024),
        devices,
        availability: Availability::Up,
        ..Node::default()
    }
}

/// The fast link between two GPUs, where there is one.
fn lanes(links: &str, a: u32, b: u32) -> Option<LinkKind> {
    let pair = format!("{}-{}", a.min(b), a.max(b));
    links.split(';').filter_map(|class| class.trim().split_once(':')).find_map(|(n, pairs)| {
        let has = pairs.split_whitespace().any(|p| p == "all" || p == pair);
        has.then(|| LinkKind::NvLink(n.trim().parse().expect("lanes")))
    })
}

/// Where a GPU stands: side, host bridge, root, switch; 0 where it stands in none.
type PciPlace = [u32; 4];

/// Where the GPUs stand, and the network cards by name.
fn pci(text: &str, count: u32) -> (Vec<PciPlace>, Vec<(String, PciPlace)>) {
    let mut places = vec![[0; 4]; count as usize];
    let mut cards = Vec::new();
    let (mut here, mut next) = ([1, 0, 0, 0], 2);
    let spaced = "()[]{}/".chars().fold(text.to_owned(), |t, c| t.replace(c, &format!(" {c} ")));
    for word in spaced.split_whitespace() {
        let level = match word {
            "/" => 0,
            "(" | ")" => 1,
            "{" | "}" => 2,
            "[" | "]" => 3,
            card if card.starts_with('k') => {
                cards.push((card.to_owned(), here));
                continue;
            }
            gpu => {
                let gpu: usize = gpu.parse().expect("gpu");
                places[gpu] = here;
                continue;
            }
        };
        here[level] = if matches!(word, ")" | "}" | "]") { 0 } else { next };
        next += 1;
    }
    (places, cards)
}

/// The card below a GPU's own switches.
fn card(place: &PciPlace, cards: &[(String, PciPlace)]) -> Option<String> {
    let near = |card: &PciPlace| pci_kind(place, card) <= LinkKind::PcieSwitches;
    cards.iter().find(|(_, card)| near(card)).map(|(name, _)| name.clone())
}

fn pci_kind(a: &PciPlace, b: &PciPlace) -> LinkKind {
    let same = |level: usize| a[level] != 0 && a[level] == b[level];
    if same(3) {
        LinkKind::PcieSwitch
    } else if same(2) {
        LinkKind::PcieSwitches
    } else if same(1) {
        LinkKind::HostBridge
    } else if same(0) {
        LinkKind::Numa
    } else {
        LinkKind::Socket
    }
}
