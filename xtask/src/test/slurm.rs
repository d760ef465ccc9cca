//! The reader of Slurm, what looks at one without touching it, what drives one, and the engine that
//! runs jobs there, on a real one.

use super::{Options, cargo_test};
use crate::sh;
use crate::slurm::{Bed, SMALL, available};
use crate::stage::{Report, Skip};

const LIMIT_S: u32 = 600;

/// Starts the bed and runs the tests that need one.
pub(super) fn checks(options: &Options, report: &mut Report) {
    report.check("a real Slurm read, looked at, driven and given jobs", || {
        available().map_err(Skip::avoidable)?;
        let words = [
            "-p",
            "muster-engine-slurm",
            "-p",
            "muster-shadow",
            "--test",
            "bed",
            "--test",
            "engine",
        ];
        sh::run(cargo_test(options, &words).arg("--no-run"))?;
        let bed = Bed::start(SMALL)?;
        let mut test = cargo_test(options, &words);
        test.env("MUSTER_TEST_SLURM_CONF", bed.conf());
        sh::run(&mut sh::bounded(test, LIMIT_S))?;
        for module in ["drive::", "through_slurm::", "slurm_init::"] {
            let mut whole = cargo_test(options, &["-p", "muster", "--test", "e2e", module]);
            whole.env("MUSTER_TEST_SLURM_CONF", bed.conf());
            sh::run(&mut sh::bounded(whole, LIMIT_S))?;
        }
        Ok("22.05 as Debian has it".to_owned())
    });
}
