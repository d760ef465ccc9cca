//! Who comes before whom, worked out again from the words of the policy.
//!
//! Fair tree is done here by sorting paths: a user's path is the level values of the accounts above
//! and of the user, so merged accounts need no merging. Powers of a half and meters are the model's.

use muster_model::priority::{FairShareMode, WHOLE, least};
use muster_model::{
    Holder, Job, JobId, Node, OrderMode, Partition, Shares, State, Timestamp, Tres, TresKind, decay,
};
use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A place in the queue; smaller is earlier.
pub(crate) type Key = (Reverse<u32>, Reverse<i64>, u128, Timestamp, JobId);

/// A user in an account.
type Association = (String, String);

/// The places of jobs at one instant.
pub(crate) struct Keys<'a> {
    state: &'a State,
    now: Timestamp,
    fair: BTreeMap<Association, u64>,
    /// What all nodes have, and the nodes of each partition: counted once.
    all: OnceCell<Tres>,
    there: OnceCell<BTreeMap<&'a str, Tres>>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(state: &'a State, now: Timestamp) -> Self {
        let wanted = state.policy.order == OrderMode::Multifactor
            && state.policy.priority.weights.fair_share > 0;
        let fair = match state.policy.priority.fair_share {
            _ if !wanted => BTreeMap::new(),
            FairShareMode::Tree => fair_tree(state, now),
            FairShareMode::Classic => classic(state, now),
        };
        Self { state, now, fair, all: OnceCell::new(), there: OnceCell::new() }
    }

    /// The place of a job with those that it starts with.
    pub(crate) fn together(&self, job: &Job) -> Key {
        self.of(crate::eligible::first(self.state, job))
    }

    /// A job's place.
    pub(crate) fn of(&self, job: &Job) -> Key {
        let tier = self.partitions(job).map(|p| p.tier).max().unwrap_or(0).min(u32::MAX >> 1);
        // Who names a reservation comes first (S-42).
        let tier = tier + if job.spec.request.reservation.is_some() { 1 << 31 } else { 0 };
        let since = match self.state.policy.order {
            OrderMode::Fifo => job.submitted,
            OrderMode::Multifactor => self.since(job),
            OrderMode::Slowdown => job.eligible.unwrap_or(Timestamp::NEVER),
        };
        let weight = match self.state.policy.order {
            OrderMode::Slowdown if !self.waited_too_long(job) => self.weight(job),
            _ => 0,
        };
        (Reverse(tier), Reverse(self.priority(job)), weight, since, job.id)
    }

    /// True where its wait, or its wait with what it likely runs, is beyond the part of the longest
    /// on record that the policy allows.
    fn waited_too_long(&self, job: &Job) -> bool {
        let (guard, record) = (&self.state.policy.wait_guard, &self.state.waits);
        let wait = u128::from(job.eligible.map_or(0, |at| self.now.since(at).0));
        let stay = wait + u128::from(self.likely(job));
        let beyond =
            |mine: u128, longest: u64| mine * 1000 > u128::from(longest) * u128::from(guard.first);
        beyond(wait, record.wait().0) || beyond(stay, record.stay().0)
    }

    /// Seconds that a job likely runs: the mean of its user's last two runs within its limit.
    fn likely(&self, job: &Job) -> u64 {
        let limit = job.time_limit.seconds().map(|limit| limit.0);
        let runs: Vec<u64> =
            self.state.last_runs(job.spec.owner.uid).map(|s| s.0).take(2).collect();
        match runs.as_slice() {
            [] => limit.unwrap_or(u64::from(u32::MAX)),
            runs => {
                let mean = runs.iter().fold(0u64, |sum, run| sum.saturating_add(*run));
                (mean / runs.len() as u64).min(limit.unwrap_or(u64::MAX)).max(1)
            }
        }
    }

    /// Smith's rule for the slowdown: likely run × size over the mean of one over the user's last
    /// three runs, each of ten seconds at least.
    fn weight(&self, job: &Job) -> u128 {
        const ONE: u64 = 1_000_000_000_000;
        let all = self.all.get_or_init(|| amounts(self.state.nodes.values().map(AsRef::as_ref)));
        let asked = least(&job.spec.request);
        let share = |kind: TresKind| part(asked.get(&kind), all.get(&kind));
        let size = share(TresKind::Cpu).max(share(TresKind::Gpu(None))).max(1);
        let mut runs: Vec<u64> = self.state.last_runs(job.spec.owner.uid).map(|s| s.0).collect();
        if runs.is_empty() {
            let limit = job.time_limit.seconds().map_or(u64::MAX, |limit| limit.0);
            runs.push(limit.min(u64::from(u32::MAX)));
        }
        let pace: u64 = runs.iter().map(|run| ONE / (*run).max(10)).sum();
        let pace = (pace / runs.len() as u64).max(1);
        u128::from(self.likely(job)) * u128::from(size) * u128::from(ONE) / u128::from(pace)
    }

    /// The number that orders a job.
    pub(crate) fn priority(&self, job: &Job) -> i64 {
        if let Some(by_hand) = job.spec.priority {
            return i64::from(by_hand);
        }
        let partition = self.partitions(job).map(|p| p.priority).max().unwrap_or(0);
        let qos = self.state.qos.get(&job.spec.qos).map_or(0, |q| q.priority);
        let (partition, qos) = (u64::from(partition), u64::from(qos));
        if self.state.policy.order != OrderMode::Multifactor {
            return (partition + qos).cast_signed().saturating_sub(job.spec.nice);
        }
        let policy = &self.state.policy.priority;
        let weights = &policy.weights;
        let highest = self.state.partitions.values().map(|p| u64::from(p.priority)).max();
        let highest_qos = self.state.qos.values().map(|q| u64::from(q.priority)).max();
        let aged = self.now.millis().saturating_sub(self.since(job).millis()).max(0);
        let who = (job.spec.account.clone(), job.spec.owner.user.clone());
        let mut sum = [
            term(part(aged.cast_unsigned(), policy.max_age.0 * 1000), weights.age),
            term(self.association(&who), weights.association),
            term(self.fair.get(&who).copied().unwrap_or(0), weights.fair_share),
            term(self.size(job), weights.job_size),
            term(part(partition, highest.unwrap_or(0)), weights.partition),
            term(part(qos, highest_qos.unwrap_or(0)), weights.qos),
        ]
        .iter()
        .sum::<i64>();
        let asked = least(&job.spec.request);
        let own = self.partitions(job).next();
        for (kind, weight) in &weights.tres {
            let there = own.and_then(|p| self.there().get(p.name.as_str()));
            let of = there.map_or(0, |all| all.get(kind));
            sum += term(part(asked.get(kind), of), *weight);
        }
        sum + job.spec.site_factor - job.spec.nice
    }

    /// What the association of a user is given, against the highest that any is given.
    fn association(&self, (account, user): &Association) -> u64 {
        let all = self.state.accounts.values();
        let given = all.flat_map(|a| a.members.values().map(|m| m.priority).chain([a.priority]));
        let highest = given.flatten().max().unwrap_or(0);
        let mut own = None;
        let mut at = self.state.accounts.get(account);
        for _ in 0..=self.state.accounts.len() {
            let Some(here) = at else { break };
            let of_user = here.members.get(user).and_then(|m| m.priority);
            // Only the account that is charged knows the user.
            own = own.or(of_user.filter(|_| here.name == *account)).or(here.priority);
            at = here.parent.as_ref().and_then(|name| self.state.accounts.get(name));
        }
        part(u64::from(own.unwrap_or(0)), u64::from(highest))
    }

    /// What the nodes of each partition have.
    fn there(&self) -> &BTreeMap<&'a str, Tres> {
        let of = |partition: &'a Partition| {
            let nodes = self.state.partition_nodes(partition).map(AsRef::as_ref);
            (partition.name.as_str(), amounts(nodes))
        };
        self.there.get_or_init(|| self.state.partitions.values().map(|p| of(p)).collect())
    }

    fn since(&self, job: &Job) -> Timestamp {
        if self.state.policy.priority.accrue_always {
            return job.submitted;
        }
        job.eligible.unwrap_or(Timestamp::NEVER)
    }

    fn partitions<'b>(&'b self, job: &'b Job) -> impl Iterator<Item = &'b Partition> {
        let named = job.spec.partitions.iter();
        named.filter_map(|name| self.state.partitions.get(name).map(AsRef::as_ref))
    }

    fn size(&self, job: &Job) -> u64 {
        let policy = &self.state.policy.priority;
        let nodes = || amounts(self.state.nodes.values().map(AsRef::as_ref));
        let all = self.all.get_or_init(nodes);
        let asked = least(&job.spec.request);
        let of = |kind: &TresKind| part(asked.get(kind), all.get(kind));
        let (nodes, cpus) = (of(&TresKind::Node), of(&TresKind::Cpu));
        let large = match job.time_limit.seconds() {
            Some(limit) if policy.size_over_time => nodes.max(cpus) / (limit.0 / 60).max(1),
            None if policy.size_over_time => 0,
            _ => u64::midpoint(nodes, cpus),
        };
        if policy.favour_small { WHOLE - large } else { large }
    }
}

fn term(factor: u64, weight: u32) -> i64 {
    (u128::from(factor) * u128::from(weight) / u128::from(WHOLE)) as i64
}

fn part(of: u64, whole: u64) -> u64 {
    let scaled = u128::from(of.min(whole)) * u128::from(WHOLE);
    scaled.checked_div(u128::from(whole)).unwrap_or(0) as u64
}

fn amounts<'a>(nodes: impl Iterator<Item = &'a Node>) -> Tres {
    let mut all = Tres::default();
    for node in nodes {
        all.put(TresKind::Node, 1);
        all.put(TresKind::Cpu, u64::from(node.cpu_count()));
        all.put(TresKind::Mem, node.memory.0);
        for device in &node.devices {
            all.put(TresKind::Gpu(None), 1);
            if !device.model.is_empty() {
                all.put(TresKind::Gpu(Some(device.model.to_ascii_lowercase())), 1);
            }
        }
        for (name, count) in &node.gres {
            all.put(TresKind::Gres(name.clone()), *count);
        }
    }
    all
}

/// One scale for parts of shares and of use: 2^60.
const UNIT: u128 = 1 << 60;

fn unit(part: u64, whole: u64) -> u128 {
    if whole == 0 { 0 } else { u128::from(part) * UNIT / u128::from(whole) }
}

/// The accounts and users beneath an account (`None`: the roots), users and accounts apart.
fn beneath<'a>(state: &'a State, above: Option<&'a str>) -> Vec<(&'a str, Option<&'a str>)> {
    let parent = |a: &'a muster_model::Account| {
        a.parent.as_deref().filter(|name| state.accounts.contains_key(*name))
    };
    let accounts = state.accounts.values().filter(|a| parent(a) == above);
    let mut all: Vec<_> = accounts.map(|a| (a.name.as_str(), None)).collect();
    let Some(account) = above.and_then(|name| state.accounts.get(name)) else { return all };
    let mut users: BTreeSet<&str> = account.members.keys().map(String::as_str).collect();
    users.extend(account.users.iter().flatten().map(String::as_str));
    users.extend(state.usage.keys().filter_map(|holder| match holder {
        Holder::User { account: of, user } if *of == account.name => Some(user.as_str()),
        _ => None,
    }));
    all.extend(users.into_iter().map(|user| (account.name.as_str(), Some(user))));
    all
}

fn shares(state: &State, (account, user): (&str, Option<&str>)) -> Shares {
    let Some(account) = state.accounts.get(account) else { return Shares::default() };
    match user {
        None => account.shares,
        Some(user) => account.members.get(user).map_or_else(Shares::default, |m| m.shares),
    }
}

fn used(state: &State, now: Timestamp, (account, user): (&str, Option<&str>)) -> u64 {
    let account = account.to_owned();
    let holder = match user {
        None => Holder::Account(account),
        Some(user) => Holder::User { account, user: user.to_owned() },
    };
    state.spent(&holder, now).billed()
}

/// A step of a path: the level, highest first, users before accounts.
type Step = (Reverse<u64>, bool);

fn fair_tree(state: &State, now: Timestamp) -> BTreeMap<Association, u64> {
    let mut paths: Vec<(Vec<Step>, Option<Association>)> = Vec::new();
    collect(state, now, None, &mut Vec::new(), &mut paths);
    paths.sort();
    let users = paths.iter().filter(|(_, who)| who.is_some()).count() as u64;
    // An account without anybody is passed by, unless another of its level has somebody.
    let keep: Vec<bool> = paths
        .iter()
        .map(|(path, who)| who.is_some() || !paths.iter().any(|(p, _)| longer(p, path)))
        .collect();
    let mut factors = BTreeMap::new();
    let (mut rank, mut next) = (users, users);
    let mut before: Option<&Vec<Step>> = None;
    for ((path, who), _) in paths.iter().zip(keep).filter(|(_, keep)| *keep) {
        if let Some(who) = who {
            if !before.is_some_and(|before| tied(before, path)) {
                rank = next;
            }
            next -= 1;
            let factor = u128::from(rank) * u128::from(WHOLE) / u128::from(users);
            factors.insert(who.clone(), factor as u64);
        }
        before = Some(path);
    }
    factors
}

fn longer(path: &[Step], of: &[Step]) -> bool {
    path.len() > of.len() && path.starts_with(of)
}

/// Users of one level among siblings, or a user and who comes first in accounts of that level.
fn tied(before: &[Step], path: &[Step]) -> bool {
    let Some(((level, is_account), above)) = before.split_last() else { return false };
    let mut merged = above.to_vec();
    merged.push((*level, true));
    before == path || (!is_account && path.starts_with(&merged))
}

fn collect(
    state: &State,
    now: Timestamp,
    above: Option<&str>,
    path: &mut Vec<Step>,
    paths: &mut Vec<(Vec<Step>, Option<Association>)>,
) {
    let siblings = handed_up(state, beneath(state, above));
    let raw = |of| match shares(state, of) {
        Shares::Of(n) => u64::from(n),
        Shares::Parent => 0,
    };
    let all_shares = siblings.iter().fold(0u64, |sum, of| sum.saturating_add(raw(*of)));
    let all_used = siblings.iter().fold(0u64, |sum, of| sum.saturating_add(used(state, now, *of)));
    for of in siblings {
        let own_used = used(state, now, of);
        let level = match shares(state, of) {
            Shares::Of(0) => 0,
            Shares::Parent => u64::MAX,
            Shares::Of(_) if own_used == 0 => u64::MAX,
            Shares::Of(_) => {
                let part = unit(own_used, all_used).max(1);
                let level = unit(raw(of), all_shares) * u128::from(WHOLE) / part;
                u64::try_from(level).unwrap_or(u64::MAX).min(u64::MAX - 1)
            }
        };
        path.push((Reverse(level), of.1.is_none()));
        match of.1 {
            Some(user) => paths.push((path.clone(), Some((of.0.to_owned(), user.to_owned())))),
            None => {
                paths.push((path.clone(), None));
                collect(state, now, Some(of.0), path, paths);
            }
        }
        path.pop();
    }
}

/// Accounts that have their parent's share stand aside for what is beneath them.
fn handed_up<'a>(
    state: &'a State,
    all: Vec<(&'a str, Option<&'a str>)>,
) -> Vec<(&'a str, Option<&'a str>)> {
    let mut siblings = Vec::new();
    for of in all {
        match (of.1, shares(state, of)) {
            (None, Shares::Parent) => {
                siblings.extend(handed_up(state, beneath(state, Some(of.0))));
            }
            _ => siblings.push(of),
        }
    }
    siblings
}

fn classic(state: &State, now: Timestamp) -> BTreeMap<Association, u64> {
    let roots = beneath(state, None);
    let total = roots.iter().fold(0u64, |sum, of| sum.saturating_add(used(state, now, *of)));
    let mut factors = BTreeMap::new();
    let mut open = vec![(None, UNIT, unit(total, total))];
    while let Some((above, share, effective_above)) = open.pop() {
        let siblings = beneath(state, above);
        let raw = |of| match shares(state, of) {
            Shares::Of(n) => u64::from(n),
            Shares::Parent => 0,
        };
        let all = siblings.iter().fold(0u64, |sum, of| sum.saturating_add(raw(*of)));
        for of in siblings {
            let actual = unit(used(state, now, of), total);
            let own = unit(raw(of), all);
            let times = |a: u128, b: u128| ((a >> 20) * (b >> 20)) >> 20;
            let (norm, effective) = match shares(state, of) {
                Shares::Parent => (share, effective_above),
                Shares::Of(_) if above.is_none() => (times(share, own), actual),
                Shares::Of(_) => {
                    (times(share, own), actual + times(effective_above.saturating_sub(actual), own))
                }
            };
            match of.1 {
                None => open.push((Some(of.0), norm, effective)),
                Some(user) => {
                    let damping = u128::from(state.policy.priority.dampening.max(1));
                    let power = decay::half_to(effective >> 10, (norm >> 10) * damping);
                    let factor = (u128::from(power) * u128::from(WHOLE)) >> 62;
                    factors.insert((of.0.to_owned(), user.to_owned()), factor as u64);
                }
            }
        }
    }
    factors
}
