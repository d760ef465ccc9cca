//! Who may do what, and what is not taken at all.

use crate::place::{MUSTER, Place, job, said, until};
use muster_api::{Action, ActionRequest, JobPatch};
use muster_client::ClientError;
use muster_model::JobState;
use std::os::unix::process::CommandExt as _;

/// A user without a name, as on many machines nobody else has.
const STRANGER: u32 = 65_534;

fn root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        println!("skipped: only root can act as another user");
    }
    root
}

#[test]
fn another_users_job_cannot_be_read_changed_or_ended() {
    if !root() {
        return;
    }
    let place = Place::new();
    let _daemon = place.start();
    place.submit("sleep 600", &["--comment=mine"]);
    until("it runs", || {
        let page = place.client().job(&job(1)).unwrap();
        (page.jobs[0].row.state == JobState::Running).then_some(())
    });
    let tries: &[(&str, &[&str])] = &[
        ("scancel", &["1"]),
        ("scancel", &["--signal=KILL", "1"]),
        ("scontrol", &["hold", "1"]),
        ("scontrol", &["requeue", "1"]),
        ("scontrol", &["suspend", "1"]),
        ("scontrol", &["update", "JobId=1", "TimeLimit=1"]),
        ("scontrol", &["write", "batch_script", "1", "-"]),
    ];
    for (name, words) in tries {
        let output = place.slurm_as(STRANGER, name, words);
        let text = said(&output);
        assert!(!output.status.success(), "{name} {words:?} was done: {text}");
        assert!(!text.contains("sleep 600"), "{name} {words:?} showed the script: {text}");
    }
    let page = place.client().job(&job(1)).unwrap();
    assert_eq!(page.jobs[0].row.state, JobState::Running);
    assert_eq!((page.jobs[0].row.restarts, page.jobs[0].row.time_limit_s), (0, None));
}

#[test]
fn root_runs_a_users_job_as_that_user() {
    if !root() {
        return;
    }
    let place = Place::new();
    let _daemon = place.start();
    let folder = place.path("open");
    std::fs::create_dir(&folder).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&folder, open).unwrap();
    let chdir = format!("--chdir={}", folder.display());
    let words = [chdir.as_str(), "--output=id.out", "--wrap=id -u; umask"];
    let output = place.slurm_as(STRANGER, "sbatch", &words);
    assert!(output.status.success(), "{}", said(&output));
    place.client().wait_over(&job(1)).unwrap();
    let text = std::fs::read_to_string(folder.join("id.out")).unwrap();
    assert!(text.starts_with("65534\n"), "{text}");
}

#[test]
fn only_admins_drain_nodes_and_stop_the_daemon() {
    if !root() {
        return;
    }
    let place = Place::new();
    let _daemon = place.start();
    let words = ["update", "NodeName=node1", "State=DRAIN", "Reason=test"];
    let output = place.slurm_as(STRANGER, "scontrol", &words);
    assert!(!output.status.success(), "{}", said(&output));
    let down = place.command(MUSTER).arg("down").uid(STRANGER).gid(STRANGER).output().unwrap();
    assert!(!down.status.success() && said(&down).contains("only an admin"), "{}", said(&down));
    assert!(!place.client().node("node1").unwrap().drain);
    place.client().drain("node1", "because").unwrap();
    assert!(place.client().node("node1").unwrap().drain);
}

#[test]
fn a_daemon_of_a_user_runs_only_that_users_jobs() {
    if !root() {
        return;
    }
    let place = Place::new();
    let folder = place.path("theirs");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(STRANGER), Some(STRANGER)).unwrap();
    let mut up = place.command(MUSTER);
    up.args(["up", "--practice", "2x2"]).uid(STRANGER).gid(STRANGER);
    up.env("MUSTER_STATE", folder.join("state")).env("MUSTER_SOCKET", folder.join("socket"));
    let output = up.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let client = muster_client::Client::connect_to(&folder.join("socket")).unwrap();
    let error = client.submit(&place.request("#!/bin/sh\ntrue\n", &[])).unwrap_err();
    assert_eq!(error.code(), "E_OTHER_USER", "{error}");
    client.shutdown().unwrap();
}

#[test]
fn two_daemons_do_not_share_a_state_directory_or_a_socket() {
    let place = Place::new();
    let _daemon = place.start();
    let other = place.path("other").to_string_lossy().into_owned();
    let output = place.muster(&["up", "--practice", "4x8", "--socket", &other]);
    assert!(said(&output).contains("E_STORE_LOCKED"), "{}", said(&output));
    let output = place.muster(&["up", "--practice", "4x8", "--state", &other]);
    assert!(said(&output).contains("E_ALREADY_UP"), "{}", said(&output));
    assert!(place.client().ping().is_ok());
}

#[test]
fn nobody_answers_is_said_with_what_to_do() {
    let place = Place::new();
    let output = place.muster(&["status"]);
    assert!(!output.status.success());
    assert!(said(&output).contains("muster up") && said(&output).contains("E_NO_DAEMON"));
}

#[test]
fn what_is_not_a_request_is_refused_and_nothing_is_stored() {
    let place = Place::new();
    let _daemon = place.start();
    let client = place.client();
    let before = client.stats().unwrap().seq;
    let mut wrong = place.request("#!/bin/sh\ntrue\n", &[]);
    wrong.cwd = "relative".to_owned();
    assert_eq!(client.submit(&wrong).unwrap_err().code(), "E_CWD");
    wrong = place.request("#!/bin/sh\ntrue\n", &[]);
    wrong.environment.insert("A".to_owned(), "nul\0".to_owned());
    assert_eq!(client.submit(&wrong).unwrap_err().code(), "E_TEXT_NUL");
    wrong = place.request("#!/bin/sh\ntrue\n", &[]);
    wrong.environment.insert("A".to_owned(), "x".repeat(5 << 20));
    assert_eq!(client.submit(&wrong).unwrap_err().code(), "E_ENVIRONMENT_LARGE");
    wrong.environment.insert("B".to_owned(), "x".repeat(5 << 20));
    assert_eq!(client.submit(&wrong).unwrap_err().code(), "E_BODY_LARGE");
    let unknown = ActionRequest { jobs: vec![job(77)], ..ActionRequest::default() };
    let results = client.act(&unknown).unwrap().results;
    assert!(results[0].error.is_some(), "{results:?}");
    let patch = JobPatch { time_limit: Some("soon".to_owned()), ..JobPatch::default() };
    assert_eq!(client.update(&job(77), &patch).unwrap_err().code(), "E_TIME_BAD");
    let signal = ActionRequest { action: Action::Signal, jobs: vec![job(1)], ..Default::default() };
    assert!(matches!(client.act(&signal), Err(ClientError::Refused { status: 422, .. })));
    assert_eq!(client.stats().unwrap().seq, before);
}

#[test]
fn every_bad_example_is_refused_with_code_and_place_and_nothing_is_stored() {
    let place = Place::new();
    let _daemon = place.start();
    let client = place.client();
    let before = client.stats().unwrap().seq;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bad");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "sh") {
            continue;
        }
        count += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let mut request = place.request(&text, &[]);
        request.script_name = entry.file_name().to_string_lossy().into_owned();
        let error = client.submit(&request).unwrap_err();
        let refusal = error.refusal().unwrap_or_else(|| panic!("{}: {error}", path.display()));
        assert!(refusal.code.starts_with("E_"), "{}: {refusal}", path.display());
        let source = refusal.place.as_ref().map(|place| place.source.as_str());
        assert_eq!(source, Some(request.script_name.as_str()), "{refusal}");
    }
    assert!(count > 20, "only {count} examples were found");
    assert_eq!(client.stats().unwrap().seq, before);
}
