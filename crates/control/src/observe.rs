//! Observations of engines, turned into events.

use crate::orders::{Outgoing, names_of};
use crate::turn::Turn;
use muster_engine::{Observation, Order};
use muster_model::{
    ApplyError, EngineName, EventKind, ExitReport, ForeignUse, JobId, Seconds, State,
};

/// Steps of a running job that the live list keeps; the exit report has all of them.
const STEPS_MAX: usize = 1000;

/// What an observation asks for beside events.
#[derive(Default)]
pub(crate) struct Aftermath {
    /// Orders that no job in the state stands for.
    pub(crate) orders: Vec<Outgoing>,
    /// A new inventory of this engine.
    pub(crate) inventory: Option<EngineName>,
    /// Attempts that the state does not know.
    pub(crate) strays: u64,
}

/// Takes an observation into the turn.
pub(crate) fn observe(
    turn: &mut Turn,
    engine: &EngineName,
    seen: Observation,
) -> Result<Aftermath, ApplyError> {
    let mut aftermath = Aftermath::default();
    match seen {
        Observation::Started { job, attempt } => match is_current(&turn.state, job, attempt) {
            true => started(turn, job, attempt)?,
            false => aftermath.stray(engine, job, attempt),
        },
        Observation::Suspended { job, attempt, suspended } => {
            if is_current(&turn.state, job, attempt) {
                suspend(turn, job, attempt, suspended)?;
            }
        }
        Observation::Resized { job, attempt, nodes } => {
            // What it shall keep may have been decided anew meanwhile.
            let keeps = turn.state.jobs.get(&job).and_then(|job| job.resize.as_ref());
            let done = keeps.is_some_and(|keeps| names_of(&turn.state, keeps) == nodes);
            if done && is_current(&turn.state, job, attempt) {
                turn.apply(EventKind::JobResized { job, attempt })?;
            }
        }
        Observation::Signalled { job, number } => signalled(turn, job, number)?,
        Observation::Step { job, attempt, step } => {
            if is_current(&turn.state, job, attempt) {
                let known = turn.state.jobs.get(&job).is_some_and(|job| {
                    job.steps.iter().any(|known| known.is_as_seen(&step))
                        || (job.steps.len() >= STEPS_MAX
                            && !job.steps.iter().any(|s| s.id == step.id))
                });
                if !known {
                    turn.apply(EventKind::StepObserved { job, attempt, step })?;
                }
            }
        }
        Observation::Exited { job, attempt, report } => exited(turn, job, attempt, report)?,
        Observation::Foreign { node, foreign } => see_foreign(turn, &node, foreign)?,
        Observation::NodesChanged => aftermath.inventory = Some(engine.clone()),
    }
    Ok(aftermath)
}

/// True where the attempt is the job's present one and has resources.
pub(crate) fn is_current(state: &State, job: JobId, attempt: u32) -> bool {
    state.jobs.get(&job).is_some_and(|j| j.attempt == attempt && j.state.holds_resources())
}

pub(crate) fn started(turn: &mut Turn, job: JobId, attempt: u32) -> Result<(), ApplyError> {
    let unseen = turn.state.jobs.get(&job).is_some_and(|job| job.started.is_none());
    if unseen { turn.apply(EventKind::JobStarted { job, attempt }) } else { Ok(()) }
}

pub(crate) fn suspend(
    turn: &mut Turn,
    job: JobId,
    attempt: u32,
    suspended: bool,
) -> Result<(), ApplyError> {
    use muster_model::JobState::Running;
    let news = turn.state.jobs.get(&job).is_some_and(|job| match suspended {
        true => job.state == Running,
        false => job.stands_since.is_some(),
    });
    if news { turn.apply(EventKind::JobSuspended { job, attempt, suspended }) } else { Ok(()) }
}

pub(crate) fn signalled(turn: &mut Turn, job: JobId, number: u32) -> Result<(), ApplyError> {
    let waits = turn
        .state
        .jobs
        .get(&job)
        .is_some_and(|job| job.signals.iter().any(|signal| signal.number == number));
    if waits { turn.apply(EventKind::JobSignalled { job, number }) } else { Ok(()) }
}

/// Records an exit; one that is stale or known only marks the attempt as over, so that the engine
/// may forget it.
pub(crate) fn exited(
    turn: &mut Turn,
    job: JobId,
    attempt: u32,
    report: ExitReport,
) -> Result<(), ApplyError> {
    if is_current(&turn.state, job, attempt) {
        turn.apply(EventKind::JobExited { job, attempt, report })?;
    }
    turn.over.insert((job, attempt));
    Ok(())
}

fn see_foreign(turn: &mut Turn, node: &str, foreign: Vec<ForeignUse>) -> Result<(), ApplyError> {
    match turn.state.node_named(node).map(|n| (n.id, n.foreign != foreign)) {
        Some((node, true)) => turn.apply(EventKind::NodeForeign { node, foreign }),
        _ => Ok(()),
    }
}

impl Aftermath {
    /// An attempt runs that the state does not know: it is ended.
    pub(crate) fn stray(&mut self, engine: &EngineName, job: JobId, attempt: u32) {
        self.strays += 1;
        tracing::warn!(%engine, %job, attempt, "runs, but no job stands for it: stopped");
        let order = Order::Stop { job, attempt, cause: None, grace: Seconds(0) };
        self.orders.push(Outgoing { engine: engine.clone(), order, payload: None });
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.orders.extend(other.orders);
        self.inventory = other.inventory.or(self.inventory.take());
        self.strays += other.strays;
    }
}
