//! Use by association and quality of service: what is held now, and what was used.
//!
//! A [`Tally`] holds counts of jobs, the resources that they hold, and *meters*: resource time,
//! decayed by the policy's half-life. Meters are brought up to date only when something of theirs
//! changes; between, they are a function of the instant ([`State::spent`]), so running jobs count as
//! they run. Counts follow from jobs and rules and are made anew from them; meters are stored.
//!
//! Meters count in thousandths of a unit times milliseconds, with the usage factor of the job's QOS
//! in them.

mod ledger;
mod reset;

pub use ledger::StoredTally;
pub use reset::UsageReset;

use crate::decay::{accrued_ms, decayed};
use crate::{Placement, State, Timestamp, Tres, TresKind, is_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Whose use is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// An account with all beneath it.
    Account(String),
    /// A user in an account: an association.
    User {
        /// The account.
        account: String,
        /// The user.
        user: String,
    },
    /// A quality of service.
    Qos(String),
    /// A user in a quality of service; nothing is metered.
    QosUser {
        /// The quality of service.
        qos: String,
        /// The user.
        user: String,
    },
    /// An account in a quality of service; nothing is metered.
    QosAccount {
        /// The quality of service.
        qos: String,
        /// The account.
        account: String,
    },
}

/// What a holder has now, and has used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Jobs that have resources.
    pub running: u32,
    /// Jobs that wait or have resources.
    pub submitted: u32,
    /// What its jobs have.
    pub in_use: Tres,
    /// What its meters rise by in a millisecond, in thousandths of a unit.
    pub rate: Tres,
    /// Jobs whose wall clock time is metered.
    pub clocks: u32,
    /// The instant of the meters.
    pub as_of: Timestamp,
    /// The meters at that instant.
    pub spent: Spent,
}

/// Meters at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Thousandths of a unit times milliseconds, by kind.
    #[serde(with = "wide", skip_serializing_if = "is_default")]
    pub tres: BTreeMap<TresKind, u128>,
    /// Wall clock milliseconds of all jobs together.
    #[serde(skip_serializing_if = "is_default")]
    pub wall_ms: u64,
}

/// Numbers that may be wider than JSON readers take, as texts.
mod wide {
    use super::TresKind;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::BTreeMap;

    pub(super) fn serialize<S: Serializer>(
        map: &BTreeMap<TresKind, u128>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(map.iter().map(|(kind, n)| (kind, n.to_string())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<TresKind, u128>, D::Error> {
        let texts = BTreeMap::<TresKind, String>::deserialize(deserializer)?;
        let number = |(kind, text): (TresKind, String)| {
            Ok((kind, text.parse().map_err(|_| D::Error::custom("expected a whole number"))?))
        };
        texts.into_iter().map(number).collect()
    }
}

impl Spent {
    /// Whole minutes of a kind's units, cut.
    pub fn minutes(&self, kind: &TresKind) -> u64 {
        self.per(kind, 60_000_000)
    }

    /// Whole seconds of a kind's units, cut: Slurm's raw usage where the kind is `billing`.
    pub fn seconds(&self, kind: &TresKind) -> u64 {
        self.per(kind, 1_000_000)
    }

    /// Units times milliseconds of what is billed: what fair share weighs.
    pub fn billed(&self) -> u64 {
        self.per(&TresKind::Billing, 1000)
    }

    fn per(&self, kind: &TresKind, unit: u128) -> u64 {
        let amount = self.tres.get(kind).copied().unwrap_or(0);
        u64::try_from(amount / unit).unwrap_or(u64::MAX)
    }

    fn add(&mut self, other: &Self) {
        for (kind, amount) in &other.tres {
            let sum = self.tres.entry(kind.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        self.wall_ms = self.wall_ms.saturating_add(other.wall_ms);
    }
}

impl Tally {
    /// The meters at an instant; earlier than they stand they are as they stand.
    fn at(&self, now: Timestamp, half_life_ms: Option<u64>, reset: UsageReset) -> Spent {
        let ms = |from: Timestamp| u64::try_from(now.millis() - from.millis()).unwrap_or(0);
        let cleared = reset.last_before(now).filter(|at| *at > self.as_of);
        let elapsed = ms(cleared.unwrap_or(self.as_of));
        let rising = u128::from(accrued_ms(elapsed, half_life_ms));
        let mut spent = Spent::default();
        if cleared.is_none() {
            for (kind, amount) in &self.spent.tres {
                spent.tres.insert(kind.clone(), decayed(*amount, elapsed, half_life_ms));
            }
            let wall = decayed(u128::from(self.spent.wall_ms), elapsed, half_life_ms);
            spent.wall_ms = u64::try_from(wall).unwrap_or(u64::MAX);
        }
        for (kind, rate) in self.rate.iter() {
            let sum = spent.tres.entry(kind.clone()).or_default();
            *sum = sum.saturating_add(u128::from(rate) * rising);
        }
        let walls = u64::try_from(u128::from(self.clocks) * rising).unwrap_or(u64::MAX);
        spent.wall_ms = spent.wall_ms.saturating_add(walls);
        spent.tres.retain(|_, amount| *amount > 0);
        spent
    }
}

impl State {
    /// What a holder has used by an instant. Nothing where it never had a job.
    pub fn spent(&self, holder: &Holder, now: Timestamp) -> Spent {
        self.usage.get(holder).map_or_else(Spent::default, |tally| {
            tally.at(now, self.half_life_of(holder), self.policy.priority.usage_reset)
        })
    }

    /// The half-life of a holder's meters in milliseconds; `None` where they do not decay.
    fn half_life_of(&self, holder: &Holder) -> Option<u64> {
        let keeps = match holder {
            Holder::Qos(name) => self.qos.get(name).is_some_and(|qos| qos.flags.no_decay),
            _ => false,
        };
        let half_life = self.policy.priority.half_life.filter(|_| !keeps)?;
        Some(half_life.0.saturating_mul(1000))
    }

    /// Resources by kind, and what they are billed at in the placement's partition.
    pub fn charge(&self, placement: &Placement) -> Tres {
        let mut tres = Tres::default();
        tres.put(TresKind::Cpu, u64::from(placement.cpus()));
        tres.put(TresKind::Mem, placement.memory().0);
        tres.put(TresKind::Node, placement.nodes.len() as u64);
        for share in &placement.nodes {
            let devices = self.nodes.get(&share.node).map(|node| &node.devices);
            for grant in &share.devices {
                tres.put(TresKind::Gpu(None), 1);
                let model = devices
                    .and_then(|all| all.iter().find(|d| d.index == grant.index))
                    .map(|device| device.model.to_ascii_lowercase());
                if let Some(model) = model.filter(|model| !model.is_empty()) {
                    tres.put(TresKind::Gpu(Some(model)), 1);
                }
            }
            for (name, count) in &share.gres {
                tres.put(TresKind::Gres(name.clone()), *count);
            }
        }
        for (name, count) in &placement.licences {
            tres.put(TresKind::Licence(name.clone()), u64::from(*count));
        }
        let billed = match self.partitions.get(&placement.partition) {
            Some(partition) => partition.billing.bill(&tres, self.policy.priority.billing),
            None => tres.get(&TresKind::Cpu),
        };
        tres.put(TresKind::Billing, billed);
        tres
    }
}
