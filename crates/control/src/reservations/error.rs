//! Why an order for a reservation was refused.

use crate::command::ErrorClass;
use muster_model::{JobId, Timestamp};
use muster_recurrence::RecurrenceError;

/// A refusal of an order for a reservation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReservationError {
    /// There is one of this name.
    #[error("there is a reservation {name} already")]
    Exists {
        /// The name.
        name: String,
    },
    /// Its time makes no sense.
    #[error("the reservation's time: {why}")]
    Time {
        /// What is wrong.
        why: String,
    },
    /// Its flags, or a flag and another field, contradict each other.
    #[error("the reservation's flags: {why}")]
    Flags {
        /// What is wrong.
        why: String,
    },
    /// Its rule of recurrence or time zone is none.
    #[error("{0}")]
    Rule(RecurrenceError),
    /// Not enough nodes, GPUs or licences are free of other reservations and jobs then.
    #[error("no nodes for the reservation: {why}")]
    Nodes {
        /// What is lacking.
        why: String,
    },
    /// Another reservation has the same at some time.
    #[error("it would overlap with reservation {other}")]
    Overlap {
        /// The other one.
        other: String,
        /// The first time.
        at: Timestamp,
    },
    /// Running jobs could run into it.
    #[error("{} could run into it: {}", count(.jobs), listed(.jobs))]
    Jobs {
        /// They, by number.
        jobs: Vec<JobId>,
    },
    /// Jobs run in it.
    #[error("{} in reservation {name}: {}", count(.jobs), listed(.jobs))]
    Busy {
        /// Its name.
        name: String,
        /// They, by number.
        jobs: Vec<JobId>,
    },
}

fn count(jobs: &[JobId]) -> String {
    if jobs.len() == 1 {
        "1 running job".to_owned()
    } else {
        format!("{} running jobs", jobs.len())
    }
}

fn listed(jobs: &[JobId]) -> String {
    const LISTED_MAX: usize = 20;
    let mut text: Vec<String> = jobs.iter().take(LISTED_MAX).map(ToString::to_string).collect();
    if jobs.len() > LISTED_MAX {
        text.push(format!("and {} more", jobs.len() - LISTED_MAX));
    }
    text.join(", ")
}

impl ReservationError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Exists { .. } => "E_RESERVATION_EXISTS",
            Self::Time { .. } => "E_RESERVATION_TIME",
            Self::Flags { .. } => "E_RESERVATION_FLAGS",
            Self::Rule(RecurrenceError::ZoneUnknown { .. }) => "E_TIMEZONE_UNKNOWN",
            Self::Rule(_) => "E_RESERVATION_RULE",
            Self::Nodes { .. } => "E_RESERVATION_NODES",
            Self::Overlap { .. } => "E_RESERVATION_OVERLAP",
            Self::Jobs { .. } => "E_RESERVATION_JOBS",
            Self::Busy { .. } => "E_RESERVATION_BUSY",
        }
    }

    /// What kind it is.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Time { .. } | Self::Flags { .. } | Self::Rule(_) => ErrorClass::Invalid,
            _ => ErrorClass::Conflict,
        }
    }

    /// What to do about it, where that can be said.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Exists { name } => format!("muster reservation update {name} changes it"),
            Self::Rule(RecurrenceError::ZoneUnknown { .. }) => {
                "name one of the IANA database, such as Europe/Berlin or Asia/Seoul".to_owned()
            }
            Self::Rule(_) => "write for example FREQ=WEEKLY;BYDAY=MO (RFC 5545)".to_owned(),
            Self::Nodes { .. } => "muster reservation plan finds the earliest time".to_owned(),
            Self::Overlap { .. } => "the flag OVERLAP or MAINT allows it".to_owned(),
            Self::Jobs { .. } => "the flag IGNORE_JOBS lets them run on".to_owned(),
            Self::Busy { .. } => "cancel them, or wait for their end".to_owned(),
            Self::Time { .. } | Self::Flags { .. } => return None,
        };
        Some(hint)
    }
}
