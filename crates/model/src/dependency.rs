//! Job dependencies: what a user wrote, and what of it is already decided.

use crate::{IndexRanges, JobId, Seconds, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A dependency as the user wrote it (`--dependency`, sbatch manual).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Dependency {
    /// Whether all terms must be met or one is enough.
    pub joiner: Joiner,
    /// The terms in the order written; each id of a colon list is a term of its own.
    pub terms: Vec<DependencyTerm>,
}

/// How the terms of a dependency are joined.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Joiner {
    /// `,`: all must be met.
    #[default]
    All,
    /// `?`: one is enough.
    Any,
}

/// One condition on one job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DependencyTerm {
    /// What is asked of the target.
    pub kind: DependencyKind,
    /// The job; `None` only for [`DependencyKind::Singleton`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<DependencyTarget>,
    /// `after:ID+minutes`: so long after the target's start. Zero for every other kind.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub delay: Seconds,
}

/// What a dependency asks of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyKind {
    /// Has begun, or was cancelled.
    After,
    /// Has ended in any way.
    AfterAny,
    /// Has ended with exit code zero.
    AfterOk,
    /// Has ended in a failed state.
    AfterNotOk,
    /// The task of the same index has ended with exit code zero.
    AfterCorr,
    /// No earlier job of the same user and name is still unfinished.
    Singleton,
}

/// The job that a term names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyTarget {
    /// A job, or the whole array where the number is that of an array.
    Job(JobId),
    /// Tasks of an array: `100_1`, `100_[0-3]`.
    Tasks(JobId, IndexRanges),
}

/// One term resolved against the jobs there are, and what is known of it.
///
/// A gate is settled by the events of its target and stays settled, so the target may be
/// forgotten later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// What is asked ([`DependencyKind::AfterCorr`] is resolved to `AfterOk`).
    pub kind: DependencyKind,
    /// Of which job or array; `None` for a singleton.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<GateTarget>,
    /// See [`DependencyTerm::delay`].
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub delay: Seconds,
    /// What is known.
    pub status: GateStatus,
}

/// What a gate looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateTarget {
    /// One job (or array task, or het leader).
    Job(JobId),
    /// All tasks of the array with this first id.
    Array(JobId),
}

/// What is known of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateStatus {
    /// Not decided yet.
    Waiting,
    /// Met, from this instant on (later than now for `after:ID+minutes`).
    Met(Timestamp),
    /// Can never be met.
    Failed,
}

impl fmt::Display for DependencyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::After => "after",
            Self::AfterAny => "afterany",
            Self::AfterOk => "afterok",
            Self::AfterNotOk => "afternotok",
            Self::AfterCorr => "aftercorr",
            Self::Singleton => "singleton",
        })
    }
}

impl fmt::Display for DependencyTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        match &self.target {
            None => {}
            Some(DependencyTarget::Job(id)) => write!(f, ":{id}")?,
            Some(DependencyTarget::Tasks(id, set)) if set.len() == 1 => write!(f, ":{id}_{set}")?,
            Some(DependencyTarget::Tasks(id, set)) => write!(f, ":{id}_[{set}]")?,
        }
        if self.delay.0 > 0 {
            write!(f, "+{}", self.delay.0 / 60)?;
        }
        Ok(())
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            if i > 0 {
                f.write_str(match self.joiner {
                    Joiner::All => ",",
                    Joiner::Any => "?",
                })?;
            }
            write!(f, "{term}")?;
        }
        Ok(())
    }
}
