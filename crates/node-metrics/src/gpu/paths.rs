//! How GPUs are joined where no NVLink does it: by the tree of PCI bridges, and where that is not to
//! be seen, by what the vendor's library and the memory domains say.
//!
//! Virtual machines and some firmware hide the tree, give every CPU to every GPU, or call all paths
//! the longest (NVIDIA/go-gpuallocator#17, vllm-project/vllm#11122). The tree is believed first;
//! where it is hidden and the rest contradicts itself, the machine is marked as uncertain.

use std::path::Path;

use crate::{Gpu, GpuLink, LinkKind};

const DEVICES: &str = "sys/bus/pci/devices";

/// The bridges above a PCI device, from the root of its tree down, and itself last; `None` where
/// they cannot be seen.
pub(crate) fn bridges(root: &Path, address: &str) -> Option<Vec<String>> {
    let link = std::fs::read_link(root.join(DEVICES).join(address)).ok()?;
    let names = link.iter().map(|name| name.to_string_lossy().into_owned());
    let path: Vec<String> = names.skip_while(|name| !name.starts_with("pci")).collect();
    (path.len() > 1).then_some(path)
}

/// What joins two devices by their bridges, in the classes of `nvidia-smi topo`; `same` is whether
/// they are in one memory domain.
pub(crate) fn class(one: &[String], other: &[String], same: bool) -> LinkKind {
    let shared = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    match shared {
        0 if same => LinkKind::Numa,
        0 => LinkKind::Socket,
        // Only the root itself, which is the host bridge.
        1 => LinkKind::HostBridge,
        // Below what they share each has at most its own port of one switch.
        _ if one.len() - shared <= 2 && other.len() - shared <= 2 => LinkKind::PcieSwitch,
        _ => LinkKind::PcieSwitches,
    }
}

/// Gives every pair of GPUs its path beside any NVLink, by what is known; true where what is known
/// contradicts itself or is missing, on a machine with so many memory domains.
pub(crate) fn settle(gpus: &mut [Gpu], trees: &[Option<Vec<String>>], domains: usize) -> bool {
    let mut uncertain = domains > 1 && gpus.len() > 1 && gpus.iter().any(|gpu| gpu.numa.is_none());
    for one in 0..gpus.len() {
        for other in (0..gpus.len()).filter(|other| *other != one) {
            let same = gpus[one].numa.is_some() && gpus[one].numa == gpus[other].numa;
            let peer = other as u32;
            let is_path =
                |link: &GpuLink| link.peer == peer && !matches!(link.kind, LinkKind::NvLink(_));
            let said = gpus[one].links.iter().find(|link| is_path(link)).map(|link| link.kind);
            let kind = match (&trees[one], &trees[other], said) {
                (Some(a), Some(b), _) => class(a, b, same),
                (_, _, Some(LinkKind::Socket)) if same => {
                    uncertain = true;
                    LinkKind::Numa
                }
                (_, _, Some(said)) => said,
                (_, _, None) if same => LinkKind::Numa,
                (_, _, None) => LinkKind::Socket,
            };
            gpus[one].links.retain(|link| !is_path(link));
            gpus[one].links.push(GpuLink { peer, kind });
        }
        gpus[one].links.sort_by_key(|link| (link.peer, link.kind));
    }
    uncertain
}

#[cfg(test)]
mod tests {
    use super::{class, settle};
    use crate::{Gpu, GpuLink, LinkKind};

    fn path(text: &str) -> Vec<String> {
        text.split('/').map(str::to_owned).collect()
    }

    /// GPUs in these memory domains whose library says this of every pair.
    fn gpus(domains: &[Option<u32>], said: Option<LinkKind>) -> Vec<Gpu> {
        let all = 0..domains.len() as u32;
        let gpu = |(index, numa): (u32, &Option<u32>)| Gpu {
            index,
            numa: *numa,
            links: said
                .into_iter()
                .flat_map(|kind| {
                    let peers = all.clone().filter(move |peer| *peer != index);
                    peers.map(move |peer| GpuLink { peer, kind })
                })
                .collect(),
            ..Gpu::default()
        };
        (0..).zip(domains).map(gpu).collect()
    }

    fn kind(gpus: &[Gpu], one: usize, other: u32) -> LinkKind {
        gpus[one].links.iter().find(|link| link.peer == other).expect("a link").kind
    }

    #[test]
    fn classes_follow_the_bridges() {
        let gpu = path("pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3d:00.0");
        for (other, kind) in [
            // Another port of the same switch.
            (
                "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:10.0/0000:3e:00.0",
                LinkKind::PcieSwitch,
            ),
            // A switch below another port.
            (
                "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:10.0/0000:3f:00.0/0000:40:00.0/0000:41:00.0",
                LinkKind::PcieSwitches,
            ),
            ("pci0000:3a/0000:3a:01.0/0000:50:00.0", LinkKind::HostBridge),
            ("pci0000:5d/0000:5d:00.0/0000:5e:00.0", LinkKind::Numa),
        ] {
            assert_eq!(class(&gpu, &path(other), true), kind, "{other}");
            assert_eq!(class(&path(other), &gpu, true), kind, "{other}");
        }
        assert_eq!(class(&gpu, &path("pci0000:5d/0000:5e:00.0"), false), LinkKind::Socket);
    }

    #[test]
    fn t23_the_tree_is_believed_before_the_library() {
        let mut two = gpus(&[Some(0), Some(0)], Some(LinkKind::Socket));
        let trees = ["pci0000:00/0000:01:00.0", "pci0000:00/0000:02:00.0"];
        let uncertain = settle(&mut two, &trees.map(|t| Some(path(t))), 2);
        assert_eq!((kind(&two, 0, 1), uncertain), (LinkKind::HostBridge, false));
    }

    #[test]
    fn t23_memory_domains_part_gpus_whose_tree_is_hidden_and_the_machine_is_marked() {
        // The library calls every path the longest, though groups of two share their CPUs.
        let domains = [Some(0), Some(0), Some(1), Some(1)];
        let mut four = gpus(&domains, Some(LinkKind::Socket));
        let uncertain = settle(&mut four, &[None, None, None, None], 2);
        assert!(uncertain);
        assert_eq!(kind(&four, 0, 1), LinkKind::Numa);
        assert_eq!(kind(&four, 0, 2), LinkKind::Socket);
        // All CPUs are given to all GPUs: nothing is known of two domains.
        let mut lost = gpus(&[None, None], Some(LinkKind::HostBridge));
        assert!(settle(&mut lost, &[None, None], 2));
        assert_eq!(kind(&lost, 0, 1), LinkKind::HostBridge);
        // With one domain there is nothing to be uncertain about.
        let mut small = gpus(&[None, None], None);
        assert!(!settle(&mut small, &[None, None], 1));
    }

    #[test]
    fn nvlinks_keep_the_path_beneath_them() {
        let mut two = gpus(&[Some(0), Some(1)], Some(LinkKind::NvLink(4)));
        assert!(!settle(&mut two, &[None, None], 2));
        let kinds: Vec<LinkKind> = two[0].links.iter().map(|link| link.kind).collect();
        assert_eq!(kinds, [LinkKind::NvLink(4), LinkKind::Socket]);
    }
}
