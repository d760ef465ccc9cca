//! The daemon killed at every point between taking a submission and recording an exit.
//!
//! Failpoints of debug builds end the process there without unwinding, as SIGKILL would. After a
//! restart: every acknowledged job has run exactly once, its exit is recorded once, and nothing of
//! it is left.

use crate::place::{Daemon, PATIENCE, Place, job, until};
use muster_api::HistoryQuery;
use muster_client::Client;
use muster_model::JobState;
use std::time::Duration;

/// How long a daemon may take to come to a point that jobs pass.
const REACHED: Duration = Duration::from_secs(20);

/// How often jobs are submitted until it comes there.
const TRIES: u32 = 10;

/// Appends its number to a file: what ran, and how often.
const SCRIPT: &str = "#!/bin/sh\necho $SLURM_JOB_ID >> ran\nexit 7\n";

/// Points in the control loop, which also name themselves in its source.
const CONTROL: &str = include_str!("../../../control/src/failpoint.rs");

/// Points that are passed at a snapshot only, not by each job.
const AT_SNAPSHOTS: &[&str] = &["before_snapshot", "after_snapshot"];

/// Points in the engine, on the daemon's side.
const ENGINE: &[&str] =
    &["engine.before_launch", "engine.after_launch", "engine.before_acknowledge"];

/// The names in the list of the control loop's source.
fn control_points() -> Vec<&'static str> {
    let list = CONTROL.split_once("NAMES: &[&str] = &[").unwrap().1;
    let list = list.split_once("];").unwrap().0;
    list.split('"').skip(1).step_by(2).collect()
}

/// Submits until the daemon is gone, at most `most` jobs; returns those that were acknowledged.
fn submit_while_it_lives(place: &Place, most: usize) -> Vec<u32> {
    let Ok(client) = Client::connect_to(&place.path("socket")) else { return Vec::new() };
    let request = place.request(SCRIPT, &[]);
    let answers = (0..most).map_while(|_| client.submit(&request).ok());
    answers.map(|answer| answer.job_id).collect()
}

/// The numbers in the file that jobs append to.
fn ran(place: &Place) -> Vec<u32> {
    let text = std::fs::read_to_string(place.path("ran")).unwrap_or_default();
    let mut ids: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    ids.sort_unstable();
    ids
}

/// Everything that must hold once a daemon without failpoints has taken over.
fn check(place: &Place, acknowledged: &[u32], point: &str) {
    let client = place.client();
    until("every job is over", || {
        let stats = client.stats().unwrap();
        (stats.pending + stats.active == 0).then_some(())
    });
    let ran = ran(place);
    let mut once = ran.clone();
    once.dedup();
    assert_eq!(ran, once, "{point}: a job ran twice");
    for id in acknowledged {
        assert!(ran.contains(id), "{point}: job {id} was acknowledged and did not run ({ran:?})");
        let end = client.wait_over(&job(*id)).unwrap();
        let exit = end.jobs[0].exit.unwrap();
        assert_eq!((exit.code, exit.signal), (7, 0), "{point}: job {id}");
        assert_eq!(end.jobs[0].state, JobState::Failed, "{point}: job {id}");
    }
    let history = client.history(&HistoryQuery::default()).unwrap().rows;
    let mut recorded: Vec<u32> = history.iter().map(|row| row.id).collect();
    recorded.sort_unstable();
    assert_eq!(recorded, ran, "{point}: every exit is recorded once");
    until("nothing of the jobs is left", || place.job_processes().is_empty().then_some(()));
    until("the engine forgot them", || {
        let left = std::fs::read_dir(place.path("state").join("jobs")).unwrap().count();
        (left == 0).then_some(())
    });
}

/// Kills the daemon at a point, the `count`-th time that it comes there, and looks at what is left.
fn killed_at(variable: &str, setting: &str) {
    let place = Place::new();
    // The configuration is a command too and passes points of its own: without failpoints first.
    place.start().stop();
    let practice = ["--practice", "4x8"];
    let mut daemon = place.try_start(&practice, &[(variable, setting)]);
    let mut acknowledged = Vec::new();
    if let Some(daemon) = &mut daemon {
        // One round may serve several submissions, so three jobs may not pass a point three times.
        let reached = (0..TRIES).any(|_| {
            acknowledged.extend(submit_while_it_lives(&place, 3));
            daemon.wait(REACHED / TRIES).is_some()
        });
        assert!(reached, "{setting} was never reached");
    }
    let _daemon: Daemon = place.start();
    check(&place, &acknowledged, setting);
}

#[test]
fn at_every_point_of_the_control_loop() {
    for point in control_points() {
        if AT_SNAPSHOTS.contains(&point) {
            println!(
                "skipped: {point} is not passed by single jobs; the control loop's tests have it"
            );
            continue;
        }
        for count in [1, 2, 3] {
            killed_at("MUSTER_FAILPOINTS", &format!("{point}=abort@{count}"));
        }
    }
}

#[test]
fn at_every_point_of_the_engine() {
    for point in ENGINE {
        killed_at("MUSTER_FAILPOINT", point);
    }
}

#[test]
fn by_a_signal_while_jobs_run() {
    let place = Place::new();
    let daemon = place.start();
    let acknowledged = submit_while_it_lives(&place, 20);
    assert_eq!(acknowledged.len(), 20);
    daemon.kill();
    let _daemon = place.start();
    check(&place, &acknowledged, "SIGKILL");
}

#[test]
fn again_and_again() {
    let place = Place::new();
    let mut acknowledged = Vec::new();
    for _ in 0..6 {
        let daemon = place.start();
        acknowledged.extend(submit_while_it_lives(&place, 5));
        daemon.kill();
    }
    let _daemon = place.start();
    assert_eq!(acknowledged.len(), 30);
    check(&place, &acknowledged, "SIGKILL, six times");
    assert!(PATIENCE > REACHED);
}
