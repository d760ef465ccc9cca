//! A partition that is driven by what a slurmrestd tells.

use super::Bed;
use crate::place::until;

#[test]
fn a_partition_is_driven_by_what_slurmrestd_tells() {
    let Some(bed) = Bed::find() else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return;
    };
    let passed_over = "the commands were asked instead";
    for by in ["lease", "hold"] {
        let socket = format!("unix:{}", bed.dir.join("rest/socket").display());
        let mut driver = bed.drive_with(&["gpu"], &["--by", by, "--rest", &socket]);
        starts_in_turn(&bed);
        assert!(!bed.log().contains(passed_over), "{}", bed.log());
        assert!(bed.muster(&["drive", "stop"]).status.success());
        until("its driver ends", || driver.0.try_wait().unwrap());
    }
    // One that is not there: the commands tell the same.
    let mut driver = bed.drive_with(&["gpu"], &["--rest", "unix:/nonexistent/socket"]);
    starts_in_turn(&bed);
    let said = bed.log();
    assert!(said.contains("[E_SLURM_FAILED]; the commands were asked instead"), "{said}");
    assert_eq!(said.matches(passed_over).count(), 1, "it is told once: {said}");
    assert!(bed.muster(&["drive", "stop"]).status.success());
    until("its driver ends", || driver.0.try_wait().unwrap());
}

/// Two gangs one after the other; by holds Slurm may be the first to see one that fits at once.
fn starts_in_turn(bed: &Bed) {
    let first = bed.submit(&["-N2", "--gres=gpu:4"]);
    bed.runs(&first);
    let second = bed.submit(&["-N2", "--gres=gpu:4"]);
    // Held, or behind the lease.
    until("Slurm may not start it", || {
        let why = bed.read("squeue", &["-h", "-j", &second, "-O", "Reason:|"]);
        ["JobHeldAdmin", "ReqNodeNotAvail"].iter().any(|word| why.contains(word)).then_some(())
    });
    bed.cancel(&[&first]);
    assert_eq!(bed.runs(&second)[2], "n[4-5]");
    bed.cancel(&[&second]);
}
