//! Limits at submission: how many jobs may wait, and what a QOS denies outright.

use super::check::Check;
use super::{Asked, Limits, Sources, Whose, least};
use muster_model::{Holder, JobSpec, LimitHit, LimitName, Reason, State, Timestamp};

/// The flag that makes a QOS refuse at submission what one job alone breaks.
pub const DENY: &str = "DenyOnLimit";

/// Every limit for which a submission of `count` jobs like this one is refused: limits on jobs that
/// wait or run, counted with every task of an array (case S-45), and under `DenyOnLimit` every
/// limit that one such job breaks by itself.
pub fn at_submission(state: &State, now: Timestamp, spec: &JobSpec, count: u32) -> Vec<Reason> {
    let limits = Limits::new(state, now);
    let partition = spec.partitions.first().and_then(|name| state.partitions.get(name));
    let (Some(partition), false) = (partition, limits.is_idle()) else { return Vec::new() };
    let mut broken = match count {
        0 => Vec::new(),
        count => submitted(&limits, &limits.sources(spec, &partition.name), count),
    };
    let denies = |name: &String| state.qos.get(name).is_some_and(|qos| qos.flags.deny_on_limit);
    if denies(&spec.qos) || partition.qos.as_ref().is_some_and(denies) {
        broken.extend(alone(state, now, spec, &partition.name));
    }
    broken
}

/// Every limit for which a change of a waiting job is refused: what a submission of it as it would
/// be is refused for (Slurm's `acct_policy_validate` with an update), but that it is counted already
/// where it stays in its account and QOS.
pub fn at_update(state: &State, now: Timestamp, old: &JobSpec, new: &JobSpec) -> Vec<Reason> {
    let same = old.account == new.account
        && old.qos == new.qos
        && old.partitions.first() == new.partitions.first();
    at_submission(state, now, new, u32::from(!same))
}

fn submitted(limits: &Limits<'_>, sources: &Sources<'_>, count: u32) -> Vec<Reason> {
    let groups = sources.groups(|l| l.submit_jobs).into_iter();
    let mut found: Vec<(bool, Holder, String, LimitName, u32)> = groups
        .map(|(of_qos, holder, whose, most)| {
            (of_qos, holder, whose, LimitName::GrpSubmitJobs, most)
        })
        .collect();
    if let Some((qos, most)) = sources.of_qos(|l| l.max_submit_jobs_per_user) {
        let (holder, whose) = sources.qos_user(qos);
        found.push((true, holder, whose, LimitName::MaxSubmitJobs, most));
    } else if let Some((_, most)) = sources.nearest(|l| l.max_submit_jobs) {
        let whose = sources.named(Whose::User);
        found.push((false, sources.user_holder(), whose, LimitName::MaxSubmitJobs, most));
    }
    if let Some((qos, most)) = sources.of_qos(|l| l.max_submit_jobs_per_account) {
        let (holder, whose) = sources.qos_account(qos);
        found.push((true, holder, whose, LimitName::MaxSubmitJobsPerAccount, most));
    }
    let over = found.into_iter().filter_map(|(of_qos, holder, whose, limit, most)| {
        let used = limits.state.usage.get(&holder).map_or(0, |tally| tally.submitted);
        (used.saturating_add(count) > most).then(|| {
            let (most, used, asked) = (u64::from(most), u64::from(used), u64::from(count));
            let hit = LimitHit { limit, tres: None, whose, most, used, asked };
            if of_qos { Reason::QosLimit(hit) } else { Reason::AssociationLimit(hit) }
        })
    });
    over.collect()
}

/// The limits that the job breaks though nothing else is there.
fn alone(state: &State, now: Timestamp, spec: &JobSpec, partition: &str) -> Vec<Reason> {
    let mut empty = state.clone();
    empty.usage.clear();
    empty.index.active.clear();
    let limits = Limits::new(&empty, now);
    let Some(of) = empty.partitions.get(partition) else { return Vec::new() };
    let tres = least(&empty, spec, of);
    let limit = spec.time_limit.unwrap_or_else(|| of.default_time());
    let nodes = super::each_node(&tres);
    let asked = Asked { partition, tres, nodes, limit };
    let sources = limits.sources(spec, partition);
    let mut check = Check { limits: &limits, sources, asked: &asked, broken: Vec::new() };
    check.all();
    check.broken
}
