//! What was seen, look by look, and what it comes to.

use crate::Look;
use muster_engine_slurm::read::{Cluster, JobStanding};
use muster_model::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A start is told again in every look for so long, so that none is lost between two looks.
const TOLD_FOR: Seconds = Seconds(600);

/// One look, as a line of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When.
    pub at_ms: Timestamp,
    /// Jobs that muster would start now, where plan-check and Slurm's word let it.
    pub could: Vec<Could>,
    /// Jobs that muster would start where one of the two says no.
    pub could_not: Vec<u32>,
    /// Jobs that Slurm started a little while ago.
    pub started: Vec<Started>,
}

/// A job and its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Could {
    /// Its number.
    pub id: u32,
    /// Where.
    pub nodes: String,
}

/// A job that Slurm started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Its number.
    pub id: u32,
    /// When.
    pub at_ms: Timestamp,
}

/// The line of a look.
pub fn entry(cluster: &Cluster, look: &Look) -> Entry {
    let (could, could_not): (Vec<_>, Vec<_>) = look.early.iter().partition(|early| early.could());
    let started = cluster.jobs.iter().filter(|job| job.standing() != JobStanding::Waiting);
    let recent = started.filter_map(|job| {
        let at_ms = job.started().filter(|at| cluster.now.since(*at) <= TOLD_FOR)?;
        Some(Started { id: job.id().0, at_ms })
    });
    let one = |early: &crate::Early| Could { id: early.id, nodes: early.nodes.clone() };
    Entry {
        at_ms: cluster.now,
        could: could.into_iter().map(one).collect(),
        could_not: could_not.into_iter().map(|early| early.id).collect(),
        started: recent.collect(),
    }
}

/// What a log comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The first and the last look.
    pub from_ms: Timestamp,
    /// The last look.
    pub to_ms: Timestamp,
    /// How many looks.
    pub looks: usize,
    /// Jobs that could have started earlier, the longest wait first.
    pub earlier: Vec<Earlier>,
    /// Jobs that muster would have started where plan-check or a rule of Slurm says no.
    pub refused: usize,
    /// Jobs that Slurm was seen to start.
    pub started: usize,
}

/// A job that could have started earlier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Earlier {
    /// Its number.
    pub id: u32,
    /// When muster would have started it.
    pub could_ms: Timestamp,
    /// Where.
    pub nodes: String,
    /// When Slurm did; `None` where it still waited, or was not seen to start.
    pub started_ms: Option<Timestamp>,
    /// How much later that was, at least.
    pub later: Seconds,
}

/// Adds up the looks from an instant on. A job counts from the first look of an unbroken row in
/// which muster would start it; what Slurm does within `grace` is no delay but its cycle.
pub fn report(entries: &[Entry], from: Timestamp, grace: Seconds) -> Report {
    let mut report = Report::default();
    let mut open: BTreeMap<u32, Earlier> = BTreeMap::new();
    let mut started: BTreeMap<u32, Timestamp> = BTreeMap::new();
    let mut refused = std::collections::BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.at_ms >= from) {
        if report.looks == 0 {
            report.from_ms = entry.at_ms;
        }
        report.looks += 1;
        report.to_ms = entry.at_ms;
        refused.extend(entry.could_not.iter().copied());
        started.extend(entry.started.iter().map(|s| (s.id, s.at_ms)));
        for (id, at) in entry.started.iter().map(|s| (s.id, s.at_ms)) {
            if let Some(job) = open.get_mut(&id).filter(|job| job.started_ms.is_none()) {
                job.started_ms = Some(at);
                job.later = at.since(job.could_ms);
            }
        }
        // Others came first since: it could not have started after all.
        open.retain(|id, job| {
            job.started_ms.is_some() || entry.could.iter().any(|could| could.id == *id)
        });
        for could in &entry.could {
            let fresh = || Earlier {
                id: could.id,
                could_ms: entry.at_ms,
                nodes: could.nodes.clone(),
                started_ms: None,
                later: Seconds(0),
            };
            let job = open.entry(could.id).or_insert_with(fresh);
            if job.started_ms.is_none() {
                job.later = entry.at_ms.since(job.could_ms);
            }
        }
    }
    report.started = started.len();
    report.refused = refused.len();
    report.earlier = open.into_values().filter(|job| job.later > grace).collect();
    report.earlier.sort_by_key(|job| (std::cmp::Reverse(job.later), job.id));
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: i64, could: &[u32], started: &[(u32, i64)]) -> Entry {
        let one = |id: &u32| Could { id: *id, nodes: "n1".to_owned() };
        let begun = |(id, at): &(u32, i64)| Started { id: *id, at_ms: Timestamp::from_secs(*at) };
        Entry {
            at_ms: Timestamp::from_secs(at),
            could: could.iter().map(one).collect(),
            could_not: Vec::new(),
            started: started.iter().map(begun).collect(),
        }
    }

    #[test]
    fn a_job_counts_from_when_it_could_start_to_when_it_did() {
        let log = [
            entry(100, &[1, 2], &[]),
            entry(200, &[1], &[(2, 110)]),
            entry(400, &[], &[(1, 390), (2, 110)]),
        ];
        let report = report(&log, Timestamp::from_secs(0), Seconds(60));
        assert_eq!((report.looks, report.started), (3, 2));
        let [job] = report.earlier.as_slice() else { panic!("{report:?}") };
        assert_eq!((job.id, job.later), (1, Seconds(290)));
        assert_eq!(job.started_ms, Some(Timestamp::from_secs(390)));
    }

    #[test]
    fn a_job_that_others_overtook_counts_anew() {
        let log = [entry(100, &[1], &[]), entry(500, &[], &[]), entry(600, &[1], &[])];
        assert_eq!(report(&log, Timestamp::from_secs(0), Seconds(60)).earlier, []);
    }

    #[test]
    fn only_looks_from_the_instant_on_count() {
        let log = [entry(100, &[1], &[]), entry(500, &[1], &[])];
        assert_eq!(report(&log, Timestamp::from_secs(200), Seconds(60)).looks, 1);
    }
}
