//! Policy: what a site decided about order, backfill and limits.

use crate::{Mib, Preemption, PriorityPolicy, RunTimePolicy, Seconds, WaitGuard, is_default};
use serde::{Deserialize, Serialize};

/// How a site wants its jobs scheduled. Every field has a default; the configuration's `[policy]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// In which order waiting jobs are considered.
    pub order: OrderMode,
    /// Whether and how later jobs may start before earlier ones.
    pub backfill: BackfillMode,
    /// In which order jobs are tried behind a promise.
    #[serde(skip_serializing_if = "is_default")]
    pub backfill_order: BackfillOrder,
    /// What jobs are taken to run, beside their limits.
    #[serde(skip_serializing_if = "is_default")]
    pub run_time: RunTimePolicy,
    /// Under [`OrderMode::Slowdown`], when who waits comes first whatever it is.
    #[serde(skip_serializing_if = "is_default")]
    pub wait_guard: WaitGuard,
    /// False where nobody counts what users and accounts use (as Slurm without accounting): limits
    /// on use and fair share then see nothing.
    #[serde(skip_serializing_if = "is_true")]
    pub count_usage: bool,
    /// How many waiting jobs are promised a start, and how far ahead.
    #[serde(skip_serializing_if = "is_default")]
    pub backfill_depth: BackfillDepth,
    /// Which of the fitting nodes is taken.
    pub nodes: NodeChoice,
    /// Time between the polite and the final signal (Slurm's `KillWait`).
    pub kill_wait: Seconds,
    /// Ended jobs stay in the live list so long (Slurm's `MinJobAge`).
    pub min_job_age: Seconds,
    /// The largest array index plus one (Slurm's `MaxArraySize`).
    pub max_array_size: u32,
    /// At most so many unfinished jobs (Slurm's `MaxJobCount`).
    pub max_job_count: u32,
    /// A job above a partition's limits is refused at submission, in place of waiting for ever
    /// (Slurm's `EnforcePartLimits`).
    pub enforce_partition_limits: bool,
    /// Jobs whose dependency can never be met are cancelled (`kill_invalid_depend`).
    pub kill_invalid_dependency: bool,
    /// Jobs may be requeued unless they say otherwise (Slurm's `JobRequeue`).
    pub requeue: bool,
    /// A job that kills its node or cannot be launched is requeued at most so often.
    pub max_restarts: u32,
    /// A job waits at most so long for few switches (Slurm's `max_switch_wait`).
    pub max_switch_wait: Seconds,
    /// Jobs that share CPUs or GPUs take turns of this length (Slurm's `SchedulerTimeSlice`).
    pub time_slice: Seconds,
    /// How GPUs are given out in parts.
    #[serde(skip_serializing_if = "is_default")]
    pub devices: DevicePolicy,
    /// What makes a job important under [`OrderMode::Multifactor`], and how use is counted.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: PriorityPolicy,
    /// Who may make room for whom, and how.
    #[serde(skip_serializing_if = "is_default")]
    pub preemption: Preemption,
}

/// How GPUs are given out in parts (configuration's `[policy.devices]`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DevicePolicy {
    /// A request for a part of a GPU may get a whole one, where no part of one is free.
    #[serde(skip_serializing_if = "is_default")]
    pub whole_for_parts: bool,
    /// A request that says only how much GPU memory it needs may get a part of a GPU.
    #[serde(skip_serializing_if = "is_default")]
    pub memory_is_part: bool,
    /// The shares that jobs here typically ask for, in thousandths, with their weights: what
    /// fragmentation is measured against (FGD, USENIX ATC 2023). Empty is a quarter, a half and a
    /// whole GPU alike.
    #[serde(skip_serializing_if = "is_default")]
    pub typical_shares: Vec<(u32, u32)>,
    /// CPUs that jobs here typically ask for with each GPU: what [`NodeChoice::LeastWaste`] measures
    /// by. Without it, what the cluster has for each of its GPUs.
    #[serde(skip_serializing_if = "is_default")]
    pub typical_cpus_per_gpu: Option<u32>,
    /// As [`Self::typical_cpus_per_gpu`], for memory.
    #[serde(skip_serializing_if = "is_default")]
    pub typical_memory_per_gpu: Option<Mib>,
}

/// The order of waiting jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderMode {
    /// Partition tier, then priority (QOS, partition, nice, or set by hand), then submission.
    #[default]
    Fifo,
    /// Partition tier, then the sum of weighted factors, then the time since they are free to start.
    Multifactor,
    /// Partition tier and priority as under [`OrderMode::Fifo`]; then who has waited too long by
    /// [`WaitGuard`], in order of waiting; then those whose wait adds most to the average slowdown
    /// for what they take: likely to be short, and small (module [`slowdown`](crate::slowdown)).
    Slowdown,
}

/// Whether later jobs may start first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackfillMode {
    /// Never.
    None,
    /// Where the first waiting job is not delayed (EASY: Lifka, JSSPP 1995).
    #[default]
    Easy,
    /// Where no waiting job before it is delayed: each has a promised start, down to
    /// [`BackfillDepth::total`] (Mu'alem and Feitelson, IEEE TPDS 2001).
    Conservative,
    /// Where none of the jobs with a promised start is delayed: the first of each partition, and
    /// more within all bounds of [`BackfillDepth`].
    Mixed,
}

/// In which order jobs are tried behind the first promise of an EASY round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackfillOrder {
    /// As they stand in the queue.
    #[default]
    Queue,
    /// Those expected to run shortest first, of equal ones as they stand in the queue (SJBF:
    /// Tsafrir, Etsion and Feitelson, IEEE TPDS 2007). Under other modes than
    /// [`BackfillMode::Easy`] this says nothing.
    Shortest,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // Serde hands a reference.
const fn is_true(yes: &bool) -> bool {
    *yes
}

/// How many waiting jobs are promised a start. The first of each partition always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackfillDepth {
    /// At most so many jobs, under both `conservative` and `mixed` (Slurm's `bf_max_job_test`).
    pub total: u32,
    /// Under `mixed`, at most so many of a partition (`bf_max_job_part`); `None` is no bound.
    #[serde(skip_serializing_if = "is_default")]
    pub per_partition: Option<u32>,
    /// Under `mixed`, at most so many of a user (`bf_max_job_user`); `None` is no bound.
    #[serde(skip_serializing_if = "is_default")]
    pub per_user: Option<u32>,
    /// Under `mixed`, at most so many of an account (`bf_max_job_assoc`); `None` is no bound.
    #[serde(skip_serializing_if = "is_default")]
    pub per_account: Option<u32>,
    /// Under `easy`, who has waited so many thousandths as long as the first job has a promise too:
    /// so nobody is passed again and again who is nearly as old; `None` is the first job alone.
    #[serde(skip_serializing_if = "is_default")]
    pub by_wait: Option<u32>,
    /// Under `mixed`, no start later than this from now is promised (`bf_window`); `None` is no
    /// bound.
    #[serde(skip_serializing_if = "is_default")]
    pub window: Option<Seconds>,
}

impl Default for BackfillDepth {
    fn default() -> Self {
        Self {
            total: 1000,
            per_partition: None,
            per_user: None,
            per_account: None,
            by_wait: None,
            window: None,
        }
    }
}

/// Which of the fitting nodes is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeChoice {
    /// The fullest first.
    #[default]
    Pack,
    /// The emptiest first.
    Spread,
    /// Jobs of one node go where they leave the least of the GPUs that others cannot use: too
    /// small a part, or too few CPUs or too little memory beside it. Others as under `Pack`.
    LeastWaste,
}

impl Policy {
    /// What the daemon does unless its configuration says otherwise: EASY in the order for a low
    /// slowdown. [`Policy::default`] is the plain policy that a state without one has.
    pub fn standard() -> Self {
        Self { order: OrderMode::Slowdown, ..Self::default() }
    }

    /// True where the order is the one for a low slowdown.
    pub fn orders_by_slowdown(&self) -> bool {
        self.order == OrderMode::Slowdown
    }

    /// True where jobs behind a promise are tried in another order than the queue's.
    pub fn backfills_shortest_first(&self) -> bool {
        let shortest = self.backfill_order == BackfillOrder::Shortest;
        self.backfill == BackfillMode::Easy && (shortest || self.orders_by_slowdown())
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            order: OrderMode::Fifo,
            backfill: BackfillMode::Easy,
            backfill_order: BackfillOrder::Queue,
            run_time: RunTimePolicy::default(),
            wait_guard: WaitGuard::default(),
            count_usage: true,
            backfill_depth: BackfillDepth::default(),
            nodes: NodeChoice::Pack,
            kill_wait: Seconds(30),
            min_job_age: Seconds(300),
            max_array_size: 100_001,
            max_job_count: 1_000_000,
            enforce_partition_limits: false,
            kill_invalid_dependency: false,
            requeue: true,
            max_restarts: 10,
            devices: DevicePolicy::default(),
            max_switch_wait: Seconds(300),
            time_slice: Seconds(30),
            priority: PriorityPolicy::default(),
            preemption: Preemption::default(),
        }
    }
}
