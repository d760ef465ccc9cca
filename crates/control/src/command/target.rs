//! How a command names jobs, and which jobs that is.

use super::CommandError;
use muster_model::{IndexRanges, JobId, State};
use std::fmt;
use std::str::FromStr;

/// A job, or some jobs, as users name them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobRef {
    /// `12`: the job; the whole array or heterogeneous job where the number is theirs.
    Id(JobId),
    /// `12_3`, `12_[1-3]`: tasks of an array.
    Tasks(JobId, IndexRanges),
    /// `12+1`: a component of a heterogeneous job.
    Component(JobId, u32),
    /// This raw id alone, also where it is an array's or het job's first.
    Only(JobId),
}

impl JobRef {
    /// The raw ids, ascending.
    ///
    /// # Errors
    /// [`CommandError::UnknownJob`] where there is none.
    pub fn resolve(&self, state: &State) -> Result<Vec<JobId>, CommandError> {
        let found: Vec<JobId> = match self {
            Self::Id(id) => state.family(*id),
            Self::Only(id) => state.jobs.contains_key(id).then_some(*id).into_iter().collect(),
            Self::Tasks(array, indices) => indices
                .iter()
                .filter_map(|index| state.array_task(*array, index))
                .filter(|id| state.jobs.contains_key(id))
                .collect(),
            Self::Component(leader, offset) => state
                .jobs
                .get(&JobId(leader.0.saturating_add(*offset)))
                .filter(|job| job.het.is_some_and(|part| part.leader == *leader))
                .map(|job| job.id)
                .into_iter()
                .collect(),
        };
        if found.is_empty() {
            return Err(CommandError::UnknownJob { job: self.to_string() });
        }
        Ok(found)
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) | Self::Only(id) => id.fmt(f),
            Self::Tasks(array, indices) if indices.len() == 1 => write!(f, "{array}_{indices}"),
            Self::Tasks(array, indices) => write!(f, "{array}_[{indices}]"),
            Self::Component(leader, offset) => write!(f, "{leader}+{offset}"),
        }
    }
}

impl FromStr for JobRef {
    type Err = CommandError;

    /// Reads `12`, `12_3`, `12_[1-3,5]` and `12+1`.
    fn from_str(text: &str) -> Result<Self, CommandError> {
        let bad = || CommandError::BadValue {
            field: "job id",
            why: format!(
                "expected 12, 12_3, 12_[1-3] or 12+1, found {:?}",
                text.chars().take(64).collect::<String>()
            ),
        };
        let number = |s: &str| {
            let digits = !s.is_empty() && s.len() <= 10 && s.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| s.parse::<u32>().ok()).flatten().ok_or_else(bad)
        };
        let id = |s: &str| number(s).and_then(|n| if n == 0 { Err(bad()) } else { Ok(JobId(n)) });
        if let Some((leader, offset)) = text.split_once('+') {
            return Ok(Self::Component(id(leader)?, number(offset)?));
        }
        let Some((array, tasks)) = text.split_once('_') else { return Ok(Self::Id(id(text)?)) };
        let list = tasks.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(tasks);
        let mut ranges = Vec::new();
        for part in list.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high) = (number(low)?, number(high)?);
            if low > high || high > TASK_INDEX_MAX {
                return Err(bad());
            }
            ranges.push((low, high));
        }
        Ok(Self::Tasks(id(array)?, IndexRanges::from_ranges(ranges)))
    }
}

/// The largest index that a reference may name; Slurm's `MaxArraySize` may not be above it.
const TASK_INDEX_MAX: u32 = 4_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in ["12", "12_3", "12_[1-3,5]", "12+1"] {
            assert_eq!(text.parse::<JobRef>().unwrap().to_string(), text);
        }
        for text in
            ["", "0", "12_", "12_x", "12_[3-1]", "12+", "a", "99999999999", "1_[1-4294967295]"]
        {
            assert!(text.parse::<JobRef>().is_err(), "{text}");
        }
    }
}
