//! Pods scheduled on a real Kubernetes control plane.

use super::{Options, cargo_test};
use crate::k8s::{Bed, SMALL, available};
use crate::sh;
use crate::stage::{Report, Skip};

const LIMIT_S: u32 = 600;

/// Builds the bed where it is not built yet, starts it, and runs the tests that need one.
pub(super) fn checks(options: &Options, report: &mut Report) {
    report.check("clippy of what only a muster with Kubernetes has", || {
        let features = ["--package", "muster-cli", "--features", "kubernetes"];
        let args = [&["clippy", "--locked"], &features[..], &["--", "-D", "warnings"]].concat();
        sh::run(&mut sh::cargo(&args))?;
        Ok(String::new())
    });
    report.check("a real Kubernetes scheduled for", || {
        let programs = available().map_err(Skip::avoidable)?;
        let words = ["-p", "muster-engine-k8s", "--test", "bed"];
        sh::run(cargo_test(options, &words).arg("--no-run"))?;
        let bed = Bed::start(programs, SMALL)?;
        let mut test = cargo_test(options, &words);
        test.env("MUSTER_TEST_KUBECONFIG", bed.dir().join("kubeconfig"));
        sh::run(&mut sh::bounded(test, LIMIT_S))?;
        Ok("1.36".to_owned())
    });
}
