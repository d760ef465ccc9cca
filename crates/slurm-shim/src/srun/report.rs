//! What srun says of tasks that failed: `srun: error: n1: tasks 0-2: Exited with exit code 3`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use muster_api::step::ExitStatus;
use muster_model::IndexRanges;

/// Failures not yet told, so that tasks which end alike at once share a line.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    by_kind: BTreeMap<(String, String), Vec<u32>>,
    since: Option<Instant>,
}

/// Tasks that fail within this time share a line.
const TOGETHER: Duration = Duration::from_millis(100);

impl Failures {
    /// Notes how a task ended; nothing for success.
    pub(crate) fn note(&mut self, node: &str, task: u32, status: ExitStatus) {
        if !status.success() {
            let key = (node.to_owned(), words(status));
            self.by_kind.entry(key).or_default().push(task);
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// True where nothing waits to be told.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    /// True where what waits has waited long enough for others.
    pub(crate) fn are_due(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= TOGETHER)
    }

    /// The lines for what was noted since the last time.
    pub(crate) fn take(&mut self) -> Vec<String> {
        let line = |((node, what), tasks): ((String, String), Vec<u32>)| {
            let many = if tasks.len() == 1 { "task" } else { "tasks" };
            let ranks: IndexRanges = tasks.into_iter().collect();
            format!("{node}: {many} {ranks}: {what}")
        };
        self.since = None;
        std::mem::take(&mut self.by_kind).into_iter().map(line).collect()
    }
}

/// As strsignal(3) says it, for signals that end programs.
fn words(status: ExitStatus) -> String {
    match status.signal {
        0 => format!("Exited with exit code {}", status.code),
        1 => "Hangup".to_owned(),
        2 => "Interrupt".to_owned(),
        3 => "Quit".to_owned(),
        4 => "Illegal instruction".to_owned(),
        6 => "Aborted".to_owned(),
        7 => "Bus error".to_owned(),
        8 => "Floating point exception".to_owned(),
        9 => "Killed".to_owned(),
        10 => "User defined signal 1".to_owned(),
        11 => "Segmentation fault".to_owned(),
        12 => "User defined signal 2".to_owned(),
        13 => "Broken pipe".to_owned(),
        14 => "Alarm clock".to_owned(),
        15 => "Terminated".to_owned(),
        24 => "CPU time limit exceeded".to_owned(),
        25 => "File size limit exceeded".to_owned(),
        other => format!("Signal {other}"),
    }
}

/// The number a shell shows: the code, or 128 and the signal.
pub(crate) fn shell_code(status: ExitStatus) -> i32 {
    if status.signal == 0 { i32::from(status.code) } else { 128 + i32::from(status.signal) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_end_alike_share_a_line() {
        let mut failures = Failures::default();
        for task in [2, 0, 1] {
            failures.note("n4", task, ExitStatus { code: 3, signal: 0 });
        }
        failures.note("n4", 7, ExitStatus { code: 0, signal: 9 });
        failures.note("n4", 8, ExitStatus::SUCCESS);
        assert_eq!(
            failures.take(),
            ["n4: tasks 0-2: Exited with exit code 3", "n4: task 7: Killed"]
        );
        assert!(failures.take().is_empty());
        assert_eq!(shell_code(ExitStatus { code: 0, signal: 9 }), 137);
    }
}
