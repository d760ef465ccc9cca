//! A state directory used again: with other nodes, with an older store, by somebody else.

use crate::place::{MUSTER, Place, job, said, until};
use muster_api::HistoryQuery;
use std::os::unix::process::CommandExt as _;

/// The database and what SQLite keeps beside it.
fn lose_store(place: &Place) {
    for name in ["muster.db", "muster.db-wal", "muster.db-shm"] {
        // The others are there only while it is in use.
        let _ = std::fs::remove_file(place.path("state").join(name));
    }
}

/// A job that ended, and one that runs; their ids.
fn two_jobs(place: &Place) -> [u32; 2] {
    let over = place.submit("true", &[]).job_id;
    place.client().wait_over(&job(over)).unwrap();
    let runs = place.submit("echo up > up; exec sleep 600", &[]).job_id;
    until("the second job runs", || place.path("up").exists().then_some(()));
    [over, runs]
}

fn runs_to_its_end(place: &Place) -> u32 {
    let new = place.submit("exit 3", &[]).job_id;
    place.client().wait_over(&job(new)).unwrap();
    let rows = place.client().history(&HistoryQuery::default()).unwrap().rows;
    let exit = rows.iter().find(|row| row.id == new).map(|row| row.exit.code);
    assert_eq!(exit, Some(3), "job {new}");
    new
}

#[test]
fn practice_nodes_stay_until_their_jobs_are_over() {
    let place = Place::new();
    let daemon = place.start();
    let held = place.submit("true", &["--hold"]).job_id;
    daemon.stop();

    let other = said(&place.muster(&["up", "--practice", "2x8"]));
    assert!(other.contains("[E_PRACTICE]") && other.contains("--state"), "{other}");

    let up = place.muster(&["up"]);
    assert!(up.status.success(), "{}", said(&up));
    let lines: Vec<String> = said(&up).lines().map(str::to_owned).collect();
    assert!(lines.iter().any(|line| line.contains("practice nodes (4x8)")), "{lines:?}");
    assert_eq!(place.client().nodes().unwrap().len(), 4);
    let cancel = place.muster(&["cancel", &held.to_string()]);
    assert!(cancel.status.success(), "{}", said(&cancel));
    assert!(place.muster(&["down"]).status.success());

    let _daemon = place
        .try_start(&["--practice", "2x8"], &[])
        .unwrap_or_else(|| panic!("nothing waits any more: {}", place.log()));
}

#[test]
fn an_emptied_store_gives_no_id_again() {
    let place = Place::new();
    let daemon = place.start();
    let before = two_jobs(&place);
    daemon.kill();
    lose_store(&place);
    let _daemon = place.start();
    assert!(runs_to_its_end(&place) > before[1]);
    until("the job that nobody knows is ended", || place.job_processes().is_empty().then_some(()));
}

#[test]
fn a_restored_backup_ends_what_it_does_not_know() {
    let place = Place::new();
    let daemon = place.start();
    place.submit("exit 0", &["--begin=now+1hour"]);
    let file = place.path("backup");
    assert!(place.muster(&["backup", file.to_str().unwrap()]).status.success());
    let before = two_jobs(&place);
    let begin = place.slurm("scontrol", &["update", "JobId=1", "StartTime=now"]);
    assert!(begin.status.success(), "{}", said(&begin));
    place.client().wait_over(&job(1)).unwrap();
    daemon.kill();
    lose_store(&place);
    let restored = place.muster(&["restore", file.to_str().unwrap()]);
    assert!(restored.status.success(), "{}", said(&restored));
    assert!(said(&restored).contains("ended 1 running jobs"), "{}", said(&restored));
    assert!(place.job_processes().is_empty(), "{:?}", place.job_processes());

    let _daemon = place.start();
    assert!(runs_to_its_end(&place) > before[1]);
    // It ran before, which the restored store does not know: it can run again.
    let begin = place.slurm("scontrol", &["update", "JobId=1", "StartTime=now"]);
    assert!(begin.status.success(), "{}", said(&begin));
    place.client().wait_over(&job(1)).unwrap();
}

#[test]
fn a_backup_is_for_the_daemons_user_alone() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can be somebody else");
        return;
    }
    let place = Place::new();
    let _daemon = place.start();
    let mut backup = place.command(MUSTER);
    let output = backup.args(["backup", "/tmp/muster-not-mine"]).uid(65_534).gid(65_534).output();
    let text = said(&output.unwrap());
    assert!(text.contains("only an admin may write a backup"), "{text}");
    assert!(text.contains("[E_ADMIN_ONLY]") && !text.contains("read-only"), "{text}");
}
