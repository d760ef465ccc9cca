//! The ways users name jobs: `12`, `900_3`, `900_[1-3]`, `12+1`.

use muster_model::{IndexRanges, Job, JobId, State};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A job, an array, some of its tasks, or a component of a heterogeneous job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum JobRef {
    /// A job by its number; an array's or leader's number names all of it.
    Job(JobId),
    /// Tasks of an array by their indices.
    Tasks(JobId, IndexRanges),
    /// A component of a heterogeneous job by its offset.
    Component(JobId, u32),
}

/// A text that names no job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found:?} where a job was expected (12, 900_3, 900_[1-3] or 12+1)")]
pub struct JobRefError {
    /// The text.
    pub found: String,
}

impl JobRef {
    /// The number in front.
    pub fn base(&self) -> JobId {
        match self {
            Self::Job(id) | Self::Tasks(id, _) | Self::Component(id, _) => *id,
        }
    }

    /// The live jobs that it names, ascending; empty where there is none.
    pub fn resolve(&self, state: &State) -> Vec<JobId> {
        match self {
            Self::Job(id) => state.family(*id),
            Self::Tasks(array, indices) => tasks_of(state, *array, indices),
            Self::Component(leader, offset) => {
                let id = JobId(leader.0.saturating_add(*offset));
                let part = |job: &Job| job.het.is_some_and(|h| h.leader == *leader);
                state.job(id).filter(|job| part(job)).map(|job| job.id).into_iter().collect()
            }
        }
    }
}

fn tasks_of(state: &State, array: JobId, wanted: &IndexRanges) -> Vec<JobId> {
    state
        .family(array)
        .into_iter()
        .filter(|id| {
            let task = state.job(*id).and_then(|job| job.array);
            task.is_some_and(|t| t.array == array && wanted.rank(t.index).is_some())
        })
        .collect()
}

impl FromStr for JobRef {
    type Err = JobRefError;

    fn from_str(text: &str) -> Result<Self, JobRefError> {
        let fail = || JobRefError { found: text.chars().take(64).collect() };
        let id = |t: &str| t.parse().ok().filter(|n| *n > 0).map(JobId).ok_or_else(fail);
        if let Some((base, tasks)) = text.split_once('_') {
            let inner = tasks.strip_prefix('[').map_or(Some(tasks), |t| t.strip_suffix(']'));
            let indices = parse_indices(inner.ok_or_else(fail)?).ok_or_else(fail)?;
            return Ok(Self::Tasks(id(base)?, indices));
        }
        if let Some((base, offset)) = text.split_once('+') {
            return Ok(Self::Component(id(base)?, offset.parse().map_err(|_| fail())?));
        }
        Ok(Self::Job(id(text)?))
    }
}

/// `1-3,7` and `0-10:2`, at most 4 million indices.
fn parse_indices(text: &str) -> Option<IndexRanges> {
    let mut ranges = Vec::new();
    for piece in text.split(',') {
        let (range, step) = match piece.split_once(':') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|s| *s > 0)?),
            None => (piece, 1),
        };
        let (low, high) = match range.split_once('-') {
            Some((low, high)) => (low.parse().ok()?, high.parse().ok()?),
            None => (range.parse().ok()?, range.parse().ok()?),
        };
        if low > high || high > 4_000_000 {
            return None;
        }
        if step == 1 {
            ranges.push((low, high));
        } else {
            ranges.extend((low..=high).step_by(step as usize).map(|i| (i, i)));
        }
    }
    Some(IndexRanges::from_ranges(ranges))
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(id) => id.fmt(f),
            Self::Tasks(id, set) if set.len() == 1 => write!(f, "{id}_{set}"),
            Self::Tasks(id, set) => write!(f, "{id}_[{set}]"),
            Self::Component(id, offset) => write!(f, "{id}+{offset}"),
        }
    }
}

impl TryFrom<String> for JobRef {
    type Error = JobRefError;

    fn try_from(text: String) -> Result<Self, JobRefError> {
        text.parse()
    }
}

impl From<JobRef> for String {
    fn from(job: JobRef) -> Self {
        job.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_it_reads() {
        for text in ["12", "900_3", "900_[1-3,7]", "12+1"] {
            assert_eq!(text.parse::<JobRef>().unwrap().to_string(), text);
        }
        assert_eq!("9_[0-6:3]".parse::<JobRef>().unwrap().to_string(), "9_[0,3,6]");
    }

    #[test]
    fn refuses_what_names_no_job() {
        for text in
            ["", "0", "-1", "a", "1_", "1_[", "1_[1-", "1_[3-1]", "1+", "1.5", "1_[0-9999999999]"]
        {
            assert!(text.parse::<JobRef>().is_err(), "{text}");
        }
    }
}
