//! What an engine is: something that runs jobs, and the contract that each one keeps.
//!
//! An engine (a) observes: [`Engine::inventory`] is the whole truth about what runs now, and
//! [`Engine::watch`] tells of changes, without a promise that none is lost; (b) executes
//! [`Order`]s, each of which may be repeated any number of times; (c) names its
//! [`Capabilities`].
//!
//! Truth about what runs comes from observation, never from memory of what was ordered.
//!
//! # The contract
//! Each rule has a test in the contract suite, which every engine runs.
//!
//! 1. Launching the same (job, attempt) twice runs it once.
//! 2. An attempt that was stopped before it was launched never runs; it is reported as exited
//!    with [`EndCause::Stopped`](muster_model::EndCause), and a later launch of it is ignored.
//! 3. Every attempt that was accepted is in the inventory, as running or as exited, until it is
//!    acknowledged.
//! 4. An exit is reported once nothing of the attempt runs any more, and stays in the inventory
//!    until [`Order::Acknowledge`].
//! 5. An order with a fence lower than one seen before is refused with [`EngineError::Fenced`].
//! 6. Each signal number of a job is delivered at most once.
//! 7. A launch that cannot be carried out ends as an exit with
//!    [`EndCause::LaunchFailed`](muster_model::EndCause) and a sentence, not as an error that is
//!    tried again for ever.

pub mod book;
pub mod contract;
pub mod scripted;

pub use scripted::{Pace, ScriptedEngine};

use muster_model::{
    EngineName, ExitReport, ForeignUse, Job, JobId, Node, Partition, Payload, Seconds, SignalScope,
    StepRecord, StopCause, TimeLimit, Timestamp,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Something that runs jobs. All calls may come from several threads.
pub trait Engine: Send + Sync {
    /// Its name, as nodes carry it.
    fn name(&self) -> EngineName;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Everything there is: nodes, running attempts, exits not yet acknowledged.
    ///
    /// # Errors
    /// [`EngineError::Unreachable`] where it cannot know.
    fn inventory(&self) -> Result<Inventory, EngineError>;

    /// The partitions that stand for some of another scheduler's, under muster's names; none where
    /// the configuration says all of them. Who may use them the other decides.
    ///
    /// # Errors
    /// [`EngineError::Unreachable`] where it does not answer, [`EngineError::Refused`] where it has
    /// no partition of a name.
    fn partitions(&self) -> Result<Vec<Partition>, EngineError> {
        Ok(Vec::new())
    }

    /// Carries out an order. Returns when the engine has durably taken it, not when it is done.
    ///
    /// # Errors
    /// [`EngineError`]; after [`EngineError::Unreachable`] nothing is known and the order may be
    /// repeated.
    fn execute(&self, fence: u64, order: &Order) -> Result<(), EngineError>;

    /// Why an attempt that it took has not started, as the scheduler behind it said last; `None`
    /// where there is none behind it, or it says nothing. Asks nobody.
    fn waits(&self, job: JobId, attempt: u32) -> Option<Waits> {
        let _ = (job, attempt);
        None
    }

    /// Tells `sink` of changes from now on. Called once, before the first order.
    fn watch(&self, sink: Arc<dyn Fn(Observation) + Send + Sync>);
}

/// Why an attempt waits for the scheduler behind an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Its own word for it.
    pub word: String,
    /// When it expects to start it, where it says so.
    pub expected: Option<Timestamp>,
}

/// What an engine can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// It places by device; else by node, and it picks the devices itself.
    pub places_devices: bool,
    /// It can make a running job stand still.
    pub suspends: bool,
    /// It can end a running job for another.
    pub preempts: bool,
}

/// An order to an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Start an attempt.
    Launch(Box<Launch>),
    /// End an attempt: the polite signal first, after `grace` the final one, for every process.
    Stop {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: u32,
        /// Why; `None` where no job stands for the attempt (any more).
        cause: Option<StopCause>,
        /// Time between the two signals.
        grace: Seconds,
    },
    /// Deliver a signal once.
    Signal {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: u32,
        /// The signal's number among the job's.
        number: u32,
        /// The signal's number on Linux.
        signal: u8,
        /// Who gets it.
        scope: SignalScope,
    },
    /// Make an attempt stand still, or go on.
    Suspend {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: u32,
        /// True to stand still.
        suspend: bool,
    },
    /// Keep only these of its nodes: what runs on the others ends, and the rest goes on. Told as
    /// [`Observation::Resized`] once nothing runs there any more, each time it is ordered.
    Resize {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: u32,
        /// The nodes that it keeps, by name; its first is always among them.
        nodes: Vec<String>,
        /// Time between the polite and the final signal.
        grace: Seconds,
    },
    /// The attempt's time limit is this from now on, counted from its start.
    Limit {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: u32,
        /// The limit.
        limit: TimeLimit,
    },
    /// The exit of this attempt is recorded durably; the engine may forget it.
    Acknowledge {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: u32,
    },
}

/// What an engine needs to start an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The job, with its spec, placement and attempt.
    pub job: Arc<Job>,
    /// The nodes of its placement, in the placement's order.
    pub nodes: Vec<Arc<Node>>,
    /// All components of its heterogeneous job in order with their nodes (itself among them);
    /// empty where it is none. Only component 0 runs the script.
    pub components: Vec<(Arc<Job>, Vec<Arc<Node>>)>,
    /// How many tasks its array was submitted with, and the smallest, largest index and step of
    /// the indices; `None` where it is no array.
    pub array: Option<ArrayFacts>,
    /// The script, arguments and environment.
    pub payload: Arc<Payload>,
    /// Time between the polite and the final signal.
    pub kill_wait: Seconds,
}

/// What a task's environment says of its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayFacts {
    /// Tasks at submission.
    pub size: u32,
    /// The smallest index.
    pub min: u32,
    /// The largest index.
    pub max: u32,
    /// The difference between indices where it is the same for all, else 1.
    pub step: u32,
}

/// Everything that an engine has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Its nodes. Names count; `id` is the writer's to give and is zero here.
    pub nodes: Vec<Node>,
    /// Attempts that were accepted and are not over.
    pub running: Vec<Running>,
    /// Attempts that are over and not acknowledged.
    pub exited: Vec<(JobId, u32, ExitReport)>,
    /// The highest job that it ever took, as far as it remembers: new jobs get higher ids.
    pub highest: JobId,
}

/// An attempt that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: u32,
    /// When its first process began; `None` where it was accepted only.
    pub started: Option<Timestamp>,
    /// It stands still.
    pub suspended: bool,
    /// The highest signal number delivered.
    pub signalled: u32,
    /// Its steps so far.
    pub steps: Vec<StepRecord>,
}

/// Something an engine saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// An attempt's first process runs.
    Started {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: u32,
    },
    /// An attempt stands still, or goes on.
    Suspended {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: u32,
        /// True where it stands still.
        suspended: bool,
    },
    /// An attempt has only these nodes any more.
    Resized {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: u32,
        /// Their names, in the placement's order.
        nodes: Vec<String>,
    },
    /// A signal was delivered.
    Signalled {
        /// The job.
        job: JobId,
        /// Its number among the job's.
        number: u32,
    },
    /// A step began or ended.
    Step {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: u32,
        /// The step as it stands.
        step: StepRecord,
    },
    /// An attempt is over.
    Exited {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: u32,
        /// How.
        report: ExitReport,
    },
    /// What on a node is not muster's.
    Foreign {
        /// The node's name.
        node: String,
        /// All of it.
        foreign: Vec<ForeignUse>,
    },
    /// Nodes came, went or changed: take a new inventory.
    NodesChanged,
}

/// Why an engine did not take an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// It cannot be reached or cannot work now; the order may be repeated.
    #[error("the {engine} engine cannot work now: {why}")]
    Unreachable {
        /// The engine.
        engine: EngineName,
        /// What happened.
        why: String,
    },
    /// The order is from a writer that no longer is one.
    #[error("an order with fence {fence} came after one with {seen}")]
    Fenced {
        /// The order's fence.
        fence: u64,
        /// The highest seen.
        seen: u64,
    },
    /// It will never take this order.
    #[error("the {engine} engine refuses: {why}")]
    Refused {
        /// The engine.
        engine: EngineName,
        /// A sentence for the user.
        why: String,
    },
}

/// The instant that it is now, for engines whose own watching has no other clock.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
