//! A partition that is handed over by holds: jobs are held until they are to start, and released by
//! whoever is left when muster is killed.

use super::{Bed, Driver};
use crate::place::until;

#[test]
fn a_partition_is_driven_by_holds_and_given_back_by_whoever_is_left() {
    let Some(bed) = Bed::find() else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return;
    };
    // What a user holds stays held, whatever else comes.
    let own = bed.submit(&["--hold"]);
    let driver = bed.drive_by(&["gpu"], "hold");
    holds_until_there_is_room(&bed);
    outlives_muster(&bed, driver);
    outlives_muster_and_its_watchdog(&bed);
    stops_from_any_shell(&bed);
    let words = ["-h", "-j", &own, "-O", "Reason:|,AdminComment:|"];
    assert_eq!(bed.read("squeue", &words).replace("(null)", ""), "JobHeldUser||");
    bed.cancel(&[&own]);
}

fn why(bed: &Bed, job: &str) -> String {
    bed.read("squeue", &["-h", "-t", "PD", "-j", job, "-O", "Reason:|"])
}

fn is_held(bed: &Bed, job: &str) {
    until("it is held", || (why(bed, job) == "JobHeldAdmin|").then_some(()));
}

/// A job that fills the partition, and one that waits for it.
fn one_runs_and_one_waits(bed: &Bed) -> [String; 2] {
    let first = bed.submit(&["-N2", "--exclusive"]);
    bed.runs(&first);
    let second = bed.submit(&["-N2", "--exclusive"]);
    is_held(bed, &second);
    [first, second]
}

fn holds_until_there_is_room(bed: &Bed) {
    let [first, second] = one_runs_and_one_waits(bed);
    let array = bed.submit(&["--array=0-19", "-c2"]);
    is_held(bed, &array);
    let records = bed.read("squeue", &["-h", "-j", &array, "-o", "%i"]);
    assert_eq!(records, format!("{array}_[0-19]"), "it stays one record");
    let output = bed.muster(&["drive", "status", "--json"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"hold\""), "{output:?}");
    let words = ["drive", "slurm", "--partition", "gpu", "--by", "hold"];
    let refused = bed.muster(&words);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("E_DRIVE_HELD"), "{said}");
    bed.cancel(&[&first]);
    let [_, nodes, required] = bed.runs(&second);
    assert_eq!((nodes.as_str(), required.as_str()), ("n[4-5]", "n[4-5]"));
    bed.cancel(&[&second]);
    until("tasks run where they were planned", || {
        let words = ["-h", "-t", "R", "-j", &array, "-O", "NodeList:|,ReqNodes:|"];
        let tasks = bed.read("squeue", &words);
        let planned = |line: &&str| {
            let mut fields = line.split('|').map(str::trim);
            fields.next() == fields.next()
        };
        (tasks.lines().filter(planned).count() == 8).then_some(())
    });
    bed.cancel(&[&array]);
}

/// Killed: its watchdog gives back what it holds.
fn outlives_muster(bed: &Bed, mut driver: Driver) {
    let [first, second] = one_runs_and_one_waits(bed);
    driver.0.kill().unwrap();
    driver.0.wait().unwrap();
    is_given_back(bed, &first, &second);
    until("its watchdog says so", || {
        bed.log().contains("muster is gone; Slurm decides again").then_some(())
    });
}

/// The second job has again what it asked for, and starts by itself.
fn is_given_back(bed: &Bed, first: &str, second: &str) {
    until("nothing holds it", || (!why(bed, second).contains("JobHeld")).then_some(()));
    assert_eq!(bed.job(first)[0], "RUNNING");
    bed.cancel(&[first]);
    let [.., required] = bed.runs(second);
    assert_eq!(required, "");
    let told = bed.read("scontrol", &["show", "job", second]);
    assert!(!told.contains("AdminComment=muster"), "{told}");
    assert!(!bed.read("scontrol", &["show", "node", "n4"]).contains("muster_"), "its stamp");
    bed.cancel(&[second]);
}

/// Both are gone, as with their machine: a line of cron on another one gives back.
fn outlives_muster_and_its_watchdog(bed: &Bed) {
    let mut driver = bed.drive_by(&["gpu"], "hold");
    let children = bed.read("ps", &["-o", "pid=,args=", "--ppid", &driver.0.id().to_string()]);
    let [first, second] = one_runs_and_one_waits(bed);
    let watchdog = children.lines().find(|line| line.contains("drive watchdog")).unwrap();
    bed.read("kill", &["-9", watchdog.split_whitespace().next().unwrap()]);
    driver.0.kill().unwrap();
    driver.0.wait().unwrap();
    assert_eq!(why(bed, &second), "JobHeldAdmin|");
    until("its stamp lapses", || {
        let given = bed.muster(&["drive", "stop", "--lapsed"]);
        assert!(given.status.success(), "{given:?}");
        (!given.stderr.is_empty()).then_some(())
    });
    is_given_back(bed, &first, &second);
}

fn stops_from_any_shell(bed: &Bed) {
    let mut driver = bed.drive_by(&["gpu"], "hold");
    let [first, second] = one_runs_and_one_waits(bed);
    let stopped = bed.muster(&["drive", "stop"]);
    assert!(stopped.status.success(), "{stopped:?}");
    let status = until("its driver ends", || driver.0.try_wait().unwrap());
    assert!(!status.success() && bed.log().contains("E_DRIVE_HANDED_BACK"), "{}", bed.log());
    is_given_back(bed, &first, &second);
}
