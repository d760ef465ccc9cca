//! How much of a cluster's GPUs a way of placing jobs fills: the experiment of FGD.
//!
//! As in the study (Weng et al., *Beware of Fragmentation*, USENIX ATC 2023): the pods of a list come
//! one after the other in random order and stay; more are drawn from the list until they ask for so
//! many times the cluster's GPUs (fewer, where the list asks for more). A pod that fits nowhere is
//! turned away. What is told is the part of all GPUs that is given out when what came asks for as
//! many GPUs as there are: the mean over the arrivals at which that rounds to 100 %. Where nodes are
//! as good as each other for a policy, the first is taken in an order that is drawn once for each
//! seed. Nothing is migrated and nothing is held back.

mod own;
mod studied;

use crate::draw::Draw;
use crate::trace::{OpenbNode, OpenbPod};
use muster_model::ApplyError;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A way of choosing the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// Any node that fits, any of its GPUs that does.
    Random,
    /// The least scalar product of what is asked for and what is left (Grandl et al., SIGCOMM 2014).
    DotProduct,
    /// With pods that ask for GPUs alike (Gandiva: Xiao et al., OSDI 2018).
    GpuClustering,
    /// Shared GPUs before free GPUs before free nodes (MLaaS: Weng et al., NSDI 2022).
    GpuPacking,
    /// The least left, weighted over CPUs and GPUs.
    BestFit,
    /// Fragmentation Gradient Descent (Weng et al., USENIX ATC 2023).
    Fgd,
    /// muster's planner under `nodes = "pack"`.
    MusterPack,
    /// muster's planner under `nodes = "spread"`.
    MusterSpread,
    /// muster's planner under `nodes = "least_waste"`, told nothing of the jobs to come.
    MusterBlind,
    /// The same, told what jobs typically ask for, as FGD is.
    Muster,
}

/// The names, in the order of [`Placing`].
pub const PLACINGS: [&str; 10] = [
    "random",
    "dot-product",
    "gpu-clustering",
    "gpu-packing",
    "best-fit",
    "fgd",
    "muster-pack",
    "muster-spread",
    "muster-blind",
    "muster",
];

const ALL: [Placing; 10] = [
    Placing::Random,
    Placing::DotProduct,
    Placing::GpuClustering,
    Placing::GpuPacking,
    Placing::BestFit,
    Placing::Fgd,
    Placing::MusterPack,
    Placing::MusterSpread,
    Placing::MusterBlind,
    Placing::Muster,
];

/// A name that is none of [`PLACINGS`].
#[derive(Debug, thiserror::Error)]
#[error("there is no placement {0:?}; there are {list}", list = PLACINGS.join(", "))]
pub struct UnknownPlacing(String);

impl FromStr for Placing {
    type Err = UnknownPlacing;

    fn from_str(text: &str) -> Result<Self, UnknownPlacing> {
        let at = PLACINGS.iter().position(|name| *name == text);
        at.map(|at| ALL[at]).ok_or_else(|| UnknownPlacing(text.to_owned()))
    }
}

impl fmt::Display for Placing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = ALL.iter().position(|placing| placing == self).unwrap_or(0);
        f.write_str(PLACINGS[at])
    }
}

/// What one run came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Filled {
    /// GPUs given out when as many as there are were asked for, in % of all.
    pub at_full_load: f64,
    /// GPUs given out in the end, in % of all.
    pub at_the_end: f64,
    /// Pods that came.
    pub pods: u32,
    /// Pods that were turned away.
    pub refused: u32,
}

/// Whoever places pods on a cluster.
trait Placer {
    /// Places the pod for good; false where it fits nowhere.
    fn place(&mut self, pod: &OpenbPod, draw: &mut Draw) -> Result<bool, ApplyError>;
}

/// Runs the experiment once. `load` is how many times the cluster's GPUs are asked for, in
/// thousandths. GPUs at zero where there are none.
///
/// # Errors
/// A fault of muster: an event does not fit the state.
pub fn fill(
    nodes: &[OpenbNode],
    pods: &[OpenbPod],
    placing: Placing,
    load: u32,
    seed: u64,
) -> Result<Filled, ApplyError> {
    let mut draw = Draw::new(seed);
    let mut order: Vec<OpenbNode> = nodes.to_vec();
    draw.shuffle(&mut order);
    let all: u64 = order.iter().map(|node| u64::from(node.gpus) * 1000).sum();
    let arrivals = arrivals(pods, all * u64::from(load) / 1000, &mut draw);
    let mut placer: Box<dyn Placer> = match placing {
        Placing::Muster | Placing::MusterBlind | Placing::MusterPack | Placing::MusterSpread => {
            Box::new(own::Own::new(&order, pods, placing)?)
        }
        _ => Box::new(studied::Studied::new(&order, pods, &arrivals, placing)),
    };
    let mut filled = Filled { at_full_load: 0.0, at_the_end: 0.0, pods: 0, refused: 0 };
    let (mut came, mut given, mut full) = (0u64, 0u64, (0u128, 0u64));
    for pod in &arrivals {
        filled.pods += 1;
        came += pod.gpu_total();
        if placer.place(pod, &mut draw)? {
            given += pod.gpu_total();
        } else {
            filled.refused += 1;
        }
        // It rounds to 100 %: within half a per cent of it.
        if (2 * came).abs_diff(2 * all) * 100 <= all {
            full = (full.0 + u128::from(given), full.1 + 1);
        }
    }
    let percent = |milli: f64| if all == 0 { 0.0 } else { milli * 100.0 / all as f64 };
    filled.at_the_end = percent(given as f64);
    filled.at_full_load = percent(full.0 as f64 / full.1.max(1) as f64);
    Ok(filled)
}

/// The pods in the order in which they come.
fn arrivals(pods: &[OpenbPod], wanted: u64, draw: &mut Draw) -> Vec<OpenbPod> {
    let mut all = pods.to_vec();
    draw.shuffle(&mut all);
    let mut total: u64 = all.iter().map(OpenbPod::gpu_total).sum();
    if total == 0 {
        return all;
    }
    while total > wanted {
        let gone = all.remove(draw.below(all.len()));
        total -= gone.gpu_total();
    }
    loop {
        let more = &pods[draw.below(pods.len())];
        if total + more.gpu_total() > wanted {
            return all;
        }
        total += more.gpu_total();
        all.push(more.clone());
    }
}
