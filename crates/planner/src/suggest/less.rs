//! What a job would have less of in all with a change: the price of starting now.

use super::Change;
use muster_model::{GpuScope, Request};
use std::fmt;

/// What the job would have less of, over all of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Less {
    /// `GPU` or `CPU`.
    pub what: &'static str,
    /// As asked.
    pub from: u32,
    /// As it would start.
    pub to: u32,
}

impl Less {
    /// GPUs where the change takes some away, else CPUs; nothing where the change says it itself.
    pub(super) fn of(before: &Request, after: &Request, change: &Change) -> Option<Self> {
        let fewer = |what, from: u32, to: u32| (to < from).then_some(Self { what, from, to });
        let gpus = gpus(before).zip(gpus(after));
        if let Some(less) = gpus.and_then(|(from, to)| fewer("GPU", from, to)) {
            return (!less.is_said(change)).then_some(less);
        }
        fewer("CPU", cpus(before), cpus(after))
    }

    /// True where the words of the change have the very numbers.
    fn is_said(&self, change: &Change) -> bool {
        match change {
            Change::Gpus { from, to, .. } => (*from, *to) == (self.from, self.to),
            Change::Both(a, b) => self.is_said(a) || self.is_said(b),
            _ => false,
        }
    }
}

impl fmt::Display for Less {
    /// `with 8 GPUs instead of 48`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.to == 1 { "" } else { "s" };
        write!(f, "with {} {}{plural} instead of {}", self.to, self.what, self.from)
    }
}

/// On the fewest nodes that it may have; `None` where sockets count.
fn gpus(request: &Request) -> Option<u32> {
    let nodes = request.nodes_min();
    let of_tasks = request.gpus.iter().filter(|gpus| gpus.scope == GpuScope::Task);
    let of_tasks = of_tasks.fold(0u32, |sum, gpus| sum.saturating_add(gpus.count));
    if of_tasks == 0 {
        return request.gpus_in_total(nodes);
    }
    // A task's GPUs say all of them.
    (request.gpus.iter().all(|gpus| gpus.scope == GpuScope::Task))
        .then(|| of_tasks.saturating_mul(request.tasks_on(nodes)))
}

fn cpus(request: &Request) -> u32 {
    request.tasks_on(request.nodes_min()).saturating_mul(request.cpus_per_task())
}
