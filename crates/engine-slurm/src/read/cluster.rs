//! All that was read, and muster's state of it.

use super::associations::Associations;
use super::config::Config;
use super::jobs::{JobRecord, JobStanding};
use super::order::{self, Order};
use super::partitions::{Members, PartitionRecord};
use super::reservations::ReservationRecord;
use super::resources::Taken;
use super::spec;
use crate::SlurmError;
use muster_model::{
    BackfillMode, Event, EventKind, JobId, JobSpec, Licence, Node, NodeId, Placement, Policy,
    State, TimeLimit, Timestamp, Topology,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A Slurm at one instant.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// When it was read.
    pub now: Timestamp,
    /// What of its configuration matters.
    pub config: Config,
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Its partitions.
    pub partitions: Vec<PartitionRecord>,
    /// The groups that those are for, as this machine knows them.
    pub groups: BTreeMap<String, Members>,
    /// Its reservations.
    pub reservations: Vec<ReservationRecord>,
    /// Its licences.
    pub licences: Vec<Licence>,
    /// How its nodes are joined.
    pub topology: Topology,
    /// Its accounts, users and qualities of service.
    pub associations: Associations,
    /// Its jobs, those that ended a little while ago among them.
    pub jobs: Vec<JobRecord>,
    /// The comments of nodes that have one.
    pub comments: BTreeMap<String, String>,
    /// Whose order its jobs have in [`Cluster::state`].
    pub order: Order,
}

/// A job that muster cannot say, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Which.
    pub job: JobId,
    /// What of it.
    pub why: String,
}

impl Cluster {
    /// The same with its jobs in another order.
    #[must_use]
    pub fn ordered(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// The jobs that wait and those that run, as (waiting, running).
    pub fn counts(&self) -> (usize, usize) {
        let of = |standing| self.jobs.iter().filter(|job| job.standing() == standing).count();
        (of(JobStanding::Waiting), of(JobStanding::Holding))
    }

    /// A job by its number.
    pub fn job(&self, id: u32) -> Option<&JobRecord> {
        self.jobs.iter().find(|job| job.id() == JobId(id))
    }

    /// The jobs that hold resources and that `which` is true for, with what they have. A job whose
    /// nodes are not known here any more has nothing.
    pub fn used(&self, which: impl Fn(&JobRecord) -> bool) -> Vec<(&JobRecord, Arc<Placement>)> {
        let mut taken = Taken::of(&self.nodes);
        let holding = self.jobs.iter().filter(|job| job.standing() == JobStanding::Holding);
        let spec = JobSpec::default();
        holding
            .filter(|job| which(job))
            .filter_map(|job| Some((job, taken.placement(job, &spec).ok()?)))
            .collect()
    }

    /// Muster's state of it: jobs have Slurm's numbers, and Slurm's priorities order them, or
    /// another [`Order`]. The waiting tasks of an array stand as one job.
    ///
    /// Beside it the jobs that cannot be said; what they use stays unseen, so a plan on this state
    /// is one without them.
    ///
    /// # Errors
    /// [`SlurmError::Answer`] where the records contradict each other.
    pub fn state(&self) -> Result<(State, Vec<LeftOut>), SlurmError> {
        let mut state = State::default();
        let mut left_out = Vec::new();
        self.site(&mut state)?;
        let mut taken = Taken::of(&self.nodes);
        let mut jobs: Vec<&JobRecord> = self.jobs.iter().collect();
        jobs.sort_by_key(|job| job.id());
        let mut at = 0;
        while at < jobs.len() {
            let group = group(&jobs[at..]);
            at += group.len();
            if let Err(why) = self.jobs(&mut state, &mut taken, group)? {
                left_out.extend(group.iter().map(|j| LeftOut { job: j.id(), why: why.clone() }));
            }
        }
        apply(&mut state, self.now, EventKind::Round)?;
        if !self.order.is_slurms() {
            order::used(&mut state, &self.associations, self.now);
        }
        Ok((state, left_out))
    }

    fn site(&self, state: &mut State) -> Result<(), SlurmError> {
        let policy = self.order.policy(&self.config.weighing);
        let policy = Policy { backfill: BackfillMode::Conservative, ..policy };
        apply(state, self.now, EventKind::PolicySet { policy: Box::new(policy) })?;
        for node in &self.nodes {
            apply(state, self.now, EventKind::NodeSet { node: Box::new(node.clone()) })?;
            // A description leaves these as they were.
            let (node, availability, drain) = (node.id, &node.availability, &node.drain);
            let availability = availability.clone();
            apply(state, self.now, EventKind::NodeAvailability { node, availability })?;
            apply(state, self.now, EventKind::NodeDrain { node, drain: drain.clone() })?;
        }
        for partition in &self.partitions {
            let partition = Box::new(partition.partition.clone());
            apply(state, self.now, EventKind::PartitionSet { partition })?;
        }
        for licence in &self.licences {
            apply(state, self.now, EventKind::LicenceSet { licence: licence.clone() })?;
        }
        let topology = Box::new(self.topology.clone());
        apply(state, self.now, EventKind::TopologySet { topology })?;
        self.accounts(state)?;
        let ids: BTreeMap<&str, NodeId> =
            self.nodes.iter().map(|node| (node.name.as_str(), node.id)).collect();
        for reservation in &self.reservations {
            let reservation = Box::new(reservation.with_nodes(&ids));
            apply(state, self.now, EventKind::ReservationSet { reservation })?;
        }
        Ok(())
    }

    /// Accounts and QOS: with their limits where Slurm holds jobs to them, and at all where they
    /// decide about the order.
    fn accounts(&self, state: &mut State) -> Result<(), SlurmError> {
        let limited = self.config.enforces_limits;
        if !limited && self.order.is_slurms() {
            return Ok(());
        }
        for account in self.associations.accounts() {
            let account = if limited { account } else { order::unlimited(account) };
            apply(state, self.now, EventKind::AccountSet { account })?;
        }
        for qos in self.associations.qualities() {
            let qos = if limited { qos } else { order::unlimited_qos(qos) };
            apply(state, self.now, EventKind::QosSet { qos })?;
        }
        Ok(())
    }

    /// Puts a job, or the components of a heterogeneous one, into the state; a sentence where they
    /// cannot be said.
    fn jobs(
        &self,
        state: &mut State,
        taken: &mut Taken<'_>,
        group: &[&JobRecord],
    ) -> Result<Result<(), String>, SlurmError> {
        if group.iter().all(|job| job.standing() == JobStanding::Over) {
            return Ok(Ok(()));
        }
        let all: Result<Vec<JobSpec>, String> =
            group.iter().map(|job| spec::of(job, self)).collect();
        let mut specs = match all {
            Ok(specs) => specs,
            Err(why) => return Ok(Err(why)),
        };
        if !self.order.is_slurms() {
            for spec in &mut specs {
                spec.priority = None;
            }
        }
        let mut placements = Vec::new();
        for (job, spec) in group.iter().zip(&specs) {
            if job.standing() == JobStanding::Holding {
                match taken.placement(job, spec) {
                    Ok(placement) => placements.push((job.id(), job.started(), placement)),
                    Err(why) => return Ok(Err(why)),
                }
            }
        }
        let first = group[0].id();
        let submitted = group[0].submit_time.get().and_then(|at| i64::try_from(at).ok());
        let submitted = submitted.map_or(self.now, Timestamp::from_secs).min(self.now);
        let limits: Vec<Option<TimeLimit>> = specs.iter().map(|spec| spec.time_limit).collect();
        let specs = specs.into_iter().map(Arc::new).collect();
        apply(state, submitted, EventKind::JobSubmitted { first, specs })?;
        for (job, started, placement) in placements {
            let limit = limits.get((job.0 - first.0) as usize).copied().flatten();
            let time_limit = limit.unwrap_or(TimeLimit::Unlimited);
            let at = started.unwrap_or(self.now).min(self.now);
            apply(state, at, EventKind::JobPlaced { job, attempt: 1, placement, time_limit })?;
            apply(state, at, EventKind::JobStarted { job, attempt: 1 })?;
        }
        Ok(Ok(()))
    }
}

/// The first job of a list in order of numbers, with the other components where it is
/// heterogeneous and those are next to it.
fn group<'a, 'b>(jobs: &'a [&'b JobRecord]) -> &'a [&'b JobRecord] {
    let Some(leader) = jobs[0].het_job_id.some() else { return &jobs[..1] };
    let belongs = |(offset, job): &(u32, &&JobRecord)| {
        job.het_job_id.some() == Some(leader) && job.id().0 == leader + offset
    };
    let size = (0..).zip(jobs).take_while(belongs).count();
    &jobs[..size.max(1)]
}

fn apply(state: &mut State, at: Timestamp, kind: EventKind) -> Result<(), SlurmError> {
    state.apply(&Event { at, kind }).map_err(|error| SlurmError::Answer {
        command: "squeue and scontrol".to_owned(),
        what: error.to_string(),
    })
}
