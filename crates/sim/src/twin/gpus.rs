//! What became of a cluster's GPUs over time: given out, idle, and idle but of no use.
//!
//! An idle part of a GPU is a fragment for a job that it cannot serve: the node has too few CPUs, too
//! little memory or too few GPUs with enough left beside it, or the part is smaller than the job's.
//! As in Fragmentation Gradient Descent (Weng et al., *Beware of Fragmentation*, USENIX ATC 2023) that
//! is weighed over what jobs of the past typically ask of a node; jobs without GPUs are not among
//! them here, for no GPU is of use to them.

use muster_model::{DeviceMode, Mib, NodeId, NodeShare, State, Timestamp};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A whole GPU, in thousandths.
const WHOLE: u32 = 1000;

/// So many kinds are weighed, the most frequent: the rest changes little and costs time.
const KINDS_MOST: usize = 200;

/// What a job asks of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeAsk {
    /// GPUs.
    pub(super) gpus: u32,
    /// The part of each, in thousandths.
    pub(super) milli: u32,
    /// CPUs, as the node counts them.
    pub(super) cpus: u32,
    /// Memory.
    pub(super) memory: Mib,
}

impl NodeAsk {
    /// What a job had on a node; `None` where no GPU was among it.
    pub(super) fn of(share: &NodeShare) -> Option<Self> {
        let least = share.devices.iter().map(|grant| grant.share.0).min()?;
        Some(Self {
            gpus: u32::try_from(share.devices.len()).unwrap_or(u32::MAX),
            milli: least.clamp(1, WHOLE),
            cpus: share.cpu_count(),
            memory: share.memory,
        })
    }
}

/// How often each is asked for.
pub(super) type Asks = BTreeMap<NodeAsk, u64>;

/// What became of GPUs, from the beginning to the last submission (what empties afterwards says nothing of
/// a policy): the three parts make up the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct GpuUse {
    /// How many GPUs there were, on average.
    pub gpus: f64,
    /// Which part of them jobs had.
    pub given: f64,
    /// Which part was idle and of use to a typical job.
    pub usable: f64,
    /// Which part was idle and of none.
    pub fragmented: f64,
}

/// What is left of a node.
struct Left {
    gpus: Vec<u32>,
    cpus: u32,
    memory: u64,
}

/// A node's GPUs, in thousandths: all, idle, and of the idle what is lost by the weight of those to
/// whom it is.
#[derive(Clone, Copy, Default)]
struct Sums {
    all: u64,
    idle: u64,
    lost: u128,
}

/// Keeps account of GPUs while a past is replayed.
pub(super) struct Meter {
    kinds: Vec<(NodeAsk, u64)>,
    weight: u64,
    nodes: BTreeMap<NodeId, Sums>,
    now: Sums,
    since: Option<Timestamp>,
    counted: Counted,
    /// What was counted by the last submission.
    told: Counted,
}

/// Products of sums and milliseconds, and these.
#[derive(Clone, Copy, Default)]
struct Counted {
    all: u128,
    idle: u128,
    lost: u128,
    ms: u64,
}

impl Meter {
    /// Begins to weigh by what is asked for.
    pub(super) fn new(asks: &Asks) -> Self {
        let mut kinds: Vec<(NodeAsk, u64)> = asks.iter().map(|(ask, n)| (*ask, *n)).collect();
        kinds.sort_by_key(|(ask, count)| (std::cmp::Reverse(*count), *ask));
        kinds.truncate(KINDS_MOST);
        Self {
            weight: kinds.iter().map(|kind| kind.1).sum(),
            kinds,
            nodes: BTreeMap::new(),
            now: Sums::default(),
            since: None,
            counted: Counted::default(),
            told: Counted::default(),
        }
    }

    /// Takes up the state of nodes on which something changed at this instant. What they were until
    /// then is counted. Costs what is on them, times the kinds.
    pub(super) fn changed(&mut self, state: &State, nodes: &BTreeSet<NodeId>, now: Timestamp) {
        self.pass(now);
        for id in nodes {
            let sums = left(state, *id).map_or_else(Sums::default, |left| self.sums(&left));
            let old = self.nodes.insert(*id, sums).unwrap_or_default();
            self.now.all = self.now.all + sums.all - old.all;
            self.now.idle = self.now.idle + sums.idle - old.idle;
            self.now.lost = self.now.lost + sums.lost - old.lost;
        }
    }

    fn pass(&mut self, now: Timestamp) {
        let ms = self.since.map_or(0, |since| now.ms_since(since));
        self.counted.all += u128::from(self.now.all) * u128::from(ms);
        self.counted.idle += u128::from(self.now.idle) * u128::from(ms);
        self.counted.lost += self.now.lost * u128::from(ms);
        self.counted.ms += ms;
        self.since = Some(now);
    }

    /// Somebody submits at this instant.
    pub(super) fn submitted(&mut self, now: Timestamp) {
        self.pass(now);
        self.told = self.counted;
    }

    fn sums(&self, left: &Left) -> Sums {
        let idle: u64 = left.gpus.iter().map(|gpu| u64::from(*gpu)).sum();
        let lost =
            |(ask, count): &(NodeAsk, u64)| u128::from(left.lost_to(ask)) * u128::from(*count);
        Sums {
            all: left.gpus.len() as u64 * u64::from(WHOLE),
            idle,
            lost: self.kinds.iter().map(lost).sum(),
        }
    }

    /// What it came to; `None` where there were no GPUs by the last submission.
    pub(super) fn used(&self) -> Option<GpuUse> {
        let Counted { all, idle, lost, ms } = self.told;
        if all == 0 {
            return None;
        }
        let (all, idle) = (all as f64, idle as f64);
        let lost = lost as f64 / self.weight.max(1) as f64;
        Some(GpuUse {
            gpus: all / ms.max(1) as f64 / f64::from(WHOLE),
            given: 1.0 - idle / all,
            usable: (idle - lost) / all,
            fragmented: lost / all,
        })
    }
}

impl Left {
    /// What of its idle GPUs a job of this kind cannot use, in thousandths.
    fn lost_to(&self, ask: &NodeAsk) -> u64 {
        let small = |gpu: &&u32| **gpu < ask.milli;
        let fits = self.gpus.iter().filter(|gpu| !small(gpu)).count() as u64;
        let could =
            fits >= u64::from(ask.gpus) && self.cpus >= ask.cpus && self.memory >= ask.memory.0;
        self.gpus.iter().filter(|gpu| !could || small(gpu)).map(|gpu| u64::from(*gpu)).sum()
    }
}

/// What jobs leave of a node that can be used, GPUs in instances excepted; `None` where nothing may start.
fn left(state: &State, id: NodeId) -> Option<Left> {
    let node = state.nodes.get(&id).filter(|node| node.is_usable())?;
    let whole = node.devices.iter().filter(|device| !matches!(device.mode, DeviceMode::Mig(_)));
    let mut gpus: BTreeMap<u32, u32> = whole.map(|device| (device.index, WHOLE)).collect();
    let (mut cpus, mut memory) = (node.cpu_count(), node.memory.0);
    for (_, share) in state.shares_on(id) {
        cpus = cpus.saturating_sub(share.cpu_count());
        memory = memory.saturating_sub(share.memory.0);
        for grant in &share.devices {
            if let Some(left) = gpus.get_mut(&grant.index) {
                *left = left.saturating_sub(grant.share.0);
            }
        }
    }
    Some(Left { gpus: gpus.into_values().collect(), cpus, memory })
}
