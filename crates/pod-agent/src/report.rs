//! How the job ended, as the pod's termination message.

use muster_model::{EndCause, ExitReport};

/// What a container can say (Kubernetes' limit of a termination message).
const BYTES_MAX: usize = 4096;

/// The report as text that fits: steps are left out from the oldest on, then the message is cut.
pub(crate) fn text(report: &ExitReport) -> String {
    let mut report = report.clone();
    loop {
        let text = serde_json::to_string(&report).unwrap_or_default();
        if text.len() <= BYTES_MAX {
            return text;
        }
        if report.steps.is_empty() {
            let half = report.message.chars().count() / 2;
            report.message = report.message.chars().take(half).collect();
        } else {
            let half = report.steps.len().div_ceil(2);
            report.steps.drain(..half);
        }
    }
}

/// The container's exit status: the script's, as a shell has it.
pub(crate) fn status(report: &ExitReport) -> i32 {
    match (report.cause, report.status.signal) {
        (EndCause::LaunchFailed, _) => 126,
        (_, 0) => i32::from(report.status.code),
        (_, signal) => 128 + i32::from(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::{ExitStatus, StepId, StepRecord, Timestamp, Usage};

    fn report(steps: u32, message: &str) -> ExitReport {
        let step = |number| StepRecord {
            id: StepId::Number(number),
            name: "a step with a name of its own".to_owned(),
            tasks: 4,
            nodes: 1,
            started: Timestamp::from_secs(5),
            ended: Some(Timestamp::from_secs(6)),
            paused_ms: 0,
            status: ExitStatus::SUCCESS,
            usage: Usage::default(),
        };
        ExitReport {
            status: ExitStatus { code: 0, signal: 9 },
            cause: EndCause::Exited,
            started: Some(Timestamp::from_secs(5)),
            ended: Timestamp::from_secs(7),
            usage: Usage::default(),
            message: message.to_owned(),
            steps: (0..steps).map(step).collect(),
        }
    }

    #[test]
    fn what_fits_is_told_whole_and_of_more_the_newest() {
        let small = report(2, "well");
        assert_eq!(serde_json::from_str::<ExitReport>(&text(&small)).expect("a report"), small);
        let told: ExitReport =
            serde_json::from_str(&text(&report(1000, &"ß".repeat(9000)))).expect("a report");
        assert!(text(&told).len() <= BYTES_MAX && !told.message.is_empty());
        let told: ExitReport = serde_json::from_str(&text(&report(1000, ""))).expect("a report");
        assert_eq!(told.steps.last(), report(1000, "").steps.last());
    }

    #[test]
    fn a_signal_is_told_as_a_shell_does() {
        assert_eq!(status(&report(0, "")), 137);
        let ended = ExitReport { status: ExitStatus { code: 3, signal: 0 }, ..report(0, "") };
        assert_eq!(status(&ended), 3);
        assert_eq!(status(&ExitReport { cause: EndCause::LaunchFailed, ..ended }), 126);
    }
}
