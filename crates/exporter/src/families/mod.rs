//! Every metric: its name, what it means, its unit and its labels.
//!
//! Names, units and labels of the sets [`Set::Node`], [`Set::Dcgm`] and [`Set::Filesystems`] are those
//! that node_exporter, NVIDIA's DCGM exporter (in its older units) and the exporters for Lustre and
//! Storage Scale use; [`Set::Jobs`] has the names of cgroup_exporter. The rest is `muster_*`.

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows while what it counts is the same.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// Metrics that are switched on and off together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Set {
    /// The machine, as node_exporter has it.
    Node,
    /// GPUs, as NVIDIA's DCGM exporter has them.
    Dcgm,
    /// Jobs.
    Jobs,
    /// Lustre, Storage Scale, NFS.
    Filesystems,
    /// What has no name elsewhere.
    Muster,
    /// The exporter itself; always on.
    Own,
}

impl Set {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Node, Self::Dcgm, Self::Jobs, Self::Filesystems, Self::Muster, Self::Own];

    /// Its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Dcgm => "dcgm",
            Self::Jobs => "jobs",
            Self::Filesystems => "filesystems",
            Self::Muster => "muster",
            Self::Own => "own",
        }
    }
}

/// One metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub kind: Kind,
    /// What it is switched on with.
    pub set: Set,
    /// Its unit; empty for a plain number.
    pub unit: &'static str,
    /// The labels that its series may have.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
}

/// Each row: the name in the source, what it counts, its set, its name, unit, labels and meaning.
macro_rules! families {
    ($($id:ident $kind:ident $set:ident $name:literal $unit:literal $labels:ident $help:literal)*) => {
        $(
            #[doc = $help]
            pub static $id: $crate::families::Family = $crate::families::Family {
                name: $name,
                kind: $crate::families::Kind::$kind,
                set: $crate::families::Set::$set,
                unit: $unit,
                labels: $labels,
                help: $help,
            };
        )*

        /// Those of this table, in its order.
        pub(super) static TABLE: &[&$crate::families::Family] = &[$(&$id),*];
    };
}

mod filesystems;
mod gpus;
mod jobs;
mod machine;

pub use filesystems::*;
pub use gpus::*;
pub use jobs::*;
pub use machine::*;

/// All metrics, in the order of the tables.
pub fn all() -> impl Iterator<Item = &'static Family> {
    [machine::TABLE, gpus::TABLE, jobs::TABLE, filesystems::TABLE].into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use super::{Kind, Set, all};
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_those_of_ours_keep_the_conventions() {
        let names: BTreeSet<&str> = all().map(|family| family.name).collect();
        assert_eq!(names.len(), all().count());
        for family in all() {
            let fine = |name: &str| {
                let mut letters = name.chars();
                letters.next().is_some_and(|l| l.is_ascii_alphabetic())
                    && letters.all(|l| l.is_ascii_alphanumeric() || l == '_')
            };
            assert!(fine(family.name) && family.labels.iter().all(|l| fine(l)), "{}", family.name);
            assert!(family.help.ends_with('.'), "{}", family.name);
            if family.name.starts_with("muster_") {
                let total = family.name.ends_with("_total");
                assert_eq!(total, family.kind == Kind::Counter, "{}", family.name);
                let base = family.name.trim_end_matches("_total");
                assert!(base.ends_with(family.unit), "{}", family.name);
            }
        }
    }

    #[test]
    fn sets_have_words_and_no_set_is_empty() {
        let words: BTreeSet<&str> = Set::ALL.into_iter().map(Set::word).collect();
        assert_eq!(words.len(), Set::ALL.len());
        for set in Set::ALL {
            assert!(all().any(|family| family.set == set), "{set:?}");
        }
    }
}
