//! Ended attempts, for accounting.

use muster_model::{Job, JobId, JobState, Timestamp};
use std::sync::Arc;

/// The most rows a page may have.
pub const PAGE_MAX: usize = 10_000;

/// One attempt that ended, or a job that ended without running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRow {
    /// The number of the event that ended it; rows are unique by (seq, job).
    pub seq: u64,
    /// The job as it was when the attempt ended, steps included. Its state says how this attempt
    /// ended, also where the job went back to the queue.
    pub job: Arc<Job>,
    /// The job went back to the queue.
    pub requeued: bool,
}

/// Which rows. Every filter that is given must hold; an empty list filters nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Jobs, by raw id; an array's id or a het leader's also finds its tasks or components.
    pub jobs: Vec<JobId>,
    /// User names.
    pub users: Vec<String>,
    /// Accounts.
    pub accounts: Vec<String>,
    /// End states.
    pub states: Vec<JobState>,
    /// Partitions (where it ran; else those asked for).
    pub partitions: Vec<String>,
    /// Job names.
    pub names: Vec<String>,
    /// Ended at or after.
    pub ended_from: Option<Timestamp>,
    /// Was there (submitted) before this instant.
    pub submitted_before: Option<Timestamp>,
    /// Rows after this number, as [`HistoryPage::next`] gave it.
    pub after: Option<u64>,
    /// At most so many rows; 0 or more than [`PAGE_MAX`] is [`PAGE_MAX`].
    pub limit: usize,
    /// Those of the rows that ended last, and no further page.
    pub newest: bool,
}

/// A page of rows, in the order in which they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPage {
    /// The rows.
    pub rows: Vec<HistoryRow>,
    /// Ask with this as [`HistoryQuery::after`] for the next page; `None` where this is the last.
    pub next: Option<u64>,
}

impl HistoryQuery {
    /// The page's bound in force.
    pub fn page(&self) -> usize {
        if self.limit == 0 { PAGE_MAX } else { self.limit.min(PAGE_MAX) }
    }

    /// True where the row is asked for, paging aside.
    pub fn admits(&self, row: &HistoryRow) -> bool {
        let job = &row.job;
        let any = |list: &[String], value: &str| list.is_empty() || list.iter().any(|x| x == value);
        (self.jobs.is_empty() || self.jobs.iter().any(|id| row.is_of(*id)))
            && any(&self.users, &job.spec.owner.user)
            && any(&self.accounts, &job.spec.account)
            && (self.states.is_empty() || self.states.contains(&job.state))
            && any(&self.partitions, &row.partition())
            && any(&self.names, &job.spec.name)
            && self.ended_from.is_none_or(|from| row.ended() >= from)
            && self.submitted_before.is_none_or(|before| job.submitted < before)
    }
}

impl HistoryRow {
    /// True where the id is the job's own, its array's or its het leader's.
    pub fn is_of(&self, id: JobId) -> bool {
        self.job.id == id
            || self.job.array.is_some_and(|task| task.array == id)
            || self.job.het.is_some_and(|part| part.leader == id)
    }

    /// The number that an array's or het job's rows share; else the job's own.
    pub fn family(&self) -> JobId {
        match (self.job.array, self.job.het) {
            (Some(task), _) => task.array,
            (None, Some(part)) => part.leader,
            (None, None) => self.job.id,
        }
    }

    /// Where it ran; else the partitions asked for, joined by commas.
    pub fn partition(&self) -> String {
        match &self.job.placement {
            Some(placement) => placement.partition.clone(),
            None => self.job.spec.partitions.join(","),
        }
    }

    /// When it ended.
    pub fn ended(&self) -> Timestamp {
        self.job.ended.unwrap_or_default()
    }
}
