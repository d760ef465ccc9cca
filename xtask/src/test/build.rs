//! The stages that are cargo's own: format, lints, unit tests, rustdoc.

use super::{Options, cargo_test};
use crate::sh;
use crate::stage::Report;

const UNIT_LIMIT_S: u32 = 2400;

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
