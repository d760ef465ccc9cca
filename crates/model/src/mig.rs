//! MIG: which instances a card can be cut into, and where on it they may lie.
//!
//! Facts from NVIDIA's Multi-Instance GPU user guide (supported profiles and placements). A card has
//! eight memory slots and seven compute slices (an A30 four and four); an instance takes a run of
//! memory slots that begins at one of the starts of its profile. Two instances must not share a
//! slot; nothing else bounds them (cases T-30 to T-33). The names follow the card's memory.

use crate::{Device, DeviceMode, Mib, MigSlot};

/// A kind of instance of one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigProfile {
    /// Its name: `3g.40gb`.
    pub name: &'static str,
    /// Compute slices.
    pub compute: u8,
    /// Memory slots.
    pub size: u8,
    /// Where it may begin.
    pub starts: &'static [u8],
    /// With the media extensions: at most one a card.
    pub media: bool,
}

/// What one kind of card can be cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigTable {
    /// Memory slots.
    pub slots: u8,
    /// Compute slices.
    pub slices: u8,
    /// Its profiles, the smallest first.
    pub profiles: &'static [MigProfile],
}

const fn profile(
    name: &'static str,
    compute: u8,
    size: u8,
    starts: &'static [u8],
    media: bool,
) -> MigProfile {
    MigProfile { name, compute, size, starts, media }
}

/// The seven profiles of a card of seven slices, by their names.
macro_rules! seven {
    ($one:literal, $media:literal, $double:literal, $two:literal, $three:literal, $four:literal, $all:literal) => {
        MigTable {
            slots: 8,
            slices: 7,
            profiles: &[
                profile($one, 1, 1, &[0, 1, 2, 3, 4, 5, 6], false),
                profile($media, 1, 1, &[0, 1, 2, 3, 4, 5, 6], true),
                profile($double, 1, 2, &[0, 2, 4, 6], false),
                profile($two, 2, 2, &[0, 2, 4], false),
                profile($three, 3, 4, &[0, 4], false),
                profile($four, 4, 4, &[0], false),
                profile($all, 7, 8, &[0], false),
            ],
        }
    };
}

/// Model, the least memory in GiB from which the row counts, and what it can be cut into. Rows of
/// one model stand with the largest memory first.
static TABLES: &[(&str, u64, MigTable)] = &[
    ("a30", 0, A30),
    (
        "a100",
        60,
        seven!("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    ),
    (
        "a100",
        0,
        seven!("1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
    ),
    (
        "a800",
        60,
        seven!("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    ),
    (
        "h100",
        95,
        seven!("1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"),
    ),
    (
        "h100",
        88,
        seven!("1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"),
    ),
    (
        "h100",
        0,
        seven!("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    ),
    (
        "h800",
        0,
        seven!("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    ),
    (
        "h200",
        0,
        seven!("1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
    ),
    (
        "gh200",
        120,
        seven!("1g.18gb", "1g.18gb+me", "1g.36gb", "2g.36gb", "3g.72gb", "4g.72gb", "7g.144gb"),
    ),
    (
        "gh200",
        0,
        seven!("1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"),
    ),
    (
        "b200",
        0,
        seven!("1g.23gb", "1g.23gb+me", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
    ),
];

const A30: MigTable = MigTable {
    slots: 4,
    slices: 4,
    profiles: &[
        profile("1g.6gb", 1, 1, &[0, 1, 2, 3], false),
        profile("1g.6gb+me", 1, 1, &[0, 1, 2, 3], true),
        profile("2g.12gb", 2, 2, &[0, 2], false),
        profile("2g.12gb+me", 2, 2, &[0, 2], true),
        profile("4g.24gb", 4, 4, &[0], false),
    ],
};

impl MigTable {
    /// What a card of this model and memory can be cut into; `None` where it has no MIG.
    pub fn of(model: &str, memory: Mib) -> Option<&'static Self> {
        let model = model.to_ascii_lowercase();
        let row = TABLES.iter().find(|(name, gib, _)| *name == model && memory.0 >= gib * 1024)?;
        Some(&row.2)
    }

    /// The profile of this name, compared without case.
    pub fn profile(&self, name: &str) -> Option<&'static MigProfile> {
        self.profiles.iter().find(|p| p.name.eq_ignore_ascii_case(name))
    }

    /// The profile that an instance has; `None` where no profile allows it there.
    pub fn profile_of(&self, slot: MigSlot) -> Option<&'static MigProfile> {
        self.profiles.iter().find(|p| p.slots().any(|s| s == slot))
    }

    /// Memory of an instance with so many slots on a card with so much: its part, rounded down.
    pub const fn memory(&self, size: u8, card: Mib) -> Mib {
        Mib(card.0 / self.slots as u64 * size as u64)
    }
}

impl MigProfile {
    /// Every place it may have.
    pub fn slots(&self) -> impl Iterator<Item = MigSlot> + '_ {
        self.starts.iter().map(|start| MigSlot {
            start: *start,
            size: self.size,
            compute: self.compute,
            media: self.media,
        })
    }
}

impl Device {
    /// What it can be cut into; `None` where it has no MIG.
    pub fn mig_table(&self) -> Option<&'static MigTable> {
        MigTable::of(&self.model, self.memory)
    }

    /// The name of an instance's profile on this device.
    pub fn profile_name(&self, slot: MigSlot) -> Option<&'static str> {
        Some(self.mig_table()?.profile_of(slot)?.name)
    }

    /// Memory of an instance on this device.
    pub fn instance_memory(&self, slot: MigSlot) -> Mib {
        self.mig_table().map_or(Mib::ZERO, |table| table.memory(slot.size, self.memory))
    }

    /// The driver's id of an instance, where one is there.
    pub fn instance_uuid(&self, slot: MigSlot) -> Option<&str> {
        let DeviceMode::Mig(mode) = &self.mode else { return None };
        mode.instances.iter().find(|i| i.slot == slot).map(|i| i.uuid.as_str())
    }
}

/// A GPU type as users write it, parted in model and MIG profile: `a100`, `1g.10gb`,
/// `a100_1g.10gb`.
pub fn split_type(text: &str) -> (Option<&str>, Option<&str>) {
    if is_profile(text) {
        return (None, Some(text));
    }
    match text.rsplit_once(['_', '-']) {
        Some((model, profile)) if is_profile(profile) && !model.is_empty() => {
            (Some(model), Some(profile))
        }
        _ => (Some(text), None),
    }
}

/// True for texts of the form `3g.40gb` or `1g.10gb+me`.
pub fn is_profile(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let Some((compute, memory)) = lower.split_once("g.") else { return false };
    let memory = memory.strip_suffix("+me").unwrap_or(memory);
    let digits = |t: &str| !t.is_empty() && t.len() <= 4 && t.bytes().all(|b| b.is_ascii_digit());
    digits(compute) && memory.strip_suffix("gb").is_some_and(digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every way to cut a card so that nothing more fits.
    fn layouts(table: &MigTable, double: bool) -> BTreeSet<BTreeSet<MigSlot>> {
        let places: Vec<MigSlot> = table
            .profiles
            .iter()
            .filter(|p| !p.media && (double || (p.compute, p.size) != (1, 2)))
            .flat_map(MigProfile::slots)
            .collect();
        let mut found = BTreeSet::new();
        fill(&places, 0, &mut BTreeSet::new(), &mut found);
        found
    }

    fn fill(
        places: &[MigSlot],
        taken: u16,
        so_far: &mut BTreeSet<MigSlot>,
        found: &mut BTreeSet<BTreeSet<MigSlot>>,
    ) {
        let open: Vec<MigSlot> = places.iter().copied().filter(|s| s.mask() & taken == 0).collect();
        if open.is_empty() {
            found.insert(so_far.clone());
        }
        for slot in open {
            so_far.insert(slot);
            fill(places, taken | slot.mask(), so_far, found);
            so_far.remove(&slot);
        }
    }

    #[test]
    fn t30_the_layouts_are_as_many_as_the_guide_says() {
        let table = MigTable::of("a100", Mib(40 << 10)).expect("a100");
        assert_eq!(layouts(table, false).len(), 19);
        assert_eq!(layouts(table, true).len(), 78);
        let mix = |layout: &BTreeSet<MigSlot>| -> Vec<u8> {
            let mut mix: Vec<u8> = layout.iter().map(|s| s.compute).collect();
            mix.sort_unstable();
            mix
        };
        let mixes: BTreeSet<Vec<u8>> = layouts(table, false).iter().map(mix).collect();
        let legal: [&[u8]; 7] =
            [&[3, 4], &[1, 2, 4], &[3, 3], &[2, 2, 3], &[1, 1, 1, 1, 3], &[1, 2, 2, 2], &[1; 7]];
        for mix in legal {
            assert!(mixes.contains(mix), "{mix:?}");
        }
        let illegal: [&[u8]; 6] =
            [&[4, 4], &[2; 4], &[1, 1, 1, 2, 3], &[1; 8], &[1, 3, 3], &[1, 3, 4]];
        for mix in illegal {
            assert!(!mixes.contains(mix), "{mix:?}");
        }
    }

    #[test]
    fn no_layout_has_more_compute_than_the_card() {
        for (model, gib, table) in TABLES {
            for layout in layouts(table, true) {
                let compute: u8 = layout.iter().map(|s| s.compute).sum();
                assert!(compute <= table.slices, "{model} {gib} {layout:?}");
            }
        }
    }

    #[test]
    fn names_follow_the_card() {
        for (model, gib, name, memory) in [
            ("a100", 40, "3g.20gb", 20),
            ("A100", 80, "3g.40gb", 40),
            ("h100", 80, "1g.20gb", 20),
            ("a30", 24, "2g.12gb", 12),
        ] {
            let table = MigTable::of(model, Mib(gib << 10)).expect(model);
            let profile = table.profile(name).expect(name);
            assert_eq!(table.memory(profile.size, Mib(gib << 10)), Mib(memory << 10), "{name}");
        }
        assert!(MigTable::of("h200", Mib(143_771)).and_then(|t| t.profile("3g.71gb")).is_some());
        assert!(MigTable::of("v100", Mib(32 << 10)).is_none());
    }

    #[test]
    fn t34_types_name_model_and_profile() {
        assert_eq!(split_type("a100"), (Some("a100"), None));
        assert_eq!(split_type("1g.10gb"), (None, Some("1g.10gb")));
        assert_eq!(split_type("a100_3g.20gb"), (Some("a100"), Some("3g.20gb")));
        assert_eq!(split_type("h100_1g.10gb+me"), (Some("h100"), Some("1g.10gb+me")));
        for text in ["", "g.gb", "3g", "rtx_4090", "1g.10g"] {
            assert_eq!(split_type(text).1, None, "{text}");
        }
    }
}
