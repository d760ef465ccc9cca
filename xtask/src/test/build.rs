//! The stages that are cargo's own: format, lints, unit tests, rustdoc.

use super::{Options, cargo_test};
use crate::sh;
use crate::stage::Report;

const UNIT_LIMIT_S: u32 = 2400;

/// The tests that compare the planner with all there is: every start, every set of victims, every
/// gang, every smaller change.
const ORACLES: &[&str] = &["oracle", "preempt", "topology", "suggest"];

/// Those and the tests over made-up stories, which a long run takes as far.
const STORIES: &[&str] = &["properties", "metamorphic", "tally", "reasons", "rounds"];

/// Cases of each property in an ordinary run, and in a long one.
const CASES: u32 = 5_000;
const LONG_CASES: u32 = 100_000;

const ORACLES_LIMIT_S: u32 = 3_600;
/// One to two hours of CPU, going by what 3,000 cases of each take; a loaded machine needs longer.
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
    report.check("cargo test", || {
        let args = ["--workspace", "--exclude", "muster", "--no-fail-fast"];
        sh::run(&mut sh::bounded(cargo_test(options, &args), UNIT_LIMIT_S))?;
        Ok(String::new())
    });
    report.check("planner against brute force", || {
        let (cases, limit) = match options.long {
            true => (LONG_CASES, LONG_LIMIT_S),
            false => (CASES, ORACLES_LIMIT_S),
        };
        let stories = STORIES.iter().filter(|_| options.long);
        let tests = ORACLES.iter().chain(stories).flat_map(|test| ["--test", test]);
        let args: Vec<&str> = ["--package", "muster-planner"].into_iter().chain(tests).collect();
        let mut command = cargo_test(options, &args);
        command.env("PROPTEST_CASES", cases.to_string());
        if options.long {
            // So many cases repay a build that runs several times as fast.
            command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
        }
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
