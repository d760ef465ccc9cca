//! Supervisors that look after one job after the other.

mod support;

use muster_engine::Launch;
use muster_model::{EndCause, ExitStatus, Stdio};
use nix::sys::signal::Signal;
use support::{Daemon, Site, kill, script, wait_until, with_spec};

/// Runs a job and says which process looked after it.
fn supervisor_of(site: &Site, daemon: &Daemon, id: u32) -> i32 {
    let report = daemon.run(&script(site, id, &format!("echo $PPID > supervisor{id}")));
    assert!(report.status.success(), "{report:?}");
    daemon.acknowledge(id);
    site.read(&format!("supervisor{id}")).trim().parse().expect("a process")
}

/// Runs jobs until one is looked after by the supervisor of the one before; gives the next number.
fn until_reused(site: &Site, daemon: &Daemon, first: u32) -> (u32, i32) {
    let (mut id, mut last) = (first, supervisor_of(site, daemon, first));
    loop {
        id += 1;
        assert!(id < first + 200, "none was used again");
        let supervisor = supervisor_of(site, daemon, id);
        if supervisor == last {
            return (id + 1, supervisor);
        }
        last = supervisor;
    }
}

#[test]
fn a_supervisor_is_used_again_and_ends_with_the_shepherd() {
    let site = Site::new();
    let daemon = site.start();
    let (_, supervisor) = until_reused(&site, &daemon, 1);
    kill(site.shepherd_pid(), Signal::SIGKILL);
    let own = format!("/proc/{supervisor}");
    wait_until("it is gone", || !std::path::Path::new(&own).exists());
}

#[test]
fn one_that_is_killed_while_it_waits_takes_no_job_along() {
    let site = Site::new();
    let daemon = site.start();
    let (next, supervisor) = until_reused(&site, &daemon, 1);
    kill(supervisor, Signal::SIGKILL);
    let own = format!("/proc/{supervisor}");
    wait_until("it is gone", || !std::path::Path::new(&own).exists());
    assert_ne!(supervisor_of(&site, &daemon, next), supervisor);
}

#[test]
fn nothing_of_one_job_is_seen_by_the_next() {
    let site = Site::new();
    let daemon = site.start();
    // Not SigQ: that counts the signals of everything that this user runs.
    let look = "echo \"$LEAK$(ulimit -n) $(umask) $(pwd)\"; [ \"$SLURM_TASK_PID\" = $$ ] && \
                ls /proc/self/fd | wc -l; grep -E 'Sig(Pnd|Blk|Ign|Cgt)' /proc/self/status";
    // By a supervisor that never had another.
    assert_eq!(daemon.run(&script(&site, 1, look)).status, ExitStatus::SUCCESS);
    let (next, _) = until_reused(&site, &daemon, 2);
    let leave = "export LEAK=1; ulimit -n 77; umask 0; trap '' TERM; cd /; exec 7>file; exit 3";
    let status = daemon.run(&script(&site, next, leave)).status;
    assert_eq!(status, ExitStatus { code: 3, signal: 0 });
    daemon.acknowledge(next);
    assert_eq!(daemon.run(&script(&site, next + 1, look)).status, ExitStatus::SUCCESS);
    assert_eq!(site.read(&format!("out{}", next + 1)), site.read("out1"));
}

#[test]
fn a_pipe_that_nobody_reads_keeps_no_supervisor_from_its_orders() {
    let site = Site::new();
    let daemon = site.start();
    let pipe = site.work().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("pipe");
    let to_pipe = |launch: Launch| {
        let output = Some(pipe.to_string_lossy().into_owned());
        with_spec(launch, |spec| spec.stdio = Stdio { output, ..Stdio::default() })
    };
    daemon.launch(&to_pipe(script(&site, 1, "echo never")));
    wait_until("it was launched", || site.state().join("jobs/1.1/launch.json").exists());
    daemon.stop(1, 0);
    assert_eq!(daemon.exit(1).cause, EndCause::Stopped);
}
