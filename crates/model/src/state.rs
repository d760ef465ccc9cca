//! The state: everything that decisions rest on, as a fold of events.

use crate::usage::StoredTally;
use crate::{
    Account, BlobId, DisruptionBudget, GateTarget, Holder, Job, JobId, JobSpec, Licence, Node,
    NodeId, NodeShare, Partition, Policy, Qos, RecentRuns, Reservation, SCHEMA_VERSION, Taint,
    Tally, Timestamp, Topology, WaitRecord, is_default,
};
use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Nodes by id; a clone costs nothing, and two can be told apart without a look into them.
pub type NodeMap = OrdMap<NodeId, Arc<Node>>;

/// All jobs, nodes and rules at one point of the log.
///
/// Cloning is cheap (the maps share structure), so a reader or a planning round keeps a copy and
/// never blocks the writer. Only [`State::apply`] changes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Parts", into = "Parts")]
pub struct State {
    /// How many events it is the fold of.
    pub seq: u64,
    /// The latest instant of an event.
    pub now: Timestamp,
    /// The highest job id given so far.
    pub last_job: JobId,
    /// The highest node index given so far plus one.
    pub next_node: u32,
    /// Jobs by id, ended ones until they are forgotten.
    pub jobs: OrdMap<JobId, Arc<Job>>,
    /// Nodes by index.
    pub nodes: NodeMap,
    /// Partitions by name.
    pub partitions: OrdMap<String, Arc<Partition>>,
    /// Accounts by name.
    pub accounts: OrdMap<String, Arc<Account>>,
    /// Qualities of service by name.
    pub qos: OrdMap<String, Arc<Qos>>,
    /// Licences by name.
    pub licences: OrdMap<String, Licence>,
    /// Disruption budgets by name.
    pub budgets: OrdMap<String, Arc<DisruptionBudget>>,
    /// How the nodes are joined.
    pub topology: Arc<Topology>,
    /// Reservations by name.
    pub reservations: OrdMap<String, Arc<Reservation>>,
    /// The policy.
    pub policy: Arc<Policy>,
    /// What is held and was used, by whom.
    pub usage: OrdMap<Holder, Arc<Tally>>,
    /// How long users' last jobs ran, by user id, where the policy expects run times from that.
    pub recent: OrdMap<u32, RecentRuns>,
    /// How long jobs waited, where the policy's order looks at that.
    pub waits: WaitRecord,
    /// Since when nodes have their taints with `NoExecute`.
    pub tainted: OrdMap<(NodeId, Taint), Timestamp>,
    /// Indexes over the above, kept by `apply`.
    pub index: Index,
}

/// What can be found again from the jobs and nodes, kept up to date.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Node indices by name.
    pub node_by_name: OrdMap<String, NodeId>,
    /// Waiting jobs.
    pub pending: OrdSet<JobId>,
    /// Jobs that have resources.
    pub active: OrdSet<JobId>,
    /// Ended jobs by the instant they ended.
    pub ended: OrdSet<(Timestamp, JobId)>,
    /// Jobs with resources on a node.
    pub on_node: OrdMap<NodeId, OrdSet<JobId>>,
    /// Arrays by their first id.
    pub arrays: OrdMap<JobId, ArrayRecord>,
    /// Waiting jobs whose gates look at a target.
    pub dependents: OrdMap<GateTarget, OrdSet<JobId>>,
    /// Unfinished jobs by user id and name.
    pub unfinished: OrdMap<(u32, String), OrdSet<JobId>>,
    /// Unfinished members of gangs by user id and name.
    pub gangs: OrdMap<(u32, String), OrdSet<JobId>>,
    /// Waiting jobs that room is held for.
    pub claimants: OrdSet<JobId>,
    /// Jobs that make room for others, stand still for them, or go on after them.
    pub evicted: OrdSet<JobId>,
    /// Jobs that take turns with others.
    pub turns: OrdSet<JobId>,
    /// Elastic jobs that have resources.
    pub elastic: OrdSet<JobId>,
}

/// The tasks of an array, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayRecord {
    /// How many tasks it was submitted with.
    pub size: u32,
    /// At most so many at once.
    pub throttle: Option<u32>,
    /// Tasks that never began and are not over.
    pub unstarted: u32,
    /// Tasks that are not over.
    pub unfinished: u32,
    /// Tasks that have resources.
    pub active: u32,
    /// Tasks that ended otherwise than completed.
    pub failed: u32,
    /// Tasks still in the live list.
    pub listed: u32,
}

/// How a state is stored: specs once each, no indexes.
#[derive(Clone, Serialize, Deserialize)]
struct Parts {
    schema: u32,
    seq: u64,
    now: Timestamp,
    last_job: JobId,
    next_node: u32,
    specs: Vec<Arc<JobSpec>>,
    jobs: Vec<(u32, Job)>,
    arrays: BTreeMap<JobId, ArrayRecord>,
    nodes: Vec<Arc<Node>>,
    partitions: Vec<Arc<Partition>>,
    accounts: Vec<Arc<Account>>,
    qos: Vec<Arc<Qos>>,
    licences: Vec<Licence>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    budgets: Vec<Arc<DisruptionBudget>>,
    #[serde(default, skip_serializing_if = "is_default")]
    topology: Arc<Topology>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reservations: Vec<Arc<Reservation>>,
    policy: Arc<Policy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Vec<StoredTally>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    recent: BTreeMap<u32, RecentRuns>,
    #[serde(default, skip_serializing_if = "is_default")]
    waits: WaitRecord,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tainted: Vec<(NodeId, Taint, Timestamp)>,
}

impl State {
    /// The job with this id.
    pub fn job(&self, id: JobId) -> Option<&Arc<Job>> {
        self.jobs.get(&id)
    }

    /// What jobs have on a node, each with its job, in the order of their ids.
    pub fn shares_on(&self, node: NodeId) -> impl Iterator<Item = (&Arc<Job>, &NodeShare)> {
        let ids = self.index.on_node.get(&node).into_iter().flatten();
        ids.filter_map(move |id| {
            let job = self.job(*id)?;
            let share = job.placement.as_ref()?.nodes.iter().find(|share| share.node == node)?;
            Some((job, share))
        })
    }

    /// The node with this name.
    pub fn node_named(&self, name: &str) -> Option<&Arc<Node>> {
        self.index.node_by_name.get(name).and_then(|id| self.nodes.get(id))
    }

    /// The name of a node; a text that cannot be one where the index is unknown.
    pub fn node_name(&self, id: NodeId) -> String {
        self.nodes.get(&id).map_or_else(|| id.to_string(), |n| n.name.clone())
    }

    /// The partition for jobs that name none: the one marked, else the only one.
    pub fn default_partition(&self) -> Option<&Arc<Partition>> {
        self.partitions.values().find(|p| p.default).or_else(|| {
            let mut all = self.partitions.values();
            all.next().filter(|_| all.next().is_none())
        })
    }

    /// A partition's registered nodes, by index.
    pub fn partition_nodes<'a>(&'a self, p: &'a Partition) -> impl Iterator<Item = &'a Arc<Node>> {
        let ids: BTreeSet<NodeId> =
            p.nodes.iter().filter_map(|name| self.index.node_by_name.get(name).copied()).collect();
        ids.into_iter().filter_map(|id| self.nodes.get(&id))
    }

    /// The blobs that live jobs still need.
    pub fn blobs(&self) -> BTreeSet<BlobId> {
        self.jobs.values().filter(|j| !j.state.is_over()).map(|j| j.spec.payload.clone()).collect()
    }

    /// The jobs that one id names: an array's tasks, a het job's components, or the job itself.
    pub fn family(&self, id: JobId) -> Vec<JobId> {
        if let Some(array) = self.index.arrays.get(&id) {
            return (id.0..id.0.saturating_add(array.size))
                .map(JobId)
                .filter(|task| self.jobs.contains_key(task))
                .collect();
        }
        match self.jobs.get(&id) {
            Some(job) => match job.het {
                Some(part) if part.leader == id => (id.0..id.0 + part.size).map(JobId).collect(),
                _ => vec![id],
            },
            None => Vec::new(),
        }
    }

    /// The raw id of an array's task.
    pub fn array_task(&self, array: JobId, index: u32) -> Option<JobId> {
        let first = self.index.arrays.get(&array)?;
        // The first listed task carries the spec, which knows every index.
        let spec = (array.0..array.0.saturating_add(first.size))
            .find_map(|raw| self.jobs.get(&JobId(raw)))?
            .spec
            .array
            .as_ref()?;
        spec.indices.rank(index).map(|rank| JobId(array.0 + rank))
    }

    /// True where an earlier job of the same user and name is unfinished.
    pub fn singleton_waits(&self, job: &Job) -> bool {
        self.index
            .unfinished
            .get(&(job.spec.owner.uid, job.spec.name.clone()))
            .is_some_and(|ids| ids.get_min().is_some_and(|first| *first < job.id))
    }
}

impl From<State> for Parts {
    fn from(state: State) -> Self {
        let mut specs: Vec<Arc<JobSpec>> = Vec::new();
        let mut by_address: BTreeMap<usize, u32> = BTreeMap::new();
        let placeholder = Arc::new(JobSpec::default());
        let jobs = state
            .jobs
            .values()
            .map(|job| {
                let at = *by_address.entry(Arc::as_ptr(&job.spec) as usize).or_insert_with(|| {
                    specs.push(Arc::clone(&job.spec));
                    specs.len() as u32 - 1
                });
                (at, Job { spec: Arc::clone(&placeholder), ..Job::clone(job) })
            })
            .collect();
        let usage = Some(state.stored_usage());
        Self {
            usage,
            tainted: state.tainted.into_iter().map(|((node, t), at)| (node, t, at)).collect(),
            schema: SCHEMA_VERSION,
            seq: state.seq,
            now: state.now,
            last_job: state.last_job,
            next_node: state.next_node,
            specs,
            jobs,
            arrays: state.index.arrays.iter().map(|(id, record)| (*id, *record)).collect(),
            nodes: state.nodes.values().cloned().collect(),
            partitions: state.partitions.values().cloned().collect(),
            accounts: state.accounts.values().cloned().collect(),
            qos: state.qos.values().cloned().collect(),
            licences: state.licences.values().cloned().collect(),
            budgets: state.budgets.values().cloned().collect(),
            topology: state.topology,
            reservations: state.reservations.values().cloned().collect(),
            policy: state.policy,
            recent: state.recent.into_iter().collect(),
            waits: state.waits,
        }
    }
}

impl From<Parts> for State {
    fn from(parts: Parts) -> Self {
        let mut state = Self {
            seq: parts.seq,
            now: parts.now,
            last_job: parts.last_job,
            next_node: parts.next_node,
            topology: parts.topology,
            policy: parts.policy,
            recent: parts.recent.into_iter().collect(),
            waits: parts.waits,
            licences: parts.licences.into_iter().map(|l| (l.name.clone(), l)).collect(),
            budgets: parts.budgets.into_iter().map(|b| (b.name.clone(), b)).collect(),
            reservations: parts.reservations.into_iter().map(|r| (r.name.clone(), r)).collect(),
            qos: parts.qos.into_iter().map(|q| (q.name.clone(), q)).collect(),
            accounts: parts.accounts.into_iter().map(|a| (a.name.clone(), a)).collect(),
            partitions: parts.partitions.into_iter().map(|p| (p.name.clone(), p)).collect(),
            tainted: parts.tainted.into_iter().map(|(node, t, at)| ((node, t), at)).collect(),
            ..Self::default()
        };
        state.index.arrays = parts.arrays.into_iter().collect();
        for node in parts.nodes {
            state.index.node_by_name.insert(node.name.clone(), node.id);
            state.nodes.insert(node.id, node);
        }
        for (spec, job) in parts.jobs {
            let spec = parts.specs.get(spec as usize).cloned().unwrap_or_default();
            let job = Arc::new(Job { spec, ..job });
            state.index.add(&job);
            state.jobs.insert(job.id, job);
        }
        state.restore_usage(parts.usage);
        state
    }
}

impl Index {
    /// Takes a job up into the sets that its state puts it in. Array counts are kept apart.
    pub(crate) fn add(&mut self, job: &Job) {
        if !job.state.is_over() {
            self.unfinished
                .entry((job.spec.owner.uid, job.spec.name.clone()))
                .or_default()
                .insert(job.id);
            if let Some(gang) = &job.spec.gang {
                let key = (job.spec.owner.uid, gang.name.clone());
                self.gangs.entry(key).or_default().insert(job.id);
            }
        }
        self.add_standing(job);
    }

    /// Puts a changed job in the place of the old one.
    pub(crate) fn replace(&mut self, old: &Job, new: &Job) {
        let unfinished = !old.state.is_over() && !new.state.is_over();
        if unfinished && Arc::ptr_eq(&old.spec, &new.spec) {
            // Whose it is stays as it is.
            self.remove_standing(old);
            self.add_standing(new);
        } else {
            self.remove(old);
            self.add(new);
        }
    }

    fn add_standing(&mut self, job: &Job) {
        if job.state.is_over() {
            self.ended.insert((job.ended.unwrap_or_default(), job.id));
        } else if job.is_pending() {
            self.pending.insert(job.id);
            if job.claim.is_some() {
                self.claimants.insert(job.id);
            }
            for target in job.gates.iter().filter_map(|g| g.target) {
                self.dependents.entry(target).or_default().insert(job.id);
            }
        } else {
            self.active.insert(job.id);
            if job.eviction.is_some() || job.resumes {
                self.evicted.insert(job.id);
            }
            if job.turn.is_some() {
                self.turns.insert(job.id);
            }
            if job.spec.elastic != crate::Elastic::No {
                self.elastic.insert(job.id);
            }
            for share in job.placement.iter().flat_map(|p| &p.nodes) {
                self.on_node.entry(share.node).or_default().insert(job.id);
            }
        }
    }

    /// Takes a job out of every set that [`Index::add`] put it in.
    pub(crate) fn remove(&mut self, job: &Job) {
        if !job.state.is_over() {
            remove_from(&mut self.unfinished, &(job.spec.owner.uid, job.spec.name.clone()), job.id);
            if let Some(gang) = &job.spec.gang {
                remove_from(&mut self.gangs, &(job.spec.owner.uid, gang.name.clone()), job.id);
            }
        }
        self.remove_standing(job);
    }

    fn remove_standing(&mut self, job: &Job) {
        if job.state.is_over() {
            self.ended.remove(&(job.ended.unwrap_or_default(), job.id));
        } else if job.is_pending() {
            self.pending.remove(&job.id);
            self.claimants.remove(&job.id);
            for target in job.gates.iter().filter_map(|g| g.target) {
                remove_from(&mut self.dependents, &target, job.id);
            }
        } else {
            self.active.remove(&job.id);
            self.evicted.remove(&job.id);
            self.turns.remove(&job.id);
            self.elastic.remove(&job.id);
            for share in job.placement.iter().flat_map(|p| &p.nodes) {
                remove_from(&mut self.on_node, &share.node, job.id);
            }
        }
    }
}

fn remove_from<K: Ord + Clone>(map: &mut OrdMap<K, OrdSet<JobId>>, key: &K, id: JobId) {
    let Some(set) = map.get_mut(key) else { return };
    set.remove(&id);
    if set.is_empty() {
        map.remove(key);
    }
}
