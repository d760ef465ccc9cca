//! How tasks lie over nodes, sockets and cores, and which CPUs and GPUs each of them is bound to.
//!
//! The words and their meanings are those of the srun manual: `--distribution`, `--cpu-bind`,
//! `--gpu-bind`. Printed forms are what those options read back.

use crate::is_default;
use serde::{Deserialize, Serialize};
use std::fmt;

/// `--distribution`: which task goes to which node, and which CPUs of it each gets.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(default)]
pub struct Distribution {
    /// Over nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub nodes: NodeOrder,
    /// Over the sockets of a node; `None` is the default.
    #[serde(skip_serializing_if = "is_default")]
    pub sockets: Option<CpuOrder>,
    /// Over the cores of a socket; `None` is as over sockets.
    #[serde(skip_serializing_if = "is_default")]
    pub cores: Option<CpuOrder>,
    /// `Pack`: fill each node before the next (block only); `NoPack`: as evenly as can be.
    #[serde(skip_serializing_if = "is_default")]
    pub pack: Option<bool>,
}

/// How tasks follow each other over nodes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum NodeOrder {
    /// Consecutive tasks share a node.
    #[default]
    Block,
    /// Consecutive tasks are on consecutive nodes.
    Cyclic,
    /// So many consecutive tasks on a node, then as many on the next.
    Plane(u32),
    /// As the list of hosts says, task by task.
    Arbitrary,
}

/// How the CPUs of a node are dealt to its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuOrder {
    /// Consecutive tasks fill one socket (core) before the next.
    Block,
    /// Each task is on one socket (core), the next task on the next.
    Cyclic,
    /// Each CPU of a task is on the next socket (core).
    FullCyclic,
}

/// `--cpu-bind`: which CPUs each task may run on.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuBind {
    /// Which.
    pub kind: CpuBindKind,
    /// Tell each task on its standard error.
    #[serde(skip_serializing_if = "is_default")]
    pub verbose: bool,
}

/// Which CPUs a task may run on; lists go by the task's number on its node, again from the start
/// where there are more tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuBindKind {
    /// Its own where the step counts CPUs by task, else all of the step.
    #[default]
    Auto,
    /// All of the step.
    None,
    /// Its own hardware threads.
    Threads,
    /// The cores of its own.
    Cores,
    /// The sockets of its own.
    Sockets,
    /// The NUMA domains of its own.
    Domains,
    /// The one whose place is the task's number on the node.
    Rank,
    /// Those of the NUMA domain whose place is the task's number on the node.
    RankDomain,
    /// These, by number.
    Map(Vec<u32>),
    /// Those of these masks.
    Mask(Vec<Mask>),
    /// Those of these NUMA domains.
    MapDomain(Vec<u32>),
    /// Those of the NUMA domains of these masks.
    MaskDomain(Vec<Mask>),
}

/// `--gpu-bind`: which GPUs each task sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuBind {
    /// Which.
    pub kind: GpuBindKind,
    /// Tell each task on its standard error.
    #[serde(skip_serializing_if = "is_default")]
    pub verbose: bool,
}

/// Which GPUs a task sees. Numbers count inside the job where others' devices are out of its reach,
/// else over the whole node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuBindKind {
    /// All of the step.
    #[default]
    None,
    /// Those of the NUMA domains of its CPUs; all where none is.
    Closest,
    /// One of the closest: the first for the first so many tasks, then the next.
    Single(u32),
    /// So many of its own, near its CPUs where there are such.
    PerTask(u32),
    /// The one of this number.
    Map(Vec<u32>),
    /// Those of these masks.
    Mask(Vec<Mask>),
}

/// The most bits of a [`Mask`]: the numbers of CPUs that Linux knows.
pub const MASK_BITS_MAX: usize = 8192;

/// A set of numbers, written in base 16 as the kernel's affinity masks are: `0x3` is 0 and 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mask {
    /// 64 numbers each, the lowest first; no zero at the end.
    words: Vec<u64>,
}

impl Mask {
    /// Reads base 16, with or without `0x`; `None` for anything else, for no number at all, and
    /// beyond [`MASK_BITS_MAX`].
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        let good = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        if !good || digits.len() > MASK_BITS_MAX / 4 {
            return None;
        }
        let pieces = digits.as_bytes().rchunks(16);
        let words: Option<Vec<u64>> = pieces
            .map(|piece| u64::from_str_radix(std::str::from_utf8(piece).ok()?, 16).ok())
            .collect();
        let mask = Self { words: words? }.trimmed();
        (!mask.words.is_empty()).then_some(mask)
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().zip(0_u32..).flat_map(|(word, at)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| at * 64 + bit)
        })
    }

    fn trimmed(mut self) -> Self {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
        self
    }
}

impl FromIterator<u32> for Mask {
    /// Numbers beyond [`MASK_BITS_MAX`] are left out.
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut mask = Self::default();
        for number in numbers.into_iter().filter(|n| (*n as usize) < MASK_BITS_MAX) {
            let word = (number / 64) as usize;
            if mask.words.len() <= word {
                mask.words.resize(word + 1, 0);
            }
            mask.words[word] |= 1 << (number % 64);
        }
        mask
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (high, rest) = self.words.split_last().unwrap_or((&0, &[]));
        write!(f, "{high:#x}")?;
        rest.iter().rev().try_for_each(|word| write!(f, "{word:016x}"))
    }
}

impl TryFrom<String> for Mask {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "0x0" {
            return Ok(Self::default());
        }
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no mask"))
    }
}

impl From<Mask> for String {
    fn from(mask: Mask) -> Self {
        mask.to_string()
    }
}

impl Distribution {
    /// How the CPUs of a node are dealt: over sockets (cyclic unless said otherwise), and over the
    /// cores of a socket.
    pub fn cpu_orders(&self) -> (CpuOrder, CpuOrder) {
        let sockets = self.sockets.unwrap_or(CpuOrder::Cyclic);
        (sockets, self.cores.unwrap_or(sockets))
    }

    /// The size of a plane, where tasks lie in planes.
    pub fn plane(&self) -> Option<u32> {
        match self.nodes {
            NodeOrder::Plane(size) => Some(size),
            _ => None,
        }
    }

    /// As [`fmt::Display`] without the size of a plane: `SLURM_DISTRIBUTION`, which has it in
    /// `SLURM_DIST_PLANESIZE`.
    pub fn variable(&self) -> String {
        match self.nodes {
            NodeOrder::Plane(_) => "plane".to_owned(),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nodes {
            NodeOrder::Block => f.write_str("block")?,
            NodeOrder::Cyclic => f.write_str("cyclic")?,
            NodeOrder::Plane(size) => write!(f, "plane={size}")?,
            NodeOrder::Arbitrary => f.write_str("arbitrary")?,
        }
        let word = |order: Option<CpuOrder>| order.map_or("*", CpuOrder::word);
        match (self.sockets, self.cores) {
            (None, None) => {}
            (sockets, None) => write!(f, ":{}", word(sockets))?,
            (sockets, cores) => write!(f, ":{}:{}", word(sockets), word(cores))?,
        }
        f.write_str(match self.pack {
            None => "",
            Some(true) => ",Pack",
            Some(false) => ",NoPack",
        })
    }
}

impl CpuOrder {
    /// The manual's word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Cyclic => "cyclic",
            Self::FullCyclic => "fcyclic",
        }
    }
}

impl CpuBind {
    /// `quiet` or `verbose`: `SLURM_CPU_BIND_VERBOSE`.
    pub const fn loudness(&self) -> &'static str {
        if self.verbose { "verbose" } else { "quiet" }
    }

    /// The kind with its colon where a list follows: `SLURM_CPU_BIND_TYPE`.
    pub const fn type_word(&self) -> &'static str {
        match self.kind {
            CpuBindKind::Auto => "",
            CpuBindKind::None => "none",
            CpuBindKind::Threads => "threads",
            CpuBindKind::Cores => "cores",
            CpuBindKind::Sockets => "sockets",
            CpuBindKind::Domains => "ldoms",
            CpuBindKind::Rank => "rank",
            CpuBindKind::RankDomain => "rank_ldom",
            CpuBindKind::Map(_) => "map_cpu:",
            CpuBindKind::Mask(_) => "mask_cpu:",
            CpuBindKind::MapDomain(_) => "map_ldom:",
            CpuBindKind::MaskDomain(_) => "mask_ldom:",
        }
    }

    /// The list behind the kind: `SLURM_CPU_BIND_LIST`.
    pub fn list(&self) -> String {
        match &self.kind {
            CpuBindKind::Map(numbers) | CpuBindKind::MapDomain(numbers) => joined(numbers),
            CpuBindKind::Mask(masks) | CpuBindKind::MaskDomain(masks) => joined(masks),
            _ => String::new(),
        }
    }
}

impl fmt::Display for CpuBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.type_word();
        let verbose = match (self.verbose, kind) {
            (false, _) => "",
            (true, "") => "verbose",
            (true, _) => "verbose,",
        };
        write!(f, "{verbose}{kind}{}", self.list())
    }
}

impl fmt::Display for GpuBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.verbose { "verbose," } else { "" })?;
        match &self.kind {
            GpuBindKind::None => f.write_str("none"),
            GpuBindKind::Closest => f.write_str("closest"),
            GpuBindKind::Single(tasks) => write!(f, "single:{tasks}"),
            GpuBindKind::PerTask(gpus) => write!(f, "per_task:{gpus}"),
            GpuBindKind::Map(numbers) => write!(f, "map_gpu:{}", joined(numbers)),
            GpuBindKind::Mask(masks) => write!(f, "mask_gpu:{}", joined(masks)),
        }
    }
}

fn joined<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_numbers_in_base_16() {
        let mask = Mask::parse("0x5").expect("mask");
        assert_eq!(mask.iter().collect::<Vec<_>>(), [0, 2]);
        let wide: Mask = [0, 64, 127].into_iter().collect();
        assert_eq!(wide.to_string(), "0x80000000000000010000000000000001");
        assert_eq!(Mask::parse(&wide.to_string()), Some(wide));
        assert_eq!(Mask::parse("00ff").map(|m| m.to_string()).as_deref(), Some("0xff"));
        for bad in ["", "0x", "0", "0x0", "g", "-1", "0x0x1", &"f".repeat(2049)] {
            assert_eq!(Mask::parse(bad), None, "{bad}");
        }
        let stored = serde_json::to_string(&Mask::default()).expect("json");
        assert_eq!(serde_json::from_str::<Mask>(&stored).expect("read"), Mask::default());
    }

    #[test]
    fn orders_follow_the_sockets_where_cores_are_not_said() {
        let of = |sockets, cores| Distribution { sockets, cores, ..Distribution::default() };
        let (block, cyclic) = (CpuOrder::Block, CpuOrder::Cyclic);
        assert_eq!(of(None, None).cpu_orders(), (cyclic, cyclic));
        assert_eq!(of(Some(block), None).cpu_orders(), (block, block));
        assert_eq!(of(Some(block), Some(cyclic)).cpu_orders(), (block, cyclic));
        assert_eq!(of(None, Some(block)).to_string(), "block:*:block");
    }
}
