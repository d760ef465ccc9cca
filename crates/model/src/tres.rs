//! Trackable resources (TRES): amounts by kind, and what they are billed at.
//!
//! Kinds and their names are Slurm's (slurm.conf manual, `AccountingStorageTRES`): `cpu`, `mem`
//! (MiB), `node`, `billing`, `gres/gpu` (every GPU), `gres/gpu:MODEL` (GPUs of one model, which
//! count in `gres/gpu` too), `gres/NAME`, `license/NAME`.

use crate::is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A kind of trackable resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum TresKind {
    /// CPUs.
    Cpu,
    /// Memory in MiB.
    Mem,
    /// Nodes, counted once for each job on them.
    Node,
    /// What the partition's weights make of the others.
    Billing,
    /// GPUs: of every model (`None`), or of one, in lower case.
    Gpu(Option<String>),
    /// Another countable resource of nodes.
    Gres(String),
    /// A licence.
    Licence(String),
}

/// A text that names no kind of resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is no trackable resource")]
pub struct UnknownTres {
    /// The text.
    pub name: String,
}

impl fmt::Display for TresKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Mem => f.write_str("mem"),
            Self::Node => f.write_str("node"),
            Self::Billing => f.write_str("billing"),
            Self::Gpu(None) => f.write_str("gres/gpu"),
            Self::Gpu(Some(model)) => write!(f, "gres/gpu:{model}"),
            Self::Gres(name) => write!(f, "gres/{name}"),
            Self::Licence(name) => write!(f, "license/{name}"),
        }
    }
}

impl FromStr for TresKind {
    type Err = UnknownTres;

    /// Reads Slurm's name of a kind, without regard to case in its fixed parts.
    fn from_str(text: &str) -> Result<Self, UnknownTres> {
        let unknown = || UnknownTres { name: text.to_owned() };
        let lower = text.to_ascii_lowercase();
        let kind = match lower.as_str() {
            "cpu" => Self::Cpu,
            "mem" => Self::Mem,
            "node" => Self::Node,
            "billing" => Self::Billing,
            "gres/gpu" => Self::Gpu(None),
            other => {
                let (class, _) = other.split_once('/').ok_or_else(unknown)?;
                let name = &text[class.len() + 1..];
                if name.is_empty() {
                    return Err(unknown());
                }
                match class {
                    "gres" => match name.split_once(':') {
                        Some((gpu, model))
                            if gpu.eq_ignore_ascii_case("gpu") && !model.is_empty() =>
                        {
                            Self::Gpu(Some(model.to_ascii_lowercase()))
                        }
                        Some(_) => return Err(unknown()),
                        None => Self::Gres(name.to_owned()),
                    },
                    "license" | "licence" => Self::Licence(name.to_owned()),
                    _ => return Err(unknown()),
                }
            }
        };
        Ok(kind)
    }
}

impl From<TresKind> for String {
    fn from(kind: TresKind) -> Self {
        kind.to_string()
    }
}

impl TryFrom<String> for TresKind {
    type Error = UnknownTres;

    fn try_from(text: String) -> Result<Self, UnknownTres> {
        text.parse()
    }
}

/// Amounts by kind. A kind that is not there is none of it; as a limit it is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tres(pub BTreeMap<TresKind, u64>);

impl Tres {
    /// How much of a kind.
    pub fn get(&self, kind: &TresKind) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }

    /// The limit on a kind, where these amounts are limits.
    pub fn limit(&self, kind: &TresKind) -> Option<u64> {
        self.0.get(kind).copied()
    }

    /// Every kind with its amount.
    pub fn iter(&self) -> impl Iterator<Item = (&TresKind, u64)> {
        self.0.iter().map(|(kind, amount)| (kind, *amount))
    }

    /// True where nothing is there.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds to one kind; nothing is added as nothing.
    pub fn put(&mut self, kind: TresKind, amount: u64) {
        if amount > 0 {
            let sum = self.0.entry(kind).or_default();
            *sum = sum.saturating_add(amount);
        }
    }

    /// Adds `times` of the other amounts.
    pub fn add(&mut self, other: &Self, times: u64) {
        for (kind, amount) in other.iter() {
            let sum = self.0.entry(kind.clone()).or_default();
            *sum = sum.saturating_add(amount.saturating_mul(times));
        }
    }

    /// Takes the other amounts away; a kind of which nothing is left is gone.
    pub fn take(&mut self, other: &Self, times: u64) {
        for (kind, amount) in other.iter() {
            if let Some(sum) = self.0.get_mut(kind) {
                *sum = sum.saturating_sub(amount.saturating_mul(times));
                if *sum == 0 {
                    self.0.remove(kind);
                }
            }
        }
    }
}

impl FromIterator<(TresKind, u64)> for Tres {
    fn from_iter<I: IntoIterator<Item = (TresKind, u64)>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

impl fmt::Display for Tres {
    /// As Slurm writes it: `cpu=4,mem=8G,gres/gpu=2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (kind, amount)) in self.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match kind {
                TresKind::Mem => write!(f, "{comma}{kind}={}", crate::Mib(amount))?,
                _ => write!(f, "{comma}{kind}={amount}")?,
            }
        }
        Ok(())
    }
}

/// What a unit of a resource is billed at: `micro` millionths for every `per` of the kind's units
/// (`Mem=0.25G` is 250,000 millionths for every 1024 MiB).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BillingWeight {
    /// Millionths.
    pub micro: u64,
    /// A power of two, at most 2^20.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub per: u64,
}

impl BillingWeight {
    /// Reads `0.25`, and of memory `0.25G` (for each GiB; without a unit it is for each MiB).
    pub fn read(kind: &TresKind, text: &str) -> Option<Self> {
        let memory = *kind == TresKind::Mem;
        let (value, per) = match text.char_indices().last()? {
            (at, 'M' | 'm') if memory => (&text[..at], 1),
            (at, 'G' | 'g') if memory => (&text[..at], 1024),
            (at, 'T' | 't') if memory => (&text[..at], 1024 * 1024),
            _ => (text, 1),
        };
        Some(Self { micro: decimal(value, 6)?, per })
    }
}

/// A decimal number in units of its last place.
pub fn decimal(text: &str, places: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if part.len() > places
        || !digits(part)
        || !digits(whole)
        || (whole.is_empty() && part.is_empty())
    {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let scale = 10u64.pow(places as u32);
    whole.checked_mul(scale)?.checked_add(format!("{part:0<places$}").parse().ok()?)
}

const fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for this form
const fn is_one(n: &u64) -> bool {
    *n == 1
}

/// How the billed parts become one number (slurm.conf manual, `PriorityFlags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BillingMode {
    /// The sum of all parts.
    #[default]
    Sum,
    /// The largest part of what nodes have, plus all licences (`MAX_TRES`).
    Max,
    /// All GRES, plus the largest other part of what nodes have, plus all licences
    /// (`MAX_TRES_GRES`).
    MaxGres,
}

/// What a partition bills for (slurm.conf manual, `TRESBillingWeights`); empty bills one for each
/// CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BillingWeights(pub BTreeMap<TresKind, BillingWeight>);

impl BillingWeights {
    /// What amounts are billed at: fractions are kept until the end, then cut (case S-48).
    pub fn bill(&self, amounts: &Tres, mode: BillingMode) -> u64 {
        /// Millionths of 2^-20.
        const SCALE: u128 = 1_000_000 << 20;
        if self.0.is_empty() {
            return amounts.get(&TresKind::Cpu);
        }
        let (mut global, mut gres, mut other, mut most_gres, mut most_other) = (0, 0, 0, 0, 0);
        for (kind, weight) in &self.0 {
            let scaled = u128::from(weight.micro) * ((1 << 20) / u128::from(weight.per.max(1)));
            let part = u128::from(amounts.get(kind)).saturating_mul(scaled);
            let (sum, most): (&mut u128, &mut u128) = match kind {
                TresKind::Licence(_) => (&mut global, &mut 0),
                TresKind::Gpu(_) | TresKind::Gres(_) => (&mut gres, &mut most_gres),
                _ => (&mut other, &mut most_other),
            };
            *sum = sum.saturating_add(part);
            *most = part.max(*most);
        }
        let billed = match mode {
            BillingMode::Sum => gres + other,
            BillingMode::Max => most_gres.max(most_other),
            BillingMode::MaxGres => gres + most_other,
        };
        u64::try_from((billed + global) / SCALE).unwrap_or(u64::MAX)
    }
}

/// Amounts that are there only in part: fields of stored types leave them out where empty.
pub(crate) fn none(tres: &Tres) -> bool {
    is_default(tres)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_slurms_and_come_back() {
        for name in ["cpu", "mem", "node", "billing", "gres/gpu", "gres/gpu:a100", "license/sim"] {
            assert_eq!(name.parse::<TresKind>().unwrap().to_string(), name);
        }
        assert_eq!("GRES/gpu:A100".parse(), Ok(TresKind::Gpu(Some("a100".to_owned()))));
        assert!("gres/".parse::<TresKind>().is_err() && "cpus".parse::<TresKind>().is_err());
        assert!("energy/x".parse::<TresKind>().is_err());
    }

    #[test]
    fn s48_billing_weights() {
        let weights = BillingWeights(BTreeMap::from([
            (TresKind::Cpu, BillingWeight { micro: 1_000_000, per: 1 }),
            (TresKind::Mem, BillingWeight { micro: 250_000, per: 1024 }),
            (TresKind::Gpu(None), BillingWeight { micro: 4_000_000, per: 1 }),
        ]));
        let job: Tres = [(TresKind::Cpu, 3), (TresKind::Mem, 10 * 1024), (TresKind::Gpu(None), 1)]
            .into_iter()
            .collect();
        assert_eq!(weights.bill(&job, BillingMode::Sum), 9);
        assert_eq!(weights.bill(&job, BillingMode::Max), 4);
        assert_eq!(weights.bill(&job, BillingMode::MaxGres), 7);
        assert_eq!(BillingWeights::default().bill(&job, BillingMode::Sum), 3);
    }
}
