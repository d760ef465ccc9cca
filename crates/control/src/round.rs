//! Planning rounds: what plans, what checks, and what the last round said.

use muster_model::{Event, JobId, Plan, Promise, State, Timestamp, plan::Work};

/// Something that plans. The planner is a cache over the state: it is told of every event, in
/// order, and may be asked to start anew from a state at any time.
pub trait Planning: Send {
    /// Forgets everything and begins with this state.
    fn reset(&mut self, state: &State);

    /// An event was applied.
    fn observe(&mut self, event: &Event);

    /// What to do now. `state` is the fold of every event that was observed.
    fn plan(&mut self, state: &State, now: Timestamp) -> Plan;
}

/// Something that judges plans without the planner's help.
pub trait Checking: Send + Sync {
    /// Every rule that the plan would break on this state.
    fn check(&self, state: &State, plan: &Plan) -> Vec<Breach>;
}

/// A rule that a plan breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The rule's name.
    pub rule: String,
    /// A sentence with the numbers.
    pub message: String,
    /// The jobs whose decisions break it.
    pub jobs: Vec<JobId>,
}

/// What the newest planning round said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// When it was.
    pub now: Timestamp,
    /// The state it was made from.
    pub seq: u64,
    /// The reserved starts that backfill worked around.
    pub promises: Vec<Promise>,
    /// The work it took.
    pub work: Work,
    /// False where the budget ended before every job was looked at.
    pub complete: bool,
}
