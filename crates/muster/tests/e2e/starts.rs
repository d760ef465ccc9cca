//! One answer to when: whoever asks for a job's start, and however, is told the same.

use crate::place::{MUSTER, Place, job, said, until};
use muster_api::{AddNodes, PlanKind, PlanQuery, QueueQuery, QueueRow, WhatIfRequest, WhyView};
use muster_model::{JobState, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// The starts that a view tells, in seconds, by job.
type Starts = BTreeMap<u32, i64>;

fn place(policy: &str) -> Place {
    let place = Place::new();
    let policy = format!("[policy]\n{policy}\n");
    std::fs::write(place.path("muster.toml"), policy).unwrap();
    place
}

fn seconds(at: Timestamp) -> i64 {
    at.millis().div_euclid(1000)
}

fn why(place: &Place, id: u32) -> WhyView {
    place.client().why(&job(id)).unwrap().jobs.remove(0)
}

fn of_rows(rows: &[QueueRow]) -> Starts {
    let waits = |row: &&QueueRow| row.state == JobState::Pending;
    rows.iter().filter(waits).filter_map(|row| Some((row.id, seconds(row.expected_ms?)))).collect()
}

/// Every view by name. Those that show only some of the jobs are compared for these.
fn views(place: &Place) -> Vec<(&'static str, Starts)> {
    let client = place.client();
    let query = QueueQuery { starts: Some(true), expand: Some(true), ..QueueQuery::default() };
    let rows = client.queue_all(&query).unwrap();
    let waiting: Vec<u32> =
        rows.iter().filter(|row| row.started_ms.is_none()).map(|r| r.id).collect();
    let each = |ask: &dyn Fn(u32) -> Option<Timestamp>| -> Starts {
        waiting.iter().filter_map(|id| Some((*id, seconds(ask(*id)?)))).collect()
    };
    let printed = place.muster(&["queue", "--json", "--expand"]);
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let printed: Vec<QueueRow> = serde_json::from_value(printed["jobs"].clone()).unwrap();
    let squeue = place.slurm("squeue", &["--array", "--json"]);
    let squeue: Value = serde_json::from_slice(&squeue.stdout).unwrap();
    let squeue = squeue["jobs"].as_array().unwrap().iter().filter_map(|row| {
        let start = row["start_time"]["number"].as_i64().or(row["start_time"].as_i64())?;
        let id = u32::try_from(row["job_id"].as_u64()?).ok()?;
        (start > 0 && waiting.contains(&id)).then_some((id, start))
    });
    vec![
        ("the queue", of_rows(&rows)),
        ("muster queue", of_rows(&printed)),
        ("squeue", squeue.collect()),
        ("muster why", each(&|id| why(place, id).expected_ms)),
        ("muster job", each(&|id| client.job(&job(id)).unwrap().jobs[0].row.expected_ms)),
    ]
}

/// Waits until so many jobs run and nobody else is about to start.
fn settled(place: &Place, running: usize) {
    let query = QueueQuery { starts: Some(true), expand: Some(true), ..QueueQuery::default() };
    until("jobs run and the others wait", || {
        let page = place.client().queue(&query).unwrap();
        let of = |state| page.rows.iter().filter(|row| row.state == state).count();
        let soon = page.rows.iter().filter(|row| row.state == JobState::Pending);
        let soon = soon.filter_map(|row| row.expected_ms).any(|at| at <= page.now_ms);
        let all = of(JobState::Running) + of(JobState::Pending) == page.rows.len();
        (!soon && all && of(JobState::Running) >= running).then_some(())
    });
}

/// The starts of the plan's promises.
fn promised(place: &Place) -> Starts {
    let page = place.client().plan(&PlanQuery::default()).unwrap();
    let bars = page.bars.iter().filter(|bar| bar.kind == PlanKind::Promised);
    let rows = place
        .client()
        .queue_all(&QueueQuery { expand: Some(true), ..QueueQuery::default() })
        .unwrap();
    let number = |title: &str| rows.iter().find(|row| row.job == title).map(|row| row.id);
    bars.map(|bar| (number(&bar.title).unwrap(), seconds(bar.start_ms))).collect()
}

/// What jobs that a change moves would start at without it.
fn before(place: &Place) -> Starts {
    let add = Some(AddNodes { count: 8, like: None });
    let request = WhatIfRequest { add, ..WhatIfRequest::default() };
    let moved = place.client().whatif(&request).unwrap().moved;
    moved.iter().filter_map(|job| Some((job.id, seconds(job.before_ms?)))).collect()
}

#[test]
fn every_view_tells_the_same_start() {
    let policies = [
        "",
        "guard_first = 0\nguard_promise = 0",
        "order = \"fifo\"\nbackfill = \"conservative\"",
        "order = \"fifo\"\nbackfill = \"easy\"",
        "order = \"multifactor\"",
    ];
    for policy in policies {
        let place = place(policy);
        let config = place.path("muster.toml").to_string_lossy().into_owned();
        let daemon = place
            .try_start(&["--practice", "2x4", "--config", &config], &[])
            .unwrap_or_else(|| panic!("{}", place.log()));
        let sleep = "sleep 1000";
        let submit = |options: &[&str]| place.submit(sleep, &[options, &["--mem=10M"]].concat());
        submit(&["--nodes=2", "--gpus-per-node=2", "--time=60", "--ntasks-per-node=1"]);
        submit(&["--gpus=8", "--nodes=2", "--time=30"]);
        submit(&["--gpus=4", "--nodes=1", "--time=120"]);
        submit(&["--gpus=1", "--time=90"]);
        submit(&["--gpus=2", "--time=45", "--array=0-3%1"]);
        submit(&["--gpus=1", "--time=10", "--begin=now+20minutes"]);
        submit(&["--gpus=8", "--nodes=2", "--time=5", "--nice=50"]);
        let held = submit(&["--gpus=1", "--time=10", "--hold"]).job_id;
        let after = submit(&["--gpus=1", "--time=10", "--dependency=afterok:1"]).job_id;
        settled(&place, 2);
        let views = views(&place);
        let (_, first) = &views[0];
        assert!(first.len() >= 6, "{policy}: {first:?}\n{}", said(&place.muster(&["queue"])));
        assert!(!first.contains_key(&held) && !first.contains_key(&after), "{policy}: {first:?}");
        for (name, starts) in &views[1..] {
            assert_eq!(starts, first, "{policy}: {name}");
        }
        let some = [("the plan", promised(&place)), ("muster whatif", before(&place))];
        for (name, starts) in some {
            assert!(!starts.is_empty(), "{policy}: {name} tells nothing");
            for (job, start) in starts {
                assert_eq!(Some(&start), first.get(&job), "{policy}: {name} of job {job}");
            }
        }
        daemon.stop();
    }
}

#[test]
fn who_has_no_start_has_none_anywhere_and_a_bound_says_that_it_is_one() {
    let place = place("order = \"fifo\"");
    let config = place.path("muster.toml").to_string_lossy().into_owned();
    let daemon = place
        .try_start(&["--practice", "1x4", "--config", &config], &[])
        .unwrap_or_else(|| panic!("{}", place.log()));
    place.submit("sleep 1000", &["--gpus=4", "--mem=10M", "--time=60"]);
    place.submit("sleep 1000", &["--gpus=4", "--mem=10M", "--time=unlimited"]);
    let last = place.submit("sleep 1000", &["--gpus=4", "--mem=10M", "--time=10"]).job_id;
    settled(&place, 1);
    for (name, starts) in views(&place) {
        assert!(!starts.contains_key(&last), "{name}: {starts:?}");
    }
    assert!(why(&place, last).not_before_ms.is_some());
    let told = said(&place.command(MUSTER).args(["when", &last.to_string()]).output().unwrap());
    assert!(told.contains("not before "), "{told}");
    daemon.stop();
}
