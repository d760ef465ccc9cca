//! The reader of Slurm against a real one of four nodes.

use super::{Options, cargo_test};
use crate::sh;
use crate::slurm::{Bed, SMALL, available};
use crate::stage::{Report, Skip};

const LIMIT_S: u32 = 600;

/// Starts the bed and runs the tests that need one.
pub(super) fn checks(options: &Options, report: &mut Report) {
    report.check("the reader on a real Slurm", || {
        available().map_err(Skip::avoidable)?;
        let mut build =
            cargo_test(options, &["-p", "muster-engine-slurm", "--test", "bed", "--no-run"]);
        sh::run(&mut build)?;
        let bed = Bed::start(SMALL)?;
        let mut test = cargo_test(options, &["-p", "muster-engine-slurm", "--test", "bed"]);
        test.env("MUSTER_TEST_SLURM_CONF", bed.conf());
        sh::run(&mut sh::bounded(test, LIMIT_S))?;
        Ok("22.05 as Debian has it".to_owned())
    });
}
