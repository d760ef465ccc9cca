//! Multifactor priority: what makes one job more important than another, as numbers that add up.
//!
//! The formula is Slurm's (multifactor priority page):
//!
//! ```text
//! priority = site factor + age + association + fair share + job size + partition + QOS + TRES… − nice
//! ```
//! A factor is a part of one in billionths ([`WHOLE`]); its term is the factor times its weight, cut
//! to a whole number. The priority is the sum of the terms, so what a view shows adds up exactly. A
//! priority set by hand stands in place of all of it.

use crate::tres::BillingMode;
use crate::usage::UsageReset as Reset;
use crate::{FairShare, Job, MemoryRequest, Seconds, State, Timestamp, Tres, TresKind, is_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

pub use crate::usage::UsageReset;

/// One, as factors are counted: a billion.
pub const WHOLE: u64 = 1_000_000_000;

/// What makes a job important, and how use is counted (slurm.conf manual, `Priority*`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PriorityPolicy {
    /// What each factor counts for.
    #[serde(skip_serializing_if = "is_default")]
    pub weights: Weights,
    /// The age factor is whole after so long (`PriorityMaxAge`).
    pub max_age: Seconds,
    /// Age counts from submission, also while a job is not free to start (`ACCRUE_ALWAYS`).
    #[serde(skip_serializing_if = "is_default")]
    pub accrue_always: bool,
    /// Small jobs have the larger size factor (`PriorityFavorSmall`).
    #[serde(skip_serializing_if = "is_default")]
    pub favour_small: bool,
    /// Size is that of nodes or CPUs over the time limit (`SMALL_RELATIVE_TO_TIME`).
    #[serde(skip_serializing_if = "is_default")]
    pub size_over_time: bool,
    /// How fair share is worked out.
    #[serde(skip_serializing_if = "is_default")]
    pub fair_share: FairShareMode,
    /// Softens the classic fair share (`FairShareDampeningFactor`), at least one.
    pub dampening: u32,
    /// Use counts half after so long (`PriorityDecayHalfLife`); `None` does not decay.
    pub half_life: Option<Seconds>,
    /// When all use is cleared.
    #[serde(skip_serializing_if = "is_default")]
    pub usage_reset: Reset,
    /// How what is billed becomes one number.
    #[serde(skip_serializing_if = "is_default")]
    pub billing: BillingMode,
}

/// What each factor counts for (slurm.conf manual, `PriorityWeight*`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Weights {
    /// The time since it is free to start.
    #[serde(skip_serializing_if = "is_default")]
    pub age: u32,
    /// What its association is given, against the highest.
    #[serde(skip_serializing_if = "is_default")]
    pub association: u32,
    /// What its user and account used, against their shares.
    #[serde(skip_serializing_if = "is_default")]
    pub fair_share: u32,
    /// How large it is.
    #[serde(skip_serializing_if = "is_default")]
    pub job_size: u32,
    /// Its partition's priority, against the highest.
    #[serde(skip_serializing_if = "is_default")]
    pub partition: u32,
    /// Its QOS's priority, against the highest.
    #[serde(skip_serializing_if = "is_default")]
    pub qos: u32,
    /// What it asks for of a resource, against what the partition has.
    #[serde(skip_serializing_if = "is_default")]
    pub tres: BTreeMap<TresKind, u32>,
}

/// The algorithm of fair share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FairShareMode {
    /// Fair tree: users are ranked, accounts before the users in them.
    #[default]
    Tree,
    /// `2^(-usage/shares)`.
    Classic,
}

impl Default for PriorityPolicy {
    fn default() -> Self {
        const WEEK: Seconds = Seconds(7 * 86_400);
        Self {
            weights: Weights::default(),
            max_age: WEEK,
            accrue_always: false,
            favour_small: false,
            size_over_time: false,
            fair_share: FairShareMode::Tree,
            dampening: 1,
            half_life: Some(WEEK),
            usage_reset: Reset::Never,
            billing: BillingMode::Sum,
        }
    }
}

impl Weights {
    /// The highest sum that factors can come to.
    pub fn sum(&self) -> u64 {
        let named =
            [self.age, self.association, self.fair_share, self.job_size, self.partition, self.qos];
        named.into_iter().chain(self.tres.values().copied()).map(u64::from).sum()
    }
}

/// A job's factors in billionths, and the terms that they come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Factors {
    /// The priority set by hand, in place of the rest.
    pub by_hand: Option<u32>,
    /// Added by the site.
    pub site: i64,
    /// Age: factor and term.
    pub age: (u64, i64),
    /// Association: factor and term.
    pub association: (u64, i64),
    /// Fair share: factor and term.
    pub fair_share: (u64, i64),
    /// Size: factor and term.
    pub job_size: (u64, i64),
    /// Partition: factor and term.
    pub partition: (u64, i64),
    /// QOS: factor and term.
    pub qos: (u64, i64),
    /// Each weighted resource: factor and term.
    pub tres: BTreeMap<TresKind, (u64, i64)>,
    /// Taken away.
    pub nice: i64,
}

impl Factors {
    /// The priority: the sum of all terms, or the one set by hand.
    pub fn sum(&self) -> i64 {
        self.steady().with(self.age.1, self.fair_share.1)
    }

    /// The part of it that neither time nor use changes.
    fn steady(&self) -> Steady {
        if let Some(by_hand) = self.by_hand {
            return Steady::ByHand(by_hand);
        }
        let terms = [self.site, self.association.1, self.job_size.1, self.partition.1, self.qos.1];
        let all = terms.into_iter().chain(self.tres.values().map(|(_, term)| *term));
        Steady::Sum(all.map(i128::from).sum::<i128>() - i128::from(self.nice))
    }
}

/// What of a job's priority stays as it is while rules, nodes and the job do: all but age and fair
/// share. Whoever orders many jobs again and again keeps it for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steady {
    /// It is set by hand, whatever else there is.
    ByHand(u32),
    /// The sum of the other terms.
    Sum(i128),
}

impl Steady {
    /// The priority with the terms of age and fair share; as much of it as there are numbers for.
    pub fn with(self, age: i64, fair_share: i64) -> i64 {
        match self {
            Self::ByHand(priority) => i64::from(priority),
            Self::Sum(sum) => {
                let sum = sum + i128::from(age) + i128::from(fair_share);
                i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
            }
        }
    }
}

/// What the nodes have, all of them and those of each partition: what sizes are parts of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    cluster: Tres,
    /// Empty where no resource has a weight.
    partitions: BTreeMap<String, Tres>,
}

impl Capacity {
    /// Costs a look at each node.
    pub fn of(state: &State) -> Self {
        let weighs = !state.policy.priority.weights.tres.is_empty();
        let partitions = state.partitions.values().filter(|_| weighs);
        Self {
            cluster: capacity(state.nodes.values()),
            partitions: partitions
                .map(|p| (p.name.clone(), capacity(state.partition_nodes(p))))
                .collect(),
        }
    }

    /// True where a node that becomes another changes it.
    pub fn differs(before: &crate::Node, after: &crate::Node) -> bool {
        let models = |node: &crate::Node| -> Vec<String> {
            node.devices.iter().map(|device| device.model.clone()).collect()
        };
        before.cpu_count() != after.cpu_count()
            || before.memory != after.memory
            || before.gres != after.gres
            || models(before) != models(after)
    }

    /// How much there is of a kind.
    pub fn get(&self, kind: &TresKind) -> u64 {
        self.cluster.get(kind)
    }
}

/// What the priorities of all jobs rest on at one instant.
///
/// Made once for an instant (associations × log associations + nodes), then each job costs the
/// number of its partitions.
#[derive(Clone, Debug)]
pub struct Priorities<'a> {
    state: &'a State,
    now: Timestamp,
    shares: Arc<FairShare>,
    highest_partition: u32,
    highest_qos: u32,
    highest_association: u32,
    capacity: Arc<Capacity>,
}

impl<'a> Priorities<'a> {
    /// Prepares them.
    pub fn new(state: &'a State, now: Timestamp) -> Self {
        Self::with(state, now, Arc::new(Capacity::of(state)))
    }

    /// Prepares them, given what the nodes have.
    pub fn with(state: &'a State, now: Timestamp, capacity: Arc<Capacity>) -> Self {
        let counts = state.policy.priority.weights.fair_share > 0;
        let shares = if counts { FairShare::new(state, now) } else { FairShare::default() };
        Self { shares: Arc::new(shares), ..Self::without_use(state, now, capacity) }
    }

    /// Prepares all but fair share, which counts as if nobody had a share.
    pub fn without_use(state: &'a State, now: Timestamp, capacity: Arc<Capacity>) -> Self {
        Self {
            state,
            now,
            shares: Arc::default(),
            highest_partition: state.partitions.values().map(|p| p.priority).max().unwrap_or(0),
            highest_qos: state.qos.values().map(|q| q.priority).max().unwrap_or(0),
            highest_association: state
                .accounts
                .values()
                .flat_map(|account| account.priorities())
                .max()
                .unwrap_or(0),
            capacity,
        }
    }

    /// The priority that orders a job.
    pub fn of(&self, job: &Job) -> i64 {
        self.factors(job).sum()
    }

    /// What of it stays as it is while rules, nodes and the job do.
    pub fn steady(&self, job: &Job) -> Steady {
        self.factors(job).steady()
    }

    /// The term of age of a job whose age counts from an instant.
    pub fn age_term(&self, since: Timestamp) -> i64 {
        term(self.age(since), self.state.policy.priority.weights.age).1
    }

    /// The term of fair share of a user in an account.
    pub fn fair_share_term(&self, account: &str, user: &str) -> i64 {
        let weight = self.state.policy.priority.weights.fair_share;
        term(self.shares.factor(account, user), weight).1
    }

    /// A job's factors and terms.
    pub fn factors(&self, job: &Job) -> Factors {
        let spec = &job.spec;
        if spec.priority.is_some() {
            return Factors { by_hand: spec.priority, ..Factors::default() };
        }
        let weights = &self.state.policy.priority.weights;
        let of_partitions =
            spec.partitions.iter().filter_map(|name| self.state.partitions.get(name));
        let partition = of_partitions.map(|p| p.priority).max().unwrap_or(0);
        let qos = self.state.qos.get(&spec.qos).map_or(0, |qos| qos.priority);
        let association = match weights.association {
            0 => 0,
            _ => self.state.association_priority(&spec.account, &spec.owner.user),
        };
        Factors {
            by_hand: None,
            site: spec.site_factor,
            age: term(self.age(Self::since(self.state, job)), weights.age),
            association: term(part(association, self.highest_association), weights.association),
            fair_share: term(
                self.shares.factor(&spec.account, &spec.owner.user),
                weights.fair_share,
            ),
            job_size: term(self.size(job), weights.job_size),
            partition: term(part(partition, self.highest_partition), weights.partition),
            qos: term(part(qos, self.highest_qos), weights.qos),
            tres: self.tres(job),
            nice: spec.nice,
        }
    }

    /// The instant from which a job's age counts.
    pub fn since(state: &State, job: &Job) -> Timestamp {
        match job.eligible {
            Some(at) if !state.policy.priority.accrue_always => at,
            None if !state.policy.priority.accrue_always => Timestamp::NEVER,
            _ => job.submitted,
        }
    }

    fn age(&self, since: Timestamp) -> u64 {
        let waited = self.now.millis().saturating_sub(since.millis());
        let waited = u64::try_from(waited).unwrap_or(0);
        let most = self.state.policy.priority.max_age.0.saturating_mul(1000).max(1);
        fraction(waited, most)
    }

    fn size(&self, job: &Job) -> u64 {
        let policy = &self.state.policy.priority;
        let nodes = u64::from(job.spec.request.nodes_min());
        let cpus = least(&job.spec.request).get(&TresKind::Cpu);
        let (all_nodes, all_cpus) =
            (self.capacity.get(&TresKind::Node), self.capacity.get(&TresKind::Cpu));
        if policy.size_over_time {
            let minutes = job.time_limit.seconds().map_or(u64::MAX, |s| (s.0 / 60).max(1));
            // CPUs of so many average nodes, or those asked for; over minutes, against all CPUs.
            let by_nodes = fraction(nodes, all_nodes);
            let size = by_nodes.max(fraction(cpus, all_cpus)) / minutes;
            return if policy.favour_small { WHOLE - size } else { size };
        }
        let large = u64::midpoint(fraction(nodes, all_nodes), fraction(cpus, all_cpus));
        if policy.favour_small { WHOLE - large } else { large }
    }

    fn tres(&self, job: &Job) -> BTreeMap<TresKind, (u64, i64)> {
        let weights = &self.state.policy.priority.weights.tres;
        if weights.is_empty() {
            return BTreeMap::new();
        }
        let asked = least(&job.spec.request);
        let of = job.spec.partitions.iter().find_map(|name| self.capacity.partitions.get(name));
        let of = |kind: &TresKind| of.map_or(0, |all| all.get(kind));
        let factor = |kind: &TresKind| fraction(asked.get(kind), of(kind));
        weights.iter().map(|(kind, weight)| (kind.clone(), term(factor(kind), *weight))).collect()
    }
}

/// A factor with what it comes to at a weight.
fn term(factor: u64, weight: u32) -> (u64, i64) {
    (factor, (u128::from(factor) * u128::from(weight) / u128::from(WHOLE)) as i64)
}

/// `part` of `whole` in billionths, at most one; zero of nothing.
fn fraction(part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    let scaled = u128::from(part.min(whole)) * u128::from(WHOLE) / u128::from(whole);
    scaled as u64
}

fn part(of: u32, highest: u32) -> u64 {
    fraction(u64::from(of), u64::from(highest))
}

/// What nodes have.
fn capacity<'a>(nodes: impl Iterator<Item = &'a Arc<crate::Node>>) -> Tres {
    let mut all = Tres::default();
    for node in nodes {
        all.put(TresKind::Node, 1);
        all.put(TresKind::Cpu, u64::from(node.cpu_count()));
        all.put(TresKind::Mem, node.memory.0);
        all.put(TresKind::Gpu(None), node.devices.len() as u64);
        for device in node.devices.iter().filter(|device| !device.model.is_empty()) {
            all.put(TresKind::Gpu(Some(device.model.to_ascii_lowercase())), 1);
        }
        for (name, count) in &node.gres {
            all.put(TresKind::Gres(name.clone()), *count);
        }
    }
    all
}

/// The least that a request comes to on the fewest nodes it allows; memory only where it says how
/// much, nothing is billed.
pub fn least(request: &crate::Request) -> Tres {
    use crate::GpuScope;
    let nodes = request.nodes_min();
    let tasks = request.tasks_on(nodes);
    let mut tres = Tres::default();
    let mut gpus = 0u64;
    for count in &request.gpus {
        let times = match count.scope {
            GpuScope::Job => 1,
            GpuScope::Node | GpuScope::Socket => nodes,
            GpuScope::Task => tasks,
        };
        let number = u64::from(count.count) * u64::from(times);
        gpus = gpus.saturating_add(number);
        if let Some(model) = &count.model {
            tres.put(TresKind::Gpu(Some(model.to_ascii_lowercase())), number);
        }
    }
    let cpus = (u64::from(tasks) * u64::from(request.cpus_per_task()))
        .max(gpus * u64::from(request.cpus_per_gpu.unwrap_or(0)))
        .max(u64::from(nodes) * u64::from(request.cpus_per_node_min.unwrap_or(0)));
    tres.put(TresKind::Cpu, cpus);
    tres.put(TresKind::Node, u64::from(nodes));
    tres.put(TresKind::Gpu(None), gpus);
    tres.put(
        TresKind::Mem,
        match request.memory {
            MemoryRequest::Default | MemoryRequest::WholeNode => 0,
            MemoryRequest::PerNode(mib) => mib.times(u64::from(nodes)).0,
            MemoryRequest::PerCpu(mib) => mib.times(cpus).0,
            MemoryRequest::PerGpu(mib) => mib.times(gpus).0,
        },
    );
    for (name, count) in &request.gres {
        tres.put(TresKind::Gres(name.clone()), count.saturating_mul(u64::from(nodes)));
    }
    for licence in &request.licences {
        tres.put(TresKind::Licence(licence.name.clone()), u64::from(licence.count));
    }
    tres
}
