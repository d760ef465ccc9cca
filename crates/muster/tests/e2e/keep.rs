//! What is kept: configuration, backups, and a store that cannot be used.

use crate::place::{Place, job, said, until};
use muster_api::QueueQuery;
use nix::sys::signal::{Signal, kill};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

/// A state directory whose database, without a log beside it, has these bytes at this offset.
fn damaged(place: &Place, at: u64, bytes: &[u8]) -> PathBuf {
    place.start().stop();
    let file = place.path("copy");
    let output = place.muster(&["backup", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    std::fs::remove_dir_all(place.path("state")).unwrap();
    std::fs::create_dir(place.path("state")).unwrap();
    let mut open = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    open.seek(SeekFrom::Start(at)).unwrap();
    open.write_all(bytes).unwrap();
    let path = place.path("state").join("muster.db");
    std::fs::copy(&file, &path).unwrap();
    path
}

#[test]
fn a_changed_file_is_taken_over_and_a_wrong_one_changes_nothing() {
    let place = Place::new();
    let file = place.path("muster.toml");
    std::fs::write(&file, "[cluster]\nname = \"lab\"\n").unwrap();
    let words = ["--practice", "4x8", "--config", file.to_str().unwrap()];
    let _daemon = place.try_start(&words, &[]).unwrap();
    let client = place.client();
    assert_eq!(client.ping().unwrap().cluster, "lab");
    let waiting = place.submit("true", &["--hold"]).job_id;

    std::fs::write(&file, "[policy]\nkill_wait = \"soon\"\n").unwrap();
    let error = client.reload().unwrap_err();
    let refusal = error.refusal().unwrap();
    assert_eq!(
        (refusal.code.as_str(), refusal.place.as_ref().unwrap().line),
        ("E_CONFIG_VALUE", Some(2))
    );

    let text = "[cluster]\nname = \"lab\"\n[policy]\nkill_wait = \"5s\"\n\
                [[partition]]\nname = \"main\"\n[[partition]]\nname = \"debug\"\nnodes = [\"node1\"]\n";
    std::fs::write(&file, text).unwrap();
    let reload = client.reload().unwrap();
    assert!(reload.changes.iter().any(|c| c.key == "policy.kill_wait" && c.after == "\"5s\""));
    assert!(reload.restart_needed.is_empty(), "{reload:?}");
    let shown = said(&place.slurm("scontrol", &["show", "config"]));
    assert!(shown.contains("KillWait                = 5 sec\n"), "{shown}");
    assert!(shown.contains("MaxArraySize            = 100001\n"), "{shown}");
    let names: Vec<String> = client.partitions().unwrap().into_iter().map(|p| p.name).collect();
    assert_eq!(names, ["debug", "main"]);
    assert_eq!(client.queue(&QueueQuery::default()).unwrap().rows[0].id, waiting);
}

#[test]
fn a_hangup_reloads_the_file_and_a_wrong_one_changes_nothing() {
    let place = Place::new();
    let file = place.path("muster.toml");
    let text = "[practice]\nnodes = 2\ngpus = 3\ncpus = 6\nmemory = \"6G\"\n\
                gpu_model = \"l4\"\ngpu_memory = \"24G\"\n";
    std::fs::write(&file, text).unwrap();
    let words = ["--config", file.to_str().unwrap()];
    let daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    let shown = said(&place.slurm("scontrol", &["-o", "show", "node", "node2"]));
    assert!(shown.contains("CPUTot=6") && shown.contains("RealMemory=6144"), "{shown}");
    assert!(shown.contains("Gres=gpu:l4:3"), "{shown}");
    let client = place.client();
    let hang_up = |kill_wait: &str| {
        std::fs::write(&file, format!("{text}[policy]\nkill_wait = \"{kill_wait}\"\n")).unwrap();
        kill(daemon.pid(), Signal::SIGHUP).unwrap();
    };
    hang_up("7s");
    until("it is reloaded", || (client.ping().unwrap().policy.kill_wait_s == 7).then_some(()));
    hang_up("soon");
    until("it is refused", || place.log().contains("not reloaded").then_some(()));
    assert_eq!(client.ping().unwrap().policy.kill_wait_s, 7);
}

#[test]
fn a_wrong_file_does_not_start_a_daemon_and_has_a_place() {
    let place = Place::new();
    let file = place.path("muster.toml");
    std::fs::write(&file, "[daemon]\nsokcet = \"/tmp/x\"\n").unwrap();
    let output = place.muster(&["up", "--config", file.to_str().unwrap()]);
    let text = said(&output);
    assert!(!output.status.success());
    assert!(text.contains("muster.toml:2:1") && text.contains("did you mean socket?"), "{text}");
}

#[test]
fn a_backup_made_while_jobs_wait_can_be_restored() {
    let place = Place::new();
    let daemon = place.start();
    place.submit("exit 4", &[]);
    place.client().wait_over(&job(1)).unwrap();
    place.submit("true", &["--hold", "--job-name=kept"]);
    let file = place.path("backup");
    let output = place.muster(&["backup", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let again = place.muster(&["backup", file.to_str().unwrap()]);
    assert!(said(&again).contains("E_STORE_EXISTS"), "{}", said(&again));
    let into = place.muster(&["restore", file.to_str().unwrap()]);
    assert!(!into.status.success(), "restored into a directory in use: {}", said(&into));
    daemon.stop();

    let output = place.muster(&["restore", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(place.path("state").join("replaced-1/muster.db").exists(), "{}", said(&output));
    let _daemon = place.start();
    let client = place.client();
    let rows = client.queue(&QueueQuery::default()).unwrap().rows;
    assert_eq!((rows.len(), rows[0].name.as_str()), (1, "kept"));
    let history = client.history(&muster_api::HistoryQuery::default()).unwrap();
    assert_eq!((history.rows.len(), history.rows[0].exit.code), (1, 4));
}

#[test]
fn a_damaged_store_is_said_and_left_alone() {
    let place = Place::new();
    let path = damaged(&place, 0, b"this is no database of anybody.....");
    let before = std::fs::read(&path).unwrap();
    let output = place.muster(&["up", "--practice", "4x8"]);
    assert!(
        !output.status.success() && said(&output).contains("E_STORE_DAMAGED"),
        "{}",
        said(&output)
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_newer_log_is_refused_with_what_to_do() {
    let place = Place::new();
    // The user version of a SQLite file: four bytes at offset 60 (SQLite's file format).
    damaged(&place, 60, &9_999_u32.to_be_bytes());
    let output = place.muster(&["up", "--practice", "4x8"]);
    let text = said(&output);
    assert!(!output.status.success() && text.contains("E_STORE_NEWER_SCHEMA"), "{text}");
    assert!(text.contains("9999") && text.contains("hint:"), "{text}");
}
