//! Jobs that do not want to end, want too much, or are told to stop.

mod support;

use muster_engine::{Engine, Observation, Order};
use muster_model::{
    EndCause, ExitStatus, JobId, Mib, Seconds, SignalScope, SignalSpec, SignalTarget, StopCause,
    TimeLimit,
};
use std::path::Path;
use support::{Daemon, Site, script, wait_until, with_job, with_placement, with_spec};

/// Processes of the ordinary run; ten thousand with `MUSTER_TEST_LONG=1`.
fn many() -> u32 {
    if std::env::var_os("MUSTER_TEST_LONG").is_some() { 10_000 } else { 2_000 }
}

/// A word for command lines that no other run of the tests has.
fn word(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// No process has this word in its command line any more.
fn assert_none_left(word: &str) {
    let left: Vec<String> = std::fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let groups = std::fs::read_to_string(entry.path().join("cgroup")).ok()?;
            String::from_utf8_lossy(&line).contains(word).then(|| format!("{stat}{groups}"))
        })
        .collect();
    assert!(left.is_empty(), "{word}: {left:#?}");
}

fn wait_for_file(site: &Site, name: &str) {
    wait_until(name, || site.work().join(name).exists());
}

/// A job of which every process ignores TERM, and one is daemonised.
fn stubborn(site: &Site, id: u32, word: &str) -> muster_engine::Launch {
    let body = format!(
        "trap '' TERM\n\
         (setsid sh -c 'trap \"\" TERM; touch ready; while :; do sleep 1000; done' {word} &)\n\
         while :; do sleep 1000; done"
    );
    script(site, id, &body)
}

fn check_both(test: impl Fn(&Site, &Daemon)) {
    for site in [Site::new(), Site::plain()] {
        let daemon = site.start();
        test(&site, &daemon);
    }
}

#[test]
fn the_time_limit_ends_a_job_that_ignores_term_and_daemonises() {
    for (site, word) in
        [(Site::new(), word("muster-limit-group")), (Site::plain(), word("muster-limit-tree"))]
    {
        let daemon = site.start();
        let launch =
            with_job(stubborn(&site, 1, &word), |job| job.time_limit = TimeLimit::Of(Seconds(1)));
        let launch = muster_engine::Launch { kill_wait: Seconds(1), ..launch };
        let report = daemon.run(&launch);
        assert_eq!((report.cause, report.status.signal), (EndCause::TimeLimit, 9), "{report:?}");
        assert_none_left(&word);
        let told = site.read("out1");
        assert!(told.contains("slurmstepd: error: *** JOB 1 ON node1 CANCELLED AT "), "{told}");
        assert!(told.ends_with(" DUE TO TIME LIMIT ***\n"), "{told}");
    }
}

#[test]
fn what_a_finished_script_leaves_behind_ends_with_it() {
    for (site, word) in
        [(Site::new(), word("muster-left-group")), (Site::plain(), word("muster-left-tree"))]
    {
        let daemon = site.start();
        let body = format!(
            "(setsid sh -c 'touch ready; while :; do sleep 1000; done' {word} &)\n\
                            until test -e ready; do sleep 0.01; done; exit 2"
        );
        let report = daemon.run(&script(&site, 1, &body));
        assert_eq!((report.cause, report.status.code), (EndCause::Exited, 2));
        assert_none_left(&word);
    }
}

#[test]
fn a_stop_asks_first_and_a_script_may_answer() {
    check_both(|site, daemon| {
        let body = "trap 'echo bye; exit 9' TERM; touch ready; while :; do sleep 0.05; done";
        daemon.launch(&script(site, 1, body));
        wait_for_file(site, "ready");
        daemon.stop(1, 60);
        daemon.stop(1, 60);
        let report = daemon.exit(1);
        assert_eq!((report.cause, report.status.code), (EndCause::Stopped, 9));
        let told = site.read("out1");
        assert!(
            told.contains("bye\nslurmstepd: error: *** JOB 1 ON node1 CANCELLED AT "),
            "{told}"
        );
        assert!(told.ends_with(" ***\n") && !told.contains("DUE TO"), "{told}");
    });
}

#[test]
fn a_job_of_many_processes_ends_whole() {
    for (site, word) in
        [(Site::new(), word("muster-many-group")), (Site::plain(), word("muster-many-tree"))]
    {
        let daemon = site.start();
        let body = format!(
            "exec python3 -c '\nimport os, time\nfor i in range({}):\n    if os.fork() == 0:\n        \
             time.sleep(1000)\nopen(\"ready\", \"w\")\ntime.sleep(1000)' {word}",
            many()
        );
        daemon.launch(&script(&site, 1, &body));
        wait_for_file(&site, "ready");
        daemon.stop(1, 0);
        let report = daemon.exit(1);
        assert_eq!(report.cause, EndCause::Stopped);
        assert_none_left(&word);
    }
}

#[test]
fn a_fork_bomb_ends_whole() {
    for (site, word) in
        [(Site::new(), word("muster-bomb-group")), (Site::plain(), word("muster-bomb-tree"))]
    {
        let daemon = site.start();
        // Each process replaces itself for ever, and up to four live at a time.
        let body = format!(
            "exec python3 -c '\nimport os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
             for i in range(2): os.fork()\nopen(\"ready\", \"w\")\nwhile True:\n    if os.fork(): os._exit(0)' {word}"
        );
        // The first process must stay, or the script would be over.
        let body = body.replace("exec python3", "python3") + "\nwhile :; do sleep 1000; done";
        daemon.launch(&script(&site, 1, &body));
        wait_for_file(&site, "ready");
        daemon.stop(1, 0);
        assert_eq!(daemon.exit(1).cause, EndCause::Stopped);
        assert_none_left(&word);
    }
}

#[test]
fn a_signal_before_the_limit_reaches_the_script() {
    let site = Site::new();
    let daemon = site.start();
    let launch = script(&site, 1, "trap 'echo warned; exit 0' USR1; while :; do sleep 0.05; done");
    let launch = with_job(launch, |job| job.time_limit = TimeLimit::Of(Seconds(60)));
    let launch = with_spec(launch, |spec| {
        spec.signal = Some(SignalSpec {
            signal: 10,
            before: Seconds(59),
            target: SignalTarget::Batch,
            on_reservation: false,
        });
    });
    assert_eq!(daemon.run(&launch).cause, EndCause::Exited);
    assert_eq!(site.read("out1"), "warned\n");
}

#[test]
fn each_signal_is_delivered_once() {
    let site = Site::new();
    let daemon = site.start();
    daemon.launch(&script(
        &site,
        1,
        "trap 'echo one >> seen' USR1; trap 'exit 0' USR2; touch ready; while :; do sleep 0.02; done",
    ));
    wait_for_file(&site, "ready");
    daemon.started(1);
    let signal = |number, signal| Order::Signal {
        job: JobId(1),
        attempt: 1,
        number,
        signal,
        scope: SignalScope::Batch,
    };
    daemon.engine.execute(1, &signal(1, 10)).expect("taken");
    wait_for_file(&site, "seen");
    daemon.engine.execute(1, &signal(1, 10)).expect("taken");
    assert_eq!(daemon.engine.inventory().expect("inventory").running[0].signalled, 1);
    daemon.engine.execute(1, &signal(2, 12)).expect("taken");
    assert_eq!(daemon.exit(1).status, ExitStatus::SUCCESS);
    assert_eq!(site.read("seen"), "one\n");
}

#[test]
fn a_suspended_job_stands_still_and_can_be_stopped() {
    check_both(|site, daemon| {
        daemon.launch(&script(site, 1, "echo $$ > pid; while :; do :; done"));
        daemon.started(1);
        wait_until("the script's pid", || {
            std::fs::metadata(site.work().join("pid")).is_ok_and(|m| m.len() > 1)
        });
        let suspend = |suspend| Order::Suspend { job: JobId(1), attempt: 1, suspend };
        daemon.engine.execute(1, &suspend(true)).expect("taken");
        daemon.wait_for("suspended", |o| match o {
            Observation::Suspended { suspended: true, .. } => Some(()),
            _ => None,
        });
        let pid = site.read("pid");
        let ticks = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).expect("stat");
            stat.split(' ').nth(13).expect("utime").to_owned()
        };
        wait_until("it stands still", || {
            let before = ticks();
            for _ in 0..200 {
                std::thread::yield_now();
                std::hint::black_box((0..20_000).sum::<u64>());
            }
            before == ticks()
        });
        assert!(daemon.engine.inventory().expect("inventory").running[0].suspended);
        daemon.stop(1, 0);
        assert_eq!(daemon.exit(1).cause, EndCause::Stopped);
    });
}

#[test]
fn a_changed_time_limit_holds() {
    let site = Site::new();
    let daemon = site.start();
    daemon.launch(&script(&site, 1, "sleep 1000"));
    daemon.started(1);
    let limit = Order::Limit { job: JobId(1), attempt: 1, limit: TimeLimit::Of(Seconds(0)) };
    daemon.engine.execute(1, &limit).expect("taken");
    let report = daemon.exit(1);
    assert_eq!((report.cause, report.status.signal), (EndCause::TimeLimit, 15));
}

#[test]
fn too_much_memory_is_out_of_memory_with_the_peak() {
    let site = Site::new();
    let daemon = site.start();
    if !daemon.engine.enforcement().memory {
        println!("skipped: {}", daemon.engine.enforcement().notes.join("; "));
        return;
    }
    let body = "exec python3 -c 'x = bytearray(300 << 20); print(len(x))'";
    let launch = with_placement(script(&site, 1, body), |p| p.nodes[0].memory = Mib(64));
    let report = daemon.run(&launch);
    assert_eq!((report.cause, report.status), (EndCause::OutOfMemory, OUT_OF_MEMORY), "{report:?}");
    assert_eq!(report.steps[0].status, OUT_OF_MEMORY);
    assert_eq!(site.read("out1"), oom_line(1));
    let peak_mib = report.usage.memory_peak_kib / 1024;
    assert!((60..=64).contains(&peak_mib), "{peak_mib}");
    assert!(report.message.contains("64 MiB"), "{}", report.message);
    let enough =
        with_placement(script(&site, 2, "exec python3 -c 'x = bytearray(8 << 20)'"), |p| {
            p.nodes[0].memory = Mib(64);
        });
    assert_eq!(daemon.run(&enough).cause, EndCause::Exited);
    let body = "python3 -c 'x = bytearray(300 << 20); print(len(x))'; exit 0";
    let unheeded = with_placement(script(&site, 3, body), |p| p.nodes[0].memory = Mib(64));
    let report = daemon.run(&unheeded);
    assert_eq!((report.cause, report.status), (EndCause::OutOfMemory, OUT_OF_MEMORY), "{report:?}");
    assert!(site.read("out3").ends_with(&oom_line(3)), "{}", site.read("out3"));
}

/// What Slurm records where a job ran out of memory, whatever its script returned.
const OUT_OF_MEMORY: ExitStatus = ExitStatus { code: 0, signal: 125 };

fn oom_line(id: u32) -> String {
    format!(
        "slurmstepd: error: Detected 1 oom_kill event in StepId={id}.batch. \
         Some of the step tasks have been OOM Killed.\n"
    )
}

#[test]
fn the_end_is_told_in_the_error_file_by_the_users_rights() {
    let site = Site::new();
    let daemon = site.start();
    let body = "rm out1; ln -s \"$PWD/secret\" out1; touch ready; exec sleep 1000";
    std::fs::write(site.work().join("secret"), "kept\n").expect("file");
    let launch = with_spec(script(&site, 1, body), |spec| {
        (spec.owner.uid, spec.owner.gid) = unprivileged();
    });
    daemon.launch(&launch);
    wait_for_file(&site, "ready");
    daemon.stop(1, 60);
    assert_eq!(daemon.exit(1).cause, EndCause::Stopped);
    if nix::unistd::geteuid().is_root() {
        assert_eq!(site.read("secret"), "kept\n", "another's file is not written to");
    }
    let apart = with_spec(script(&site, 2, "touch set; exec sleep 1000"), |spec| {
        spec.stdio.error = Some("err%j".to_owned());
    });
    daemon.launch(&apart);
    wait_for_file(&site, "set");
    daemon.stop(2, 60);
    daemon.exit(2);
    assert_eq!(site.read("out2"), "");
    assert!(site.read("err2").starts_with("slurmstepd: error: *** JOB 2 ON node1 CANCELLED AT "));
}

#[test]
fn the_error_file_says_for_whom_a_job_was_ended() {
    let site = Site::new();
    let daemon = site.start();
    let preempted = StopCause::Preempted(JobId(9));
    let requeue = StopCause::Requeue { hold: false };
    let causes = [(preempted, " DUE TO PREEMPTION ***"), (requeue, " DUE TO JOB REQUEUE ***")];
    for (id, (cause, due)) in (1..).zip(causes) {
        daemon.launch(&script(&site, id, "touch set$SLURM_JOB_ID; exec sleep 1000"));
        wait_for_file(&site, &format!("set{id}"));
        daemon.stop_for(id, cause, 60);
        assert_eq!(daemon.exit(id).cause, EndCause::Stopped);
        let told = site.read(&format!("out{id}"));
        assert!(told.trim_end().ends_with(due), "{told}");
    }
}

/// Somebody without rights where we may start their jobs, else ourselves.
fn unprivileged() -> (u32, u32) {
    if nix::unistd::geteuid().is_root() {
        return (65_534, 65_534);
    }
    (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw())
}

#[test]
fn a_full_output_disk_is_the_scripts_own_trouble() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: not root, so no small file system can be mounted");
        return;
    }
    let site = Site::new();
    let daemon = site.start();
    let disk = Mounted::tmpfs(&site.work().join("disk"), "size=64k");
    let launch = with_spec(script(&site, 1, "yes | head -c 1000000 || exit 4; exit 5"), |spec| {
        spec.stdio.output = Some("disk/out".to_owned());
    });
    let report = daemon.run(&launch);
    assert_eq!((report.cause, report.status.code), (EndCause::Exited, 4), "{report:?}");
    drop(disk);
}

#[test]
fn a_full_state_disk_loses_no_exit() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: not root, so no small file system can be mounted");
        return;
    }
    let site = Site::new();
    let disk = Mounted::tmpfs(&site.state(), "size=256k");
    // What is in it keeps the directory of jobs on this disk.
    std::fs::create_dir(site.state().join("jobs")).expect("directory");
    std::fs::write(site.state().join("jobs/kept"), "").expect("file");
    let daemon = site.start();
    daemon.launch(&script(&site, 1, "until test -e go; do sleep 0.01; done; exit 5"));
    daemon.started(1);
    let filler = site.state().join("filler");
    let mut size = 1 << 18;
    while size > 0 {
        // Writes until nothing fits any more.
        let grown = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&filler)
            .and_then(|mut f| std::io::Write::write_all(&mut f, &vec![0; size]));
        if grown.is_err() {
            size /= 2;
        }
    }
    // A new job cannot even get its directory: it is not taken, or ends as not launched.
    let second = Order::Launch(Box::new(script(&site, 2, "touch ran")));
    if daemon.engine.execute(1, &second).is_ok() {
        assert_eq!(daemon.exit(2).cause, EndCause::LaunchFailed);
    }
    assert!(!site.work().join("ran").exists());
    std::fs::write(site.work().join("go"), "").expect("go");
    let report = daemon.exit(1);
    assert_eq!(report.status.code, 5);
    std::fs::remove_file(&filler).expect("room");
    wait_until("the record", || site.state().join("jobs/1.1/exit.json").exists());
    drop(daemon);
    let daemon = site.start();
    let exited = daemon.engine.inventory().expect("inventory").exited;
    assert_eq!(exited.iter().filter(|(job, ..)| job.0 == 1).count(), 1);
    drop(daemon);
    drop(disk);
}

/// A file system that is gone when the test is.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn tmpfs(at: &Path, options: &str) -> Self {
        std::fs::create_dir_all(at).expect("mount point");
        nix::mount::mount(
            Some("tmpfs"),
            at,
            Some("tmpfs"),
            nix::mount::MsFlags::empty(),
            Some(options),
        )
        .expect("mounted");
        std::fs::set_permissions(at, std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .expect("mode");
        Self(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH).ok();
    }
}
