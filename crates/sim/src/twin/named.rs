//! Policies by name, and what the planner is told of run times.

use muster_model::{
    BackfillMode, BackfillOrder, Policy, PromiseBasis, RunTimeCorrection, RunTimePolicy,
    RunTimeSource,
};
use std::fmt;
use std::str::FromStr;

/// A policy that can be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyName {
    /// In order of submission, nobody passes anybody.
    Fifo,
    /// EASY backfilling: later jobs start where they do not delay the first.
    Easy,
    /// EASY with the shortest tried first.
    EasySjbf,
    /// Later jobs start where they delay nobody before them.
    Conservative,
    /// What the daemon does by default: EASY in the order for a low slowdown.
    Muster,
}

/// What jobs say of how long they will run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Estimates {
    /// What the trace says that they asked for.
    #[default]
    Requested,
    /// What they run: no scheduler knows that, so this is a bound for others.
    Clairvoyant,
    /// Twice what they asked for.
    Doubled,
}

/// The names, in the order of [`PolicyName`].
pub const NAMES: [&str; 5] = ["fifo", "easy", "easy-sjbf", "conservative", "muster"];

const ALL: [PolicyName; 5] = [
    PolicyName::Fifo,
    PolicyName::Easy,
    PolicyName::EasySjbf,
    PolicyName::Conservative,
    PolicyName::Muster,
];

/// A name that is none of [`NAMES`].
#[derive(Debug, thiserror::Error)]
#[error("there is no policy {0:?}; there are {list}", list = NAMES.join(", "))]
pub struct UnknownPolicy(String);

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let at = NAMES.iter().position(|name| *name == text);
        at.map(|at| ALL[at]).ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = ALL.iter().position(|name| name == self).unwrap_or(0);
        f.write_str(NAMES[at])
    }
}

impl PolicyName {
    /// The policy itself. Nothing in a trace has accounts, so nobody's use is counted.
    pub fn policy(self) -> Policy {
        let plain = Policy { count_usage: false, ..Policy::default() };
        let run_time = RunTimePolicy::default();
        match self {
            Self::Fifo => Policy { backfill: BackfillMode::None, run_time, ..plain },
            Self::Easy => Policy {
                backfill: BackfillMode::Easy,
                backfill_order: BackfillOrder::Queue,
                run_time,
                ..plain
            },
            Self::EasySjbf => Policy {
                backfill: BackfillMode::Easy,
                backfill_order: BackfillOrder::Shortest,
                run_time,
                ..plain
            },
            Self::Conservative => Policy {
                backfill: BackfillMode::Conservative,
                backfill_order: BackfillOrder::Queue,
                run_time,
                ..plain
            },
            Self::Muster => Policy { count_usage: false, ..Policy::standard() },
        }
    }
}

/// The run times learned from each user's last jobs, with one of the three corrections; promises rest
/// on them too, as in the studies that they are from.
pub const fn learned(correction: RunTimeCorrection) -> RunTimePolicy {
    let promises = PromiseBasis::Estimates;
    RunTimePolicy { source: RunTimeSource::Recent, correction, promises }
}
