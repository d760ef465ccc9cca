//! A laboratory for tests: the one of the scenarios, which panics where a text is wrong, with a
//! planner whose every plan is checked.

use muster_model::{Decision, EventKind, JobId, JobSpec, JobState, Placement, Plan, Reason};
use muster_planner::{Budget, Explanation, Planner};
use muster_scenario::text::node_names;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// A state that a test drives by events, from t=0.
#[derive(Clone, Debug, Default)]
pub struct Lab(muster_scenario::Lab);

impl Deref for Lab {
    type Target = muster_scenario::Lab;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Lab {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// What a line stands for; a sentence about it where it is wrong.
fn right<T>(read: muster_scenario::Read<T>, text: &dyn std::fmt::Debug) -> T {
    read.unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

impl Lab {
    /// A laboratory with the fixture's nodes and rules, one per line.
    pub fn new(fixture: &str) -> Self {
        let mut lab = Self::default();
        let lines = fixture.lines().map(str::trim);
        lines.filter(|l| !l.is_empty() && !l.starts_with('#')).for_each(|line| lab.set_up(line));
        lab
    }

    /// Applies one line of a fixture.
    pub fn set_up(&mut self, line: &str) {
        right(self.0.set_up(line), &line);
    }

    /// Applies an event at the present instant.
    pub fn event(&mut self, kind: EventKind) {
        let told = format!("{kind:?}");
        right(self.0.event(kind), &told);
    }

    /// Sets the clock to so many minutes after t=0; what is over by then ends.
    pub fn at_minute(&mut self, minute: u64) {
        right(self.0.at_minute(minute), &minute);
    }

    /// Submits a job or array; gives its (first) number.
    pub fn submit(&mut self, line: &str) -> JobId {
        right(self.0.submit(line), &line)
    }

    /// Submits a heterogeneous job: one line a component, parted by ` : `.
    pub fn submit_het(&mut self, lines: &str) -> JobId {
        right(self.0.submit_het(lines), &lines)
    }

    /// The spec that a line stands for.
    pub fn spec(&self, line: &str) -> JobSpec {
        right(self.0.spec(line), &line)
    }

    /// The job of this name; see [`muster_scenario::Lab::find`].
    pub fn find(&self, name: &str) -> JobId {
        right(self.0.find(name), &name)
    }

    /// Carries a plan out.
    pub fn carry_out(&mut self, plan: &Plan) {
        right(self.0.carry_out(plan), &plan);
    }

    /// Lets a job's attempt end by itself with this code.
    pub fn exit(&mut self, job: JobId, code: u8) {
        right(self.0.exit(job, code), &job);
    }

    /// Lets a job be lost with its node.
    pub fn lose(&mut self, job: JobId) {
        right(self.0.lose(job), &job);
    }

    /// Cancels a job; a running one is gone at once.
    pub fn cancel(&mut self, job: JobId) {
        right(self.0.cancel(job), &job);
    }

    /// Makes a running job stand still by hand, or go on.
    pub fn suspend_by_hand(&mut self, job: JobId, suspend: bool) {
        right(self.0.suspend_by_hand(job, suspend), &job);
    }

    /// Where a job stands.
    pub fn state_of(&self, job: JobId) -> JobState {
        self.state.jobs[&job].state
    }

    /// A plan of a planner of its own, unchecked.
    pub fn unchecked_plan(&self) -> Plan {
        Planner::new(&self.state).plan(&self.state, self.now, Budget::UNLIMITED)
    }

    /// A plan that breaks no rule.
    pub fn plan(&self) -> Plan {
        let plan = self.unchecked_plan();
        let found = muster_plan_check::check_full(&self.state, &plan);
        assert!(found.is_empty(), "{found:#?}\n{plan:#?}");
        plan
    }

    /// Plans and carries out.
    pub fn round(&mut self) -> Plan {
        let plan = self.plan();
        self.carry_out(&plan);
        plan
    }

    /// Everything about why a job waits.
    pub fn explain(&self, job: JobId) -> Explanation {
        Planner::new(&self.state).explain(&self.state, job, self.now)
    }

    /// Why each waiting job waits.
    pub fn reasons(&self) -> BTreeMap<JobId, Reason> {
        Planner::new(&self.state).reasons(&self.state, self.now)
    }

    /// Why a job waits, as the list of all says: code and sentence.
    pub fn why(&self, job: JobId) -> String {
        let reason = &self.reasons()[&job];
        format!("{} {reason}", reason.code())
    }

    /// Where a job that takes an hour would start now, in rank order; empty where it would wait. It
    /// is taken back again.
    pub fn placed(&mut self, job: &str) -> String {
        let id = self.submit(&format!("{job} time=60"));
        let plan = self.plan();
        let found = placement(&plan, id).map(|placement| self.nodes_of(placement));
        self.cancel(id);
        found.unwrap_or_default()
    }

    /// The nodes of the list on which such a job would start now, each tried alone.
    pub fn places(&mut self, nodes: &[&str], job: &str) -> Vec<String> {
        let tried = nodes.iter().map(|node| self.placed(&format!("{job} nodelist={node}")));
        tried.filter(|found| !found.is_empty()).collect()
    }

    /// The names of a placement's nodes, in rank order, folded.
    pub fn nodes_of(&self, placement: &Placement) -> String {
        node_names(&self.state, placement.nodes.iter().map(|n| n.node))
    }
}

/// The placement that a plan starts a job with.
pub fn placement(plan: &Plan, job: JobId) -> Option<&Placement> {
    let starts = plan.decisions.iter().flat_map(Decision::starts);
    starts.into_iter().find(|s| s.job == job).map(|s| s.placement.as_ref())
}

/// The jobs that a plan starts, in the order of its decisions.
pub fn started(plan: &Plan) -> Vec<JobId> {
    plan.decisions.iter().flat_map(Decision::starts).map(|start| start.job).collect()
}
