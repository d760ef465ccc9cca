//! Checks with names, times and one of three ends, and the table that closes a run.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::sh;

/// Why a check did not run.
#[derive(Debug, Clone)]
pub(crate) struct Skip {
    /// What is missing, for the reader of the table.
    pub(crate) reason: String,
    /// Whether a service's machine is expected to have it; if so, CI fails on it.
    pub(crate) expected_in_ci: bool,
}

impl Skip {
    /// A skip that CI takes for a failure: what is missing could have been installed.
    pub(crate) fn avoidable(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), expected_in_ci: true }
    }

    /// A skip that nobody here can help: hardware, network, an option not given.
    pub(crate) fn unavoidable(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), expected_in_ci: false }
    }
}

/// How a check ended when it did not simply pass.
#[derive(Debug, Clone)]
pub(crate) enum End {
    /// It failed, with what it said.
    Failed(String),
    /// It was not run.
    Skipped(Skip),
}

impl From<String> for End {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<Skip> for End {
    fn from(skip: Skip) -> Self {
        Self::Skipped(skip)
    }
}

/// What a check returns; the text of a pass is a note for the table.
pub(crate) type Outcome = Result<String, End>;

/// Prints what a search for breaches found; finding nothing is a pass.
pub(crate) fn verdict(found: &[String]) -> Outcome {
    for line in found {
        println!("{line}");
    }
    match found.first() {
        None => Ok(String::new()),
        Some(first) => Err(End::Failed(format!("{} found, the first: {first}", found.len()))),
    }
}

struct Row {
    stage: &'static str,
    check: String,
    took: Duration,
    outcome: Outcome,
}

/// The checks of one run so far.
#[derive(Default)]
pub(crate) struct Report {
    stage: &'static str,
    rows: Vec<Row>,
}

impl Report {
    /// Begins a stage; the checks that follow belong to it.
    pub(crate) fn stage(&mut self, name: &'static str) {
        self.stage = name;
    }

    /// Runs one check, times it and says at once how it ended.
    pub(crate) fn check(&mut self, name: &str, body: impl FnOnce() -> Outcome) {
        println!("\n== {}: {name}", self.stage);
        let begin = Instant::now();
        let outcome = promote(body(), sh::in_ci());
        let took = begin.elapsed();
        match &outcome {
            Ok(_) => {}
            Err(End::Failed(message)) => println!("FAILED {}: {name}: {message}", self.stage),
            Err(End::Skipped(skip)) => {
                println!("SKIPPED {}: {name}: {}", self.stage, skip.reason);
            }
        }
        self.rows.push(Row { stage: self.stage, check: name.to_owned(), took, outcome });
        let _ = std::io::stdout().flush();
    }

    /// Prints the table and the closing counts.
    ///
    /// # Errors
    /// A check failed.
    pub(crate) fn close(&self) -> Result<(), String> {
        println!("\n{}", self.table());
        let failed = self.count(|outcome| matches!(outcome, Err(End::Failed(_))));
        let skipped = self.count(|outcome| matches!(outcome, Err(End::Skipped(_))));
        let passed = self.rows.len() - failed - skipped;
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        if failed == 0 { Ok(()) } else { Err(format!("{failed} checks failed")) }
    }

    fn count(&self, wanted: impl Fn(&Outcome) -> bool) -> usize {
        self.rows.iter().filter(|row| wanted(&row.outcome)).count()
    }

    fn table(&self) -> String {
        let cells: Vec<[String; 5]> = self
            .rows
            .iter()
            .map(|row| {
                let (word, note) = match &row.outcome {
                    Ok(note) => ("ok", note.as_str()),
                    Err(End::Failed(message)) => ("FAILED", message.as_str()),
                    Err(End::Skipped(skip)) => ("SKIPPED", skip.reason.as_str()),
                };
                let note = note.lines().next().unwrap_or_default();
                let seconds = format!("{:.1}", row.took.as_secs_f64());
                [row.stage.to_owned(), row.check.clone(), word.to_owned(), seconds, note.to_owned()]
            })
            .collect();
        table(&["stage", "check", "result", "s", "note"], &cells)
    }
}

/// In CI a skip of what could have run is a failure.
fn promote(outcome: Outcome, in_ci: bool) -> Outcome {
    match outcome {
        Err(End::Skipped(skip)) if skip.expected_in_ci && in_ci => {
            Err(End::Failed(format!("skipped in CI: {}", skip.reason)))
        }
        other => other,
    }
}

/// Lays out rows under a heading; the last column is not padded.
pub(crate) fn table<const N: usize>(heading: &[&str; N], rows: &[[String; N]]) -> String {
    let mut widths = heading.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut lines = Vec::with_capacity(rows.len() + 1);
    let heading = heading.map(ToString::to_string);
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{End, Report, Skip, promote, table};

    #[test]
    fn a_failed_check_fails_the_run_and_later_ones_still_run() {
        let mut report = Report::default();
        report.stage("unit");
        report.check("one", || Err(End::Failed("no".to_owned())));
        report.check("two", || Ok(String::new()));
        assert!(report.close().is_err());
        assert!(report.table().contains("two"));
    }

    #[test]
    fn ci_does_not_accept_an_avoidable_skip() {
        let avoidable = || Err(End::Skipped(Skip::avoidable("no node")));
        let unavoidable = || Err(End::Skipped(Skip::unavoidable("no network")));
        assert!(matches!(promote(avoidable(), true), Err(End::Failed(_))));
        assert!(matches!(promote(avoidable(), false), Err(End::Skipped(_))));
        assert!(matches!(promote(unavoidable(), true), Err(End::Skipped(_))));
    }

    #[test]
    fn columns_line_up() {
        let rows = [["ab".to_owned(), "c".to_owned()]];
        assert_eq!(table(&["x", "y"], &rows), "x   y\nab  c");
    }
}
