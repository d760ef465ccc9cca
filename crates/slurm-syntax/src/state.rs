//! Job states as Slurm's tools name them: a word and a code of one to three letters.
//!
//! Rule: squeue and sacct manuals, "job state codes". Clients match both, byte for byte.

use muster_model::JobState;

use crate::problem::{Code, Problem, quoted};
use muster_model::nearest;

macro_rules! states {
    ($($variant:ident $name:literal $code:literal $doc:literal,)+) => {
        /// A job state in Slurm's vocabulary, which is wider than muster's own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum SlurmState {
            $(#[doc = $doc] $variant,)+
        }

        impl SlurmState {
            /// Every state.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The long name, for example `PENDING`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The short code, for example `PD`.
            pub fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }
        }
    };
}

states! {
    BootFail "BOOT_FAIL" "BF" "The nodes did not boot.",
    Cancelled "CANCELLED" "CA" "Cancelled by a person.",
    Completed "COMPLETED" "CD" "Ended with exit code zero.",
    Configuring "CONFIGURING" "CF" "Has its nodes, which are being made ready.",
    Completing "COMPLETING" "CG" "Is being ended.",
    Deadline "DEADLINE" "DL" "Could not end by its deadline.",
    Expediting "EXPEDITING" "EX" "Is started again at once, before others.",
    Failed "FAILED" "F" "Ended with another exit code.",
    NodeFail "NODE_FAIL" "NF" "A node failed.",
    OutOfMemory "OUT_OF_MEMORY" "OOM" "Killed for memory.",
    Pending "PENDING" "PD" "Waits.",
    Preempted "PREEMPTED" "PR" "Ended for a more important job.",
    PowerUpNode "POWER_UP_NODE" "PO" "Waits for nodes to power up.",
    ReservationDeleted "RESV_DEL_HOLD" "RD" "Held because its reservation is gone.",
    RequeueFed "REQUEUE_FED" "RF" "Is queued again by a federation.",
    RequeueHold "REQUEUE_HOLD" "RH" "Is queued again, and held.",
    Requeued "REQUEUED" "RQ" "Is queued again.",
    Resizing "RESIZING" "RS" "Is about to change size.",
    Revoked "REVOKED" "RV" "Was started elsewhere in a federation.",
    Running "RUNNING" "R" "Runs.",
    Signaling "SIGNALING" "SI" "Is being sent a signal.",
    SpecialExit "SPECIAL_EXIT" "SE" "Was queued again in a special state.",
    StageOut "STAGE_OUT" "SO" "Stages files out.",
    Stopped "STOPPED" "ST" "Stopped, with its CPUs kept.",
    Suspended "SUSPENDED" "S" "Stands still, with its CPUs given up.",
    Timeout "TIMEOUT" "TO" "Stopped at its time limit.",
    UpdateDb "UPDATE_DB" "UD" "Its record is being written.",
}

/// Reads a state by name or code, in any case, with what `sacct` may add (`CANCELLED by 1000`).
///
/// # Errors
/// [`Code::StateBad`], with the nearest name.
pub fn parse(text: &str) -> Result<SlurmState, Problem> {
    let word = text.split_once(" by ").map_or(text, |(word, _)| word).trim_end_matches('+');
    let found = SlurmState::ALL.iter().find(|state| {
        word.eq_ignore_ascii_case(state.name()) || word.eq_ignore_ascii_case(state.code())
    });
    found.copied().ok_or_else(|| {
        let problem = Problem::new(Code::StateBad, format!("{} is not a job state", quoted(text)));
        match nearest(word, SlurmState::ALL.iter().map(|state| state.name())) {
            Some(near) => problem.hint(format!("did you mean {near}?")),
            None => problem,
        }
    })
}

impl From<JobState> for SlurmState {
    fn from(state: JobState) -> Self {
        match state {
            JobState::Pending => Self::Pending,
            JobState::Starting => Self::Configuring,
            JobState::Running => Self::Running,
            JobState::Suspended => Self::Suspended,
            JobState::Completing => Self::Completing,
            JobState::Completed => Self::Completed,
            JobState::Failed => Self::Failed,
            JobState::Timeout => Self::Timeout,
            JobState::Cancelled => Self::Cancelled,
            JobState::OutOfMemory => Self::OutOfMemory,
            JobState::NodeFail => Self::NodeFail,
            JobState::Preempted => Self::Preempted,
            JobState::Deadline => Self::Deadline,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_distinct_and_read_back() {
        let mut words: Vec<&str> =
            SlurmState::ALL.iter().flat_map(|state| [state.name(), state.code()]).collect();
        for state in SlurmState::ALL {
            assert_eq!(parse(state.name()), Ok(*state));
            assert_eq!(parse(&state.code().to_lowercase()), Ok(*state));
        }
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 2 * SlurmState::ALL.len());
    }

    #[test]
    fn what_sacct_adds_is_ignored() {
        assert_eq!(parse("CANCELLED by 1000"), Ok(SlurmState::Cancelled));
        assert_eq!(parse("CANCELLED+"), Ok(SlurmState::Cancelled));
        assert!(parse("RUNING").unwrap_err().hints[0].contains("RUNNING"));
        assert!(parse("").is_err());
    }
}
