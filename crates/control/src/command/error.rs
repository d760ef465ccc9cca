//! Why a command was refused.

use crate::reservations::ReservationError;
use muster_model::{JobId, JobState, PartitionState, Reason};

/// A refusal: what was wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No such job in the live list.
    #[error("there is no job {job}")]
    UnknownJob {
        /// As asked.
        job: String,
    },
    /// No such partition, account, QOS, node, licence, feature or reservation.
    #[error("there is no {kind} {name:?}")]
    UnknownName {
        /// What it should be, as a word.
        kind: &'static str,
        /// As asked.
        name: String,
        /// The most similar name that there is.
        nearest: Option<String>,
    },
    /// Somebody else's job.
    #[error("job {job} belongs to {owner}")]
    NotYours {
        /// The job.
        job: JobId,
        /// Whose it is.
        owner: String,
    },
    /// Only admins may do this.
    #[error("only an admin may {what}")]
    AdminOnly {
        /// What, after "may".
        what: &'static str,
    },
    /// The job is over.
    #[error("job {job} is over ({state:?})")]
    JobOver {
        /// The job.
        job: JobId,
        /// How it ended.
        state: JobState,
    },
    /// The job is not in a state for this.
    #[error("job {job} is {state:?}; {wanted}")]
    WrongState {
        /// The job.
        job: JobId,
        /// Its state.
        state: JobState,
        /// What the command needs, as a clause.
        wanted: &'static str,
    },
    /// An admin holds it.
    #[error("job {job} is held by an admin")]
    HeldByAdmin {
        /// The job.
        job: JobId,
    },
    /// A component of a het job that waits cannot be treated alone.
    #[error(
        "job {leader}+{offset} is a component of a waiting heterogeneous job and cannot be treated alone"
    )]
    HetComponent {
        /// Its leader.
        leader: JobId,
        /// Which component.
        offset: u32,
    },
    /// The partition takes no jobs.
    #[error("partition {partition} takes no jobs now ({state:?})")]
    PartitionClosed {
        /// Which.
        partition: String,
        /// Its state.
        state: PartitionState,
    },
    /// The account is not for this user.
    #[error("user {user} may not use account {account}")]
    AccountRefused {
        /// The account.
        account: String,
        /// The user.
        user: String,
        /// Accounts that admit the user, at most eight.
        others: Vec<String>,
    },
    /// The partition is not for this account.
    #[error("account {account} may not use partition {partition}")]
    PartitionRefused {
        /// The partition.
        partition: String,
        /// The account.
        account: String,
    },
    /// More than a partition gives.
    #[error("{what} {wanted} is more than partition {partition} gives ({limit})")]
    AboveLimit {
        /// Of what, with its unit.
        what: &'static str,
        /// Asked for.
        wanted: String,
        /// Given.
        limit: String,
        /// By whom.
        partition: String,
    },
    /// A limit of its association or QOS is broken by the submission.
    #[error("{reason}")]
    LimitBroken {
        /// Which limit, with its numbers.
        reason: Box<Reason>,
    },
    /// The configuration leaves out what unfinished jobs name.
    #[error("{kind} {name} is not configured any more, but {jobs} unfinished jobs name it")]
    StillUsed {
        /// What it is, as a word.
        kind: &'static str,
        /// Its name.
        name: String,
        /// How many.
        jobs: usize,
    },
    /// No nodes of the partition could ever run it.
    #[error("requested node configuration is not available in partition {partition}: {lacking}")]
    NeverFits {
        /// The partition (the last one tried).
        partition: String,
        /// What is missing, with numbers.
        lacking: String,
        /// The single change with which some nodes would do, as a clause.
        change: Option<&'static str>,
    },
    /// A dependency on a job that was never here or is forgotten (S-19).
    #[error("dependency {term}: job {job} is not known")]
    UnknownDependency {
        /// The term as text.
        term: String,
        /// The job.
        job: String,
    },
    /// A dependency that would wait for itself (S-23).
    #[error("the dependency would run in a circle: {}", circle(.path))]
    DependencyCircle {
        /// The jobs of the circle, the changed one first.
        path: Vec<JobId>,
    },
    /// A value that makes no sense, or is too long or too large.
    #[error("{field}: {why}")]
    BadValue {
        /// Which field, as users call it.
        field: &'static str,
        /// What is wrong, with numbers.
        why: String,
    },
    /// An order for a reservation that cannot be followed.
    #[error(transparent)]
    Reservation(#[from] ReservationError),
    /// There are as many jobs as the policy allows.
    #[error(
        "{unfinished} jobs are unfinished and {wanted} more would be above the bound of {limit}"
    )]
    TooManyJobs {
        /// There are.
        unfinished: u64,
        /// Asked for.
        wanted: u64,
        /// `policy.max_job_count`.
        limit: u32,
    },
    /// The command queue is full.
    #[error("too many commands wait ({waiting}); nothing was done")]
    Busy {
        /// How many.
        waiting: usize,
    },
    /// Given up by the one who asked before its turn came.
    #[error("the command was given up before its turn; nothing was done")]
    GivenUp,
    /// The store refused; nothing was done.
    #[error("the change could not be stored, and nothing was done: {why}")]
    Store {
        /// The store's code.
        code: &'static str,
        /// What it said.
        why: String,
    },
    /// The daemon stops.
    #[error("the daemon is stopping; nothing was done")]
    Stopping,
    /// A command's events did not fit the state: a fault of ours.
    #[error("internal fault, nothing was done: {why}")]
    Fault {
        /// What.
        why: String,
    },
}

/// What kind of refusal, for exit codes and HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// What is named is not there.
    NotFound,
    /// Not allowed to this principal.
    Forbidden,
    /// The request can never be right.
    Invalid,
    /// Not now: the state forbids it.
    Conflict,
    /// Try again later.
    Unavailable,
    /// Our fault.
    Internal,
}

fn circle(path: &[JobId]) -> String {
    let mut text: Vec<String> = path.iter().map(ToString::to_string).collect();
    text.extend(path.first().map(ToString::to_string));
    text.join(" -> ")
}

impl CommandError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownJob { .. } => "E_JOB_UNKNOWN",
            Self::UnknownName { kind, .. } => match kind.as_bytes() {
                b"partition" => "E_PARTITION_UNKNOWN",
                b"account" => "E_ACCOUNT_UNKNOWN",
                b"qos" | b"QOS" => "E_QOS_UNKNOWN",
                b"node" => "E_NODE_UNKNOWN",
                _ => "E_NAME_UNKNOWN",
            },
            Self::NotYours { .. } => "E_DENIED",
            Self::AdminOnly { .. } => "E_ADMIN_ONLY",
            Self::JobOver { .. } => "E_JOB_OVER",
            Self::WrongState { .. } => "E_JOB_STATE",
            Self::HeldByAdmin { .. } => "E_HELD_BY_ADMIN",
            Self::HetComponent { .. } => "E_HET_COMPONENT",
            Self::PartitionClosed { .. } => "E_PARTITION_CLOSED",
            Self::AccountRefused { .. } => "E_ACCOUNT_DENIED",
            Self::PartitionRefused { .. } => "E_PARTITION_DENIED",
            Self::AboveLimit { .. } => "E_ABOVE_LIMIT",
            Self::LimitBroken { .. } => "E_LIMIT",
            Self::StillUsed { .. } => "E_STILL_USED",
            Self::NeverFits { .. } => "E_NEVER_FITS",
            Self::UnknownDependency { .. } => "E_DEPENDENCY_UNKNOWN",
            Self::DependencyCircle { .. } => "E_DEPENDENCY_CYCLE",
            Self::BadValue { .. } => "E_VALUE_BAD",
            Self::Reservation(error) => error.code(),
            Self::TooManyJobs { .. } => "E_TOO_MANY_JOBS",
            Self::Busy { .. } => "E_BUSY",
            Self::GivenUp => "E_GIVEN_UP",
            Self::Store { code, .. } => code,
            Self::Stopping => "E_STOPPING",
            Self::Fault { .. } => "E_FAULT",
        }
    }

    /// What kind it is.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::UnknownJob { .. } => ErrorClass::NotFound,
            Self::Reservation(error) => error.class(),
            Self::NotYours { .. } | Self::AdminOnly { .. } | Self::AccountRefused { .. } => {
                ErrorClass::Forbidden
            }
            Self::UnknownName { .. }
            | Self::PartitionRefused { .. }
            | Self::AboveLimit { .. }
            | Self::NeverFits { .. }
            | Self::UnknownDependency { .. }
            | Self::DependencyCircle { .. }
            | Self::BadValue { .. } => ErrorClass::Invalid,
            Self::JobOver { .. }
            | Self::WrongState { .. }
            | Self::HeldByAdmin { .. }
            | Self::HetComponent { .. }
            | Self::PartitionClosed { .. }
            | Self::TooManyJobs { .. }
            | Self::LimitBroken { .. }
            | Self::StillUsed { .. }
            | Self::GivenUp => ErrorClass::Conflict,
            Self::Busy { .. } | Self::Store { .. } | Self::Stopping => ErrorClass::Unavailable,
            Self::Fault { .. } => ErrorClass::Internal,
        }
    }

    /// What to do about it, where that can be said.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownJob { .. } => Some(
                "ended jobs leave the live list after a while; `sacct` still knows them".into(),
            ),
            Self::UnknownName { nearest, .. } => {
                nearest.as_ref().map(|name| format!("did you mean {name:?}?"))
            }
            Self::Reservation(error) => error.hint(),
            Self::HeldByAdmin { .. } => Some("ask an admin to release it".into()),
            Self::HetComponent { leader, .. } => Some(format!("name the whole job: {leader}")),
            Self::AccountRefused { others, .. } if !others.is_empty() => {
                Some(format!("accounts for you: {}", others.join(", ")))
            }
            Self::AccountRefused { .. } => Some("ask an admin to add you to an account".into()),
            Self::AboveLimit { limit, .. } => Some(format!("ask for at most {limit}")),
            Self::NeverFits { change: Some(change), .. } => Some(format!("{change} it could run")),
            Self::NeverFits { .. } => Some(
                "`sinfo` shows what the nodes have; ask for less, or for another partition".into(),
            ),
            Self::UnknownDependency { .. } => {
                Some("afterany and after take unknown jobs as done".into())
            }
            Self::TooManyJobs { .. } => {
                Some("wait until some have ended, or raise policy.max_job_count".into())
            }
            Self::LimitBroken { reason } => Some(match reason.as_ref() {
                Reason::AssociationLimit(hit) | Reason::QosLimit(hit)
                    if hit.limit.is_of_one_job() =>
                {
                    format!(
                        "ask for at most that, or for another QOS or account ({})",
                        reason.slurm_word()
                    )
                }
                _ => format!("wait until some have ended ({})", reason.slurm_word()),
            }),
            Self::StillUsed { .. } => Some("wait until they have ended, or cancel them".into()),
            Self::Busy { .. } => Some("try again in a moment".into()),
            Self::Fault { .. } => Some("please report this".into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_closes() {
        let error = CommandError::DependencyCircle { path: vec![JobId(60), JobId(62), JobId(61)] };
        assert_eq!(error.to_string(), "the dependency would run in a circle: 60 -> 62 -> 61 -> 60");
    }
}
