//! Commands: what people ask for, checked against the state and turned into events.
//!
//! Checking is pure; nothing is stored where a command is refused.

mod change;
mod error;
mod site;
mod target;

pub use change::JobChange;
pub use error::{CommandError, ErrorClass};
pub use site::{NodeOverlay, Site};
pub use target::JobRef;

use muster_model::{EventKind, Job, JobId, JobSpec, PartitionState, Payload, SignalScope};
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
    /// Done for each of these jobs (raw ids); refused for others, and why.
    Jobs {
        /// Done.
        done: Vec<JobId>,
        /// Refused.
        refused: Vec<(JobId, CommandError)>,
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
