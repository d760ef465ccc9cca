//! No start breaks a limit of its association or QOS.
//!
//! Everything is counted from the placements of running jobs and of the plan's starts, in their
//! order; of the state's tallies only what was used in the past is taken.

use crate::keys::Keys;
use crate::{Rule, Violation, starts};
use muster_model::priority::least;
use muster_model::{
    AssociationLimits, Exclusive, GroupLimits, Holder, Job, MemoryRequest, NodeCount, NodeShare,
    Partition, Placement, Plan, Qos, QosLimits, State, TimeLimit, Timestamp, Tres, TresKind,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is held by somebody.
#[derive(Default)]
struct Held {
    jobs: u32,
    tres: Tres,
    /// Unit-seconds that may still be used.
    left: BTreeMap<TresKind, u128>,
}

type Counts = BTreeMap<Holder, Held>;

/// A start, or what a job would be.
struct Taken<'a> {
    job: &'a Job,
    partition: &'a str,
    tres: Tres,
    nodes: Vec<Tres>,
    seconds: u64,
}

pub(crate) fn check(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    if !limited(state) {
        return;
    }
    let mut counts = running(state, plan.now);
    for start in starts(plan) {
        let Some(job) = state.jobs.get(&start.job) else { continue };
        let taken = placed(state, job, &start.placement, start.time_limit);
        if let Some(why) = broken(state, plan.now, &counts, &taken) {
            found.push(Violation::of(Rule::Limit, job.id, why));
        }
        add(state, &mut counts, &taken, taken.seconds);
    }
}

/// True where a limit may keep the job from starting beside what the plan starts: it is broken by
/// the least that the job asks for, or what it would get is not known from its request.
pub(crate) fn may_hold(
    state: &State,
    plan: &Plan,
    job: &Job,
    partition: &Partition,
    keys: &Keys<'_>,
) -> bool {
    if !limited(state) {
        return false;
    }
    let (qos, associations) = in_force(state, job, &partition.name);
    let threshold = qos.iter().find_map(|q| q.limits.min_prio_threshold);
    if threshold.is_some_and(|least| keys.priority(job) < i64::from(least)) {
        return true;
    }
    let request = &job.spec.request;
    let open = request.exclusive != Exclusive::No
        || matches!(request.memory, MemoryRequest::Default | MemoryRequest::WholeNode)
        || request
            .nodes
            .as_ref()
            .is_none_or(|n| !matches!(n, NodeCount::Range { min, max } if min == max))
        || job.spec.time_min.is_some()
        // Of which model a GPU is shows only when it is given.
        || request.gpus.iter().any(|gpus| gpus.model.is_none())
        || request.gpu_memory.is_some()
        || partition.max_memory_per_cpu.is_some();
    if open && (!qos.is_empty() || !associations.is_empty()) {
        return true;
    }
    let mut counts = running(state, plan.now);
    for start in starts(plan) {
        if let Some(other) = state.jobs.get(&start.job) {
            let taken = placed(state, other, &start.placement, start.time_limit);
            add(state, &mut counts, &taken, taken.seconds);
        }
    }
    let mut tres = least(request);
    tres.put(TresKind::Billing, partition.billing.bill(&tres, state.policy.priority.billing));
    let nodes = tres.get(&TresKind::Node).max(1);
    let each = tres.iter().map(|(kind, n)| (kind.clone(), n.div_ceil(nodes))).collect();
    let (partition, seconds) = (&partition.name, seconds(job.time_limit));
    broken(state, plan.now, &counts, &Taken { job, partition, tres, nodes: vec![each], seconds })
        .is_some()
}

fn limited(state: &State) -> bool {
    state.qos.values().any(|q| q.limits != QosLimits::default())
        || state.accounts.values().any(|a| {
            a.limits != AssociationLimits::default()
                || a.members.values().any(|m| m.limits != AssociationLimits::default())
        })
}

fn seconds(limit: TimeLimit) -> u64 {
    limit.seconds().map_or(u64::MAX, |s| s.0)
}

/// What shares of nodes come to, by kind.
fn amounts(state: &State, partition: &str, shares: &[NodeShare], licences: &Placement) -> Tres {
    let mut tres = Tres::default();
    for share in shares {
        tres.put(TresKind::Node, 1);
        tres.put(TresKind::Cpu, u64::from(share.cpu_count()));
        tres.put(TresKind::Mem, share.memory.0);
        tres.put(TresKind::Gpu(None), share.devices.len() as u64);
        let node = state.nodes.get(&share.node);
        for grant in &share.devices {
            let device = node.and_then(|n| n.devices.iter().find(|d| d.index == grant.index));
            if let Some(device) = device.filter(|d| !d.model.is_empty()) {
                tres.put(TresKind::Gpu(Some(device.model.to_ascii_lowercase())), 1);
            }
        }
        for (name, count) in &share.gres {
            tres.put(TresKind::Gres(name.clone()), *count);
        }
    }
    for (name, count) in &licences.licences {
        tres.put(TresKind::Licence(name.clone()), u64::from(*count));
    }
    let weights = state.partitions.get(partition).map(|p| p.billing.clone()).unwrap_or_default();
    tres.put(TresKind::Billing, weights.bill(&tres, state.policy.priority.billing));
    tres
}

fn placed<'a>(
    state: &State,
    job: &'a Job,
    placement: &'a Placement,
    limit: TimeLimit,
) -> Taken<'a> {
    let none = Placement::default();
    let partition = placement.partition.as_str();
    let one = |share: &NodeShare| amounts(state, partition, std::slice::from_ref(share), &none);
    Taken {
        job,
        partition,
        tres: amounts(state, partition, &placement.nodes, placement),
        nodes: placement.nodes.iter().map(one).collect(),
        seconds: seconds(limit),
    }
}

fn running(state: &State, now: Timestamp) -> Counts {
    let mut counts = Counts::new();
    for job in state.index.active.iter().filter_map(|id| state.jobs.get(id)) {
        let Some(placement) = &job.placement else { continue };
        let taken = placed(state, job, placement, job.time_limit);
        let left = match job.ends_at_latest() {
            Some(Timestamp::NEVER) => u64::MAX,
            Some(end) => end.since(now).0,
            None => 0,
        };
        add(state, &mut counts, &taken, left);
    }
    counts
}

fn add(state: &State, counts: &mut Counts, taken: &Taken<'_>, left: u64) {
    let spec = &taken.job.spec;
    let (account, user) = (&spec.account, &spec.owner.user);
    let mut holders = BTreeSet::new();
    holders.insert(Holder::User { account: account.clone(), user: user.clone() });
    let mut above = Some(account);
    for _ in 0..=state.accounts.len() {
        let Some(name) = above else { break };
        holders.insert(Holder::Account(name.clone()));
        above = state.accounts.get(name).and_then(|a| a.parent.as_ref());
    }
    let of_partition = state.partitions.get(taken.partition).and_then(|p| p.qos.as_ref());
    for qos in of_partition.into_iter().chain([&spec.qos]) {
        holders.insert(Holder::Qos(qos.clone()));
        holders.insert(Holder::QosUser { qos: qos.clone(), user: user.clone() });
        holders.insert(Holder::QosAccount { qos: qos.clone(), account: account.clone() });
    }
    for holder in holders {
        let held = counts.entry(holder).or_default();
        held.jobs += 1;
        held.tres.add(&taken.tres, 1);
        for (kind, amount) in taken.tres.iter() {
            let sum = held.left.entry(kind.clone()).or_default();
            *sum = sum.saturating_add(u128::from(amount) * u128::from(left));
        }
    }
}

type InForce<'a> = (Vec<&'a Qos>, Vec<(Holder, &'a AssociationLimits)>);

/// The QOS and the associations whose limits a job is under, the first in precedence first.
fn in_force<'a>(state: &'a State, job: &Job, partition: &str) -> InForce<'a> {
    let spec = &job.spec;
    let named = |name: &String| state.qos.get(name).map(AsRef::as_ref);
    let own: Option<&Qos> = named(&spec.qos);
    let of_partition = state.partitions.get(partition).and_then(|p| named(p.qos.as_ref()?));
    let mut qos: Vec<&Qos> = match own.is_some_and(|q| q.flags.over_part_qos) {
        true => own.into_iter().chain(of_partition).collect(),
        false => of_partition.into_iter().chain(own).collect(),
    };
    qos.retain(|q| q.limits != QosLimits::default());
    let mut associations = Vec::new();
    let (account, user) = (spec.account.clone(), spec.owner.user.clone());
    let own = state.accounts.get(&account);
    if let Some(member) = own.and_then(|a| a.members.get(&user)) {
        associations.push((Holder::User { account: account.clone(), user }, &member.limits));
    }
    let mut above = Some(&account);
    for _ in 0..=state.accounts.len() {
        let Some(account) = above.and_then(|name| state.accounts.get(name)) else { break };
        associations.push((Holder::Account(account.name.clone()), &account.limits));
        above = account.parent.as_ref();
    }
    associations.retain(|(_, limits)| **limits != AssociationLimits::default());
    (qos, associations)
}

/// The first limit that a start breaks.
fn broken(state: &State, now: Timestamp, counts: &Counts, taken: &Taken<'_>) -> Option<String> {
    let (qos, associations) = in_force(state, taken.job, taken.partition);
    let spec = &taken.job.spec;
    let (account, user) = (spec.account.clone(), spec.owner.user.clone());
    let user_of = |q: &Qos| Holder::QosUser { qos: q.name.clone(), user: user.clone() };
    let account_of = |q: &Qos| Holder::QosAccount { qos: q.name.clone(), account: account.clone() };
    let association = Holder::User { account: account.clone(), user: user.clone() };
    // A limit of a QOS stands in place of the same of associations.
    let group = |most: &dyn Fn(&GroupLimits) -> Option<u64>| {
        let of = |q: &&Qos| Some((Holder::Qos(q.name.clone()), most(&q.limits.group)?));
        let of_qos = qos.iter().find_map(of);
        match of_qos {
            Some(found) => vec![found],
            None => {
                let all = associations.iter();
                all.filter_map(|(holder, l)| Some((holder.clone(), most(&l.group)?))).collect()
            }
        }
    };
    let single = |q: &dyn Fn(&QosLimits) -> Option<u64>,
                  a: &dyn Fn(&AssociationLimits) -> Option<u64>| {
        let of_qos = qos.iter().find_map(|x| q(&x.limits));
        of_qos.or_else(|| associations.iter().find_map(|(_, l)| a(l)))
    };
    let jobs = |holder: &Holder| counts.get(holder).map_or(0, |h| u64::from(h.jobs));
    let wide = |n: Option<u32>| n.map(u64::from);
    let mut most_jobs = group(&|l| wide(l.jobs));
    let of_user = qos.iter().find_map(|q| Some((user_of(q), wide(q.limits.max_jobs_per_user)?)));
    most_jobs.extend(of_user.or_else(|| {
        let most = associations.iter().find_map(|(_, l)| wide(l.max_jobs))?;
        Some((association.clone(), most))
    }));
    let of_account = |q: &&Qos| Some((account_of(q), wide(q.limits.max_jobs_per_account)?));
    most_jobs.extend(qos.iter().find_map(of_account));
    if let Some((holder, most)) = most_jobs.into_iter().find(|(h, most)| jobs(h) >= *most) {
        return Some(format!("{holder:?} runs {most} jobs already"));
    }
    let wall = single(&|l| l.max_wall.map(|s| s.0), &|l| l.max_wall.map(|s| s.0));
    if wall.is_some_and(|most| taken.seconds > most) {
        return Some("asks for more time than its limit".to_owned());
    }
    let walls = group(&|l| l.wall.map(|s| s.0));
    let used_up = |(holder, most): &(Holder, u64)| {
        state.spent(holder, now).wall_ms >= most.saturating_mul(1000)
    };
    if let Some((holder, _)) = walls.iter().find(|wall| used_up(wall)) {
        return Some(format!("{holder:?} has used its wall clock time up"));
    }
    let factor = state.qos.get(&spec.qos).filter(|q| q.flags.usage_factor_safe);
    let factor = factor.map_or(1000, |q| q.usage_factor());
    kinds(&qos, &associations).iter().find_map(|kind| {
        let asked = taken.tres.get(kind);
        let minutes = |time: u128| u64::try_from(time.div_ceil(60)).unwrap_or(u64::MAX);
        let time = u128::from(asked) * u128::from(taken.seconds);
        let time = minutes(time.saturating_mul(u128::from(factor)) / 1000);
        let held = |holder: &Holder| counts.get(holder).map_or(0, |h| h.tres.get(kind));
        let left = |holder: &Holder| {
            minutes(counts.get(holder).and_then(|h| h.left.get(kind)).copied().unwrap_or(0))
        };
        let mut at_once = group(&|l| l.tres.limit(kind));
        let per_user = |q: &&Qos| Some((user_of(q), q.limits.max_tres_per_user.limit(kind)?));
        at_once.extend(qos.iter().find_map(per_user));
        let per_account =
            |q: &&Qos| Some((account_of(q), q.limits.max_tres_per_account.limit(kind)?));
        at_once.extend(qos.iter().find_map(per_account));
        let over = |(h, most): &(Holder, u64)| asked > 0 && held(h).saturating_add(asked) > *most;
        if let Some((holder, most)) = at_once.iter().find(|limit| over(limit)) {
            return Some(format!("{holder:?} would have more than {most} of {kind}"));
        }
        let run = group(&|l| l.tres_run_mins.limit(kind));
        let all = group(&|l| l.tres_mins.limit(kind));
        let over = |h: &Holder, most: u64, spent: u64| {
            time > 0 && spent.saturating_add(left(h)).saturating_add(time) > most
        };
        if run.iter().any(|(h, most)| over(h, *most, 0))
            || all.iter().any(|(h, most)| over(h, *most, state.spent(h, now).minutes(kind)))
        {
            return Some(format!("may use more minutes of {kind} than a limit leaves"));
        }
        let job = single(&|l| l.max_tres_per_job.limit(kind), &|l| l.max_tres.limit(kind));
        let mins =
            single(&|l| l.max_tres_mins_per_job.limit(kind), &|l| l.max_tres_mins.limit(kind));
        let node =
            single(&|l| l.max_tres_per_node.limit(kind), &|l| l.max_tres_per_node.limit(kind));
        let on_one = taken.nodes.iter().map(|n| n.get(kind)).max().unwrap_or(0);
        let least = qos.iter().find_map(|q| q.limits.min_tres_per_job.limit(kind));
        let bad = job.is_some_and(|most| asked > most)
            || mins.is_some_and(|most| time > most)
            || node.is_some_and(|most| on_one > most)
            || least.is_some_and(|least| asked < least);
        bad.then(|| format!("has {asked} of {kind}, which a limit on each job does not allow"))
    })
}

/// Every kind that is limited.
fn kinds(qos: &[&Qos], associations: &[(Holder, &AssociationLimits)]) -> BTreeSet<TresKind> {
    let mut all = BTreeSet::new();
    for l in qos.iter().map(|q| &q.limits) {
        for tres in [
            &l.group.tres,
            &l.group.tres_mins,
            &l.group.tres_run_mins,
            &l.max_tres_per_user,
            &l.max_tres_per_account,
            &l.max_tres_per_job,
            &l.max_tres_per_node,
            &l.max_tres_mins_per_job,
            &l.min_tres_per_job,
        ] {
            all.extend(tres.0.keys().cloned());
        }
    }
    for (_, l) in associations {
        for tres in [
            &l.group.tres,
            &l.group.tres_mins,
            &l.group.tres_run_mins,
            &l.max_tres,
            &l.max_tres_per_node,
            &l.max_tres_mins,
        ] {
            all.extend(tres.0.keys().cloned());
        }
    }
    all
}
