//! A cache over state: order, fit, promises, reasons.
//!
//! [`Planner`] holds nothing that the state does not say: after any events its plan equals that of a
//! new planner, byte for byte. It sees no clock and does no I/O; the same state, instant and budget
//! give the same plan on every machine.
//!
//! ```
//! use muster_model::{State, Timestamp};
//! use muster_planner::{Budget, Planner};
//! let state = State::default();
//! let mut planner = Planner::new(&state);
//! let plan = planner.plan(&state, Timestamp::from_secs(0), Budget::UNLIMITED);
//! assert!(plan.decisions.is_empty() && plan.complete);
//! ```

mod affinity;
mod alternatives;
mod ask;
mod behind;
mod budget;
mod cache;
mod coming;
mod compare;
mod depth;
mod devices;
mod explain;
mod free;
mod gang;
mod gate;
mod gates;
mod groups;
mod holes;
mod known;
mod levels;
pub mod limits;
mod members;
mod natural;
mod order;
mod orders;
mod outcome;
mod outlook;
mod pool;
mod preempt;
mod print;
mod profile;
mod promised;
mod queue;
mod reasons;
mod reject;
mod replay;
mod reservations;
mod round;
mod select;
mod shared;
mod shortage;
mod simple;
mod slowdown;
mod start;
mod suggest;
mod switches;
pub mod taints;
mod tally;
mod terms;
mod timeline;
mod together;
pub mod topology;
mod turns;
mod unblock;
mod wants;
mod waste;
mod world;

pub use budget::Budget;
pub use compare::{Choice, Comparison, NodeAnswer, NodeScore, ScorePart, Standing, Verdict};
pub use explain::{Explanation, StartWindow};
pub use order::{priority, queue};
pub use outlook::{FORESEEN_MAX, Outlook};
pub use preempt::{RoomMakers, RunningJobs};
pub use reservations::Slot;
pub use suggest::{Change, Less, Suggestion};
pub use turns::TurnView;
pub use unblock::Unblock;

use cache::Cache;
use muster_model::{Event, JobId, Plan, Promise, Reason, State, Timestamp};
use outlook::Far;
use pool::PoolCache;
use std::collections::BTreeMap;

/// Plans rounds over states that follow each other, taking up only what changed.
#[derive(Clone, Debug)]
pub struct Planner {
    cache: Cache,
    pool: PoolCache,
}

impl Planner {
    /// A planner for this state.
    pub fn new(state: &State) -> Self {
        Self { cache: Cache::new(state), pool: PoolCache::default() }
    }

    /// Takes up what changed since the last look. [`Planner::plan`] does so by itself: calling
    /// this between events only spreads the work.
    pub fn observe(&mut self, after: &State) {
        self.cache.follow(after, after.now);
    }

    /// Takes up an event, which made this state out of the one before.
    ///
    /// Whoever tells an event has to tell every one from there on: then a round over a pool of
    /// processors need not look for what changed. Otherwise as [`Planner::observe`]: never needed.
    pub fn observe_event(&mut self, event: &Event, after: &State) {
        self.pool.tell(event, after);
    }

    /// Decides what to do now: see the text of module `round`.
    ///
    /// The state may be any, also an older one; the cache then starts anew.
    pub fn plan(&mut self, state: &State, now: Timestamp, budget: Budget) -> Plan {
        if budget == Budget::UNLIMITED {
            if let Some(plan) = self.pool.plan(state, now) {
                return plan;
            }
            return self.cache.planned(state, now).outcome.plan.clone();
        }
        round::plan(&mut self.cache, state, now, budget).plan
    }

    /// When every waiting job would start, if nobody else came and every job took its whole limit:
    /// the next round's starts, those for whom room is made, the promises of that round, then the
    /// queue in order, none delayed by one after it.
    ///
    /// This is the one answer to when a job starts: every other one is a part of it. Costs about as
    /// much as a round with a promise for everybody.
    pub fn outlook(&mut self, state: &State, now: Timestamp) -> Outlook {
        let memo = self.cache.planned(state, now);
        outlook::outlook(&self.cache, state, now, &memo.outcome, Far::ALL)
    }

    /// As [`Planner::outlook`], for the first [`FORESEEN_MAX`] turns of the queue.
    pub fn foreseen(&mut self, state: &State, now: Timestamp) -> Outlook {
        let memo = self.cache.planned(state, now);
        self.cache.foreseen(&memo).clone()
    }

    /// When and where one waiting job would start: its part of [`Planner::outlook`], which is laid
    /// out only as far as that. `None` where it has none.
    pub fn when(&mut self, state: &State, job: JobId, now: Timestamp) -> Option<Promise> {
        let memo = self.cache.planned(state, now);
        let far = Far { only: Some(job), ..Far::ALL };
        outlook::outlook(&self.cache, state, now, &memo.outcome, far).starts.remove(&job)
    }

    /// Why each waiting job waits, the binding reason of each: one pass over the queue, answered
    /// once for each shape.
    ///
    /// A job that the next round starts is [`Reason::NotPlannedYet`].
    pub fn reasons(&mut self, state: &State, now: Timestamp) -> BTreeMap<JobId, Reason> {
        reasons::all(&mut self.cache, state, now, Budget::UNLIMITED)
    }

    /// As [`Planner::reasons`], for a round with this budget: jobs that it does not reach wait for
    /// that ([`Reason::BudgetEnded`]).
    pub fn reasons_within(
        &mut self,
        state: &State,
        now: Timestamp,
        budget: Budget,
    ) -> BTreeMap<JobId, Reason> {
        reasons::all(&mut self.cache, state, now, budget)
    }

    /// All reasons for which one job waits, the binding one first; empty where it does not wait.
    ///
    /// Right after [`Planner::plan`] on the same state and instant this costs no round of its own.
    pub fn reasons_of(&mut self, state: &State, job: JobId, now: Timestamp) -> Vec<Reason> {
        explain::reasons(&mut self.cache, state, job, now)
    }

    /// Everything about one waiting job: all reasons, bounds on its start, and changes that would
    /// start it now. Empty where the job does not wait.
    pub fn explain(&mut self, state: &State, job: JobId, now: Timestamp) -> Explanation {
        explain::explain(&mut self.cache, state, job, now)
    }

    /// Why a job is not on a node: what keeps it from there, or why it has the nodes that it has.
    /// `None` where one of the two is not there, or the job is over.
    pub fn why_not_on(
        &mut self,
        state: &State,
        job: JobId,
        node: &str,
        now: Timestamp,
    ) -> Option<NodeAnswer> {
        compare::on_node(&mut self.cache, state, job, node, now)
    }

    /// A job that waits beside another: what decides between them. `None` where one of the two is
    /// not there, or the first does not wait.
    pub fn why_over(
        &mut self,
        state: &State,
        job: JobId,
        other: JobId,
        now: Timestamp,
    ) -> Option<Comparison> {
        compare::over(&mut self.cache, state, job, other, now)
    }
}

/// With whom a running job takes turns, and when its turn comes or ends; `None` where it shares
/// with nobody.
pub fn turn_of(state: &State, job: JobId, now: Timestamp) -> Option<TurnView> {
    turns::view(state, state.jobs.get(&job)?, now)
}
