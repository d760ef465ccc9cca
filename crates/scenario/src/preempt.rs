//! Preemption and quotas as words of a fixture; durations are minutes.
//!
//! ```text
//! qos high preempts=low,normal
//! qos low preempt=requeue grace=2 exempt=10
//! partition main preempt=suspend
//! account physics guarantee-gpus=4
//! budget web jobs=app=web allowed=1
//! policy preempt=requeue tiers=yes reclaim=requeue victims=least-lost
//! ```

use crate::affinity::term;
use crate::error::{Read, ScenarioError};
use crate::text::{Word, choice, count_or_none, duration, fields, list, memory, named, yes};
use muster_model::{
    Account, DisruptionBudget, EventKind, Policy, PreemptMode, PreemptRules, Qos, QuotaAmount,
    VictimOrder,
};

fn mode(word: &str) -> Read<PreemptMode> {
    let among = [
        ("off", PreemptMode::Off),
        ("cancel", PreemptMode::Cancel),
        ("requeue", PreemptMode::Requeue),
        ("checkpoint", PreemptMode::Checkpoint),
        ("suspend", PreemptMode::Suspend),
    ];
    choice("a mode of preemption", word, &among)
}

/// A word of a `qos` or `partition` line about preemption; false where it is none of these.
pub(crate) fn rules_field(rules: &mut PreemptRules, key: &str, value: &str) -> Read<bool> {
    match key {
        "preempt" => rules.mode = Some(mode(value)?),
        "grace" => rules.grace = Some(duration(value)?),
        "exempt" => rules.exempt = Some(duration(value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// A word of a `qos` line; false where it is none of these.
pub(crate) fn qos_field(qos: &mut Qos, key: &str, value: &str) -> Read<bool> {
    if key == "preempts" {
        qos.preempts = list(value).collect();
        return Ok(true);
    }
    rules_field(&mut qos.preempt, key, value)
}

/// A word of an `account` line; false where it is none of these.
pub(crate) fn account_field(account: &mut Account, key: &str, value: &str) -> Read<bool> {
    let Some(resource) = key.strip_prefix("guarantee-") else { return Ok(false) };
    let amount = account.quota.guarantee.get_or_insert_with(QuotaAmount::default);
    match resource {
        "cpus" => amount.cpus = Some(count_or_none(value)?.into()),
        "gpus" => amount.gpus = Some(count_or_none(value)?.into()),
        "mem" => amount.memory = Some(memory(value)?),
        _ => {
            let known = ["guarantee-cpus", "guarantee-gpus", "guarantee-mem"];
            return Err(ScenarioError::option("an account", key, &known));
        }
    }
    Ok(true)
}

/// A word of a `policy` line; false where it is none of these.
pub(crate) fn policy_field(policy: &mut Policy, key: &str, value: &str) -> Read<bool> {
    let preemption = &mut policy.preemption;
    match key {
        "preempt" => preemption.mode = mode(value)?,
        "reclaim" => preemption.reclaim = mode(value)?,
        "reservations" => preemption.reservations = yes(value)?,
        "priorities" => preemption.priorities = yes(value)?,
        "tiers" => preemption.tiers = yes(value)?,
        "grace" => preemption.grace = duration(value)?,
        "exempt" => preemption.exempt = duration(value)?,
        "grow-after" => preemption.grow_after = duration(value)?,
        "victims" => {
            let among = [("fewest", VictimOrder::Fewest), ("least-lost", VictimOrder::LeastLost)];
            preemption.order = choice("an order of victims", value, &among)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// `budget web jobs=app=web allowed=1`.
pub(crate) fn budget(words: &[Word]) -> Read<EventKind> {
    let (name, rest) = named(words, "budget NAME jobs=LABELS allowed=N")?;
    let mut budget = DisruptionBudget { name: name.to_owned(), ..DisruptionBudget::default() };
    fields(rest, |key, value| {
        match key {
            "jobs" => budget.jobs = term(value),
            "allowed" => budget.allowed = count_or_none(value)?,
            _ => return Err(ScenarioError::option("a budget", key, &["jobs", "allowed"])),
        }
        Ok(())
    })?;
    Ok(EventKind::BudgetSet { budget })
}
