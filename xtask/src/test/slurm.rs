//! The reader of Slurm, what looks at one without touching it, and what drives one, on a real one.

use super::{Options, cargo_test};
use crate::sh;
use crate::slurm::{Bed, SMALL, available};
use crate::stage::{Report, Skip};

const LIMIT_S: u32 = 600;

/// Starts the bed and runs the tests that need one.
pub(super) fn checks(options: &Options, report: &mut Report) {
    report.check("a real Slurm read, looked at and driven", || {
        available().map_err(Skip::avoidable)?;
        let words = ["-p", "muster-engine-slurm", "-p", "muster-shadow", "--test", "bed"];
        sh::run(cargo_test(options, &words).arg("--no-run"))?;
        let bed = Bed::start(SMALL)?;
        let mut test = cargo_test(options, &words);
        test.env("MUSTER_TEST_SLURM_CONF", bed.conf());
        sh::run(&mut sh::bounded(test, LIMIT_S))?;
        let mut drive = cargo_test(options, &["-p", "muster", "--test", "e2e", "drive::"]);
        drive.env("MUSTER_TEST_SLURM_CONF", bed.conf());
        sh::run(&mut sh::bounded(drive, LIMIT_S))?;
        Ok("22.05 as Debian has it".to_owned())
    });
}
