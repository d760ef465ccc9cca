//! Preemption and quotas as words of a fixture; durations are minutes.
//!
//! ```text
//! qos high preempts=low,normal
//! qos low preempt=requeue grace=2 exempt=10
//! partition main preempt=suspend
//! account physics guarantee-gpus=4
//! policy preempt=requeue tiers=yes reclaim=requeue victims=least-lost
//! ```

use crate::text::{memory, number};
use muster_model::{
    Account, Partition, Policy, PreemptMode, PreemptRules, Qos, QuotaAmount, Seconds, VictimOrder,
};

fn mode(word: &str) -> PreemptMode {
    match word {
        "off" => PreemptMode::Off,
        "cancel" => PreemptMode::Cancel,
        "requeue" => PreemptMode::Requeue,
        "checkpoint" => PreemptMode::Checkpoint,
        "suspend" => PreemptMode::Suspend,
        _ => panic!("no preemption mode {word:?}"),
    }
}

fn minutes(word: &str) -> Seconds {
    Seconds::minutes(number(word))
}

fn rules_field(rules: &mut PreemptRules, key: &str, value: &str) -> bool {
    match key {
        "preempt" => rules.mode = Some(mode(value)),
        "grace" => rules.grace = Some(minutes(value)),
        "exempt" => rules.exempt = Some(minutes(value)),
        _ => return false,
    }
    true
}

/// A word of a `qos` line; false where it is none of these.
pub(crate) fn qos_field(qos: &mut Qos, key: &str, value: &str) -> bool {
    if key == "preempts" {
        qos.preempts = value.split(',').map(str::to_owned).collect();
        return true;
    }
    rules_field(&mut qos.preempt, key, value)
}

/// A word of a `partition` line; false where it is none of these.
pub(crate) fn partition_field(partition: &mut Partition, key: &str, value: &str) -> bool {
    rules_field(&mut partition.preempt, key, value)
}

/// A word of an `account` line; false where it is none of these.
pub(crate) fn account_field(account: &mut Account, key: &str, value: &str) -> bool {
    let Some(resource) = key.strip_prefix("guarantee-") else { return false };
    let amount = account.quota.guarantee.get_or_insert_with(QuotaAmount::default);
    match resource {
        "cpus" => amount.cpus = Some(number(value)),
        "gpus" => amount.gpus = Some(number(value)),
        "mem" => amount.memory = Some(memory(value)),
        _ => return false,
    }
    true
}

/// A word of a `policy` line; false where it is none of these.
pub(crate) fn policy_field(policy: &mut Policy, key: &str, value: &str) -> bool {
    let preemption = &mut policy.preemption;
    match key {
        "preempt" => preemption.mode = mode(value),
        "reclaim" => preemption.reclaim = mode(value),
        "tiers" => preemption.tiers = value == "yes",
        "grace" => preemption.grace = minutes(value),
        "exempt" => preemption.exempt = minutes(value),
        "victims" => {
            preemption.order = match value {
                "fewest" => VictimOrder::Fewest,
                "least-lost" => VictimOrder::LeastLost,
                _ => panic!("no order of victims {value:?}"),
            }
        }
        _ => return false,
    }
    true
}
