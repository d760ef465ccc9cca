//! The stages that are cargo's own: format, lints, unit tests, rustdoc.

use super::{Options, cargo_test};
use crate::stage::Report;
use crate::{need, sh};

const UNIT_LIMIT_S: u32 = 2400;

/// The tests of the planner that make their cases up: against all there is (every start, every set
/// of victims, every gang, every smaller change), and over stories.
const MADE_UP: &[&str] = &[
    "oracle",
    "preempt",
    "topology",
    "suggest",
    "properties",
    "metamorphic",
    "tally",
    "reasons",
    "rounds",
];

/// Cases of each property in an ordinary run, and in a long one.
const CASES: u32 = 5_000;
const LONG_CASES: u32 = 100_000;

const CASES_LIMIT_S: u32 = 3_600;
/// An hour and a half of CPU, going by what 5,000 cases of each take; a loaded machine needs longer.
const LONG_LIMIT_S: u32 = 6 * 3_600;

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
    // What the exporter's tests hold their output against.
    report.check("prometheus", || {
        need::need("prometheus", "promtool", "")?;
        Ok(String::new())
    });
    // What the reader of its JSON is held against.
    report.check("iperf3", || {
        need::need("iperf3", "iperf3", "")?;
        Ok(String::new())
    });
    report.check("cargo test", || {
        let args = ["--workspace", "--exclude", "muster", "--no-fail-fast"];
        sh::run(&mut sh::bounded(cargo_test(options, &args), UNIT_LIMIT_S))?;
        Ok(String::new())
    });
    report.check("what only a muster with Parquet has", || {
        let feature = ["--package", "muster-sim", "--features", "parquet"];
        let lint = ["--all-targets", "--", "-D", "warnings"];
        sh::run(&mut sh::cargo(&[&["clippy", "--locked"], &feature[..], &lint].concat()))?;
        let test = [&feature[..], &["--test", "rows"]].concat();
        sh::run(&mut sh::bounded(cargo_test(options, &test), UNIT_LIMIT_S))?;
        Ok(String::new())
    });
    report.check("made-up cases of the planner", || {
        let (cases, limit) = match options.long {
            true => (LONG_CASES, LONG_LIMIT_S),
            false => (CASES, CASES_LIMIT_S),
        };
        let tests = MADE_UP.iter().flat_map(|test| ["--test", test]);
        // So many cases repay a build of their own, which runs several times as fast.
        let own = ["--profile", "cases", "--package", "muster-planner", "--no-fail-fast"];
        let args: Vec<&str> = own.into_iter().chain(tests).collect();
        let mut command = cargo_test(options, &args);
        command.env("PROPTEST_CASES", cases.to_string());
        sh::run(&mut sh::bounded(command, limit))?;
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
