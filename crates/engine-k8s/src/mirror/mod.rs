//! A cluster as a state of the core, kept up to date by what the API server tells.
//!
//! Every pod that has a node is a running job, whoever scheduled it; every pod that waits for this
//! scheduler is a waiting one. CPUs are counted in thousandths. Nothing is kept that the API server
//! cannot tell again, but what was decided and is on its way there (*assumed*).

mod change;
mod claims;
mod gangs;
mod placed;
mod room;

pub use change::{Change, Kind};

use crate::dra::Ledger;
use crate::read::{
    Context, EVERYWHERE, GangName, Group, PARTITION, PodKey, PodRecord, budget_name,
    node as read_node, pod as read_pod,
};
use k8s_openapi::api::core::v1::{Node as ToldNode, Pod};
use muster_model::{
    ApplyError, EndCause, Event, EventKind, ExitReport, ExitStatus, Gang, Job, JobId, JobSpec,
    JobUpdate, NodeId, Partition, Placement, Policy, State, StopCause, TimeLimit, Timestamp, Usage,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A pod, and its job where it has one.
#[derive(Clone, Debug)]
struct Entry {
    record: PodRecord,
    job: Option<JobId>,
    /// How its job was submitted as far as its gang goes.
    part: gangs::Part,
}

/// How many pods of this scheduler wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// For a node, without having been told why.
    pub active: usize,
    /// For a node, and have been told why.
    pub told: usize,
    /// For their scheduling gates to be taken away.
    pub gated: usize,
}

/// A cluster as it is known.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// Whose pods are scheduled.
    scheduler: String,
    state: State,
    context: Context,
    entries: BTreeMap<PodKey, Entry>,
    jobs: BTreeMap<JobId, PodKey>,
    groups: BTreeMap<GangName, Group>,
    /// The unfinished members of each gang.
    members: BTreeMap<GangName, BTreeSet<PodKey>>,
    /// A number for each namespace, in the order in which they were met.
    users: BTreeMap<String, u32>,
    /// Pods that are bound to a node that is not known.
    homeless: BTreeMap<String, BTreeSet<PodKey>>,
    /// Who has which devices of claims.
    devices: Ledger,
    /// The partition lacks a node, or has one that is gone.
    partition_stale: bool,
}

impl Mirror {
    /// An empty cluster, for the pods that name this scheduler.
    pub fn new(scheduler: &str, policy: Policy) -> Self {
        let state = State { policy: Arc::new(policy), ..State::default() };
        Self {
            scheduler: scheduler.to_owned(),
            state,
            context: Context::default(),
            entries: BTreeMap::new(),
            jobs: BTreeMap::new(),
            groups: BTreeMap::new(),
            members: BTreeMap::new(),
            users: BTreeMap::new(),
            homeless: BTreeMap::new(),
            devices: Ledger::default(),
            partition_stale: true,
        }
    }

    /// What the core decides on.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The pod of a job.
    pub fn pod(&self, job: JobId) -> Option<&PodRecord> {
        self.entries.get(self.jobs.get(&job)?).map(|entry| &entry.record)
    }

    /// The job of a pod, while it has one.
    pub fn job(&self, pod: &PodKey) -> Option<JobId> {
        self.entries.get(pod)?.job
    }

    /// The pods of this scheduler that wait and are no jobs yet, with a sentence on why.
    pub fn kept(&self) -> impl Iterator<Item = (&PodRecord, String)> {
        self.entries.values().filter(|entry| entry.job.is_none()).filter_map(|entry| {
            let record = &entry.record;
            self.is_ours(record).then(|| match &record.ask.waits {
                Some(why) => (record, why.clone()),
                None => (record, self.gang_text(record)),
            })
        })
    }

    /// How many pods wait. Work: a look at each pod.
    pub fn waiting(&self) -> Waiting {
        let mut waiting = Waiting::default();
        for Entry { record, job, .. } in self.entries.values() {
            let is_assumed = || {
                let job = job.and_then(|job| self.state.jobs.get(&job));
                job.is_some_and(|job| !job.is_pending())
            };
            if record.scheduler != self.scheduler || record.node.is_some() || record.leaving {
                continue;
            }
            if record.gated {
                waiting.gated += 1;
            } else if record.told.is_some() {
                waiting.told += 1;
            } else if !is_assumed() {
                waiting.active += 1;
            }
        }
        waiting
    }

    /// Takes in what was told.
    ///
    /// # Errors
    /// [`ApplyError`] where the core refuses an event: a fault of the mirror.
    pub fn take(&mut self, change: Change, now: Timestamp) -> Result<(), ApplyError> {
        match change {
            Change::Node(node) => self.set_node(&node, now),
            Change::Pod(pod) => self.set_pod(&pod, now),
            Change::Gone(Kind::Node, _, name) => self.remove_node(&name, now),
            Change::Gone(Kind::Pod, namespace, name) => {
                let key = PodKey { namespace, name };
                self.devices.forget(&key);
                self.remove_pod(&key, now)
            }
            Change::Devices(_)
            | Change::Gone(Kind::Slice | Kind::DeviceClass | Kind::ResourceClaim, ..) => {
                self.take_devices(change);
                Ok(())
            }
            Change::Budget(budget) => self.set_budget(budget, now),
            Change::Gone(Kind::Budget, namespace, name) => {
                self.remove_budget(budget_name(&namespace, &name), now)
            }
            Change::Group(name, group) => {
                self.groups.insert(name.clone(), group);
                self.keep_company(&name, now)?;
                self.regroup(&name, now)
            }
            Change::GroupGone(name) => {
                self.groups.remove(&name);
                self.keep_company(&name, now)?;
                self.regroup(&name, now)
            }
            Change::Listed(kind, names) => self.only(kind, &names, now),
            other => {
                if change::settle(&mut self.context, other) {
                    return self.read_again(now);
                }
                Ok(())
            }
        }
    }

    /// What has to be right before a plan: the partition has the nodes that are there.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn settle(&mut self, now: Timestamp) -> Result<(), ApplyError> {
        if self.partition_stale {
            self.partition_stale = false;
            let partition = Box::new(Partition {
                name: PARTITION.to_owned(),
                nodes: self.state.index.node_by_name.keys().cloned().collect(),
                default: true,
                ..Partition::default()
            });
            self.apply(now, EventKind::PartitionSet { partition })?;
        }
        self.settle_claims(now)?;
        self.apply(now, EventKind::Round)
    }

    /// A job is on its way to its node: its room is taken.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn assume(
        &mut self,
        job: JobId,
        placement: &Arc<Placement>,
        time_limit: TimeLimit,
        now: Timestamp,
    ) -> Result<(), ApplyError> {
        let placement = Arc::clone(placement);
        self.apply(now, EventKind::JobPlaced { job, attempt: 1, placement, time_limit })
    }

    /// After the starts of a round: what waited for the rest of its gang is looked at again.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn assumed(&mut self, jobs: &[JobId], now: Timestamp) -> Result<(), ApplyError> {
        let gangs: BTreeSet<GangName> =
            jobs.iter().filter_map(|job| Some(self.pod(*job)?.gang.clone()?.0)).collect();
        gangs.iter().try_for_each(|gang| self.regroup(gang, now))
    }

    /// A job that was on its way did not get there: it waits again, unless it is bound by now.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn not_bound(&mut self, job: JobId, now: Timestamp) -> Result<(), ApplyError> {
        let Some(key) = self.jobs.get(&job).cloned() else { return Ok(()) };
        let Some(entry) = self.entries.get(&key) else { return Ok(()) };
        if entry.record.node.is_some() {
            return Ok(());
        }
        let told = entry.record.depends.clone();
        let record = entry.record.clone();
        self.devices.not_given(&key);
        let record = match told {
            Some(told) => PodRecord { told: record.told, ..self.read(&told) },
            None => record,
        };
        self.remove_pod(&key, now)?;
        self.enter(record, now)
    }

    fn apply(&mut self, at: Timestamp, kind: EventKind) -> Result<(), ApplyError> {
        self.state.apply(&Event { at, kind })
    }

    fn set_node(&mut self, told: &ToldNode, now: Timestamp) -> Result<(), ApplyError> {
        let name = told.metadata.name.clone().unwrap_or_default();
        let mut node = match read_node(told) {
            Ok(node) => node,
            Err(refusal) => {
                tracing::warn!(node = name, %refusal, "a node is left as it was known");
                return Ok(());
            }
        };
        let known = self.state.index.node_by_name.get(&name).copied();
        node.id = known.unwrap_or(NodeId(self.state.next_node));
        node.labels.insert(EVERYWHERE.to_owned(), String::new());
        self.keep_counts(&mut node);
        // Heartbeats tell nothing new.
        if known.and_then(|id| self.state.nodes.get(&id)).is_some_and(|old| **old == node) {
            return Ok(());
        }
        self.partition_stale |= known.is_none();
        self.devices.node_changed(&name);
        let id = node.id;
        self.apply(now, EventKind::NodeSet { node: Box::new(node) })?;
        self.deal_again(id, now)?;
        for pod in self.homeless.remove(&name).unwrap_or_default() {
            if let Some(entry) = self.entries.remove(&pod) {
                self.enter(entry.record, now)?;
            }
        }
        Ok(())
    }

    fn remove_node(&mut self, name: &str, now: Timestamp) -> Result<(), ApplyError> {
        let Some(node) = self.state.index.node_by_name.get(name).copied() else { return Ok(()) };
        let there: Vec<JobId> =
            self.state.index.on_node.get(&node).into_iter().flatten().copied().collect();
        let mut left = Vec::new();
        let keys: Vec<PodKey> =
            there.iter().filter_map(|job| self.jobs.get(job).cloned()).collect();
        for key in keys {
            left.extend(self.entries.get(&key).map(|entry| entry.record.clone()));
            self.remove_pod(&key, now)?;
        }
        self.apply(now, EventKind::NodeRemoved { node })?;
        self.partition_stale = true;
        left.into_iter().try_for_each(|record| self.enter(record, now))
    }

    fn set_pod(&mut self, told: &Pod, now: Timestamp) -> Result<(), ApplyError> {
        let record = self.read(told);
        self.change(record, now)
    }

    /// A pod as it is told, its job with the number of its namespace.
    fn read(&mut self, told: &Pod) -> PodRecord {
        let mut record = read_pod(told, &self.context);
        let uid = match self.users.get(&record.key.namespace) {
            Some(uid) => *uid,
            None => {
                let uid = u32::try_from(self.users.len() + 1).unwrap_or(u32::MAX);
                self.users.insert(record.key.namespace.clone(), uid);
                uid
            }
        };
        Arc::make_mut(&mut record.ask.job).owner.uid = uid;
        self.add_claims(told, &mut record);
        record
    }

    /// A pod as it is from here on.
    fn change(&mut self, record: PodRecord, now: Timestamp) -> Result<(), ApplyError> {
        let Some(entry) = self.entries.get_mut(&record.key) else {
            return self.enter(record, now);
        };
        let old = &entry.record;
        let told_alone = PodRecord {
            told: old.told.clone(),
            nominated: old.nominated.clone(),
            depends: old.depends.clone(),
            ..record.clone()
        };
        if told_alone == *old {
            entry.record = record;
            return Ok(());
        }
        let is_still = |job: &Job| {
            let node = record.node.as_ref().and_then(|n| self.state.index.node_by_name.get(n));
            let place = job.placement.as_ref().and_then(|p| p.nodes.first());
            !record.over && node.is_some() && node == place.map(|share| &share.node)
        };
        let job = entry.job.and_then(|id| self.state.jobs.get(&id));
        // What is bound where it was meant to be goes on, whatever else of it changes.
        if let Some(job) = job.filter(|job| is_still(job))
            && old.ask.job.request == record.ask.job.request
            && old.uid == record.uid
        {
            let (id, starts) = (job.id, job.started.is_none());
            let labels = &record.ask.job.labels;
            let labels = (job.spec.labels != *labels).then(|| labels.clone());
            entry.record = record;
            if labels.is_some() {
                let update = Box::new(JobUpdate { labels, ..JobUpdate::default() });
                self.apply(now, EventKind::JobUpdated { job: id, update })?;
            }
            if starts {
                return self.apply(now, EventKind::JobStarted { job: id, attempt: 1 });
            }
            return Ok(());
        }
        let key = record.key.clone();
        self.remove_pod(&key, now)?;
        self.enter(record, now)
    }

    /// A pod that was not known.
    fn enter(&mut self, record: PodRecord, now: Timestamp) -> Result<(), ApplyError> {
        let key = record.key.clone();
        if record.over {
            return Ok(());
        }
        let gang = record.gang.as_ref().map(|gang| gang.0.clone());
        let ours = self.is_ours(&record);
        let waits = ours || record.node.is_some();
        self.entries.insert(key.clone(), Entry { record, job: None, part: gangs::Part::None });
        match gang {
            Some(gang) if waits => {
                self.members.entry(gang.clone()).or_default().insert(key.clone());
                self.house(&key, now)?;
                self.regroup(&gang, now)
            }
            _ => {
                self.house(&key, now)?;
                if ours {
                    self.submit(&key, gangs::Part::Single, now)?;
                }
                Ok(())
            }
        }
    }

    /// A pod that is bound has its room.
    fn house(&mut self, key: &PodKey, now: Timestamp) -> Result<(), ApplyError> {
        let Some(entry) = self.entries.get(key) else { return Ok(()) };
        let Some(node) = entry.record.node.clone() else { return Ok(()) };
        let Some(id) = self.state.index.node_by_name.get(&node).copied() else {
            self.homeless.entry(node).or_default().insert(key.clone());
            return Ok(());
        };
        let spec = self.spec(key);
        let share = placed::share(&self.state, id, &spec.request);
        let time_limit = spec.time_limit.unwrap_or(TimeLimit::Unlimited);
        let job = self.submitted(key, spec, now)?;
        let placement = Arc::new(Placement {
            partition: PARTITION.to_owned(),
            nodes: vec![share],
            ..Placement::default()
        });
        self.apply(now, EventKind::JobPlaced { job, attempt: 1, placement, time_limit })?;
        self.apply(now, EventKind::JobStarted { job, attempt: 1 })
    }

    /// The job of a pod, as it would be submitted without its gang.
    fn spec(&self, key: &PodKey) -> Arc<JobSpec> {
        let Some(Entry { record, .. }) = self.entries.get(key) else { return Arc::default() };
        let mut spec = Arc::clone(&record.ask.job);
        if let Some((gang, _)) = &record.gang
            && let Some(company) = self.company(gang)
        {
            Arc::make_mut(&mut spec).leaves_with = Some(company);
        }
        spec
    }

    fn submit(
        &mut self,
        key: &PodKey,
        part: gangs::Part,
        now: Timestamp,
    ) -> Result<(), ApplyError> {
        let may = |entry: &Entry| entry.record.ask.waits.is_none();
        let Some(true) = self.entries.get(key).map(may) else { return Ok(()) };
        let mut spec = self.spec(key);
        if let gangs::Part::Gang(name, size) = &part {
            Arc::make_mut(&mut spec).gang = Some(Gang { name: name.clone(), size: *size });
        }
        self.submitted(key, spec, now)?;
        if let Some(entry) = self.entries.get_mut(key) {
            entry.part = part;
        }
        Ok(())
    }

    fn submitted(
        &mut self,
        key: &PodKey,
        spec: Arc<JobSpec>,
        now: Timestamp,
    ) -> Result<JobId, ApplyError> {
        let first = JobId(self.state.last_job.0 + 1);
        let specs = vec![spec];
        self.apply(now, EventKind::JobSubmitted { first, specs })?;
        self.jobs.insert(first, key.clone());
        if let Some(entry) = self.entries.get_mut(key) {
            entry.job = Some(first);
        }
        Ok(first)
    }

    fn remove_pod(&mut self, key: &PodKey, now: Timestamp) -> Result<(), ApplyError> {
        let Some(entry) = self.entries.get(key) else { return Ok(()) };
        let gang = entry.record.gang.as_ref().map(|gang| gang.0.clone());
        if let Some(node) = &entry.record.node
            && let Some(waiting) = self.homeless.get_mut(node)
        {
            waiting.remove(key);
        }
        self.withdraw(key, now)?;
        self.entries.remove(key);
        let Some(gang) = gang else { return Ok(()) };
        if let Some(members) = self.members.get_mut(&gang) {
            members.remove(key);
            if members.is_empty() {
                self.members.remove(&gang);
                return Ok(());
            }
        }
        self.regroup(&gang, now)
    }

    /// Pods that are bound to a node without having all their devices get those that are free now.
    fn deal_again(&mut self, node: NodeId, now: Timestamp) -> Result<(), ApplyError> {
        let lacking = placed::lacking(&self.state, node);
        let keys = lacking.iter().filter_map(|job| self.jobs.get(job));
        let is_bound =
            |key: &&PodKey| self.entries.get(*key).is_some_and(|entry| entry.record.node.is_some());
        let keys: Vec<PodKey> = keys.filter(is_bound).cloned().collect();
        keys.iter().try_for_each(|key| self.end_job(key, now))?;
        keys.iter().try_for_each(|key| self.house(key, now))
    }

    /// The job of a pod is no more, and what it had is there for others.
    fn withdraw(&mut self, key: &PodKey, now: Timestamp) -> Result<(), ApplyError> {
        let job = self.job(key).and_then(|job| self.state.jobs.get(&job));
        let share = job.and_then(|job| job.placement.as_ref()?.nodes.first());
        let freed = share.filter(|share| !share.devices.is_empty()).map(|share| share.node);
        self.end_job(key, now)?;
        freed.map_or(Ok(()), |node| self.deal_again(node, now))
    }

    fn end_job(&mut self, key: &PodKey, now: Timestamp) -> Result<(), ApplyError> {
        let Some(entry) = self.entries.get_mut(key) else { return Ok(()) };
        entry.part = gangs::Part::None;
        let Some(job) = entry.job.take() else { return Ok(()) };
        self.jobs.remove(&job);
        let waits = self.state.jobs.get(&job).is_some_and(|job| job.is_pending());
        let end = match waits {
            true => EventKind::JobStop { job, cause: StopCause::Cancelled(0), hurry: true },
            false => EventKind::JobExited { job, attempt: 1, report: over(now) },
        };
        self.apply(now, end)?;
        self.apply(now, EventKind::JobsForgotten { jobs: vec![job] })
    }

    /// True for a pod that this scheduler has to find a node for.
    fn is_ours(&self, record: &PodRecord) -> bool {
        record.scheduler == self.scheduler
            && record.node.is_none()
            && !record.over
            && !record.leaving
            && !record.gated
    }

    /// What depends on other objects is read again, as one of those has changed.
    fn read_again(&mut self, now: Timestamp) -> Result<(), ApplyError> {
        let told: Vec<Arc<Pod>> =
            self.entries.values().filter_map(|entry| entry.record.depends.clone()).collect();
        told.iter().try_for_each(|pod| {
            let record = PodRecord { told: None, ..self.read(pod) };
            let told = self.entries.get(&record.key).and_then(|entry| entry.record.told.clone());
            self.change(PodRecord { told, ..record }, now)
        })
    }

    /// After a new listing: what it lacks is gone.
    fn only(
        &mut self,
        kind: Kind,
        names: &BTreeSet<(String, String)>,
        now: Timestamp,
    ) -> Result<(), ApplyError> {
        match kind {
            Kind::Node => {
                let known = self.state.index.node_by_name.keys();
                let gone = known.filter(|n| !names.contains(&(String::new(), (*n).clone())));
                let gone: Vec<String> = gone.cloned().collect();
                gone.iter().try_for_each(|name| self.remove_node(name, now))
            }
            Kind::Pod => {
                let is_gone =
                    |key: &&PodKey| !names.contains(&(key.namespace.clone(), key.name.clone()));
                let gone: Vec<PodKey> = self.entries.keys().filter(is_gone).cloned().collect();
                gone.iter().try_for_each(|key| {
                    self.devices.forget(key);
                    self.remove_pod(key, now)
                })
            }
            Kind::Budget => {
                let there: BTreeSet<String> =
                    names.iter().map(|(namespace, name)| budget_name(namespace, name)).collect();
                let known = self.state.budgets.keys().filter(|name| !there.contains(*name));
                let gone: Vec<String> = known.cloned().collect();
                gone.into_iter().try_for_each(|name| self.remove_budget(name, now))
            }
            Kind::Group(kind) => {
                let is_gone = |name: &&GangName| {
                    name.kind == kind
                        && !names.contains(&(name.namespace.clone(), name.name.clone()))
                };
                let gone: Vec<GangName> = self.groups.keys().filter(is_gone).cloned().collect();
                gone.iter().try_for_each(|name| self.take(Change::GroupGone(name.clone()), now))
            }
            Kind::Slice | Kind::DeviceClass | Kind::ResourceClaim => {
                self.devices.listed(kind, names);
                Ok(())
            }
            other => {
                if change::only(&mut self.context, other, names) {
                    return self.read_again(now);
                }
                Ok(())
            }
        }
    }
}

fn over(now: Timestamp) -> ExitReport {
    ExitReport {
        status: ExitStatus::default(),
        cause: EndCause::Exited,
        started: None,
        ended: now,
        usage: Usage::default(),
        message: String::new(),
        steps: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
