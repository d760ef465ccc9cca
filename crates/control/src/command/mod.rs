//! Commands: what people ask for, checked against the state and turned into events.
//!
//! Checking is pure: [`meaning`] sees the state, who asks and when, and gives the events that
//! the command means, or why not. Nothing is stored where it refuses.

mod action;
mod change;
mod configure;
mod cycle;
mod error;
mod feasible;
mod gpus;
mod idle;
pub mod limits;
mod nearness;
mod nodes;
mod shapes;
mod site;
mod submit;
mod target;

pub use change::JobChange;
pub use error::{CommandError, ErrorClass};
pub use shapes::Shapes;
pub use site::{DeviceOverlay, NodeOverlay, Site};
pub use submit::check_submission;
pub use target::JobRef;

use crate::reservations::{self, ReservationOrder};
use muster_model::{
    EventKind, IdleGpus, Job, JobId, JobSpec, LicenceHold, PartitionState, Payload, Seconds,
    SignalScope, State, Timestamp,
};
use muster_store::Blob;

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principal {
    /// Numeric user id.
    pub uid: u32,
    /// Numeric group id.
    pub gid: u32,
    /// The user's name.
    pub user: String,
    /// Root, or the user that the daemon runs as.
    pub admin: bool,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Take a job: one spec, or one for each component of a heterogeneous job.
    Submit(Box<Submission>),
    /// End jobs.
    Cancel {
        /// Which.
        jobs: Vec<JobRef>,
        /// Without any grace, also where they are being ended already.
        hurry: bool,
    },
    /// Send a signal to running jobs.
    Signal {
        /// Which.
        jobs: Vec<JobRef>,
        /// Its number on Linux.
        signal: u8,
        /// Which processes.
        scope: SignalScope,
    },
    /// Hold waiting jobs: an admin's hold where an admin asks (unless `as_user`), else the owner's.
    Hold {
        /// Which.
        jobs: Vec<JobRef>,
        /// An admin wants the owner to be able to lift it (`scontrol uhold`).
        as_user: bool,
    },
    /// Let held jobs go. Only an admin lifts an admin's hold.
    Release {
        /// Which.
        jobs: Vec<JobRef>,
    },
    /// Put running jobs back in the queue.
    Requeue {
        /// Which.
        jobs: Vec<JobRef>,
        /// Held afterwards (`scontrol requeuehold`).
        hold: bool,
    },
    /// Make running jobs stand still, or go on.
    Suspend {
        /// Which.
        jobs: Vec<JobRef>,
        /// True to stand still.
        suspend: bool,
    },
    /// Running jobs have written a complete checkpoint.
    Checkpoint {
        /// Which.
        jobs: Vec<JobRef>,
        /// Which attempt wrote it; `None` is the present one.
        attempt: Option<u32>,
    },
    /// All GPUs of a running job do nothing, or again do something (`None`). Admins only.
    Idle {
        /// Which.
        job: JobId,
        /// Which attempt was measured.
        attempt: u32,
        /// What was measured.
        idle: Option<IdleGpus>,
    },
    /// Take back the GPUs of a running job that was told that they do nothing. Admins only.
    TakeBack {
        /// Which.
        job: JobId,
        /// Which attempt was measured.
        attempt: u32,
        /// How long they have done nothing.
        after: Seconds,
        /// Put it back in the queue, held, where it may be; else it is cancelled.
        requeue: bool,
    },
    /// Change jobs' requests.
    Update {
        /// Which.
        jobs: Vec<JobRef>,
        /// What of them.
        change: Box<JobChange>,
    },
    /// Give nodes no new work. Admins only.
    DrainNodes {
        /// Their names.
        nodes: Vec<String>,
        /// A sentence.
        reason: String,
    },
    /// Give nodes work again. Admins only.
    ResumeNodes {
        /// Their names.
        nodes: Vec<String>,
    },
    /// Open or close a partition. Admins only; the next [`Command::Configure`] sets it anew.
    SetPartition {
        /// Its name.
        name: String,
        /// What it takes and starts.
        state: PartitionState,
    },
    /// Set nodes or licences aside. Admins only.
    CreateReservation(Box<ReservationOrder>),
    /// Change a reservation. Admins only.
    UpdateReservation(Box<ReservationOrder>),
    /// End a reservation: admins, or its users where it says so.
    DeleteReservation {
        /// Its name.
        name: String,
        /// Its section is gone from the configuration.
        standing: bool,
    },
    /// Give a licence out no more, or again (`None`). Admins only.
    HoldLicence {
        /// Its name.
        name: String,
        /// Why.
        hold: Option<LicenceHold>,
    },
    /// The configuration as a whole: what differs from the state becomes events. Admins only.
    Configure(Box<Site>),
}

/// A job to take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submission {
    /// What was asked; `payload` is filled in by the writer, and empty account, QOS and partitions
    /// with the defaults.
    pub specs: Vec<JobSpec>,
    /// What it runs.
    pub payload: Payload,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The job is taken.
    Submitted {
        /// Its id: an array's, a het leader's, or the job's.
        id: JobId,
        /// How many ids it took, this one first.
        count: u32,
    },
    /// Done for each of these jobs (raw ids); refused for others, and why. Where nothing could be
    /// done the command as a whole is refused with the first reason.
    Jobs {
        /// Done.
        done: Vec<JobId>,
        /// Refused: the job as users see it, and why.
        refused: Vec<(String, CommandError)>,
    },
    /// A reservation was made, changed or ended.
    Reservation {
        /// Its name.
        name: String,
    },
    /// Done; this many events.
    Changed {
        /// How many.
        events: u32,
    },
}

/// What a command means: events, with what is stored beside them.
#[derive(Clone, Debug)]
pub struct Meaning {
    /// The events, in order.
    pub events: Vec<EventKind>,
    /// The blobs that they name.
    pub blobs: Vec<Blob>,
    /// The answer once they are stored.
    pub reply: Reply,
}

impl Principal {
    /// True where it may see and change all of the job.
    pub fn owns(&self, job: &Job) -> bool {
        self.admin || self.uid == job.spec.owner.uid
    }
}

/// What a command means on this state. `shapes` makes checks of many commands cheap; a fresh one
/// does as well.
///
/// # Errors
/// Why it is refused.
pub fn meaning(
    state: &State,
    shapes: &mut Shapes,
    at: Timestamp,
    principal: &Principal,
    command: Command,
) -> Result<Meaning, CommandError> {
    match command {
        Command::Submit(submission) => submit::submit(state, shapes, at, principal, &submission),
        Command::Cancel { jobs, hurry } => action::cancel(state, principal, &jobs, hurry),
        Command::Signal { jobs, signal, scope } => {
            action::signal(state, principal, &jobs, signal, scope)
        }
        Command::Hold { jobs, as_user } => action::hold(state, principal, &jobs, as_user),
        Command::Release { jobs } => action::release(state, principal, &jobs),
        Command::Requeue { jobs, hold } => action::requeue(state, principal, &jobs, hold),
        Command::Suspend { jobs, suspend } => action::suspend(state, principal, &jobs, suspend),
        Command::Checkpoint { jobs, attempt } => {
            action::checkpoint(state, principal, &jobs, attempt)
        }
        Command::Idle { job, attempt, idle } => idle::tell(state, principal, job, attempt, idle),
        Command::TakeBack { job, attempt, after, requeue } => {
            idle::take_back(state, principal, job, attempt, (after, requeue))
        }
        Command::Update { jobs, change } => {
            change::update(state, shapes, at, principal, &jobs, &change)
        }
        Command::DrainNodes { nodes, reason } => {
            nodes::drain(state, at, principal, &nodes, &reason)
        }
        Command::ResumeNodes { nodes } => nodes::resume(state, principal, &nodes),
        Command::SetPartition { name, state: to } => {
            nodes::set_partition(state, principal, &name, to)
        }
        Command::CreateReservation(order) => reservations::create(state, at, principal, &order),
        Command::UpdateReservation(order) => reservations::update(state, at, principal, &order),
        Command::DeleteReservation { name, standing } => {
            reservations::delete(state, principal, &name, standing)
        }
        Command::HoldLicence { name, hold } => nodes::hold_licence(state, principal, name, hold),
        Command::Configure(site) => configure::configure(state, principal, &site),
    }
}

impl Meaning {
    /// Gives submitted jobs ids above this one.
    pub(crate) fn above(&mut self, floor: JobId) -> Result<(), CommandError> {
        let Reply::Submitted { id, count } = &mut self.reply else { return Ok(()) };
        if *id > floor {
            return Ok(());
        }
        if floor.0.checked_add(*count).is_none() {
            return Err(CommandError::Fault { why: "job ids are used up".to_owned() });
        }
        *id = JobId(floor.0 + 1);
        for event in &mut self.events {
            if let EventKind::JobSubmitted { first, .. } = event {
                *first = *id;
            }
        }
        Ok(())
    }

    fn of(events: Vec<EventKind>, reply: Reply) -> Self {
        Self { events, blobs: Vec::new(), reply }
    }

    fn changed(events: Vec<EventKind>) -> Self {
        let count = events.len() as u32;
        Self::of(events, Reply::Changed { events: count })
    }
}

/// Refuses everybody but admins.
fn admins_only(principal: &Principal, what: &'static str) -> Result<(), CommandError> {
    if principal.admin { Ok(()) } else { Err(CommandError::AdminOnly { what }) }
}
