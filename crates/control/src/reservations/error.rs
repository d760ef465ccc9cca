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
    /// It does not say what it is to hold.
    #[error("the reservation asks for nothing")]
    Empty,
    /// It stands in the configuration.
    #[error("reservation {name} stands in the configuration file")]
    Standing {
        /// The name.
        name: String,
    },
    /// Its time makes no sense.
    #[error("{field}: {why}")]
    Time {
        /// What says so: `start`, `end`, `duration`, `every`.
        field: &'static str,
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
        /// Every time was looked at, not one.
        ever: bool,
    },
    /// Another reservation has the same at some time.
    #[error("it would overlap with reservation {other} at {}", in_zone(*at, zone.as_ref()))]
    Overlap {
        /// The other one.
        other: String,
        /// The first time.
        at: Timestamp,
        /// The zone by whose clock times are read.
        zone: Option<String>,
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

/// An instant by the clock of a zone, which it names.
pub(super) fn in_zone(at: Timestamp, zone: Option<&String>) -> String {
    let zone = zone.map_or("UTC", String::as_str);
    let text = muster_recurrence::local_text(zone, at).unwrap_or_default();
    format!("{} {zone}", text.replacen('T', " ", 1))
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
            Self::Empty => "E_RESERVATION_EMPTY",
            Self::Standing { .. } => "E_RESERVATION_STANDING",
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
            Self::Empty | Self::Time { .. } | Self::Flags { .. } | Self::Rule(_) => {
                ErrorClass::Invalid
            }
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
            Self::Empty => "say what it is to hold: nodes (how many, their names, or ALL), GPUs, \
                            CPUs, licences or a partition"
                .to_owned(),
            Self::Standing { .. } => {
                "change its [[reservation]] there, then muster config reload".to_owned()
            }
            Self::Nodes { ever: false, .. } => {
                "muster reservation plan with the same options finds the earliest time".to_owned()
            }
            Self::Nodes { ever: true, .. } => {
                "ask for fewer or other nodes; the flags IGNORE_JOBS \
                                               and OVERLAP look past jobs and reservations"
                    .to_owned()
            }
            Self::Overlap { .. } => "the flag OVERLAP or MAINT allows it".to_owned(),
            Self::Jobs { .. } => "the flag IGNORE_JOBS lets them run on".to_owned(),
            Self::Busy { .. } => "cancel them, or wait for their end".to_owned(),
            Self::Time { .. } | Self::Flags { .. } => return None,
        };
        Some(hint)
    }
}
