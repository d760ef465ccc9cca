//! The stages that are cargo's own: format, lints, unit tests, rustdoc.

use super::{Options, cargo_test};
use crate::sh;
use crate::stage::Report;

const UNIT_LIMIT_S: u32 = 2400;

/// The tests that compare the planner with all there is: every start, every set of victims, every
/// gang.
const ORACLES: &[&str] = &["oracle", "preempt", "topology"];

/// Cases of each property in an ordinary run, and in a long one.
const CASES: u32 = 5_000;
const LONG_CASES: u32 = 40_000;

const ORACLES_LIMIT_S: u32 = 3_600;

/// Format and clippy, warnings denied.
pub(super) fn lints(report: &mut Report) {
    report.check("format", || {
        sh::run(&mut sh::cargo(&["fmt", "--all", "--check"]))?;
        Ok(String::new())
    });
    report.check("clippy", || {
        let args = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
        sh::run(&mut sh::cargo(&args))?;
        Ok(String::new())
    });
}

/// Every crate's own tests; the whole program's are the stage e2e.
pub(super) fn unit(options: &Options, report: &mut Report) {
    report.check("cargo test", || {
        let args = ["--workspace", "--exclude", "muster", "--no-fail-fast"];
        sh::run(&mut sh::bounded(cargo_test(options, &args), UNIT_LIMIT_S))?;
        Ok(String::new())
    });
    report.check("planner against brute force", || {
        let cases = if options.long { LONG_CASES } else { CASES };
        let args = ["--package", "muster-planner"];
        let tests = ORACLES.iter().flat_map(|test| ["--test", test]);
        let args: Vec<&str> = args.into_iter().chain(tests).collect();
        let mut command = cargo_test(options, &args);
        command.env("PROPTEST_CASES", cases.to_string());
        sh::run(&mut sh::bounded(command, ORACLES_LIMIT_S))?;
        Ok(format!("{cases} cases of each property"))
    });
}

/// Rustdoc without warnings: every link in a doc comment leads somewhere.
pub(super) fn rustdoc(report: &mut Report) {
    report.check("rustdoc", || {
        let mut doc = sh::cargo(&["doc", "--locked", "--workspace", "--no-deps", "--quiet"]);
        doc.env("RUSTDOCFLAGS", "-D warnings");
        sh::run(&mut doc)?;
        Ok(String::new())
    });
}
