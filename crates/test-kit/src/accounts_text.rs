//! Accounts, users, qualities of service and what makes jobs important, from words.
//!
//! Limits are named as in Slurm, in lower case with dashes: `grp-tres=cpu=8,gres/gpu=4`,
//! `max-jobs=2`, `max-wall=60` (minutes).

use crate::fixture::minutes;
use crate::preempt_text;
use crate::text::{field, memory, number};
use muster_model::{
    Account, AssociationLimits, BillingMode, BillingWeight, BillingWeights, EventKind,
    FairShareMode, Member, OrderMode, Policy, Qos, QosLimits, Seconds, Shares, State, Tres,
    TresKind, UsageReset,
};

fn tres(text: &str) -> Tres {
    let one = |item: &str| {
        let (name, amount) = item.rsplit_once('=').unwrap_or_else(|| panic!("KIND=AMOUNT"));
        let kind: TresKind = name.parse().unwrap_or_else(|e| panic!("{e}"));
        let amount = if kind == TresKind::Mem { memory(amount).0 } else { number(amount) };
        (kind, amount)
    };
    text.split(',').map(one).collect()
}

fn shares(text: &str) -> Shares {
    if text == "parent" { Shares::Parent } else { Shares::Of(number(text)) }
}

fn wall(text: &str) -> Option<Seconds> {
    minutes(text).seconds()
}

/// Sets a limit that associations and qualities of service both have.
macro_rules! common_limit {
    ($limits:expr, $key:expr, $value:expr) => {
        match $key {
            "grp-jobs" => $limits.grp_jobs = Some(number($value)),
            "grp-submit-jobs" => $limits.grp_submit_jobs = Some(number($value)),
            "grp-tres" => $limits.grp_tres = tres($value),
            "grp-tres-mins" => $limits.grp_tres_mins = tres($value),
            "grp-tres-run-mins" => $limits.grp_tres_run_mins = tres($value),
            "grp-wall" => $limits.grp_wall = wall($value),
            "max-tres-per-node" => $limits.max_tres_per_node = tres($value),
            "max-wall" => $limits.max_wall = wall($value),
            key => panic!("no limit {key:?}"),
        }
    };
}

fn association(limits: &mut AssociationLimits, key: &str, value: &str) {
    match key {
        "max-jobs" => limits.max_jobs = Some(number(value)),
        "max-submit-jobs" => limits.max_submit_jobs = Some(number(value)),
        "max-tres" => limits.max_tres = tres(value),
        "max-tres-mins" => limits.max_tres_mins = tres(value),
        _ => common_limit!(limits, key, value),
    }
}

fn of_qos(limits: &mut QosLimits, key: &str, value: &str) {
    match key {
        "max-jobs-per-user" => limits.max_jobs_per_user = Some(number(value)),
        "max-jobs-per-account" => limits.max_jobs_per_account = Some(number(value)),
        "max-submit-jobs-per-user" => limits.max_submit_jobs_per_user = Some(number(value)),
        "max-submit-jobs-per-account" => limits.max_submit_jobs_per_account = Some(number(value)),
        "max-tres-per-user" => limits.max_tres_per_user = tres(value),
        "max-tres-per-account" => limits.max_tres_per_account = tres(value),
        "max-tres-per-job" => limits.max_tres_per_job = tres(value),
        "max-tres-mins-per-job" => limits.max_tres_mins_per_job = tres(value),
        "min-tres-per-job" => limits.min_tres_per_job = tres(value),
        "min-prio-threshold" => limits.min_prio_threshold = Some(number(value)),
        _ => common_limit!(limits, key, value),
    }
}

/// `account NAME parent=P shares=N LIMIT=…`; what is not said stays.
pub(crate) fn account(state: &State, words: &[String]) -> EventKind {
    let (name, fields) = words.split_first().unwrap_or_else(|| panic!("account NAME ..."));
    let mut account = account_named(state, name);
    for (key, value) in fields.iter().map(|w| field(w)) {
        match key {
            _ if preempt_text::account_field(&mut account, key, value) => {}
            "parent" => account.parent = Some(value.to_owned()),
            "shares" => account.shares = shares(value),
            _ => association(&mut account.limits, key, value),
        }
    }
    EventKind::AccountSet { account }
}

/// `user NAME account=A shares=N LIMIT=…`.
pub(crate) fn user(state: &State, words: &[String]) -> EventKind {
    let (name, fields) = words.split_first().unwrap_or_else(|| panic!("user NAME account=A ..."));
    let of = fields.iter().map(|w| field(w)).find(|(key, _)| *key == "account");
    let mut account = account_named(state, of.unwrap_or_else(|| panic!("account=A")).1);
    let mut member: Member = account.members.get(name).cloned().unwrap_or_default();
    for (key, value) in fields.iter().map(|w| field(w)) {
        match key {
            "account" => {}
            "shares" => member.shares = shares(value),
            _ => association(&mut member.limits, key, value),
        }
    }
    account.members.insert(name.clone(), member);
    EventKind::AccountSet { account }
}

fn account_named(state: &State, name: &str) -> Account {
    let new = || Account { name: name.to_owned(), ..Account::default() };
    state.accounts.get(name).map_or_else(new, |account| account.as_ref().clone())
}

/// `qos NAME priority=N LIMIT=… flags=no-decay,deny-on-limit usage-factor=2500` (thousandths).
pub(crate) fn qos(state: &State, words: &[String]) -> EventKind {
    let (name, fields) = words.split_first().unwrap_or_else(|| panic!("qos NAME ..."));
    let new = || Qos { name: name.clone(), ..Qos::default() };
    let mut qos = state.qos.get(name).map_or_else(new, |qos| qos.as_ref().clone());
    for (key, value) in fields.iter().map(|w| field(w)) {
        match key {
            _ if preempt_text::qos_field(&mut qos, key, value) => {}
            "priority" => qos.priority = number(value),
            "usage-factor" => qos.usage_factor = Some(number(value)),
            "flags" => {
                for flag in value.split(',') {
                    let flags = &mut qos.flags;
                    *match flag {
                        "deny-on-limit" => &mut flags.deny_on_limit,
                        "no-decay" => &mut flags.no_decay,
                        "partition-time-limit" => &mut flags.partition_time_limit,
                        "over-part-qos" => &mut flags.over_part_qos,
                        "usage-factor-safe" => &mut flags.usage_factor_safe,
                        _ => panic!("no flag {flag:?}"),
                    } = true;
                }
            }
            _ => of_qos(&mut qos.limits, key, value),
        }
    }
    EventKind::QosSet { qos }
}

/// `cpu=1,mem=0.25G,gres/gpu=4`: three places after the point at most.
pub(crate) fn billing(text: &str) -> BillingWeights {
    let one = |item: &str| {
        let (name, weight) = item.rsplit_once('=').unwrap_or_else(|| panic!("KIND=WEIGHT"));
        let (weight, per) = match weight.strip_suffix('G') {
            Some(weight) => (weight, 1024),
            None => (weight, 1),
        };
        let (whole, part) = weight.split_once('.').unwrap_or((weight, "0"));
        let part: u64 = number(&format!("{part:0<6}"));
        let micro = number::<u64>(whole) * 1_000_000 + part;
        (name.parse().unwrap_or_else(|e| panic!("{e}")), BillingWeight { micro, per })
    };
    BillingWeights(text.split(',').map(one).collect())
}

/// A word of `policy` about priority; says whether it is one.
pub(crate) fn priority(policy: &mut Policy, key: &str, value: &str) -> bool {
    let of = &mut policy.priority;
    match key {
        "order" if value == "fifo" => policy.order = OrderMode::Fifo,
        "order" if value == "multifactor" => policy.order = OrderMode::Multifactor,
        "age" => of.weights.age = number(value),
        "fair-share" => of.weights.fair_share = number(value),
        "job-size" => of.weights.job_size = number(value),
        "partition" => of.weights.partition = number(value),
        "qos" => of.weights.qos = number(value),
        "tres" => {
            for (kind, weight) in tres(value).iter() {
                of.weights.tres.insert(kind.clone(), weight as u32);
            }
        }
        "max-age" => of.max_age = minutes(value).seconds().unwrap_or_default(),
        "half-life" => of.half_life = minutes(value).seconds(),
        "fair-share-mode" if value == "classic" => of.fair_share = FairShareMode::Classic,
        "fair-share-mode" => of.fair_share = FairShareMode::Tree,
        "usage-reset" if value == "daily" => of.usage_reset = UsageReset::Daily,
        "favour-small" => of.favour_small = value == "yes",
        "billing" if value == "max" => of.billing = BillingMode::Max,
        _ => return false,
    }
    true
}
