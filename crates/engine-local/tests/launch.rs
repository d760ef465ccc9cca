//! Jobs as real processes: launching, streams, exits, restart of the daemon.

mod support;

use muster_engine::{Engine, EngineError, Order};
use muster_model::{EndCause, ExitStatus, JobId, OpenMode, Seconds, Stdio};
use std::sync::Arc;
use support::{Site, script, wait_until, with_job, with_spec};

fn exited(code: u8) -> ExitStatus {
    ExitStatus { code, signal: 0 }
}

#[test]
fn a_script_runs_with_its_environment_and_its_exit_is_kept() {
    let site = Site::new();
    let daemon = site.start();
    let launch =
        script(&site, 7, "echo $SLURM_JOB_ID $SLURM_JOB_NODELIST $PWD; echo oops >&2; exit 3");
    let report = daemon.run(&launch);
    assert_eq!((report.cause, report.status), (EndCause::Exited, exited(3)), "{report:?}");
    assert!(report.started.expect("start") <= report.ended);
    assert!(report.usage.memory_peak_kib > 0);
    assert_eq!(site.read("out7"), format!("7 node1 {}\noops\n", site.work().display()));
    let inventory = daemon.engine.inventory().expect("inventory");
    assert_eq!(inventory.exited.len(), 1);
    daemon.acknowledge(7);
    let inventory = daemon.engine.inventory().expect("inventory");
    assert!(inventory.exited.is_empty() && inventory.running.is_empty());
    assert!(!site.state().join("jobs/7.1").exists());
}

#[test]
fn launching_twice_runs_once() {
    let site = Site::new();
    let daemon = site.start();
    let launch = script(&site, 1, "echo ran >> count");
    daemon.launch(&launch);
    daemon.launch(&launch);
    daemon.exit(1);
    daemon.launch(&launch);
    daemon.acknowledge(1);
    daemon.launch(&launch);
    daemon.run(&script(&site, 2, "true"));
    assert_eq!(site.read("count"), "ran\n");
}

#[test]
fn an_attempt_stopped_before_its_launch_never_runs() {
    let site = Site::new();
    let daemon = site.start();
    daemon.stop(4, 30);
    let report = daemon.exit(4);
    assert_eq!((report.cause, report.started), (EndCause::Stopped, None));
    daemon.launch(&script(&site, 4, "touch ran"));
    daemon.acknowledge(4);
    daemon.launch(&script(&site, 4, "touch ran"));
    daemon.run(&script(&site, 5, "true"));
    assert!(!site.work().join("ran").exists());
}

#[test]
fn what_cannot_be_started_says_why() {
    let site = Site::new();
    let daemon = site.start();
    for (id, body, word) in [
        (1, "#!/no/such/interpreter\n", "\"/no/such/interpreter\" was not found"),
        (2, "#!/bin/sh\r\necho\r\n", "dos2unix"),
    ] {
        let launch = support::job(&site, id, body, muster_model::JobKind::Batch);
        let report = daemon.run(&launch);
        assert_eq!((report.cause, report.started), (EndCause::LaunchFailed, None));
        assert!(report.message.contains(word), "{}", report.message);
        let told = site.read(&format!("out{id}"));
        assert!(told.starts_with("slurmstepd: error: execve(): bad interpreter(/"), "{told}");
        assert!(told.contains("): No such file or directory"), "{told}");
    }
    let no_place = with_spec(script(&site, 3, "true"), |spec| {
        spec.stdio.output = Some("no/such/dir/out".to_owned());
    });
    let report = daemon.run(&no_place);
    assert_eq!(report.cause, EndCause::LaunchFailed);
    assert!(report.message.contains("cannot open the output file"), "{}", report.message);
    assert!(report.message.contains("hint:"), "{}", report.message);
}

#[test]
fn a_missing_working_directory_is_not_replaced_by_another() {
    let site = Site::new();
    let daemon = site.start();
    let launch = with_spec(script(&site, 1, "touch ran"), |spec| {
        spec.cwd = "/no/such/place".to_owned();
        spec.stdio = Stdio { output: Some("/dev/null".to_owned()), ..Stdio::default() };
    });
    let report = daemon.run(&launch);
    assert_eq!(report.cause, EndCause::LaunchFailed);
    assert!(report.message.contains("/no/such/place"), "{}", report.message);
}

#[test]
fn streams_go_where_they_are_sent() {
    let site = Site::new();
    let daemon = site.start();
    std::fs::write(site.work().join("in"), "typed").expect("input");
    let stdio = |mode| Stdio {
        input: Some("in".to_owned()),
        output: Some("o-%x".to_owned()),
        error: Some("e-%j".to_owned()),
        open_mode: mode,
    };
    let body = "cat; echo bad >&2";
    daemon.run(&with_spec(script(&site, 1, body), |s| s.stdio = stdio(OpenMode::Default)));
    assert_eq!((site.read("o-job1"), site.read("e-1")), ("typed".to_owned(), "bad\n".to_owned()));
    let again = with_job(
        with_spec(script(&site, 1, body), |s| s.stdio = stdio(OpenMode::Default)),
        |job| {
            job.attempt = 2;
        },
    );
    daemon.run(&again);
    assert_eq!(site.read("o-job1"), "typedtyped", "a restart appends");
    let fresh = with_job(
        with_spec(script(&site, 1, body), |s| s.stdio = stdio(OpenMode::Truncate)),
        |job| {
            job.attempt = 3;
        },
    );
    daemon.run(&fresh);
    assert_eq!(site.read("o-job1"), "typed");
}

#[test]
fn jobs_outlive_the_daemon_and_the_shepherd() {
    let site = Site::new();
    let daemon = site.start();
    daemon.launch(&script(&site, 1, "until test -e go; do sleep 0.01; done; exit 5"));
    daemon.launch(&script(&site, 2, "exit 6"));
    daemon.started(1);
    drop(daemon);
    let daemon = site.start();
    let running: Vec<u32> =
        daemon.engine.inventory().expect("inventory").running.iter().map(|r| r.job.0).collect();
    assert!(running.contains(&1), "{running:?}");
    support::kill(site.shepherd_pid(), nix::sys::signal::Signal::SIGKILL);
    // A launch finds the new shepherd, whether the old one's end was noticed yet or not.
    assert_eq!(daemon.run(&script(&site, 3, "exit 7")).status, exited(7));
    drop(daemon);
    std::fs::write(site.work().join("go"), "").expect("go");
    wait_until("the record of job 1", || site.state().join("jobs/1.1/exit.json").exists());
    let daemon = site.start();
    let mut exits: Vec<(u32, u8)> = daemon
        .engine
        .inventory()
        .expect("inventory")
        .exited
        .iter()
        .map(|(job, _, report)| (job.0, report.status.code))
        .collect();
    exits.sort_unstable();
    assert_eq!(exits, [(1, 5), (2, 6), (3, 7)]);
}

#[test]
fn a_killed_supervisor_ends_its_job_whole() {
    let site = Site::new();
    let daemon = site.start();
    daemon.launch(&script(&site, 1, "echo $$ > pid; sleep 1000"));
    daemon.started(1);
    wait_until("the script's pid", || {
        std::fs::metadata(site.work().join("pid")).is_ok_and(|m| m.len() > 1)
    });
    let record =
        std::fs::read_to_string(site.state().join("jobs/1.1/launch.json")).expect("record");
    let record: serde_json::Value = serde_json::from_str(&record).expect("json");
    support::kill(
        record["supervisor"]["pid"].as_i64().expect("pid") as i32,
        nix::sys::signal::Signal::SIGKILL,
    );
    let report = daemon.exit(1);
    assert_eq!(report.cause, EndCause::NodeLost);
    let pid: i32 = site.read("pid").trim().parse().expect("pid");
    wait_until("the script is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_reboot_is_seen_by_the_boot_id() {
    let site = Site::new();
    let daemon = site.start();
    daemon.launch(&script(&site, 1, "sleep 1000"));
    daemon.started(1);
    drop(daemon);
    let path = site.state().join("jobs/1.1/launch.json");
    let text = std::fs::read_to_string(&path).expect("record");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("boot id");
    std::fs::write(&path, text.replace(boot.trim(), "another-boot")).expect("record");
    let daemon = site.start();
    let inventory = daemon.engine.inventory().expect("inventory");
    assert_eq!(inventory.exited[0].2.cause, EndCause::NodeReboot);
}

#[test]
fn a_removal_that_was_cut_short_is_finished() {
    // The files go in this order; the daemon is killed after so many of them.
    for gone in 1..=4 {
        let site = Site::new();
        let daemon = site.start();
        let report = daemon.run(&script(&site, 1, "exit 7"));
        drop(daemon);
        let directory = site.state().join("jobs/1.1");
        for name in ["script", "step.sock", "launch.json", "exit.json"].into_iter().take(gone) {
            std::fs::remove_file(directory.join(name)).ok();
        }
        let daemon = site.start();
        let exited = daemon.engine.inventory().expect("inventory").exited;
        let told: Vec<_> = exited.iter().map(|(_, _, report)| report.clone()).collect();
        let kept = if gone < 4 { vec![report] } else { Vec::new() };
        assert_eq!(told, kept, "{gone} files gone: no other end is made up");
        daemon.acknowledge(1);
        assert!(!directory.exists(), "{gone} files gone");
    }
}

#[test]
fn what_a_reboot_swept_from_memory_is_known_from_the_journal() {
    let site = Site::new();
    let daemon = site.start();
    daemon.launch(&script(&site, 1, "sleep 1000"));
    daemon.run(&script(&site, 2, "true"));
    daemon.acknowledge(2);
    drop(daemon);
    site.end_everything();
    std::fs::remove_dir_all(site.state().join("jobs/1.1")).expect("swept");
    let path = site.state().join("attempts.log");
    let text = std::fs::read_to_string(&path).expect("journal");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("boot id");
    std::fs::write(&path, text.replace(boot.trim(), "another-boot")).expect("journal");
    let daemon = site.start();
    let exited = daemon.engine.inventory().expect("inventory").exited;
    let causes: Vec<_> = exited.iter().map(|(job, _, report)| (job.0, report.cause)).collect();
    assert_eq!(causes, [(1, EndCause::NodeReboot)]);
    daemon.launch(&script(&site, 1, "touch ran"));
    daemon.acknowledge(1);
    daemon.run(&script(&site, 3, "true"));
    assert!(!site.work().join("ran").exists());
}

#[test]
fn directories_that_a_cleaner_removed_are_made_again() {
    let site = Site::new();
    let daemon = site.start();
    daemon.run(&script(&site, 1, "true"));
    daemon.acknowledge(1);
    let jobs = site.state().join("jobs");
    let jobs = std::fs::read_link(&jobs).unwrap_or(jobs);
    std::fs::remove_dir_all(jobs).expect("swept");
    site.remove_cgroups();
    let report = daemon.run(&script(&site, 2, "exit 5"));
    assert_eq!((report.cause, report.status), (EndCause::Exited, exited(5)), "{report:?}");
}

#[test]
fn an_order_of_a_replaced_writer_is_refused() {
    let site = Site::new();
    let daemon = site.start();
    let order = Order::Stop { job: JobId(9), attempt: 1, cause: None, grace: Seconds(1) };
    daemon.engine.execute(5, &order).expect("taken");
    assert_eq!(daemon.engine.execute(4, &order), Err(EngineError::Fenced { fence: 4, seen: 5 }));
}

#[test]
fn another_users_job_runs_as_that_user() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: not root, so no other user's processes can be started");
        return;
    }
    let site = Site::new();
    let daemon = site.start();
    let launch =
        with_spec(script(&site, 1, "id -u; id -g; cat $0 > copy; cat /etc/shadow"), |spec| {
            (spec.owner.uid, spec.owner.gid) = (65_534, 65_534);
        });
    let report = daemon.run(&launch);
    assert_eq!(report.status, exited(1), "{report:?}");
    assert!(site.read("out1").starts_with("65534\n65534\n"), "{}", site.read("out1"));
    assert!(site.read("copy").contains("id -u"));
    std::fs::write(site.work().join("mine"), "root's").expect("file");
    let other = with_spec(script(&site, 2, "true"), |spec| {
        (spec.owner.uid, spec.owner.gid) = (65_534, 65_534);
        spec.stdio.output = Some("mine".to_owned());
    });
    let report = daemon.run(&other);
    assert_eq!(report.cause, EndCause::LaunchFailed);
    assert_eq!(site.read("mine"), "root's");
}

#[test]
fn a_command_without_a_script_is_found_in_the_path() {
    let site = Site::new();
    let daemon = site.start();
    let command = |id: u32, argv: &[&str]| {
        let mut launch = script(&site, id, "");
        let payload = Arc::make_mut(&mut launch.payload);
        payload.script.clear();
        payload.args = argv.iter().map(|w| (*w).to_owned()).collect();
        launch
    };
    assert_eq!(daemon.run(&command(1, &["sh", "-c", "exit 4"])).status, exited(4));
    let report = daemon.run(&command(2, &["no-such-program"]));
    assert_eq!((report.cause, report.status), (EndCause::LaunchFailed, exited(127)));
    assert_eq!(report.message, "no-such-program: command not found");
}
