//! Which network card each GPU sends through: the one below the same PCIe switches.

use std::path::Path;

use crate::files::names;
use crate::gpu::paths::{bridges, class};
use crate::{Gpu, LinkKind};

const CARDS: &str = "sys/class/infiniband";

/// Gives each GPU the card that is below its own switches, where there is one. Of several cards and
/// GPUs below the same switches each GPU gets its own, as far as they go.
pub(crate) fn assign(root: &Path, gpus: &mut [Gpu], trees: &[Option<Vec<String>>]) {
    let cards: Vec<(String, Vec<String>)> = names(root, CARDS)
        .into_iter()
        .filter_map(|name| {
            let link = std::fs::read_link(root.join(CARDS).join(&name).join("device")).ok()?;
            let address = link.file_name()?.to_string_lossy().into_owned();
            Some((name, bridges(root, &address)?))
        })
        .collect();
    for (gpu, card) in gpus.iter_mut().zip(nearest(&cards, trees)) {
        gpu.nic = card;
    }
}

/// The card of each GPU; cards by name with the bridges above them.
fn nearest(cards: &[(String, Vec<String>)], trees: &[Option<Vec<String>>]) -> Vec<Option<String>> {
    let near = |tree: &Option<Vec<String>>| -> Vec<&str> {
        let Some(tree) = tree else { return Vec::new() };
        let kind = |card: &Vec<String>| class(tree, card, false);
        let best = cards.iter().map(|(_, card)| kind(card)).min();
        let Some(best) = best.filter(|best| *best <= LinkKind::PcieSwitches) else {
            return Vec::new();
        };
        cards.iter().filter(|(_, card)| kind(card) == best).map(|(name, _)| name.as_str()).collect()
    };
    let near: Vec<Vec<&str>> = trees.iter().map(near).collect();
    (0..near.len())
        .map(|gpu| {
            let before = near[..gpu].iter().filter(|other| **other == near[gpu]).count();
            let at = before.checked_rem(near[gpu].len())?;
            Some(near[gpu][at].to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    fn path(text: &str) -> Vec<String> {
        text.split('/').map(str::to_owned).collect()
    }

    #[test]
    fn t17_each_gpu_has_the_card_of_its_own_switch() {
        // Two GPUs, each with a card below its switch; GPU 1 goes with k3, and k1 is nobody's.
        let cards = [
            ("k0".to_owned(), path("pci1/p1/s1/d2/k0")),
            ("k1".to_owned(), path("pci9/p1/k1")),
            ("k3".to_owned(), path("pci2/p1/s1/d2/k3")),
        ];
        let gpus = ["pci1/p1/s1/d1/g0", "pci2/p1/s1/d1/g1", "pci3/p1/g2"].map(|t| Some(path(t)));
        let found = nearest(&cards, &gpus);
        assert_eq!(found, [Some("k0".to_owned()), Some("k3".to_owned()), None]);
        assert_eq!(nearest(&cards, &[None]), [None]);
        assert_eq!(nearest(&[], &gpus), [None, None, None]);
    }

    #[test]
    fn gpus_below_one_switch_share_its_cards_out() {
        let cards = ["k0", "k1"].map(|k| (k.to_owned(), path(&format!("pci1/p1/s1/{k}/{k}"))));
        let gpus = ["g0", "g1", "g2"].map(|g| Some(path(&format!("pci1/p1/s1/{g}/{g}"))));
        let found: Vec<String> = nearest(&cards, &gpus).into_iter().flatten().collect();
        assert_eq!(found, ["k0", "k1", "k0"]);
    }
}
