//! What the daemon said last.

use crate::meters::Meters;
use muster_api::{DiagnosisView, JobView, NodeView, PlanPage, QueueRow, ShareLine, WhyView};
use muster_model::{JobState, Timestamp};
use std::time::Instant;

/// One round of answers. Lists that the shown view does not need are those of an earlier round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The cluster's name.
    pub(crate) cluster: String,
    /// The caller's name.
    pub(crate) user: String,
    /// The daemon's clock.
    pub(crate) now: Timestamp,
    /// The queue: what has resources first, then what waits in its order.
    pub(crate) queue: Vec<QueueRow>,
    /// Nodes by index.
    pub(crate) nodes: Vec<NodeView>,
    /// The plan.
    pub(crate) plan: PlanPage,
    /// Shares; each account before what is beneath it.
    pub(crate) shares: Vec<ShareLine>,
    /// What is measured.
    pub(crate) meters: Meters,
    /// What was measured before, and how many seconds before.
    pub(crate) earlier: Option<(f64, Meters)>,
    /// When that was measured.
    pub(crate) measured: Option<Instant>,
    /// The job that is looked at.
    pub(crate) job: Option<Box<Detail>>,
}

/// One job.
#[derive(Clone, Debug)]
pub(crate) struct Detail {
    /// It whole.
    pub(crate) view: JobView,
    /// Why it waits.
    pub(crate) why: Option<WhyView>,
    /// What holds it back, and how far apart samples are; absent where the caller may not know.
    pub(crate) diagnosis: Option<(u64, DiagnosisView)>,
}

impl Seen {
    /// Brings rows of the queue in the order in which they are shown.
    pub(crate) fn sort_queue(&mut self) {
        self.queue.sort_by_key(|row| {
            (row.state == JobState::Pending, std::cmp::Reverse(row.priority), row.id)
        });
    }

    /// How many jobs have resources and how many wait, tasks of arrays counted.
    pub(crate) fn counts(&self) -> (u32, u32) {
        let mut counts = (0, 0);
        for row in &self.queue {
            let tasks = row.array.as_ref().map_or(1, |array| array.count.max(1));
            match row.state {
                JobState::Pending => counts.1 += tasks,
                _ => counts.0 += tasks,
            }
        }
        counts
    }

    /// The row of a job, by raw number.
    pub(crate) fn row(&self, id: u32) -> Option<&QueueRow> {
        self.queue.iter().find(|row| row.id == id)
    }
}
