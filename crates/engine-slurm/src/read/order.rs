//! In which order jobs are looked at: as Slurm has put them, or by a policy of muster's with the
//! shares, the use and the weights that Slurm has.

use super::associations::Associations;
use muster_model::priority::{FairShareMode, PriorityPolicy, UsageReset, Weights};
use muster_model::{
    Account, AssociationLimits, BillingMode, Holder, Member, OrderMode, Policy, QosLimits, Seconds,
    State, Tally, TimeLimit, Timestamp, TresKind,
};
use muster_slurm_syntax::duration;
use std::sync::Arc;

/// Whose order it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Slurm's: the priorities that it has given.
    #[default]
    Slurm,
    /// Multifactor priority worked out by muster with Slurm's weights, shares and past use.
    Multifactor,
    /// Fair share alone: who used least of their share by Slurm's records comes first.
    FairShare,
    /// Partition tier, then QOS, then the time of submission.
    Fifo,
}

/// What fair share counts for where nothing else does.
const ALONE: u32 = 1_000_000;

impl Order {
    /// What this order makes of a policy.
    pub(super) fn policy(self, site: &PriorityPolicy) -> Policy {
        let fair_share = Weights { fair_share: ALONE, ..Weights::default() };
        // What a job is billed at, limits count in every order.
        let billing = site.billing;
        match self {
            Self::Slurm | Self::Fifo => Policy {
                priority: PriorityPolicy { billing, ..PriorityPolicy::default() },
                ..Policy::default()
            },
            Self::Multifactor => Policy {
                order: OrderMode::Multifactor,
                priority: site.clone(),
                ..Policy::default()
            },
            Self::FairShare => Policy {
                order: OrderMode::Multifactor,
                priority: PriorityPolicy { weights: fair_share, ..site.clone() },
                ..Policy::default()
            },
        }
    }

    /// True where Slurm's own priorities stand.
    pub(super) const fn is_slurms(self) -> bool {
        matches!(self, Self::Slurm)
    }
}

/// How Slurm weighs (`Priority*` of its configuration), a line at a time.
pub(super) fn take(policy: &mut PriorityPolicy, key: &str, value: &str) {
    let number = || value.parse::<u32>().unwrap_or(0);
    let time = || match duration::parse_limit(value) {
        Ok(TimeLimit::Of(time)) if time.0 > 0 => Some(time),
        _ => None,
    };
    let weights = &mut policy.weights;
    match key {
        "PriorityWeightAge" => weights.age = number(),
        "PriorityWeightAssoc" => weights.association = number(),
        "PriorityWeightFairShare" => weights.fair_share = number(),
        "PriorityWeightJobSize" => weights.job_size = number(),
        "PriorityWeightPartition" => weights.partition = number(),
        "PriorityWeightQOS" => weights.qos = number(),
        "PriorityWeightTRES" => {
            let weight = |entry: &str| {
                let (kind, weight) = entry.split_once('=')?;
                Some((kind.parse::<TresKind>().ok()?, weight.parse().ok()?))
            };
            weights.tres = value.split(',').filter_map(weight).collect();
        }
        "PriorityDecayHalfLife" => policy.half_life = time(),
        "PriorityMaxAge" => policy.max_age = time().unwrap_or(Seconds(7 * 86_400)),
        "PriorityFavorSmall" => policy.favour_small = value.eq_ignore_ascii_case("yes"),
        "FairShareDampeningFactor" => policy.dampening = number().max(1),
        "PriorityUsageResetPeriod" => {
            policy.usage_reset = match value.to_ascii_uppercase().as_str() {
                "DAILY" => UsageReset::Daily,
                "WEEKLY" => UsageReset::Weekly,
                "MONTHLY" => UsageReset::Monthly,
                "QUARTERLY" => UsageReset::Quarterly,
                "YEARLY" => UsageReset::Yearly,
                _ => UsageReset::Never,
            }
        }
        "PriorityFlags" => {
            let has = |flag: &str| value.split(',').any(|own| own.trim() == flag);
            policy.accrue_always = has("ACCRUE_ALWAYS");
            policy.size_over_time = has("SMALL_RELATIVE_TO_TIME");
            policy.billing = match (has("MAX_TRES_GRES"), has("MAX_TRES")) {
                (true, _) => BillingMode::MaxGres,
                (false, true) => BillingMode::Max,
                (false, false) => BillingMode::Sum,
            };
            if has("NO_FAIR_TREE") {
                policy.fair_share = FairShareMode::Classic;
            }
        }
        _ => {}
    }
}

/// Without limits, where Slurm does not hold anybody to them.
pub(super) fn unlimited(account: Account) -> Account {
    let free = |(user, member): (String, Member)| {
        (user, Member { limits: AssociationLimits::default(), ..member })
    };
    let members = account.members.into_iter().map(free).collect();
    Account { members, limits: AssociationLimits::default(), ..account }
}

/// As [`unlimited`].
pub(super) fn unlimited_qos(qos: muster_model::Qos) -> muster_model::Qos {
    muster_model::Qos { limits: QosLimits::default(), ..qos }
}

/// Puts what Slurm has billed to accounts, users and QOS in place of what running jobs came to:
/// Slurm's use has these in it.
pub(super) fn used(state: &mut State, associations: &Associations, now: Timestamp) {
    let rows = associations.rows.iter().map(|row| {
        let account = row.account.clone();
        let holder = match row.user.clone() {
            Some(user) => Holder::User { account, user },
            None => Holder::Account(account),
        };
        (holder, row.usage)
    });
    let qos = associations.qos.iter().map(|(qos, used)| (Holder::Qos(qos.name.clone()), *used));
    for (holder, seconds) in rows.chain(qos) {
        let mut tally = state.usage.get(&holder).map_or_else(Tally::default, |t| (**t).clone());
        tally.as_of = now;
        // Meters count thousandths of a unit times milliseconds.
        let billed = u128::from(seconds) * 1_000_000;
        tally.spent.tres.insert(TresKind::Billing, billed);
        state.usage.insert(holder, Arc::new(tally));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Config;

    #[test]
    fn the_weights_are_those_that_slurm_tells() {
        let text = "PriorityDecayHalfLife   = 14-00:00:00\nPriorityFavorSmall = Yes\n\
            PriorityFlags = ACCRUE_ALWAYS,NO_FAIR_TREE\nPriorityMaxAge = 1-00:00:00\n\
            PriorityUsageResetPeriod = MONTHLY\nPriorityWeightAge = 1000\n\
            PriorityWeightFairShare = 10000\nPriorityWeightQOS = 7\n\
            PriorityWeightTRES = CPU=5,GRES/gpu=300,odd=1\nFairShareDampeningFactor = 3\n";
        let found = Config::of(text).weighing;
        assert_eq!(found.half_life, Some(Seconds(14 * 86_400)));
        assert_eq!((found.max_age, found.dampening), (Seconds(86_400), 3));
        assert!(found.favour_small && found.accrue_always && !found.size_over_time);
        assert_eq!(found.fair_share, FairShareMode::Classic);
        assert_eq!(found.usage_reset, UsageReset::Monthly);
        let weights = found.weights;
        assert_eq!((weights.age, weights.fair_share, weights.qos), (1000, 10_000, 7));
        assert_eq!(weights.tres[&TresKind::Gpu(None)], 300);
        assert_eq!(weights.tres.len(), 2);
        assert_eq!(Config::of("PriorityDecayHalfLife = 00:00:00").weighing.half_life, None);
    }
}
