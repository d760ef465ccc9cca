//! Limits of associations and qualities of service.
//!
//! # Whose limit counts
//! Slurm's order of precedence (resource limits page): the partition's QOS, the job's QOS, the
//! user's association, the account's, and the accounts above it. With the flag `OverPartQOS` the
//! job's QOS goes first. A limit that a QOS sets stands in place of the same limit of associations;
//! of the associations every `Grp*` limit on the way up counts, and of the `Max*` limits the nearest.
//!
//! # How they are kept
//! What runs is counted in the state's tallies; what the round starts is counted beside them, so
//! limits hold within one round (case S-45). A job is looked at twice: with the least that it asks
//! for before nodes are tried, and with what it would get once they are found.
//!
//! `GrpTRESMins` and `MaxTRESMins` work as Slurm's `safe` enforcement: a job starts where all that
//! it may use is within the limit beside what was used and what runs may still use.
//!
//! A look costs the accounts above the job's times the limits that they set; nothing where no limit
//! is set at all.

mod check;
mod round;
mod submit;

pub use submit::{DENY, at_submission, at_update};

use muster_model::{
    AssociationLimits, GroupLimits, Holder, Job, JobSpec, MemoryRequest, NodeShare, Partition,
    Placement, Qos, QosLimits, Reason, Seconds, State, TimeLimit, Timestamp, Tres, TresKind,
    priority,
};
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// Unit-seconds that running jobs may still use, by holder and kind.
type Remaining = BTreeMap<Holder, BTreeMap<TresKind, u128>>;

/// What a round knows of limits.
pub(crate) struct Limits<'a> {
    state: &'a State,
    now: Timestamp,
    /// Some limit is set somewhere.
    active: bool,
    /// What the round starts, by holder.
    started: BTreeMap<Holder, Started>,
    /// What the state counts of jobs that have their turn again in this round, by holder.
    taken_back: BTreeMap<Holder, Started>,
    remaining: OnceCell<Remaining>,
}

/// What one round starts of a holder.
#[derive(Clone, Debug, Default)]
struct Started {
    jobs: u32,
    tres: Tres,
    /// Unit-seconds that the jobs may use.
    time: BTreeMap<TresKind, u128>,
}

/// What a job would take.
pub(crate) struct Asked<'a> {
    pub(crate) partition: &'a str,
    pub(crate) tres: Tres,
    /// On each node, where that is known; else what follows from the request.
    pub(crate) nodes: Vec<Tres>,
    pub(crate) limit: TimeLimit,
}

/// The limits that a job stands under, in the order of precedence.
struct Sources<'a> {
    account: &'a str,
    user: &'a str,
    /// At most two.
    qos: Vec<&'a Qos>,
    /// The user's, then the accounts' going up, each with its name.
    associations: Vec<(Whose<'a>, &'a AssociationLimits)>,
    /// How much of what it may use counts, in thousandths.
    factor: u64,
}

/// Who in the tree of accounts sets a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose<'a> {
    User,
    Account(&'a str),
}

/// True where any limit is set.
pub(crate) fn any(state: &State) -> bool {
    state.qos.values().any(|qos| qos.has_limits())
        || state.accounts.values().any(|account| account.has_limits())
}

/// The least that a job asks for in a partition, with what it is billed at the least.
pub(crate) fn least(state: &State, spec: &JobSpec, partition: &Partition) -> Tres {
    let request = &spec.request;
    let mut tres = priority::least(request);
    if request.memory == MemoryRequest::Default {
        let memory = match (partition.default_memory_per_cpu, partition.default_memory_per_node) {
            (Some(each), _) => each.times(tres.get(&TresKind::Cpu)),
            (None, Some(each)) => each.times(tres.get(&TresKind::Node)),
            (None, None) => muster_model::Mib(0),
        };
        tres.put(TresKind::Mem, memory.0);
    }
    tres.put(TresKind::Billing, partition.billing.bill(&tres, state.policy.priority.billing));
    tres
}

/// What each node has at the least where amounts are spread evenly.
pub(crate) fn each_node(tres: &Tres) -> Vec<Tres> {
    let nodes = tres.get(&TresKind::Node).max(1);
    vec![tres.iter().map(|(kind, amount)| (kind.clone(), amount.div_ceil(nodes))).collect()]
}

fn seconds(limit: TimeLimit) -> u64 {
    limit.seconds().map_or(u64::MAX, |s| s.0)
}

impl<'a> Limits<'a> {
    pub(crate) fn new(state: &'a State, now: Timestamp) -> Self {
        let (started, taken_back) = (BTreeMap::new(), BTreeMap::new());
        Self { state, now, active: any(state), started, taken_back, remaining: OnceCell::new() }
    }

    /// True where nothing is limited at all.
    pub(crate) fn is_idle(&self) -> bool {
        !self.active
    }

    /// Takes up a job that the round starts.
    pub(crate) fn count(&mut self, job: &Job, partition: &str, tres: &Tres, limit: TimeLimit) {
        if !self.active {
            return;
        }
        let spec = &job.spec;
        let partition = partition.to_owned();
        let holders =
            self.state.holders_in(&spec.account, &spec.owner.user, &spec.qos, Some(&partition));
        for holder in holders {
            let started = self.started.entry(holder).or_default();
            started.jobs += 1;
            started.tres.add(tres, 1);
            for (kind, amount) in tres.iter() {
                let time = u128::from(amount) * u128::from(seconds(limit));
                let sum = started.time.entry(kind.clone()).or_default();
                *sum = sum.saturating_add(time);
            }
        }
    }

    fn sources<'s>(&self, spec: &'s JobSpec, partition: &str) -> Sources<'s>
    where
        'a: 's,
    {
        sources(self.state, spec, partition)
    }

    /// Jobs below this priority are promised nothing (`MinPrioThreshold`).
    pub(crate) fn priority_for_promise(&self, job: &Job, partition: &str) -> Option<u32> {
        if !self.active {
            return None;
        }
        self.sources(&job.spec, partition).of_qos(|l| l.min_prio_threshold).map(|(_, least)| least)
    }

    /// Why a job cannot start in a partition, by the least that it asks for.
    pub(crate) fn before_placement(
        &self,
        job: &Job,
        partition: &Partition,
        limit: TimeLimit,
    ) -> Vec<Reason> {
        if !self.active {
            return Vec::new();
        }
        let tres = least(self.state, &job.spec, partition);
        let nodes = each_node(&tres);
        self.all(job, &Asked { partition: &partition.name, tres, nodes, limit })
    }

    /// Why a job cannot have a placement.
    pub(crate) fn after_placement(
        &self,
        job: &Job,
        placement: &Placement,
        limit: TimeLimit,
    ) -> Vec<Reason> {
        if !self.active {
            return Vec::new();
        }
        let alone = |share: &NodeShare| {
            let nodes = vec![share.clone()];
            let partition = placement.partition.clone();
            self.state.charge(&Placement { partition, nodes, ..Placement::default() })
        };
        let asked = Asked {
            partition: &placement.partition,
            tres: self.state.charge(placement),
            nodes: placement.nodes.iter().map(alone).collect(),
            limit,
        };
        self.all(job, &asked)
    }

    /// Unit-seconds that running jobs of a holder may still use, with what the round starts.
    fn remaining(&self, holder: &Holder, kind: &TresKind) -> u128 {
        let running = self.remaining.get_or_init(|| remaining(self.state, self.now));
        let running = running.get(holder).and_then(|kinds| kinds.get(kind)).copied().unwrap_or(0);
        let time = |of: &BTreeMap<Holder, Started>| {
            of.get(holder).and_then(|s| s.time.get(kind)).copied().unwrap_or(0)
        };
        running.saturating_add(time(&self.started)).saturating_sub(time(&self.taken_back))
    }

    fn running(&self, holder: &Holder) -> u32 {
        let running = self.state.usage.get(holder).map_or(0, |tally| tally.running);
        let jobs = |of: &BTreeMap<Holder, Started>| of.get(holder).map_or(0, |s| s.jobs);
        (running + jobs(&self.started)).saturating_sub(jobs(&self.taken_back))
    }

    fn in_use(&self, holder: &Holder, kind: &TresKind) -> u64 {
        let running = self.state.usage.get(holder).map_or(0, |tally| tally.in_use.get(kind));
        let tres = |of: &BTreeMap<Holder, Started>| of.get(holder).map_or(0, |s| s.tres.get(kind));
        running.saturating_add(tres(&self.started)).saturating_sub(tres(&self.taken_back))
    }
}

fn sources<'a>(state: &'a State, spec: &'a JobSpec, partition: &str) -> Sources<'a> {
    let own = state.qos.get(&spec.qos).map(AsRef::as_ref);
    let of_partition = state.partitions.get(partition).and_then(|p| p.qos.as_ref());
    let of_partition = of_partition.and_then(|name| state.qos.get(name)).map(AsRef::as_ref);
    let own_first = own.is_some_and(|qos| qos.flags.over_part_qos);
    let mut qos: Vec<&Qos> = of_partition.into_iter().chain(own).collect();
    if own_first {
        qos.reverse();
    }
    qos.dedup_by(|a, b| a.name == b.name);
    let safe = own.filter(|qos| qos.flags.usage_factor_safe);
    let member = state.accounts.get(&spec.account).and_then(|a| a.members.get(&spec.owner.user));
    let user = member.map(|member| (Whose::User, &member.limits));
    let accounts = state.lineage(&spec.account);
    let accounts = accounts.map(|account| (Whose::Account(&account.name), &account.limits));
    let none = AssociationLimits::default();
    Sources {
        account: &spec.account,
        user: &spec.owner.user,
        qos: qos.into_iter().filter(|qos| qos.has_limits()).collect(),
        associations: user.into_iter().chain(accounts).filter(|(_, l)| **l != none).collect(),
        factor: safe.map_or(1000, Qos::usage_factor),
    }
}

impl<'a> Sources<'a> {
    /// The first QOS that sets a limit.
    fn of_qos<T>(&self, get: impl Fn(&QosLimits) -> Option<T>) -> Option<(&'a Qos, T)> {
        self.qos.iter().find_map(|qos| Some((*qos, get(&qos.limits)?)))
    }

    /// The nearest association that sets a limit.
    fn nearest<T>(&self, get: impl Fn(&AssociationLimits) -> Option<T>) -> Option<(Whose<'a>, T)> {
        self.associations.iter().find_map(|(whose, limits)| Some((*whose, get(limits)?)))
    }

    /// Who sets a limit on all jobs together, whether it is a QOS, and who is counted: the first QOS
    /// that sets it, else every association that does.
    fn groups<T>(&self, get: impl Fn(&GroupLimits) -> Option<T>) -> Vec<(bool, Holder, String, T)> {
        if let Some((qos, most)) = self.of_qos(|limits| get(&limits.group)) {
            let holder = Holder::Qos(qos.name.clone());
            return vec![(true, holder, format!("QOS {}", qos.name), most)];
        }
        let all = self.associations.iter().filter_map(|(whose, limits)| {
            let most = get(&limits.group)?;
            Some((false, self.holder(*whose), self.named(*whose), most))
        });
        all.collect()
    }

    fn holder(&self, whose: Whose<'_>) -> Holder {
        match whose {
            Whose::User => self.user_holder(),
            Whose::Account(name) => Holder::Account(name.to_owned()),
        }
    }

    fn user_holder(&self) -> Holder {
        Holder::User { account: self.account.to_owned(), user: self.user.to_owned() }
    }

    fn named(&self, whose: Whose<'_>) -> String {
        match whose {
            Whose::User => format!("user {} in account {}", self.user, self.account),
            Whose::Account(name) => format!("account {name}"),
        }
    }

    fn qos_user(&self, qos: &Qos) -> (Holder, String) {
        let holder = Holder::QosUser { qos: qos.name.clone(), user: self.user.to_owned() };
        (holder, format!("user {} in QOS {}", self.user, qos.name))
    }

    fn qos_account(&self, qos: &Qos) -> (Holder, String) {
        let (qos, account) = (qos.name.clone(), self.account.to_owned());
        let whose = format!("account {account} in QOS {qos}");
        (Holder::QosAccount { qos, account }, whose)
    }
}

/// How long a job may still run, in seconds.
fn seconds_left(job: &Job, now: Timestamp) -> u64 {
    match job.ends_at_latest() {
        Some(Timestamp::NEVER) => u64::MAX,
        Some(end) => end.since(now).0,
        None => 0,
    }
}

/// What running jobs may still use: a pass over them.
fn remaining(state: &State, now: Timestamp) -> Remaining {
    let mut all = Remaining::new();
    for job in state.index.active.iter().filter_map(|id| state.jobs.get(id)) {
        let left = seconds_left(job, now);
        for holder in state.holders(job).into_iter().filter(Holder::is_metered) {
            let kinds = all.entry(holder).or_default();
            for (kind, amount) in job.charge.iter() {
                let sum = kinds.entry(kind.clone()).or_default();
                *sum = sum.saturating_add(u128::from(amount) * u128::from(left));
            }
        }
    }
    all
}

/// Wall clock in whole minutes.
fn minutes(wall: Seconds) -> u64 {
    wall.0 / 60
}
