//! The house rules, as checks over the files and `cargo metadata`.

mod arrows;
mod house;
mod outside;

use crate::args::Args;
use crate::stage::{Report, verdict};

/// `cargo xtask tidy`.
pub(crate) fn main(words: &[String]) -> Result<(), String> {
    Args::new(words).finish()?;
    let mut report = Report::default();
    report.stage("tidy");
    checks(&mut report);
    report.close()
}

/// The checks that need no build.
pub(crate) fn checks(report: &mut Report) {
    report.check("arrow rules", || verdict(&arrows::violations()?));
    report.check("outside crates by layer", || verdict(&outside::violations()?));
    report.check("house rules", || verdict(&house::violations()?));
}
