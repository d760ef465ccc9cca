//! What the exporter costs grows with what it tells, and no faster; a large page is made whole.

use std::collections::BTreeSet;

use muster_exporter::{Owners, Settings, exposition};
use muster_node_metrics::collector::{Outcome, Part, Report, Snapshot};
use muster_node_metrics::filesystems::lustre::Operation;
use muster_node_metrics::filesystems::lustre_jobs::JobStats;
use std::sync::Arc;
use std::time::Duration;

/// A server of so many jobs with ten operations each.
fn server(jobs: usize) -> Snapshot {
    let operation = |count| Operation { count, unit: "reqs".to_owned(), sum: None };
    let job = |number: usize| JobStats {
        component: "mdt".to_owned(),
        target: "work-MDT0000".to_owned(),
        job: format!("c1.{number}"),
        at_ns: None,
        operations: (0..10).map(|at| (format!("op{at}"), operation(number as u64 + 1))).collect(),
    };
    let report = Report {
        source: "lustre_jobs",
        outcome: Outcome::Read,
        cost: Duration::ZERO,
        age: Some(Duration::ZERO),
        skipped: 0,
        first_skipped: None,
    };
    Snapshot {
        parts: vec![Arc::new(Part::LustreJobs((0..jobs).map(job).collect()))],
        reports: vec![report],
    }
}

#[test]
fn ten_thousand_dead_jobs_cost_a_bounded_page() {
    let page = |jobs: usize| exposition(&server(jobs), &Owners::default(), &Settings::default());
    // 500 jobs are told by themselves; the others add two families for their target.
    let (few, many) = (page(500), page(10_000));
    assert_eq!(many.series(), few.series() + 11);
    let (few, many) = (few.text(), many.text());
    // Numbers have more digits, and that is all.
    assert!(many.len() < few.len() * 11 / 10, "{} and {} bytes", few.len(), many.len());
    assert!(
        many.contains("muster_lustre_rest_jobs{component=\"mdt\",target=\"work-MDT0000\"} 9500\n")
    );
    // The rest is what the told ones are not: 1 + 2 + … + 9500 of each operation.
    assert!(many.contains("operation=\"op3\"} 45129750\n"));
}

#[test]
fn twenty_thousand_series_are_told_each_once() {
    let settings = Settings { jobs_max: 2_000, ..Settings::default() };
    let text = exposition(&server(2_000), &Owners::default(), &settings).open_metrics();
    let lines: Vec<&str> =
        text.lines().filter(|line| line.starts_with("lustre_job_stats")).collect();
    assert_eq!(lines.len(), 20_000);
    assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), 20_000);
}
