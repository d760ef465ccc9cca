//! Accounts, users, qualities of service and what makes jobs important, from words.
//!
//! Limits are named as in Slurm, in lower case with dashes: `grp-tres=cpu=8,gres/gpu=4`,
//! `max-jobs=2`, `max-wall=60` (minutes).

use crate::error::{Fault, Read, ScenarioError};
use crate::preempt;
use crate::text::{Word, choice, count_or_none, fields, limit, memory, named, number, yes};
use crate::topology::is_above_itself;
use muster_model::{
    Account, AssociationLimits, BillingMode, BillingWeight, BillingWeights, EventKind,
    FairShareMode, Member, OrderMode, Policy, Qos, QosLimits, Seconds, Shares, State, Tres,
    TresKind, UsageReset,
};

/// Limits that accounts, users and qualities of service all have.
const COMMON: [&str; 8] = [
    "grp-jobs",
    "grp-submit-jobs",
    "grp-tres",
    "grp-tres-mins",
    "grp-tres-run-mins",
    "grp-wall",
    "max-tres-per-node",
    "max-wall",
];

const ASSOCIATION: [&str; 4] = ["max-jobs", "max-submit-jobs", "max-tres", "max-tres-mins"];

const QOS: &[&str] = &[
    "priority",
    "usage-factor",
    "flags",
    "preempts",
    "preempt",
    "grace",
    "exempt",
    "max-jobs-per-user",
    "max-jobs-per-account",
    "max-submit-jobs-per-user",
    "max-submit-jobs-per-account",
    "max-tres-per-user",
    "max-tres-per-account",
    "max-tres-per-job",
    "max-tres-mins-per-job",
    "min-tres-per-job",
    "min-prio-threshold",
];

/// The fields that `whose` lacks `key` among.
fn unknown(whose: &str, key: &str, own: &[&str]) -> ScenarioError {
    ScenarioError::option(whose, key, &[own, &COMMON].concat())
}

fn kind(name: &str) -> Read<TresKind> {
    name.parse().map_err(|_| {
        ScenarioError::value(name, "something that is counted")
            .hint("write cpu, mem, node, billing, gres/gpu, gres/NAME or license/NAME")
    })
}

/// `cpu=8,gres/gpu=4`: what is counted, and how much of it.
fn amounts(text: &str) -> Read<Vec<(TresKind, &str)>> {
    let mut all = Vec::new();
    for item in text.split(',') {
        let parts = item.rsplit_once('=');
        let (name, amount) = parts.ok_or_else(|| ScenarioError::value(item, "KIND=AMOUNT"))?;
        all.push((kind(name)?, amount));
    }
    Ok(all)
}

fn tres(text: &str) -> Read<Tres> {
    let one = |(kind, amount): (TresKind, &str)| {
        let amount = match kind {
            TresKind::Mem => memory(amount)?.0,
            _ => u64::from(number::<u32>(amount)?),
        };
        Ok((kind, amount))
    };
    amounts(text)?.into_iter().map(one).collect()
}

fn shares(text: &str) -> Read<Shares> {
    Ok(if text == "parent" { Shares::Parent } else { Shares::Of(number(text)?) })
}

fn wall(text: &str) -> Read<Option<Seconds>> {
    Ok(limit(text)?.seconds())
}

/// Sets a limit that associations and qualities of service both have; false for another word.
macro_rules! common_limit {
    ($limits:expr, $key:expr, $value:expr) => {
        match $key {
            "grp-jobs" => $limits.group.jobs = Some(number($value)?),
            "grp-submit-jobs" => $limits.group.submit_jobs = Some(number($value)?),
            "grp-tres" => $limits.group.tres = tres($value)?,
            "grp-tres-mins" => $limits.group.tres_mins = tres($value)?,
            "grp-tres-run-mins" => $limits.group.tres_run_mins = tres($value)?,
            "grp-wall" => $limits.group.wall = wall($value)?,
            "max-tres-per-node" => $limits.max_tres_per_node = tres($value)?,
            "max-wall" => $limits.max_wall = wall($value)?,
            _ => return Ok(false),
        }
    };
}

fn association(limits: &mut AssociationLimits, key: &str, value: &str) -> Read<bool> {
    match key {
        "max-jobs" => limits.max_jobs = Some(number(value)?),
        "max-submit-jobs" => limits.max_submit_jobs = Some(number(value)?),
        "max-tres" => limits.max_tres = tres(value)?,
        "max-tres-mins" => limits.max_tres_mins = tres(value)?,
        _ => common_limit!(limits, key, value),
    }
    Ok(true)
}

fn of_qos(limits: &mut QosLimits, key: &str, value: &str) -> Read<bool> {
    match key {
        "max-jobs-per-user" => limits.max_jobs_per_user = Some(number(value)?),
        "max-jobs-per-account" => limits.max_jobs_per_account = Some(number(value)?),
        "max-submit-jobs-per-user" => limits.max_submit_jobs_per_user = Some(number(value)?),
        "max-submit-jobs-per-account" => limits.max_submit_jobs_per_account = Some(number(value)?),
        "max-tres-per-user" => limits.max_tres_per_user = tres(value)?,
        "max-tres-per-account" => limits.max_tres_per_account = tres(value)?,
        "max-tres-per-job" => limits.max_tres_per_job = tres(value)?,
        "max-tres-mins-per-job" => limits.max_tres_mins_per_job = tres(value)?,
        "min-tres-per-job" => limits.min_tres_per_job = tres(value)?,
        "min-prio-threshold" => limits.min_prio_threshold = Some(number(value)?),
        _ => common_limit!(limits, key, value),
    }
    Ok(true)
}

/// `account NAME parent=P shares=N LIMIT=…`; what is not said stays.
pub(crate) fn account(state: &State, words: &[Word]) -> Read<EventKind> {
    let (name, rest) = named(words, "account NAME parent=NAME shares=N ...")?;
    let mut account = account_named(state, name);
    fields(rest, |key, value| {
        match key {
            "parent" => account.parent = Some(value.to_owned()),
            "shares" => account.shares = shares(value)?,
            "priority" => account.priority = Some(count_or_none(value)?),
            _ => {
                if !preempt::account_field(&mut account, key, value)?
                    && !association(&mut account.limits, key, value)?
                {
                    let own =
                        [&["parent", "shares", "priority", "guarantee-gpus"][..], &ASSOCIATION]
                            .concat();
                    return Err(unknown("an account", key, &own));
                }
            }
        }
        Ok(())
    })?;
    let above = |of: &str| match of == name {
        true => account.parent.clone(),
        false => state.accounts.get(of).and_then(|account| account.parent.clone()),
    };
    if is_above_itself(name, above) {
        let message = format!("account {name} would be above itself");
        return Err(ScenarioError::new(Fault::Order, message).hint("name another parent"));
    }
    Ok(EventKind::AccountSet { account })
}

/// `user NAME account=A shares=N LIMIT=…`.
pub(crate) fn user(state: &State, words: &[Word]) -> Read<EventKind> {
    let (name, rest) = named(words, "user NAME account=NAME ...")?;
    let of = rest.iter().map(Word::field).find(|(key, _)| *key == "account");
    let of = of.ok_or_else(|| {
        ScenarioError::new(Fault::Command, "a user belongs to an account")
            .hint("write user NAME account=NAME")
    })?;
    let mut account = account_named(state, of.1);
    let mut member: Member = account.members.get(name).cloned().unwrap_or_default();
    fields(rest, |key, value| {
        match key {
            "account" => {}
            "shares" => member.shares = shares(value)?,
            "priority" => member.priority = Some(count_or_none(value)?),
            _ => {
                if !association(&mut member.limits, key, value)? {
                    let own = [&["account", "shares", "priority"][..], &ASSOCIATION].concat();
                    return Err(unknown("a user", key, &own));
                }
            }
        }
        Ok(())
    })?;
    account.members.insert(name.to_owned(), member);
    Ok(EventKind::AccountSet { account })
}

fn account_named(state: &State, name: &str) -> Account {
    let new = || Account { name: name.to_owned(), ..Account::default() };
    state.accounts.get(name).map_or_else(new, |account| account.as_ref().clone())
}

/// `qos NAME priority=N LIMIT=… flags=no-decay,deny-on-limit usage-factor=2500` (thousandths).
pub(crate) fn qos(state: &State, words: &[Word]) -> Read<EventKind> {
    let (name, rest) = named(words, "qos NAME priority=N ...")?;
    let new = || Qos { name: name.to_owned(), ..Qos::default() };
    let mut qos = state.qos.get(name).map_or_else(new, |qos| qos.as_ref().clone());
    fields(rest, |key, value| {
        match key {
            "priority" => qos.priority = number(value)?,
            "usage-factor" => qos.usage_factor = Some(number(value)?),
            "flags" => value.split(',').try_for_each(|flag| qos_flag(&mut qos, flag))?,
            _ => {
                if !preempt::qos_field(&mut qos, key, value)?
                    && !of_qos(&mut qos.limits, key, value)?
                {
                    return Err(unknown("a QOS", key, QOS));
                }
            }
        }
        Ok(())
    })?;
    Ok(EventKind::QosSet { qos })
}

fn qos_flag(qos: &mut Qos, flag: &str) -> Read<()> {
    let flags = &mut qos.flags;
    match flag {
        "deny-on-limit" => flags.deny_on_limit = true,
        "no-decay" => flags.no_decay = true,
        "partition-time-limit" => flags.partition_time_limit = true,
        "over-part-qos" => flags.over_part_qos = true,
        "usage-factor-safe" => flags.usage_factor_safe = true,
        _ => {
            return Err(ScenarioError::value(flag, "a flag of a QOS").hint(
                "write deny-on-limit, no-decay, partition-time-limit, over-part-qos or \
                 usage-factor-safe",
            ));
        }
    }
    Ok(())
}

/// `cpu=1,mem=0.25G,gres/gpu=4`: six places after the point at most.
pub(crate) fn billing(text: &str) -> Read<BillingWeights> {
    let one = |(kind, weight): (TresKind, &str)| {
        let (weight, per) = match weight.strip_suffix('G') {
            Some(weight) => (weight, 1024),
            None => (weight, 1),
        };
        let (whole, part) = weight.split_once('.').unwrap_or((weight, "0"));
        if part.len() > 6 {
            return Err(ScenarioError::value(weight, "a weight of at most six places"));
        }
        let part: u32 = number(&format!("{part:0<6}"))?;
        let micro = u64::from(number::<u32>(whole)?) * 1_000_000 + u64::from(part);
        Ok((kind, BillingWeight { micro, per }))
    };
    Ok(BillingWeights(amounts(text)?.into_iter().map(one).collect::<Read<_>>()?))
}

/// A word of `policy` about priority; says whether it is one.
pub(crate) fn priority(policy: &mut Policy, key: &str, value: &str) -> Read<bool> {
    let of = &mut policy.priority;
    match key {
        "order" => {
            let among = [
                ("fifo", OrderMode::Fifo),
                ("multifactor", OrderMode::Multifactor),
                ("slowdown", OrderMode::Slowdown),
            ];
            policy.order = choice("an order", value, &among)?;
        }
        "guard-first" => policy.wait_guard.first = count_or_none(value)?,
        "guard-promise" => policy.wait_guard.promised = count_or_none(value)?,
        "guard-memory" => policy.wait_guard.memory = limit(value)?.seconds().unwrap_or_default(),
        "age" => of.weights.age = count_or_none(value)?,
        "association" => of.weights.association = count_or_none(value)?,
        "fair-share" => of.weights.fair_share = count_or_none(value)?,
        "job-size" => of.weights.job_size = count_or_none(value)?,
        "partition" => of.weights.partition = count_or_none(value)?,
        "qos" => of.weights.qos = count_or_none(value)?,
        "tres" => {
            for (kind, weight) in amounts(value)? {
                of.weights.tres.insert(kind, count_or_none(weight)?);
            }
        }
        "max-age" => of.max_age = limit(value)?.seconds().unwrap_or_default(),
        "half-life" => of.half_life = limit(value)?.seconds(),
        "fair-share-mode" => {
            let among = [("classic", FairShareMode::Classic), ("tree", FairShareMode::Tree)];
            of.fair_share = choice("a kind of fair share", value, &among)?;
        }
        "usage-reset" => {
            let among = [
                ("never", UsageReset::Never),
                ("daily", UsageReset::Daily),
                ("weekly", UsageReset::Weekly),
                ("monthly", UsageReset::Monthly),
                ("quarterly", UsageReset::Quarterly),
                ("yearly", UsageReset::Yearly),
            ];
            of.usage_reset = choice("a time to forget use", value, &among)?;
        }
        "favour-small" => of.favour_small = yes(value)?,
        "billing" => {
            let among = [
                ("sum", BillingMode::Sum),
                ("max", BillingMode::Max),
                ("max-gres", BillingMode::MaxGres),
            ];
            of.billing = choice("a kind of billing", value, &among)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
