//! Pods scheduled on a real Kubernetes control plane.

use super::{Options, cargo_test};
use crate::k8s::{Bed, Programs, SMALL, available};
use crate::stage::{Report, Skip};
use crate::{need, root, sh};

const LIMIT_S: u32 = 600;

/// Builds the bed where it is not built yet, starts it, and runs the tests that need one.
pub(super) fn checks(options: &Options, report: &mut Report) {
    report.check("clippy of what only a muster with Kubernetes has", || {
        let features = ["--package", "muster-cli", "--features", "kubernetes"];
        let args = [&["clippy", "--locked"], &features[..], &["--", "-D", "warnings"]].concat();
        sh::run(&mut sh::cargo(&args))?;
        Ok(String::new())
    });
    report.check("a real Kubernetes, scheduled for and run on", || {
        let programs = available().map_err(Skip::avoidable)?;
        let cluster = ["-p", "muster-engine-k8s", "--test", "bed", "--test", "engine"];
        let whole = ["-p", "muster", "--features", "kubernetes", "--test", "e2e"];
        for words in [&cluster[..], &whole] {
            sh::run(cargo_test(options, words).arg("--no-run"))?;
        }
        let bed = Bed::start(programs, SMALL)?;
        let run = |words: &[&str]| {
            let mut test = cargo_test(options, words);
            test.env("MUSTER_TEST_KUBECONFIG", bed.dir().join("kubeconfig"));
            // What runs in the pods was built with the second of them.
            test.env("MUSTER_TEST_PROGRAM", root::target().join("debug/muster"));
            sh::run(&mut sh::bounded(test, LIMIT_S))
        };
        run(&cluster)?;
        run(&[&whole[..], &["through_kubernetes::"]].concat())?;
        Ok("1.36".to_owned())
    });
    report.check("the Helm chart makes the plain manifest", || {
        need::find("go", need::minimum("go")).map_err(Skip::avoidable)?;
        let mut test = sh::command("go");
        test.current_dir(root::dir().join("xtask/k8s/chart")).env("CGO_ENABLED", "0");
        test.args(["test", "-count=1", "./..."]);
        sh::run(&mut sh::bounded(test, LIMIT_S))?;
        Ok(String::new())
    });
    report.check("where a pod may be, as the filters of Kubernetes say", || {
        let programs = Programs::build().map_err(Skip::avoidable)?;
        let words = ["-p", "muster-engine-k8s", "--test", "differential"];
        let mut test = cargo_test(options, &words);
        test.args(["--", "--nocapture"]).env("MUSTER_TEST_K8S_FILTERS", programs.path("filters"));
        sh::run(&mut sh::bounded(test, LIMIT_S))?;
        Ok(String::new())
    });
}
