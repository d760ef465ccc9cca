//! The sections of the file.

use crate::address::WebAddress;
use crate::amount::{Duration, Limit, Practice, Size};
use crate::filesystem::FilesystemSection;
use crate::gpu::GpuSection;
use crate::key::section;
use crate::kubernetes::KubernetesSection;
use crate::otlp::OtlpSection;
use crate::preemption::{PreemptionSection, QuotaWords};
use crate::priority::{Amounts, Billing, Factor, QosFlag, ShareWord, TresWeights};
use crate::reservation::ReservationSection;
use crate::slurm::SlurmSection;
use crate::topology::{DomainSection, LevelSection, TopologySection};
use muster_model::{
    BackfillMode, BackfillOrder, BillingMode, FairShareMode, NodeChoice, OrderMode, PartitionState,
    PreemptMode, PromiseBasis, RunTimeCorrection, RunTimeSource, UsageReset,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The whole configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `[cluster]`
    pub cluster: Cluster,
    /// `[daemon]`
    pub daemon: Daemon,
    /// `[local]`
    pub local: Local,
    /// `[practice]`
    pub practice: PracticeSection,
    /// `[slurm]`
    pub slurm: SlurmSection,
    /// `[kubernetes]`
    pub kubernetes: KubernetesSection,
    /// `[otlp]`
    pub otlp: OtlpSection,
    /// `[policy]`
    pub policy: PolicySection,
    /// `[priority]`
    pub priority: PrioritySection,
    /// `[preemption]`
    pub preemption: PreemptionSection,
    /// `[topology]`
    pub topology: TopologySection,
    /// `[[level]]`
    pub level: Vec<LevelSection>,
    /// `[[domain]]`
    pub domain: Vec<DomainSection>,
    /// `[[partition]]`
    pub partition: Vec<PartitionSection>,
    /// `[[account]]`
    pub account: Vec<AccountSection>,
    /// `[[association]]`
    pub association: Vec<AssociationSection>,
    /// `[[qos]]`
    pub qos: Vec<QosSection>,
    /// `[[licence]]`
    pub licence: Vec<LicenceSection>,
    /// `[[filesystem]]`
    pub filesystem: Vec<FilesystemSection>,
    /// `[[reservation]]`
    pub reservation: Vec<ReservationSection>,
    /// `[[gpu]]`
    pub gpu: Vec<GpuSection>,
    /// `[[node]]`
    pub node: Vec<NodeSection>,
}

section! {
    /// The cluster as a whole.
    one "cluster" Cluster {
        /// Its name, as `SLURM_CLUSTER_NAME` and `sacct` show it.
        name: String = "muster".to_owned(), "text", restart;
    }
}

section! {
    /// The daemon of this machine.
    one "daemon" Daemon {
        /// The state directory. `MUSTER_STATE` and `--state` come before it; without any it is
        /// `/var/lib/muster` for root and `$XDG_STATE_HOME/muster` for others.
        state: Option<PathBuf> = None, "path", restart;
        /// The unix socket. `MUSTER_SOCKET` and `--socket` come before it; without any it is
        /// `/run/muster/socket` for root, `$XDG_RUNTIME_DIR/muster/socket` for others, and
        /// `socket` in a state directory that was named.
        socket: Option<PathBuf> = None, "path", restart;
        /// What is logged: `error`, `warn`, `info`, `debug`, or a filter such as
        /// `info,muster_control=debug`.
        log: String = "info".to_owned(), "text", restart;
        /// Users who may do what root may.
        admins: BTreeSet<String> = BTreeSet::new(), "list of user names";
        /// Requests that are worked on at once; more wait.
        requests_max: u32 = 512, "number", restart;
        /// A request that takes longer is given up (waits and event streams excepted).
        request_timeout: Duration = Duration(30), "duration", restart;
        /// The program that sends mail about jobs, called as `PROGRAM -s SUBJECT ADDRESS` with the
        /// text as its input; without it `/usr/bin/mail` where that is there.
        mail_program: Option<PathBuf> = None, "path", restart;
        /// Where the report of each job that ran is posted as JSON when it ends, by `curl`.
        report_webhook: Option<WebAddress> = None, "web address", restart;
        /// How often running jobs are looked at for `muster job JOB --diagnose` and `--report`; 0 for never. Without
        /// running jobs the machine is looked at once a minute, for its history; with 0 not even that.
        watch_period: Duration = Duration(30), "duration";
        /// Look at this machine every minute, and drain its nodes where a GPU reports an Xid that demands it or asks
        /// for recovery or is lost, where a link flaps, or where the disk with the state directory is full.
        health_drain: bool = false, "true or false";
        /// What becomes of a running job all of whose GPUs do nothing: `off`, `notify` (its owner is told), `requeue`
        /// (told, then put back in the queue and held; cancelled where it may not be put back) or `cancel`.
        idle_gpus: IdleGpusWord = IdleGpusWord::Off, "word";
        /// How long they must have done nothing, measured without a gap, before its owner is told; at least 10 minutes
        /// and ten times `watch_period`.
        idle_gpus_after: Duration = Duration(30 * 60), "duration";
        /// How long they must go on doing nothing after that before they are taken back.
        idle_gpus_grace: Duration = Duration(15 * 60), "duration";
        /// Commands that may wait for the writer; more are refused with "busy".
        commands_max: u32 = 16_384, "number", restart;
    }
}

/// What becomes of a running job whose GPUs do nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleGpusWord {
    /// Nothing.
    #[default]
    Off,
    /// Its owner is told.
    Notify,
    /// Told, then put back in the queue and held.
    Requeue,
    /// Told, then cancelled.
    Cancel,
}

section! {
    /// The engine that runs jobs on this machine.
    one "local" Local {
        /// Dresses this machine up as several nodes with invented GPUs: `NODESxGPUS`.
        practice: Option<Practice> = None, "text such as 4x8", restart;
        /// Use cgroups where they can be used; without them limits are not enforced.
        cgroups: bool = true, "true or false", restart;
    }
}

section! {
    /// What practice nodes are made of. They are used where `nodes` is set here, or
    /// `practice` in `[local]`, or with `muster up --practice`.
    one "practice" PracticeSection {
        /// How many nodes.
        nodes: Option<u32> = None, "number", restart;
        /// Invented GPUs on each.
        gpus: u32 = 8, "number", restart;
        /// CPUs of each; without it eight for each GPU, and sixteen at the least.
        cpus: Option<u32> = None, "number", restart;
        /// Memory of each; without it 64G for each GPU, and 128G at the least.
        memory: Option<Size> = None, "size", restart;
        /// The GPUs' model, as in `--gpus=h100:2`.
        gpu_model: String = "h100".to_owned(), "word", restart;
        /// Memory of each GPU.
        gpu_memory: Size = Size(80 * 1024), "size", restart;
    }
}

impl PracticeSection {
    /// How many nodes of how many GPUs, where it says that there are any.
    pub fn size(&self) -> Option<Practice> {
        self.nodes.map(|nodes| Practice { nodes, gpus: self.gpus })
    }
}

section! {
    /// How jobs are scheduled.
    one "policy" PolicySection {
        /// The order of waiting jobs of one partition tier and priority: `slowdown` (those likely to
        /// be short by their user's last runs, and small, come first, until somebody has waited too
        /// long), `fifo` (as they were submitted), or `multifactor` (see `[priority]`).
        order: OrderMode = OrderMode::Slowdown, "word";
        /// Under `slowdown`, who has waited more than so many thousandths of the longest wait on
        /// record comes first, in order of waiting; so does who would be there, by its likely run
        /// time, for more than so many thousandths of the longest stay.
        guard_first: u32 = 400, "number";
        /// Under `slowdown`, who has waited more than so many thousandths of the longest wait on
        /// record is promised a start.
        guard_promise: u32 = 600, "number";
        /// Under `slowdown`, waits are forgotten after so long, at the latest after twice that.
        guard_memory: Duration = Duration(365 * 86_400), "duration";
        /// Whether later jobs may start before earlier ones: `none`, `easy` (the first waiting job
        /// of a partition is never delayed), `conservative` (no waiting job is), or `mixed` (none
        /// within the bounds below is).
        backfill: BackfillMode = BackfillMode::Easy, "word";
        /// In which order jobs are tried behind the first one under `easy`: `queue`, or `shortest`
        /// (those expected to run shortest).
        backfill_order: BackfillOrder = BackfillOrder::Queue, "word";
        /// What jobs are expected to run: `limit` (what they asked for), or `recent` (the mean of
        /// their user's last two run times).
        run_time: RunTimeSource = RunTimeSource::Limit, "word";
        /// What becomes of an expectation that its job outlives: `limit`, `double` or `steps` (it
        /// grows by longer and longer steps).
        run_time_correction: RunTimeCorrection = RunTimeCorrection::Limit, "word";
        /// What promises rest on: `limits` (they are never late), or `estimates` (they are nearer
        /// to what comes). Where there are reservations it is always limits.
        run_time_promises: PromiseBasis = PromiseBasis::Limits, "word";
        /// Under `conservative` and `mixed`, at most so many jobs are promised a start.
        backfill_depth: u32 = 1000, "number";
        /// Under `easy`, but not in the order `slowdown`, who has waited so many thousandths as long as
        /// the first job is promised a start too; 900 keeps the longest wait down.
        backfill_by_wait: Option<u32> = None, "number";
        /// Under `mixed`, at most so many jobs of a partition are promised a start.
        backfill_per_partition: Option<u32> = None, "number";
        /// Under `mixed`, at most so many jobs of a user are promised a start.
        backfill_per_user: Option<u32> = None, "number";
        /// Under `mixed`, at most so many jobs of an account are promised a start.
        backfill_per_account: Option<u32> = None, "number";
        /// Under `mixed`, no start later than this from now is promised.
        backfill_window: Option<Duration> = None, "duration";
        /// Which of the fitting nodes is taken: `pack` (the fullest), `spread` (the emptiest) or
        /// `least_waste` (where the fewest GPUs become useless to others).
        nodes: NodeChoice = NodeChoice::Pack, "word";
        /// Time between the polite and the final signal (Slurm's `KillWait`).
        kill_wait: Duration = Duration(30), "duration";
        /// Ended jobs stay in the live list so long (Slurm's `MinJobAge`).
        min_job_age: Duration = Duration(300), "duration";
        /// The largest array index plus one (Slurm's `MaxArraySize`).
        max_array_size: u32 = 100_001, "number";
        /// At most so many unfinished jobs (Slurm's `MaxJobCount`).
        max_job_count: u32 = 1_000_000, "number";
        /// A job above a partition's limits is refused at submission, in place of waiting for ever
        /// (Slurm's `EnforcePartLimits`).
        enforce_partition_limits: bool = false, "true or false";
        /// Jobs whose dependency can never be met are cancelled (`kill_invalid_depend`).
        kill_invalid_dependency: bool = false, "true or false";
        /// Jobs may be requeued unless they say otherwise (Slurm's `JobRequeue`).
        requeue: bool = true, "true or false";
        /// A job that cannot be launched, or loses its node, starts again at most so often.
        max_restarts: u32 = 10, "number";
        /// A request for a part of a GPU may get a whole one where no part is free.
        gpu_whole_for_parts: bool = false, "true or false";
        /// A request that says only how much GPU memory it needs may get a part of a GPU.
        gpu_memory_is_part: bool = false, "true or false";
        /// CPUs that jobs here typically ask for with each GPU: what `nodes = "least_waste"` measures
        /// by. Without it, what the cluster has for each of its GPUs.
        gpu_typical_cpus: Option<u32> = None, "number";
        /// Memory that jobs here typically ask for with each GPU, as `gpu_typical_cpus`.
        gpu_typical_memory: Option<Size> = None, "size";
        /// A job waits at most so long for few switches (Slurm's `max_switch_wait`).
        max_switch_wait: Duration = Duration(300), "duration";
        /// Jobs that share CPUs or GPUs take turns of this length (Slurm's `SchedulerTimeSlice`).
        time_slice: Duration = Duration(30), "duration";
    }
}

section! {
    /// A set of nodes that jobs are submitted to. Without any there is one, `main`, of all nodes.
    many "partition" PartitionSection {
        /// Its name.
        name: String = String::new(), "text, required";
        /// Its nodes as host lists, `["gpu[1-4]"]`; `["all"]` is every node.
        nodes: Vec<String> = vec!["all".to_owned()], "list of host lists";
        /// Jobs that name no partition go here.
        default: bool = false, "true or false";
        /// Whether it takes and starts jobs: `up`, `down` (takes), `drain` (starts), `inactive`.
        state: PartitionWord = PartitionWord::Up, "word";
        /// No job may ask for more.
        max_time: Limit = Limit(None), "duration or unlimited";
        /// For jobs that name no limit; without it `max_time`.
        default_time: Option<Limit> = None, "duration or unlimited";
        /// At most so many nodes a job.
        max_nodes: Option<u32> = None, "number";
        /// At least so many nodes a job.
        min_nodes: u32 = 0, "number";
        /// Memory for each CPU where a job names none.
        default_memory_per_cpu: Option<Size> = None, "size";
        /// Memory for each node where a job names none. Without both, a job gets the share of the
        /// node's memory that its CPUs are of the node's.
        default_memory_per_node: Option<Size> = None, "size";
        /// A job that asks for more memory a CPU gets more CPUs instead.
        max_memory_per_cpu: Option<Size> = None, "size";
        /// Higher tiers are considered first.
        tier: u32 = 1, "number";
        /// Added to the priority of its jobs.
        priority: u32 = 0, "number";
        /// Only these accounts may use it; empty is all.
        allow_accounts: BTreeSet<String> = BTreeSet::new(), "list of accounts";
        /// What a preempted job has between the polite and the final signal, in place of the policy's wait.
        grace: Option<Duration> = None, "duration";
        /// How its jobs make room for others, in place of `[preemption]`: `off`, `cancel`,
        /// `requeue`, `checkpoint`, `suspend`.
        preempt_mode: Option<PreemptMode> = None, "word";
        /// Its jobs are not preempted before they have run so long.
        preempt_exempt: Option<Duration> = None, "duration";
        /// So many of its jobs may have the same CPU or GPU and take turns on it, while the memory
        /// of all of them fits (`OverSubscribe=FORCE:n` with `PreemptMode=GANG`); 1: nobody shares.
        sharers: u32 = 1, "number";
        /// The QOS whose limits hold for its jobs, too.
        qos: Option<String> = None, "text";
        /// What its jobs are billed for (`TRESBillingWeights`); without it their CPUs.
        billing: Option<Billing> = None, "text such as cpu=1.0,mem=0.25G,gres/gpu=4";
    }
}

/// A section with its own keys and, after them, every limit of an association.
macro_rules! limited_section {
    ($(#[doc = $doc:literal])* many $title:literal $name:ident { $($own:tt)* }) => {
        section! {
            $(#[doc = $doc])*
            many $title $name {
                $($own)*
                /// Jobs that run at once, with all beneath (`GrpJobs`).
                grp_jobs: Option<u32> = None, "number";
                /// Jobs that wait or run (`GrpSubmitJobs`).
                grp_submit_jobs: Option<u32> = None, "number";
                /// Resources in use at once (`GrpTRES`).
                grp_tres: Option<Amounts> = None, "text such as cpu=8,mem=64G,gres/gpu=4";
                /// Resource minutes, used and to be used by what runs (`GrpTRESMins`).
                grp_tres_mins: Option<Amounts> = None, "text such as cpu=6000,gres/gpu=600";
                /// Resource minutes that running jobs may still use (`GrpTRESRunMins`).
                grp_tres_run_mins: Option<Amounts> = None, "text such as cpu=6000";
                /// Wall clock time used (`GrpWall`).
                grp_wall: Option<Duration> = None, "duration";
                /// Jobs that each user runs at once (`MaxJobs`).
                max_jobs: Option<u32> = None, "number";
                /// Jobs that each user has waiting or running (`MaxSubmitJobs`).
                max_submit_jobs: Option<u32> = None, "number";
                /// Resources of each job (`MaxTRES`).
                max_tres: Option<Amounts> = None, "text such as cpu=8,gres/gpu=4";
                /// Resources of each job on each node (`MaxTRESPerNode`).
                max_tres_per_node: Option<Amounts> = None, "text such as gres/gpu=2";
                /// Resource minutes of each job (`MaxTRESMins`).
                max_tres_mins: Option<Amounts> = None, "text such as cpu=6000";
                /// The longest time limit (`MaxWall`).
                max_wall: Option<Duration> = None, "duration";
            }
        }
    };
}

limited_section! {
    /// An account that jobs are charged to. `default` is always there.
    many "account" AccountSection {
        /// Its name.
        name: String = String::new(), "text, required";
        /// The account above it.
        parent: Option<String> = None, "text";
        /// Who may use it; without it everybody.
        users: Option<BTreeSet<String>> = None, "list of user names";
        /// Users for whom it is the account of jobs that name none.
        default_for: BTreeSet<String> = BTreeSet::new(), "list of user names";
        /// What it and the accounts below it can always have: `{ gpus = 8 }`. What they use
        /// beyond is borrowed and may be reclaimed.
        guarantee: Option<QuotaWords> = None, "table of cpus, gpus, memory";
        /// Its fair share among its siblings; `parent` makes no difference beneath it.
        shares: ShareWord = ShareWord::default(), "number or parent";
        /// What its jobs get of the association factor; without it what the account above says.
        priority: Option<u32> = None, "number";
    }
}

limited_section! {
    /// A user in an account: shares and limits of their own.
    many "association" AssociationSection {
        /// The account.
        account: String = String::new(), "text, required";
        /// The user.
        user: String = String::new(), "text, required";
        /// The user's fair share among those of the account.
        shares: ShareWord = ShareWord::default(), "number or parent";
        /// What the user's jobs get of the association factor; without it what the account says.
        priority: Option<u32> = None, "number";
    }
}

section! {
    /// What makes jobs important under `order = "multifactor"`, and how use is counted (Slurm's
    /// `Priority*`).
    one "priority" PrioritySection {
        /// What the time since a job is free to start counts for, at most.
        age: u32 = 0, "number";
        /// What its association's priority against the highest counts for (`PriorityWeightAssoc`).
        association: u32 = 0, "number";
        /// What its user's and account's use against their shares counts for.
        fair_share: u32 = 0, "number";
        /// What its size counts for.
        job_size: u32 = 0, "number";
        /// What its partition's priority against the highest counts for.
        partition: u32 = 0, "number";
        /// What its QOS's priority against the highest counts for.
        qos: u32 = 0, "number";
        /// What it asks for of a resource against what its partition has counts for.
        tres: Option<TresWeights> = None, "text such as cpu=1000,gres/gpu=5000";
        /// The age factor is whole after so long (`PriorityMaxAge`).
        max_age: Duration = Duration(7 * 86_400), "duration";
        /// Age counts from submission, also while a job is held or depends on others
        /// (`ACCRUE_ALWAYS`).
        accrue_always: bool = false, "true or false";
        /// Small jobs come first (`PriorityFavorSmall`).
        favour_small: bool = false, "true or false";
        /// Size is nodes or CPUs over the time limit (`SMALL_RELATIVE_TO_TIME`).
        size_over_time: bool = false, "true or false";
        /// How fair share is worked out: `tree` (fair tree) or `classic`.
        fair_share_algorithm: FairShareMode = FairShareMode::Tree, "word";
        /// Softens the classic fair share (`FairShareDampeningFactor`).
        dampening: u32 = 1, "number";
        /// Use counts half after so long (`PriorityDecayHalfLife`); `unlimited` does not decay.
        half_life: Limit = Limit(Some(Duration(7 * 86_400))), "duration or unlimited";
        /// When all use is cleared: `never`, `daily`, `weekly`, `monthly`, `quarterly`, `yearly`.
        usage_reset: UsageReset = UsageReset::Never, "word";
        /// How billed parts become one number: `sum`, `max` (`MAX_TRES`), `max_gres`
        /// (`MAX_TRES_GRES`).
        billing: BillingMode = BillingMode::Sum, "word";
    }
}

section! {
    /// A quality of service. `normal` is always there.
    many "qos" QosSection {
        /// Its name.
        name: String = String::new(), "text, required";
        /// Added to the priority of its jobs.
        priority: u32 = 0, "number";
        /// Its jobs may preempt those of these (Slurm's `Preempt`).
        preempts: BTreeSet<String> = BTreeSet::new(), "list of qos names";
        /// How its own jobs make room: `off`, `cancel`, `requeue`, `checkpoint`, `suspend`; it
        /// comes before the partition's and `[preemption]`.
        preempt_mode: Option<PreemptMode> = None, "word";
        /// Time between the polite and the final signal of a preempted job (Slurm's `GraceTime`).
        preempt_grace: Option<Duration> = None, "duration";
        /// Its jobs are not preempted before they have run so long (Slurm's `PreemptExemptTime`).
        preempt_exempt: Option<Duration> = None, "duration";
        /// Jobs that run at once, with all beneath (`GrpJobs`).
        grp_jobs: Option<u32> = None, "number";
        /// Jobs that wait or run (`GrpSubmitJobs`).
        grp_submit_jobs: Option<u32> = None, "number";
        /// Resources in use at once (`GrpTRES`).
        grp_tres: Option<Amounts> = None, "text such as cpu=8,mem=64G,gres/gpu=4";
        /// Resource minutes, used and to be used by what runs (`GrpTRESMins`).
        grp_tres_mins: Option<Amounts> = None, "text such as cpu=6000,gres/gpu=600";
        /// Resource minutes that running jobs may still use (`GrpTRESRunMins`).
        grp_tres_run_mins: Option<Amounts> = None, "text such as cpu=6000";
        /// Wall clock time used (`GrpWall`).
        grp_wall: Option<Duration> = None, "duration";
        /// Jobs that each user runs at once (`MaxJobsPerUser`).
        max_jobs_per_user: Option<u32> = None, "number";
        /// Jobs that each account runs at once (`MaxJobsPerAccount`).
        max_jobs_per_account: Option<u32> = None, "number";
        /// Jobs that each user has waiting or running (`MaxSubmitJobsPerUser`).
        max_submit_jobs_per_user: Option<u32> = None, "number";
        /// Jobs that each account has waiting or running (`MaxSubmitJobsPerAccount`).
        max_submit_jobs_per_account: Option<u32> = None, "number";
        /// Resources of each user at once (`MaxTRESPerUser`).
        max_tres_per_user: Option<Amounts> = None, "text such as gres/gpu=4";
        /// Resources of each account at once (`MaxTRESPerAccount`).
        max_tres_per_account: Option<Amounts> = None, "text such as gres/gpu=16";
        /// Resources of each job (`MaxTRESPerJob`).
        max_tres_per_job: Option<Amounts> = None, "text such as cpu=8,gres/gpu=4";
        /// Resources of each job on each node (`MaxTRESPerNode`).
        max_tres_per_node: Option<Amounts> = None, "text such as gres/gpu=2";
        /// Resource minutes of each job (`MaxTRESMinsPerJob`).
        max_tres_mins_per_job: Option<Amounts> = None, "text such as cpu=6000";
        /// The longest time limit (`MaxWall`).
        max_wall: Option<Duration> = None, "duration";
        /// The least that each job asks for (`MinTRESPerJob`).
        min_tres_per_job: Option<Amounts> = None, "text such as gres/gpu=1";
        /// Jobs with a lower priority are promised no start (`MinPrioThreshold`).
        min_prio_threshold: Option<u32> = None, "number";
        /// Use counts so often (`UsageFactor`).
        usage_factor: Option<Factor> = None, "number such as 1.5";
        /// `DenyOnLimit`, `NoDecay`, `OverPartQOS`, `PartitionTimeLimit`, `UsageFactorSafe`.
        flags: BTreeSet<QosFlag> = BTreeSet::new(), "list of flags";
    }
}

section! {
    /// A number of things that jobs share over the whole cluster.
    many "licence" LicenceSection {
        /// Its name.
        name: String = String::new(), "text, required";
        /// How many there are.
        total: u32 = 0, "number, required";
    }
}

section! {
    /// What is added to what an engine says of nodes.
    many "node" NodeSection {
        /// The nodes as a host list: `gpu[1-4]`.
        name: String = String::new(), "host list, required";
        /// Feature names for `--constraint`.
        features: BTreeSet<String> = BTreeSet::new(), "list of texts";
        /// Lower is chosen first.
        weight: u32 = 0, "number";
        /// The switches above it, the leaf first.
        switches: Vec<String> = Vec::new(), "list of texts";
        /// Labels for `--affinity`: `{ zone = "a" }`.
        labels: BTreeMap<String, String> = BTreeMap::new(), "table of texts";
        /// Marks that keep jobs away: `["gpu=h100:NoSchedule"]`.
        taints: Vec<String> = Vec::new(), "list of texts";
        /// Other countable resources: `{ shard = 8 }`.
        gres: BTreeMap<String, u64> = BTreeMap::new(), "table of numbers";
    }
}

/// Whether a partition takes and starts jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionWord {
    /// Takes and starts jobs.
    #[default]
    Up,
    /// Takes jobs, starts none.
    Down,
    /// Starts jobs, takes none.
    Drain,
    /// Neither.
    Inactive,
}

impl From<PartitionWord> for PartitionState {
    fn from(word: PartitionWord) -> Self {
        match word {
            PartitionWord::Up => Self::Up,
            PartitionWord::Down => Self::Down,
            PartitionWord::Drain => Self::Drain,
            PartitionWord::Inactive => Self::Inactive,
        }
    }
}

impl Config {
    /// The defaults, with one of each section that may be there several times.
    pub(crate) fn one_of_each() -> Self {
        Self {
            level: vec![LevelSection::default()],
            domain: vec![DomainSection::default()],
            partition: vec![PartitionSection::default()],
            account: vec![AccountSection::default()],
            association: vec![AssociationSection::default()],
            qos: vec![QosSection::default()],
            licence: vec![LicenceSection::default()],
            reservation: vec![ReservationSection::default()],
            gpu: vec![GpuSection::default()],
            node: vec![NodeSection::default()],
            ..Self::default()
        }
    }

    /// Every section, in the order of the reference.
    pub const SECTIONS: &'static [crate::Section] = &[
        Cluster::SECTION,
        Daemon::SECTION,
        Local::SECTION,
        PracticeSection::SECTION,
        SlurmSection::SECTION,
        KubernetesSection::SECTION,
        OtlpSection::SECTION,
        PolicySection::SECTION,
        PrioritySection::SECTION,
        PreemptionSection::SECTION,
        TopologySection::SECTION,
        LevelSection::SECTION,
        DomainSection::SECTION,
        PartitionSection::SECTION,
        AccountSection::SECTION,
        AssociationSection::SECTION,
        QosSection::SECTION,
        LicenceSection::SECTION,
        FilesystemSection::SECTION,
        ReservationSection::SECTION,
        GpuSection::SECTION,
        NodeSection::SECTION,
    ];
}
