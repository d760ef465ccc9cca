//! Why a node cannot take a part of a job now: every cause there is, with its numbers.

use crate::{JobId, Mib, NodeId, RuleKind, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};

/// How a reader is told of an instant.
pub type Clock<'a> = &'a dyn Fn(Timestamp) -> String;

/// Why a node cannot take its part of a job, the most lasting first; or that it could.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum NodeCause {
    /// Its partition does not start this job.
    Partition {
        /// The partition.
        partition: String,
    },
    /// The job names other nodes.
    NotNamed,
    /// The job excludes it.
    Excluded,
    /// It lacks the features of `--constraint`.
    Features,
    /// Its scratch disk is too small.
    Scratch {
        /// What it has.
        has: Mib,
        /// What the job asks for.
        needs: Mib,
    },
    /// It has too few sockets.
    Sockets {
        /// What it has.
        has: u32,
        /// What the job asks for.
        needs: u32,
    },
    /// The job has to have CPUs beside its GPUs, and which these are there is not certain.
    Uncertain,
    /// It has a taint that the job does not tolerate.
    Taint {
        /// The taint as it is written.
        taint: String,
    },
    /// Its labels are not those that the job requires.
    Labels,
    /// It is in no domain of the level of the topology that the job requires.
    Level,
    /// It has no GPU of the model.
    GpuModel {
        /// The model asked for.
        needs: String,
    },
    /// Its GPUs have too little memory.
    GpuMemory {
        /// The most that one of its GPUs has.
        has: Mib,
        /// What the job asks for.
        needs: Mib,
    },
    /// Even empty it has too little.
    TooSmall {
        /// Of what: `gpus`, `cpus`, `memory`, or the name of another resource.
        resource: String,
        /// What it has.
        has: u64,
        /// What the job needs there.
        needs: u64,
    },
    /// Even empty it does not give all that the job needs there together.
    Unfit,
    /// It is down.
    Down {
        /// Why, where somebody said so.
        reason: String,
    },
    /// It is drained.
    Drained {
        /// Why, where somebody said so.
        reason: String,
    },
    /// The reservation that the job has to run in does not have it now.
    OutsideReservation {
        /// The reservation.
        name: String,
    },
    /// The job's own reservation has it, but not for all of its time limit.
    ReservationTime {
        /// The reservation.
        name: String,
        /// When it begins.
        start: Timestamp,
        /// When it is over; [`Timestamp::NEVER`] is without an end.
        end: Timestamp,
    },
    /// A reservation that is not the job's has it before the job would be over.
    Reserved {
        /// The reservation.
        name: String,
        /// When it begins.
        start: Timestamp,
        /// When it is over; [`Timestamp::NEVER`] is without an end.
        end: Timestamp,
        /// It is for maintenance.
        maintenance: bool,
    },
    /// A rule on the jobs beside it.
    Rule {
        /// Which.
        kind: RuleKind,
    },
    /// Others use what the job needs there.
    Busy {
        /// Of what: `gpus`, `cpus`, `memory`, `nodes` for the node as a whole, or another name.
        resource: String,
        /// When it is free, if they take their whole limits; [`Timestamp::NEVER`] is not known. Of
        /// several nodes the first.
        until: Timestamp,
        /// Of several nodes the last.
        latest: Timestamp,
        /// Whose ends make it free, at most eight.
        held_by: Vec<JobId>,
    },
    /// It is kept for jobs that come first.
    Kept {
        /// Which, at most eight.
        jobs: Vec<JobId>,
        /// When the first of them starts.
        start: Timestamp,
    },
    /// Jobs that come first start there now.
    Taken {
        /// Which, at most eight.
        jobs: Vec<JobId>,
    },
    /// It could take its part now.
    Free,
}

/// Nodes with one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTally {
    /// The cause.
    pub cause: NodeCause,
    /// How many nodes.
    pub count: u32,
    /// The first of them, at most eight.
    pub nodes: Vec<NodeId>,
}

impl NodeCause {
    /// One of each kind, for tests that walk all of them.
    pub fn samples() -> Vec<Self> {
        let name = || "upgrade".to_owned();
        let (at, jobs) = (Timestamp::from_secs(60), || vec![JobId(7)]);
        vec![
            Self::Partition { partition: "main".to_owned() },
            Self::NotNamed,
            Self::Excluded,
            Self::Features,
            Self::Scratch { has: Mib(1024), needs: Mib(2048) },
            Self::Sockets { has: 1, needs: 2 },
            Self::Uncertain,
            Self::Taint { taint: "gpu=h100:NoSchedule".to_owned() },
            Self::Labels,
            Self::Level,
            Self::GpuModel { needs: "h100".to_owned() },
            Self::GpuMemory { has: Mib(40_960), needs: Mib(81_920) },
            Self::TooSmall { resource: "cpus".to_owned(), has: 8, needs: 16 },
            Self::Unfit,
            Self::Down { reason: String::new() },
            Self::Drained { reason: "new fan".to_owned() },
            Self::OutsideReservation { name: name() },
            Self::ReservationTime { name: name(), start: at, end: at },
            Self::Reserved { name: name(), start: at, end: at, maintenance: true },
            Self::Rule { kind: RuleKind::Spread },
            Self::Busy { resource: "gpus".to_owned(), until: at, latest: at, held_by: jobs() },
            Self::Kept { jobs: jobs(), start: at },
            Self::Taken { jobs: jobs() },
            Self::Free,
        ]
    }

    /// As words, with instants told by `clock`: lower case, no full stop.
    pub fn told(&self, clock: Clock<'_>) -> String {
        self.words(Some(clock))
    }

    /// True where it could take its part now, as far as this node goes.
    pub const fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }

    fn words(&self, clock: Option<Clock<'_>>) -> String {
        let why = |word: &str, reason: &str| match reason {
            "" => word.to_owned(),
            reason => format!("{word} ({reason})"),
        };
        match self {
            Self::Partition { partition } => format!("partition {partition} does not start it"),
            Self::NotNamed => "not in its node list".to_owned(),
            Self::Excluded => "excluded by it".to_owned(),
            Self::Features => "features (not those of its constraint)".to_owned(),
            Self::Scratch { has, needs } => format!("scratch disk (has {has}, needs {needs})"),
            Self::Sockets { has, needs } => format!("sockets (has {has}, needs {needs})"),
            Self::Uncertain => "which CPUs are beside its GPUs is not certain".to_owned(),
            Self::Taint { taint } => format!("taint {taint}"),
            Self::Labels => "labels (not those that it requires)".to_owned(),
            Self::Level => "outside the level of the topology that it requires".to_owned(),
            Self::GpuModel { needs } => format!("no GPU of model {needs}"),
            Self::GpuMemory { has, needs } => format!("GPU memory (has {has}, needs {needs})"),
            Self::TooSmall { resource, has, needs } => match resource.as_str() {
                "memory" => format!("memory (has {}, needs {})", Mib(*has), Mib(*needs)),
                resource => format!("{} (has {has}, needs {needs})", word(resource)),
            },
            Self::Unfit => "cannot give all that it needs together".to_owned(),
            Self::Down { reason } => why("down", reason),
            Self::Drained { reason } => why("drained", reason),
            Self::OutsideReservation { name } => format!("not in its reservation {name}"),
            Self::ReservationTime { name, start, end } => {
                let mut text = format!("in its reservation {name}, too short for its limit");
                if let Some(clock) = clock {
                    let _ = write!(text, " from {}", clock(*start));
                }
                text + &till(*end, *end, clock)
            }
            Self::Reserved { name, start, end, maintenance } => {
                let mut text = match maintenance {
                    true => "reserved for maintenance".to_owned(),
                    false => format!("reserved ({name})"),
                };
                if let Some(clock) = clock {
                    let _ = write!(text, " from {}", clock(*start));
                }
                text + &till(*end, *end, clock)
            }
            Self::Rule { kind } => kind.word().to_owned(),
            Self::Busy { resource, until, latest, held_by } => {
                let what = match resource.as_str() {
                    "nodes" => String::new(),
                    resource => format!("{} ", word(resource)),
                };
                format!("{what}busy{}{}", till(*until, *latest, clock), of_jobs(held_by))
            }
            Self::Kept { jobs, start } => {
                let from = match (clock, *start) {
                    (_, Timestamp::NEVER) | (None, _) => String::new(),
                    (Some(clock), start) => format!(" from {}", clock(start)),
                };
                format!("kept for {}{from}", named(jobs))
            }
            Self::Taken { jobs } => format!("{} starts there now", named(jobs)),
            Self::Free => "could take its part now".to_owned(),
        }
    }

    /// Causes of one kind may be told as one.
    fn kind(&self) -> (u8, &str) {
        match self {
            Self::Scratch { .. } => (1, ""),
            Self::Sockets { .. } => (2, ""),
            Self::Taint { .. } => (3, ""),
            Self::GpuMemory { .. } => (4, ""),
            Self::TooSmall { resource, .. } => (5, resource),
            Self::Down { .. } => (6, ""),
            Self::Drained { .. } => (7, ""),
            Self::Busy { resource, .. } => (8, resource),
            Self::Kept { .. } => (9, ""),
            Self::Taken { .. } => (10, ""),
            Self::Reserved { name, .. } => (11, name),
            _ => (0, ""),
        }
    }

    /// Takes in another cause of its kind: the best that any node has, the first instant.
    fn absorb(&mut self, other: Self) {
        let join = |to: &mut Vec<JobId>, more: Vec<JobId>| {
            to.extend(more);
            to.sort_unstable();
            to.dedup();
            to.truncate(NAMED_MAX);
        };
        match (self, other) {
            (Self::Scratch { has, .. }, Self::Scratch { has: more, .. })
            | (Self::GpuMemory { has, .. }, Self::GpuMemory { has: more, .. }) => {
                *has = more.max(*has);
            }
            (Self::Sockets { has, .. }, Self::Sockets { has: more, .. }) => *has = more.max(*has),
            (Self::TooSmall { has, .. }, Self::TooSmall { has: more, .. }) => {
                *has = more.max(*has);
            }
            (Self::Taint { taint }, Self::Taint { taint: more }) if !taint.contains(&more) => {
                taint.push_str(", ");
                taint.push_str(&more);
                taint.truncate(taint.floor_char_boundary(TEXT_MAX));
            }
            (Self::Down { reason }, Self::Down { .. })
            | (Self::Drained { reason }, Self::Drained { .. }) => reason.clear(),
            (
                Self::Busy { until, latest, held_by, .. },
                Self::Busy { until: first, latest: last, held_by: more, .. },
            ) => {
                *until = first.min(*until);
                *latest = last.max(*latest);
                join(held_by, more);
            }
            (Self::Kept { jobs, start }, Self::Kept { jobs: more, start: first }) => {
                *start = first.min(*start);
                join(jobs, more);
            }
            (Self::Taken { jobs }, Self::Taken { jobs: more }) => join(jobs, more),
            _ => {}
        }
    }
}

/// At most so many jobs and nodes are named.
const NAMED_MAX: usize = 8;

/// Texts of several nodes are joined up to so many bytes.
const TEXT_MAX: usize = 120;

/// Up to so many different causes of a kind are told one by one.
const EACH_MAX: usize = 4;

fn word(resource: &str) -> &str {
    match resource {
        "gpus" => "GPUs",
        "cpus" => "CPUs",
        other => other,
    }
}

fn till(until: Timestamp, latest: Timestamp, clock: Option<Clock<'_>>) -> String {
    let Some(clock) = clock else { return String::new() };
    match (until, latest) {
        (Timestamp::NEVER, _) => " without a known end".to_owned(),
        (until, latest) if until == latest => format!(" until {}", clock(until)),
        (until, Timestamp::NEVER) => format!(" until {} at the earliest", clock(until)),
        (until, latest) => format!(" until {} to {}", clock(until), clock(latest)),
    }
}

fn named(jobs: &[JobId]) -> String {
    let ids = jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    format!("job{} {ids}", if jobs.len() == 1 { "" } else { "s" })
}

fn of_jobs(jobs: &[JobId]) -> String {
    if jobs.is_empty() { String::new() } else { format!(" ({})", named(jobs)) }
}

impl fmt::Display for NodeCause {
    /// As words without instants, which are left to those who know the reader's time zone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(None))
    }
}

/// Nodes with their causes, counted under equal ones, the most lasting first. Where a kind of cause
/// has more than four sets of numbers, they are told as one.
///
/// The counts add up to the number of nodes.
pub fn tally(causes: impl IntoIterator<Item = (NodeId, NodeCause)>) -> Vec<NodeTally> {
    let mut all: Vec<(NodeCause, NodeId)> =
        causes.into_iter().map(|(node, cause)| (cause, node)).collect();
    all.sort_unstable();
    let mut rows: Vec<NodeTally> = Vec::new();
    for (cause, node) in all {
        match rows.last_mut().filter(|row| row.cause == cause) {
            Some(row) => {
                row.count += 1;
                if row.nodes.len() < NAMED_MAX {
                    row.nodes.push(node);
                }
            }
            None => rows.push(NodeTally { cause, count: 1, nodes: vec![node] }),
        }
    }
    let many = |row: &NodeTally, rows: &[NodeTally]| {
        let kind = row.cause.kind();
        kind.0 > 0 && rows.iter().filter(|r| r.cause.kind() == kind).nth(EACH_MAX).is_some()
    };
    // Only kinds that begin anew are looked at, so this stays linear in the rows.
    let mut merged: Vec<NodeTally> = Vec::new();
    let mut from = 0;
    while from < rows.len() {
        let kind = rows[from].cause.kind();
        let run = rows[from..].iter().take_while(|r| r.cause.kind() == kind).count();
        let group = &rows[from..from + run];
        if many(&rows[from], group) {
            let mut sum = group[0].clone();
            for row in &group[1..] {
                sum.cause.absorb(row.cause.clone());
                sum.count += row.count;
                sum.nodes.extend(&row.nodes);
                sum.nodes.sort_unstable();
                sum.nodes.truncate(NAMED_MAX);
            }
            merged.push(sum);
        } else {
            merged.extend_from_slice(group);
        }
        from += run;
    }
    merged
}

/// A tally in one line: `3 of 12 nodes: GPU memory (has 40G, needs 80G); 9: busy until 15:10`.
pub fn line(rows: &[NodeTally], clock: Clock<'_>) -> String {
    let all: u64 = rows.iter().map(|row| u64::from(row.count)).sum();
    let noun = if all == 1 { "node" } else { "nodes" };
    let part = |(at, row): (usize, &NodeTally)| {
        let of = if at == 0 { format!(" of {all} {noun}") } else { String::new() };
        format!("{}{of}: {}", row.count, row.cause.told(clock))
    };
    rows.iter().enumerate().map(part).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_reads_as_one_line_and_its_counts_add_up() {
        let memory = || NodeCause::GpuMemory { has: Mib(40 * 1024), needs: Mib(80 * 1024) };
        let busy = |at: i64, job: u32| NodeCause::Busy {
            resource: "nodes".to_owned(),
            until: Timestamp::from_secs(at),
            latest: Timestamp::from_secs(at),
            held_by: vec![JobId(job)],
        };
        let causes = [busy(60, 7), memory(), memory(), NodeCause::Free];
        let rows = tally(causes.into_iter().enumerate().map(|(n, c)| (NodeId(n as u32), c)));
        let clock = |at: Timestamp| format!("{}s", at.secs());
        assert_eq!(
            line(&rows, &clock),
            "2 of 4 nodes: GPU memory (has 40G, needs 80G); 1: busy until 60s (job 7); \
             1: could take its part now"
        );
        let many = (0..6).map(|n| (NodeId(n), busy(i64::from(n), n)));
        let rows = tally(many);
        assert_eq!(rows.len(), 1);
        assert_eq!(
            line(&rows, &clock),
            "6 of 6 nodes: busy until 0s to 5s (jobs 0, 1, 2, 3, 4, 5)"
        );
    }

    #[test]
    fn every_cause_is_told_and_stored() {
        for cause in NodeCause::samples() {
            let text = cause.told(&|at| at.to_string());
            assert!(!text.is_empty() && !text.ends_with('.'), "{text}");
            let json = serde_json::to_string(&cause).unwrap();
            assert_eq!(serde_json::from_str::<NodeCause>(&json).unwrap(), cause);
        }
    }
}
