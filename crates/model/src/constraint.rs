//! Node features that a job asks for (`--constraint`).

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// A feature expression of Slurm's `--constraint` (sbatch manual).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Constraint {
    /// The node has this feature.
    Feature(String),
    /// All hold (`a&b`).
    All(Vec<Constraint>),
    /// At least one holds on each node (`a|b`).
    Any(Vec<Constraint>),
    /// One alternative holds on every node of the job, the same for all (`[a|b]`).
    OneForAll(Vec<Constraint>),
    /// At least so many nodes of the job satisfy the inner expression (`a*2`, inside brackets); of
    /// a [`Constraint::OneForAll`] the same alternative (`[a|b]*2`).
    Count(Box<Constraint>, u32),
}

impl Constraint {
    /// True where one node with these features satisfies the expression by itself.
    ///
    /// [`Constraint::OneForAll`] is judged as "some alternative" and [`Constraint::Count`] as its
    /// inner expression: whether the nodes of a job agree is for the caller to see.
    pub fn holds_on(&self, features: &BTreeSet<String>) -> bool {
        match self {
            Self::Feature(name) => features.contains(name),
            Self::All(parts) => parts.iter().all(|p| p.holds_on(features)),
            Self::Any(parts) | Self::OneForAll(parts) => parts.iter().any(|p| p.holds_on(features)),
            Self::Count(part, _) => part.holds_on(features),
        }
    }

    /// The feature names that the expression mentions.
    pub fn names(&self) -> BTreeSet<&str> {
        match self {
            Self::Feature(name) => BTreeSet::from([name.as_str()]),
            Self::All(p) | Self::Any(p) | Self::OneForAll(p) => {
                p.iter().flat_map(Self::names).collect()
            }
            Self::Count(p, _) => p.names(),
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |f: &mut fmt::Formatter<'_>, parts: &[Constraint], sep: &str| {
            for (i, part) in parts.iter().enumerate() {
                if i > 0 {
                    f.write_str(sep)?;
                }
                match part {
                    Self::Any(p) | Self::All(p) if p.len() > 1 => write!(f, "({part})")?,
                    _ => write!(f, "{part}")?,
                }
            }
            Ok(())
        };
        match self {
            Self::Feature(name) => f.write_str(name),
            Self::All(parts) => join(f, parts, "&"),
            Self::Any(parts) => join(f, parts, "|"),
            Self::OneForAll(parts) => {
                f.write_str("[")?;
                join(f, parts, "|")?;
                f.write_str("]")
            }
            Self::Count(part, n) => write!(f, "{part}*{n}"),
        }
    }
}
