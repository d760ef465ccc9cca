//! What goes wrong under a muster that drives: munge, a partition that is deleted, a user who
//! cancels a job as it starts.

use super::{Bed, Driver};
use crate::place::until;

/// A munge that fails for longer than a lease: muster says so and goes on, what runs goes on, and
/// the partition is driven again once munge is back.
pub(super) fn outlives_munge(bed: &Bed, driver: &mut Driver) {
    let gang = bed.submit(&["-N2", "--gres=gpu:2", "-c2"]);
    bed.runs(&gang);
    let started = bed.read("squeue", &["-h", "-j", &gang, "-o", "%S %N"]);
    let folder = bed.dir.join("munge");
    let pid = std::fs::read_to_string(folder.join("pid")).unwrap();
    let told = bed.log().len();
    bed.read("kill", &[pid.trim()]);
    // Its lease of 20 seconds is over by then.
    until("it says what is wrong for a while", || {
        let said = bed.log().split_off(told);
        (said.matches("E_SLURM_FAILED").count() > 12).then_some(())
    });
    assert!(bed.log().contains("Protocol authentication error"), "{}", bed.log());
    assert!(driver.0.try_wait().unwrap().is_none(), "{}", bed.log());
    let words = ["socket", "key-file", "pid-file", "seed-file", "log-file"].map(|option| {
        let file = folder.join(option.trim_end_matches("-file"));
        format!("--{option}={}", file.display())
    });
    bed.read("munged", &words.each_ref().map(String::as_str));
    assert_eq!(bed.read("squeue", &["-h", "-j", &gang, "-o", "%S %N"]), started);
    bed.until_leased("gpu");
    bed.cancel(&[&gang]);
    let next = bed.submit(&["-N2", "--exclusive"]);
    assert_eq!(bed.runs(&next)[2], "n[4-5]");
    bed.cancel(&[&next]);
}

/// A partition that is deleted while two are driven; the other one goes on.
pub(super) fn loses_a_partition(bed: &Bed) {
    bed.read("scontrol", &["update", "PartitionName=gpu", "Nodes=n4"]);
    bed.read("scontrol", &["create", "PartitionName=spare", "Nodes=n5", "MaxTime=1-0"]);
    let mut driver = bed.drive_these(&["gpu", "spare"]);
    let submit = |partition: &str| {
        let words = ["--parsable", "-o", "/dev/null", "-N1", "-t", "10", "-p", partition];
        bed.read("sbatch", &[&words[..], &["--wrap", "exec sleep 1000"]].concat())
    };
    let job = submit("spare");
    assert_eq!(bed.runs(&job)[2], "n5");
    // Slurm deletes no partition that a job or a reservation is in.
    let refused = bed.run("scontrol", &["delete", "PartitionName=spare"]);
    assert!(!refused.status.success(), "{refused:?}");
    bed.cancel(&[&job]);
    until("it is deleted", || {
        bed.run("scontrol", &["delete", "ReservationName=muster_spare"]);
        bed.run("scontrol", &["delete", "PartitionName=spare"]).status.success().then_some(())
    });
    until("it is told", || {
        bed.log().contains("partition spare is not driven any more").then_some(())
    });
    let codes = ["[E_DRIVE_PARTITION]", "[E_DRIVE_HANDED_BACK]"];
    assert!(codes.iter().any(|code| bed.log().contains(code)), "{}", bed.log());
    let job = submit("gpu");
    assert_eq!(bed.runs(&job)[2], "n4", "the other one is driven on");
    bed.cancel(&[&job]);
    let stopped = bed.muster(&["drive", "stop"]);
    assert!(stopped.status.success(), "{stopped:?}");
    until("its driver ends", || driver.0.try_wait().unwrap());
    bed.read("scontrol", &["update", "PartitionName=gpu", "Nodes=n[4-5]"]);
}

/// A job that does not end at once and is cancelled as it starts: Slurm tells of it with the nodes
/// that are not done yet, which are no other nodes than planned.
pub(super) fn tells_a_start_that_is_cancelled(bed: &Bed) {
    let script = bed.dir.join("stays.sh");
    let text = "#!/bin/sh\ntrap '' TERM\necho $$ >stays\nwhile :; do sleep 0.1; done\n";
    std::fs::write(&script, text).unwrap();
    let _ = std::fs::remove_file(bed.dir.join("stays"));
    let words = ["--parsable", "-o", "/dev/null", "-p", "gpu", "-t", "10", "-N2"];
    let job = bed.read("sbatch", &[&words[..], &[script.to_str().unwrap()]].concat());
    let pid = until("it has begun", || {
        let pid = std::fs::read_to_string(bed.dir.join("stays")).ok()?;
        pid.ends_with('\n').then(|| pid.trim().to_owned())
    });
    bed.read("scancel", &[&job]);
    let started = format!("job {job} started on n[4-5]\n");
    until("its start is told", || bed.log().contains(&started).then_some(()));
    bed.read("kill", &["-9", &pid]);
    until("it is gone", || {
        let seen = bed.run("squeue", &["-h", "-j", &job]);
        String::from_utf8_lossy(&seen.stdout).trim().is_empty().then_some(())
    });
}
