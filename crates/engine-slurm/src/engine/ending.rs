//! How a job of Slurm ended, in muster's terms.

use muster_engine::book::Attempt;
use muster_model::{EndCause, ExitReport, ExitStatus, Timestamp, Usage};

/// A job that is over, as squeue or sacct tell of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// Slurm's number.
    pub(super) id: u32,
    /// The first word of its state: `COMPLETED`, `FAILED`, `CANCELLED`.
    pub(super) state: String,
    /// Who cancelled it, where somebody did and Slurm says who.
    pub(super) by: Option<u32>,
    /// Its exit code and signal.
    pub(super) code: u8,
    pub(super) signal: u8,
    /// When it began; `None` where it never did.
    pub(super) started: Option<Timestamp>,
    /// When it ended.
    pub(super) until: Option<Timestamp>,
}

/// What slurmstepd gives as the signal of a job that it could not start: its output cannot be
/// opened, its shell is not there (`SLURM_ERROR`s of launches, seen on 22.05).
const NOT_LAUNCHED: u8 = 53;

impl Ended {
    /// A line of `sacct -P -X -o jobid,state,exitcode,start,end` with times as seconds; `None` for
    /// one that is not over, or is no such line.
    pub(super) fn of_sacct(line: &str) -> Option<Self> {
        let mut fields = line.split('|');
        let id = fields.next()?.parse().ok()?;
        let mut state = fields.next()?.split_whitespace();
        let word = state.next()?.trim_end_matches('+').to_owned();
        if ["PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING"].contains(&word.as_str()) {
            return None;
        }
        let by = state.nth(1).and_then(|uid| uid.parse().ok());
        let (code, signal) = fields.next()?.split_once(':')?;
        let mut time = || {
            let at = fields.next()?.parse::<i64>().ok().filter(|at| *at > 0)?;
            Some(Timestamp::from_secs(at))
        };
        let (started, until) = (time(), time());
        // What never began has its end as its start.
        let began = started.filter(|_| started != until || word == "COMPLETED");
        Some(Self {
            id,
            state: word,
            by,
            code: code.parse().ok()?,
            signal: signal.parse().ok()?,
            started: began,
            until,
        })
    }

    /// The report of an attempt that ended so. Slurm counts whole seconds: nothing began before it
    /// was asked for, nor ended before it began.
    pub(super) fn report(&self, attempt: &Attempt, now: Timestamp) -> ExitReport {
        let started = self.started.map(|at| at.max(attempt.accepted));
        let ended = self.until.unwrap_or(now).max(started.unwrap_or(attempt.accepted)).min(now);
        let (cause, message) = self.cause(attempt.stopping);
        let started = started.filter(|_| cause != EndCause::LaunchFailed).map(|at| at.min(ended));
        let signal = if self.signal == NOT_LAUNCHED { 0 } else { self.signal };
        let status = match (cause, self.code, signal) {
            // What did not start, or was taken away while it waited, is no success.
            (EndCause::LaunchFailed, 0, 0) => ExitStatus { code: 1, signal: 0 },
            (EndCause::Stopped, 0, 0) if !attempt.stopping => ExitStatus { code: 0, signal: 15 },
            (_, code, signal) => ExitStatus { code, signal },
        };
        ExitReport {
            status,
            cause,
            started,
            ended,
            usage: Usage::default(),
            message,
            steps: Vec::new(),
        }
    }

    fn cause(&self, ordered: bool) -> (EndCause, String) {
        let id = self.id;
        let quiet = |cause| (cause, String::new());
        match self.state.as_str() {
            "COMPLETED" => quiet(EndCause::Exited),
            "TIMEOUT" => quiet(EndCause::TimeLimit),
            "OUT_OF_MEMORY" => quiet(EndCause::OutOfMemory),
            "NODE_FAIL" => (EndCause::NodeLost, format!("Slurm lost a node of its job {id}")),
            "PREEMPTED" => {
                let message = format!("Slurm preempted its job {id} for one of its own");
                (EndCause::NodeLost, message)
            }
            "BOOT_FAIL" => {
                (EndCause::NodeLost, format!("a node of Slurm's job {id} could not be started"))
            }
            _ if ordered => quiet(EndCause::Stopped),
            "DEADLINE" => (EndCause::Stopped, format!("Slurm ended its job {id} by its deadline")),
            "CANCELLED" | "REVOKED" => {
                let by = self.by.map(|uid| format!(" by user {uid}")).unwrap_or_default();
                (EndCause::Stopped, format!("cancelled in Slurm{by} (job {id})"))
            }
            "FAILED" if self.signal == NOT_LAUNCHED => {
                let message = format!(
                    "Slurm could not start its job {id}: a node may not know the user, the \
                     directory or the output's\nhint: see slurmd's log on its first node"
                );
                (EndCause::LaunchFailed, message)
            }
            _ => quiet(EndCause::Exited),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_sacct_are_read_as_slurm_22_05_writes_them() {
        let ended =
            Ended::of_sacct("6|CANCELLED by 1000|0:15|1796201850|1796201913").expect("over");
        assert_eq!((ended.state.as_str(), ended.by, ended.signal), ("CANCELLED", Some(1000), 15));
        assert_eq!(ended.started, Some(Timestamp::from_secs(1_796_201_850)));
        let never = Ended::of_sacct("1|CANCELLED by 0|0:0|1796201793|1796201793").expect("over");
        assert_eq!(never.started, None);
        assert_eq!(Ended::of_sacct("6|RUNNING|0:0|1796201850|Unknown"), None);
        assert_eq!(Ended::of_sacct("6.batch|COMPLETED|0:0|1|2"), None);
        assert_eq!(Ended::of_sacct(""), None);
    }

    #[test]
    fn each_word_of_slurms_has_a_cause() {
        let cause = |state: &str, signal, ordered| {
            Ended { state: state.to_owned(), signal, ..Ended::default() }.cause(ordered).0
        };
        assert_eq!(cause("FAILED", 0, false), EndCause::Exited);
        assert_eq!(cause("FAILED", 15, true), EndCause::Stopped);
        assert_eq!(cause("FAILED", 53, false), EndCause::LaunchFailed);
        assert_eq!(cause("COMPLETED", 0, true), EndCause::Exited);
        assert_eq!(cause("CANCELLED", 15, false), EndCause::Stopped);
        assert_eq!(cause("TIMEOUT", 15, true), EndCause::TimeLimit);
        assert_eq!(cause("NODE_FAIL", 0, false), EndCause::NodeLost);
        assert_eq!(cause("OUT_OF_MEMORY", 0, false), EndCause::OutOfMemory);
    }
}
