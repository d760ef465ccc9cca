//! The transition: one event takes the state to the next.

mod gates;
mod jobs;
mod preempt;
mod reservations;
mod run;
mod turns;

use crate::{
    Event, EventKind, Job, JobId, Licence, Node, NodeId, State, Taint, TaintEffect, Timestamp,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An event that does not fit the state. It means a fault in the writer or a damaged log, never a
/// user's mistake: commands are validated before they become events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The job is not in the state.
    #[error("event {event} names job {job}, which is not there")]
    UnknownJob {
        /// The event's name.
        event: &'static str,
        /// The job.
        job: JobId,
    },
    /// The node is not in the state.
    #[error("event {event} names {node}, which is not there")]
    UnknownNode {
        /// The event's name.
        event: &'static str,
        /// The node.
        node: NodeId,
    },
    /// The reservation is not in the state.
    #[error("event {event} names reservation {name}, which is not there")]
    UnknownReservation {
        /// The event's name.
        event: &'static str,
        /// The reservation.
        name: String,
    },
    /// The event cannot follow what came before.
    #[error("event {event} on job {job} cannot follow: {why}")]
    OutOfOrder {
        /// The event's name.
        event: &'static str,
        /// The job.
        job: JobId,
        /// What is wrong.
        why: String,
    },
    /// A submission whose ids were given before, or that has no job in it.
    #[error("a submission at id {first} is not well formed")]
    BadSubmission {
        /// The first id.
        first: JobId,
    },
}

impl State {
    /// Takes the state over one event.
    ///
    /// Pure and total: it depends on nothing but its arguments. Observations of attempts that are
    /// no longer current change nothing (engines repeat themselves).
    ///
    /// # Errors
    /// An event that cannot follow this state; the state is then as it was.
    pub fn apply(&mut self, event: &Event) -> Result<(), ApplyError> {
        let at = event.at;
        let counts = self.policy.count_usage;
        let weighed = if counts { self.weighed_job(&event.kind) } else { None };
        let recount = self.changes_counting(&event.kind);
        // Use is counted on a clock that never goes back.
        let counted_at = self.now.max(at);
        if recount {
            self.settle_all(counted_at);
        }
        match &event.kind {
            EventKind::NodeSet { node } => self.set_node(at, node),
            EventKind::NodeRemoved { node } => self.remove_node(*node),
            EventKind::NodeAvailability { node, availability } => {
                self.change_node("node_availability", *node, |n| {
                    n.availability = availability.clone();
                })?;
            }
            EventKind::NodeDrain { node, drain } => {
                self.change_node("node_drain", *node, |n| n.drain.clone_from(drain))?;
            }
            EventKind::NodeForeign { node, foreign } => {
                self.change_node("node_foreign", *node, |n| n.foreign.clone_from(foreign))?;
            }
            EventKind::PartitionSet { partition } => {
                self.partitions
                    .insert(partition.name.clone(), Arc::new(partition.as_ref().clone()));
            }
            EventKind::PartitionRemoved { name } => {
                self.partitions.remove(name);
            }
            EventKind::AccountSet { account } => {
                self.accounts.insert(account.name.clone(), Arc::new(account.clone()));
            }
            EventKind::QosSet { qos } => {
                self.qos.insert(qos.name.clone(), Arc::new(qos.clone()));
            }
            EventKind::LicenceSet { licence } => {
                // A hold comes from what is measured, not from the site.
                let hold = self.licences.get(&licence.name).and_then(|known| known.hold.clone());
                let licence = Licence { hold, ..licence.clone() };
                self.licences.insert(licence.name.clone(), licence);
            }
            EventKind::LicenceHeld { name, hold } => {
                if let Some(licence) = self.licences.get_mut(name) {
                    licence.hold.clone_from(hold);
                }
            }
            EventKind::BudgetSet { budget } => {
                self.budgets.insert(budget.name.clone(), Arc::new(budget.clone()));
            }
            EventKind::BudgetRemoved { name } => {
                self.budgets.remove(name);
            }
            EventKind::TopologySet { topology } => {
                self.topology = Arc::new(topology.as_ref().clone());
            }
            EventKind::AccountRemoved { name } => {
                self.accounts.remove(name);
            }
            EventKind::QosRemoved { name } => {
                self.qos.remove(name);
            }
            EventKind::LicenceRemoved { name } => {
                self.licences.remove(name);
            }
            EventKind::ReservationSet { reservation } => {
                let mut reservation = reservation.as_ref().clone();
                reservation.nodes.sort_by_key(|n| n.node);
                self.reservations.insert(reservation.name.clone(), Arc::new(reservation));
            }
            EventKind::ReservationRemoved { name } => self.remove_reservation(at, name),
            EventKind::ReservationAdvanced { name, window, later } => {
                self.advance_reservation(name, *window, later)?;
            }
            EventKind::ReservationNodes { name, nodes } => self.set_reserved_nodes(name, nodes)?,
            EventKind::ReservationIdle { name, since } => {
                self.change_reservation("reservation_idle", name, |r| r.idle_since = *since)?;
            }
            EventKind::PolicySet { policy } => self.policy = Arc::new(policy.as_ref().clone()),
            EventKind::JobSubmitted { first, specs } => self.submit(at, *first, specs)?,
            EventKind::JobUpdated { job, update } => self.update(at, *job, update)?,
            EventKind::JobHeld { job, hold } => self.hold(at, *job, hold)?,
            EventKind::JobReleased { job } => self.release(at, *job)?,
            EventKind::JobStop { job, cause, hurry } => self.stop(at, *job, cause, *hurry)?,
            EventKind::JobSignal { job, signal, scope } => self.signal(*job, *signal, *scope)?,
            EventKind::JobSuspend { job, suspend } => self.suspend(at, *job, *suspend)?,
            EventKind::JobPlaced { job, attempt, placement, time_limit } => {
                self.place(at, *job, *attempt, placement, *time_limit)?;
            }
            EventKind::JobResize { job, attempt, placement } => {
                self.resize(*job, *attempt, placement)?;
            }
            EventKind::JobResized { job, attempt } => self.resized(*job, *attempt)?,
            EventKind::JobStarted { job, attempt } => self.started(at, *job, *attempt)?,
            EventKind::JobSuspended { job, attempt, suspended } => {
                self.suspended(at, *job, *attempt, *suspended)?;
            }
            EventKind::JobSignalled { job, number } => self.signalled(*job, *number)?,
            EventKind::StepObserved { job, attempt, step } => self.step(*job, *attempt, step)?,
            EventKind::JobExited { job, attempt, report } => {
                self.exited(at, *job, *attempt, report)?;
            }
            EventKind::JobRejected { job, reason } => self.reject(at, *job, reason)?,
            EventKind::JobClaimed { job, claim } => self.claim(*job, claim)?,
            EventKind::JobPreempted { victim, by } => self.preempt(at, victim, *by)?,
            EventKind::JobTurn { job, attempt, turn } => self.turn(at, *job, *attempt, *turn)?,
            EventKind::JobCheckpointed { job, attempt } => self.checkpointed(at, *job, *attempt)?,
            EventKind::JobIdle { job, attempt, idle } => self.idle(*job, *attempt, *idle)?,
            EventKind::JobsForgotten { jobs } => self.forget(jobs),
            EventKind::Round => {}
        }
        if !self.policy.count_usage {
            if !self.usage.is_empty() {
                self.usage = imbl::OrdMap::new();
            }
        } else if recount {
            self.recount(counted_at);
        } else {
            self.tally(counted_at, &event.kind, weighed.as_ref());
        }
        self.seq += 1;
        self.now = self.now.max(at);
        Ok(())
    }

    fn set_node(&mut self, at: Timestamp, node: &Node) {
        self.note_taints(at, node.id, &node.taints);
        let mut node = node.clone();
        if let Some(old) = self.nodes.get(&node.id) {
            node.drain.clone_from(&old.drain);
            if old.name != node.name {
                self.index.node_by_name.remove(&old.name);
            }
        }
        self.next_node = self.next_node.max(node.id.0 + 1);
        self.index.node_by_name.insert(node.name.clone(), node.id);
        self.nodes.insert(node.id, Arc::new(node));
    }

    /// A taint counts from when it is first seen.
    fn note_taints(&mut self, at: Timestamp, id: NodeId, taints: &BTreeSet<Taint>) {
        let old = self.nodes.get(&id).map(|node| node.taints.clone()).unwrap_or_default();
        for gone in old.difference(taints) {
            self.tainted.remove(&(id, gone.clone()));
        }
        let acts = |taint: &&Taint| taint.effect == TaintEffect::NoExecute;
        for new in taints.difference(&old).filter(acts) {
            self.tainted.insert((id, new.clone()), at);
        }
    }

    fn remove_node(&mut self, id: NodeId) {
        self.note_taints(self.now, id, &BTreeSet::new());
        if let Some(node) = self.nodes.remove(&id) {
            self.index.node_by_name.remove(&node.name);
        }
    }

    fn change_node(
        &mut self,
        event: &'static str,
        id: NodeId,
        change: impl FnOnce(&mut Node),
    ) -> Result<(), ApplyError> {
        let node = self.nodes.get_mut(&id).ok_or(ApplyError::UnknownNode { event, node: id })?;
        change(Arc::make_mut(node));
        Ok(())
    }

    /// The job an event names.
    fn known(&self, event: &'static str, id: JobId) -> Result<Arc<Job>, ApplyError> {
        self.jobs.get(&id).cloned().ok_or(ApplyError::UnknownJob { event, job: id })
    }

    /// Puts a changed job in the place of the old one, with all indexes and array counts.
    fn replace(&mut self, old: &Job, new: Job) {
        self.index.replace(old, &new);
        if let Some(task) = new.array
            && let Some(record) = self.index.arrays.get_mut(&task.array)
        {
            record.leave(old);
            record.enter(&new);
        }
        self.jobs.insert(new.id, Arc::new(new));
    }
}

impl crate::state::ArrayRecord {
    pub(crate) fn enter(&mut self, job: &Job) {
        self.unstarted += u32::from(!job.state.is_over() && job.attempt == 0);
        self.unfinished += u32::from(!job.state.is_over());
        self.active += u32::from(job.state.holds_resources());
        self.failed += u32::from(job.state.is_over() && job.state != crate::JobState::Completed);
        self.listed += 1;
    }

    pub(crate) fn leave(&mut self, job: &Job) {
        self.unstarted -= u32::from(!job.state.is_over() && job.attempt == 0);
        self.unfinished -= u32::from(!job.state.is_over());
        self.active -= u32::from(job.state.holds_resources());
        self.failed -= u32::from(job.state.is_over() && job.state != crate::JobState::Completed);
        self.listed -= 1;
    }
}
