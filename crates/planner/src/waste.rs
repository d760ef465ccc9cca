//! What a node's GPUs lose by a job: the measure of `nodes = "least_waste"`.
//!
//! Two things make GPUs useless to others. What is left of a GPU may be less than jobs typically ask
//! for: the fragments of Fragmentation Gradient Descent (Weng et al., USENIX ATC 2023), counted on
//! each GPU alone (module [`crate::devices::parts`]). And GPUs are stranded where the node has too
//! few CPUs or too little memory left beside them for a job on each, at what the policy says is
//! typical, or at what the cluster has for each of its GPUs. A job goes where the sum of both grows
//! least; so work without GPUs goes where there are none, or where CPUs are left over.

use crate::ask::Ask;
use crate::devices::{self, Chosen, parts};
use crate::free::{Avail, NodeView, Span, bit, bits};
use crate::gang::Pick;
use muster_model::{DeviceMode, NodeChoice, Policy};

/// A whole device in thousandths.
const WHOLE: u64 = 1000;

/// So many of something for so many GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rate {
    amount: u64,
    gpus: u64,
}

impl Rate {
    /// How many GPUs, in thousandths, so much of it serves; all where nothing is known.
    fn serves(self, free: u64) -> u64 {
        let milli = u128::from(free) * u128::from(self.gpus) * u128::from(WHOLE);
        let served = milli.checked_div(u128::from(self.amount));
        served.map_or(u64::MAX, |n| u64::try_from(n).unwrap_or(u64::MAX))
    }
}

/// What CPUs and memory a GPU typically has beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waste {
    cpus: Rate,
    memory: Rate,
}

impl Waste {
    /// The measure, where the policy chooses nodes by it.
    pub(crate) fn of(policy: &Policy, views: &[NodeView]) -> Option<Self> {
        if policy.nodes != NodeChoice::LeastWaste {
            return None;
        }
        let mut waste = Self::default();
        for view in views.iter().filter(|view| view.base_devices != 0) {
            let gpus = u64::from(view.base_devices.count_ones());
            let sum = |rate: &mut Rate, amount: u64| {
                rate.amount = rate.amount.saturating_add(amount);
                rate.gpus = rate.gpus.saturating_add(gpus);
            };
            sum(&mut waste.cpus, u64::from(view.base_cpu_count));
            sum(&mut waste.memory, view.base_memory);
        }
        let typical = &policy.devices;
        if let Some(cpus) = typical.typical_cpus_per_gpu {
            waste.cpus = Rate { amount: u64::from(cpus), gpus: 1 };
        }
        if let Some(memory) = typical.typical_memory_per_gpu {
            waste.memory = Rate { amount: memory.0, gpus: 1 };
        }
        Some(waste)
    }

    /// How much more of the node's GPUs is of no use to others once the pick is there.
    pub(crate) fn by(&self, ask: &Ask, view: &NodeView, span: Span, pick: &Pick) -> i64 {
        let avail = view.avail(span);
        let need = ask.need(view, pick.tasks, &pick.share);
        let Some(chosen) = devices::choose(ask, view, &avail, 0, &need) else { return i64::MAX };
        let mut cut = 0i64;
        let mut left = avail.parts.clone();
        for grant in chosen.parts.iter().filter(|grant| grant.mig.is_some()) {
            let Some(part) = left.iter_mut().find(|p| p.index == grant.index) else { continue };
            cut = cut.saturating_add(parts::worse(ask, view, part, grant));
            part.take(grant, ask.uid);
        }
        let before = self.on(ask, view, &avail, &Chosen::default(), (avail.cpus, avail.memory));
        let rest = (avail.cpus.saturating_sub(need.cpus), avail.memory.saturating_sub(need.memory));
        let after = self.on(ask, view, &avail, &chosen, rest);
        after.saturating_sub(before).saturating_add(cut)
    }

    /// What of the node's GPUs is of no use to typical jobs, by their weights.
    fn on(
        &self,
        ask: &Ask,
        view: &NodeView,
        avail: &Avail,
        chosen: &Chosen,
        (cpus, memory): (u32, u64),
    ) -> i64 {
        let (mut all, mut fragments) = (0u64, 0i64);
        for index in bits(view.base_devices) {
            let left = left_of(view, avail, index);
            let taken = if chosen.whole & bit(index) != 0 {
                left
            } else {
                let own = chosen.parts.iter().filter(|p| p.index == index && p.mig.is_none());
                own.map(|p| p.share.0).sum()
            };
            let left = left.saturating_sub(taken);
            all += u64::from(left);
            fragments = fragments.saturating_add(parts::fragments(&ask.typical, left));
        }
        let served = self.cpus.serves(u64::from(cpus)).min(self.memory.serves(memory));
        let stranded = i64::try_from(all.saturating_sub(served)).unwrap_or(i64::MAX);
        fragments.saturating_add(stranded.saturating_mul(parts::weights(&ask.typical)))
    }
}

/// What is left of a device, in thousandths; of one that is cut into instances nothing is counted
/// here.
fn left_of(view: &NodeView, avail: &Avail, index: u32) -> u32 {
    let mode = view.node.devices.get(index as usize).map(|device| &device.mode);
    match mode {
        Some(DeviceMode::Whole | DeviceMode::Shared(_)) if avail.devices & bit(index) != 0 => {
            WHOLE as u32
        }
        Some(DeviceMode::Shared(_)) => {
            avail.parts.iter().find(|p| p.index == index).map_or(0, |p| p.share)
        }
        _ => 0,
    }
}
