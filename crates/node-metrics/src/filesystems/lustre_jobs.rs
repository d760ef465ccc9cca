//! What each job did on a Lustre server's targets (`job_stats`).
//!
//! The file looks like YAML and is none: a job's id is whatever its client set, with spaces, colons
//! and quotes, or nothing at all. Tens of thousands of ended jobs are ordinary.

use std::collections::BTreeMap;
use std::path::Path;

use super::lustre::{Operation, PLACES, instant};
use crate::files::{ReadError, Skipped, names, read_up_to};

/// The largest file that is read: some 30,000 jobs.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What one job did on one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobStats {
    /// `obdfilter` (data) or `mdt` (metadata).
    pub component: String,
    /// The target, `work-OST0003`.
    pub target: String,
    /// The id that the client set; empty where it set none: all of those are one entry.
    pub job: String,
    /// The target's own time in nanoseconds since 1970.
    pub at_ns: Option<u64>,
    /// What was done, by name.
    pub operations: BTreeMap<String, Operation>,
}

/// Every job on every target of this server.
///
/// # Errors
/// This is no Lustre server, or its files may not be read.
pub fn jobs(root: &Path, skipped: &mut Skipped) -> Result<Vec<JobStats>, ReadError> {
    let mut found = Vec::new();
    let mut last = ReadError::Absent(PLACES[0].to_owned());
    let mut any = false;
    for place in PLACES {
        for component in ["mdt", "obdfilter"] {
            for target in names(root, &format!("{place}/{component}")) {
                let path = format!("{place}/{component}/{target}/job_stats");
                match read_up_to(root, &path, FILE_BYTES_MAX) {
                    Ok(text) => {
                        any = true;
                        found.extend(parse(component, &target, &text, skipped));
                    }
                    Err(ReadError::Absent(_)) => {}
                    Err(why) => last = why,
                }
            }
        }
    }
    if any { Ok(found) } else { Err(last) }
}

/// The jobs of one file, in order of their ids; those without an id are added up.
pub fn parse(component: &str, target: &str, text: &str, skipped: &mut Skipped) -> Vec<JobStats> {
    let mut jobs: BTreeMap<String, JobStats> = BTreeMap::new();
    let mut current: Option<JobStats> = None;
    for line in text.lines() {
        if let Some(id) = line.trim_start().strip_prefix("- job_id:") {
            jobs_add(&mut jobs, current.take());
            current = Some(JobStats {
                component: component.to_owned(),
                target: target.to_owned(),
                job: unquoted(id.trim()).to_owned(),
                ..JobStats::default()
            });
            continue;
        }
        let Some(job) = &mut current else { continue };
        let Some((key, value)) = line.trim().split_once(':') else { continue };
        if key == "snapshot_time" {
            job.at_ns = instant(value);
        } else if let Some(fields) = value.trim().strip_prefix('{') {
            match operation(fields) {
                Some(operation) => {
                    job.operations.insert(key.to_owned(), operation);
                }
                None => skipped.note(line),
            }
        }
    }
    jobs_add(&mut jobs, current);
    jobs.into_values().collect()
}

/// Adds a job; one with an id that was there is counted with it.
fn jobs_add(jobs: &mut BTreeMap<String, JobStats>, job: Option<JobStats>) {
    let Some(job) = job else { return };
    let Some(known) = jobs.get_mut(&job.job) else {
        jobs.insert(job.job.clone(), job);
        return;
    };
    for (name, more) in job.operations {
        let sum = known
            .operations
            .entry(name)
            .or_insert_with(|| Operation { unit: more.unit.clone(), ..Operation::default() });
        sum.count = sum.count.saturating_add(more.count);
        sum.sum = match (sum.sum, more.sum) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
    }
}

fn unquoted(id: &str) -> &str {
    id.strip_prefix('"').and_then(|id| id.strip_suffix('"')).unwrap_or(id)
}

/// `samples: 4, unit: usecs, min: 9, max: 40, sum: 80, sumsq: 2202 }`; all but the first two may be
/// missing, and others may come.
fn operation(fields: &str) -> Option<Operation> {
    let mut found = Operation::default();
    let mut counted = false;
    for field in fields.trim_end().strip_suffix('}')?.split(',') {
        let (key, value) = field.split_once(':')?;
        match key.trim() {
            "samples" => {
                found.count = value.trim().parse().ok()?;
                counted = true;
            }
            "unit" => value.trim().clone_into(&mut found.unit),
            "sum" => found.sum = value.trim().parse().ok(),
            _ => {}
        }
    }
    counted.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::{JobStats, jobs, parse};
    use crate::files::Skipped;
    use crate::test_tree::tree;

    fn of(text: &str) -> (Vec<JobStats>, Skipped) {
        let mut skipped = Skipped::default();
        (parse("mdt", "work-MDT0000", text, &mut skipped), skipped)
    }

    #[test]
    fn m10_the_newer_layout_is_read_and_ids_lose_their_quotes() {
        let (found, skipped) = of(
            "job_stats:\n- job_id:          \"bld:31.node-a\"\n  snapshot_time:   1790000060.12 secs.nsecs\n  start_time:      1789990000.000000000 secs.nsecs\n  elapsed_time:    60.0 secs.nsecs\n  open:            { samples: 4, unit: usecs, min: 9, max: 40, sum: 80, sumsq: 2202 }\n  later: { samples: 1, unit: reqs, hist: 4 }\n  odd: value\n",
        );
        assert_eq!((found.len(), found[0].job.as_str()), (1, "bld:31.node-a"));
        let open = &found[0].operations["open"];
        assert_eq!((open.count, open.unit.as_str(), open.sum), (4, "usecs", Some(80)));
        assert_eq!(found[0].at_ns, Some(1_790_000_060_120_000_000));
        assert_eq!((found[0].operations["later"].count, skipped.count), (1, 0));
    }

    #[test]
    fn m11_odd_and_empty_ids_are_told_apart_and_nothing_is_borrowed() {
        let (found, skipped) = of(
            "job_stats:\n- job_id:\n  snapshot_time: 1\n  statfs: { samples: 6, unit: reqs }\n- job_id:          kworker/9:2.0\n  close: { samples: 2, unit: reqs }\n- job_id:          my prog.1001\n  open: { samples: 3, unit: reqs }\n- job_id:\n  statfs: { samples: 1, unit: reqs }\n  broken: { samples: x }\n",
        );
        let ids: Vec<&str> = found.iter().map(|job| job.job.as_str()).collect();
        assert_eq!(ids, ["", "kworker/9:2.0", "my prog.1001"]);
        assert_eq!(found[0].operations["statfs"].count, 7);
        assert!(!found[1].operations.contains_key("open"));
        assert_eq!((found[2].operations["open"].count, skipped.count), (3, 1));
    }

    #[test]
    fn ten_thousand_dead_jobs_are_read_once_each() {
        let block = |job: u32| {
            format!("- job_id: c1.{job}\n  read_bytes: {{ samples: 1, unit: bytes, sum: {job} }}\n")
        };
        let text: String = (0..10_000).map(block).collect();
        let root = tree(&format!(
            "proc/fs/lustre/obdfilter/work-OST0000/job_stats: {}",
            text.replace('\n', "\\n")
        ));
        let found = jobs(root.path(), &mut Skipped::default()).expect("jobs");
        assert_eq!((found.len(), found[0].component.as_str()), (10_000, "obdfilter"));
        assert!(jobs("/nowhere".as_ref(), &mut Skipped::default()).is_err());
    }
}
