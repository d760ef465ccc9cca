//! What a replay comes to.

use super::{Costs, FaultCounts, Finished, GpuUse, Users};
use serde::Serialize;

/// Jobs that ran less count as having run so long, seconds (Feitelson's bound).
pub const BOUND_S: i64 = 10;

/// Sums over finished jobs.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    jobs: u64,
    slowdown: Sum,
    slowdown_max: f64,
    flow: i128,
    flow_max: i64,
    wait: i128,
    wait_max: i64,
    /// Processor-seconds.
    work: i128,
    first_submit: Option<i64>,
    last_end: i64,
    users: Users,
}

/// A sum of floats that loses nothing to the order of its terms (Neumaier, ZAMM 1974).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    pub(super) fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        let (large, small) =
            if self.sum.abs() >= term.abs() { (self.sum, term) } else { (term, self.sum) };
        self.lost += (large - sum) + small;
        self.sum = sum;
    }

    pub(super) fn value(self) -> f64 {
        self.sum + self.lost
    }
}

/// The aggregates of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The policy's name.
    pub policy: String,
    /// How many jobs.
    pub jobs: u64,
    /// Mean over jobs of the bounded slowdown, with a bound of ten seconds.
    pub average_bounded_slowdown: f64,
    /// The largest of them.
    pub max_bounded_slowdown: f64,
    /// Mean time from submission to end.
    pub average_flow_time_s: f64,
    /// The longest.
    pub max_flow_time_s: i64,
    /// Mean time from submission to start.
    pub average_wait_s: f64,
    /// The longest.
    pub max_wait_s: i64,
    /// Processor time that jobs used, of what there was between the first submission and the last
    /// end.
    pub utilisation: f64,
    /// From the first submission to the last end.
    pub makespan_s: i64,
    /// How many users there were.
    pub users: u64,
    /// How evenly they were served: [`Users::fairness`].
    pub jain_fairness_users: f64,
    /// What broke, where something was to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultCounts>,
    /// What became of the GPUs, where the nodes are known and have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuUse>,
    /// What it draws and costs, where somebody says what a processor does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
}

impl Totals {
    /// How many jobs there were.
    pub const fn jobs(&self) -> u64 {
        self.jobs
    }

    /// What became of each user's.
    pub const fn users(&self) -> &Users {
        &self.users
    }

    /// Counts a job.
    pub fn add(&mut self, done: &Finished) {
        let slowdown = done.bounded_slowdown();
        self.jobs += 1;
        self.slowdown.add(slowdown);
        self.slowdown_max = self.slowdown_max.max(slowdown);
        self.flow += i128::from(done.flow());
        self.flow_max = self.flow_max.max(done.flow());
        self.wait += i128::from(done.wait());
        self.wait_max = self.wait_max.max(done.wait());
        self.work += i128::from(done.job.run) * i128::from(done.job.requested);
        let first = self.first_submit.unwrap_or(done.job.submit).min(done.job.submit);
        self.first_submit = Some(first);
        self.last_end = self.last_end.max(done.end);
        self.users.add(done);
    }

    /// What they come to on a machine of so many processors; zeros where there was no job.
    pub fn summary(&self, policy: &str, processors: u32) -> Summary {
        let jobs = self.jobs.max(1) as f64;
        let makespan_s = self.last_end - self.first_submit.unwrap_or(self.last_end);
        let there = i128::from(processors) * i128::from(makespan_s.max(1));
        Summary {
            policy: policy.to_owned(),
            jobs: self.jobs,
            average_bounded_slowdown: self.slowdown.value() / jobs,
            max_bounded_slowdown: self.slowdown_max,
            average_flow_time_s: self.flow as f64 / jobs,
            max_flow_time_s: self.flow_max,
            average_wait_s: self.wait as f64 / jobs,
            max_wait_s: self.wait_max,
            utilisation: self.work as f64 / there.max(1) as f64,
            makespan_s,
            users: self.users.count(),
            jain_fairness_users: self.users.fairness(),
            faults: None,
            gpus: None,
            costs: None,
        }
    }
}
